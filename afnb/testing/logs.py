"""Hypothesis strategies for event logs, and a small agent that drives a cursor by a script.

``any_logs`` are logs of any shape, most of them malformed; ``scripts`` are what a run does, step by
step, and ``drive`` does it, so that ``well_formed_logs`` are exactly what a run can write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from afnb.core import events as ev
from afnb.core.cursor import ReplayCursor
from afnb.core.eventlog import EventLog
from afnb.core.instants import Instant
from afnb.core.jsonvalue import MISSING, Json
from afnb.core.permits import Emitted, Live, Parked

RUN_ID = "00000000-0000-4000-8000-000000000001"
OTHER_RUN_ID = "00000000-0000-4000-8000-000000000002"
_DAY_NS = 86_400 * 10**9

texts: SearchStrategy[str] = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
"""Short text without lone surrogates."""
names: SearchStrategy[str] = st.sampled_from(("a", "b", "search", "refund", "é"))
"""Names of tools and nodes, few enough to meet again."""
u64s: SearchStrategy[int] = st.integers(0, ev.U64_MAX) | st.sampled_from((0, 1, 2**53 + 1, ev.U64_MAX))
u32s: SearchStrategy[int] = st.integers(0, ev.U32_MAX)
finite: SearchStrategy[float] = st.floats(allow_nan=False, allow_infinity=False)
run_ids: SearchStrategy[str] = st.sampled_from((RUN_ID, OTHER_RUN_ID))
instants: SearchStrategy[Instant] = st.builds(
    Instant,
    st.integers(-719_000 * _DAY_NS, 2_932_000 * _DAY_NS),
    st.integers(-1439, 1439).map(lambda minutes: minutes * 60),
)
"""Instants of the years 1 to 9997 with any offset, to the nanosecond."""


def json_values(max_leaves: int = 6) -> SearchStrategy[Json]:
    """Any JSON value: exact integers beyond 64 bits, -0.0, text of any character."""
    scalars = st.none() | st.booleans() | st.integers() | st.integers(-(10**40), 10**40) | finite | texts
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=max_leaves,
    )


_VALUES = json_values()
_BODIES = json_values(3).filter(lambda body: body is not None)  # null reads as no body
_LABELS = st.none() | st.dictionaries(texts, texts, max_size=2)
_USAGE = st.builds(ev.TokenUsage, u32s, u32s)
_LIMITS = st.builds(ev.BudgetLimit, st.sampled_from(ev.BUDGET_KINDS), finite)
_EFFECTS = st.sampled_from(ev.EFFECTS)
_KEYS = st.none() | texts
_SMALL = st.integers(0, 3)

_EVENTS: tuple[SearchStrategy[ev.Event], ...] = (
    st.builds(ev.RunStarted, texts, _VALUES, _LABELS),
    st.builds(
        ev.GraphRunStarted,
        texts,
        _VALUES,
        _LABELS,
        st.none()
        | st.builds(ev.ForkOrigin, run_ids, u64s, texts, texts, st.lists(u64s, max_size=2).map(tuple)),
    ),
    st.builds(ev.ModelCallRequested, _SMALL, texts, st.just(MISSING) | _BODIES),
    st.builds(ev.ModelCallCompleted, _SMALL, _VALUES, _USAGE),
    st.builds(
        ev.ToolCallRequested,
        _SMALL,
        names,
        _VALUES,
        _EFFECTS,
        _KEYS,
        st.none() | st.sampled_from(ev.PERFORMERS),
    ),
    st.builds(ev.ToolCallCompleted, _SMALL, _VALUES, st.none() | st.builds(ev.CallOrigin, run_ids, u64s)),
    st.builds(ev.NowObserved, instants),
    st.builds(ev.RandomObserved, u64s),
    st.builds(ev.Suspended, texts, _VALUES),
    st.builds(ev.Resumed, _VALUES | st.fixed_dictionaries({"extend": _VALUES})),
    st.builds(ev.BudgetExceeded, _LIMITS, finite),
    st.builds(ev.RunCompleted, _VALUES),
    st.builds(ev.RunFailed, texts),
    st.builds(ev.RunAbandoned, st.none() | texts, st.none() | st.builds(ev.UnresolvedWrite, _SMALL, names)),
    st.builds(ev.NodeEntered, names),
    st.builds(ev.NodeExited, names),
    st.builds(ev.NodeSkipped, names, texts),
    st.builds(ev.BranchTaken, names, texts),
    st.builds(ev.MapFannedOut, names, _VALUES),
    st.builds(ev.MapIterationStarted, names, _SMALL, texts),
    st.builds(ev.MapIterationJoined, names, _SMALL),
    st.builds(ev.FoldIterationStarted, names, _SMALL),
    st.builds(ev.FoldIterationJoined, names, _SMALL),
    st.builds(ev.FoldConverged, names, _SMALL, texts),
)


def any_events() -> SearchStrategy[ev.Event]:
    """Any of the 24 events."""
    return st.one_of(*_EVENTS)


@st.composite
def any_envelopes(draw: st.DrawFn) -> ev.Envelope:
    """One envelope: any event at any seq, with unknown keys now and then."""
    keys = st.dictionaries(texts.map(lambda t: "x-" + t), json_values(2), max_size=1)
    return ev.Envelope(
        draw(run_ids),
        draw(u64s),
        draw(instants),
        draw(any_events()),
        draw(st.sampled_from((1, 1, 1, 0, 2))),
        extra=draw(keys),
        event_extra=draw(keys),
    )


@st.composite
def any_logs(draw: st.DrawFn, max_size: int = 8) -> list[ev.Envelope]:
    """A log of any shape: seqs mostly count up, run ids mostly agree, nothing else is promised."""
    log: list[ev.Envelope] = []
    seq = draw(st.sampled_from((0, 0, 0, 0, 3)))
    for event in draw(st.lists(any_events(), max_size=max_size)):
        run_id = draw(st.sampled_from((RUN_ID,) * 9 + (OTHER_RUN_ID,)))
        version = draw(st.sampled_from((1,) * 9 + (2,)))
        log.append(ev.Envelope(run_id, seq, Instant(seq), event, version))
        seq += draw(st.sampled_from((1,) * 9 + (0, 2)))
    return log


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a run does: the cursor's method, its arguments, and what a live permit is given."""

    request: str
    args: Mapping[str, Any]
    result: Any = None


