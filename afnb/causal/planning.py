"""How many replays a rule will take, and how often it decides, for assumed recovery rates."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afnb.causal.consensus import SequentialConsensus
from afnb.causal.decision import ArmName, Decision, OutcomeKind, Rule, Verdict
from afnb.causal.evidence import bets, block_code, log, log_sum
from afnb.errors import ParameterError

Sums = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What to expect of a rule at assumed rates.

    Parameters
    ----------
    patch_rate, control_rate
        The assumed recovery rates of the two arms.
    recovered, not_recovered, unverified
        Probability of each verdict.
    replays
        ``replays[n]`` is the probability that exactly ``n`` replays of both arms are used.
    """

    patch_rate: float
    control_rate: float
    recovered: float
    not_recovered: float
    unverified: float
    replays: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Expected number of replays."""
        return sum(n * share for n, share in enumerate(self.replays))

    @property
    def most(self) -> int:
        """The largest number of replays that can happen at all."""
        return max(n for n, share in enumerate(self.replays) if share > 0)

    @property
    def median(self) -> int:
        """Half of the experiments use at most this many replays."""
        return self.quantile(0.5)

    def quantile(self, share: float) -> int:
        """The least number of replays that at least ``share`` of the experiments do not exceed."""
        total = 0.0
        for n, probability in enumerate(self.replays):
            total += probability
            if total >= share - 1e-12:
                return n
        return len(self.replays) - 1


@functools.lru_cache(maxsize=512)
def forecast(rule: SequentialConsensus, patch_rate: float, control_rate: float) -> Forecast:
    """Exact forecast of the sequential rule, by dynamic programming over outcome counts.

    The rule's state is the number of blocks of each kind, so all orders with equal counts are one state.
    No replay is assumed lost.

    Parameters
    ----------
    rule
        The rule.
    patch_rate, control_rate
        Assumed recovery rates, in [0, 1].

    Examples
    --------
    >>> clean = forecast(SequentialConsensus(), 1.0, 0.0)
    >>> clean.recovered, clean.median, clean.mean
    (1.0, 6, 6.0)
    >>> round(forecast(SequentialConsensus(), 0.9, 0.1).mean, 1)
    9.7
    """
    for name, rate in (("patch_rate", patch_rate), ("control_rate", control_rate)):
        if not 0.0 <= rate <= 1.0:
            raise ParameterError(f"forecast({name}={rate!r}): a rate lies between 0 and 1")
    table, threshold = bets(rule.min_effect), -log(rule.alpha)
    shares = {"recovered": 0.0, "not_recovered": 0.0, "unverified": 0.0}
    replays = [0.0] * (rule.max_replays + 1)
    outcomes = {
        lazy: [
            (block_code(lazy, x, y), 1 if lazy and x == 0 else 2, probability)
            for x, y, probability in _blocks(lazy, patch_rate, control_rate)
            if probability > 0.0
        ]
        for lazy in (True, False)
    }
    # counts per block code (as a tuple) -> [probability, cost, log sums of either side]
    layer: dict[tuple[int, ...], tuple[float, int, bool, Sums]] = {
        (0,) * 18: (1.0, 0, True, (table.verify_weights, table.refute_weights))
    }
    while layer:
        following: dict[tuple[int, ...], tuple[float, int, bool, Sums]] = {}
        for counts, (share, cost, lazy, (v, w)) in layer.items():
            if cost > rule.max_replays - 2:
                shares["unverified"] += share
                replays[cost] += share
                continue
            for code, price, probability in outcomes[lazy]:
                key = (*counts[:code], counts[code] + 1, *counts[code + 1 :])
                known = following.get(key)
                if known is not None:
                    following[key] = (known[0] + share * probability, *known[1:])
                    continue
                new_v = tuple(old + new for old, new in zip(v, table.verify[code], strict=True))
                new_w = tuple(old + new for old, new in zip(w, table.refute[code], strict=True))
                still_lazy = lazy and code == block_code(True, 0, None)
                following[key] = (share * probability, cost + price, still_lazy, (new_v, new_w))
        layer = {}
        for key, entry in following.items():
            share, cost, _, (v, w) = entry
            if log_sum(v) >= threshold:
                verdict = "recovered"
            elif log_sum(w) >= threshold:
                verdict = "not_recovered"
            else:
                layer[key] = entry
                continue
            shares[verdict] += share
            replays[cost] += share
    return Forecast(patch_rate, control_rate, **shares, replays=tuple(replays))


def _blocks(lazy: bool, p: float, q: float) -> list[tuple[int, int | None, float]]:
    with_control = [(1, 1, p * q), (1, 0, p * (1.0 - q))]
    if lazy:
        return [*with_control, (0, None, 1.0 - p)]
    return [*with_control, (0, 1, (1.0 - p) * q), (0, 0, (1.0 - p) * (1.0 - q))]


Draw = Callable[[random.Random, ArmName, int], tuple[OutcomeKind, str]]
"""Draws the outcome (and the reason of a loss) of one replay: generator, arm, index."""


def simulate(rule: Rule, draw: Draw, seed: int) -> Decision:
    """One experiment through the rule's own machine, one replay at a time, with made-up outcomes.

    Parameters
    ----------
    rule
        Any consensus rule.
    draw
        Draws an outcome; see :func:`rates` for the plain case.
    seed
        Of the generator that ``draw`` gets.

    Examples
    --------
    >>> simulate(SequentialConsensus(), rates(1.0, 0.0), seed=0).replays
    6
    """
    generator = random.Random(seed)
    state = rule.start()
    while True:
        decision = state.decision
        if decision is not None:
            return decision
        (wanted,) = state.wanted(1)
        kind, reason = draw(generator, wanted.arm, wanted.index)
        state.feed(wanted.arm, wanted.index, kind, reason)


def rates(
    patch_rate: float,
    control_rate: float,
    *,
    lost_before: float = 0.0,
    lost_after: float = 0.0,
) -> Draw:
    """Independent outcomes with fixed recovery rates and loss rates (the same in both arms).

    Examples
    --------
    >>> rates(1.0, 0.0)(random.Random(0), "patch", 0)
    ('recovered', '')
    """

    def draw(generator: random.Random, arm: ArmName, _index: int) -> tuple[OutcomeKind, str]:
        fate, luck = generator.random(), generator.random()
        if fate < lost_before:
            return "lost_before", "lost"
        if fate < lost_before + lost_after:
            return "lost_after", "lost"
        rate = patch_rate if arm == "patch" else control_rate
        return ("recovered" if luck < rate else "not_recovered"), ""

    return draw


@dataclass(frozen=True, slots=True)
class Tally:
    """Shares of the verdicts and the replays of many simulated experiments."""

    n: int
    recovered: float
    not_recovered: float
    unverified: float
    mean: float
    median: float


def tally(decisions: Sequence[Decision]) -> Tally:
    """Shares and replays of decisions.

    Examples
    --------
    >>> tally([simulate(SequentialConsensus(), rates(0.0, 0.0), seed) for seed in range(3)])
    Tally(n=3, recovered=0.0, not_recovered=1.0, unverified=0.0, mean=5.0, median=5)
    """
    if not decisions:
        raise ParameterError("tally needs at least one decision")
    n = len(decisions)
    verdicts: list[Verdict] = [decision.verdict for decision in decisions]
    used = sorted(decision.replays for decision in decisions)
    middle = used[n // 2] if n % 2 else (used[n // 2 - 1] + used[n // 2]) / 2
    return Tally(
        n,
        verdicts.count("recovered") / n,
        verdicts.count("not_recovered") / n,
        verdicts.count("unverified") / n,
        sum(used) / n,
        middle,
    )
