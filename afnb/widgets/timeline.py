"""The common time line as plain data: one row a move, its kind, its labels, and which rows match a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from afnb.core.jsonvalue import MISSING, dumps
from afnb.core.legible import one_line
from afnb.core.run import Step
from afnb.widgets.subject import Subject

KINDS = {
    "sync": "alike",
    "near": "nearly alike",
    "retry": "absorbed retry",
    "unlike": "unlike",
    "log": "only in the bad run",
    "model": "only in the good run",
    "fork": "fork",
}
"""What a row can be, faintest first."""

CODES = {kind: code for code, kind in enumerate(KINDS)}
LABEL = 60


def tools_of(step: Step | None) -> tuple[str, ...]:
    """Tools that a step runs or asks for."""
    if step is None:
        return ()
    if step.kind == "tool":
        return (step.name,)
    outputs = step.outputs
    calls = outputs.get("tool_calls") if isinstance(outputs, Mapping) else None
    return tuple(
        str(call["name"])
        for call in (calls if isinstance(calls, list) else [])
        if isinstance(call, Mapping) and "name" in call
    )


def label_of(step: Step | None) -> str:
    """A step's name, and for a model's answer the tools it asks for; without its number.

    Examples
    --------
    >>> label_of(Step(3, "llm", "llm", outputs={"text": "", "tool_calls": [{"name": "refund"}]}))
    'llm calls refund'
    """
    if step is None:
        return ""
    tools = tools_of(step) if step.kind != "tool" else ()
    return one_line(step.name + (f" calls {', '.join(tools)}" if tools else ""), LABEL)


@dataclass(frozen=True)
class Rows:
    """Kinds and labels of all rows of a subject.

    Examples
    --------
    >>> from afnb.experiments.demo import bundled
    >>> from afnb.widgets.subject import subject_of
    >>> rows = Rows(subject_of(bundled("refund").bad, bundled("refund").good))
    >>> rows.kinds[4], rows.next_difference(0, 1), rows.matching("headset", "")
    ('fork', 4, [1, 2, 4, 8])
    """

    subject: Subject

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kind of every row."""
        found = self.subject.found
        if found is None:
            steps = self.subject.bad_run.steps
            return tuple("retry" if step.attrs.get("failed_attempts") else "sync" for step in steps)
        differing = {one.move for one in found.field_diffs}
        fork = self.subject.fork
        kinds = []
        for row, move in enumerate(found.moves):
            if row == fork:
                kinds.append("fork")
            elif move.kind == "sync" and not move.in_sync(found.params.tau):
                kinds.append("unlike")
            elif move.kind == "log" and self._repeats(row):
                kinds.append("retry")
            elif move.kind != "sync":
                kinds.append(move.kind)
            elif self._asked_again(row):
                kinds.append("retry")
            else:
                kinds.append("near" if row in differing or move.cost > 0 else "sync")
        return tuple(kinds)

    def _asked_again(self, row: int) -> bool:
        step = self.subject.bad_step(row)
        return step is not None and bool(step.attrs.get("failed_attempts"))

    def _repeats(self, row: int) -> bool:
        """Whether an extra step of the bad run does again what a step beside it does, before the fork."""
        fork, step = self.subject.fork, self.subject.bad_step(row)
        if step is None or (fork is not None and row > fork):
            return False
        beside = [
            self.subject.bad_step(other) for other in (row - 1, row + 1) if 0 <= other < len(self.numbers)
        ]
        return any(
            other is not None and (other.kind, label_of(other)) == (step.kind, label_of(step))
            for other in beside
        )

    @property
    def numbers(self) -> range:
        """All row numbers."""
        return range(len(self.subject))

    @cached_property
    def tools(self) -> tuple[str, ...]:
        """Tool names of both runs, commonest first."""
        counts: Counter[str] = Counter()
        for row in self.numbers:
            counts.update(tools_of(self.subject.bad_step(row)) + tools_of(self.subject.good_step(row)))
        return tuple(sorted(counts, key=lambda name: (-counts[name], name)))

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        return tuple(
            "\n".join(_text(step) for step in self.steps(row) if step is not None).casefold()
            for row in self.numbers
        )

    def steps(self, row: int) -> tuple[Step | None, Step | None]:
        """The bad and the good step of a row."""
        return self.subject.bad_step(row), self.subject.good_step(row)

    def matching(self, query: str, tool: str) -> list[int]:
        """Rows in which a step holds ``query`` (any case; empty: all) and concerns ``tool`` (empty: any)."""
        wanted = query.strip().casefold()
        rows: Sequence[int] = self.numbers
        if tool:
            rows = [row for row in rows if any(tool in tools_of(step) for step in self.steps(row))]
        return [row for row in rows if wanted in self._texts[row]] if wanted else list(rows)

    def next_difference(self, row: int, direction: int) -> int | None:
        """The next row that is not alike or nearly alike, going forwards (1) or back (-1)."""
        after = range(row + 1, len(self.subject)) if direction > 0 else range(row - 1, -1, -1)
        return next((other for other in after if self.kinds[other] not in ("sync", "near")), None)

    def sentence(self, row: int) -> str:
        """One row in words."""
        bad, good = self.subject.steps_at(row)
        sides = []
        for name, number, step in zip(("bad", "good"), (bad, good), self.steps(row), strict=True):
            if number is not None:
                sides.append(f"{name} {number} {label_of(step)}")
        said = "; ".join(sides)
        return said if self.subject.found is None else f"{KINDS[self.kinds[row]]}: {said}"

    def payload(self) -> dict[str, Any]:
        """What the canvas draws: a code and two numbers a row, labels once each."""
        labels: dict[str, int] = {}
        columns: dict[str, list[int]] = {"bad": [], "good": [], "bad_label": [], "good_label": []}
        for row in self.numbers:
            numbers, steps = self.subject.steps_at(row), self.steps(row)
            for side, number, step in zip(("bad", "good"), numbers, steps, strict=True):
                columns[side].append(-1 if number is None else number)
                columns[f"{side}_label"].append(labels.setdefault(label_of(step), len(labels)))
        lanes = ["bad"] if self.subject.found is None else ["bad", "good"]
        return {
            "lanes": lanes,
            "words": list(KINDS.values()),
            "kinds": "".join(str(CODES[kind]) for kind in self.kinds),
            "labels": list(labels),
            "fork": -1 if self.subject.fork is None else self.subject.fork,
            **columns,
        }


def ranges(rows: Sequence[int]) -> list[list[int]]:
    """Row numbers in ascending order as inclusive ranges.

    Examples
    --------
    >>> ranges([0, 1, 2, 5])
    [[0, 2], [5, 5]]
    """
    out: list[list[int]] = []
    for row in rows:
        if out and out[-1][1] == row - 1:
            out[-1][1] = row
        else:
            out.append([row, row])
    return out


def _text(step: Step) -> str:
    values = [value if isinstance(value, str) else dumps(value) for value in _values(step)]
    return "\n".join([step.name, *values])


def _values(step: Step) -> list[Any]:
    return [value for value in (step.inputs, step.outputs) if value is not MISSING]
