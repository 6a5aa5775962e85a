"""Branching a log: what a branch may see, what it replaces, which writes it may make again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core import events as ev
from afnb.core.branch import branch_log, writes_after
from afnb.core.cursor import ReplayCursor
from afnb.core.eventlog import EventLog
from afnb.core.permits import Live, ModelReply, Replayed
from afnb.errors import ParameterError
from afnb.testing import logs

RUN, OTHER = logs.RUN_ID, logs.OTHER_RUN_ID
THIRD = "00000000-0000-4000-8000-000000000003"
USAGE = ev.TokenUsage(3, 4)


def model(name: str, reply: Any) -> logs.Step:
    return logs.Step("model_call", {"request_hash": name}, (reply, USAGE))


def tool(name: str, effect: str, output: Any) -> logs.Step:
    return logs.Step("tool_call", {"tool": name, "input": 1, "effect": effect}, output)


SCRIPT = (
    logs.Step("begin", {"agent_def_hash": "h", "labels": {"case": "7"}}, "in"),  # 0
    model("plan", "look it up"),  # 1, 2
    tool("search", "read", ["a"]),  # 3, 4
    tool("send_email", "write", "sent"),  # 5, 6
    model("plan", "look it up"),  # 7, 8
    tool("pay", "write", "paid"),  # 9, 10
    logs.Step("complete_run", {"output": "ok"}),  # 11
)
ORIGIN = EventLog.from_envelopes(logs.drive(ReplayCursor(), SCRIPT))


def branch(through: int, **options: Any) -> EventLog:
    return branch_log(ORIGIN, through, **{"run_id": OTHER, "acknowledge_writes": "all", **options})


def test_a_branch_is_the_prefix_under_its_own_id_and_says_where_it_comes_from() -> None:
    log = branch(4)
    assert log.id == OTHER
    assert {e.run_id for e in log} == {OTHER}
    assert [(e.seq, e.recorded_at) for e in log] == [(e.seq, e.recorded_at) for e in ORIGIN][:5]
    assert [e.event for e in log][1:] == [e.event for e in ORIGIN][1:5]
    head = log.envelopes[0].event
    assert isinstance(head, ev.RunStarted)
    assert (head.agent_def_hash, head.input, head.labels) == ("h", "in", {"case": "7"})
    assert head.extra == {"forked_from": {"run_id": RUN, "through_seq": 4, "acknowledged_writes": [5, 9]}}
    assert log.violation() is None
    assert EventLog.from_bytes(log.to_bytes()) == log
    assert EventLog.from_envelopes(logs.drive(ReplayCursor(), SCRIPT)) == ORIGIN


def test_a_patched_answer_stands_in_place_of_the_recorded_one_and_its_usage_stays() -> None:
    reply = {"text": "refund", "n": 2**70}
    log = branch(2, value=reply)
    cursor = ReplayCursor(log)
    assert cursor.begin("h") == Replayed("in")
    assert cursor.model_call("plan") == Replayed(ModelReply(reply, USAGE))
    reply["text"] = "changed later"
    assert ReplayCursor(log).run_id == OTHER
    assert log.envelopes[2].event == ev.ModelCallCompleted(1, {"text": "refund", "n": 2**70}, USAGE)
    tool_branch = branch(4, value=None)
    assert tool_branch.envelopes[4].event == ev.ToolCallCompleted(3, None)


def test_nothing_recorded_after_the_point_is_served_even_if_the_request_is_the_same() -> None:
    cursor = ReplayCursor(branch(6))
    logs.drive(cursor, SCRIPT[:4])
    # The origin records this very request once more after the branch point.
    again = cursor.model_call("plan")
    assert isinstance(again, Live)
    assert again.permit.seq == 7
    assert again.permit.intent is not None


def test_a_branch_of_a_branch_names_its_parent_and_keeps_what_was_asked_for() -> None:
    first = branch(6, value="not sent")
    fresh = logs.drive(ReplayCursor(first), (*SCRIPT[:4], *SCRIPT[4:]), run_id=OTHER)
    grown = EventLog.from_envelopes((*first.envelopes, *fresh))
    assert grown.violation() is None
    second = branch_log(grown, 8, run_id=THIRD, value="other plan", acknowledge_writes=[9])
    assert [e.event for e in second][1:8] == [e.event for e in grown][1:8]
    assert second.envelopes[6].event == ev.ToolCallCompleted(5, "not sent")
    assert second.envelopes[0].event.extra["forked_from"] == {
        "run_id": OTHER,
        "through_seq": 8,
        "acknowledged_writes": [9],
    }
    cursor = ReplayCursor(second)
    assert logs.drive(cursor, SCRIPT[:5]) == []
    assert isinstance(cursor.tool_call("pay", 1, "write"), Live)


def test_writes_that_may_be_made_again_are_named_and_must_be_acknowledged() -> None:
    assert [w.tool for w in writes_after(ORIGIN, 4)] == ["send_email", "pay"]
    assert writes_after(ORIGIN, 9) == ()
    with pytest.raises(ParameterError, match=r"send_email \(seq 5\), pay \(seq 9\)"):
        branch(4, acknowledge_writes=())
    with pytest.raises(ParameterError, match=r"again: pay \(seq 9\);"):
        branch(4, acknowledge_writes=[5])
    with pytest.raises(ParameterError, match="seq 3 is acknowledged as a write"):
        branch(4, acknowledge_writes=[3, 5, 9])
    assert len(branch(4, acknowledge_writes=[9, 5])) == 5
    assert len(branch(10, acknowledge_writes=())) == 11


def test_a_graph_run_records_the_branch_in_its_head() -> None:
    script = (
        logs.Step("begin_graph", {"graph_hash": "g"}, None),
        logs.Step("node_entered", {"node": "route"}),
        model("m", 1),
        logs.Step("node_exited", {"node": "route"}),
    )
    log = EventLog.from_envelopes(logs.drive(ReplayCursor(), script))
    head = branch_log(log, 3, run_id=OTHER, value=2).envelopes[0].event
    assert isinstance(head, ev.GraphRunStarted)
    assert head.forked_from == ev.ForkOrigin(RUN, 3, "route", "g", ())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"through_seq": -1}, "no event at seq -1"),
        ({"through_seq": 12}, "the log holds seqs 0 to 11"),
        ({"run_id": RUN.upper()}, "its origin's run id"),
        ({"run_id": "branch-1"}, "no UUID"),
        ({"through_seq": 3, "value": 1}, "seq 3 is ToolCallRequested"),
        ({"through_seq": 2, "value": float("nan")}, "not JSON"),
    ],
)
def test_what_no_branch_can_be_is_refused(options: dict[str, Any], why: str) -> None:
    arguments = {"through_seq": 4, "run_id": OTHER, "acknowledge_writes": "all", **options}
    with pytest.raises(ParameterError, match=why):
        branch_log(ORIGIN, **arguments)
    with pytest.raises(ParameterError, match="no events"):
        branch_log(EventLog(None), 0, run_id=OTHER)


@settings(max_examples=80, deadline=None)
@given(logs.well_formed_logs(), st.data())
def test_a_branch_replays_its_prefix_whatever_the_log(log: EventLog, data: st.DataObject) -> None:
    through = data.draw(st.integers(0, len(log) - 1))
    made = branch_log(log, through, run_id=OTHER, acknowledge_writes="all")
    assert made.violation() is None
    assert len(made) == through + 1
    assert made.state.status == log.prefix(through + 1).state.status
    assert ReplayCursor(made).is_replaying
