"""The cursor beyond the reference's vectors: permits, both sides of a divergence, isolation."""

from __future__ import annotations

from typing import Any

import pytest

from afnb.core import events as ev
from afnb.core.cursor import ReplayCursor
from afnb.core.instants import Instant
from afnb.core.permits import Emitted, Live, Replayed
from afnb.core.requests import REQUESTS
from afnb.errors import Divergence, MalformedLog, NeedsReconciliation, ParameterError, PermitError
from afnb.testing import logs

USAGE = ev.TokenUsage(1, 2)
BEGIN = logs.Step("begin", {"agent_def_hash": "h"}, {"order": 7})


def started(*script: logs.Step) -> tuple[ReplayCursor, list[ev.Envelope]]:
    """A cursor that has begun, live, after the given steps; and the log so far."""
    cursor = ReplayCursor()
    return cursor, logs.drive(cursor, (BEGIN, *script))


def dangling(effect: ev.Effect, key: str | None = None) -> ReplayCursor:
    """A cursor that has begun, at a recorded tool call without completion."""
    log = [
        ev.Envelope(logs.RUN_ID, 0, Instant(0), ev.RunStarted("h", None)),
        ev.Envelope(logs.RUN_ID, 1, Instant(0), ev.ToolCallRequested(1, "pay", {"n": 1}, effect, key)),
    ]
    cursor = ReplayCursor(log)
    cursor.begin("h")
    return cursor


def test_the_table_of_requests_is_the_cursors_methods() -> None:
    assert len(REQUESTS) == 21
    for row in REQUESTS:
        assert callable(getattr(ReplayCursor, row.name))
        for field in row.compared:
            assert field in row.event.__dataclass_fields__


def test_a_permit_counts_once() -> None:
    cursor, _ = started()
    live = cursor.random()
    assert isinstance(live, Live)
    assert live.permit.record(5) == Emitted(1, ev.RandomObserved(5))
    for again in (lambda: live.permit.record(6), live.permit.cancel, live.permit.drop):
        with pytest.raises(PermitError, match="random at seq 1 was already redeemed"):
            again()
    assert cursor.next_seq == 2


def test_only_one_permit_is_out_at_a_time() -> None:
    cursor, _ = started()
    live = cursor.model_call("m")
    assert isinstance(live, Live)
    for ask in (cursor.now, cursor.random, lambda: cursor.model_call("m"), lambda: cursor.complete_run(1)):
        with pytest.raises(PermitError, match=r"model_call at seq 1 is out; .*cancel"):
            ask()
    assert (cursor.next_seq, cursor.is_finished) == (2, False)
    live.permit.record("hi", USAGE)
    assert isinstance(cursor.now(), Live)


def test_cancel_gives_a_reserved_position_back_and_drop_does_not() -> None:
    cursor, _ = started()
    with pytest.raises(RuntimeError, match="network"), cursor.model_call("m").permit as permit:  # type: ignore[union-attr]
        raise RuntimeError("network")
    assert permit.spent
    assert cursor.next_seq == 1
    live = cursor.tool_call("t", 1, "read")
    assert isinstance(live, Live)
    assert live.permit.seq == 1
    live.permit.drop()
    assert cursor.next_seq == 2
    assert "dropped" in repr(live.permit)


def test_a_cancelled_permit_for_a_recorded_intent_can_be_asked_for_again() -> None:
    cursor = dangling("idempotent", "k")
    for _ in range(2):
        live = cursor.tool_call("pay", {"n": 1}, "idempotent", "k")
        assert isinstance(live, Live)
        assert (live.permit.intent, live.permit.idempotency_key, live.permit.effect) == (
            None,
            "k",
            "idempotent",
        )
        live.permit.cancel()
        assert cursor.dangling_intent() is not None
    live = cursor.tool_call("pay", {"n": 1}, "idempotent", "k")
    assert isinstance(live, Live)
    assert live.permit.record("paid") == Emitted(2, ev.ToolCallCompleted(1, "paid"))


