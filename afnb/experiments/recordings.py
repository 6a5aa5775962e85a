"""What differs between the two kinds of recording: cassettes (HTTP) and event logs.

Everything above works on either: its run, its hash, the arms of interventions on it, the setting that
replays it, and what the pre-flight says of its tools.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable
from typing import Any, Literal

from afnb.align.diff import Diff
from afnb.causal.compile import Compiled, compile_arms
from afnb.causal.compile_log import LogCompiled, compile_log_arms
from afnb.causal.interventions import Interventions
from afnb.causal.oracles import Oracle
from afnb.core.arm import Arm, LogArm, Tail
from afnb.core.cassette import Cassette
from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import dumps
from afnb.core.logsteps import run_from_log
from afnb.core.matching import Matching
from afnb.core.run import Run
from afnb.core.steps import run_from_cassette
from afnb.core.tape import Tape
from afnb.errors import ParameterError
from afnb.experiments.agents import Agent, as_agent
from afnb.experiments.log_replay import LogSetting
from afnb.experiments.pacing import under_one_limit
from afnb.experiments.preflight import Preflight, log_preflight, preflight
from afnb.experiments.replay import Setting
from afnb.experiments.tape_replay import TapeSetting
from afnb.io.formats.cassette import to_json
from afnb.io.load import load
from afnb.io.logged import LoggedAgent
from afnb.io.upstream import Upstream, as_upstream

Recording = Cassette | EventLog
AnyCompiled = Compiled | LogCompiled
Role = Literal["bad", "good", "recording"]


def as_recording(value: Any, role: Role) -> Recording:
    """The recording a caller means: a ``Cassette``, an ``EventLog``, or the path of one.

    Raises
    ------
    ParameterError
        It is something else, e.g. a trace, which can be compared and not replayed.
    """
    if isinstance(value, (str, os.PathLike)):
        value = load(value)
    if isinstance(value, Cassette | EventLog):
        return value
    if isinstance(value, Run):
        raise ParameterError(
            f"{role}: {value.id!r} is a trace of steps; it can be compared (afnb.diff), but only a recording "
            "of the HTTP exchanges or an event log can be replayed: make one with afnb.record"
        )
    raise ParameterError(f"{role}: expected a Cassette, an EventLog or a path, found {type(value).__name__}")


def recording_id(recording: Recording) -> str:
    """Its id, for people."""
    return recording.id or "empty log"


def recording_run(recording: Recording) -> Run:
    """Its steps.

    Examples
    --------
    >>> recording_run(Cassette("x")).steps
    ()
    """
    return run_from_cassette(recording) if isinstance(recording, Cassette) else run_from_log(recording)


def recording_hash(recording: Recording) -> str:
    """Digest of its content.

    Examples
    --------
    >>> recording_hash(Cassette("a")) == recording_hash(Cassette("a")) != recording_hash(Cassette("b"))
    True
    """
    return _DIGESTS.of(recording)


class _Digests:
    """Digests of the recordings that were asked for last: one experiment asks for its own many times."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: dict[int, tuple[Recording, str]] = {}
        self._lock = threading.Lock()

    def of(self, recording: Recording) -> str:
        """The digest of this very value, which is kept alive so that its ``id`` stays its own."""
        with self._lock:
            found = self._known.get(id(recording))
        if found is not None:
            return found[1]
        if isinstance(recording, Cassette):
            content = dumps(to_json(recording)).encode("utf-8", "surrogatepass")
        else:
            content = recording.to_bytes(canonical=True)
        digest = hashlib.blake2b(content, digest_size=12).hexdigest()
        with self._lock:
            self._known[id(recording)] = recording, digest
            while len(self._known) > self._size:
                del self._known[next(iter(self._known))]
        return digest


_DIGESTS = _Digests(32)


