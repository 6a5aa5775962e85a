"""``Decision``: what a consensus rule made of the replays, and everything it rests on. Frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from afnb.causal.interval import effect_interval, wilson

ArmName = Literal["patch", "control"]
OutcomeKind = Literal["recovered", "not_recovered", "lost_before", "lost_after"]
Verdict = Literal["recovered", "not_recovered", "unverified"]
Label = Literal["verified", "Unverified"]
Stopped = Literal["evidence", "majority", "max_replays", "inconclusive", "stopped"]

ARMS: tuple[ArmName, ArmName] = ("patch", "control")
OUTCOME_KINDS: tuple[OutcomeKind, ...] = ("recovered", "not_recovered", "lost_before", "lost_after")
TIMEOUT = "timeout"
"""The reason that ``timeout_is_failure`` looks for."""


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What one replay was: recovered, not recovered, or lost before or after its first intervened answer.

    ``reason`` says why a replay was lost, in a word or a short sentence; the commonest one is reported.
    """

    kind: OutcomeKind
    reason: str = ""

    @property
    def lost(self) -> bool:
        """Whether it is neither a recovery nor a failure.

        Examples
        --------
        >>> ReplayOutcome("lost_after", "timeout").lost
        True
        """
        return self.kind in ("lost_before", "lost_after")


@dataclass(frozen=True, slots=True)
class Consumed:
    """One replay as the rule took it: which, what it was, and the block it went into (None: discarded)."""

    arm: ArmName
    index: int
    outcome: ReplayOutcome
    block: int | None


@dataclass(frozen=True, slots=True)
class Block:
    """One block of the sequence and the evidence after it.

    ``patch`` and ``control`` are 1 (recovered), 0 (not), or None (lost, or no control run). The two
    e-values are those after this block: against "no effect" and against "effect of at least min_effect".
    """

    code: int
    patch: int | None
    control: int | None
    lazy: bool
    e_recovered: float
    e_not_recovered: float


