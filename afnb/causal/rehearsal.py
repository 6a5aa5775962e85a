"""Rehearsals: a whole attribution or search with made-up outcomes, to plan it and to test it.

The same machines that decide over real replays run here over a seeded coin, so that a plan says what
the procedure will do and not what a formula thinks of it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afnb.causal.bisect import Bisection
from afnb.causal.consensus import SEARCH, SequentialConsensus
from afnb.causal.curve import Curve as Measured
from afnb.causal.decision import ArmName, Decision, OutcomeKind
from afnb.causal.minimise import Minimiser, Subset
from afnb.errors import ParameterError

Curve = Callable[[int], float]
"""Recovery rate by branch point."""


@dataclass(frozen=True, slots=True)
class World:
    """Recovery rates of an attribution's arms.

    Parameters
    ----------
    candidates
        How many candidate steps there are, numbered from 0 in run order.
    rate
        ``rate(subset, branch)``: how often the run recovers when the candidates of ``subset`` are grafted,
        all others through ``branch`` are as recorded and everything after it is live.
    """

    candidates: int
    rate: Callable[[Subset, int], float]


def one_cause(candidates: int, cause: int | None, patched: float, base: float, after: float) -> World:
    """A world in which one step decides.

    Parameters
    ----------
    candidates
        How many candidates there are.
    cause
        The one that matters; None for none, so that every arm recovers at ``base``.
    patched
        Rate with the cause grafted.
    base
        Rate while the cause is still ahead, and so drawn anew.
    after
        Rate once the cause was served as recorded.

    Examples
    --------
    >>> world = one_cause(10, 3, 0.9, 0.8, 0.1)
    >>> world.rate((3,), 5), world.rate((1,), 2), world.rate((1,), 5), world.rate((), 3)
    (0.9, 0.8, 0.1, 0.1)
    """

    def rate(subset: Subset, branch: int) -> float:
        if cause is None or branch < cause:
            return base
        return patched if cause in subset else after

    return World(candidates, rate)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What one rehearsed attribution ended with, and the replays it used.

    ``found`` is the set the search ended with (empty: none), ``verified`` the steps of it confirmed;
    ``branches`` says for each branch point how many of the replays it took.
    """

    found: Subset
    verified: Subset
    replays: int
    search_replays: int
    branches: tuple[tuple[int, int], ...] = ()


def rehearse_attribution(
    world: World,
    seed: int,
    rule: SequentialConsensus | None = None,
    search: SequentialConsensus = SEARCH,
    *,
    precondition: SequentialConsensus | None = None,
) -> Rehearsal:
    """One attribution: precondition, delta debugging with shared controls, confirmation on fresh replays.

    Parameters
    ----------
    world
        The assumed rates.
    seed
        Of the outcomes.
    rule
        Rule of the confirmation, split over the steps of the set found; the default rule if None.
    search
        Rule of the search.
    precondition
        Rule of the first question (all grafted); that of the search if None.

    Examples
    --------
    >>> rehearse_attribution(one_cause(8, 5, 1.0, 1.0, 0.0), seed=1).verified
    (5,)
    """
    rule = rule or SequentialConsensus()
    coin = random.Random(seed)
    shared: dict[int, list[OutcomeKind]] = {}
    minimiser = Minimiser(world.candidates, remember=True, infer=True)
    used = 0
    taken: Counter[int] = Counter()
    while minimiser.question is not None:
        subset = minimiser.question
        branch = max(subset)
        controls = shared.setdefault(branch, [])
        before = len(controls)
        first = len(subset) == world.candidates
        decision = _decide(
            precondition if first and precondition is not None else search,
            (world.rate(subset, branch), world.rate((), branch)),
            coin,
            controls,
        )
        taken[branch] += decision.patch.conclusive + len(controls) - before
        used = taken.total()
        minimiser.answer(decision.verdict)
    result = minimiser.result
    assert result is not None
    if result.subset is None:
        return Rehearsal((), (), used, used, tuple(sorted(taken.items())))
    found, searched = result.subset, used
    branch, verified = max(found), []
    patches: list[OutcomeKind] = []
    for step in found:
        rest = tuple(other for other in found if other != step)
        rates = (world.rate(found, branch), world.rate(rest, branch))
        before = len(patches)
        decision = _decide(rule.split(len(found)), rates, coin, [], patches)
        taken[branch] += len(patches) - before + decision.control.conclusive
        if decision.verdict == "recovered":
            verified.append(step)
    return Rehearsal(found, tuple(verified), taken.total(), searched, tuple(sorted(taken.items())))


