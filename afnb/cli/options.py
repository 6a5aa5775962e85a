"""Arguments that several commands share, and how they become the library's values."""

from __future__ import annotations

import argparse
import math
import os
from typing import TYPE_CHECKING, Any, Literal

from afnb.cli.success import oracle_of
from afnb.cli.upstreams import add_base_url, add_tool_upstream, add_upstream, base_urls_of, upstream_of
from afnb.errors import ParameterError

if TYPE_CHECKING:
    from afnb.causal.consensus import SequentialConsensus
    from afnb.core.matching import Matching
    from afnb.core.redaction import Redaction
    from afnb.experiments.agents import Command
    from afnb.experiments.budget import Budget


def add_command(
    commands: Any,
    name: str,
    run: Any,
    *,
    help: str,
    usage: str,
    example: str,
    takes_command: bool = False,
    hint: str = "",
) -> argparse.ArgumentParser:
    """Make a command's parser; ``run(args)`` returns the exit status."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=help,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage=f"afnb {name} {usage}",
    )
    parser.set_defaults(run=run, takes_command=takes_command, prog=f"afnb {name}", resume_hint=hint)
    if takes_command:
        parser.epilog = f"the agent's command follows --\n\n{parser.epilog}"
    return parser


def add_agent(parser: argparse.ArgumentParser) -> None:
    """How the agent is started."""
    group = parser.add_argument_group("agent")
    add_base_url(group)
    group.add_argument(
        "--timeout-s",
        metavar="S",
        type=seconds,
        default=60.0,
        help="end a run after so many seconds, none for no limit (default 60; record: none)",
    )
    group.add_argument("--cwd", metavar="DIR", help="working directory of the agent")
    group.add_argument(
        "--block-network",
        action="store_true",
        help="refuse, and count by host, what the agent sends past its base URL (clients that follow the "
        "environment's proxies)",
    )


def add_replaying(parser: argparse.ArgumentParser) -> None:
    """How replays are run, judged and paid for."""
    group = parser.add_argument_group("replays")
    add_upstream(group, help="the provider that answers live requests")
    add_tool_upstream(group)
    group.add_argument(
        "--n-jobs", metavar="N", type=jobs, default=4, help="replays at a time (default 4; -1: one per core)"
    )
    group.add_argument("--seed", metavar="N", type=whole, default=0, help="seed of all replays (default 0)")
    add_rule(group)
    add_allow_tools(group)
    add_matching(parser)
    add_budget(parser)


def add_rule(group: Any) -> None:
    """The rule that decides over replays."""
    group.add_argument(
        "--alpha", metavar="P", type=share, default=0.05, help="bound on a false verdict (default 0.05)"
    )
    group.add_argument(
        "--min-effect", metavar="P", type=share, default=0.5, help="least effect worth finding (default 0.5)"
    )
    group.add_argument(
        "--max-replays",
        metavar="N",
        type=count,
        default=40,
        help="replays of one experiment at most (default 40)",
    )


def add_budget(parser: argparse.ArgumentParser) -> None:
    """What may be spent."""
    budget = parser.add_argument_group("budget")
    budget.add_argument(
        "--budget-live-calls",
        metavar="N",
        type=limit,
        default=200,
        help="live calls (default 200; none: no limit)",
    )
    budget.add_argument("--budget-tokens", metavar="N", type=limit, default=None, help="tokens of live calls")
    budget.add_argument("--budget-seconds", metavar="S", type=seconds, default=None, help="wall time")
    budget.add_argument("--budget-dollars", metavar="USD", type=positive, default=None, help="needs --price")
    budget.add_argument(
        "--price",
        metavar="MODEL=IN,OUT",
        action="append",
        type=price,
        default=[],
        help="dollars per million input and output tokens (repeatable)",
    )


def add_ledger(parser: argparse.ArgumentParser) -> None:
    """Where finished replays are kept."""
    parser.add_argument(
        "--ledger",
        metavar="DIR",
        help="keep finished replays in this folder; run again, it goes on where it stopped and repeats none",
    )


def ledger_of(args: argparse.Namespace) -> str | None:
    """The folder of finished replays."""
    return str(args.ledger) if args.ledger else None


def add_allow_tools(parser: Any) -> None:
    """Which tools may really run."""
    parser.add_argument(
        "--allow-tools",
        metavar="NAMES",
        action="append",
        default=[],
        help="tools that may really run again in replays, separated by commas (repeatable)",
    )


def add_redaction(parser: argparse.ArgumentParser) -> None:
    """What is taken out of bodies before anything is written."""
    group = parser.add_argument_group(
        "redaction", "taken out before disk, and in every later replay and copy"
    )
    group.add_argument(
        "--redact", metavar="PATH", action="append", default=[], help="JSON path to blank (repeatable)"
    )
    group.add_argument(
        "--redact-pattern", metavar="REGEX", action="append", default=[], help="text to blank (repeatable)"
    )
    group.add_argument(
        "--redact-secrets",
        action="store_true",
        help="blank what looks like a credential: fields such as api_key and password wherever they stand, "
        "and the usual forms of keys and tokens in texts",
    )


def redaction_of(args: argparse.Namespace) -> Redaction | None:
    """The ``Redaction`` that the arguments describe; None if they name nothing."""
    from afnb.core.redaction import Redaction

    asked = Redaction(tuple(args.redact), tuple(args.redact_pattern))
    if args.redact_secrets:
        asked = Redaction.secrets().merged(asked)
    return asked if asked.paths or asked.patterns else None


def add_matching(parser: argparse.ArgumentParser) -> None:
    """How re-issued requests are compared with recorded ones."""
    group = parser.add_argument_group(
        "matching", "what a re-issued request may differ in; any of these replaces the recording's own rules"
    )
    group.add_argument(
        "--match",
        metavar="NAMES",
        action="append",
        default=[],
        help="also forgive these: rules (stream_mode, metadata, url_ids) or ready-made patterns (dates, "
        "times, durations, uuids, hex_addresses, paths, line_numbers), separated by commas (repeatable)",
    )
    group.add_argument(
        "--match-off",
        metavar="NAMES",
        action="append",
        default=[],
        help="rules that are on by default and shall not be (numbers, tool_call_ids, ...)",
    )
    group.add_argument(
        "--match-ignore",
        metavar="PATH",
        action="append",
        default=[],
        help="JSON path of a body that never counts, such as metadata.run_id (repeatable)",
    )
    group.add_argument(
        "--match-pattern",
        metavar="NAME=REGEX",
        action="append",
        default=[],
        help="text that counts as its name alone, on both sides (repeatable)",
    )


def add_success(parser: argparse.ArgumentParser) -> None:
    """How a replay is judged without a good run."""
    parser.add_argument(
        "--success",
        metavar="EXPR",
        help="what a recovered run looks like: regex:PATTERN in its answer, jsonpath:PATH that holds in it "
        "(such as '$.status == \"paid\"'), cmd:COMMAND that reads the run as JSON and ends with 0 "
        "(1: not recovered)",
    )


def agent_of(args: argparse.Namespace, *, capture: bool | Literal["tee"] = True) -> Command:
    """The ``Command`` that the arguments describe; ``capture`` says whose terminal it uses."""
    from afnb.experiments.agents import Command

    urls = base_urls_of(args)
    plain = next(iter(urls)) if len(urls) == 1 else tuple(urls)
    return Command(
        args.command_line,
        base_url_env=urls if any(urls.values()) else plain,
        timeout_s=args.timeout_s,
        cwd=args.cwd,
        capture=capture,
        block_network=args.block_network,
    )


def matching_of(args: argparse.Namespace) -> Matching | None:
    """The ``Matching`` that the arguments describe; None if they say nothing of it.

    Raises
    ------
    ParameterError
        A name that is neither a rule nor a ready-made pattern, a path or a pattern that cannot be read.
    """
    from afnb.core.matching import READY_PATTERNS, RULE_NAMES, Matching, Pattern

    if not (args.match or args.match_off or args.match_ignore or args.match_pattern):
        return None
    matching = Matching()
    ready = [pattern.name for pattern in READY_PATTERNS]
    for name in names_in(args.match):
        if name not in RULE_NAMES and name not in ready:
            raise ParameterError(
                f"--match {name!r} is neither a rule ({', '.join(RULE_NAMES)}) nor a ready-made pattern "
                f"({', '.join(ready)})"
            )
        matching = matching.on(name) if name in RULE_NAMES else matching.replacing(name)
    for text in args.match_pattern:
        name, equals, regex = text.partition("=")
        if not (name and equals and regex):
            raise ParameterError(f"--match-pattern {text!r} is not NAME=REGEX, such as run='run-[0-9a-f]+'")
        matching = matching.replacing(Pattern(name, regex))
    return matching.off(*names_in(args.match_off)).ignoring(*args.match_ignore)


def names_in(values: list[str]) -> list[str]:
    """Names given with a repeatable option, each value holding several separated by commas."""
    return [name.strip() for names in values for name in names.split(",") if name.strip()]


def budget_of(args: argparse.Namespace) -> Budget:
    """The ``Budget`` that the arguments describe."""
    from afnb.experiments.budget import Budget

    return Budget(
        live_calls=args.budget_live_calls,
        tokens=args.budget_tokens,
        dollars=args.budget_dollars,
        seconds=args.budget_seconds,
        prices=dict(args.price) or None,
    )


def rule_of(args: argparse.Namespace) -> SequentialConsensus:
    """The consensus rule that the arguments describe."""
    from afnb.causal.consensus import SequentialConsensus

    return SequentialConsensus(alpha=args.alpha, min_effect=args.min_effect, max_replays=args.max_replays)


def replaying_of(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments that ``attribute`` and ``what_if`` share."""
    return {
        "agent": agent_of(args),
        "upstream": upstream_of(args),
        "oracle": oracle_of(args.success) if args.success else None,
        "consensus": rule_of(args),
        "n_jobs": args.n_jobs,
        "budget": budget_of(args),
        "allow_tools": tools_of(args),
        "matching": matching_of(args),
        "seed": args.seed,
    }