@dataclass(frozen=True, slots=True)
class ArmCounts:
    """Replays of one arm that the rule consumed, by outcome."""

    recovered: int = 0
    not_recovered: int = 0
    lost_before: int = 0
    lost_after: int = 0

    @property
    def conclusive(self) -> int:
        """Replays that recovered or did not.

        Examples
        --------
        >>> ArmCounts(recovered=3, not_recovered=1, lost_before=2).conclusive
        4
        """
        return self.recovered + self.not_recovered

    @property
    def lost(self) -> int:
        """Replays that say nothing."""
        return self.lost_before + self.lost_after

    @property
    def rate(self) -> float | None:
        """Recovered among the conclusive ones; None without any."""
        return self.recovered / self.conclusive if self.conclusive else None

    @property
    def wilson(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of the rate: descriptive, since stopping was optional."""
        return wilson(self.recovered, self.conclusive)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The rate if every lost replay had failed, and if every one had recovered."""
        total = self.conclusive + self.lost
        return (self.recovered / total, (self.recovered + self.lost) / total) if total else None


Otherwise = Literal["recovered", "not_recovered", "unverified", "undecided"]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The verdict had every lost replay gone one way; ``undecided``: the replays at hand would not decide.

    ``if_for``: each lost patch replay recovered, each lost control replay did not. ``if_against``: the
    other way round.
    """

    verdict: Verdict
    if_for: Otherwise
    if_against: Otherwise

    @property
    def changes(self) -> bool:
        """Whether either way would have ended elsewhere.

        Examples
        --------
        >>> Sensitivity("recovered", "recovered", "undecided").changes
        True
        """
        ways = {"unverified" if way == "undecided" else way for way in (self.if_for, self.if_against)}
        return ways != {self.verdict}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A replay the rule can still use; ``certain`` if it will be, barring lost replays and ``stop``."""

    arm: ArmName
    index: int
    certain: bool


class RuleState(Protocol):
    """The stepwise machine of a consensus rule."""

    def wanted(self, limit: int) -> list[Wanted]:
        """Up to ``limit`` replays that were not fed yet and can still be used, most needed first."""

    def feed(self, arm: ArmName, index: int, outcome: OutcomeKind, reason: str = "") -> None:
        """Hand in one replay's outcome, in any order."""

    def stop(self, reason: str) -> Decision:
        """End without further replays (budget, interrupt)."""

    @property
    def decision(self) -> Decision | None:
        """The decision, once there is one."""


class Rule(Protocol):
    """A consensus rule: frozen parameters that start a machine."""

    @property
    def controlled(self) -> bool:
        """Whether the rule compares with a control arm."""

    @property
    def error(self) -> float | None:
        """Bound on the chance of a false verdict of either kind; None if there is none."""

    @property
    def refutes_below(self) -> float | None:
        """The effect that ``not_recovered`` excludes; None if there is none."""

    def start(self) -> RuleState:
        """A machine that has seen nothing yet."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the rule concluded, why it stopped, and the replays it rests on.

    Parameters
    ----------
    verdict
        ``recovered`` (effect above 0), ``not_recovered`` (effect below min_effect) or ``unverified``.
    stopped
        ``evidence``, ``majority``, ``max_replays``, ``inconclusive`` (too many lost) or ``stopped``
        (from outside: a budget, an interrupt).
    reason
        The same in words.
    patch, control
        Counts of the consumed replays per arm.
    consumed
        Every replay the rule took, in the order it took them: the same for any order of arrival.
    blocks
        The blocks with both e-values after each: the path of the evidence.
    rule
        The rule that decided. One without a control arm never earns ``verified``.
    """

    verdict: Verdict
    stopped: Stopped
    reason: str
    patch: ArmCounts
    control: ArmCounts
    consumed: tuple[Consumed, ...]
    blocks: tuple[Block, ...]
    rule: Rule

    @property
    def label(self) -> Label:
        """``verified`` for a decided verdict of a controlled rule, else ``Unverified``."""
        return "verified" if self.rule.controlled and self.verdict != "unverified" else "Unverified"

    @property
    def threshold(self) -> float | None:
        """What an e-value must reach: 1/alpha; None for a rule without evidence."""
        return None if self.rule.error is None else 1.0 / self.rule.error

    @property
    def e_recovered(self) -> float | None:
        """Evidence against "the effect is at most 0" at the stop; 1 before any block."""
        if self.rule.error is None:
            return None
        return self.blocks[-1].e_recovered if self.blocks else 1.0

    @property
    def e_not_recovered(self) -> float | None:
        """Evidence against "the effect is at least min_effect" at the stop; 1 before any block."""
        if self.rule.error is None:
            return None
        return self.blocks[-1].e_not_recovered if self.blocks else 1.0

    @property
    def used(self) -> tuple[tuple[ArmName, int], ...]:
        """(arm, index) of the replays that entered a block, in order."""
        return tuple((c.arm, c.index) for c in self.consumed if c.block is not None)

    @property
    def discarded(self) -> tuple[tuple[ArmName, int], ...]:
        """(arm, index) of the replays lost before their first intervened answer, in order."""
        return tuple((c.arm, c.index) for c in self.consumed if c.outcome.kind == "lost_before")

    @property
    def lost(self) -> tuple[Consumed, ...]:
        """The consumed replays that were lost, before or after, with their reasons."""
        return tuple(c for c in self.consumed if c.outcome.lost)

    @property
    def replays(self) -> int:
        """How many replays were consumed, lost ones included."""
        return len(self.consumed)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Anytime-valid interval of the effect at level 1 - alpha, from the blocks; None without evidence."""
        if self.rule.error is None:
            return None
        return effect_interval([block.code for block in self.blocks], self.rule.error)

    @property
    def sensitivity(self) -> Sensitivity | None:
        """What every lost replay going one way would have changed; None if none was lost."""
        if not self.lost:
            return None
        return Sensitivity(self.verdict, self._otherwise(True), self._otherwise(False))

    def _otherwise(self, for_claim: bool) -> Otherwise:
        state = self.rule.start()
        for c in self.consumed:
            kind = c.outcome.kind
            if c.outcome.lost:
                kind = "recovered" if (c.arm == "patch") == for_claim else "not_recovered"
            state.feed(c.arm, c.index, kind)
        decision = state.decision
        return "undecided" if decision is None else decision.verdict


def count(consumed: tuple[Consumed, ...], arm: ArmName) -> ArmCounts:
    """Counts of one arm.

    Examples
    --------
    >>> count((Consumed("patch", 0, ReplayOutcome("recovered"), 0),), "patch")
    ArmCounts(recovered=1, not_recovered=0, lost_before=0, lost_after=0)
    """
    kinds = [c.outcome.kind for c in consumed if c.arm == arm]
    return ArmCounts(*(kinds.count(kind) for kind in OUTCOME_KINDS))