def test_a_dangling_write_is_for_a_person_and_says_what_it_was() -> None:
    cursor = dangling("write", "k")
    for _ in range(3):
        with pytest.raises(NeedsReconciliation) as caught:
            cursor.tool_call("pay", {"n": 1}, "write", "k")
        error = caught.value
        assert (error.position, error.tool, error.input) == (1, "pay", {"n": 1})
        assert error.idempotency_key == "k"
    live = cursor.resume_unexecuted_tool_call("pay", {"n": 1}, "write", "k")
    assert live.permit.intent is None
    assert live.permit.record("paid").event == ev.ToolCallCompleted(1, "paid")
    with pytest.raises(Divergence, match="nothing from there on"):
        cursor.resume_unexecuted_tool_call("pay", {"n": 1}, "write", "k")


@pytest.mark.parametrize(
    "change", [{"tool": "x"}, {"input": {"n": 1.0}}, {"effect": "read"}, {"idempotency_key": "k"}]
)
def test_resuming_an_unexecuted_call_needs_all_four_to_agree(change: dict[str, Any]) -> None:
    cursor = dangling("write")
    call = {"tool": "pay", "input": {"n": 1}, "effect": "write", "idempotency_key": None}
    with pytest.raises(Divergence) as caught:
        cursor.resume_unexecuted_tool_call(**{**call, **change})
    assert caught.value.position == 1
    assert isinstance(cursor.resume_unexecuted_tool_call(**call), Live)


def test_resuming_an_unexecuted_call_that_was_answered_or_after_the_end_diverges() -> None:
    call = logs.Step("tool_call", {"tool": "t", "input": 1, "effect": "write"}, "out")
    _, log = started(call, logs.Step("complete_run", {"output": 1}))
    cursor = ReplayCursor(log)
    cursor.begin("h")
    with pytest.raises(Divergence, match="and it is answered"):
        cursor.resume_unexecuted_tool_call("t", 1, "write")
    logs.drive(cursor, (call, logs.Step("complete_run", {"output": 1})))
    with pytest.raises(Divergence, match="the run's end"):
        cursor.resume_unexecuted_tool_call("t", 1, "write")
    with pytest.raises(Divergence, match="nothing from there on"):
        ReplayCursor().resume_unexecuted_tool_call("t", 1, "write")


def test_a_divergence_shows_both_sides_and_where_they_part() -> None:
    step = logs.Step("tool_call", {"tool": "pay", "input": {"a": [1, {"n": 1}]}, "effect": "read"}, 0)
    cursor = ReplayCursor(started(step)[1])
    cursor.begin("h")
    with pytest.raises(Divergence) as caught:
        cursor.tool_call("pay", {"a": [1, {"n": 1.0}]}, "read")
    message = str(caught.value)
    assert message.startswith('divergence at seq 1: the log records ToolCallRequested tool="pay", ')
    assert 'the run asked for tool_call tool="pay"' in message
    assert "the log has 1 at input.a[1].n, the request 1.0" in message
    with pytest.raises(Divergence, match=r"ToolCallRequested .* the run asked for random$"):
        cursor.random()
    with pytest.raises(Divergence, match=r"asked for budget_exceeded budget=steps 2\.0, observed=3\.0"):
        cursor.budget_exceeded(ev.BudgetLimit("steps", 2), 3)


def test_long_values_are_clipped_but_the_difference_is_shown() -> None:
    text = "x" * 10_000
    cursor = ReplayCursor(started(logs.Step("suspend", {"reason": text + "a", "input_schema": text}))[1])
    cursor.begin("h")
    with pytest.raises(Divergence) as caught:
        cursor.suspend(text + "b", text)
    assert len(str(caught.value)) < 700
    assert "at reason" in caught.value.requested


def test_a_request_of_any_depth_or_type_is_a_divergence_not_a_crash() -> None:
    cursor = ReplayCursor(started(logs.Step("complete_run", {"output": 1}))[1])
    cursor.begin("h")
    deep: Any = 1
    for _ in range(4_000):
        deep = [deep]
    for output in (deep, {1, 2}, object()):
        with pytest.raises(Divergence, match="the log has 1 at output"):
            cursor.complete_run(output)
    assert cursor.complete_run(1) == Replayed(None)


