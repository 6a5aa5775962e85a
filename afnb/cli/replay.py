"""``afnb replay X.json -- CMD``: run an agent against a recording; ``--check``: is it reproducible?"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from afnb.cli.options import (
    add_agent,
    add_allow_tools,
    add_command,
    add_matching,
    agent_of,
    matching_of,
    tools_of,
    whole,
)
from afnb.cli.record import pass_on, reads
from afnb.cli.show import add_output, show
from afnb.cli.upstreams import add_tool_upstream, add_upstream, upstream_of
from afnb.errors import ParameterError

FAITHFUL, DIFFERS, NOTHING_SERVED = 0, 1, 2


def add_parser(commands: Any) -> None:
    """Arguments of ``replay``."""
    parser = add_command(
        commands,
        "replay",
        run,
        help="run an agent against a recording (passes on the agent's exit status; 2 if nothing was served; "
        "with --check: 0 if the replay is faithful, 1 if it differs)",
        usage="RECORDING [options] -- CMD ARGS...",
        example="afnb replay run.json --check -- python agent.py",
        takes_command=True,
    )
    parser.add_argument("recording", metavar="RECORDING", help="the cassette that answers")
    parser.add_argument(
        "--check",
        action="store_true",
        help="say whether the agent does from the recording alone what it did when it was recorded: "
        "everything served, nothing missed, the same answer",
    )
    add_upstream(parser, help="who answers what the recording does not (default: nobody, it is refused)")
    add_tool_upstream(parser)
    parser.add_argument(
        "--serve-through",
        metavar="K",
        type=exchange,
        help="answer from the recording through exchange K only (-1: nothing) and go live after it",
    )
    parser.add_argument(
        "--repeat",
        choices=("in_order", "first", "error"),
        default="in_order",
        help="what a request gets that is asked more often than recorded: the last answer again (in_order, "
        "the default), always the first, or an error",
    )
    parser.add_argument(
        "--pace",
        metavar="P",
        type=pace,
        default="at once",
        help="'at once' (default), 'as recorded', or a factor on the recorded times",
    )
    parser.add_argument(
        "--interactive",
        action="store_true",
        help="let the agent use this terminal, for input as well (its output is not captured)",
    )
    parser.add_argument("--save", metavar="FILE", help="write the whole re-run as a new cassette")
    parser.add_argument(
        "--seed", metavar="N", type=whole, default=0, help="AFNB_SEED of the agent (default 0)"
    )
    add_allow_tools(parser)
    add_matching(parser)
    add_agent(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Replay one run."""
    import afnb
    from afnb.experiments.record import shell_status
    from afnb.io.files import refuse_existing
    from afnb.io.formats.cassette import write_cassette

    if args.save:
        refuse_existing(args.save)
    if args.check and (args.upstream or args.serve_through is not None):
        raise ParameterError(
            "--check replays from the recording alone; leave --upstream and --serve-through out"
        )
    found = afnb.replay(
        args.recording,
        agent=agent_of(args, capture=not args.interactive),
        upstream=upstream_of(args),
        seed=args.seed,
        matching=matching_of(args),
        serve_through=args.serve_through,
        repeat=args.repeat,
        pace=args.pace,
        allow_tools=tools_of(args),
    )
    if not args.check:
        pass_on(found.agent, aside=args.json)
    if args.save:
        write_cassette(found.recording, args.save)
    show(found, args)
    if not found.report.served and args.serve_through != -1:
        if found.report.requests:
            why = f": {found.report.requests} requests came, and none is on it"
        else:
            why = f": {reads(args)}" if found.agent.status == "finished" else ""
        print(f"afnb replay: nothing of {args.recording} was served{why}", file=sys.stderr)
        return NOTHING_SERVED
    if args.check:
        return FAITHFUL if found.faithful else DIFFERS
    return shell_status(found.agent)


def exchange(text: str) -> int:
    """The number of an exchange, or -1."""
    return -1 if text == "-1" else whole(text)


def pace(text: str) -> float | str:
    """``at once``, ``as recorded`` or a factor."""
    try:
        return float(text)
    except ValueError:
        return text
