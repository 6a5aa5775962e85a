"""From what a caller hands in to a laboratory ready to run: recordings, agent, upstream, self-check."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from afnb.causal.decision import Rule
from afnb.causal.oracles import Converges, Oracle
from afnb.causal.sentences import SCREEN, deterministic_tail
from afnb.core.arm import Arm, Tail
from afnb.core.cassette import Cassette
from afnb.core.run import Run
from afnb.core.steps import run_from_cassette
from afnb.core.tape import Tape
from afnb.errors import ParameterError
from afnb.experiments.agents import Agent, as_agent
from afnb.experiments.budget import Budget, Meter
from afnb.experiments.lab import Lab, Trial, Watcher, self_check
from afnb.experiments.preflight import Preflight, preflight, require_allowed
from afnb.experiments.progress import Progress, announce
from afnb.experiments.replay import Setting
from afnb.experiments.results import Experiment, Fidelity
from afnb.experiments.runner import Runner
from afnb.io.formats.cassette import to_json
from afnb.io.load import load
from afnb.io.upstream import Upstream, as_upstream

Backend = str
Role = Literal["bad", "good", "recording"]


def as_cassette(value: Any, role: Role) -> Cassette:
    """The recording a caller means: a ``Cassette``, or the path of one.

    Raises
    ------
    ParameterError
        It is something else, e.g. a trace, which can be compared and not replayed.
    """
    if isinstance(value, (str, os.PathLike)):
        value = load(value)
    if isinstance(value, Cassette):
        return value
    if isinstance(value, Run):
        raise ParameterError(
            f"{role}: {value.id!r} is a trace of steps; it can be compared (afnb.diff), but only a recording "
            "of the HTTP exchanges can be replayed: make one with afnb.record"
        )
    raise ParameterError(f"{role}: expected a Cassette or the path of one, found {type(value).__name__}")


def cassette_hash(cassette: Cassette) -> str:
    """Digest of a recording's content.

    Examples
    --------
    >>> cassette_hash(Cassette("a")) == cassette_hash(Cassette("a"))
    True
    """
    from afnb.core.jsonvalue import dumps

    text = dumps(to_json(cassette))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that an experiment needs, checked; nothing has been spent yet."""

    bad: Cassette
    bad_run: Run
    good: Cassette | None
    good_run: Run | None
    lab: Lab
    meter: Meter
    oracle: Oracle
    agent: Agent
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
    bad: Cassette,
    good: Cassette | None,
    arm: Arm,
    *,
    agent: Any,
    upstream: Any,
    oracle: Oracle,
    n_jobs: int,
    budget: Budget,
    allow_tools: Iterable[str],
    seed: int,
    tail: Tail,
    backend: str,
    progress: bool | None,
    label: str,
    watch: Iterable[Watcher] = (),
) -> Prepared:
    """Check the arguments, the tools and the recordings, before anything is spent."""
    if tail not in get_args(Tail):
        raise ParameterError(f"tail={tail!r}: expected live, tape or good")
    if tail == "good" and good is None:
        raise ParameterError("tail='good' needs the good recording")
    runner_agent = as_agent(agent)
    provider = None if upstream is None else as_upstream(upstream)
    if provider is None:
        raise ParameterError(
            "upstream is missing: after the branch point requests go live; give the provider's URL "
            "(upstream='https://api.openai.com'), a function, or a SimulatedUpstream"
        )
    bad_run = run_from_cassette(bad)
    good_run = None if good is None else run_from_cassette(good)
    recordings = [(bad, bad_run)]
    if good is not None and good_run is not None:
        recordings.append((good, good_run))
    flight = preflight(recordings, arm, allow_tools)
    require_allowed(flight)
    meter = Meter(budget)
    announce(f"budget: {budget.describe()}", progress)
    good_tape = None if good is None else Tape(good)
    setting = make_setting(bad, runner_agent, provider, oracle, good_tape)
    runner = Runner(setting, meter, n_jobs, backend)
    bar = Progress(meter, progress, label)
    fidelity = [self_check(setting, seed)]
    if good is not None:
        converging = isinstance(oracle, Converges)
        fidelity.append(
            self_check(
                make_setting(good, runner_agent, provider, oracle, None),
                seed,
                (lambda result: result.recovery == "recovered") if converging else None,
            )
        )
    return Prepared(
        bad=bad,
        bad_run=bad_run,
        good=good,
        good_run=good_run,
        lab=Lab(runner, seed, [bar, *watch]),
        meter=meter,
        oracle=oracle,
        agent=runner_agent,
        preflight=flight,
        fidelity=tuple(fidelity),
        tail=tail,
        progress=bar,
    )


def make_setting(
    recording: Cassette, agent: Agent, upstream: Upstream, oracle: Oracle, good_tape: Tape | None
) -> Setting:
    """The setting of replays of ``recording``."""
    incomplete = sum(1 for exchange in recording.exchanges if exchange.response.incomplete)
    return Setting(recording, Tape(recording), agent, upstream, oracle, good_tape, incomplete)


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
) -> Experiment:
    """Make the ``Experiment`` of a trial; verdict and label are held back where replays cannot carry them."""
    decision = trial.decision
    verdict, label, reason = decision.verdict, decision.label, decision.reason
    held = hold_back(ready, decision.verdict)
    if held is not None and verdict != "unverified":
        verdict, reason = "unverified", held
    if verdict == "unverified" or held is not None:
        label = "Unverified"
    return Experiment(
        id=title,
        purpose=purpose,
        recording=ready.bad.id,
        recording_hash=cassette_hash(ready.bad),
        interventions=texts,
        steps=steps,
        also=also,
        oracle=ready.oracle.describe(),
        oracle_fingerprint=ready.oracle.fingerprint(),
        rule=repr(rule),
        tail=ready.tail,
        decision=decision,
        verdict=verdict,
        label=label,
        reason=reason,
        fidelity=ready.fidelity,
        warnings=warnings_of(trial),
        results=trial.results,
        agent=ready.agent.describe(),
        agent_hash=ready.agent.fingerprint(),
        seed=ready.lab.seed,
        replays_spent=trial.replays_spent,
        live_calls_spent=trial.live_calls_spent,
        tokens_spent=trial.tokens_spent,
        wall_s=trial.wall_s,
        budget=ready.meter.budget.describe(),
        n_jobs=ready.lab.runner.n_jobs,
    )


def hold_back(ready: Prepared, verdict: str) -> str | None:
    """Why a decision may not be called verified here, or None."""
    if ready.failed_check is not None:
        return ready.failed_check
    if ready.tail != "live":
        return f"{SCREEN}; run it with tail='live' to verify"
    if verdict == "not_recovered":
        for check in ready.fidelity:
            if check.converges is False:
                return (
                    "the good run's own replay does not converge with the good run, so likeness to it cannot "
                    "tell failure from noise; give an oracle of the outcome"
                )
    return None


def warnings_of(trial: Trial) -> tuple[str, ...]:
    """What a reader should know of the replays: tails that are all alike."""
    found = []
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
