"""The card of a diff: finished words for the faces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from afnb.align.deltas import Deltas
from afnb.core.jsonvalue import MISSING, JsonOrMissing, dumps
from afnb.core.page import Badge, Facts, Lane, Page, Part, Table, Text, Timeline
from afnb.core.run import Run

if TYPE_CHECKING:
    from afnb.align.diff import Diff

MAX_ROWS = 20
MAX_WARNINGS = 5
_SHOWN = 60
_AROUND = 15


def diff_page(diff: Diff) -> Page:
    """Title, badge, what is found, the two runs on one line, what differs at the fork."""
    parts: list[Part] = [Text(_sentence(diff))]
    if diff.moves:
        parts.append(Timeline(_ticks(diff), "the two runs, step by step"))
    parts.append(Facts(tuple(_facts(diff))))
    if diff.comparable and diff.at_fork():
        parts.append(_fields(diff))
    parts.extend(Text(warn.message, "warn") for warn in diff.warnings[:MAX_WARNINGS])
    if len(diff.warnings) > MAX_WARNINGS:
        parts.append(Text(f"and {len(diff.warnings) - MAX_WARNINGS} warnings more in .warnings", "warn"))
    return Page(f"{diff.bad.id} against {diff.good.id}", _badge(diff), tuple(parts), _following(diff))


def _badge(diff: Diff) -> Badge:
    if not diff.comparable:
        return Badge("not comparable", "warn")
    if diff.fork is None:
        return Badge("converged", "good")
    return Badge(f"forked at step {diff.fork_step_observed}", "bad")


def _sentence(diff: Diff) -> str:
    if not diff.comparable:
        reason = diff.reason or "the runs are not comparable"
        return f"{reason[0].upper()}{reason[1:]}."
    fork = diff.fork
    if fork is None:
        detours = sum(not move.in_sync(diff.params.tau) for move in diff.moves)
        tail = f", apart from {detours} step(s) that it came back from" if detours else ""
        return f"The bad run follows the good one to its end{tail}."
    bad, good = _label(diff.bad, fork.bad_step), _label(diff.good, fork.good_step)
    if bad and good:
        found = f"From step {bad} on the bad run goes its own way; the good run has step {good} there."
    elif bad:
        found = f"At step {bad} the bad run does something the good one does not, and does not come back."
    else:
        found = f"The bad run leaves out step {good} of the good run, and does not come back."
    return f"{found} Where runs part is not yet why they fail: only re-running can show that."


def _ticks(diff: Diff) -> tuple[Lane, ...]:
    differing = {found.move for found in diff.field_diffs}
    ticks = []
    for index, move in enumerate(diff.moves):
        bad = _tick_label(diff.bad, move.bad_step)
        good = _tick_label(diff.good, move.good_step)
        note = ""
        if diff.comparable and diff.fork is not None and index == diff.fork.move:
            kind = "fork"
            note = _paths([found.path for found in diff.at_fork()])
        elif move.kind != "sync":
            kind = move.kind
        elif move.in_sync(diff.params.tau):
            kind = "near" if index in differing or move.cost > 0 else "sync"
        else:
            kind = "unlike"
            note = f"cost {move.cost:.2f}"
        ticks.append(Lane(kind, bad, good, note))
    return tuple(ticks)


def _paths(paths: list[str]) -> str:
    """Which fields differ, those of the outputs first: they are what the step did."""
    ordered = [path for path in paths if path.startswith("outputs")]
    ordered += [path for path in paths if path not in ordered]
    if len(ordered) > 2:
        return f"{ordered[0]} and {len(ordered) - 1} fields more differ"
    return f"{' and '.join(ordered)} differ{'s' if len(ordered) == 1 else ''}" if ordered else ""


def _label(run: Run, step: int | None) -> str:
    return "" if step is None else f"{step} {run.steps[step].name}"


def _tick_label(run: Run, step: int | None) -> str | None:
    """The step's number and name, and for an llm step the tools it calls."""
    if step is None:
        return None
    outputs = run.steps[step].outputs
    calls = outputs.get("tool_calls") if isinstance(outputs, Mapping) else None
    tools = [
        str(call["name"])
        for call in (calls if isinstance(calls, list) else [])
        if isinstance(call, Mapping) and "name" in call
    ]
    return _label(run, step) + (f" calls {', '.join(tools)}" if tools else "")


def _facts(diff: Diff) -> list[tuple[str, str]]:
    rows = [("bad run", _run_words(diff.bad)), ("good run", _run_words(diff.good))]
    in_sync = sum(move.in_sync(diff.params.tau) for move in diff.moves)
    kinds = [move.kind for move in diff.moves]
    pairs = f"{in_sync} of {len(kinds)} moves in sync"
    rows.append(("alignment", f"{pairs}, {kinds.count('log')} only bad, {kinds.count('model')} only good"))
    if diff.comparable and diff.fork is not None:
        after = len(diff.propagation)
        rows.append(
            ("fork", f"confidence {diff.fork.confidence:.2f}; {after} step(s) of the bad run after it")
        )
    if diff.deltas is not None:
        rows.append(("bad minus good", _delta_words(diff.deltas)))
    return rows


def _run_words(run: Run) -> str:
    words = f"{run.id}, {len(run)} step(s)"
    return f"{words}, outcome {run.outcome}" if run.outcome else words


def _delta_words(found: Deltas) -> str:
    words = []
    for name, delta in (("", found.total), (" at the fork", found.at_fork)):
        if delta is not None and delta.latency_ms is not None:
            words.append(f"{delta.latency_ms:+,} ms{name}")
        if delta is not None and delta.tokens is not None:
            words.append(f"{delta.tokens:+,} tokens{name}")
    return ", ".join(words)


def _fields(diff: Diff) -> Table:
    found = diff.at_fork()
    rows = []
    for d in found[:MAX_ROWS]:
        start = _common_start(d.good, d.bad)
        rows.append((d.path, d.kind, _value(d.good, start), _value(d.bad, start)))
    return Table(("field", "kind", "good", "bad"), tuple(rows), "what differs at the fork", len(found))


def _common_start(good: JsonOrMissing, bad: JsonOrMissing) -> int:
    """Where two texts first differ, less some context; 0 for other values."""
    if not isinstance(good, str) or not isinstance(bad, str):
        return 0
    pairs = enumerate(zip(good, bad, strict=False))
    differ = next((i for i, (x, y) in pairs if x != y), min(len(good), len(bad)))
    return differ - _AROUND if differ > _SHOWN // 2 else 0


def _value(value: JsonOrMissing, start: int) -> str:
    if value is MISSING:
        return ""
    text = value[start : start + _SHOWN + 1] if isinstance(value, str) else dumps(value)
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return f"…{cut}" if start else cut


def _following(diff: Diff) -> tuple[str, ...]:
    if not diff.comparable:
        return ("d.reason", "afnb.load(path).task")
    if diff.fork is None:
        return ("d.moves", "d.field_diffs")
    return ("afnb.attribute(bad, good, agent=...)", "d.field_diffs", "afnb.plot.alignment(d)")
