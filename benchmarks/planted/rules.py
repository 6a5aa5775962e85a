"""The fixed design to compare with: so many replays of either arm, then Fisher's exact test.

A fixed design has to be sized before anything runs. For the smallest effect that matters (0.5, as 0.75
against 0.25) a one-sided test at 0.05 needs 23 replays of either arm to find it with probability 0.95.
Not significant then means: an effect that large is excluded, with an error of 5 per cent.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from afnb.causal.decision import ARMS, ArmName, Decision, OutcomeKind, Verdict, Wanted, count
from afnb.causal.machine import Intake


@functools.cache
def fisher_p(patch: int, control: int, n: int) -> float:
    """One-sided p-value of ``patch`` against ``control`` successes, ``n`` replays each.

    The chance that the patch arm has at least so many of all the successes, if both arms are alike.
    """
    total = patch + control
    ways = sum(math.comb(n, k) * math.comb(n, total - k) for k in range(patch, min(n, total) + 1))
    return ways / math.comb(2 * n, total)


@functools.cache
def fisher_power(patch_rate: float, control_rate: float, n: int, alpha: float = 0.05) -> float:
    """How often the test is significant at these rates; exact."""

    def share(k: int, rate: float) -> float:
        return math.comb(n, k) * rate**k * (1.0 - rate) ** (n - k)

    return sum(
        share(x, patch_rate) * share(y, control_rate)
        for x in range(n + 1)
        for y in range(n + 1)
        if fisher_p(x, y, n) <= alpha
    )


@dataclass(frozen=True)
class FixedFisher:
    """A fixed number of replays of either arm, then Fisher's exact test: significant or not.

    Lost replays are left out and made up for, at most as many again.
    """

    n: int = 23
    alpha: float = 0.05
    min_effect: float = 0.5

    @property
    def controlled(self) -> bool:
        """True: it compares with a control arm."""
        return True

    @property
    def error(self) -> float:
        """The level of the test."""
        return self.alpha

    @property
    def refutes_below(self) -> float:
        """The effect it was sized for."""
        return self.min_effect

    def start(self) -> FisherState:
        """A machine that has seen nothing yet."""
        return FisherState(self)


class FisherState:
    """The machine of a ``FixedFisher``."""

    def __init__(self, rule: FixedFisher) -> None:
        self._rule = rule
        self._in = Intake()
        self._conclusive = dict.fromkeys(ARMS, 0)

    @property
    def decision(self) -> Decision | None:
        """The decision, once every replay is in."""
        return self._in.decision

    def wanted(self, limit: int) -> list[Wanted]:
        """The replays still missing, the two arms in turn."""
        if self._in.decision is not None:
            return []
        lists = []
        for arm in ARMS:
            index, left, open_ones = self._in.next[arm], self._rule.n - self._conclusive[arm], []
            while left > 0 and index < 2 * self._rule.n:
                outcome = self._in.fed.get((arm, index))
                if outcome is None:
                    open_ones.append(Wanted(arm, index, True))
                left -= outcome is None or not outcome.lost
                index += 1
            lists.append(open_ones)
        longest = max(map(len, lists))
        mixed = [found[i] for i in range(longest) for found in lists if i < len(found)]
        return mixed[: max(0, limit)]

    def feed(self, arm: ArmName, index: int, outcome: OutcomeKind, reason: str = "") -> None:
        """Hand in one replay's outcome, in any order."""
        if not self._in.put(arm, index, outcome, reason) or self._in.decision is not None:
            return
        for name in ARMS:
            while self._conclusive[name] < self._rule.n:
                taken = self._in.take(name, self._conclusive[name])
                if taken is None:
                    break
                self._conclusive[name] += not taken.lost
        if all(found == self._rule.n for found in self._conclusive.values()):
            patch, control = (count(tuple(self._in.consumed), arm).recovered for arm in ARMS)
            significant = fisher_p(patch, control, self._rule.n) <= self._rule.alpha
            self._finish("recovered" if significant else "not_recovered", "every replay is in")
        elif any(
            self._in.next[name] >= 2 * self._rule.n and self._conclusive[name] < self._rule.n for name in ARMS
        ):
            self._finish("unverified", "too many replays were lost")

    def stop(self, reason: str) -> Decision:
        """End now, without a verdict."""
        if self._in.decision is None:
            self._finish("unverified", reason)
        assert self._in.decision is not None
        return self._in.decision

    def _finish(self, verdict: Verdict, reason: str) -> None:
        consumed = tuple(self._in.consumed)
        self._in.decision = Decision(
            verdict=verdict,
            stopped="stopped" if verdict == "unverified" else "evidence",
            reason=reason,
            patch=count(consumed, "patch"),
            control=count(consumed, "control"),
            consumed=consumed,
            blocks=(),
            rule=self._rule,
        )
