"""``afnb what-if BAD --step K --value FILE -- CMD``: change one step and see what becomes of the run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afnb.cli.options import (
    add_agent,
    add_command,
    add_ledger,
    add_replaying,
    add_success,
    ledger_of,
    one_of,
    replaying_of,
    require_upstream,
    whole,
)
from afnb.cli.show import add_output, check_output, show
from afnb.cli.success import FORMS
from afnb.core.jsonvalue import loads
from afnb.errors import InputError, ParameterError

if TYPE_CHECKING:
    from afnb.causal.interventions import Intervention

VERIFIED, UNVERIFIED = 0, 1
KINDS = {
    "value": "--value",
    "graft": "--graft",
    "resample": "--resample",
    "system_prompt": "--system-prompt",
    "drop_message": "--drop-message",
    "insert_message": "--insert-message",
}
"""What can be done to a step; one kind a call."""
ONE_A_STEP = ("value", "system_prompt", "drop_message", "insert_message")


def add_parser(commands: Any) -> None:
    """Arguments of ``what-if``."""
    parser = add_command(
        commands,
        "what-if",
        run,
        help="change one step of a recorded run and measure, beside a control arm, what it does "
        "(exit status 0 verified, 1 Unverified, 2 trouble)",
        usage="BAD --step K --value FILE --success EXPR --upstream URL [options] -- CMD ARGS...",
        example="afnb what-if bad.json --step 4 --value new.json --success 'regex:refund issued' "
        "--upstream https://api.openai.com -- python agent.py",
        takes_command=True,
    )
    parser.add_argument("bad", metavar="BAD", help="the failing recording")
    parser.add_argument(
        "--step", metavar="K", type=whole, action="append", required=True, help="step to change (repeatable)"
    )
    parser.add_argument(
        "--value",
        metavar="FILE",
        action="append",
        default=[],
        help="its new outputs, a JSON or text file; - is stdin (one a step)",
    )
    parser.add_argument("--graft", metavar="GOOD", help="take the aligned step of this good recording")
    parser.add_argument("--resample", action="store_true", help="ask the provider again at the step")
    parser.add_argument(
        "--model", metavar="NAME", help="with --resample: ask this model from the step on, instead of its own"
    )
    parser.add_argument(
        "--system-prompt",
        metavar="FILE",
        action="append",
        default=[],
        help="from the step on, ask with the system prompt in this file; - is stdin (one a step)",
    )
    parser.add_argument(
        "--drop-message",
        metavar="N",
        type=int,
        action="append",
        default=[],
        help="from the step on, ask without message N of its request, counted from 0 (one a step)",
    )
    parser.add_argument(
        "--insert-message",
        metavar="N=FILE",
        action="append",
        default=[],
        help="from the step on, ask with the user message in this file put in at place N (one a step)",
    )
    add_success(parser)
    add_replaying(parser)
    add_ledger(parser)
    add_agent(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Run one experiment by hand."""
    import afnb

    check_output(args)
    changes = list(interventions_of(args))
    if not args.success:
        raise ParameterError(
            f"--success is missing: say what a recovered run looks like, by {FORMS}; "
            "to judge by likeness to a good run: afnb attribute BAD --against GOOD"
        )
    require_upstream(args)
    found = afnb.what_if(
        afnb.load(args.bad),
        changes,
        good=None if args.graft is None else afnb.load(args.graft),
        ledger=ledger_of(args),
        **replaying_of(args),
    )
    show(found, args)
    return VERIFIED if found.label == "verified" else UNVERIFIED


def interventions_of(args: argparse.Namespace) -> Iterator[Intervention]:
    """One intervention per ``--step``.

    Raises
    ------
    ParameterError
        Not exactly one kind of change is given, or not one value per step.
    """
    from afnb.causal.interventions import DropMessage, Edit, Graft, Resample, SystemPrompt

    if args.model and not args.resample:
        raise ParameterError("--model says whom to ask again; give it with --resample")
    kind = one_of(args, KINDS)
    given = getattr(args, kind)
    if kind in ONE_A_STEP and len(given) != len(args.step):
        name = KINDS[kind]
        raise ParameterError(
            f"{len(args.step)} --step and {len(given)} {name} are given; give each --step one {name}"
        )
    for i, step in enumerate(args.step):
        if kind == "value":
            yield Edit(step, value_of(given[i]))
        elif kind == "system_prompt":
            yield SystemPrompt(step, text_of("--system-prompt", given[i]))
        elif kind == "drop_message":
            yield DropMessage(step, given[i])
        elif kind == "insert_message":
            yield inserted(step, given[i])
        else:
            yield Graft(step) if kind == "graft" else Resample(step, args.model)


def inserted(step: int, given: str) -> Intervention:
    """The message that ``N=FILE`` puts in.

    Raises
    ------
    ParameterError
        It has another form, or the file is no text.
    """
    from afnb.causal.interventions import InsertMessage

    place, _, name = given.partition("=")
    if not place.removeprefix("-").isdecimal() or not name:
        raise ParameterError(
            f"--insert-message {given}: it is N=FILE, a place among the messages of the step's request and "
            "the file that holds the text, e.g. --insert-message 1=hint.txt"
        )
    return InsertMessage(step, int(place), text_of("--insert-message", name))


def text_of(option: str, name: str) -> str:
    """The text of a file, without the line end that closes it; ``-`` reads stdin.

    Raises
    ------
    ParameterError
        The bytes are no text.
    """
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ParameterError(f"{option} {name}: byte {error.start} is no UTF-8; give a text file") from None
    return text.removesuffix("\n")


def value_of(name: str) -> Any:
    """A step's new value: the file's JSON, or its text where it is no JSON; ``-`` reads stdin.

    Raises
    ------
    ParameterError
        The bytes are no text.
    """
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ParameterError(
            f"--value {name}: byte {error.start} is no UTF-8; a value is JSON or text"
        ) from None
    try:
        return loads(text)
    except InputError:
        return text
