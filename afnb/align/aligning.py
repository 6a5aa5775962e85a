"""The alignment of two runs: the reference's moves, from as few exact costs as decide them.

::

    lower bounds of all costs ─ cheapest path ─ exact costs on it ─┐ until it is exact: the optimum
              └────────────────────────────────────────────────────┘
    every cell that a path of that cost could still use made exact ─ the path, ties as in a full matrix

A cell left at its bound lies on no path as cheap as the optimum, since the cheapest path through it is
dearer even at the bound; so every choice on the way back is the one the full matrix would make.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from afnb.align.cost import words
from afnb.align.costs import StepCosts, Words
from afnb.align.gotoh import GAP_A, SYNC, Pass, align_pass
from afnb.align.moves import Move
from afnb.align.params import AlignParams
from afnb.core.run import Step
from afnb.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MEMORY_LIMIT = 2 * 1024**3
"""Without ``max_steps``, runs whose alignment would take more bytes than this are refused."""

_BYTES_A_CELL = 40  # measured peak: bounds, costs, two matrices of sums, choices


def align(
    a: Sequence[Step], b: Sequence[Step], params: AlignParams | None = None, max_steps: int | None = None
) -> tuple[Move, ...]:
    """Align a reference run ``a`` with an observed run ``b`` at the least total cost.

    Parameters
    ----------
    a, b
        Steps of the reference and of the observed run.
    params
        Gap costs; the defaults if None.
    max_steps
        Refuse a run of more steps than this. Without it, refuse what would take more than 2 GiB.

    Returns
    -------
    tuple of Move
        In run order; every step of both runs exactly once.

    Raises
    ------
    ParameterError
        A run is too long, or ``max_steps`` is no positive whole number.

    Examples
    --------
    >>> steps = [Step(i, "llm", "act", outputs=text) for i, text in enumerate(["plan it", "do it", "say it"])]
    >>> [move.kind for move in align(steps, [steps[0], steps[2]])]
    ['sync', 'model', 'sync']
    """
    check_size(len(a), len(b), max_steps)
    return align_words([words(step) for step in a], [words(step) for step in b], params or AlignParams())


def check_size(n: int, m: int, max_steps: int | None) -> None:
    """Refuse runs too long to align: over ``max_steps``, or without it over the memory limit."""
    longest = max(n, m)
    if max_steps is not None:
        if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
            raise ParameterError(f"max_steps is {max_steps!r}; expected a positive whole number or None")
        if longest > max_steps:
            raise ParameterError(
                f"max_steps is {max_steps} and a run has {longest} steps; memory grows with the "
                f"product of both lengths: pass max_steps={longest} to go on"
            )
        return
    needed = n * m * _BYTES_A_CELL
    if needed > MEMORY_LIMIT:
        raise ParameterError(
            f"aligning {n} with {m} steps takes about {needed / 1024**3:.1f} GiB of memory, over the limit "
            f"of {MEMORY_LIMIT / 1024**3:.0f} GiB: pass max_steps={longest} to go on all the same"
        )


def align_words(a: Sequence[Words], b: Sequence[Words], params: AlignParams) -> tuple[Move, ...]:
    """The alignment of two runs given as the words of their steps."""
    if not a or not b:
        gaps = [params.gap_open if i == 0 else params.gap_ext for i in range(len(a) + len(b))]
        return tuple(Move.log(i, paid, 1.0) if b else Move.model(i, paid, 1.0) for i, paid in enumerate(gaps))
    costs = StepCosts(a, b)
    return _moves(costs, best_pass(costs, params).path(), params)


def best_pass(costs: StepCosts, params: AlignParams) -> Pass:
    """The pass that a full matrix would give, path and ties included; settles what decides it."""
    import numpy as np

    if not costs.known.all():
        costs.settle(np.arange(len(costs.matrix)), costs.matrix.argmin(axis=1))
    while True:
        full = costs.full()
        found = align_pass(full, params.gap_open, params.gap_ext)
        pairs = np.array([(i - 1, j - 1) for state, i, j, _ in found.path() if state == SYNC], dtype=np.intp)
        if not costs.settle(costs.of_a[pairs[:, 0]], costs.of_b[pairs[:, 1]]):
            break
    if costs.known.all():
        return found
    rest = align_pass(full[::-1, ::-1], params.gap_open, params.gap_ext).best[::-1, ::-1]
    if not _settle_rivals(costs, full, found, rest):
        return found
    return align_pass(costs.full(), params.gap_open, params.gap_ext)


def _settle_rivals(
    costs: StepCosts, full: NDArray[np.float64], found: Pass, rest: NDArray[np.float64]
) -> int:
    """Make exact what an alignment as cheap as ``found`` could pair; says how many cells that were.

    ``rest`` is the least cost of every suffix pair. The slack covers the rounding of sums of up to
    n + m terms formed in another order.
    """
    import numpy as np

    n, m = full.shape
    limit = found.total + 4 * (n + m) * sys.float_info.epsilon * (found.total + 1)
    settled = 0
    for start in range(0, n, 256):
        rows = slice(start, min(start + 256, n))
        through = found.best[rows, :m] + full[rows] + rest[rows.start + 1 : rows.stop + 1, 1:]
        i, j = np.nonzero(through <= limit)
        settled += costs.settle(costs.of_a[i + start], costs.of_b[j])
    return settled


def _moves(costs: StepCosts, path: list[tuple[int, int, int, bool]], params: AlignParams) -> tuple[Move, ...]:
    import numpy as np

    gaps_a = np.unique([costs.of_a[i - 1] for state, i, _, _ in path if state == GAP_A]).astype(np.intp)
    gaps_b = np.unique([costs.of_b[j - 1] for state, _, j, _ in path if state not in (SYNC, GAP_A)]).astype(
        np.intp
    )
    least_a = dict(zip(gaps_a.tolist(), costs.least_of_rows(gaps_a).tolist(), strict=True))
    least_b = dict(zip(gaps_b.tolist(), costs.least_of_columns(gaps_b).tolist(), strict=True))
    moves: list[Move] = []
    for state, i, j, opens in path:
        paid = params.gap_open if opens else params.gap_ext
        if state == SYNC:
            moves.append(Move.sync(i - 1, j - 1, float(costs.matrix[costs.of_a[i - 1], costs.of_b[j - 1]])))
        elif state == GAP_A:
            moves.append(Move.model(i - 1, paid, least_a[int(costs.of_a[i - 1])]))
        else:
            moves.append(Move.log(j - 1, paid, least_b[int(costs.of_b[j - 1])]))
    return tuple(moves)
