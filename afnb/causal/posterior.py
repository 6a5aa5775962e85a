"""Where the recovery rate drops: the posterior over one change point, from replays at branch points.

``q(k)`` is the rate at which a run recovers when the tape serves its first ``k`` answers and the rest is
live. The model: ``q(k) = r`` for ``k < c`` and ``s`` for ``k >= c``, with the drop ``c`` uniform on
``1 .. n`` (prior 0.9), or no drop at all, ``q = v`` (0.1); ``r``, ``s`` and ``v`` uniform on grids.

Source: the query rule and the noisy search follow Waeber, Frazier, Henderson, Bisection search with
noisy responses (SICON 2013), with unknown rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from afnb.errors import ParameterError

BEFORE = (0.5, 0.6, 0.7, 0.8, 0.9, 0.98)
AFTER = (0.02, 0.1, 0.2, 0.3)
FLAT = (0.02, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.98)
LEAST_DROP = 0.3
PRIOR_DROP = 0.9
QUANTILES = (0.2, 0.35, 0.5, 0.65, 0.8)

PAIRS: tuple[tuple[float, float], ...] = tuple(
    (r, s) for r in BEFORE for s in AFTER if r - s >= LEAST_DROP - 1e-9
)


@dataclass(frozen=True, slots=True)
class Posterior:
    """What the replays so far say of the drop. Immutable: :meth:`updated` gives a new one.

    Parameters
    ----------
    drop
        Weight of each ``(c, (r, s))``, one row per ``c = 1 .. n``.
    flat
        Weight of each ``v`` without a drop. All weights together sum to 1.
    """

    drop: tuple[tuple[float, ...], ...]
    flat: tuple[float, ...]
    places: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", tuple(sum(row) for row in self.drop))

    @classmethod
    def prior(cls, n: int) -> Posterior:
        """Before any replay, for ``n`` answers that can be served.

        Examples
        --------
        >>> round(Posterior.prior(10).no_drop, 3)
        0.1
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ParameterError(f"a drop is looked for among at least 1 answer, got n={n!r}")
        weight = PRIOR_DROP / n / len(PAIRS)
        return cls(((weight,) * len(PAIRS),) * n, ((1.0 - PRIOR_DROP) / len(FLAT),) * len(FLAT))

    def updated(self, k: int, recovered: bool) -> Posterior:
        """After one replay with ``k`` answers served."""
        above = [r if recovered else 1.0 - r for r, _ in PAIRS]
        below = [s if recovered else 1.0 - s for _, s in PAIRS]
        rows = [
            [w * f for w, f in zip(row, above if c > k else below, strict=True)]
            for c, row in enumerate(self.drop, start=1)
        ]
        flat = [w * (v if recovered else 1.0 - v) for w, v in zip(self.flat, FLAT, strict=True)]
        total = sum(map(sum, rows)) + sum(flat)
        return Posterior(
            tuple(tuple([w / total for w in row]) for row in rows), tuple(w / total for w in flat)
        )

    @property
    def n(self) -> int:
        """Number of answers among which the drop is looked for."""
        return len(self.drop)

    @property
    def no_drop(self) -> float:
        """Probability that the rate drops nowhere."""
        return sum(self.flat)

    @property
    def mode(self) -> int:
        """The likeliest drop, from 1; the earliest of equals."""
        return max(range(1, self.n + 1), key=lambda c: (self.places[c - 1], -c))

    @property
    def at_mode(self) -> float:
        """Probability of the likeliest drop."""
        return self.places[self.mode - 1]

    @property
    def flat_rate(self) -> float:
        """Expected rate if there is no drop."""
        return sum(w * v for w, v in zip(self.flat, FLAT, strict=True)) / self.no_drop

    def quantile(self, share: float) -> int:
        """The least ``c`` with at least ``share`` of the drop's probability at or before it."""
        wanted, total = share * sum(self.places), 0.0
        for c, weight in enumerate(self.places, start=1):
            total += weight
            if total >= wanted - 1e-12:
                return c
        return self.n

    def credible(self, level: float = 0.95) -> tuple[int, int]:
        """The shortest run of neighbouring places that holds ``level`` of the drop's probability."""
        wanted = level * sum(self.places) - 1e-12
        best, start, held = (1, self.n), 1, 0.0
        for end in range(1, self.n + 1):
            held += self.places[end - 1]
            while held - self.places[start - 1] >= wanted:
                held -= self.places[start - 1]
                start += 1
            if held >= wanted and end - start < best[1] - best[0]:
                best = (start, end)
        return best

    def recovery(self, k: int) -> float:
        """Probability that the next replay with ``k`` answers served recovers.

        Examples
        --------
        >>> flat = Posterior.prior(4)
        >>> flat.recovery(0) > flat.recovery(4)
        True
        """
        drop = sum(
            w * (r if c > k else s)
            for c, row in enumerate(self.drop, start=1)
            for w, (r, s) in zip(row, PAIRS, strict=True)
        )
        return drop + sum(w * v for w, v in zip(self.flat, FLAT, strict=True))

    def next_query(self) -> int:
        """Where the next replay says most about the drop: the largest mutual information.

        Candidates are the quantiles of the drop and the place after each, the mode and the place before,
        and 0; the first of equals.
        """
        candidates = [k for share in QUANTILES for k in (self.quantile(share), self.quantile(share) + 1)]
        candidates += [self.mode - 1, self.mode, 0]
        information = self._information()
        best, found = -1.0, 0
        for k in candidates:
            if k <= self.n and information[k] > best + 1e-12:
                best, found = information[k], k
        return found

    def _information(self) -> list[float]:
        """Mutual information of the outcome at each ``k = 0 .. n`` and the drop."""
        above_p, above_h, below_p, below_h = [], [], [], []
        for weight, row in zip(self.places, self.drop, strict=True):
            r = sum([w * pair[0] for w, pair in zip(row, PAIRS, strict=True)])
            s = sum([w * pair[1] for w, pair in zip(row, PAIRS, strict=True)])
            above_p.append(r)
            below_p.append(s)
            above_h.append(weight * entropy(r / weight) if weight else 0.0)
            below_h.append(weight * entropy(s / weight) if weight else 0.0)
        no_drop = self.no_drop
        flat_p = sum(w * v for w, v in zip(self.flat, FLAT, strict=True))
        p = sum(above_p) + flat_p
        h = sum(above_h) + (no_drop * entropy(flat_p / no_drop) if no_drop else 0.0)
        found = [entropy(p) - h]
        for r, s, h_r, h_s in zip(above_p, below_p, above_h, below_h, strict=True):
            p += s - r
            h += h_s - h_r
            found.append(entropy(p) - h)
        return found


