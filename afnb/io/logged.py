"""``LoggedAgent``: run an agent on an event log, and run it again to go on where it stopped."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import astuple, dataclass
from typing import Any, Literal

from afnb.core import events as ev
from afnb.core.budgets import Pricing, RunBudgets
from afnb.core.cursor import ReplayCursor
from afnb.core.eventlog import EventLog
from afnb.core.instants import Instant
from afnb.core.jsonvalue import MISSING, Json, JsonOrMissing, equal
from afnb.core.run import Warn
from afnb.core.state import PARKED
from afnb.core.wirekinds import normal_run_id
from afnb.errors import AfnbError, MalformedLog, ParameterError
from afnb.io.context import AgentContext, Bits, Parked
from afnb.io.eventfile import EventFile, EventMemory, EventSink, Fsync
from afnb.io.executors import Tool, definition_hash, recordable, tools_by_name
from afnb.io.files import PathLike
from afnb.io.upstream import as_upstream
from afnb.io.writeahead import Clock, OnEvent, WriteAhead

LogPlace = PathLike | EventLog


def wall_clock() -> Instant:
    """The time of day, to the nanoseconds the system has."""
    return Instant(time.time_ns())


def system_bits() -> int:
    """64 bits of the system's randomness."""
    return secrets.randbits(64)


@dataclass(frozen=True, slots=True)
class AgentRun:
    """How a run of a logged agent ended.

    Parameters
    ----------
    status
        ``completed``, ``failed`` (the agent raised; recorded) or ``parked`` (it waits for an answer).
    output
        What the agent returned, if it completed.
    error
        The recorded failure, if it failed; ``exception`` is what was raised.
    waits_for
        The ``Suspended`` or ``BudgetExceeded`` event, if it is parked.
    log
        The whole log as it is now.
    replayed, live
        How many of its events were there before, and how many were added now.
    """

    status: Literal["completed", "failed", "parked"]
    log: EventLog
    replayed: int
    live: int
    output: Json = None
    error: str | None = None
    exception: Exception | None = None
    waits_for: ev.Suspended | ev.BudgetExceeded | None = None
    warnings: tuple[Warn, ...] = ()

    def __repr__(self) -> str:
        events = f"{self.replayed} replayed, {self.live} new"
        return f"<AgentRun {self.log.id}: {self.status}, {events}>"