def compiled_arms(
    interventions: Interventions,
    bad: Recording,
    good: Recording | None = None,
    alignment: Diff | None = None,
    *,
    bad_run: Run | None = None,
    good_run: Run | None = None,
    tail: Tail = "live",
) -> AnyCompiled:
    """Patch and control arm of interventions on either kind of recording.

    Raises
    ------
    ParameterError
        The two recordings are of different kinds, or an intervention does not fit.
    """
    require_one_kind(bad, good)
    if isinstance(bad, Cassette):
        donor = good if isinstance(good, Cassette) else None
        return compile_arms(
            interventions, bad, donor, alignment, bad_run=bad_run, good_run=good_run, tail=tail
        )
    donor_log = good if isinstance(good, EventLog) else None
    return compile_log_arms(
        interventions, bad, donor_log, alignment, bad_run=bad_run, good_run=good_run, tail=tail
    )


def provider_of_experiment(agent: Any, upstream: Any) -> Upstream:
    """Who answers live: ``upstream``, or the model that a ``LoggedAgent`` brings.

    Raises
    ------
    ParameterError
        There is none.
    """
    given = upstream
    if given is None and isinstance(agent, LoggedAgent):
        given = agent.model
    if given is None:
        raise ParameterError(
            "upstream is missing: after the branch point requests go live; give the provider's URL "
            "(upstream='https://api.openai.com'), a function, or a SimulatedUpstream"
        )
    return under_one_limit(as_upstream(given))


def require_one_kind(bad: Recording, good: Recording | None) -> None:
    """Refuse a pair of which one is a cassette and the other an event log.

    Raises
    ------
    ParameterError
        They are of different kinds.
    """
    if good is None or isinstance(bad, Cassette) == isinstance(good, Cassette):
        return
    names = [("a cassette" if isinstance(r, Cassette) else "an event log") for r in (bad, good)]
    raise ParameterError(f"bad is {names[0]} and good {names[1]}; both must be of one kind")


def agent_of(recording: Recording, agent: Any) -> Agent | LoggedAgent:
    """The agent that can replay this recording.

    Raises
    ------
    ParameterError
        An event log needs a ``LoggedAgent``, a cassette any other agent.
    """
    if isinstance(recording, EventLog):
        if not isinstance(agent, LoggedAgent):
            raise ParameterError(
                "an event log is replayed by an afnb.LoggedAgent, a function of its context; "
                f"got {type(agent).__name__}"
            )
        return agent
    if isinstance(agent, LoggedAgent):
        raise ParameterError(
            "a cassette is replayed by a Command or a Function; a LoggedAgent replays event logs"
        )
    return as_agent(agent)


def agent_marks(agent: Agent | LoggedAgent) -> tuple[str, str]:
    """The agent in one line, and its fingerprint."""
    if isinstance(agent, LoggedAgent):
        return f"logged agent: {getattr(agent.function, '__name__', 'function')}", agent.hash
    return agent.describe(), agent.fingerprint()


def setting_of(
    recording: Recording,
    agent: Agent | LoggedAgent,
    upstream: Upstream,
    oracle: Oracle,
    good_tape: Tape | None,
    allow_tools: Iterable[str],
    matching: Matching | None = None,
) -> Setting:
    """What replays the recording.

    Raises
    ------
    ParameterError
        Matching rules for an event log, whose cursor compares every call exactly.
    """
    if isinstance(recording, EventLog) and matching is not None:
        raise ParameterError(
            "matching= is about HTTP requests; an event log's calls are compared exactly, leave it out"
        )
    if isinstance(recording, EventLog):
        assert isinstance(agent, LoggedAgent)
        return LogSetting(recording, agent, upstream, oracle, frozenset(allow_tools))
    assert not isinstance(agent, LoggedAgent)
    tape, allowed = Tape(recording, matching), frozenset(allow_tools)
    return TapeSetting(recording, tape, agent, upstream, oracle, good_tape, allowed)


def preflight_of(
    recordings: list[tuple[Recording, Run]],
    agent: Agent | LoggedAgent,
    arm: Arm | LogArm,
    allow_tools: Iterable[str],
) -> Preflight:
    """What every replay would do with the tools."""
    if isinstance(arm, LogArm):
        assert isinstance(agent, LoggedAgent)
        effects = {tool.name: tool.effect for tool in agent.tools}
        return log_preflight([run for _, run in recordings], effects, arm, allow_tools)
    tapes = [(recording, run) for recording, run in recordings if isinstance(recording, Cassette)]
    return preflight(tapes, arm, allow_tools)
