"""Cards of recordings: what is in a cassette, and the steps of a run."""

from __future__ import annotations

from collections import Counter
from typing import Any

from afnb.core.cassette import Cassette
from afnb.core.jsonvalue import MISSING, dumps
from afnb.core.page import CARDS, Badge, Facts, Page, Part, Table, Text, Tone
from afnb.core.run import Run, Step, Warn
from afnb.core.steps import run_from_cassette

SHOWN_STEPS = 40
SHOWN_CHARACTERS = 110
OUTCOME_TONES: dict[str | None, Tone] = {"pass": "good", "fail": "bad"}


def cassette_page(cassette: Cassette) -> Page:
    """The card of a cassette: how many exchanges of what kind, and the steps they make."""
    run = run_from_cassette(cassette)
    statuses = Counter(exchange.response.status for exchange in cassette.exchanges)
    facts = [
        ("exchanges", f"{len(cassette.exchanges)} ({counted(statuses)})" if statuses else "none"),
        ("steps", step_counts(run)),
    ]
    streams = sum(exchange.response.chunks is not None for exchange in cassette.exchanges)
    if streams:
        facts.append(("streamed", str(streams)))
    if cassette.tool_exchanges:
        facts.append(("tool exchanges", str(len(cassette.tool_exchanges))))
    note = cassette.attrs.get("simulated")
    if note:
        facts.append(("provider", "simulated"))
    parts = [Facts((*facts, *run_facts(run))), *step_parts(run), *warning_parts(run.warnings)]
    following = ("afnb.diff(bad, good)", "afnb.replay(bad, agent=...)")
    return Page(f"Recording {cassette.id}", outcome_badge(run), tuple(parts), following)


def run_page(run: Run) -> Page:
    """The card of a run: its steps in order."""
    parts = [
        Facts((("steps", step_counts(run)), *run_facts(run))),
        *step_parts(run),
        *warning_parts(run.warnings),
    ]
    return Page(f"Run {run.id}", outcome_badge(run), tuple(parts), ("afnb.diff(bad, good)",))


def outcome_badge(run: Run) -> Badge:
    """``fail``, ``pass`` or ``outcome unknown``."""
    known = run.outcome in OUTCOME_TONES
    return Badge(str(run.outcome) if known else "outcome unknown", OUTCOME_TONES.get(run.outcome, "quiet"))


def run_facts(run: Run) -> list[tuple[str, str]]:
    """Task, answer and source, where known."""
    facts = []
    if run.task:
        facts.append(("task", cut(run.task)))
    if run.answer is not None:
        facts.append(("answer", cut(plain(run.answer))))
    if run.exit_status is not None:
        facts.append(("exit status", str(run.exit_status)))
    return facts


def counted(counts: Counter[Any]) -> str:
    """``200: 4, 429: 1``."""
    return ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))


def step_counts(run: Run) -> str:
    """``7 (4 llm, 3 tool)``."""
    kinds = Counter(step.kind for step in run.steps)
    return (
        f"{len(run)} ({', '.join(f'{count} {kind}' for kind, count in kinds.items())})" if kinds else "none"
    )


def step_parts(run: Run) -> list[Part]:
    """The first steps as a table."""
    if not run.steps:
        return [Text("It holds no steps.", "quiet")]
    rows = tuple((str(i), step.name, said(step)) for i, step in enumerate(run.steps[:SHOWN_STEPS]))
    return [Table(("step", "name", "what came out"), rows, "steps in order", total=len(run.steps))]


def warning_parts(warnings: tuple[Warn, ...]) -> list[Part]:
    """Warnings as paragraphs, the first ten."""
    shown: list[Part] = [Text(warning.message, "warn") for warning in warnings[:10]]
    if len(warnings) > 10:
        shown.append(Text(f"and {len(warnings) - 10} more warnings", "warn"))
    return shown


def said(step: Step) -> str:
    """What a step put out, in one line."""
    if step.outputs is MISSING:
        return "(nothing recorded)"
    if step.kind != "llm" or not isinstance(step.outputs, dict):
        return cut(plain(step.outputs))
    calls = [
        f"{call.get('name')}({plain(call.get('arguments'))})"
        for call in step.outputs.get("tool_calls") or []
        if isinstance(call, dict)
    ]
    text = str(step.outputs.get("text") or "")
    return cut(" ".join(part for part in (text, *(f"→ {call}" for call in calls)) if part))


def plain(value: Any) -> str:
    """Text as it is, other values as JSON."""
    return value if isinstance(value, str) else dumps(value)


def cut(text: str) -> str:
    """The first characters of a text, in one line."""
    text = " ".join(text[: 4 * SHOWN_CHARACTERS].split())
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


CARDS[Cassette] = cassette_page
CARDS[Run] = run_page
