"""``afnb attribute BAD --against GOOD -- CMD``: which step made the run fail."""

from __future__ import annotations

import argparse
from typing import Any

from afnb.cli.options import (
    add_agent,
    add_command,
    add_ledger,
    add_replaying,
    add_success,
    ledger_of,
    replaying_of,
    require_upstream,
)
from afnb.cli.show import add_output, check_output, show

VERIFIED, UNVERIFIED = 0, 1


def add_parser(commands: Any) -> None:
    """Arguments of ``attribute``."""
    parser = add_command(
        commands,
        "attribute",
        run,
        help="find the step that made a run fail, by replays beside a control arm "
        "(exit status 0 verified, 1 Unverified, 2 trouble)",
        usage="BAD --against GOOD --upstream URL [options] -- CMD ARGS...",
        example="afnb attribute bad.json --against good.json --upstream https://api.openai.com "
        "-- python agent.py",
        takes_command=True,
        hint="run it again with the same --ledger to go on",
    )
    parser.add_argument("bad", metavar="BAD", help="the failing recording")
    parser.add_argument("--against", metavar="GOOD", required=True, help="a good recording of the same task")
    parser.add_argument(
        "--origin",
        action="store_true",
        help="also show that the recovery rate drops at the step (more replays)",
    )
    add_success(parser)
    add_replaying(parser)
    add_ledger(parser)
    add_agent(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Attribute, print, and say by the exit status whether it is verified."""
    import afnb

    check_output(args)
    require_upstream(args)
    found = afnb.attribute(
        afnb.load(args.bad),
        afnb.load(args.against),
        origin=args.origin,
        ledger=ledger_of(args),
        **replaying_of(args),
    )
    show(found, args)
    return VERIFIED if found.label == "verified" else UNVERIFIED
