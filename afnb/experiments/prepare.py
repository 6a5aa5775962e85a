"""From what a caller hands in to a laboratory ready to run: recordings, agent, upstream, self-check."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, get_args

from afnb.causal.decision import Rule
from afnb.causal.marks import digest
from afnb.causal.oracles import Converges, Oracle
from afnb.causal.sentences import SCREEN, deterministic_tail
from afnb.core.arm import Arm, LogArm, Tail
from afnb.core.cassette import Cassette
from afnb.core.matching import Matching
from afnb.core.run import Run
from afnb.core.tape import Tape
from afnb.errors import ParameterError
from afnb.experiments.agents import Agent
from afnb.experiments.budget import Budget, Meter
from afnb.experiments.fidelity import Fidelity
from afnb.experiments.fingerprint import upstream_fingerprint
from afnb.experiments.independence import not_independent
from afnb.experiments.lab import Identity, Lab, Trial, Watcher
from afnb.experiments.ledger import as_ledger
from afnb.experiments.pool import check_jobs
from afnb.experiments.preflight import Preflight, require_allowed
from afnb.experiments.progress import Progress, announce
from afnb.experiments.recordings import (
    Recording,
    agent_marks,
    agent_of,
    preflight_of,
    provider_of_experiment,
    recording_hash,
    recording_id,
    recording_run,
    setting_of,
)
from afnb.experiments.replay import ReplayResult
from afnb.experiments.results import Experiment, explained
from afnb.experiments.runner import Runner
from afnb.experiments.tape_replay import TapeSetting
from afnb.io.logged import LoggedAgent
from afnb.io.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that an experiment needs, checked; nothing has been spent yet."""

    bad: Recording
    bad_run: Run
    good: Recording | None
    good_run: Run | None
    lab: Lab
    meter: Meter
    oracle: Oracle
    agent: Agent | LoggedAgent
    preflight: Preflight
    fidelity: tuple[Fidelity, ...]
    tail: Tail
    progress: Progress

    @property
    def failed_check(self) -> str | None:
        """Why the self-check does not let anything be verified, or None."""
        for check in self.fidelity:
            if not check.ok:
                return f"the self-check failed: {check.sentence()}"
        return None


def prepare(
    bad: Recording,
    good: Recording | None,
    arm: Arm | LogArm,
    *,
    agent: Any,
    upstream: Any,
    oracle: Oracle,
    n_jobs: int | Callable[[], int],
    budget: Budget | Meter,
    allow_tools: Iterable[str],
    seed: int,
    tail: Tail,
    backend: str,
    progress: bool | None,
    label: str,
    watch: Iterable[Watcher] = (),
    matching: Matching | None = None,
    ledger: Any = None,
) -> Prepared:
    """Check the arguments, the tools and the recordings, before anything is spent."""
    if tail not in get_args(Tail):
        raise ParameterError(f"tail={tail!r}: expected live, tape or good")
    if tail == "good" and good is None:
        raise ParameterError("tail='good' needs the good recording")
    runner_agent = agent_of(bad, agent)
    provider = provider_of_experiment(agent, upstream)
    allowed = frozenset(allow_tools)
    workers = n_jobs if callable(n_jobs) else check_jobs(n_jobs)
    bad_run = recording_run(bad)
    good_run = None if good is None else recording_run(good)
    recordings = [(bad, bad_run)]
    if good is not None and good_run is not None:
        recordings.append((good, good_run))
    flight = preflight_of(recordings, runner_agent, arm, allowed)
    require_allowed(flight)
    meter = budget if isinstance(budget, Meter) else Meter(budget)
    if meter is not budget:
        announce(f"pre-flight: {flight.sentence()}", progress)
        announce(f"budget: {meter.describe()}", progress)
    good_tape = Tape(good, matching) if isinstance(good, Cassette) else None
    setting = setting_of(bad, runner_agent, provider, oracle, good_tape, allowed, matching)
    runner = Runner(setting, meter, workers, backend)
    book = as_ledger(ledger)
    identity = None
    if book is not None:
        settings = settings_hash(runner_agent, provider, oracle, good, allowed, matching)
        identity = Identity(book, recording_hash(bad), agent_marks(runner_agent)[1], settings)
    bar = Progress(meter, progress, label)
    fidelity = [setting.check(seed, stop=meter.ended)]
    if good is not None:
        converging = isinstance(oracle, Converges)
        again = setting_of(good, runner_agent, provider, oracle, None, allowed, matching)
        fidelity.append(
            again.check(
                seed, (lambda result: result.recovery == "recovered") if converging else None, meter.ended
            )
        )
    return Prepared(
        bad=bad,
        bad_run=bad_run,
        good=good,
        good_run=good_run,
        lab=Lab(runner, seed, [bar, *watch], identity),
        meter=meter,
        oracle=oracle,
        agent=runner_agent,
        preflight=flight,
        fidelity=tuple(fidelity),
        tail=tail,
        progress=bar,
    )


def settings_hash(
    agent: Agent | LoggedAgent,
    provider: Upstream,
    oracle: Oracle,
    good: Recording | None,
    allowed: frozenset[str],
    matching: Matching | None,
) -> str:
    """Hash of everything, beside recording, arm and agent, that the course of a replay depends on."""
    rules = None
    if matching is not None:
        rules = (sorted(matching.rules), matching.ignore, repr(matching.patterns), matching.normalise)
    return digest(
        oracle.fingerprint(),
        upstream_fingerprint(provider),
        None if good is None else recording_hash(good),
        sorted(allowed),
        getattr(agent, "timeout_s", None),
        rules,
    )


