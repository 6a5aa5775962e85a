"""``Bisection``: find where recovery is lost with few replays, one question at a time.

The machine asks for replays with ``k`` of the recording's answers served, consumes their outcomes in the
order of its questions, whatever order they arrive in, and ends with the likeliest drop. That is a search:
it guarantees nothing by itself. The drop it names is confirmed on fresh replays by a rule with a known
error rate (patch arm = tape through ``c - 1`` answers, control arm = tape through ``c``).
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from afnb.causal.decision import OUTCOME_KINDS, OutcomeKind, ReplayOutcome
from afnb.causal.posterior import Posterior
from afnb.errors import ParameterError

Ended = Literal["found", "no_drop", "max_replays", "inconclusive", "stopped"]
GIVE_UP_AFTER = 5
LOW_RATE = 0.1
"""A flat recovery rate below this means that the agent does not recover even from the start."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A replay the search can use: ``served`` answers from the tape, its number at that place, certainty."""

    served: int
    index: int
    certain: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of the search and its outcome, in the order of asking."""

    served: int
    index: int
    outcome: ReplayOutcome


@dataclass(frozen=True, slots=True)
class Located:
    """Where the search ended.

    Parameters
    ----------
    answer
        Number ``c`` (from 1) of the recorded answer whose serving lowers the recovery rate most, if it
        is likelier than not; else None. To be confirmed.
    probability
        Of the likeliest drop, under the model.
    no_drop
        Probability that the rate drops nowhere.
    interval
        95 % credible interval of ``c`` under the model of one drop.
    ended, reason
        Why the search stopped.
    asked
        Every question with its outcome.
    flat_rate
        The expected recovery rate if there is no drop.
    """

    answer: int | None
    probability: float
    no_drop: float
    interval: tuple[int, int]
    ended: Ended
    reason: str
    asked: tuple[Asked, ...]
    flat_rate: float
    places: tuple[float, ...]

    @property
    def replays(self) -> int:
        """How many replays the search consumed."""
        return len(self.asked)

    @property
    def nothing_to_locate(self) -> bool:
        """Whether the agent does not recover even with nothing served."""
        return self.ended == "no_drop" and self.flat_rate < LOW_RATE

    def counts(self) -> list[tuple[int, int, int]]:
        """``(served, recovered, conclusive)`` for each asked place, ascending."""
        found: dict[int, list[int]] = {}
        for asked in self.asked:
            row = found.setdefault(asked.served, [0, 0])
            row[0] += asked.outcome.kind == "recovered"
            row[1] += not asked.outcome.lost
        return [(served, *found[served]) for served in sorted(found)]  # type: ignore[misc]


class BisectionState:
    """The machine of a :class:`Bisection`; made by ``bisection.start()``."""

    __slots__ = ("_asked", "_decision", "_fed", "_lost", "_next", "_posterior", "_rule")

    def __init__(self, rule: Bisection) -> None:
        self._rule = rule
        self._posterior = Posterior.prior(rule.n)
        self._fed: dict[tuple[int, int], ReplayOutcome] = {}
        self._next: Counter[int] = Counter()
        self._asked: list[Asked] = []
        self._lost = 0
        self._decision: Located | None = None

    @property
    def decision(self) -> Located | None:
        """Where the search ended, once it has."""
        return self._decision

    @property
    def posterior(self) -> Posterior:
        """What is known so far."""
        return self._posterior

    def feed(self, served: int, index: int, outcome: OutcomeKind, reason: str = "") -> None:
        """Hand in the outcome of one replay, in any order.

        Lost replays of either kind are passed over: the search asks the same place again.
        """
        if outcome not in OUTCOME_KINDS:
            raise ParameterError(f"feed: outcome is one of {', '.join(OUTCOME_KINDS)}; got {outcome!r}")
        if not 0 <= served <= self._rule.n:
            raise ParameterError(f"feed: a replay can serve 0 to {self._rule.n} answers, got {served}")
        known = self._fed.setdefault((served, index), ReplayOutcome(outcome, reason))
        if known.kind != outcome:
            raise ParameterError(
                f"feed: replay {index} at {served} was {known.kind} before and is {outcome} now"
            )
        while self._decision is None:
            k = self._posterior.next_query()
            found = self._fed.get((k, self._next[k]))
            if found is None:
                return
            self._consume(k, found)

    def stop(self, reason: str) -> Located:
        """End now because of ``reason`` (a spent budget, an interrupt)."""
        if self._decision is None:
            self._finish("stopped", reason)
        assert self._decision is not None
        return self._decision

    def wanted(self, limit: int) -> list[Probe]:
        """The replay the search waits for, then those it is likeliest to ask for next, at most ``limit``."""
        if self._decision is not None or limit < 1:
            return []
        found: list[Probe] = []
        tie = 0
        waiting: list[tuple[float, int, Posterior, Counter[int], int]] = [
            (-1.0, tie, self._posterior, self._next, len(self._asked))
        ]
        seen: set[tuple[int, int]] = set()
        tries = 0
        while waiting and len(found) < limit and tries < 4 * limit + len(self._fed):
            tries += 1
            chance, _, posterior, asked, used = heapq.heappop(waiting)
            k = posterior.next_query()
            key = (k, asked[k])
            after = asked + Counter({k: 1})
            known = self._fed.get(key)
            if known is None and key not in seen:
                found.append(Probe(*key, certain=not found))
                seen.add(key)
            for recovered in (True, False):
                if known is not None and not known.lost and (known.kind == "recovered") != recovered:
                    continue
                if known is not None and known.lost:
                    branch, share = posterior, 1.0
                else:
                    rate = posterior.recovery(k)
                    share = 1.0 if known is not None else rate if recovered else 1.0 - rate
                    branch = posterior.updated(k, recovered)
                if self._rule.ending(branch, used + 1) is None:
                    tie += 1
                    heapq.heappush(waiting, (chance * share, tie, branch, after, used + 1))
                if known is not None:
                    break
        return found

    def _consume(self, k: int, outcome: ReplayOutcome) -> None:
        self._asked.append(Asked(k, self._next[k], outcome))
        self._next[k] += 1
        if outcome.lost:
            self._lost += 1
            if self._lost == len(self._asked) == GIVE_UP_AFTER:
                self._finish("inconclusive", f"the first {GIVE_UP_AFTER} replays were all inconclusive")
            elif 2 * self._lost > self._rule.max_replays:
                self._finish("inconclusive", f"{self._lost} of {len(self._asked)} replays were inconclusive")
        else:
            self._posterior = self._posterior.updated(k, outcome.kind == "recovered")
        ending = self._rule.ending(self._posterior, len(self._asked))
        if ending is not None and self._decision is None:
            self._finish(*ending)

    def _finish(self, ended: Ended, reason: str) -> None:
        p = self._posterior
        if ended == "inconclusive":
            reasons = Counter(a.outcome.reason or a.outcome.kind for a in self._asked if a.outcome.lost)
            reason = f"{reason} ({reasons.most_common(1)[0][0]})"
        self._decision = Located(
            answer=p.mode if p.at_mode >= self._rule.confirm_from and ended != "inconclusive" else None,
            probability=p.at_mode,
            no_drop=p.no_drop,
            interval=p.credible(),
            ended=ended,
            reason=reason,
            asked=tuple(self._asked),
            flat_rate=p.flat_rate,
            places=p.places,
        )


@dataclass(frozen=True, slots=True)
class Bisection:
    """Parameters of the search.

    Parameters
    ----------
    n
        Number of recorded answers that can be served (branch points 0 to n).
    found_at
        Stop when the likeliest drop has this probability.
    flat_at
        Stop when "no drop" has this probability.
    confirm_from
        Name a drop for confirmation from this probability on.
    max_replays
        Most replays the search consumes.

    Examples
    --------
    >>> state = Bisection(20).start()
    >>> while state.decision is None:
    ...     probe = state.wanted(1)[0]
    ...     state.feed(probe.served, probe.index, "recovered" if probe.served < 13 else "not_recovered")
    >>> state.decision.answer, state.decision.ended
    (13, 'found')
    """

    n: int
    found_at: float = 0.9
    flat_at: float = 0.95
    confirm_from: float = 0.5
    max_replays: int = 60

    def __post_init__(self) -> None:
        Posterior.prior(self.n)
        for name in ("found_at", "flat_at", "confirm_from"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ParameterError(f"Bisection({name}={getattr(self, name)!r}): it lies between 0 and 1")
        if self.max_replays < 1:
            raise ParameterError(f"Bisection(max_replays={self.max_replays!r}): it is at least 1")

    def start(self) -> BisectionState:
        """A machine that has asked nothing yet."""
        return BisectionState(self)

    def ending(self, posterior: Posterior, replays: int) -> tuple[Ended, str] | None:
        """Why the search ends with this posterior after so many replays; None if it goes on."""
        if posterior.at_mode >= self.found_at:
            return "found", f"one answer has probability {posterior.at_mode:.2f}"
        if posterior.no_drop >= self.flat_at:
            return "no_drop", f"no drop anywhere has probability {posterior.no_drop:.2f}"
        if replays >= self.max_replays:
            return "max_replays", f"{self.max_replays} replays are the most this search may use"
        return None
