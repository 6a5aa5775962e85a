"""``afnb batch PAIRS --out DIR -- CMD``: attribute many failing runs unattended, and report."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afnb.cli.options import (
    add_agent,
    add_command,
    add_replaying,
    add_success,
    agent_of,
    budget_of,
    replaying_of,
    require_upstream,
)
from afnb.cli.show import print_page, to_json
from afnb.cli.success import oracle_of

if TYPE_CHECKING:
    from afnb.experiments.batch_result import Batch
    from afnb.experiments.gates import Gate
    from afnb.experiments.pairs import BatchPair

DECIDED, GATE_FAILED, TROUBLE, BUDGET_SPENT, NO_PAIRS, INTERRUPTED = 0, 1, 2, 3, 4, 130
PER_PAIR = -1
REPORT = "report.html"

STATUS = (
    "exit status: 0 all pairs have a verdict, or the gates passed; 1 a gate failed (without --gate: a pair "
    "has no verdict); 2 trouble, or a pair that could not be run; 3 the budget was spent before all pairs "
    "were decided; 4 there were no pairs; 130 interrupted. The report is written in every case."
)


def add_parser(commands: Any) -> None:
    """Arguments of ``batch``."""
    parser = add_command(
        commands,
        "batch",
        run,
        help="attribute many failing runs under one budget, resume where it stopped, and write a report",
        usage="PAIRS --out DIR --upstream URL [options] -- CMD ARGS...",
        example="afnb batch runs/ --out nightly --upstream https://api.openai.com -- python agent.py "
        "--task {task}",
        takes_command=True,
        hint="run the same again to go on where it stopped",
    )
    parser.epilog = f"{STATUS}\n\n{parser.epilog}"
    parser.add_argument(
        "pairs",
        metavar="PAIRS",
        help="a folder of NAME/bad.json beside NAME/good*.json, or a manifest (JSON, JSON lines, CSV, "
        "Parquet) with the columns bad, good (one or several), and as you like name, task, success and "
        "labels; {name}, {task} and {label} in the agent's command stand for the pair's own",
    )
    parser.add_argument(
        "--out", metavar="DIR", required=True, help="folder that keeps everything; go on by naming it again"
    )
    parser.add_argument("--report", metavar="FILE", help="also write the report here (.html, .md, .json)")
    parser.add_argument(
        "--origin",
        action="store_true",
        help="also show that the recovery rate drops at the found step (more replays)",
    )
    parser.add_argument(
        "--backend",
        metavar="NAME",
        default="threading",
        help="threading (default), loky (processes), dask or ray",
    )
    add_gates(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document (versioned), nothing else"
    )
    add_success(parser)
    add_replaying(parser)
    add_agent(parser)
    parser.set_defaults(budget_live_calls=PER_PAIR)


def add_gates(parser: argparse.ArgumentParser) -> None:
    """``--gate``."""
    parser.add_argument(
        "--gate",
        metavar="EXPR",
        action="append",
        default=[],
        help="what must hold for exit status 0, such as verified>=80%% or error<=0 (repeatable)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the batch, write the report, and say by the exit status what came of it."""
    import afnb
    from afnb.experiments.gates import as_gate
    from afnb.experiments.pairs import as_pairs

    gates = [as_gate(text) for text in args.gate]
    require_upstream(args)
    pairs = [judged(pair) for pair in as_pairs(args.pairs)]
    if args.budget_live_calls == PER_PAIR:
        from afnb.experiments.batch import CALLS_PER_PAIR

        args.budget_live_calls = CALLS_PER_PAIR * max(1, len(pairs))
    options = {**replaying_of(args), "budget": budget_of(args), "agent": agent_of(args)}
    options["ledger"] = args.out
    batch = afnb.attribute_many(pairs, origin=args.origin, backend=args.backend, **options)
    written = [batch.report(Path(args.out) / REPORT)]
    if args.report:
        written.append(batch.report(args.report))
    if args.json:
        print(to_json(batch))
    else:
        print_page(replace(batch.page(), next=tuple(f"open {path}" for path in written)))
    return status(batch, gates)


def judged(pair: BatchPair) -> BatchPair:
    """The pair with the oracle that its column ``success`` describes, if it has one."""
    text = pair.label("success")
    return pair if text is None or pair.oracle is not None else replace(pair, oracle=oracle_of(text))


def status(batch: Batch, gates: list[Gate]) -> int:
    """The exit status, and on stderr why it is not 0."""
    from afnb.experiments.gates import failed_gates
    from afnb.experiments.purse import INTERRUPTED as STOPPED

    found = batch.tally
    failed = failed_gates(gates, found)
    for gate in gates:
        _say(f"gate {gate.sentence(found)}")
    if batch.stopped == STOPPED:
        _say("interrupted; run the same again to go on where it stopped")
        return INTERRUPTED
    if not found.pairs:
        _say("no pairs were found, so nothing was run")
        return NO_PAIRS
    if batch.stopped and found.open:
        _say(f"{found.open} pairs are left: {batch.stopped}")
        return BUDGET_SPENT if batch.stopped.startswith("budget") else TROUBLE
    if gates:
        return GATE_FAILED if failed else DECIDED
    if found.error:
        _say(f"{found.error} of {found.pairs} pairs could not be run")
        return TROUBLE
    if found.verified < found.pairs:
        _say(f"{found.pairs - found.verified} of {found.pairs} pairs have no verdict")
        return GATE_FAILED
    return DECIDED


def _say(text: str) -> None:
    print(f"afnb batch: {text}", file=sys.stderr, flush=True)
