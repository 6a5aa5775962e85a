"""The card of an event log says where the run stands and what it did."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from afnb.core import events as ev
from afnb.core.eventlog import EventLog
from afnb.core.instants import Instant
from afnb.core.run import Warn
from afnb.testing import logs

RUN = logs.RUN_ID


def log(*events: ev.Event) -> EventLog:
    return EventLog.from_envelopes(
        (ev.Envelope(RUN, seq, Instant(seq * 1_500_000_000), event) for seq, event in enumerate(events)),
        "runs/a.jsonl",
    )


HEAD = ev.RunStarted("h", {"order": 7})
LIMIT = ev.BudgetLimit("steps", 3.0)


@pytest.mark.parametrize(
    ("events", "badge", "said"),
    [
        ((), "not started", "The run has not started."),
        ((HEAD,), "running", "The log ends while the run is under way."),
        ((HEAD, ev.ModelCallRequested(1, "r")), "awaiting model", "a model call that was not answered"),
        (
            (HEAD, ev.ToolCallRequested(1, "find", 1, "read")),
            "awaiting tool",
            "a tool call that was not answered",
        ),
        (
            (HEAD, ev.ToolCallRequested(1, "pay", 1, "write")),
            "needs reconciliation",
            "The write pay at seq 1",
        ),
        ((HEAD, ev.Suspended("approve?", None)), "suspended", 'waits for an answer: "approve?"'),
        (
            (HEAD, ev.BudgetExceeded(LIMIT, 3.0)),
            "budget exceeded",
            "waits at its limit, steps 3.0 (observed 3.0)",
        ),
        ((HEAD, ev.RunCompleted({"a": 1})), "completed", 'completed with {"a":1}'),
        ((HEAD, ev.RunFailed("no money")), "failed", 'failed: "no money"'),
        ((HEAD, ev.RunAbandoned("stale")), "abandoned", 'given up: "stale"'),
    ],
)
def test_the_status_is_said_in_a_sentence(events: tuple[ev.Event, ...], badge: str, said: str) -> None:
    page = log(*events).page()
    assert page.badge is not None
    assert page.badge.text == badge
    assert said in log(*events).to_text()


def test_calls_tokens_events_and_nodes_are_shown() -> None:
    shown = log(
        ev.GraphRunStarted("g", {"order": 7}),
        ev.NodeEntered("route"),
        ev.BranchTaken("route", "refund"),
        ev.ModelCallRequested(3, "r"),
        ev.ModelCallCompleted(3, "<b>Refund & close</b>", ev.TokenUsage(1200, 34)),
        ev.ToolCallRequested(5, "pay", {"eur": 5}, "write", "k"),
        ev.ToolCallCompleted(5, {"ok": True}),
        ev.NodeSkipped("audit", "small"),
        ev.MapFannedOut("each", [1, 2]),
        ev.MapIterationStarted("each", 0, "child"),
        ev.FoldConverged("best", 1, "tie"),
    )
    text = shown.to_text(200)
    for words in (
        "1 answered, 1,200 tokens in, 34 out",
        "tool calls   pay",
        "7.500 s",
        '"pay" "write" {"eur":5}',
        "took refund",
        "skipped: small",
        "map: 0 of 1 iterations back",
        "converged on 1",
        "runs/a.jsonl",
    ):
        assert words in text
    assert "<b>Refund" not in shown._repr_html_()
    assert "malformed" not in text


def test_what_is_wrong_with_the_log_is_shown() -> None:
    broken = log(HEAD, ev.ToolCallCompleted(1, None))
    noted = EventLog(
        broken.id, broken.envelopes, broken.source, (Warn("unfinished_tail", "1 line left out"),), (1, 4)
    )
    text = noted.to_text(200)
    assert "event 1 (line 4): ToolCallCompleted answers seq 1, but no call awaits an answer here" in text
    assert "1 line left out" in text


def test_a_long_log_shows_its_beginning_and_says_how_long_it_is() -> None:
    long = log(HEAD, *(ev.NodeEntered(f"n{i}") for i in range(3000)))
    assert len(long._repr_html_()) < 100_000
    assert "3,001" in long.to_text()


@settings(max_examples=60)
@given(logs.any_logs())
def test_any_log_has_a_card(events: list[ev.Envelope]) -> None:
    shown = EventLog.from_envelopes(events)
    assert shown.to_text()
    assert shown._repr_html_()
