"""Global alignment with affine gaps, by anti-diagonals: one pass over a matrix of step costs.

Three states a cell: the last move paired two steps (sync), left out a step of a (gap a) or of b
(gap b). A gap is entered from sync or goes on; only sync leaves it. Ties prefer sync, then gap a; a gap
that can as well be opened here is. Sums are formed in one fixed order, so that equal sums are equal
floats and ties fall the same way everywhere [1]_.

References
----------
.. [1] O. Gotoh, "An improved algorithm for matching biological sequences", J. Mol. Biol. 162, 1982.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SYNC, GAP_A, GAP_B = 0, 1, 2
_OPENS_A, _OPENS_B = 4, 8


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass found.

    ``best`` has the least cost of every prefix pair, shape (n + 1, m + 1), rows steps of a.
    ``choices`` has a byte a cell by anti-diagonal, shape (n + m + 1, n + 1): best state, and whether
    each gap opens there.
    """

    best: NDArray[np.float64]
    choices: NDArray[np.uint8]

    @property
    def total(self) -> float:
        """Cost of the cheapest alignment."""
        return float(self.best[-1, -1])

    def path(self) -> list[tuple[int, int, int, bool]]:
        """The moves in run order: state, steps of a and b taken after it, whether a gap opens."""
        i, j = self.best.shape[0] - 1, self.best.shape[1] - 1
        state = int(self.choices[i + j, i]) & 3
        moves: list[tuple[int, int, int, bool]] = []
        while i or j:
            opens = state != SYNC and bool(
                self.choices[i + j, i] & (_OPENS_A if state == GAP_A else _OPENS_B)
            )
            moves.append((state, i, j, opens))
            if state != GAP_B:
                i -= 1
            if state != GAP_A:
                j -= 1
            if state == SYNC:
                state = int(self.choices[i + j, i]) & 3
            elif opens:
                state = SYNC
        return moves[::-1]


def align_pass(cost: NDArray[np.float64], gap_open: float, gap_ext: float) -> Pass:
    """The cheapest alignment under ``cost`` (float64, n by m, any strides)."""
    import numpy as np

    n, m = cost.shape
    best = np.empty((n + 1, m + 1))
    choices = np.zeros((n + m + 1, n + 1), dtype=np.uint8)
    inf = np.inf
    sync, gap_a, gap_b = (np.full(n + 1, inf) for _ in range(3))
    next_sync, next_a, next_b = (np.full(n + 1, inf) for _ in range(3))
    two_back, one_back, here = (np.full(n + 1, inf) for _ in range(3))  # best of three, by diagonal
    best[0, 0] = sync[0] = one_back[0] = 0.0
    flat_best = best.ravel()
    for d in range(1, n + m + 1):
        low, high = max(1, d - m), min(n, d - 1)  # rows of the inner cells
        if low <= high:
            now, up = slice(low, high + 1), slice(low - 1, high)
            pair = next_sync[now]
            np.add(_diagonal(cost, low - 1, d - low - 1, high - low + 1), two_back[up], out=pair)
            opened_a, extended_a = sync[up] + gap_open, gap_a[up] + gap_ext
            opened_b, extended_b = sync[now] + gap_open, gap_b[now] + gap_ext
            np.minimum(opened_a, extended_a, out=next_a[now])
            np.minimum(opened_b, extended_b, out=next_b[now])
            choice = (opened_a <= extended_a) * np.uint8(_OPENS_A) + (opened_b <= extended_b) * np.uint8(
                _OPENS_B
            )
            better_a = next_a[now] < pair
            least = np.minimum(pair, next_a[now], out=here[now])
            better_b = next_b[now] < least
            np.minimum(least, next_b[now], out=least)
            choice += np.where(better_b, np.uint8(GAP_B), better_a)
            choices[d, now] = choice
            start = low * (m + 1) + d - low
            flat_best[start : start + (high - low) * m + 1 : m] = least
        if d <= m:  # no step of a yet: one gap in b
            next_sync[0] = next_a[0] = inf
            next_b[0] = here[0] = best[0, d] = gap_open + (d - 1) * gap_ext
            choices[d, 0] = GAP_B | (_OPENS_B if d == 1 else 0)
        if d <= n:
            next_sync[d] = next_b[d] = inf
            next_a[d] = here[d] = best[d, 0] = gap_open + (d - 1) * gap_ext
            choices[d, d] = GAP_A | (_OPENS_A if d == 1 else 0)
        sync, next_sync = next_sync, sync
        gap_a, next_a = next_a, gap_a
        gap_b, next_b = next_b, gap_b
        two_back, one_back, here = one_back, here, two_back
    return Pass(best, choices)


def _diagonal(cost: NDArray[np.float64], i: int, j: int, count: int) -> NDArray[np.float64]:
    """``cost[i, j], cost[i + 1, j - 1], ...``: ``count`` cells, as a view."""
    from numpy.lib.stride_tricks import as_strided

    down, right = cost.strides
    return as_strided(cost[i:, j:], shape=(count,), strides=(down - right,), writeable=False)
