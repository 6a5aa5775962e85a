"""``afnb record --out X.json --upstream URL -- CMD``: run an agent and keep what it and its provider said."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from afnb.cli.options import (
    add_agent,
    add_command,
    add_matching,
    add_redaction,
    agent_of,
    matching_of,
    redaction_of,
    whole,
)
from afnb.cli.upstreams import add_tool_upstream, add_upstream, base_urls_of, upstream_of
from afnb.errors import ParameterError

if TYPE_CHECKING:
    from afnb.experiments.agents import AgentResult

NOTHING_RECORDED = 2


def add_parser(commands: Any) -> None:
    """Arguments of ``record``."""
    parser = add_command(
        commands,
        "record",
        run,
        help="run an agent and record its exchanges with the provider (passes on the agent's exit status)",
        usage="--out FILE --upstream URL [options] -- CMD ARGS...",
        example="afnb record --out run.json --upstream openai -- python agent.py\n  "
        "afnb record --out run.json --upstream openai --upstream local=http://127.0.0.1:8000 "
        "--base-url-env LOCAL_URL=local/v1 -- node agent.js",
        takes_command=True,
        hint="finished exchanges are kept; go on with: the same command and --append",
    )
    parser.add_argument(
        "--out", metavar="FILE", required=True, help="the new cassette; none is ever overwritten"
    )
    add_upstream(parser, required=True, help="the provider")
    add_tool_upstream(parser)
    parser.add_argument("--append", action="store_true", help="go on where an existing recording ends")
    parser.add_argument("--task", metavar="TEXT", help="what the agent was asked to do, kept in the cassette")
    parser.add_argument(
        "--seed", metavar="N", type=whole, default=0, help="AFNB_SEED of the agent (default 0)"
    )
    add_redaction(parser)
    add_matching(parser)
    add_agent(parser)
    parser.set_defaults(timeout_s=None)


def run(args: argparse.Namespace) -> int:
    """Record one run."""
    import afnb

    if not args.append:
        check_new(args.out)
    done = afnb.record(
        agent_of(args, capture=False if os.isatty(1) else "tee"),
        upstream_of(args),
        args.out,
        seed=args.seed,
        task=args.task,
        redaction=redaction_of(args),
        matching=matching_of(args),
        append=args.append,
        say=lambda notice: print(f"afnb record: {notice}", file=sys.stderr, flush=True),
    )
    pass_on(replace(done.agent, stdout=None))  # passed on while it ran
    said = (
        (f"no request came here, so nothing was recorded: {reads(args)}",) if done.silent else done.warnings
    )
    for warning in said:
        print(f"afnb record: {warning}", file=sys.stderr)
    if done.path is None:
        return done.exit_status or NOTHING_RECORDED
    print(f"afnb record: {len(done.cassette)} exchanges in {done.path}", file=sys.stderr)
    return int(done.exit_status)


def check_new(out: str) -> None:
    """Refuse a recording that is there already, or was left unfinished, in the command line's words.

    Raises
    ------
    ParameterError
        There is one.
    """
    from afnb.io.files import refuse_existing
    from afnb.io.journal import journal_path

    refuse_existing(out, "go on with it: --append")
    if os.path.lexists(journal_path(out)):
        raise ParameterError(
            f"{journal_path(out)} is left from a recording that was not closed; choose another name, "
            f"go on with it: --append, or close it: afnb recover {out}"
        )


def reads(args: argparse.Namespace) -> str:
    """The question to ask of an agent that asked nothing."""
    names = " or ".join(base_urls_of(args))
    return f"does the agent read {names}? --base-url-env names another variable"


def pass_on(agent: AgentResult, *, aside: bool = False) -> None:
    """The agent's own output on ours (``aside``: all of it on stderr), and how it failed, if it did."""
    if agent.stdout:
        print(agent.stdout, end="", file=sys.stderr if aside else sys.stdout, flush=True)
    if agent.stderr:
        print(agent.stderr, end="", file=sys.stderr, flush=True)
    if agent.error:
        print(f"afnb: {agent.error}", file=sys.stderr)
