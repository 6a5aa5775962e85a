"""Consensus over replays: ``SequentialConsensus`` (with a control arm) and ``MajorityConsensus``.

A rule is frozen parameters; ``rule.start()`` gives a machine without clocks, threads or randomness::

    state = rule.start()
    while state.decision is None:
        for w in state.wanted(workers):          # start what is not running yet
            ...
        state.feed(arm, index, outcome, reason)  # as replays finish, in any order

Outcomes are consumed in index order whatever the order of arrival, so the decision and the consumed
replays depend on the outcomes alone. How they become blocks, and what a lost replay does, is told in
:mod:`afnb.causal.machine`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from afnb.causal.decision import ArmName, Decision, OutcomeKind, Stopped, Verdict, Wanted, count
from afnb.causal.machine import Intake, SequentialState
from afnb.errors import ParameterError


@dataclass(frozen=True, slots=True)
class SequentialConsensus:
    """Two arms compared until the evidence decides, with a known error rate.

    ``recovered`` means that the effect is above 0, ``not_recovered`` that it is below ``min_effect``; each
    is said wrongly with probability at most ``alpha``, at whatever moment one stops.

    Parameters
    ----------
    alpha
        Bound on the chance of a false ``recovered``, and on that of a false ``not_recovered``; in (0, 1).
    min_effect
        The effect (difference of the recovery rates) that ``not_recovered`` excludes; in (0, 1).
    max_replays
        Most replays of both arms that are consumed, lost ones included; at least 2.
    timeout_is_failure
        Count a time-out after the branch as not recovered, in both arms. Part of the outcome's definition:
        choose it before the replays, never after.

    Examples
    --------
    >>> state = SequentialConsensus().start()
    >>> [(w.arm, w.index) for w in state.wanted(4) if w.certain]
    [('patch', 0), ('patch', 1), ('patch', 2)]
    >>> for index in range(3):
    ...     state.feed("control", index, "not_recovered")
    ...     state.feed("patch", index, "recovered")
    >>> state.decision.verdict, state.decision.label, state.decision.replays
    ('recovered', 'verified', 6)
    """

    alpha: float = 0.05
    min_effect: float = 0.5
    max_replays: int = 40
    timeout_is_failure: bool = False

    def __post_init__(self) -> None:
        for name in ("alpha", "min_effect"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < 1.0:
                raise ParameterError(f"SequentialConsensus({name}={value!r}): it lies between 0 and 1")
        if (
            isinstance(self.max_replays, bool)
            or not isinstance(self.max_replays, int)
            or self.max_replays < 2
        ):
            raise ParameterError(
                f"SequentialConsensus(max_replays={self.max_replays!r}): it is an integer of at least 2"
            )

    @property
    def controlled(self) -> bool:
        """True: the rule compares with a control arm."""
        return True

    @property
    def error(self) -> float:
        """The bound on a false verdict of either kind: alpha."""
        return self.alpha

    @property
    def refutes_below(self) -> float:
        """The effect that ``not_recovered`` excludes: min_effect."""
        return self.min_effect

    def start(self) -> SequentialState:
        """A machine that has seen nothing yet."""
        return SequentialState(self)

    def split(self, tests: int) -> SequentialConsensus:
        """The same rule at alpha/tests, for confirming each of ``tests`` steps.

        Examples
        --------
        >>> SequentialConsensus().split(2).alpha
        0.025
        """
        if tests < 1:
            raise ParameterError(f"split({tests}): the number of tests is at least 1")
        return replace(self, alpha=self.alpha / tests)


class MajorityState:
    """The machine of a :class:`MajorityConsensus`; made by ``rule.start()``."""

    __slots__ = ("_in", "_rule")

    def __init__(self, rule: MajorityConsensus) -> None:
        self._rule = rule
        self._in = Intake()

    @property
    def decision(self) -> Decision | None:
        """The decision, once there is one; it does not change afterwards."""
        return self._in.decision

    def wanted(self, limit: int) -> list[Wanted]:
        """Patch replays not fed yet that can still change the majority, at most ``limit``, in index order."""
        if self._in.decision is not None:
            return []
        lead, left = self._lead(), self._rule.n - self._in.next["patch"]
        certain = self._in.next["patch"] + (left - abs(lead)) // 2 + 1
        open_ones = [
            i for i in range(self._in.next["patch"], self._rule.n) if ("patch", i) not in self._in.fed
        ]
        return [Wanted("patch", i, i < certain) for i in open_ones[: max(0, limit)]]

    def feed(self, arm: ArmName, index: int, outcome: OutcomeKind, reason: str = "") -> None:
        """Hand in one replay's outcome, in any order; control replays are not used."""
        if not self._in.put(arm, index, outcome, reason) or self._in.decision is not None:
            return
        while self._in.decision is None and self._in.take("patch", self._in.next["patch"]) is not None:
            lead, left = self._lead(), self._rule.n - self._in.next["patch"]
            if left == 0 or abs(lead) > left:
                verdict: Verdict = "unverified" if lead == 0 else "recovered" if lead > 0 else "not_recovered"
                why = (
                    "no majority among the conclusive replays"
                    if lead == 0
                    else "a majority of the replays agrees"
                )
                self._finish(verdict, "majority", why)

    def stop(self, reason: str) -> Decision:
        """End now, ``unverified`` because of ``reason``; returns the decision."""
        if self._in.decision is None:
            self._finish("unverified", "stopped", reason)
        decision = self._in.decision
        assert decision is not None
        return decision

    def _lead(self) -> int:
        kinds = [c.outcome.kind for c in self._in.consumed]
        return kinds.count("recovered") - kinds.count("not_recovered")

    def _finish(self, verdict: Verdict, stopped: Stopped, reason: str) -> None:
        consumed = tuple(self._in.consumed)
        patch, control = count(consumed, "patch"), count(consumed, "control")
        self._in.decision = Decision(verdict, stopped, reason, patch, control, consumed, (), self._rule)


@dataclass(frozen=True, slots=True)
class MajorityConsensus:
    """The strict majority of up to ``n`` conclusive patch replays; a tie, or none, is ``unverified``.

    Kept for comparison. It has no control arm: an agent that recovers by itself 60 % of the time is
    "recovered" in 65 % of experiments on steps that caused nothing. So its verdicts are never labelled
    ``verified``.

    Parameters
    ----------
    n
        Most patch replays; it stops earlier once the rest cannot change the majority.

    Examples
    --------
    >>> state = MajorityConsensus().start()
    >>> for index in range(2):
    ...     state.feed("patch", index, "recovered")
    >>> state.decision.verdict, state.decision.label, state.decision.replays
    ('recovered', 'Unverified', 2)
    """

    n: int = 3

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise ParameterError(f"MajorityConsensus(n={self.n!r}): n is an integer of at least 1")

    @property
    def controlled(self) -> bool:
        """False: there is no control arm."""
        return False

    @property
    def error(self) -> None:
        """None: nothing bounds the chance of a false verdict."""
        return None

    @property
    def refutes_below(self) -> None:
        """None: ``not_recovered`` excludes no effect."""
        return None

    def start(self) -> MajorityState:
        """A machine that has seen nothing yet."""
        return MajorityState(self)


SEARCH = SequentialConsensus(alpha=0.1, max_replays=30)
"""The rule for searching candidate sets: what it finds is confirmed on fresh replays before it counts."""
