"""The requests a run can make of its cursor, one row each: the event, what must agree, what comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

from afnb.core import events as ev
from afnb.core.instants import Instant
from afnb.core.jsonvalue import MISSING, equal
from afnb.core.permits import (
    BeginPermit,
    Emitted,
    GraphBeginPermit,
    ModelCallPermit,
    ModelReply,
    NowPermit,
    Parked,
    RandomPermit,
    ToolCallPermit,
    detached,
)

T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Request(Generic[T, P]):
    """One request as data.

    Parameters
    ----------
    name
        The cursor's method.
    event
        The event that records the step; for a call, its intent.
    compared
        The fields in which request and record must agree; everything else the record decides.
    returns
        What the record (a call: its completion) gives back.
    permit
        What is handed out live; `Emitted` where the event is complete as it stands.
    """

    name: str
    event: type[ev.Event]
    compared: tuple[str, ...]
    returns: Callable[[Any], T]
    permit: type[P]

    def agrees(self, wanted: ev.Event, record: ev.Event) -> bool:
        """Whether the record is this request's, in every compared field."""
        if type(record) is not self.event:
            return False
        return all(_same(getattr(record, f), getattr(wanted, f)) for f in self.compared)


def _nothing(record: ev.Event) -> None:
    return None


def _marker(name: str, event: type[ev.Event], *compared: str) -> Request[None, Emitted]:
    return Request(name, event, compared, _nothing, Emitted)


BEGIN = Request("begin", ev.RunStarted, ("agent_def_hash",), lambda e: detached(e.input), BeginPermit)
BEGIN_GRAPH = Request(
    "begin_graph", ev.GraphRunStarted, ("graph_hash",), lambda e: detached(e.input), GraphBeginPermit
)
NOW: Request[Instant, NowPermit] = Request("now", ev.NowObserved, (), lambda e: e.now, NowPermit)
RANDOM: Request[int, RandomPermit] = Request("random", ev.RandomObserved, (), lambda e: e.value, RandomPermit)
MODEL_CALL = Request(
    "model_call",
    ev.ModelCallRequested,
    ("request_hash",),
    lambda e: ModelReply(detached(e.response), e.usage),
    ModelCallPermit,
)
TOOL_CALL = Request(
    "tool_call",
    ev.ToolCallRequested,
    ("tool", "input", "effect", "idempotency_key"),
    lambda e: detached(e.output),
    ToolCallPermit,
)
AWAIT_RESUME = Request("await_resume", ev.Resumed, (), lambda e: detached(e.input), Parked)
SUSPEND = _marker("suspend", ev.Suspended, "reason", "input_schema")
BUDGET_EXCEEDED = _marker("budget_exceeded", ev.BudgetExceeded, "budget", "observed")
COMPLETE_RUN = _marker("complete_run", ev.RunCompleted, "output")
FAIL_RUN = _marker("fail_run", ev.RunFailed, "error")
NODE_ENTERED = _marker("node_entered", ev.NodeEntered, "node")
NODE_EXITED = _marker("node_exited", ev.NodeExited, "node")
NODE_SKIPPED = _marker("node_skipped", ev.NodeSkipped, "node", "reason")
BRANCH_TAKEN = _marker("branch_taken", ev.BranchTaken, "node", "case")
MAP_FANNED_OUT = _marker("map_fanned_out", ev.MapFannedOut, "node", "items")
MAP_STARTED = _marker("map_iteration_started", ev.MapIterationStarted, "node", "index")
MAP_JOINED = _marker("map_iteration_joined", ev.MapIterationJoined, "node", "index")
FOLD_STARTED = _marker("fold_iteration_started", ev.FoldIterationStarted, "node", "index")
FOLD_JOINED = _marker("fold_iteration_joined", ev.FoldIterationJoined, "node", "index")
FOLD_CONVERGED = _marker("fold_converged", ev.FoldConverged, "node", "winner_index", "reason")

REQUESTS: tuple[Request[Any, Any], ...] = (
    BEGIN,
    BEGIN_GRAPH,
    NODE_ENTERED,
    NODE_EXITED,
    NODE_SKIPPED,
    BRANCH_TAKEN,
    MAP_FANNED_OUT,
    MAP_STARTED,
    MAP_JOINED,
    FOLD_STARTED,
    FOLD_JOINED,
    FOLD_CONVERGED,
    NOW,
    RANDOM,
    MODEL_CALL,
    TOOL_CALL,
    SUSPEND,
    AWAIT_RESUME,
    BUDGET_EXCEEDED,
    COMPLETE_RUN,
    FAIL_RUN,
)
COMPARED = {row.event: row.compared for row in REQUESTS}


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, ev.BudgetLimit) and isinstance(b, ev.BudgetLimit):
        return a.kind == b.kind and a.limit == b.limit
    return equal(a, b)


_IMMUTABLE = (str, int, type(None), Instant, ev.BudgetLimit, ev.ForkOrigin)


def own(event: ev.Event) -> ev.Event:
    """The event with copies of the JSON values the caller gave, which it may go on changing."""
    given = {}
    for f in fields(event):
        value = getattr(event, f.name)
        if value is not MISSING and not isinstance(value, _IMMUTABLE):
            given[f.name] = detached(value)
    return replace(event, **given) if given else event
