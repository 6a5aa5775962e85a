"""Agents on the event log: a function of a context that writes ahead and resumes where it stopped.

::

    agent(ctx) ── ctx.now(), ctx.random(), ctx.model_call(...), ctx.tool_call(...), ctx.suspend(...)
       │                │
       │          ReplayCursor (pure)   recorded: the recorded answer, nothing happens again
       │                │               else: intent appended, call made, completion appended
       └── returns      └── EventFile   one line an event, on disk before anything relies on it

The agent must be a function of what the context gives it: the same answers, the same requests. Whatever
else it reads (a clock, a file) makes it diverge when it is resumed. Call the context from one thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Literal, TypeVar

from afnb.core import events as ev
from afnb.core.budgets import (
    BudgetExtensions,
    Meter,
    Pricing,
    RunBudgets,
    check_extension,
)
from afnb.core.cassette import Request
from afnb.core.instants import Instant
from afnb.core.jsonvalue import MISSING, Json, JsonOrMissing, Missing, equal
from afnb.core.permits import Emitted, Live, ModelCallPermit, ModelReply, Replayed, ToolCallPermit
from afnb.core.run import Warn
from afnb.errors import (
    NeedsReconciliation,
    ParameterError,
    PermitError,
    WriteRefused,
)
from afnb.io.executors import Tool, ask_model, model_request, recordable, request_hash
from afnb.io.upstream import Upstream
from afnb.io.writeahead import WriteAhead

Bits = Callable[[], int]
T = TypeVar("T")


class Parked(BaseException):
    """Unwinds an agent that waits for somebody; no ``except Exception`` of the agent's may hold it up."""