def entropy(p: float) -> float:
    """Entropy of a coin, in nats.

    Examples
    --------
    >>> entropy(0.0), round(entropy(0.5), 4)
    (0.0, 0.6931)
    """
    if p <= 0.0 or p >= 1.0:
        return 0.0
    return -p * math.log(p) - (1.0 - p) * math.log(1.0 - p)


def posterior_of(n: int, counts: Sequence[tuple[int, int, int]]) -> Posterior:
    """The posterior of a whole measured curve.

    Parameters
    ----------
    n
        Answers that can be served.
    counts
        ``(k, recovered, not_recovered)`` for each measured ``k``.

    Examples
    --------
    >>> posterior_of(3, [(0, 9, 1), (1, 9, 1), (2, 0, 10), (3, 0, 10)]).mode
    2
    """
    prior = Posterior.prior(n)
    yes, no = [0] * (n + 2), [0] * (n + 2)
    for k, recovered, not_recovered in counts:
        if not 0 <= k <= n:
            raise ParameterError(f"a replay can serve 0 to {n} answers, got {k}")
        yes[k] += recovered
        no[k] += not_recovered
    rows: list[list[float]] = []
    ahead_yes, ahead_no, all_yes, all_no = 0, 0, sum(yes), sum(no)
    for c in range(1, n + 1):
        ahead_yes, ahead_no = ahead_yes + yes[c - 1], ahead_no + no[c - 1]
        rows.append(
            [
                math.log(weight)
                + _likelihood(r, ahead_yes, ahead_no)
                + _likelihood(s, all_yes - ahead_yes, all_no - ahead_no)
                for weight, (r, s) in zip(prior.drop[c - 1], PAIRS, strict=True)
            ]
        )
    flat = [math.log(w) + _likelihood(v, all_yes, all_no) for w, v in zip(prior.flat, FLAT, strict=True)]
    top = max(max(map(max, rows)), max(flat))
    drop = [[math.exp(value - top) for value in row] for row in rows]
    even = [math.exp(value - top) for value in flat]
    total = sum(map(sum, drop)) + sum(even)
    return Posterior(tuple(tuple([w / total for w in row]) for row in drop), tuple(w / total for w in even))


def _likelihood(rate: float, recovered: int, not_recovered: int) -> float:
    """Logarithm of the likelihood of these counts."""
    return recovered * math.log(rate) + not_recovered * math.log1p(-rate)
