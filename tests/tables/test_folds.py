"""The folds over a table say of every run what the folds of single logs say of its log."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core import events as ev
from afnb.core.budgets import budget_extensions, budget_observations
from afnb.core.eventlog import EventLog
from afnb.core.graph import derive_graph_projection
from afnb.core.instants import Instant
from afnb.core.jsonvalue import dumps, equal, loads
from afnb.core.state import STATUSES, derive_state
from afnb.core.wire import write_envelope
from afnb.tables.events import events_table
from afnb.tables.folds import run_states
from afnb.tables.nodes import iterations, node_progress
from afnb.testing import logs

from .helpers import read_vector

Vectors = Callable[[str], list[dict[str, Any]]]
FEW = settings(max_examples=150)


def by_run(log: Sequence[ev.Envelope]) -> dict[str, list[ev.Envelope]]:
    found: dict[str, list[ev.Envelope]] = {}
    for envelope in log:
        found.setdefault(envelope.run_id, []).append(envelope)
    return found


def state_row(log: Sequence[ev.Envelope]) -> dict[str, Any]:
    """A run's row as the folds of single logs give it."""
    state, seen, more = derive_state(log), budget_observations(log), budget_extensions(log)
    graph = derive_graph_projection(log)
    events = [e.event for e in log]

    def place(event: ev.Event | None) -> int | None:
        return None if event is None else max(i for i, e in enumerate(events) if e is event)

    call = state.pending_call
    fork = next((e.forked_from for e in reversed(events) if isinstance(e, ev.GraphRunStarted)), None)
    return {
        "run_id": log[0].run_id,
        "events": len(log),
        "status": state.status,
        "next_seq": state.next_seq if state.next_seq <= ev.U64_MAX else None,
        "input_tokens": state.usage.input_tokens,
        "output_tokens": state.usage.output_tokens,
        "model_calls": seen.steps,
        "elapsed_s": seen.elapsed_seconds,
        "pending_index": place(call),
        "pending_kind": None if call is None else call.kind,
        "pending_seq": None if call is None else call.seq,
        "pending_tool": getattr(call, "tool", None),
        "pending_effect": getattr(call, "effect", None),
        "cause_index": place(state.cause),
        "cause_kind": None if state.cause is None else state.cause.kind,
        "more_steps": more.steps,
        "more_tokens": more.tokens,
        "more_cost_usd": more.cost_usd,
        "more_wall_time_s": more.wall_time_seconds,
        "graph_hash": graph.graph_hash,
        "current_node": graph.current_node,
        "forked_from": None if fork is None else astuple(fork)[1:],
    }


def forked(text: str | None) -> tuple[Any, ...] | None:
    if text is None:
        return None
    found = loads(text)
    names = ("run_id", "through_seq", "from_node", "graph_hash", "acknowledged_writes")
    return (*(found[name] for name in names[:4]), tuple(found[names[4]]))


def check(log: Sequence[ev.Envelope], table: pa.Table | None = None) -> None:
    table = events_table(EventLog(None, tuple(log))) if table is None else table
    runs = by_run(log)
    states = run_states(table).to_pylist()
    assert [{**row, "forked_from": forked(row["forked_from"])} for row in states] == [
        state_row(one) for one in runs.values()
    ]
    nodes, loops = node_progress(table).to_pylist(), iterations(table).to_pylist()
    wanted_nodes, wanted_loops = [], []
    for run_id, one in runs.items():
        for order, node in enumerate(derive_graph_projection(one).nodes):
            ways = {"map": node.map, "fold": node.fold}
            row: dict[str, Any] = {
                "run_id": run_id,
                "node": node.node,
                "order": order,
                "state": node.state,
                "skip_reason": node.skip_reason,
                "branch_case": node.branch_case,
                "winner_index": node.fold.winner_index if node.fold else None,
                "converge_reason": node.fold.reason if node.fold else None,
            }
            for loop, way in ways.items():
                found = () if way is None else way.iterations
                row |= {
                    f"is_{loop}": way is not None,
                    f"{loop}_started": len(found),
                    f"{loop}_joined": sum(i.joined for i in found),
                }
                wanted_loops += [
                    {
                        "run_id": run_id,
                        "node": node.node,
                        "loop": loop,
                        "order": n,
                        "index": i.index,
                        "joined": i.joined,
                        "child_run": i.child_run,
                    }
                    for n, i in enumerate(found)
                ]
            wanted_nodes.append((row, node.map.items if node.map else None))
    assert len(nodes) == len(wanted_nodes)
    for mine, (row, items) in zip(nodes, wanted_nodes, strict=True):
        assert equal(None if (text := mine.pop("map_items")) is None else loads(text), items)
        assert mine == row
    assert loops == wanted_loops


@FEW
@given(logs.any_logs(max_size=20))
def test_any_log_folds_as_it_does_by_itself(log: list[ev.Envelope]) -> None:
    check(log)


