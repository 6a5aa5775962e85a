"""``Lab``: runs one experiment after another over one setting, sharing replays where that is sound.

Replays are kept by (stage, role, arm, index). Within a stage an arm is run once: experiments with the
same control share it, and a repeated question costs nothing. Stages never share: what a search has
seen is not evidence for a confirmation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afnb.causal.compile import arm_fingerprint
from afnb.causal.decision import Decision, OutcomeKind, Rule, RuleState
from afnb.core.arm import Arm, LogArm
from afnb.experiments.replay import STOPPED, Job, ReplayResult, Role, Setting, derive_seed
from afnb.experiments.runner import Runner, interruptible

Watcher = Callable[[ReplayResult, str], None]
"""Told of each finished replay and of the experiment it belongs to."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What one experiment came to: the decision, every replay of its two arms, and what it cost."""

    decision: Decision
    results: tuple[ReplayResult, ...]
    replays_spent: int
    live_calls_spent: int
    tokens_spent: int
    wall_s: float


class Lab:
    """A setting, its workers, and the replays that were run so far."""

    def __init__(self, runner: Runner, seed: int, watch: Sequence[Watcher] = ()) -> None:
        self.runner = runner
        self.seed = seed
        self.watch = list(watch)
        self._kept: dict[tuple[str, Role, str], dict[int, ReplayResult]] = {}
        self.replays_spent = 0

    @property
    def setting(self) -> Setting:
        """What all replays share."""
        return self.runner.setting

    def run(self, patch: Arm | LogArm, control: Arm | LogArm, rule: Rule, stage: str, title: str) -> Trial:
        """Compare two arms until the rule decides, the budget is spent or the user interrupts.

        Raises
        ------
        AgentError
            The agent cannot be started at all.
        """
        meter = self.runner.meter
        started, spent, live, tokens = time.monotonic(), self.replays_spent, meter.live_calls, meter.tokens
        arms: dict[str, tuple[Role, Arm | LogArm, str]] = {
            "patch": ("patch", patch, arm_fingerprint(patch)),
            "control": ("control", control, arm_fingerprint(control)),
        }
        state = rule.start()
        stopped: list[ReplayResult] = []
        with interruptible(meter, self.runner.stop_now):
            while state.decision is None:
                crossed = meter.crossed()
                if crossed is not None:
                    state.stop(crossed)
                    break
                jobs, known = [], False
                for wanted in state.wanted(self.runner.n_jobs):
                    role, arm, digest = arms[wanted.arm]
                    kept = self._kept.setdefault((stage, role, digest), {})
                    if wanted.index in kept:
                        feed(state, kept[wanted.index])
                        known = True
                    else:
                        seed = derive_seed(self.seed, stage, role, digest, wanted.index)
                        jobs.append(Job(arm, role, wanted.index, seed))
                if known:
                    continue
                for result in self.runner.run(jobs):
                    self.replays_spent += 1
                    for tell in self.watch:
                        tell(result, title)
                    if result.reason in STOPPED:
                        stopped.append(result)
                        continue
                    self._kept[stage, result.role, arms[result.role][2]][result.index] = result
                    feed(state, result)
        results: list[ReplayResult] = []
        for role, _arm, digest in arms.values():
            results.extend(self._kept.get((stage, role, digest), {}).values())
        results.extend(stopped)
        decision = state.decision or state.stop("no replay could be run")
        return Trial(
            decision=decision,
            results=tuple(sorted(results, key=lambda result: (result.role, result.index))),
            replays_spent=self.replays_spent - spent,
            live_calls_spent=meter.live_calls - live,
            tokens_spent=meter.tokens - tokens,
            wall_s=time.monotonic() - started,
        )


def feed(state: RuleState, result: ReplayResult) -> None:
    """Hand one finished replay to the rule."""
    lost: OutcomeKind = "lost_before" if result.lost == "before" else "lost_after"
    outcome: OutcomeKind = lost if result.recovery == "inconclusive" else result.recovery
    state.feed("patch" if result.role == "patch" else "control", result.index, outcome, result.reason or "")
