"""The machine behind ``SequentialConsensus``: outcomes of replays in, blocks of evidence, a decision out.

Outcomes are *consumed* in index order, whatever order they are fed in, since taking replays as they
finish would favour the short ones and break the error bound. The decision and the set of consumed
replays therefore depend on the outcomes alone: not on the order of arrival, nor on how many replays
were started ahead.

How outcomes become blocks:

1. Each arm is a stream of indices 0, 1, 2, ... A block takes the next replay of the patch stream and,
   where it needs a control, the next of the control stream. So a lazy block without a control leaves the
   control stream where it is, and control replays are always 0, 1, 2, ... without gaps, which lets
   experiments with the same control share them.
2. A replay lost *before* its first intervened answer is discarded when its turn comes, and the next
   index of that arm takes its place in the same block: the arms are alike up to there, so which replays
   are lost cannot depend on the arm. That pairs the conclusive replays of each arm in index order.
3. A replay lost *after* it stays in its block as an unknown outcome, with the smallest factor per bet.
   In a lazy block whose patch is unknown no control is run. An unknown patch is no recovery seen, so
   the next block is still lazy; whether a block is lazy depends on earlier, observed outcomes only.
4. ``max_replays`` caps all consumed replays of both arms, discarded ones included, since they cost time
   and may cost calls: no block is begun once more than ``max_replays - 2`` were consumed, and no control
   is asked that would exceed the cap.
5. No verdict is given while more than half of the consumed replays are lost; the rule goes on, and ends
   ``inconclusive`` with the commonest reason if that is still so at the cap. It gives up at once when the
   first five replays of an arm are all lost, or more than half of ``max_replays`` are.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Protocol

from afnb.causal.decision import (
    ARMS,
    OUTCOME_KINDS,
    TIMEOUT,
    ArmName,
    Block,
    Consumed,
    Decision,
    OutcomeKind,
    ReplayOutcome,
    Rule,
    Stopped,
    Verdict,
    Wanted,
    count,
)
from afnb.causal.evidence import Bets, bets, block_code, exp, log_sum
from afnb.errors import ParameterError

GIVE_UP_AFTER = 5
"""Replays of one arm that may all be lost, from its first on, before the rule gives up."""

_NOT_TAKEN = -1
_VALUE: dict[OutcomeKind, int | None] = {"recovered": 1, "not_recovered": 0, "lost_after": None}


class SequentialRule(Rule, Protocol):
    """What the machine reads of its rule."""

    @property
    def alpha(self) -> float:
        """Bound on a false verdict of either kind."""

    @property
    def min_effect(self) -> float:
        """The effect that ``not_recovered`` excludes."""

    @property
    def max_replays(self) -> int:
        """Most replays that are consumed."""

    @property
    def timeout_is_failure(self) -> bool:
        """Whether a time-out after the branch is a failure."""


class Intake:
    """Outcomes by arm and index: fed in any order, taken in index order."""

    __slots__ = ("consumed", "decision", "fed", "next")

    def __init__(self) -> None:
        self.fed: dict[tuple[ArmName, int], ReplayOutcome] = {}
        self.next: dict[ArmName, int] = {"patch": 0, "control": 0}
        self.consumed: list[Consumed] = []
        self.decision: Decision | None = None

    def put(self, arm: ArmName, index: int, outcome: OutcomeKind, reason: str) -> bool:
        """Keep an outcome; False if the very same one is there already."""
        if arm not in ARMS:
            raise ParameterError(f"feed: arm is 'patch' or 'control', got {arm!r}")
        if outcome not in OUTCOME_KINDS:
            raise ParameterError(f"feed: outcome is one of {', '.join(OUTCOME_KINDS)}; got {outcome!r}")
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise ParameterError(f"feed: index is an integer of at least 0, got {index!r}")
        value = ReplayOutcome(outcome, reason)
        known = self.fed.setdefault((arm, index), value)
        if known is value:
            return True
        if known.kind == outcome:
            return False
        raise ParameterError(
            f"feed: replay {index} of the {arm} arm was {known.kind} before and is {outcome} now"
        )

    def take(self, arm: ArmName, block: int) -> ReplayOutcome | None:
        """The next outcome of the arm, if it is there; noted as consumed."""
        index = self.next[arm]
        outcome = self.fed.get((arm, index))
        if outcome is None:
            return None
        self.next[arm] = index + 1
        self.consumed.append(Consumed(arm, index, outcome, None if outcome.kind == "lost_before" else block))
        return outcome

    def commonest_reason(self) -> str:
        """The reason most lost replays have; the earliest of equals."""
        lost = [c.outcome for c in self.consumed if c.outcome.lost]
        reasons = Counter(outcome.reason or outcome.kind.replace("_", " ") for outcome in lost)
        return reasons.most_common(1)[0][0] if reasons else ""


class SequentialState:
    """The machine of a ``SequentialConsensus``; made by ``rule.start()``."""

    __slots__ = ("_bets", "_blocks", "_in", "_log_threshold", "_lost", "_patch", "_rule", "_seen", "_v", "_w")

    def __init__(self, rule: SequentialRule) -> None:
        self._rule = rule
        self._bets: Bets = bets(rule.min_effect)
        self._log_threshold = -math.log(rule.alpha)
        self._in = Intake()
        self._v = list(self._bets.verify_weights)
        self._w = list(self._bets.refute_weights)
        self._seen = False
        self._patch: int | None = _NOT_TAKEN
        self._blocks: list[Block] = []
        self._lost = 0

    @property
    def decision(self) -> Decision | None:
        """The decision, once there is one; it does not change afterwards."""
        return self._in.decision

    def feed(self, arm: ArmName, index: int, outcome: OutcomeKind, reason: str = "") -> None:
        """Hand in the outcome of one replay; outcomes may come in any order, also after the decision.

        Parameters
        ----------
        arm, index
            Which replay.
        outcome
            ``recovered``, ``not_recovered``, ``lost_before`` or ``lost_after`` its first intervened answer.
        reason
            Why it was lost. ``"timeout"`` after the branch is a failure under ``timeout_is_failure``.

        Raises
        ------
        ParameterError
            No such arm or outcome, or the replay was fed before with another outcome.
        """
        if self._rule.timeout_is_failure and outcome == "lost_after" and reason == TIMEOUT:
            outcome = "not_recovered"
        if self._in.put(arm, index, outcome, reason) and self._in.decision is None:
            self._advance()

    def stop(self, reason: str) -> Decision:
        """End now, ``unverified`` because of ``reason`` (a spent budget, an interrupt)."""
        if self._in.decision is None:
            self._finish("unverified", "stopped", reason)
        decision = self._in.decision
        assert decision is not None
        return decision

    # -- consuming -----------------------------------------------------------------------------

    def _advance(self) -> None:
        intake, cap = self._in, self._rule.max_replays
        while intake.decision is None:
            if self._patch == _NOT_TAKEN:
                if len(intake.consumed) > cap - 2:
                    self._finish("unverified", "max_replays", f"{cap} replays are the most this rule may use")
                    return
                outcome = intake.take("patch", len(self._blocks))
                if outcome is None:
                    return
                if outcome.lost and self._note_loss("patch"):
                    return
                if outcome.kind == "lost_before":
                    continue
                self._patch = _VALUE[outcome.kind]
            control: int | None = None
            if self._seen or self._patch == 1:
                if len(intake.consumed) + 1 > cap:
                    self._finish("unverified", "max_replays", f"{cap} replays are the most this rule may use")
                    return
                outcome = intake.take("control", len(self._blocks))
                if outcome is None:
                    return
                if outcome.lost and self._note_loss("control"):
                    return
                if outcome.kind == "lost_before":
                    continue
                control = _VALUE[outcome.kind]
            self._close_block(control)

    def _close_block(self, control: int | None) -> None:
        patch, lazy = self._patch, not self._seen
        code = block_code(lazy, patch, control)
        self._v = v = [old + new for old, new in zip(self._v, self._bets.verify[code], strict=True)]
        self._w = w = [old + new for old, new in zip(self._w, self._bets.refute[code], strict=True)]
        log_v, log_w = log_sum(v), log_sum(w)
        self._blocks.append(Block(code, patch, control, lazy, exp(log_v), exp(log_w)))
        self._seen = self._seen or patch == 1
        self._patch = _NOT_TAKEN
        if 2 * self._lost > len(self._in.consumed):
            return
        if log_v >= self._log_threshold:
            self._finish("recovered", "evidence", self._reached())
        elif log_w >= self._log_threshold:
            self._finish("not_recovered", "evidence", self._reached())

    def _note_loss(self, arm: ArmName) -> bool:
        """Count the loss just consumed; True if the rule gives up."""
        intake = self._in
        self._lost += 1
        if intake.next[arm] == GIVE_UP_AFTER and all(c.outcome.lost for c in intake.consumed if c.arm == arm):
            why = intake.commonest_reason()
            reason = f"the first {GIVE_UP_AFTER} {arm} replays were all inconclusive ({why})"
            self._finish("unverified", "inconclusive", reason)
            return True
        if 2 * self._lost > self._rule.max_replays:
            self._give_up_half()
            return True
        return False

    def _reached(self) -> str:
        return f"the evidence reached 1/alpha = {1 / self._rule.alpha:g}"

    def _give_up_half(self) -> None:
        total, why = len(self._in.consumed), self._in.commonest_reason()
        self._finish(
            "unverified", "inconclusive", f"{self._lost} of {total} replays were inconclusive ({why})"
        )

    def _finish(self, verdict: Verdict, stopped: Stopped, reason: str) -> None:
        if stopped == "max_replays" and 2 * self._lost > len(self._in.consumed):
            self._give_up_half()
            return
        consumed = tuple(self._in.consumed)
        self._in.decision = Decision(
            verdict=verdict,
            stopped=stopped,
            reason=reason,
            patch=count(consumed, "patch"),
            control=count(consumed, "control"),
            consumed=consumed,
            blocks=tuple(self._blocks),
            rule=self._rule,
        )

    # -- asking --------------------------------------------------------------------------------

    def wanted(self, limit: int) -> list[Wanted]:
        """At most ``limit`` replays that were not fed yet and can still be used, most needed first.

        Those that will be consumed whatever the outcomes come first (``certain``), then those that may be,
        block by block; within an arm always in index order. Replays already running are listed again.
        The first entry is always the one the rule is waiting for.
        """
        if self._in.decision is not None or limit < 1:
            return []
        sure = self._sure_blocks()
        patch_sure, control_sure = self._sure_counts(sure)
        entries: list[tuple[int, int, int, Wanted]] = []
        for order, arm in enumerate(ARMS):
            certain = patch_sure if arm == "patch" else control_sure
            index, position, open_slots = self._in.next[arm], 0, 0
            if arm == "patch" and self._patch != _NOT_TAKEN:
                position = 1
            while open_slots < limit and self._usable(arm, position):
                outcome = self._in.fed.get((arm, index))
                if outcome is None:
                    is_sure = position < certain
                    entries.append((not is_sure, position, order, Wanted(arm, index, is_sure)))
                    open_slots += 1
                if outcome is None or outcome.kind != "lost_before":
                    position += 1
                index += 1
        entries.sort(key=lambda entry: entry[:3])
        return [entry[3] for entry in entries[:limit]]

    def _sure_blocks(self) -> int:
        """Blocks, the open one included, that no outcomes can make superfluous."""
        v, w, blocks = list(self._v), list(self._w), 0
        while True:
            blocks += 1
            v = [old + best for old, best in zip(v, self._bets.verify_best, strict=True)]
            w = [old + best for old, best in zip(w, self._bets.refute_best, strict=True)]
            if log_sum(v) >= self._log_threshold or log_sum(w) >= self._log_threshold:
                break
            if len(self._in.consumed) + 2 * blocks > self._rule.max_replays - 2:
                break
        return blocks

    def _sure_counts(self, sure: int) -> tuple[int, int]:
        """How many positions of either stream are certain, counted from the open block (position 0)."""
        if self._seen:
            return sure, sure
        if self._patch == 1:
            return sure, sure
        known = self._in.fed
        index, position = self._in.next["patch"], 0
        while position < sure:
            outcome = known.get(("patch", index))
            if outcome is not None and outcome.kind == "recovered":
                return sure, sure - position
            if outcome is None or outcome.kind != "lost_before":
                position += 1
            index += 1
        return sure, 0

    def _usable(self, arm: ArmName, position: int) -> bool:
        """Whether some outcomes let the replay at this position of the stream enter a block."""
        spent, cap = len(self._in.consumed), self._rule.max_replays
        taken = self._patch != _NOT_TAKEN
        start = spent - taken  # what was consumed before the open block
        if arm == "control":
            return start + 2 * position <= cap - 2
        if self._seen or self._patch == 1:
            return start + 2 * position <= cap - 2
        lazy = min(position, self._lazy_left() - 1)
        return start + lazy + 2 * (position - lazy) <= cap - 2

    def _lazy_left(self) -> int:
        """Further failing patch replays, the next one included, that refute an effect by themselves."""
        row = self._bets.refute[block_code(True, 0, None)]
        w, blocks = list(self._w), 0
        while log_sum(w) < self._log_threshold and blocks < self._rule.max_replays:
            w = [old + new for old, new in zip(w, row, strict=True)]
            blocks += 1
        return max(1, blocks)