def require_upstream(args: argparse.Namespace) -> None:
    """Refuse to begin without anybody to ask.

    Raises
    ------
    ParameterError
        ``--upstream`` is not given.
    """
    if not args.upstream:
        raise ParameterError(
            "--upstream is missing: requests after the changed step go live; give the origin of the provider "
            "that answers them, such as --upstream https://api.openai.com"
        )


def tools_of(args: argparse.Namespace) -> list[str]:
    """Names given with ``--allow-tools``."""
    return names_in(args.allow_tools)


def one_of(args: argparse.Namespace, names: dict[str, str]) -> str:
    """The one option among ``names`` (attribute to option) that was given.

    Raises
    ------
    ParameterError
        None or several were given.
    """
    given = [name for name in names if getattr(args, name) not in (None, [], False)]
    if len(given) != 1:
        found = " and ".join(names[name] for name in given) if given else "none of them"
        raise ParameterError(f"give one of {', '.join(names.values())}; found {found}")
    return given[0]


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value


def positive(text: str) -> float:
    """A positive number."""
    value = _number(text, "a positive number")
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def seconds(text: str) -> float | None:
    """A positive number of seconds; ``none`` for no limit."""
    return None if text == "none" else positive(text)


def share(text: str) -> float:
    """A number between 0 and 1, both excluded."""
    value = _number(text, "a number between 0 and 1")
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return value


def rate(text: str) -> float:
    """A number from 0 to 1."""
    value = _number(text, "a number from 0 to 1")
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def whole(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isdecimal() or not text.isascii():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def count(text: str) -> int:
    """A whole number of at least 1."""
    value = whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return value


def limit(text: str) -> int | None:
    """A whole number of at least 0; ``none`` for no limit."""
    return None if text == "none" else whole(text)


def jobs(text: str) -> int:
    """A whole number of at least 1; -1 is one per core."""
    return os.cpu_count() or 1 if text == "-1" else count(text)


def price(text: str) -> tuple[str, tuple[float, float]]:
    """``MODEL=IN,OUT``."""
    model, _, numbers = text.rpartition("=")
    parts = numbers.split(",")
    if not model or len(parts) != 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not MODEL=IN,OUT, such as gpt-4o=2.5,10")
    dollars = tuple(_number(part, "a number of dollars") for part in parts)
    return model, (dollars[0], dollars[1])