@dataclass(frozen=True, slots=True)
class LoggedAgent:
    """An agent written as a function of an `AgentContext`, and what it calls.

    Parameters
    ----------
    function
        ``f(ctx)``; what it returns is the run's output.
    model
        Who answers ``ctx.model_call``: anything ``as_upstream`` takes (a URL, a function, ...).
    tools
        What ``ctx.tool_call`` may call.
    budgets, pricing
        Limits checked before each model call; at a limit the run parks. A limit of wall time looks at
        the (recorded) clock each time.
    definition
        What the agent is, as a text that changes when it does: a log is only gone on with under the
        definition it was started with. By default a hash of the function's source, the tools' names
        and effects and the limits.
    is_graph
        Whether its runs are graph runs, which `AgentContext.node` marks.
    model_path
        The path of a model call given as a JSON body.
    record_bodies
        Whether a request's body is kept beside its hash.

    Examples
    --------
    >>> def agent(ctx):
    ...     found = ctx.tool_call("search", ctx.input)
    ...     return ctx.model_call({"messages": [{"role": "user", "content": found}]}).response
    >>> agent_1 = LoggedAgent(agent, model=lambda request: {"answer": 42},
    ...     tools=[Tool(lambda query: f"about {query}", "read", name="search")], definition="v1")
    >>> run = agent_1.run(EventLog(None), input="otters")
    >>> run.status, run.output, run.live
    ('completed', {'answer': 42}, 6)
    >>> agent_1.run(run.log.prefix(4)).replayed  # stopped in the model call: only that is asked again
    4
    """

    function: Callable[[AgentContext], Json]
    model: Any = None
    tools: Iterable[Tool] = ()
    budgets: RunBudgets | None = None
    pricing: Pricing | None = None
    definition: str | None = None
    is_graph: bool = False
    model_path: str = "/v1/chat/completions"
    record_bodies: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))
        tools_by_name(self.tools)
        if self.budgets is not None and self.budgets.max_cost_usd is not None and self.pricing is None:
            raise ParameterError("max_cost_usd is set without a pricing; give pricing=Pricing(...)")

    @property
    def hash(self) -> str:
        """The definition as it is recorded at a run's head."""
        if self.definition is not None:
            return self.definition
        limits: Json = [list(astuple(b)) if b is not None else None for b in (self.budgets, self.pricing)]
        return definition_hash(self.function, tools_by_name(self.tools), limits)

    def run(
        self,
        log: LogPlace,
        *,
        input: JsonOrMissing = MISSING,
        answer: JsonOrMissing = MISSING,
        run_id: str | None = None,
        labels: ev.Labels | None = None,
        fsync: Fsync = "always",
        allow_writes: Collection[str] | Literal["all"] = "all",
        not_executed: int | None = None,
        clock: Clock = wall_clock,
        bits: Bits = system_bits,
        on_event: OnEvent | None = None,
    ) -> AgentRun:
        """Start a run, or go on with the one in the log; completed calls are never made again.

        Parameters
        ----------
        log
            A ``.jsonl`` file (made if it is not there), or an `EventLog` to go on with in memory.
        input
            What a fresh run is given. For a log that has begun it may be left out, and must be the
            recorded one if it is not.
        answer
            The answer a parked run waits for.
        run_id
            A fresh run's id, a UUID; by default a random one.
        labels
            Texts to find a fresh run by.
        fsync
            When the file's events are forced to the disk: ``always``, ``batch`` (before each live call
            and at the end) or ``never``; see ``io.eventfile``.
        allow_writes
            The tools with the effect ``write`` that may run now, by name, or "all".
        not_executed
            The seq of a dangling write of which somebody knows that it was never executed: it is
            executed now.
        clock, bits
            Where time and randomness come from.
        on_event
            Called with each new event once it is in the log.

        Returns
        -------
        AgentRun
            A failure of the agent's own and a parked run are results, not exceptions.

        Raises
        ------
        Divergence
            The agent asked for something else than the log records.
        NeedsReconciliation
            The log ends in a write of which nobody knows whether it landed.
        WriteRefused, UpstreamError, Exception
            A write that is not allowed, a model that did not answer, whatever a tool raised: the call
            is open, running again makes it again.
        MalformedLog, InputError, ParameterError
            The log is broken or another process has it; arguments that do not fit it.
        """
        sink: EventSink = EventMemory(log) if isinstance(log, EventLog) else EventFile(log, fsync)
        try:
            before = sink.log
            _check(before, run_id, input, answer, not_executed)
            own_id = before.id or (str(uuid.uuid4()) if run_id is None else normal_run_id(run_id))
            context = AgentContext(
                WriteAhead(ReplayCursor(before), sink, own_id, clock, on_event),
                model=None if self.model is None else as_upstream(self.model),
                model_path=self.model_path,
                record_bodies=self.record_bodies,
                tools=tools_by_name(self.tools),
                budgets=self.budgets,
                pricing=self.pricing,
                answer=answer,
                allow_writes=allow_writes,
                not_executed=not_executed,
                bits=bits,
            )
            return self._drive(context, sink, input, labels)
        finally:
            sink.close()

    def _drive(
        self, context: AgentContext, sink: EventSink, given: JsonOrMissing, labels: ev.Labels | None
    ) -> AgentRun:
        replayed = len(sink.log)

        def ended(status: Literal["completed", "failed", "parked"], **how: Any) -> AgentRun:
            log = sink.events()
            warnings = (*sink.log.warnings, *context.warnings)
            return AgentRun(status, log, replayed, len(log) - replayed, warnings=warnings, **how)

        try:
            context._start(self.hash, labels, self.is_graph, given)
            output = self.function(context)
            return ended("completed", output=context._complete(output))
        except Parked:
            return ended("parked", waits_for=sink.events().state.cause)
        except AfnbError:
            raise
        except Exception as error:
            if context._must_not_fail:
                raise
            return ended("failed", error=context._fail(error), exception=error)


