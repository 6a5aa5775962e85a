"""``afnb plan BAD``: what an experiment will take, before anything is started. No agent is needed."""

from __future__ import annotations

import argparse
from typing import Any

from afnb.cli.options import (
    add_allow_tools,
    add_budget,
    add_command,
    add_rule,
    budget_of,
    count,
    rate,
    rule_of,
    tools_of,
    whole,
)
from afnb.cli.show import add_output, check_output, show
from afnb.errors import ParameterError


def add_parser(commands: Any) -> None:
    """Arguments of ``plan``."""
    parser = add_command(
        commands,
        "plan",
        run,
        help="say how many replays, live calls, tokens and dollars locate, what-if or attribute will take; "
        "starts nothing (exit status 0, 1 if the budget would stop it first, 2 trouble)",
        usage="BAD [--step K | --against GOOD] [options]",
        example="afnb plan bad.json --against good.json --price gpt-4o=2.5,10",
    )
    parser.add_argument("bad", metavar="BAD", help="the failing recording")
    parser.add_argument(
        "--step", metavar="K", type=whole, action="append", help="plan a what-if on this step (repeatable)"
    )
    parser.add_argument("--against", metavar="GOOD", help="plan an attribute against this good recording")
    parser.add_argument("--origin", action="store_true", help="with --against: also show the drop")
    parser.add_argument("--mode", choices=("bisect", "curve"), default="bisect", help="of a locate")
    parser.add_argument("--replays", metavar="N", type=count, help="of a locate")
    group = parser.add_argument_group("assumptions and rule")
    group.add_argument(
        "--patch-rate",
        metavar="P",
        type=rate,
        default=0.9,
        help="recovery rate with the cause changed or still ahead (default 0.9)",
    )
    group.add_argument(
        "--control-rate", metavar="P", type=rate, default=0.1, help="and with it as recorded (default 0.1)"
    )
    group.add_argument("--seed", metavar="N", type=whole, default=0, help="of the rehearsals (default 0)")
    add_rule(group)
    add_allow_tools(group)
    add_budget(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Plan, print, and say by the exit status whether the budget suffices."""
    import afnb

    check_output(args)
    if args.step and args.against:
        raise ParameterError("give --step (a what-if) or --against (an attribute), not both")
    found = afnb.plan(
        afnb.load(args.bad),
        afnb.load(args.against) if args.against else None,
        intervention=args.step,
        mode=args.mode,
        replays=args.replays,
        origin=args.origin,
        consensus=rule_of(args),
        budget=budget_of(args),
        patch_rate=args.patch_rate,
        control_rate=args.control_rate,
        seed=args.seed,
        allow_tools=tools_of(args),
    )
    show(found, args)
    return 1 if found.stopped_by() else 0