class AgentContext:
    """What an agent on the event log is given; made by ``LoggedAgent.run``.

    ``input`` is what the run was started with.
    """

    def __init__(
        self,
        ahead: WriteAhead,
        *,
        model: Upstream | None,
        model_path: str,
        record_bodies: bool,
        tools: Mapping[str, Tool],
        budgets: RunBudgets | None,
        pricing: Pricing | None,
        answer: JsonOrMissing,
        allow_writes: Collection[str] | Literal["all"],
        not_executed: int | None,
        bits: Bits,
    ) -> None:
        self.input: Json = None
        self._ahead, self._cursor = ahead, ahead.cursor
        self._model, self._model_path, self._record_bodies = model, model_path, record_bodies
        self._tools = tools
        self._budgets, self._pricing = budgets or RunBudgets(), pricing
        self._answer = answer
        self._allow_writes, self._not_executed = allow_writes, not_executed
        self._bits = bits
        self._meter = Meter()
        self._granted = BudgetExtensions()
        self._open: tuple[str, Any, ModelCallPermit | ToolCallPermit] | None = None

    # What an agent asks

    @property
    def run_id(self) -> str:
        """The run's id. A branch has one of its own: do not let requests depend on it."""
        return self._ahead.run_id

    @property
    def warnings(self) -> list[Warn]:
        """What had to be changed to be recorded."""
        return self._ahead.warnings

    @property
    def is_replaying(self) -> bool:
        """Whether the next answer comes from the log."""
        return self._cursor.is_replaying

    def now(self) -> Instant:
        """The time, recorded."""
        outcome = self._ask(self._cursor.now)
        if isinstance(outcome, Replayed):
            now = outcome.value
        else:
            now = self._ahead.clock()
            self._ahead.append(outcome.permit.record(now))
        self._meter.looked(now)
        return now

    def random(self) -> int:
        """64 random bits, recorded: an integer from 0 to 2**64 - 1."""
        outcome = self._ask(self._cursor.random)
        if isinstance(outcome, Replayed):
            return outcome.value
        bits = self._bits()
        self._ahead.append(outcome.permit.record(bits))
        return bits

    def uniform(self) -> float:
        """A float from 0.0 to below 1.0, from one draw of `random`."""
        return (self.random() >> 11) * 2.0**-53

    def model_call(self, request: Request | Json) -> ModelReply:
        """Ask the model, once: an answer that is recorded is given again without asking.

        Parameters
        ----------
        request
            The request's JSON body, or a whole `Request`. It is recognised by a hash of method, path
            and body, key order aside.

        Raises
        ------
        UpstreamError
            The model could not be reached or answered with an error. The call stays open in the log:
            make the same call again, or let the run end here and resume it later.
        """
        self._check_budgets()
        asked, body = model_request(request, self._model_path)
        digest = request_hash(asked, body)
        permit = self._reopened("model_call", digest)
        if permit is None:
            if not self.is_replaying and self._model is None:
                raise ParameterError("the agent asks a model and none was given; give LoggedAgent a model=")
            kept = self._ahead.clean(body, "the request") if self._record_bodies else MISSING
            outcome = self._ask(lambda: self._cursor.model_call(digest, kept))
            if isinstance(outcome, Replayed):
                return self._counted(outcome.value)
            permit = outcome.permit
            self._begin_call("model_call", digest, permit)
        if self._model is None:
            raise ParameterError("the agent asks a model and none was given; give LoggedAgent a model=")
        response, usage, notes = ask_model(self._model, asked)
        self._ahead.warnings.extend(notes)
        reply = ModelReply(self._ahead.clean(response, "the model's answer"), usage)
        self._ahead.append(permit.record(reply.response, usage))
        self._open = None
        return self._counted(reply)

    def tool_call(
        self,
        name: str,
        input: Json,
        effect: ev.Effect | None = None,
        idempotency_key: str | Missing | None = MISSING,
    ) -> Json:
        """Run a tool, once: an output that is recorded is given again without running it.

        Parameters
        ----------
        name
            One of the agent's tools.
        input
            Its JSON input.
        effect
            Its effect class; by default the tool's own, which it must not contradict.
        idempotency_key
            By default an ``idempotent`` call gets a key of run and position, and a recorded key is taken
            as it is; anything given must be what the log records.

        Raises
        ------
        NeedsReconciliation
            The log ends in this call, it writes, and nobody knows whether it landed.
        WriteRefused
            The tool writes, would run now, and is not allowed to.
        Exception
            Whatever the tool raises. Its call stays open: make the same call again, or let the run end
            here and resume it later. A tool that fails in a way the agent should see returns that as a
            value.
        """
        tool = self._tools.get(name)
        effect = self._effect(name, tool, effect)
        clean = self._ahead.clean(input, f"the input of {name}")
        key = self._key(effect, idempotency_key)
        permit = self._reopened("tool_call", (name, clean, effect, key))
        if permit is None:
            self._may_run(name, tool, effect)
            outcome = self._ask(lambda: self._tool_outcome(name, clean, effect, key))
            if isinstance(outcome, Replayed):
                return outcome.value
            permit = outcome.permit
            self._begin_call("tool_call", (name, clean, effect, key), permit)
        elif effect == "write":
            raise NeedsReconciliation(permit.seq, name, clean, key)
        assert tool is not None
        assert isinstance(permit, ToolCallPermit)
        output = self._ahead.clean(tool(clean, permit.idempotency_key), f"the output of {name}")
        self._ahead.append(permit.record(output))
        self._open = None
        return output

    def suspend(self, reason: str, input_schema: Json = None) -> Json:
        """Park the run until somebody answers, and give the answer.

        Without an answer the agent ends here; run it again with ``answer=`` to go on from here. The
        schema tells a person what to answer; it is not checked.
        """
        schema = self._ahead.clean(input_schema, "the schema")
        self._mark(lambda: self._cursor.suspend(reason, schema))
        return self._resumed(lambda answer: None)

    @contextlib.contextmanager
    def node(self, name: str) -> Iterator[None]:
        """Mark what the block does as a node of the run's graph."""
        self._mark(lambda: self._cursor.node_entered(name))
        yield
        self._mark(lambda: self._cursor.node_exited(name))

    def node_skipped(self, name: str, reason: str) -> None:
        """Mark a node of the run's graph as passed by."""
        self._mark(lambda: self._cursor.node_skipped(name, reason))

    def branch_taken(self, name: str, case: str) -> None:
        """Mark which case a branch node of the run's graph chose."""
        self._mark(lambda: self._cursor.branch_taken(name, case))

    # What ``LoggedAgent.run`` asks

    def _start(self, definition: str, labels: ev.Labels | None, is_graph: bool, given: JsonOrMissing) -> None:
        cursor = self._cursor
        if is_graph:
            outcome: Any = self._ask(lambda: cursor.begin_graph(definition, labels))
        else:
            outcome = self._ask(lambda: cursor.begin(definition, labels))
        if isinstance(outcome, Replayed):
            self.input = outcome.value
            return
        self.input = self._ahead.clean(None if given is MISSING else given, "the input")
        self._ahead.append(outcome.permit.record(self.input))

    def _complete(self, output: Json) -> Json:
        clean = self._ahead.clean(output, "the agent's output")
        self._mark(lambda: self._cursor.complete_run(clean))
        return clean

    def _fail(self, error: Exception) -> str:
        """Record the run's failure; a recorded failure of the same type keeps its text.

        The text of an error may hold addresses, paths and times that are others in the next process.
        """
        name = type(error).__name__
        said, _ = recordable(f"{name}: {error}", "the error")
        recorded = self._cursor.upcoming
        if isinstance(recorded, ev.RunFailed) and recorded.error.partition(":")[0] == name:
            if recorded.error != said:
                self._ahead.warnings.append(Warn("other_error_text", f"the error read {said!r} this time"))
            said = recorded.error
        text: str = said
        self._mark(lambda: self._cursor.fail_run(text))
        return text

    @property
    def _must_not_fail(self) -> bool:
        """Whether an exception of the agent's is none of its own: a call is open, or the log is stopped."""
        return self._open is not None or self._ahead.stopped is not None

    # How it is answered

    def _ask(self, request: Callable[[], T]) -> T:
        self._no_open_call()
        return self._ahead.ask(request)

    def _mark(self, request: Callable[[], Replayed[None] | Live[Emitted]]) -> None:
        self._no_open_call()
        self._ahead.mark(request)

    def _no_open_call(self) -> None:
        self._ahead.check()
        if self._open is not None:
            name, _, permit = self._open
            raise PermitError(
                f"the {name} at seq {permit.seq} has no answer yet; make the same call again, or let the run "
                "end: it resumes there"
            )

    def _begin_call(self, name: str, key: Any, permit: ModelCallPermit | ToolCallPermit) -> None:
        self._open = (name, key, permit)
        if permit.intent is not None:
            self._ahead.append(permit.intent)
        self._ahead.sink.before_call()

    def _reopened(self, name: str, key: Any) -> Any:
        """The permit of the same call made before and left open, if this is it."""
        if self._open is None or self._open[0] != name or not equal(self._open[1], key):
            return None
        return self._open[2]

    def _effect(self, name: str, tool: Tool | None, effect: ev.Effect | None) -> ev.Effect:
        if tool is None:
            if effect is None or not self.is_replaying:
                raise ParameterError(
                    f"there is no tool {name!r}; the agent has {', '.join(sorted(self._tools)) or 'none'}"
                )
            return effect
        if effect is not None and effect != tool.effect:
            raise ParameterError(f"tool {name!r} has the effect {tool.effect!r}, the call says {effect!r}")
        return tool.effect

    def _key(self, effect: ev.Effect, given: str | Missing | None) -> str | None:
        if not isinstance(given, Missing):
            return given
        if self._open is not None:
            return self._open[2].idempotency_key if isinstance(self._open[2], ToolCallPermit) else None
        recorded = self._cursor.upcoming
        if isinstance(recorded, ev.ToolCallRequested):
            return recorded.idempotency_key
        return f"{self.run_id}:{self._cursor.next_seq}" if effect == "idempotent" else None

    def _may_run(self, name: str, tool: Tool | None, effect: ev.Effect) -> None:
        """Refuse, before anything is recorded, a call that could not or must not be made live."""
        dangling = self._cursor.dangling_intent()
        if self.is_replaying and dangling is None:
            return
        if dangling is not None and effect == "write" and dangling.seq != self._not_executed:
            return  # the cursor refuses it, for a person to decide
        if tool is None:
            raise ParameterError(f"tool {name!r} would run now and the agent has no such tool")
        if (
            effect == "write"
            and not dangling
            and self._allow_writes != "all"
            and name not in self._allow_writes
        ):
            raise self._ahead.stop(WriteRefused(name, self._cursor.next_seq))

    def _tool_outcome(self, name: str, input: Json, effect: ev.Effect, key: str | None) -> Any:
        dangling = self._cursor.dangling_intent()
        if dangling is not None and dangling.seq == self._not_executed:
            return self._cursor.resume_unexecuted_tool_call(name, input, effect, key)
        return self._cursor.tool_call(name, input, effect, key)

    def _resumed(self, check: Callable[[Json], None]) -> Json:
        outcome = self._ask(self._cursor.await_resume)
        if isinstance(outcome, Replayed):
            return outcome.value
        if self._answer is MISSING:
            outcome.permit.cancel()
            raise self._ahead.stop(Parked())
        check(self._answer)
        answer, self._answer = self._ahead.clean(self._answer, "the answer"), MISSING
        self._ahead.append(outcome.permit.resume(answer))
        return answer

    def _check_budgets(self) -> None:
        budgets = self._budgets
        if budgets == RunBudgets() or self._open is not None:
            return
        if budgets.max_wall_time_s is not None:
            self.now()
        while True:
            crossing = budgets.first_crossing(self._meter.observations(), self._granted, self._pricing)
            if crossing is None:
                return
            self._mark(partial(self._cursor.budget_exceeded, crossing.budget, crossing.observed))
            self._granted = self._granted.plus(self._resumed(check_extension))

    def _counted(self, reply: ModelReply) -> ModelReply:
        self._meter.answered(reply.usage)
        return reply