Script = tuple[Step, ...]


_NO_RESULT: SearchStrategy[Any] = st.none()


def _step(request: str, result: SearchStrategy[Any] = _NO_RESULT, **args: Any) -> SearchStrategy[Step]:
    return st.builds(Step, st.just(request), st.fixed_dictionaries(args), result)


_HEADS = _step("begin", _VALUES, agent_def_hash=texts, labels=_LABELS) | _step(
    "begin_graph", _VALUES, graph_hash=texts, labels=_LABELS
)
_MIDDLES: tuple[SearchStrategy[Step], ...] = (
    _step("now", instants),
    _step("random", u64s),
    _step("model_call", st.tuples(_VALUES, _USAGE), request_hash=texts, request_body=_BODIES),
    _step("tool_call", _VALUES, tool=names, input=_VALUES, effect=_EFFECTS, idempotency_key=_KEYS),
    _step("suspend", reason=texts, input_schema=_VALUES),
    _step("await_resume", _VALUES),
    _step("budget_exceeded", budget=_LIMITS, observed=finite),
    _step("node_entered", node=names),
    _step("node_exited", node=names),
    _step("node_skipped", node=names, reason=texts),
    _step("branch_taken", node=names, case=texts),
    _step("map_fanned_out", node=names, items=_VALUES),
    _step("map_iteration_started", node=names, index=_SMALL, child_run=texts),
    _step("map_iteration_joined", node=names, index=_SMALL),
    _step("fold_iteration_started", node=names, index=_SMALL),
    _step("fold_iteration_joined", node=names, index=_SMALL),
    _step("fold_converged", node=names, winner_index=_SMALL, reason=texts),
)
_CALLS = _MIDDLES[2:4]  # calls are what runs are made of
_ENDS = _step("complete_run", output=_VALUES) | _step("fail_run", error=texts)


@st.composite
def scripts(draw: st.DrawFn, max_size: int = 8) -> Script:
    """What a run does: it begins, takes steps of any kind, and may end."""
    middle = draw(st.lists(st.one_of(*_MIDDLES, *_CALLS, *_CALLS), max_size=max_size))
    end = draw(st.lists(_ENDS, max_size=1))
    return (draw(_HEADS), *middle, *end)


def drive(
    cursor: ReplayCursor,
    script: Iterable[Step],
    *,
    run_id: str = RUN_ID,
    clock: Callable[[int], Instant] = Instant,
    persist: Callable[[ev.Envelope], object] | None = None,
) -> list[ev.Envelope]:
    """Make a script's requests in order and give the fresh events, recorded at ``clock(seq)``.

    Whatever the cursor raises comes through; ``persist`` was called with every event before it.

    Examples
    --------
    >>> script = [Step("begin", {"agent_def_hash": "h"}, "hi"), Step("random", {}, 7)]
    >>> log = drive(ReplayCursor(), script)
    >>> [e.event.kind for e in log], drive(ReplayCursor(log), script)
    (['RunStarted', 'RandomObserved'], [])
    """
    fresh: list[ev.Envelope] = []

    def keep(emitted: Emitted) -> None:
        envelope = emitted.envelope(run_id, clock(emitted.seq))
        fresh.append(envelope)
        if persist is not None:
            persist(envelope)

    for step in script:
        outcome = getattr(cursor, step.request)(**step.args)
        if not isinstance(outcome, Live):
            continue
        permit = outcome.permit
        if isinstance(permit, Emitted):
            keep(permit)
            continue
        if permit.intent is not None:
            keep(permit.intent)
        if isinstance(permit, Parked):
            keep(permit.resume(step.result))
        elif step.request == "model_call":
            keep(permit.record(*step.result))
        else:
            keep(permit.record(step.result))
    return fresh


def well_formed_logs(max_size: int = 8) -> SearchStrategy[EventLog]:
    """Logs that a run can write, dangling calls at their end included."""
    whole = scripts(max_size).map(lambda script: EventLog.from_envelopes(drive(ReplayCursor(), script)))
    return whole.flatmap(lambda log: st.integers(1, len(log)).map(log.prefix))
