"""E-values of one block of replays: how strongly it speaks against a boundary on the effect.

A *block* is one patch outcome ``x`` and one control outcome ``y`` (1 = recovered), independent given
the past. A *bet* on a guess ``(a, b)`` of the two recovery rates turns a block into a factor whose
expectation is at most 1 whenever the effect ``P(x=1) - P(y=1)`` lies on the other side of a boundary
``d``; the product over blocks is an e-process, so that by Ville's inequality it reaches ``1/alpha``
with probability at most ``alpha``, whenever one stops.

Three kinds of factor:

- *full* block: likelihood ratio of the guess against the point of ``effect = d`` that is nearest to it
  in Kullback-Leibler divergence; valid on either side of ``d``.
- *lazy* block: the control is run only if the patch recovered; valid against ``effect <= d`` only.
- *D-rule*: looks only at D = "patch recovered and control did not"; valid against ``effect >= d``, in
  lazy blocks too, since P(D=1) >= effect.

A replay that was lost after its first intervened answer may have been lost because of what it would
have shown. It enters with the smallest factor over all outcomes it could have had, bet by bet, so the
product is never larger than the one that full knowledge would give.

References: Turner, Ly, Grünwald, Generic E-variables for exact sequential k-sample tests that allow
for optional stopping (2024); Grünwald, de Heide, Koolen, Safe testing (2024); Ramdas, Grünwald, Vovk,
Shafer, Game-theoretic statistics and safe anytime-valid inference (2023).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from afnb.errors import ParameterError

VERIFY_GUESSES: tuple[tuple[float, float], ...] = ((0.95, 0.05), (0.8, 0.3), (0.6, 0.1))
"""Guesses (patch rate, control rate) of the three equally weighted bets against ``effect <= 0``."""

REFUTE_WEIGHTS: tuple[float, float] = (0.65, 0.35)
"""Weights of the two bets against ``effect >= min_effect``: the D-rule, and the guess (0.5, 0.5)."""

_INFINITY = math.inf


def null_point(a: float, b: float, d: float, *, control_weight: float = 1.0) -> tuple[float, float]:
    """The point ``(p, p - d)`` of the boundary ``effect = d`` that is nearest to the guess ``(a, b)``.

    Parameters
    ----------
    a, b
        Guessed recovery rates of patch and control, in (0, 1).
    d
        The boundary, in [-1, 1].
    control_weight
        Weight of the control's divergence: 1 in a full block, ``a`` in a lazy one, where the control
        is run only after a recovery.

    Returns
    -------
    p, q
        The minimiser of ``KL(a||p) + control_weight * KL(b||q)`` on ``q = p - d``, by bisection on the
        derivative, which increases in ``p``.

    Examples
    --------
    >>> p, q = null_point(0.9, 0.1, 0.0)
    >>> round(p, 6), round(q, 6)
    (0.5, 0.5)
    """
    low, high = max(0.0, d), min(1.0, 1.0 + d)
    for _ in range(200):
        p = 0.5 * (low + high)
        q = p - d
        if p <= 0.0 or p >= 1.0 or q <= 0.0 or q >= 1.0 or p in (low, high):
            break
        slope = (a - p) / (p * (1.0 - p)) + control_weight * (b - q) / (q * (1.0 - q))
        if slope > 0.0:
            low = p
        else:
            high = p
    p = 0.5 * (low + high)
    return p, min(1.0, max(0.0, p - d))


def _ratio(numerator: float, denominator: float) -> float:
    if denominator > 0.0:
        return numerator / denominator
    return 1.0 if numerator == 0.0 else _INFINITY


@dataclass(frozen=True, slots=True)
class FullFactors:
    """Factors of a full block, named by patch and control outcome: ``s10`` = patch recovered, control not."""

    s11: float
    s10: float
    s01: float
    s00: float


@dataclass(frozen=True, slots=True)
class LazyFactors:
    """Factors of a lazy block: ``s0`` = patch did not recover, no control run; else ``s10`` or ``s11``."""

    s0: float
    s10: float
    s11: float


def full_factors(a: float, b: float, d: float) -> FullFactors:
    """Factors of a full block for the guess ``(a, b)`` against the boundary ``effect = d``.

    If ``a - b > d`` the expectation is at most 1 for every effect up to ``d``; if ``a - b < d`` for
    every effect from ``d`` on.

    Examples
    --------
    >>> f = full_factors(0.5, 0.5, 0.5)
    >>> [round(s, 4) for s in (f.s11, f.s10, f.s01, f.s00)]
    [1.3333, 0.4444, 4.0, 1.3333]
    """
    p, q = null_point(a, b, d)
    x1, x0 = _ratio(a, p), _ratio(1.0 - a, 1.0 - p)
    y1, y0 = _ratio(b, q), _ratio(1.0 - b, 1.0 - q)
    return FullFactors(x1 * y1, x1 * y0, x0 * y1, x0 * y0)


def lazy_factors(a: float, b: float, d: float = 0.0) -> LazyFactors:
    """Factors of a lazy block for the guess ``(a, b)``, ``a - b > d``, against ``effect <= d``.

    On the boundary the expectation is concave in the patch rate with its maximum, 1, at the null
    point; away from it, it falls. (For ``a - b < d`` it would exceed 1: use :func:`d_factors` there.)

    Examples
    --------
    >>> f = lazy_factors(0.95, 0.05)
    >>> [round(s, 3) for s in (f.s0, f.s10, f.s11)]
    [0.102, 3.612, 0.182]
    """
    if not a - b > d:
        raise ParameterError(
            f"a lazy block bets on an effect above the boundary, got the guess {a} - {b} at boundary {d}"
        )
    p, q = null_point(a, b, d, control_weight=a)
    x1, x0 = _ratio(a, p), _ratio(1.0 - a, 1.0 - p)
    return LazyFactors(x0, x1 * _ratio(1.0 - b, 1.0 - q), x1 * _ratio(b, q))


def d_factors(t: float, d: float) -> tuple[float, float]:
    """Factors ``(D=1, D=0)`` against ``effect >= d`` for the guess ``P(D=1) = t < d``.

    Examples
    --------
    >>> [round(s, 2) for s in d_factors(0.02, 0.5)]
    [0.04, 1.96]
    """
    if not 0.0 <= t < d:
        raise ParameterError(f"the D-rule needs 0 <= t < d, got t={t} and d={d}")
    return t / d, _ratio(1.0 - t, 1.0 - d)


# -- tables over every block a rule can meet -----------------------------------------------------


def block_code(lazy: bool, patch: int | None, control: int | None) -> int:
    """Row of a factor table for one block; ``None`` is a lost outcome, or a control that was not run."""
    return 9 * lazy + 3 * (2 if patch is None else patch) + (2 if control is None else control)


BLOCK_CODES = 18


def _possible(known: int) -> tuple[int, ...]:
    return (0, 1) if known == 2 else (known,)


def full_row(factors: FullFactors, patch: int, control: int) -> float:
    """The factor of a full block, the smallest possible one where an outcome (2) is lost."""
    table = ((factors.s00, factors.s01), (factors.s10, factors.s11))
    return min(table[x][y] for x in _possible(patch) for y in _possible(control))


def lazy_row(factors: LazyFactors, patch: int, control: int) -> float:
    """The factor of a lazy block, the smallest possible one where an outcome (2) is lost."""
    table = (factors.s10, factors.s11)
    return min(factors.s0 if x == 0 else min(table[y] for y in _possible(control)) for x in _possible(patch))


def d_row(factors: tuple[float, float], patch: int, control: int) -> float:
    """The factor of the D-rule, the smallest possible one where an outcome (2) is lost."""
    on, off = factors
    can_be_on = patch != 0 and control != 1
    can_be_off = patch != 1 or control != 0
    return min([on] * can_be_on + [off] * can_be_off)


def log(value: float) -> float:
    """Natural logarithm with log 0 = -inf and log inf = inf."""
    if value <= 0.0:
        return -_INFINITY
    return _INFINITY if value == _INFINITY else math.log(value)


def log_sum(terms: Sequence[float]) -> float:
    """``log(sum(exp(term)))``, safe for any size."""
    top = max(terms)
    if top in (_INFINITY, -_INFINITY):
        return top
    return top + math.log(sum([math.exp(term - top) for term in terms]))


def exp(value: float) -> float:
    """``math.exp`` that gives infinity where a float cannot hold the result."""
    return math.exp(value) if value < 709.0 else _INFINITY


@dataclass(frozen=True, slots=True)
class Bets:
    """Log factors of the rule's five bets for every block, and their log weights.

    ``verify[code]`` has one entry per bet against ``effect <= 0``, ``refute[code]`` one per bet against
    ``effect >= min_effect``; ``code`` is that of :func:`block_code`.
    """

    verify: tuple[tuple[float, ...], ...]
    refute: tuple[tuple[float, ...], ...]
    verify_weights: tuple[float, ...]
    refute_weights: tuple[float, ...]
    verify_best: tuple[float, ...]
    refute_best: tuple[float, ...]


@functools.lru_cache(maxsize=64)
def bets(min_effect: float) -> Bets:
    """The five bets of the sequential rule for one ``min_effect`` (its factors do not depend on alpha).

    Examples
    --------
    >>> table = bets(0.5)
    >>> [round(exp(term), 4) for term in table.verify[block_code(False, 1, 0)]]
    [3.61, 2.2626, 2.3736]
    >>> [round(exp(term), 2) for term in table.refute[block_code(True, 0, None)]]
    [1.96, 1.5]
    """
    full = [full_factors(a, b, 0.0) for a, b in VERIFY_GUESSES]
    lazy = [lazy_factors(a, b) for a, b in VERIFY_GUESSES]
    strict, even = d_factors(0.04 * min_effect, min_effect), d_factors(0.5 * min_effect, min_effect)
    middle = full_factors(0.5, 0.5, min_effect)
    verify: list[tuple[float, ...]] = []
    refute: list[tuple[float, ...]] = []
    for code in range(BLOCK_CODES):
        is_lazy, rest = divmod(code, 9)
        x, y = divmod(rest, 3)
        if is_lazy:
            verify.append(tuple(log(lazy_row(f, x, y)) for f in lazy))
            refute.append((log(d_row(strict, x, y)), log(d_row(even, x, y))))
        else:
            verify.append(tuple(log(full_row(f, x, y)) for f in full))
            refute.append((log(d_row(strict, x, y)), log(full_row(middle, x, y))))
    return Bets(
        verify=tuple(verify),
        refute=tuple(refute),
        verify_weights=tuple(-math.log(len(VERIFY_GUESSES)) for _ in VERIFY_GUESSES),
        refute_weights=tuple(math.log(weight) for weight in REFUTE_WEIGHTS),
        verify_best=tuple(max(column) for column in zip(*verify, strict=True)),
        refute_best=tuple(max(column) for column in zip(*refute, strict=True)),
    )
