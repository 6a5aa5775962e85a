"""What changed inside aligned steps, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from afnb.align.moves import Move
from afnb.core.jsonvalue import MISSING, JsonOrMissing, equal
from afnb.core.run import Step

FieldKind = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """One field that differs between two aligned steps.

    ``move`` indexes the alignment; ``path`` starts with ``inputs`` or ``outputs`` and goes on with
    ``.key`` for each object level, keys as they are. ``good`` and ``bad`` are the values, ``MISSING``
    where that side has no such field.
    """

    move: int
    path: str
    good: JsonOrMissing
    bad: JsonOrMissing

    @property
    def kind(self) -> FieldKind:
        """``added`` (bad run only), ``removed`` (good run only) or ``changed``."""
        if self.good is MISSING:
            return "added"
        return "removed" if self.bad is MISSING else "changed"


def field_diffs(a: Sequence[Step], b: Sequence[Step], moves: Sequence[Move]) -> tuple[FieldDiff, ...]:
    """Every field that differs inside the sync moves, in alignment order.

    Objects are compared key by key, keys sorted by code point; arrays, scalars and values of two
    types are compared whole. Equality is typed: 1 and 1.0 differ.
    """
    found: list[FieldDiff] = []
    for index, move in enumerate(moves):
        if move.good_step is None or move.bad_step is None:
            continue
        good, bad = a[move.good_step], b[move.bad_step]
        found.extend(_differences(index, "inputs", good.inputs, bad.inputs))
        found.extend(_differences(index, "outputs", good.outputs, bad.outputs))
    return tuple(found)


def _differences(move: int, path: str, good: JsonOrMissing, bad: JsonOrMissing) -> Iterator[FieldDiff]:
    stack = [(path, good, bad)]
    while stack:
        path, good, bad = stack.pop()
        if isinstance(good, Mapping) and isinstance(bad, Mapping):
            keys = sorted(good.keys() | bad.keys(), reverse=True)
            stack.extend((f"{path}.{key}", good.get(key, MISSING), bad.get(key, MISSING)) for key in keys)
        elif not equal(good, bad):
            yield FieldDiff(move, path, good, bad)
