"""``Lab``: runs one experiment after another over one setting, sharing replays where that is sound.

Replays are kept by (stage, role, arm, index). Within a stage an arm is run once: experiments with the
same control share it, and a repeated question costs nothing. Stages never share: what a search has
seen is not evidence for a confirmation. A ledger keeps them beyond the end of the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from afnb.causal.bisect import Located, Probe
from afnb.causal.compile import arm_fingerprint
from afnb.causal.decision import ArmName, Decision, OutcomeKind, Rule, RuleState
from afnb.causal.places import Places
from afnb.core.arm import Arm, LogArm
from afnb.experiments.ledger import Ledger, ReplayKey
from afnb.experiments.replay import STOPPED, Job, ReplayResult, Role, Setting, derive_seed
from afnb.experiments.runner import Runner, interruptible

Watcher = Callable[[ReplayResult, str], None]
"""Told of each finished replay and of the experiment it belongs to."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What an experiment cost: all that was started, needed or not.

    ``reused`` of the replays were taken from a ledger; what they cost then is counted here as well.
    """

    replays: int = 0
    reused: int = 0
    live_calls: int = 0
    tokens: int = 0
    dollars: float = 0.0
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What one experiment came to: the decision, every replay of its two arms, and what it cost."""

    decision: Decision
    results: tuple[ReplayResult, ...]
    spending: Spending = Spending()
    control: Arm | LogArm | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What a search over branch points came to: where it ended, its replays by place, and what it cost."""

    located: Located
    results: tuple[tuple[int, ReplayResult], ...]
    spending: Spending = Spending()


class SearchState(Protocol):
    """A machine that asks for replays at branch points (``Bisection`` or ``Curve``, once started)."""

    def wanted(self, limit: int) -> list[Probe]:
        """Replays that were not fed yet, most needed first."""

    def feed(self, served: int, index: int, outcome: OutcomeKind, reason: str = "") -> None:
        """Hand in the outcome of one, in any order."""

    def stop(self, reason: str) -> Located:
        """End without further replays."""

    @property
    def decision(self) -> Located | None:
        """Where the search ended, once it has."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Where finished replays are written down, and what they have in common."""

    ledger: Ledger
    recording: str
    agent: str
    settings: str


@dataclass(frozen=True, slots=True)
class Need:
    """A replay that is wanted, and who waits for it."""

    role: Role
    arm: Arm | LogArm
    digest: str
    index: int
    feed: Callable[[ReplayResult], None]


