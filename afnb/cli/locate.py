"""``afnb locate BAD --success EXPR -- CMD``: at which step a run was lost, without a good run."""

from __future__ import annotations

import argparse
from typing import Any

from afnb.cli.options import (
    add_agent,
    add_command,
    add_ledger,
    add_replaying,
    add_success,
    count,
    ledger_of,
    replaying_of,
    require_upstream,
)
from afnb.cli.show import add_output, check_output, show
from afnb.cli.success import FORMS
from afnb.errors import ParameterError

VERIFIED, UNVERIFIED = 0, 1


def add_parser(commands: Any) -> None:
    """Arguments of ``locate``."""
    parser = add_command(
        commands,
        "locate",
        run,
        help="find the step at which a run stops recovering, without a good run "
        "(exit status 0 verified, 1 Unverified, 2 trouble)",
        usage="BAD --success EXPR --upstream URL [options] -- CMD ARGS...",
        example="afnb locate bad.json --success 'regex:refund issued' --upstream https://api.openai.com "
        "-- python agent.py",
        takes_command=True,
        hint="run it again with the same --ledger to go on",
    )
    parser.add_argument("bad", metavar="BAD", help="the failing recording")
    parser.add_argument(
        "--mode",
        choices=("bisect", "curve"),
        default="bisect",
        help="ask where the replays say most (default), or measure the recovery rate at every step",
    )
    parser.add_argument(
        "--replays",
        metavar="N",
        type=count,
        help="replays of a bisection at most (default 60), or of a curve at each step (default 20)",
    )
    add_success(parser)
    add_replaying(parser)
    add_ledger(parser)
    add_agent(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Locate, print, and say by the exit status whether it is verified."""
    import afnb

    check_output(args)
    if not args.success:
        raise ParameterError(f"--success is missing: say what a recovered run looks like, by {FORMS}")
    require_upstream(args)
    found = afnb.locate(
        afnb.load(args.bad),
        mode=args.mode,
        replays=args.replays,
        ledger=ledger_of(args),
        **replaying_of(args),
    )
    show(found, args)
    return VERIFIED if found.label == "verified" else UNVERIFIED
