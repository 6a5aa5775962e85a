"""``Curve``: the whole recoverability curve, a fixed number of replays at every place.

The machine hands out replays round by round, each round once over all places, so that a search that is
cut short (a budget, an interrupt) has a coarse curve of everything and not a fine one of the beginning.
It ends with the same value as the bisection: the likeliest drop under the model of one drop.
"""

from __future__ import annotations

from dataclasses import dataclass

from afnb.causal.bisect import Asked, Ended, Located, Probe
from afnb.causal.decision import OUTCOME_KINDS, OutcomeKind, ReplayOutcome
from afnb.causal.posterior import Posterior, posterior_of
from afnb.errors import ParameterError


class CurveState:
    """The machine of a :class:`Curve`; made by ``curve.start()``."""

    __slots__ = ("_decision", "_done", "_fed", "_rule", "_total")

    def __init__(self, rule: Curve) -> None:
        self._rule = rule
        self._total = (rule.n + 1) * rule.replays
        self._done = 0
        self._fed: dict[tuple[int, int], ReplayOutcome] = {}
        self._decision: Located | None = None

    @property
    def decision(self) -> Located | None:
        """What was measured, once all of it is."""
        return self._decision

    def wanted(self, limit: int) -> list[Probe]:
        """The next replays, at most ``limit``, in the order of rounds."""
        if self._decision is not None:
            return []
        found: list[Probe] = []
        number = self._done
        while number < self._total and len(found) < limit:
            index, served = divmod(number, self._rule.n + 1)
            number += 1
            if (served, index) not in self._fed:
                found.append(Probe(served, index, certain=True))
            elif not found:
                self._done = number
        return found

    def feed(self, served: int, index: int, outcome: OutcomeKind, reason: str = "") -> None:
        """Hand in the outcome of one replay, in any order. A lost one is not run again."""
        if outcome not in OUTCOME_KINDS:
            raise ParameterError(f"feed: outcome is one of {', '.join(OUTCOME_KINDS)}; got {outcome!r}")
        if not 0 <= served <= self._rule.n or not 0 <= index < self._rule.replays:
            raise ParameterError(
                f"feed: places are 0 to {self._rule.n} and replays 0 to {self._rule.replays - 1}, got replay "
                f"{index} at {served}"
            )
        known = self._fed.setdefault((served, index), ReplayOutcome(outcome, reason))
        if known.kind != outcome:
            raise ParameterError(
                f"feed: replay {index} at {served} was {known.kind} before and is {outcome} now"
            )
        if len(self._fed) == self._total and self._decision is None:
            self._finish(None)

    def stop(self, reason: str) -> Located:
        """End now because of ``reason`` (a spent budget, an interrupt), with what was measured."""
        if self._decision is None:
            self._finish(reason)
        assert self._decision is not None
        return self._decision

    def _finish(self, stopped: str | None) -> None:
        asked = tuple(
            Asked(served, index, self._fed[served, index])
            for index, served in sorted((index, served) for served, index in self._fed)
        )
        posterior = posterior_of(self._rule.n, _counts(asked))
        ended, reason = self._ending(posterior, stopped, asked)
        likely = posterior.at_mode >= self._rule.confirm_from and ended not in ("inconclusive", "no_drop")
        self._decision = Located(
            answer=posterior.mode if likely else None,
            probability=posterior.at_mode,
            no_drop=posterior.no_drop,
            interval=posterior.credible(),
            ended=ended,
            reason=reason,
            asked=asked,
            flat_rate=posterior.flat_rate,
            places=posterior.places,
        )

    def _ending(
        self, posterior: Posterior, stopped: str | None, asked: tuple[Asked, ...]
    ) -> tuple[Ended, str]:
        if stopped is not None:
            return "stopped", stopped
        lost = [a.outcome for a in asked if a.outcome.lost]
        if 2 * len(lost) > len(asked):
            reasons = [outcome.reason or outcome.kind for outcome in lost]
            often = max(dict.fromkeys(reasons), key=reasons.count)
            return "inconclusive", f"{len(lost)} of {len(asked)} replays were inconclusive ({often})"
        if posterior.no_drop >= self._rule.flat_at:
            return "no_drop", f"no drop anywhere has probability {posterior.no_drop:.2f}"
        if posterior.at_mode >= self._rule.confirm_from:
            return "found", f"one answer has probability {posterior.at_mode:.2f}"
        return "max_replays", f"{self._rule.replays} replays at every place do not single out one answer"


@dataclass(frozen=True, slots=True)
class Curve:
    """Parameters of a measured curve.

    Parameters
    ----------
    n
        Number of recorded answers that can be served (places 0 to n).
    replays
        Replays at each place.
    confirm_from
        Name a drop for confirmation from this probability on.
    flat_at
        Say "no drop" from this probability on.

    Examples
    --------
    >>> state = Curve(5, replays=4).start()
    >>> while state.decision is None:
    ...     for probe in state.wanted(3):
    ...         state.feed(probe.served, probe.index, "recovered" if probe.served < 3 else "not_recovered")
    >>> state.decision.answer, state.decision.replays
    (3, 24)
    """

    n: int
    replays: int = 20
    confirm_from: float = 0.5
    flat_at: float = 0.95

    def __post_init__(self) -> None:
        Posterior.prior(self.n)
        if isinstance(self.replays, bool) or not isinstance(self.replays, int) or self.replays < 1:
            raise ParameterError(
                f"Curve(replays={self.replays!r}): replays at each place, a whole number from 1"
            )

    def start(self) -> CurveState:
        """A machine that has asked nothing yet."""
        return CurveState(self)


def _counts(asked: tuple[Asked, ...]) -> list[tuple[int, int, int]]:
    found: dict[int, list[int]] = {}
    for one in asked:
        row = found.setdefault(one.served, [0, 0])
        if not one.outcome.lost:
            row[one.outcome.kind != "recovered"] += 1
    return [(served, row[0], row[1]) for served, row in sorted(found.items())]
