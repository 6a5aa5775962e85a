"""The 24 events of an event log and their envelope, as frozen values.

A run is an append-only list of envelopes and nothing else is state. The wire form lives in
``core.wire``. Keys that this version does not know are kept in ``extra`` (and an envelope's
``event_extra``), so that reading and writing a log loses nothing.

Two events are equal when they are the same kind with equal fields, JSON values compared by type
and value (``1`` is not ``1.0``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from afnb.core.instants import Instant
from afnb.core.jsonvalue import MISSING, Json, JsonOrMissing, equal

Effect = Literal["read", "idempotent", "write"]
Performer = Literal["server", "client"]
BudgetKind = Literal["tokens", "cost_usd", "wall_time", "steps"]

EFFECTS: tuple[Effect, ...] = ("read", "idempotent", "write")
PERFORMERS: tuple[Performer, ...] = ("server", "client")
BUDGET_KINDS: tuple[BudgetKind, ...] = ("tokens", "cost_usd", "wall_time", "steps")

SCHEMA_VERSION = 1
U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1

Labels = Mapping[str, str]
Extra = Mapping[str, Any]


class _Typed:
    """Equality field by field with typed JSON equality. Values that hold JSON cannot be hashed."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, _Typed | Instant):
        return bool(a == b)
    return equal(a, b)