def _check(
    log: EventLog,
    run_id: str | None,
    given: JsonOrMissing,
    answer: JsonOrMissing,
    not_executed: int | None,
) -> None:
    """Refuse arguments that do not fit the log, before anything runs."""
    violation = log.violation()
    if violation is not None:
        raise MalformedLog(violation.seq, violation.message)
    if run_id is not None and log.id is not None and normal_run_id(run_id) != log.id:
        raise ParameterError(f"the log is run {log.id}, not {run_id}; leave run_id out to go on with it")
    state = log.state
    if state.status == "abandoned":
        raise ParameterError(f"run {log.id} was abandoned; branch it, or start another")
    if answer is not MISSING and state.status not in PARKED:
        raise ParameterError(f"an answer was given, but the run waits for none: it is {state.status}")
    if given is not MISSING and log.envelopes:
        recorded = getattr(log.envelopes[0].event, "input", None)
        if not equal(recorded, recordable(given, "the input")[0]):
            raise ParameterError(
                "the log was started with another input; leave input out to go on, or start a new log"
            )
    if not_executed is not None:
        last = log.envelopes[-1].event if log.envelopes else None
        if not isinstance(last, ev.ToolCallRequested) or last.seq != not_executed:
            raise ParameterError(f"not_executed is {not_executed}, but the log does not end in a call there")


def record_output(
    log: PathLike, output: Json, *, fsync: Fsync = "always", clock: Clock = wall_clock
) -> EventLog:
    """Settle a dangling tool call of which somebody found out what it gave: record its completion.

    Raises
    ------
    ParameterError
        The log does not end in a tool call, or the output is no JSON.
    """
    with EventFile(log, fsync) as file:
        last = file.log.envelopes[-1] if len(file.log) else None
        if last is None or not isinstance(last.event, ev.ToolCallRequested):
            raise ParameterError(f"{file.path} does not end in a tool call that waits for its output")
        completed = ev.ToolCallCompleted(last.event.seq, recordable(output, "the output")[0])
        file.append(ev.Envelope(last.run_id, last.seq + 1, clock(), completed))
        return file.events()


def abandon_run(
    log: PathLike, reason: str | None = None, *, fsync: Fsync = "always", clock: Clock = wall_clock
) -> EventLog:
    """Give a run up; a dangling write is named in the log as unresolved.

    Raises
    ------
    ParameterError
        The run has ended or not begun, or waits for the answer of a call that may simply be made again.
    """
    with EventFile(log, fsync) as file:
        state = file.log.state
        last = file.log.envelopes[-1] if len(file.log) else None
        if last is None or isinstance(last.event, ev.TERMINALS):
            raise ParameterError(f"{file.path} holds no run that goes on: it is {state.status}")
        unresolved = None
        if isinstance(last.event, ev.Intent):
            if state.status != "needs_reconciliation" or not isinstance(last.event, ev.ToolCallRequested):
                raise ParameterError(
                    f"the log ends in a call that can be made again ({last.event.kind} at seq {last.seq}); "
                    "run the agent to answer it first"
                )
            unresolved = ev.UnresolvedWrite(last.event.seq, last.event.tool)
        abandoned = ev.RunAbandoned(reason, unresolved)
        file.append(ev.Envelope(last.run_id, last.seq + 1, clock(), abandoned))
        return file.events()