def test_whole_numbers_given_for_a_budget_are_the_floats_the_wire_holds() -> None:
    step = logs.Step("budget_exceeded", {"budget": ev.BudgetLimit("steps", 2), "observed": 2})
    _, log = started(step)
    assert log[1].event == ev.BudgetExceeded(ev.BudgetLimit("steps", 2.0), 2.0)
    replay = ReplayCursor(log)
    replay.begin("h")
    assert replay.budget_exceeded(ev.BudgetLimit("steps", 2), 2) == Replayed(None)


def test_what_the_agent_does_with_a_value_does_not_reach_the_log() -> None:
    given = {"a": [1]}
    cursor = ReplayCursor()
    begin = cursor.begin("h")
    assert isinstance(begin, Live)
    head = begin.permit.record(given)
    given["a"].append(2)
    assert head.event == ev.RunStarted("h", {"a": [1]})
    log = [head.envelope(logs.RUN_ID, Instant(0))]
    value = ReplayCursor(log).begin("h")
    assert isinstance(value, Replayed)
    value.value["a"].append(3)
    assert log[0].event == ev.RunStarted("h", {"a": [1]})
    schema = {"type": "object"}
    parked = cursor.suspend("r", schema)
    assert isinstance(parked, Live)
    schema["type"] = "array"
    assert parked.permit.event == ev.Suspended("r", {"type": "object"})


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (lambda c: c.random().permit.record(2**64), "2\\*\\*64 - 1"),
        (lambda c: c.random().permit.record(1.0), "2\\*\\*64 - 1"),
        (lambda c: c.random().permit.record(True), "2\\*\\*64 - 1"),
        (lambda c: c.now().permit.record("2026-07-09T12:00:00Z"), "an Instant"),
        (lambda c: c.model_call("m").permit.record({1, 2}, USAGE), "a set"),
        (lambda c: c.tool_call("t", 1, "read").permit.record(float("nan")), "nan"),
        (lambda c: c.tool_call("t", object(), "read"), "a object"),
        (lambda c: c.tool_call("t", 1, "Write"), "one of read, idempotent, write"),
        (lambda c: c.complete_run({"a": {1: 2}}), "keys are text"),
    ],
)
def test_what_no_log_can_hold_is_refused_before_it_is_recorded(record: Any, why: str) -> None:
    cursor, _ = started()
    with pytest.raises(ParameterError, match=why):
        record(cursor)
    assert not cursor.is_finished


def test_a_refused_request_reserves_nothing() -> None:
    cursor, _ = started()
    with pytest.raises(ParameterError):
        cursor.tool_call("t", object(), "read")
    assert cursor.next_seq == 1
    assert isinstance(cursor.now(), Live)


def test_a_log_the_cursor_cannot_follow_is_malformed() -> None:
    head = ev.Envelope(logs.RUN_ID, 0, Instant(0), ev.RunStarted("h", None))
    gap = ev.Envelope(logs.RUN_ID, 2, Instant(0), ev.NodeEntered("n"))
    with pytest.raises(MalformedLog, match="seq 2 after seq 0, expected 1") as caught:
        ReplayCursor([head, gap])
    assert caught.value.position == 2
    pair = [
        head,
        ev.Envelope(logs.RUN_ID, 1, Instant(0), ev.ModelCallRequested(1, "m")),
        ev.Envelope(logs.RUN_ID, 2, Instant(0), ev.ModelCallCompleted(9, "x", USAGE)),
    ]
    cursor = ReplayCursor(pair)
    cursor.begin("h")
    for _ in range(2):
        with pytest.raises(MalformedLog, match=r"it answers seq 9\), expected ModelCallCompleted") as caught:
            cursor.model_call("m")
        assert caught.value.position == 2
    assert cursor.next_seq == 1


def test_upcoming_is_the_record_that_the_next_request_must_fit() -> None:
    cursor, log = started(logs.Step("random", {}, 7))
    assert cursor.upcoming is None
    replay = ReplayCursor(log)
    assert replay.upcoming == log[0].event
    replay.begin("h")
    assert replay.upcoming == ev.RandomObserved(7)
