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
from afnb.core.arm import Arm
from afnb.core.steps import run_from_cassette
from afnb.errors import AgentError
from afnb.experiments.replay import (
    STOPPED,
    Job,
    ReplayResult,
    Role,
    Setting,
    derive_seed,
    run_replay,
)
from afnb.experiments.results import Fidelity
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

    def run(self, patch: Arm, control: Arm, rule: Rule, stage: str, title: str) -> Trial:
        """Compare two arms until the rule decides, the budget is spent or the user interrupts.

        Raises
        ------
        AgentError
            The agent cannot be started at all.
        """
        meter = self.runner.meter
        started, spent, live, tokens = time.monotonic(), self.replays_spent, meter.live_calls, meter.tokens
        arms: dict[str, tuple[Role, Arm, str]] = {
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


def self_check(
    setting: Setting, seed: int, converges: Callable[[ReplayResult], bool] | None = None
) -> Fidelity:
    """Replay the recording unpatched from its tape alone, and say whether the agent did the same again.

    Raises
    ------
    AgentError
        The agent cannot be started, or nothing it asked was on the tape.
    """
    recording = setting.recording
    result = run_replay(setting, Job(None, "check", 0, derive_seed(seed, "check", recording.id)))
    report, recorded = result.report, len(recording.exchanges)
    if result.cannot_start:
        raise AgentError(result.detail or "the agent cannot be started")
    if report.served == 0 and result.reason != "timeout":
        raise AgentError(nothing_served(setting, result))
    again = run_from_cassette(result.recording).answer if result.recording else None
    same = again == run_from_cassette(recording).answer
    reason = None
    if result.reason == "timeout":
        reason = result.detail or "the agent timed out"
    elif report.missed:
        reason = (
            report.first_miss.reason if report.first_miss else f"{report.missed} requests are not on the tape"
        )
    elif report.served < recorded:
        reason = f"the agent asked for {report.served} of {recorded} recorded exchanges"
    elif not same:
        reason = "the agent's answer is not the recorded one"
    return Fidelity(
        recording=recording.id,
        ok=reason is None,
        recorded=recorded,
        served=report.served,
        missed=report.missed,
        same_answer=same,
        rules=report.rules,
        reason=reason,
        converges=None if converges is None else converges(result),
    )


def nothing_served(setting: Setting, result: ReplayResult) -> str:
    """The sentence for a replay that never touched its tape."""
    recording, report = setting.recording, result.report
    if not recording.exchanges:
        return f"recording {recording.id} holds no exchange, so there is nothing to replay"
    if report.requests == 0:
        hint = (
            "it asked afnb nothing: let it read its base URL from the environment "
            "(Command(base_url_env=...)) or use ctx.http_client() in a function"
        )
        if result.detail:
            hint = f"it ended first: {result.detail}"
    else:
        miss = report.first_miss
        hint = (
            f"its first request was not on the tape: {miss.reason}"
            if miss
            else "none of its requests matched"
        )
    return f"the agent replayed 0 of {len(recording.exchanges)} exchanges of {recording.id}; {hint}"