@dataclass(frozen=True, slots=True, eq=False)
class _Open(_Typed):
    """A value that keeps the keys this version does not know."""

    extra: Extra = field(default_factory=dict, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class TokenUsage(_Open):
    """Token counts of one model call, each at most 2**32 - 1."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class BudgetLimit(_Open):
    """One limit of a run: which dimension, and the ceiling (tokens, US dollars, seconds or steps)."""

    kind: BudgetKind
    limit: float


@dataclass(frozen=True, slots=True, eq=False)
class ForkOrigin(_Open):
    """The log a graph run was forked from, and the writes its person acknowledged (seqs in the origin)."""

    run_id: str
    through_seq: int
    from_node: str
    graph_hash: str
    acknowledged_writes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CallOrigin(_Open):
    """The tool call, perhaps in another run, whose output a deduplicated call took over."""

    run_id: str
    seq: int


@dataclass(frozen=True, slots=True, eq=False)
class UnresolvedWrite(_Open):
    """The dangling write that an abandoned run leaves behind."""

    seq: int
    tool: str


@dataclass(frozen=True, slots=True, eq=False)
class Event(_Open):
    """Base of the 24 events; ``kind`` is the name on the wire."""

    @property
    def kind(self) -> str:
        """The event's name on the wire, which is its class's name."""
        return type(self).__name__


@dataclass(frozen=True, slots=True, eq=False)
class RunStarted(Event):
    """An agent run began: what it is, what it was given."""

    agent_def_hash: str
    input: Json
    labels: Labels | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GraphRunStarted(Event):
    """A graph run began; ``forked_from`` names the log it shares its prefix with."""

    graph_hash: str
    input: Json
    labels: Labels | None = None
    forked_from: ForkOrigin | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ModelCallRequested(Event):
    """A model is about to be asked. ``request_body`` is MISSING when only the hash was kept."""

    seq: int
    request_hash: str
    request_body: JsonOrMissing = MISSING


@dataclass(frozen=True, slots=True, eq=False)
class ModelCallCompleted(Event):
    """The model answered the request whose ``seq`` this names."""

    seq: int
    response: Json
    usage: TokenUsage


@dataclass(frozen=True, slots=True, eq=False)
class ToolCallRequested(Event):
    """A tool is about to run. A ``write`` left without completion may have landed."""

    seq: int
    tool: str
    input: Json
    effect: Effect
    idempotency_key: str | None = None
    performed_by: Performer | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ToolCallCompleted(Event):
    """The tool answered the call whose ``seq`` this names."""

    seq: int
    output: Json
    deduplicated_from: CallOrigin | None = None


@dataclass(frozen=True, slots=True, eq=False)
class NowObserved(Event):
    """The run looked at the clock."""

    now: Instant


@dataclass(frozen=True, slots=True, eq=False)
class RandomObserved(Event):
    """The run drew 64 random bits."""

    value: int


@dataclass(frozen=True, slots=True, eq=False)
class Suspended(Event):
    """The run parked until somebody answers; ``input_schema`` is a JSON Schema of the answer."""

    reason: str
    input_schema: Json


@dataclass(frozen=True, slots=True, eq=False)
class Resumed(Event):
    """A parked run was given its answer."""

    input: Json


@dataclass(frozen=True, slots=True, eq=False)
class BudgetExceeded(Event):
    """A declared limit was reached and the run parked; ``observed`` is in the limit's unit."""

    budget: BudgetLimit
    observed: float


@dataclass(frozen=True, slots=True, eq=False)
class RunCompleted(Event):
    """The run ended well with this output. Terminal."""

    output: Json


@dataclass(frozen=True, slots=True, eq=False)
class RunFailed(Event):
    """The run ended with an error. Terminal."""

    error: str


@dataclass(frozen=True, slots=True, eq=False)
class RunAbandoned(Event):
    """Somebody gave the run up; ``unresolved_write`` names a write that may have landed. Terminal."""

    reason: str | None = None
    unresolved_write: UnresolvedWrite | None = None


@dataclass(frozen=True, slots=True, eq=False)
class NodeEntered(Event):
    """A graph node began."""

    node: str


@dataclass(frozen=True, slots=True, eq=False)
class NodeExited(Event):
    """A graph node ended."""

    node: str


@dataclass(frozen=True, slots=True, eq=False)
class NodeSkipped(Event):
    """A graph node was reached and on purpose not run."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class BranchTaken(Event):
    """A branch node chose this case."""

    node: str
    case: str


@dataclass(frozen=True, slots=True, eq=False)
class MapFannedOut(Event):
    """A map node starts one iteration per item."""

    node: str
    items: Json


@dataclass(frozen=True, slots=True, eq=False)
class MapIterationStarted(Event):
    """One iteration of a map node began, as the run ``child_run``."""

    node: str
    index: int
    child_run: str


@dataclass(frozen=True, slots=True, eq=False)
class MapIterationJoined(Event):
    """One iteration of a map node came back."""

    node: str
    index: int


@dataclass(frozen=True, slots=True, eq=False)
class FoldIterationStarted(Event):
    """One pass of a fold node began."""

    node: str
    index: int


@dataclass(frozen=True, slots=True, eq=False)
class FoldIterationJoined(Event):
    """One pass of a fold node came back."""

    node: str
    index: int


@dataclass(frozen=True, slots=True, eq=False)
class FoldConverged(Event):
    """A fold node stopped, and which pass won."""

    node: str
    winner_index: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Envelope(_Open):
    """One line of a log: whose event it is, its position, when it was recorded, what happened.

    ``extra`` holds unknown keys beside ``run_id`` and ``seq``, ``event_extra`` those beside ``kind``
    and ``payload``.
    """

    run_id: str
    seq: int
    recorded_at: Instant
    event: Event
    schema_version: int = SCHEMA_VERSION
    event_extra: Extra = field(default_factory=dict, repr=False, kw_only=True)


RUN_HEADS: tuple[type[Event], ...] = (RunStarted, GraphRunStarted)
TERMINALS: tuple[type[Event], ...] = (RunCompleted, RunFailed, RunAbandoned)
Intent = ModelCallRequested | ToolCallRequested
Completion = ModelCallCompleted | ToolCallCompleted
COMPLETION_OF: Mapping[type[Event], type[Event]] = {
    ModelCallRequested: ModelCallCompleted,
    ToolCallRequested: ToolCallCompleted,
}
