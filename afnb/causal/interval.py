"""Intervals: of one arm's recovery rate (Wilson), and of the effect, valid at whatever moment one stops."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist

from afnb.causal.evidence import (
    BLOCK_CODES,
    d_factors,
    d_row,
    full_factors,
    full_row,
    lazy_factors,
    lazy_row,
    log,
    log_sum,
)
from afnb.errors import ParameterError

GUESSES: tuple[float, ...] = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
"""Rates whose pairs are the bets of the effect interval."""

GRID: tuple[float, ...] = tuple((k - 20) / 20 for k in range(41))
"""Effects the interval is computed on: -1 to 1 in steps of 0.05."""


def wilson(count: int, total: int, level: float = 0.95) -> tuple[float, float] | None:
    """Wilson's interval of a proportion; None without any observation.

    After optional stopping it describes the replays that were run and is biased outward; it carries no
    guarantee of its own.

    Source: Wilson, Probable inference, the law of succession, and statistical inference (1927).

    Examples
    --------
    >>> low, high = wilson(3, 3)
    >>> round(low, 3), high
    (0.439, 1.0)
    >>> wilson(0, 0) is None
    True
    """
    if not 0 <= count <= total:
        raise ParameterError(f"wilson needs 0 <= count <= total, got {count} of {total}")
    if not 0.0 < level < 1.0:
        raise ParameterError(f"wilson needs 0 < level < 1, got {level}")
    if total == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + level / 2)
    rate = count / total
    centre = rate + z * z / (2 * total)
    half = z * math.sqrt(rate * (1.0 - rate) / total + z * z / (4 * total * total))
    scale = 1.0 + z * z / total
    low = 0.0 if count == 0 else max(0.0, (centre - half) / scale)
    high = 1.0 if count == total else min(1.0, (centre + half) / scale)
    return low, high


Rows = tuple[tuple[float, ...], ...]


@functools.lru_cache(maxsize=1)
def _tables() -> tuple[tuple[Rows, Rows], ...]:
    """Per effect of the grid: log factors by block code of the bets above it, and of those below it."""
    tables = []
    for step, d in enumerate(GRID):
        above: list[list[float]] = [[] for _ in range(BLOCK_CODES)]
        below: list[list[float]] = [[] for _ in range(BLOCK_CODES)]
        for a in GUESSES:
            for b in GUESSES:
                side = round((a - b) * 20) - (step - 20)
                if side == 0:
                    continue
                full = full_factors(a, b, d)
                for code in range(9):
                    (above if side > 0 else below)[code].append(log(full_row(full, *divmod(code, 3))))
                if side > 0:
                    lazy = lazy_factors(a, b, d)
                    for code in range(9):
                        above[9 + code].append(log(lazy_row(lazy, *divmod(code, 3))))
                else:
                    one_sided = d_factors(max(a - b, 0.0), d) if d > 0 else (1.0, 1.0)
                    for code in range(9):
                        below[9 + code].append(log(d_row(one_sided, *divmod(code, 3))))
        tables.append((tuple(map(tuple, above)), tuple(map(tuple, below))))
    return tuple(tables)


def _reaches(rows: Rows, codes: Sequence[int], log_threshold: float) -> bool:
    bets = len(rows[0])
    if not bets:
        return False
    sums = [0.0] * bets
    log_bets = math.log(bets)
    for code in codes:
        sums = [old + new for old, new in zip(sums, rows[code], strict=True)]
        if log_sum(sums) - log_bets >= log_threshold:
            return True
    return False


@functools.lru_cache(maxsize=256)
def _effect_interval(codes: tuple[int, ...], alpha: float) -> tuple[float, float]:
    log_threshold = math.log(2.0 / alpha)
    refused_low = refused_high = None
    for step, (above, below) in enumerate(_tables()):
        if _reaches(above, codes, log_threshold):
            refused_low = step
        if refused_high is None and _reaches(below, codes, log_threshold):
            refused_high = step
    low = -1.0 if refused_low is None else GRID[refused_low]
    high = 1.0 if refused_high is None else GRID[refused_high]
    return low, high


def effect_interval(codes: Sequence[int], alpha: float = 0.05) -> tuple[float, float]:
    """Anytime-valid interval of the effect (patch rate minus control rate), from the blocks of a decision.

    For every effect ``d`` on :data:`GRID` an equal mixture of bets on either side of it is run over the
    blocks; ``d`` is refused once a mixture reaches ``2/alpha``. The interval ends at the refused values
    next to the kept ones, so it errs outward. It covers the true effect with probability at least
    ``1 - alpha`` at every moment, and is wider than one for a fixed number of replays.

    Parameters
    ----------
    codes
        Block codes (:func:`afnb.causal.evidence.block_code`) in index order.
    alpha
        1 minus the coverage.

    Returns
    -------
    low, high
        In [-1, 1]. It may contain 0 beside a three-block ``recovered``, whose test is one-sided.

    Examples
    --------
    >>> from afnb.causal.evidence import block_code
    >>> clean = [block_code(True, 1, 0)] + [block_code(False, 1, 0)] * 9
    >>> effect_interval(clean[:3]), effect_interval(clean[:5]), effect_interval(clean)
    ((-0.25, 1.0), (0.05, 1.0), (0.45, 1.0))
    """
    if not 0.0 < alpha < 1.0:
        raise ParameterError(f"effect_interval needs 0 < alpha < 1, got {alpha}")
    return _effect_interval(tuple(codes), alpha)
