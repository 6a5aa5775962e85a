"""What holds of every log: folds are total, a replay repeats it, the guard takes what a run writes."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from afnb.core import events as ev
from afnb.core.budgets import budget_extensions, budget_observations
from afnb.core.cursor import ReplayCursor
from afnb.core.eventlog import EventLog
from afnb.core.graph import derive_graph_projection
from afnb.core.permits import Emitted
from afnb.core.requests import REQUESTS
from afnb.core.shape import LogValidator, cursor_refusal, first_violation
from afnb.core.state import STATUSES, derive_state
from afnb.core.wire import parse_array, parse_envelope, write_envelope
from afnb.core.wirespec import EVENTS
from afnb.errors import Divergence, NeedsReconciliation, PermitError
from afnb.testing import logs

WITH_PERMIT = {row.name for row in REQUESTS if row.permit is not Emitted}
FEW = settings(max_examples=120, deadline=None)


@FEW
@given(logs.any_envelopes())
def test_an_envelope_survives_the_wire(envelope: ev.Envelope) -> None:
    line = write_envelope(envelope)
    assert "\n" not in line
    assert parse_envelope(line) == envelope
    assert parse_envelope(line.encode()) == envelope
    assert write_envelope(parse_envelope(line)) == line


@FEW
@given(logs.any_envelopes())
def test_the_canonical_form_is_a_fixed_point_and_drops_unknown_keys_only(envelope: ev.Envelope) -> None:
    line = write_envelope(envelope, canonical=True)
    again = parse_envelope(line)
    assert again.event == envelope.event
    assert (again.run_id, again.seq, again.recorded_at) == (
        envelope.run_id,
        envelope.seq,
        envelope.recorded_at,
    )
    assert again.extra == again.event_extra == {}
    assert write_envelope(again, canonical=True) == line


def test_every_event_kind_has_a_wire_form_and_a_strategy() -> None:
    assert len(EVENTS) == 24
    classes = {spec.cls for spec in EVENTS.values()}
    assert {c for c in vars(ev).values() if isinstance(c, type) and issubclass(c, ev.Event)} == classes | {
        ev.Event
    }
    requested = {row.event for row in REQUESTS}
    assert classes - requested == {ev.ModelCallCompleted, ev.ToolCallCompleted, ev.RunAbandoned}


@FEW
@given(logs.any_logs())
def test_every_prefix_of_any_log_folds(log: list[ev.Envelope]) -> None:
    for n in range(len(log) + 1):
        prefix = log[:n]
        state = derive_state(prefix)
        assert state.status in STATUSES
        assert state.next_seq == (prefix[-1].seq + 1 if prefix else 0)
        observed = budget_observations(prefix)
        assert observed.steps == sum(isinstance(e.event, ev.ModelCallCompleted) for e in prefix)
        assert budget_extensions(prefix).steps >= 0
        named = {e.event.node for e in prefix if hasattr(e.event, "node")}
        assert {node.node for node in derive_graph_projection(prefix).nodes} == named


@FEW
@given(logs.any_logs())
def test_what_the_guard_accepts_the_cursor_accepts(log: list[ev.Envelope]) -> None:
    found, refused = first_violation(log), cursor_refusal(log)
    event(f"guard {found.rule if found else 'accepts'}")
    if found is None:
        assert refused is None
    elif refused is not None:
        assert refused.index >= found.index
        assert refused.level == "cursor"
    guard = LogValidator()
    taken = 0
    for envelope in log:
        if guard.append(envelope) is not None:
            break
        taken += 1
    assert taken == guard.accepted == (len(log) if found is None else found.index)


@FEW
@given(logs.scripts())
def test_the_guard_accepts_what_a_run_writes(script: logs.Script) -> None:
    guard = LogValidator()
    log = logs.drive(ReplayCursor(), script, persist=lambda e: guard.append(e) and pytest.fail("refused"))
    assert guard.accepted == len(log)


@settings(max_examples=100, deadline=None)
@given(logs.scripts())
def test_replay_then_continue_from_every_boundary_gives_the_same_log(script: logs.Script) -> None:
    whole = logs.drive(ReplayCursor(), script)
    for n in range(len(whole) + 1):
        prefix = whole[:n]
        cursor = ReplayCursor(prefix)
        last = prefix[-1].event if prefix else None
        fresh: list[ev.Envelope] = []
        if isinstance(last, ev.ToolCallRequested) and last.effect == "write":
            with pytest.raises(NeedsReconciliation) as caught:
                logs.drive(cursor, script, persist=fresh.append)
            assert caught.value.position == last.seq
            assert fresh == []
            assert cursor.dangling_intent() == last
            continue
        logs.drive(cursor, script, persist=fresh.append)
        assert prefix + fresh == whole
        assert not cursor.is_replaying


@FEW
@given(logs.scripts(), st.data())
def test_a_wrong_request_moves_nothing(script: logs.Script, data: st.DataObject) -> None:
    whole = logs.drive(ReplayCursor(), script)
    cursor = ReplayCursor(whole)
    at = data.draw(st.integers(0, len(script) - 1))
    assert logs.drive(cursor, script[:at]) == []
    before = (cursor.next_seq, cursor.is_replaying, cursor.is_finished)
    with pytest.raises(Divergence) as caught:
        cursor.node_skipped("no such node", "no such reason")
    assert caught.value.position == before[0]
    assert caught.value.recorded != caught.value.requested
    assert (cursor.next_seq, cursor.is_replaying, cursor.is_finished) == before
    assert logs.drive(cursor, script[at:]) == []


@FEW
@given(logs.scripts())
def test_a_cancelled_permit_leaves_no_trace(script: logs.Script) -> None:
    cursor = ReplayCursor()
    log: list[ev.Envelope] = []
    for step in script:
        live = getattr(cursor, step.request)
        seq, ended = cursor.next_seq, cursor.is_finished
        if step.request in (
            "begin",
            "begin_graph",
            "now",
            "random",
            "model_call",
            "tool_call",
            "await_resume",
        ):
            with live(**step.args).permit as permit, pytest.raises(PermitError):
                cursor.now()
            assert permit.spent
            assert (cursor.next_seq, cursor.is_finished) == (seq, ended)
        log += logs.drive(cursor, [step])
    assert first_violation(log) is None
    assert log == logs.drive(ReplayCursor(), script)


@FEW
@given(logs.well_formed_logs())
def test_a_log_survives_lines_bytes_and_the_array_form(log: EventLog) -> None:
    assert log.violation() is None
    assert EventLog.from_wire(log.to_wire()) == log
    assert EventLog.from_bytes(log.to_bytes()) == log
    array = "[" + ",\n".join(log.to_wire()) + "]"
    assert EventLog.from_bytes(array.encode()) == log
    assert tuple(parse_array(array)) == log.envelopes
