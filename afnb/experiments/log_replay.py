"""Replays over an event log: the cursor replays the prefix, what comes after it is live.

Recorded clocks and random bits are served in the prefix. After it, time is the system's and random bits
come from the replay's seed. A live ``write`` tool is refused unless it was allowed by name.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from afnb.causal.oracles import Oracle
from afnb.core import events as ev
from afnb.core.arm import CallPatch, LogArm
from afnb.core.branch import branch_log
from afnb.core.cassette import Request, Response
from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import MISSING, Json, dumps
from afnb.core.logsteps import call_seqs, run_from_log
from afnb.core.providers import read_answer, requested_model, with_model
from afnb.core.reshape import reshape
from afnb.core.run import Run
from afnb.errors import AgentError, Divergence, NeedsReconciliation, UpstreamError, WriteRefused
from afnb.experiments.fidelity import Fidelity
from afnb.experiments.replay import (
    STOPPED,
    Gate,
    Job,
    Lost,
    Recovery,
    ReplayResult,
    derive_seed,
    tail_digest,
)
from afnb.io.executors import Tool
from afnb.io.logged import AgentRun, LoggedAgent
from afnb.io.serve_facts import no_answer
from afnb.io.serve_report import SessionReport, Tokens
from afnb.io.upstream import Upstream

JSON = (("content-type", "application/json"),)
TIMEOUT_S = 60.0


class Held(UpstreamError):
    """A live call that was not made: the budget, a stop, or a check that allows none."""


class LiveCalls(Upstream):
    """The model after the prefix: counts the run's calls, applies later patches, asks the gate first."""

    def __init__(self, model: Upstream | None, arm: LogArm | None, gate: Gate | None, past: int) -> None:
        self.model = model
        self.gate = gate
        self.number = past
        self.live = 0
        self.patches = {} if arm is None else {p.step: p for p in arm.patches}
        self.applied: list[int] = []
        if arm is not None and not arm.patches[0].ask:
            self.applied.append(arm.patches[0].step)
        self.models: dict[str, str] = {}
        self.held: str | None = None
        self.errors: list[str] = []
        self.unanswered: str | None = None
        self.closed = False

    @property
    def origin(self) -> str:
        """The model's own."""
        return "none" if self.model is None else self.model.origin

    def due(self, kind: str, name: str) -> CallPatch | None:
        """The patch for the run's next call, if it is of the patch's kind."""
        patch = self.patches.get(self.number)
        if patch is None or self.number in self.applied or patch.kind != kind:
            return None
        return patch if kind == "llm" or patch.name == name else None

    def done(self, patch: CallPatch | None) -> None:
        """One call of the run has been answered."""
        if patch is not None:
            self.applied.append(self.number)
        self.number += 1

    def hold(self, reason: str) -> Held:
        """Note why a live call is not made."""
        self.held = self.held or reason
        return Held(f"not asked: {reason}")

    def answer(self, request: Request) -> Response:
        """The patch's value, or the model's answer."""
        patch = self.due("llm", "llm")
        if patch is not None and not patch.ask:
            self.done(patch)
            return Response(200, JSON, dumps(patch.value).encode("utf-8", "surrogatepass"))
        if self.closed:
            raise self.hold("timeout: the replay has ended")
        if self.model is None:
            raise self.hold("offline")
        reason = None if self.gate is None else self.gate(request)
        if reason is not None:
            raise self.hold(reason)
        changed = self.changed(request, patch)
        if changed is None:
            raise self.hold("not_changed: this request lacks the message that was to be changed")
        request = changed
        self.live += 1
        try:
            response = self.model.answer(request)
        except UpstreamError as error:
            self.errors.append(str(error))
            self.unanswered = str(error)
            raise
        answer = read_answer(request, response)
        fault = None if answer is not None else no_answer(response)
        self.unanswered = None if fault is None else f"the provider answered {fault}"
        if response.status >= 400:
            self.errors.append(f"the provider answered HTTP {response.status}")
        else:
            self.done(patch)
            if self.gate is not None:
                self.gate.spent(request, answer)
        return response

    def changed(self, request: Request, patch: CallPatch | None) -> Request | None:
        """The request with what holds from earlier steps on, and with what begins here; None if it cannot."""
        asked = requested_model(request)
        for known in self.patches.values():
            if known.step in self.applied and known.change is not None:
                request = reshape(request, known.change) or request
        if patch is not None and patch.change is not None:
            made = reshape(request, patch.change)
            if made is None:
                return None
            request = made
        if patch is not None and patch.model is not None and asked is not None:
            self.models[asked] = patch.model
        model = self.models.get(asked or "")
        return request if model is None else with_model(request, model)

    def tool(self, tool: Tool) -> Tool:
        """The tool, with later patches of its calls."""

        def call(input: Json, idempotency_key: str | None = None) -> Json:
            patch = self.due("tool", tool.name)
            if patch is not None and not patch.ask:
                self.done(patch)
                return patch.value
            if self.closed or self.model is None:
                raise self.hold("offline")
            output = tool(input, idempotency_key)
            self.done(patch)
            return output

        return Tool(call, tool.effect, tool.name)


