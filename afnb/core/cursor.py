"""``ReplayCursor``: one run's log as the run itself meets it, step by step.

A run asks the cursor before each of its steps. While history covers the step the answer is `Replayed`
and nothing happens a second time; from the first uncovered step on it is `Live`, with the permit to
record a fresh result. The cursor is pure: it reads no clock, draws nothing and writes nothing, it
says which event must be persisted and where.

A request that is not what the log records there is a `Divergence`. No error moves the cursor: the
right request afterwards still gets its answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

from afnb.core import events as ev
from afnb.core import requests as rows
from afnb.core.describe import differing, said
from afnb.core.instants import Instant
from afnb.core.jsonvalue import MISSING, Json, JsonOrMissing
from afnb.core.permits import (
    BeginPermit,
    Emitted,
    GraphBeginPermit,
    Live,
    ModelCallPermit,
    ModelReply,
    NowPermit,
    Parked,
    Permit,
    RandomPermit,
    Replayed,
    ToolCallPermit,
    detached,
)
from afnb.core.shape import cursor_refusal
from afnb.errors import Divergence, MalformedLog, NeedsReconciliation, ParameterError, PermitError

__all__ = ["Emitted", "Live", "ModelReply", "Permit", "ReplayCursor", "Replayed"]

T = TypeVar("T")
P = TypeVar("P")


_NO_TIME = Instant(0)


class ReplayCursor:
    """The replay of one run's log, and its continuation.

    Parameters
    ----------
    log
        The recorded envelopes of one run; none for a fresh run.

    Raises
    ------
    MalformedLog
        The log has no head at seq 0, a gap, two run ids or an event after its end.

    Examples
    --------
    >>> from afnb.core.events import Envelope, RandomObserved, RunStarted
    >>> t = Instant(0)
    >>> log = [Envelope("r", 0, t, RunStarted("h", "hi")), Envelope("r", 1, t, RandomObserved(7))]
    >>> cursor = ReplayCursor(log)
    >>> cursor.begin("h").value, cursor.random().value, cursor.is_replaying
    ('hi', 7, False)
    >>> live = cursor.random()
    >>> live.permit.record(9)
    Emitted(seq=2, event=RandomObserved(value=9))
    """

    __slots__ = ("_at", "_ended", "_log", "_next_seq", "_out", "_undo")

    def __init__(self, log: Iterable[ev.Envelope] = ()) -> None:
        self._log = tuple(log)
        refusal = cursor_refusal(self._log)
        if refusal is not None:
            raise MalformedLog(refusal.seq, refusal.message)
        self._at = 0
        self._next_seq = 0
        self._ended: ev.Event | None = None
        self._out: Permit | None = None
        self._undo = (0, 0)

    # What the cursor says of itself

    @property
    def run_id(self) -> str | None:
        """The log's run, or None for a fresh one."""
        return self._log[0].run_id if self._log else None

    @property
    def is_replaying(self) -> bool:
        """Whether recorded events remain; False once the last one is consumed."""
        return self._at < len(self._log)

    @property
    def is_finished(self) -> bool:
        """Whether the run's completion or failure was consumed or emitted."""
        return self._ended is not None

    @property
    def next_seq(self) -> int:
        """The position of the next event, recorded or fresh."""
        return self._next_seq

    @property
    def upcoming(self) -> ev.Event | None:
        """The recorded event that the next request must fit, or None where the next step is live."""
        return self._log[self._at].event if self.is_replaying else None

    def dangling_intent(self) -> ev.Intent | None:
        """The call that was asked for and never answered, if the cursor stands at it.

        That is, if the next event is the log's last one and an intent.
        """
        if self._at != len(self._log) - 1:
            return None
        event = self._log[self._at].event
        return event if isinstance(event, ev.Intent) else None

    # The requests. Each returns `Replayed` while history covers it and `Live` from then on; each
    # raises `Divergence` where the log records something else or the run has ended, and
    # `PermitError` while a permit is out.

    def begin(
        self, agent_def_hash: str, labels: ev.Labels | None = None
    ) -> Replayed[Json] | Live[BeginPermit]:
        """Start an agent run. The hash must be the recorded one; labels count for a fresh run only.

        Gives the recorded input; live, the permit is redeemed with the input.
        """
        return self._ask(rows.BEGIN, ev.RunStarted(agent_def_hash, None, labels))

    def begin_graph(
        self,
        graph_hash: str,
        labels: ev.Labels | None = None,
        forked_from: ev.ForkOrigin | None = None,
    ) -> Replayed[Json] | Live[GraphBeginPermit]:
        """Start a graph run. The hash must be the recorded one; the rest counts for a fresh run only.

        Gives the recorded input; live, the permit is redeemed with the input.
        """
        return self._ask(rows.BEGIN_GRAPH, ev.GraphRunStarted(graph_hash, None, labels, forked_from))

    def node_entered(self, node: str) -> Replayed[None] | Live[Emitted]:
        """Enter a graph node."""
        return self._ask(rows.NODE_ENTERED, ev.NodeEntered(node))

    def node_exited(self, node: str) -> Replayed[None] | Live[Emitted]:
        """Leave a graph node."""
        return self._ask(rows.NODE_EXITED, ev.NodeExited(node))

    def node_skipped(self, node: str, reason: str) -> Replayed[None] | Live[Emitted]:
        """Pass a graph node by; the reason must be the recorded one."""
        return self._ask(rows.NODE_SKIPPED, ev.NodeSkipped(node, reason))

    def branch_taken(self, node: str, case: str) -> Replayed[None] | Live[Emitted]:
        """Choose a case at a branch node."""
        return self._ask(rows.BRANCH_TAKEN, ev.BranchTaken(node, case))

    def map_fanned_out(self, node: str, items: Json) -> Replayed[None] | Live[Emitted]:
        """Start a map node's iterations; the items must be the recorded ones."""
        return self._ask(rows.MAP_FANNED_OUT, ev.MapFannedOut(node, items))

    def map_iteration_started(self, node: str, index: int, child_run: str) -> Replayed[None] | Live[Emitted]:
        """Start one iteration of a map node. The recorded child run wins over the one given."""
        return self._ask(rows.MAP_STARTED, ev.MapIterationStarted(node, index, child_run))

    def map_iteration_joined(self, node: str, index: int) -> Replayed[None] | Live[Emitted]:
        """Take one iteration of a map node back."""
        return self._ask(rows.MAP_JOINED, ev.MapIterationJoined(node, index))

    def fold_iteration_started(self, node: str, index: int) -> Replayed[None] | Live[Emitted]:
        """Start one pass of a fold node."""
        return self._ask(rows.FOLD_STARTED, ev.FoldIterationStarted(node, index))

    def fold_iteration_joined(self, node: str, index: int) -> Replayed[None] | Live[Emitted]:
        """Take one pass of a fold node back."""
        return self._ask(rows.FOLD_JOINED, ev.FoldIterationJoined(node, index))

    def fold_converged(self, node: str, winner_index: int, reason: str) -> Replayed[None] | Live[Emitted]:
        """End a fold node's passes, with the winner and why."""
        return self._ask(rows.FOLD_CONVERGED, ev.FoldConverged(node, winner_index, reason))

    def now(self) -> Replayed[Instant] | Live[NowPermit]:
        """Look at the clock: the recorded instant, or the permit to record a reading."""
        return self._ask(rows.NOW, ev.NowObserved(_NO_TIME))

    def random(self) -> Replayed[int] | Live[RandomPermit]:
        """Draw 64 random bits: the recorded ones, or the permit to record a draw."""
        return self._ask(rows.RANDOM, ev.RandomObserved(0))

    def model_call(
        self, request_hash: str, request_body: JsonOrMissing = MISSING
    ) -> Replayed[ModelReply] | Live[ModelCallPermit]:
        """Ask a model. The hash alone must be the recorded one.

        A recorded intent without completion at the log's end gives a permit whose ``intent`` is None:
        asking an unanswered model again is safe. ``request_body`` is kept with a fresh intent only.

        Raises
        ------
        MalformedLog
            The recorded intent is followed by something else than its completion.
        """
        return self._ask(rows.MODEL_CALL, ev.ModelCallRequested(self._next_seq, request_hash, request_body))

    def tool_call(
        self, tool: str, input: Json, effect: ev.Effect, idempotency_key: str | None = None
    ) -> Replayed[Json] | Live[ToolCallPermit]:
        """Run a tool. All four arguments must be the recorded ones.

        A recorded intent without completion at the log's end gives, for ``read`` and ``idempotent``, a
        permit whose ``intent`` is None and whose key is the recorded one.

        Raises
        ------
        NeedsReconciliation
            That intent is a ``write``: it may have landed, a person decides.
        MalformedLog
            The recorded intent is followed by something else than its completion.
        """
        return self._ask(rows.TOOL_CALL, self._tool_intent(tool, input, effect, idempotency_key))

    def suspend(self, reason: str, input_schema: Json) -> Replayed[None] | Live[Emitted]:
        """Park the run; follow with `await_resume`."""
        return self._ask(rows.SUSPEND, ev.Suspended(reason, input_schema))

    def await_resume(self) -> Replayed[Json] | Live[Parked]:
        """Wait for a parked run's answer: the recorded one, or the permit to record it."""
        return self._ask(rows.AWAIT_RESUME, ev.Resumed(None))

    def budget_exceeded(self, budget: ev.BudgetLimit, observed: float) -> Replayed[None] | Live[Emitted]:
        """Report a reached limit; follow with `await_resume`."""
        limit = ev.BudgetLimit(budget.kind, float(budget.limit))
        return self._ask(rows.BUDGET_EXCEEDED, ev.BudgetExceeded(limit, float(observed)))

    def complete_run(self, output: Json) -> Replayed[None] | Live[Emitted]:
        """End the run well; the output must be the recorded one. Every later request diverges."""
        return self._ask(rows.COMPLETE_RUN, ev.RunCompleted(output))

    def fail_run(self, error: str) -> Replayed[None] | Live[Emitted]:
        """End the run with an error; it must be the recorded one. Every later request diverges."""
        return self._ask(rows.FAIL_RUN, ev.RunFailed(error))

    def resume_unexecuted_tool_call(
        self, tool: str, input: Json, effect: ev.Effect, idempotency_key: str | None = None
    ) -> Live[ToolCallPermit]:
        """Run a recorded tool call that somebody knows was never executed.

        The claim is the caller's: the cursor only sees that the call has no completion. The permit has
        no intent, since it is recorded.

        Raises
        ------
        Divergence
            The log does not end, here, in a call without completion that equals this one in all four.
        """
        wanted = self._tool_intent(tool, input, effect, idempotency_key)
        self._ready("resume_unexecuted_tool_call", wanted)
        recorded = self.dangling_intent()
        name = "resume_unexecuted_tool_call"
        if not isinstance(recorded, ev.ToolCallRequested):
            raise self._divergence(name, wanted, "and it is answered")
        if not rows.TOOL_CALL.agrees(wanted, recorded):
            raise self._divergence(name, wanted)
        return Live(self._take_up(rows.TOOL_CALL, recorded))

    # How a request is answered

    def _tool_intent(
        self, tool: str, input: Json, effect: ev.Effect, key: str | None
    ) -> ev.ToolCallRequested:
        if effect not in ev.EFFECTS:
            raise ParameterError(f"effect is {effect!r}; expected one of {', '.join(ev.EFFECTS)}")
        return ev.ToolCallRequested(self._next_seq, tool, input, effect, key)

    def _ask(self, row: rows.Request[T, P], wanted: ev.Event) -> Replayed[T] | Live[P]:
        self._ready(row.name, wanted)
        if not self.is_replaying:
            return Live(self._live(row, wanted))
        record = self._log[self._at].event
        if not row.agrees(wanted, record):
            raise self._divergence(row.name, wanted)
        if isinstance(record, ev.Intent):
            return self._pair(row, record)
        self._consume(1)
        if row.event in ev.TERMINALS:
            self._ended = record
        return Replayed(row.returns(record))

    def _ready(self, name: str, wanted: ev.Event) -> None:
        if self._out is not None:
            raise PermitError(
                f"{name} was asked while the permit for {self._out.request} at seq {self._out.seq} is out; "
                "record its result, or give it back with cancel()"
            )
        if self._ended is not None:
            raise self._divergence(name, wanted)

    def _pair(self, row: rows.Request[T, P], intent: ev.Intent) -> Replayed[T] | Live[P]:
        position = self._log[self._at].seq
        if self._at + 1 == len(self._log):
            if isinstance(intent, ev.ToolCallRequested) and intent.effect == "write":
                raise NeedsReconciliation(
                    position, intent.tool, detached(intent.input), intent.idempotency_key
                )
            return Live(self._take_up(row, intent))
        following = self._log[self._at + 1]
        expected = ev.COMPLETION_OF[type(intent)]
        answer = following.event
        if type(answer) is not expected or cast(Any, answer).seq != intent.seq:
            answers = f" (it answers seq {answer.seq})" if isinstance(answer, ev.Completion) else ""
            raise MalformedLog(
                following.seq,
                f"found {answer.kind}{answers}, expected {expected.__name__} of the call at {intent.seq}",
            )
        self._consume(2)
        return Replayed(row.returns(answer))

    def _consume(self, events: int) -> None:
        self._at += events
        self._next_seq = self._log[self._at - 1].seq + 1

    def _take_up(self, row: rows.Request[Any, P], intent: ev.Intent) -> P:
        """The permit to answer a recorded intent at the log's end."""
        self._undo = (self._at, self._next_seq)
        self._consume(1)
        return self._issue(row, intent.seq, intent)

    def _live(self, row: rows.Request[Any, P], wanted: ev.Event) -> P:
        event = rows.own(wanted)
        self._undo = (self._at, self._next_seq)
        if row.permit is Emitted:
            return cast(P, self._emit(event))
        intent = self._emit(event) if isinstance(event, ev.Intent) else None
        return self._issue(row, self._next_seq if intent is None else intent.seq, event, intent)

    def _issue(
        self, row: rows.Request[Any, P], seq: int, template: ev.Event, intent: Emitted | None = None
    ) -> P:
        permit = cast(type[Permit], row.permit)(self, row.name, seq, template, intent)
        self._out = permit
        return cast(P, permit)

    def _emit(self, event: ev.Event) -> Emitted:
        emitted = Emitted(self._next_seq, event)
        self._next_seq += 1
        if isinstance(event, ev.TERMINALS):
            self._ended = event
        return emitted

    def _redeem(self, permit: Permit, event: ev.Event) -> Emitted:
        self._out = None
        return self._emit(event)

    def _let_go(self, permit: Permit, give_back: bool) -> None:
        self._out = None
        if give_back:
            self._at, self._next_seq = self._undo

    def _divergence(self, name: str, wanted: ev.Event, but: str = "") -> Divergence:
        asked = said(name, wanted, rows.COMPARED[type(wanted)])
        if self._ended is not None:
            end = said(self._ended.kind, self._ended, rows.COMPARED[type(self._ended)])
            return Divergence(self._next_seq, f"the run's end there ({end})", asked)
        if not self.is_replaying:
            return Divergence(self._next_seq, "nothing from there on", asked)
        record = self._log[self._at]
        compared = rows.COMPARED.get(type(record.event), ())
        recorded = said(record.event.kind, record.event, compared)
        if type(record.event) is type(wanted):
            place = differing(record.event, wanted, compared)
            asked += f"; {place}" if place else f"; {but}" if but else ""
        return Divergence(record.seq, recorded, asked)