class Lab:
    """A setting, its workers, and the replays that were run so far.

    Parameters
    ----------
    runner
        Runs replays.
    seed
        Where the seeds of all replays come from.
    watch
        Told of each finished replay.
    identity
        The ledger that replays are taken from and written to; None for none.
    """

    def __init__(
        self, runner: Runner, seed: int, watch: Sequence[Watcher] = (), identity: Identity | None = None
    ) -> None:
        self.runner = runner
        self.seed = seed
        self.watch = list(watch)
        self.identity = identity
        self._kept: dict[tuple[str, Role, str], dict[int, ReplayResult]] = {}
        self._replays = 0
        self._reused = 0
        self._start = time.monotonic()

    @property
    def setting(self) -> Setting:
        """What all replays share."""
        return self.runner.setting

    @property
    def spending(self) -> Spending:
        """What everything so far cost."""
        meter, wall = self.runner.meter, time.monotonic() - self._start
        return Spending(self._replays, self._reused, meter.live_calls, meter.tokens, meter.dollars, wall)

    def run(self, patch: Arm | LogArm, control: Arm | LogArm, rule: Rule, stage: str, title: str) -> Trial:
        """Compare two arms until the rule decides, the budget is spent or the user interrupts.

        Raises
        ------
        AgentError
            The agent cannot be started at all.
        """
        before = self.spending
        arms: dict[ArmName, tuple[Role, Arm | LogArm, str]] = {
            "patch": ("patch", patch, arm_fingerprint(patch)),
            "control": ("control", control, arm_fingerprint(control)),
        }
        state = rule.start()

        def needs(limit: int) -> list[Need]:
            asked = state.wanted(limit)
            return [Need(*arms[want.arm], want.index, lambda result: feed(state, result)) for want in asked]

        stopped = self._drive(stage, title, needs, state.stop)
        results: list[ReplayResult] = []
        for role, _arm, digest in arms.values():
            results.extend(self._kept.get((stage, role, digest), {}).values())
        results.extend(stopped)
        return Trial(
            decision=state.decision or state.stop("no replay could be run"),
            results=tuple(sorted(results, key=lambda result: (result.role, result.index))),
            spending=since(before, self.spending),
            control=control,
        )

    def survey(self, places: Places, state: SearchState, stage: str, title: str) -> Survey:
        """Run replays at branch points until the search ends, the budget is spent or the user interrupts.

        Raises
        ------
        AgentError
            The agent cannot be started at all.
        """
        before = self.spending
        used: dict[int, str] = {}

        def need(probe: Probe) -> Need:
            arm = places.arm(probe.served)
            digest = used.setdefault(probe.served, arm_fingerprint(arm))
            served = probe.served
            return Need("probe", arm, digest, probe.index, lambda result: told(state, served, result))

        stopped = self._drive(
            stage, title, lambda limit: [need(probe) for probe in state.wanted(limit)], state.stop
        )
        found = [
            (served, result)
            for served, digest in used.items()
            for result in self._kept.get((stage, "probe", digest), {}).values()
        ]
        return Survey(
            located=state.decision or state.stop("no replay could be run"),
            results=(
                *sorted(found, key=lambda pair: (pair[0], pair[1].index)),
                *((-1, result) for result in stopped),
            ),
            spending=since(before, self.spending),
        )

    def _drive(
        self,
        stage: str,
        title: str,
        needs: Callable[[int], list[Need]],
        stop: Callable[[str], object],
    ) -> list[ReplayResult]:
        """Run what is wanted until nothing is; gives back the replays that were stopped on their way."""
        runner, stopped = self.runner, list[ReplayResult]()
        with interruptible(runner.meter, runner.stop_now):
            while asked := needs(runner.n_jobs):
                jobs, waiting = [], {}
                for need in asked:
                    result = self._known(stage, need, title)
                    if result is not None:
                        need.feed(result)
                    else:
                        seed = derive_seed(self.seed, stage, need.role, need.digest, need.index)
                        job = Job(need.arm, need.role, need.index, seed, stage, need.digest)
                        jobs.append(job)
                        waiting[need.role, need.digest, need.index] = need
                if len(jobs) < len(asked):
                    continue
                crossed = runner.meter.crossed()
                if crossed is not None:
                    stop(crossed)
                    break
                for job, result in runner.run(jobs, self._write_down):
                    self._replays += 1
                    for tell in self.watch:
                        tell(result, title)
                    if result.reason in STOPPED:
                        stopped.append(result)
                        continue
                    self._keep(stage, job.role, job.digest, result)
                    waiting[job.role, job.digest, job.index].feed(result)
        return stopped

    def _known(self, stage: str, need: Need, title: str) -> ReplayResult | None:
        """A replay that was run before: in this laboratory, or by whoever wrote the ledger."""
        known = self._kept.get((stage, need.role, need.digest), {}).get(need.index)
        if known is not None or self.identity is None:
            return known
        seed = derive_seed(self.seed, stage, need.role, need.digest, need.index)
        key = self._key(self.identity, stage, need.role, need.digest, need.index, seed)
        found = self.identity.ledger.find(key)
        if found is not None:
            self.runner.meter.recall(found.report.live, found.uses)
            self._replays += 1
            self._reused += 1
            for tell in self.watch:
                tell(found, title)
            self._keep(stage, need.role, need.digest, found)
        return found

    def _keep(self, stage: str, role: Role, digest: str, result: ReplayResult) -> None:
        self._kept.setdefault((stage, role, digest), {})[result.index] = result

    def _write_down(self, job: Job, result: ReplayResult) -> None:
        identity = self.identity
        if identity is not None:
            key = self._key(identity, job.stage, job.role, job.digest, job.index, job.seed)
            identity.ledger.keep(key, result)

    @staticmethod
    def _key(identity: Identity, stage: str, role: Role, digest: str, index: int, seed: int) -> ReplayKey:
        return ReplayKey(
            identity.recording, digest, identity.agent, identity.settings, stage, role, index, seed
        )


def since(before: Spending, now: Spending) -> Spending:
    """What was spent between two moments.

    Examples
    --------
    >>> since(Spending(replays=2), Spending(replays=5, live_calls=3)).replays
    3
    """
    return Spending(
        now.replays - before.replays,
        now.reused - before.reused,
        now.live_calls - before.live_calls,
        now.tokens - before.tokens,
        now.dollars - before.dollars,
        now.wall_s - before.wall_s,
    )


def outcome_of(result: ReplayResult) -> OutcomeKind:
    """One replay as the rules take it."""
    if result.recovery != "inconclusive":
        return result.recovery
    return "lost_before" if result.lost == "before" else "lost_after"


def feed(state: RuleState, result: ReplayResult) -> None:
    """Hand one finished replay to the rule."""
    arm: ArmName = "patch" if result.role == "patch" else "control"
    state.feed(arm, result.index, outcome_of(result), result.reason or "")


def told(state: SearchState, served: int, result: ReplayResult) -> None:
    """Hand one finished replay to the search."""
    state.feed(served, result.index, outcome_of(result), result.reason or "")