def finish(
    ready: Prepared,
    trial: Trial,
    rule: Rule,
    *,
    title: str,
    purpose: str,
    texts: tuple[str, ...],
    steps: tuple[int, ...],
    also: tuple[int, ...] = (),
    deed: str | None = None,
) -> Experiment:
    """Make the ``Experiment`` of a trial; verdict and label are held back where replays cannot carry them."""
    decision = trial.decision
    verdict, label, reason = decision.verdict, decision.label, explained(decision, trial.results)
    held = hold_back(ready, decision.verdict) or caught(ready, trial)
    if held is not None and verdict != "unverified":
        verdict, reason = "unverified", held
    if verdict == "unverified" or held is not None:
        label = "Unverified"
    if purpose == "search" and label == "verified":
        label = "Unverified"
        reason = f"a search at error {rule.error:g}; what it finds is confirmed on fresh replays"
    return Experiment(
        id=title,
        purpose=purpose,
        recording=recording_id(ready.bad),
        recording_hash=recording_hash(ready.bad),
        interventions=texts,
        steps=steps,
        also=also,
        deed=deed,
        oracle=ready.oracle.describe(),
        oracle_fingerprint=ready.oracle.fingerprint(),
        rule=repr(rule),
        tail=ready.tail,
        decision=decision,
        verdict=verdict,
        label=label,
        reason=reason,
        fidelity=ready.fidelity,
        warnings=(
            *already_recovered(ready),
            *(warning for check in ready.fidelity if (warning := check.warning()) is not None),
            *last_answer(ready, steps, verdict),
            *warnings_of(ready, trial),
            *uncounted(ready, trial.results),
        ),
        results=trial.results,
        agent=agent_marks(ready.agent)[0],
        agent_hash=agent_marks(ready.agent)[1],
        seed=ready.lab.seed,
        replays_spent=trial.spending.replays,
        live_calls_spent=trial.spending.live_calls,
        tokens_spent=trial.spending.tokens,
        wall_s=trial.spending.wall_s,
        dollars_spent=trial.spending.dollars,
        replays_reused=trial.spending.reused,
        budget=ready.meter.budget.describe(),
        n_jobs=ready.lab.runner.n_jobs,
        preflight=ready.preflight,
    )


def hold_back(ready: Prepared, verdict: str) -> str | None:
    """Why a decision may not be called verified here, or None."""
    if ready.failed_check is not None:
        return ready.failed_check
    if ready.tail != "live":
        return f"{SCREEN}; run it with tail='live' to verify"
    if verdict == "not_recovered" and isinstance(ready.oracle, Converges):
        if ready.good is None:
            return (
                "whether the good run's own replay converges with it was not checked, so likeness to it "
                "cannot tell failure from noise; give the good recording (good=...), or an oracle of the "
                "outcome"
            )
        if not any(check.converges for check in ready.fidelity):
            return (
                "the good run's own replay does not converge with the good run, so likeness to it cannot "
                "tell failure from noise; give an oracle of the outcome"
            )
    return None


def caught(ready: Prepared, trial: Trial) -> str | None:
    """Why the replays are not the independent ones that every rule takes them for, or None."""
    used = {(c.arm, c.index) for c in trial.decision.consumed}
    setting = ready.lab.setting
    if not isinstance(setting, TapeSetting) or not isinstance(trial.control, Arm):
        return not_independent(trial.results, used, ready.bad_run)
    return not_independent(
        trial.results,
        used,
        ready.bad_run,
        recording=setting.recording,
        control=trial.control,
        matching=setting.tape.matching,
    )


def already_recovered(ready: Prepared) -> tuple[str, ...]:
    """A warning if the unchanged recording counts as recovered already: then no verdict means much."""
    if not ready.fidelity or not ready.fidelity[0].recovered:
        return ()
    return (
        f"{recording_id(ready.bad)} counts as recovered by the oracle as it is, unchanged; is it the "
        "failing run, and does the oracle ask the right thing?",
    )


def last_answer(ready: Prepared, steps: tuple[int, ...], verdict: str) -> tuple[str, ...]:
    """A warning if the changed step is the run's last answer: a new one may carry the result itself."""
    last = max((i for i, step in enumerate(ready.bad_run.steps) if step.kind == "llm"), default=-1)
    if verdict != "recovered" or last not in steps:
        return ()
    return (f"step {last} is the run's last answer: another one in its place may carry the result itself",)


def uncounted(ready: Prepared, results: Iterable[ReplayResult]) -> tuple[str, ...]:
    """A warning if a limit of tokens or dollars was kept by an estimate."""
    budget = ready.meter.budget
    if budget.tokens is None and budget.prices is None:
        return ()
    estimated = sum(use.estimated for result in results for use in result.uses)
    if not estimated:
        return ()
    return (f"{estimated} live answers came with no token count; theirs was estimated from the bytes",)


def warnings_of(ready: Prepared, trial: Trial) -> tuple[str, ...]:
    """What a reader should know: allowed names that are no tool, tails that are all alike."""
    found = list(ready.preflight.warnings)
    used = {(c.arm, c.index) for c in trial.decision.consumed}
    for role, name in (("patch", "patched"), ("control", "control")):
        digests = [
            r.tail_digest
            for r in trial.results
            if r.role == role and (role, r.index) in used and not r.reason
        ]
        if len(digests) > 1 and len(set(digests)) == 1:
            found.append(deterministic_tail(name, len(digests)))
    return tuple(found)
