"""``Move``: one element of an alignment, made by ``sync``, ``log`` or ``model`` only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MoveKind = Literal["sync", "log", "model"]


@dataclass(frozen=True, slots=True)
class Move:
    """One element of an alignment.

    A ``sync`` pairs a step of each run; its cost is theirs and its confidence one minus that. A
    ``log`` is a step only the bad run has, a ``model`` one only the good run has; their cost is what
    the gap paid and their confidence the least cost to any step of the other run (1 where that run
    is empty). Use the constructors: they cannot make a move that says otherwise.

    Examples
    --------
    >>> Move.sync(2, 3, 0.25)
    Move(kind='sync', good_step=2, bad_step=3, cost=0.25, confidence=0.75)
    """

    kind: MoveKind
    good_step: int | None
    bad_step: int | None
    cost: float
    confidence: float

    def __post_init__(self) -> None:
        sides = {"sync": (True, True), "log": (False, True), "model": (True, False)}[self.kind]
        if (self.good_step is not None, self.bad_step is not None) != sides:
            raise ValueError(
                f"a {self.kind} move has other sides than good {self.good_step}, bad {self.bad_step}"
            )

    @classmethod
    def sync(cls, good_step: int, bad_step: int, cost: float, confidence: float | None = None) -> Move:
        """A step of each run, paired."""
        return cls("sync", good_step, bad_step, cost, 1.0 - cost if confidence is None else confidence)

    @classmethod
    def log(cls, bad_step: int, cost: float, confidence: float) -> Move:
        """A step that only the bad run has."""
        return cls("log", None, bad_step, cost, confidence)

    @classmethod
    def model(cls, good_step: int, cost: float, confidence: float) -> Move:
        """A step that only the good run has."""
        return cls("model", good_step, None, cost, confidence)

    def in_sync(self, tau: float) -> bool:
        """Whether this pairs two steps that cost at most ``tau``."""
        return self.kind == "sync" and self.cost <= tau