@st.composite
def graph_logs(draw: st.DrawFn) -> list[ev.Envelope]:
    """Logs dense in markers of a few nodes, so that they meet."""
    kinds = (
        st.builds(ev.GraphRunStarted, logs.texts, st.none()),
        st.builds(ev.NodeEntered, logs.names),
        st.builds(ev.NodeExited, logs.names),
        st.builds(ev.NodeSkipped, logs.names, logs.texts),
        st.builds(ev.MapFannedOut, st.just("a"), logs.json_values(2)),
        st.builds(ev.MapIterationStarted, st.just("a"), st.integers(0, 1), logs.texts),
        st.builds(ev.MapIterationJoined, st.just("a"), st.integers(0, 1)),
        st.builds(ev.FoldIterationStarted, st.just("a"), st.integers(0, 1)),
        st.builds(ev.FoldIterationJoined, st.just("a"), st.integers(0, 1)),
        st.builds(ev.FoldConverged, st.just("a"), logs.u64s, logs.texts),
    )
    events = draw(st.lists(st.one_of(*kinds), max_size=14))
    return [ev.Envelope(draw(logs.run_ids), n, Instant(0), e) for n, e in enumerate(events)]


@FEW
@given(graph_logs())
def test_graphs_fold_alike(log: list[ev.Envelope]) -> None:
    check(log)


@st.composite
def budget_logs(draw: st.DrawFn) -> list[ev.Envelope]:
    """Logs of clock readings of any year, crossings and grants."""
    amounts = st.integers(-1, 2**64) | logs.finite | st.booleans() | st.none() | logs.texts
    keys = ("steps", "tokens", "cost_usd", "wall_time_seconds")
    grants = st.fixed_dictionaries({}, optional=dict.fromkeys(keys, amounts))
    kinds = (
        st.builds(ev.NowObserved, logs.instants),
        st.just(ev.BudgetExceeded(ev.BudgetLimit("steps", 1.0), 1.0)),
        st.builds(lambda grant: ev.Resumed({"extend": grant}), grants | logs.json_values(2)),
        st.builds(
            ev.ModelCallCompleted, st.just(0), st.none(), st.builds(ev.TokenUsage, logs.u32s, logs.u32s)
        ),
    )
    events = draw(st.lists(st.one_of(*kinds), max_size=12))
    return [ev.Envelope(draw(logs.run_ids), n, Instant(0), e) for n, e in enumerate(events)]


@FEW
@given(budget_logs())
def test_budgets_fold_alike(log: list[ev.Envelope]) -> None:
    check(log)


def test_the_vectors_fold_alike(vectors: Vectors) -> None:
    several = [log for v in vectors("validator") if (log := read_vector(v)) is not None]
    renamed = [
        ev.Envelope(f"00000000-0000-4000-8000-{n:012}", e.seq, e.recorded_at, e.event, e.schema_version)
        for n, log in enumerate(several)
        for e in log
    ]
    check(renamed)
    states = run_states(events_table(EventLog(None, tuple(renamed)))).to_pylist()
    assert {row["status"] for row in states} == set(STATUSES)


def test_clock_readings_beyond_arrow_times_are_exact() -> None:
    def run(*times: str) -> list[ev.Envelope]:
        return [
            ev.Envelope(logs.RUN_ID, n, Instant(0), ev.NowObserved(Instant.parse(t)))
            for n, t in enumerate(times)
        ]

    check(run("1677-09-21T00:00:00Z", "9999-12-31T23:59:59.999999999Z"))
    check(run("1700-01-01T00:00:00.1Z", "2262-01-01T00:00:00.000000001Z"))
    check(run("2262-01-01T00:00:00.000000001Z", "1700-01-01T00:00:00.1Z"))
    check(run("2026-06-30T23:59:60Z", "2026-07-01T02:00:00+02:00"))


@pytest.mark.parametrize("fold", [run_states, node_progress, iterations])
def test_no_events_give_no_rows(fold: Callable[[pa.Table], pa.Table]) -> None:
    assert fold(events_table([])).num_rows == 0


def test_a_field_is_found_where_other_readers_would_not_read_the_payload() -> None:
    line = write_envelope(ev.Envelope(logs.RUN_ID, 0, Instant(0), ev.NodeSkipped("n", "why")))
    payload = json.loads(line)["event"]["payload"]
    text = dumps(payload)[:-1] + ',"x":"\\ud800","x":1}'
    table = events_table(
        EventLog(None, (ev.Envelope(logs.RUN_ID, 0, Instant(0), ev.NodeSkipped("n", "why")),))
    )
    place = table.schema.get_field_index("payload")
    odd = table.set_column(place, "payload", pa.array([text], pa.large_string()))
    assert node_progress(odd).column("skip_reason").to_pylist() == ["why"]