@dataclass(frozen=True, slots=True)
class LogSetting:
    """What all replays of an event log share."""

    log: EventLog
    agent: LoggedAgent
    upstream: Upstream
    oracle: Oracle | None
    allow_writes: frozenset[str] = frozenset()
    timeout_s: float | None = TIMEOUT_S

    @property
    def recording_id(self) -> str:
        """The log's run."""
        return self.log.id or "empty log"

    def run(self, job: Job, gate: Gate | None, stop: threading.Event | None) -> ReplayResult:
        """Run and judge one replay."""
        started = time.monotonic()
        arm = job.arm
        assert isinstance(arm, LogArm)
        gate = gate or Gate()
        calls = LiveCalls(
            self.upstream.for_replay(job.seed, job.role, job.index), arm, gate, arm.prefix_calls
        )
        end = limited(lambda: self._drive(self._prefix(arm, job.seed), calls, job.seed), self.timeout_s, stop)
        calls.closed = True
        report = log_report(self.log, arm, calls, end)
        run = None if end.run is None else finished(end.run)
        fault = find_fault(arm, calls, end)
        recovery: Recovery = "inconclusive"
        reason = detail = None
        lost: Lost | None = None
        if fault is not None:
            reason, detail = fault
            before = reason in ("prefix_diverged",) or not calls.applied
            lost = "before" if before else "after"
        elif self.oracle is None or run is None:
            reason, lost = "no_oracle", "before"
        else:
            judgement = self.oracle.judge(run)
            recovery, detail = judgement.recovery, judgement.detail
            if recovery == "inconclusive":
                reason, lost = "oracle_undecided", "after"
        return ReplayResult(
            role=job.role,
            index=job.index,
            seed=job.seed,
            recovery=recovery,
            reason=reason,
            lost=lost,
            detail=detail,
            report=report,
            run=run,
            recording=None if end.run is None else end.run.log,
            tail_digest=None if run is None else tail_digest(run),
            wall_s=time.monotonic() - started,
            worker=threading.current_thread().name,
            uses=gate.uses,
        )

    def check(
        self,
        seed: int,
        converges: Callable[[ReplayResult], bool] | None = None,
        stop: threading.Event | None = None,
    ) -> Fidelity:
        """The self-check: the whole log replayed by the cursor, nothing asked live.

        Raises
        ------
        AgentError
            The log records no call, so there is nothing to replay.
        """
        recorded = sum(1 for _, completion in call_seqs(self.log) if completion is not None)
        if recorded == 0:
            raise AgentError(
                f"event log {self.recording_id} records no completed call; nothing can be replayed"
            )
        calls = LiveCalls(None, None, None, recorded)
        end = limited(lambda: self._drive(self.log, calls, seed), self.timeout_s, stop)
        reason = None
        if isinstance(end.error, Divergence):
            reason = str(end.error)
        elif end.status == "timeout":
            reason = "the agent timed out"
        elif end.status == "stopped":
            reason = "the self-check was stopped"
        elif end.error is not None and not isinstance(end.error, Held | NeedsReconciliation):
            reason = f"the agent raised {type(end.error).__name__}: {end.error}"
        again = None if end.run is None or converges is None else self._judged(end.run, converges)
        recovered = None
        if end.run is not None and self.oracle is not None:
            recovered = self.oracle.judge(finished(end.run)).recovery == "recovered"
        return Fidelity(
            recording=self.recording_id,
            ok=reason is None,
            recorded=recorded,
            served=recorded if reason is None else 0,
            missed=int(isinstance(end.error, Divergence)),
            same_answer=reason is None,
            reason=reason,
            converges=again,
            recovered=recovered,
        )

    def _judged(self, run: AgentRun, converges: Callable[[ReplayResult], bool]) -> bool:
        """Whether the unpatched replay itself is judged recovered."""
        done = finished(run)
        judgement = None if self.oracle is None else self.oracle.judge(done)
        recovery: Recovery = "inconclusive" if judgement is None else judgement.recovery
        report = SessionReport("replay")
        return converges(
            ReplayResult("check", 0, 0, recovery, None, None, None, report, done, None, None, 0.0, "")
        )

    def _prefix(self, arm: LogArm, seed: int) -> EventLog:
        first = arm.patches[0]
        value = MISSING if first.ask or first.as_recorded else first.value
        # A live write is refused unless allowed, so naming all writes after the branch point is safe here.
        run_id = str(uuid.UUID(int=derive_seed(seed, "run", arm.name) | 4 << 76 | 2 << 62, version=4))
        return branch_log(self.log, arm.through_seq, run_id=run_id, value=value, acknowledge_writes="all")

    def _drive(self, log: EventLog, calls: LiveCalls, seed: int) -> AgentRun:
        bits = random.Random(derive_seed(seed, "bits"))
        agent = replace(
            self.agent,
            model=calls,
            tools=[calls.tool(tool) for tool in self.agent.tools],
            definition=self.agent.hash,
        )
        return agent.run(log, allow_writes=self.allow_writes, bits=lambda: bits.getrandbits(64))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a limited call ended."""

    status: Literal["finished", "raised", "timeout", "stopped"]
    run: AgentRun | None = None
    error: Exception | None = None


def limited(f: Callable[[], AgentRun], timeout_s: float | None, stop: threading.Event | None) -> Ended:
    """Call ``f`` in a thread of its own and wait for its end, its time-out or ``stop``."""
    box: list[Ended] = []

    def call() -> None:
        try:
            box.append(Ended("finished", f()))
        except Exception as error:  # noqa: BLE001 - whatever an agent raises is how the replay ended
            box.append(Ended("raised", error=error))

    thread = threading.Thread(target=call, name="afnb-agent", daemon=True)
    thread.start()
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        thread.join(0.05 if deadline is None else max(0.0, min(0.05, deadline - time.monotonic())))
        if not thread.is_alive():
            return box[0]
        if stop is not None and stop.is_set():
            return Ended("stopped")
        if deadline is not None and time.monotonic() >= deadline:
            return Ended("timeout")


def finished(result: AgentRun) -> Run:
    """The replayed run with what the agent returned."""
    run = run_from_log(result.log)
    return run if result.status != "completed" else replace(run, answer=result.output)


def find_fault(arm: LogArm, calls: LiveCalls, end: Ended) -> tuple[str, str | None] | None:
    """Why this replay says nothing about the arm, or None if it can be judged."""
    if calls.held is not None:
        word, _, rest = calls.held.partition(": ")
        if word in STOPPED:
            return word, rest
    if isinstance(end.error, Divergence):
        return "prefix_diverged", str(end.error)
    if isinstance(end.error, WriteRefused):
        return "write_refused", str(end.error)
    if end.status == "timeout":
        return "timeout", "the agent did not end in time"
    if end.status == "stopped":
        return "interrupted", "the experiment was stopped"
    if calls.unanswered is not None:
        return "provider_error", calls.unanswered
    if calls.errors and (end.run is None or end.run.status != "completed"):
        return "provider_error", calls.errors[-1]
    if end.error is not None:
        return "agent_raised", f"{type(end.error).__name__}: {end.error}"
    missing = [patch.step for patch in arm.patches if patch.step not in calls.applied]
    if missing:
        reason = "intervention_not_applied" if calls.applied else "branch_not_reached"
        return reason, f"steps {missing} were never asked for"
    if end.run is not None and end.run.status == "parked":
        return "parked", "the agent waits for an answer that nobody gives in a replay"
    return None


def log_report(log: EventLog, arm: LogArm, calls: LiveCalls, end: Ended) -> SessionReport:
    """Counts of one replay of an event log."""
    read = written = 0
    if end.run is not None:
        for envelope in end.run.log.envelopes[end.run.replayed :]:
            if isinstance(envelope.event, ev.ModelCallCompleted):
                read += envelope.event.usage.input_tokens
                written += envelope.event.usage.output_tokens
    tokens = Tokens(read, written)
    diverged = isinstance(end.error, Divergence)
    return SessionReport(
        mode="branch",
        requests=arm.prefix_calls + calls.live,
        served=0 if diverged else arm.prefix_calls,
        live=calls.live,
        missed=int(diverged),
        patches_applied=() if diverged else tuple(calls.applied),
        patches_missing=tuple(p.step for p in arm.patches if diverged or p.step not in calls.applied),
        branch_reached=not diverged,
        tokens=tokens,
        tokens_live=tokens,
        upstream_errors=tuple(calls.errors),
    )
