"""``afnb diff BAD --against GOOD``: where two runs part. Ends as diff(1) does."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from afnb.cli.options import add_command
from afnb.cli.show import add_output, check_output, show

CONVERGED, FORKED, NOT_COMPARABLE = 0, 1, 2


def add_parser(commands: Any) -> None:
    """Arguments of ``diff``."""
    parser = add_command(
        commands,
        "diff",
        run,
        help="show where two runs part (exit status 0 converged, 1 forked, 2 not comparable or trouble)",
        usage="BAD --against GOOD [options]",
        example="afnb diff bad.json --against good.json",
    )
    parser.add_argument("bad", metavar="BAD", help="the failing run: a cassette, a trace, an event log")
    parser.add_argument("--against", metavar="GOOD", required=True, help="the run to compare it with")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Load, compare, print."""
    import afnb

    check_output(args)
    found = afnb.diff(afnb.load(args.bad), afnb.load(args.against))
    show(found, args)
    if not found.comparable:
        print(f"afnb diff: the runs cannot be compared: {found.reason}", file=sys.stderr)
        return NOT_COMPARABLE
    return CONVERGED if found.fork is None else FORKED
