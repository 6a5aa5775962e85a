"""The fork: where the bad run leaves the good one and does not come back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from afnb.align.moves import Move
from afnb.align.params import AlignParams


@dataclass(frozen=True, slots=True)
class Fork:
    """Where two runs part for good.

    Parameters
    ----------
    move
        Index into the moves.
    good_step, bad_step
        The steps of that move; one of them is None where the move is a gap.
    confidence
        How far the evidence stands above ``tau``, from 0 to 1.
    """

    move: int
    good_step: int | None
    bad_step: int | None
    confidence: float

    @property
    def two_sided(self) -> bool:
        """Whether both runs have a step there."""
        return self.good_step is not None and self.bad_step is not None


def find_fork(moves: Sequence[Move], params: AlignParams) -> Fork | None:
    """The first block of moves out of sync that is not followed by enough moves in sync.

    A block followed by at least ``params.resync_k`` in-sync moves is a detour that the runs came
    back from (a retry, a rewording). The confidence is (evidence - tau) / (1 - tau) cut to [0, 1];
    evidence is the cost of a sync move and the confidence of a gap. Linear in the number of moves.

    Examples
    --------
    >>> moves = [Move.sync(0, 0, 0.0), Move.sync(1, 1, 0.9), Move.sync(2, 2, 0.1)]
    >>> find_fork(moves, AlignParams()).bad_step
    1
    >>> find_fork(moves, AlignParams(resync_k=1)) is None
    True
    """
    position = 0
    while position < len(moves):
        if moves[position].in_sync(params.tau):
            position += 1
            continue
        start = position
        while position < len(moves) and not moves[position].in_sync(params.tau):
            position += 1
        ahead = moves[position : position + params.resync_k]
        if len(ahead) == params.resync_k and all(move.in_sync(params.tau) for move in ahead):
            continue
        first = moves[start]
        return Fork(start, first.good_step, first.bad_step, _confidence(first, params.tau))
    return None


def _confidence(move: Move, tau: float) -> float:
    evidence = move.cost if move.kind == "sync" else move.confidence
    return min(max((evidence - tau) / max(1.0 - tau, sys.float_info.epsilon), 0.0), 1.0)


def observed_step(moves: Sequence[Move], fork: Fork | None, bad_steps: int) -> int | None:
    """The step of the bad run at which the fork is seen; None without a fork.

    Where the fork is a step that the bad run lacks, it is the first step the bad run has not taken
    yet, at most its last one (0 where the run is empty).
    """
    if fork is None or fork.bad_step is not None:
        return None if fork is None else fork.bad_step
    taken = sum(move.bad_step is not None for move in moves[: fork.move])
    return min(taken, max(bad_steps - 1, 0))