def _decide(
    rule: SequentialConsensus,
    rates: tuple[float, float],
    coin: random.Random,
    controls: list[OutcomeKind],
    patches: list[OutcomeKind] | None = None,
) -> Decision:
    """One experiment; outcomes already drawn for an arm are used again, new ones are appended."""
    streams: dict[ArmName, tuple[list[OutcomeKind], float]] = {
        "patch": ([] if patches is None else patches, rates[0]),
        "control": (controls, rates[1]),
    }
    state = rule.start()
    while True:
        decision = state.decision
        if decision is not None:
            return decision
        (wanted,) = state.wanted(1)
        stream, rate = streams[wanted.arm]
        if wanted.index == len(stream):
            stream.append("recovered" if coin.random() < rate else "not_recovered")
        state.feed(wanted.arm, wanted.index, stream[wanted.index])


@dataclass(frozen=True, slots=True)
class LocateRehearsal:
    """What one rehearsed search for a drop ended with, and the replays it used; ``places``: where."""

    answer: int | None
    verified: bool
    interval: tuple[int, int]
    replays: int
    search_replays: int
    places: tuple[tuple[int, int], ...] = ()
    refuted: bool = False


def rehearse_locate(
    n: int,
    curve: Curve,
    seed: int,
    rule: SequentialConsensus | None = None,
    search: Bisection | Measured | None = None,
) -> LocateRehearsal:
    """One search for a drop among ``n`` answers with its confirmation on fresh replays.

    Examples
    --------
    >>> found = rehearse_locate(20, lambda k: 1.0 if k < 13 else 0.0, seed=1)
    >>> found.answer, found.verified
    (13, True)
    """
    coin = random.Random(seed)
    state = (search or Bisection(n)).start()
    while True:
        located = state.decision
        if located is not None:
            break
        probe = state.wanted(1)[0]
        recovered = coin.random() < curve(probe.served)
        state.feed(probe.served, probe.index, "recovered" if recovered else "not_recovered")
    taken = Counter(asked.served for asked in located.asked)
    if located.answer is None:
        places = tuple(sorted(taken.items()))
        return LocateRehearsal(None, False, located.interval, located.replays, located.replays, places)
    rates = (curve(located.answer - 1), curve(located.answer))
    decision = _decide(rule or SequentialConsensus(), rates, coin, [])
    taken[located.answer - 1] += decision.patch.conclusive
    taken[located.answer] += decision.control.conclusive
    return LocateRehearsal(
        located.answer,
        decision.verdict == "recovered",
        located.interval,
        located.replays + decision.replays,
        located.replays,
        tuple(sorted(taken.items())),
        decision.verdict == "not_recovered",
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """Replays of many rehearsals: mean, median and the largest seen."""

    mean: float
    median: float
    most: int


def cost(replays: Sequence[int]) -> Cost:
    """Summary of replay counts.

    Examples
    --------
    >>> cost([6, 10, 8])
    Cost(mean=8.0, median=8, most=10)
    """
    if not replays:
        raise ParameterError("cost needs at least one rehearsal")
    ordered, n = sorted(replays), len(replays)
    median = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    return Cost(sum(ordered) / n, median, ordered[-1])
