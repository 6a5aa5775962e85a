"""Which steps of a bad run may be tried: the fork and the unbroken two-sided moves after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from afnb.align.fork import Fork
from afnb.align.moves import Move


class Aligned(Protocol):
    """What this needs of a diff."""

    @property
    def moves(self) -> Sequence[Move]:
        """The alignment."""

    @property
    def fork(self) -> Fork | None:
        """Where the runs part."""


def candidates(diff: Aligned) -> list[tuple[int, int]]:
    """Pairs of a step of the bad run and the step of the good run that could stand in its place.

    The pair at the fork comes first, then those of the moves after it, up to the first move that only
    one run has: beyond that the good run's answers no longer stand against the bad run's one by one.

    Returns
    -------
    list of (bad_step, good_step)
        Empty without a fork, and for a fork that only one run has.

    Examples
    --------
    >>> from afnb.align.diff import diff
    >>> from afnb.core.run import Run, Step
    >>> def run(*texts):
    ...     return Run("r", tuple(Step(i, "llm", "act", outputs=text) for i, text in enumerate(texts)))
    >>> candidates(diff(run("plan", "guess wildly", "wrong"), run("plan", "ask the tool", "right")))
    [(1, 1), (2, 2)]
    """
    if diff.fork is None:
        return []
    pairs: list[tuple[int, int]] = []
    for move in diff.moves[diff.fork.move :]:
        if move.good_step is None or move.bad_step is None:
            break
        pairs.append((move.bad_step, move.good_step))
    return pairs
