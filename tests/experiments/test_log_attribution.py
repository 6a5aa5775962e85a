"""diff, what_if and attribute over event logs."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core import events as ev
from afnb.core.cassette import Response
from afnb.core.eventlog import EventLog
from afnb.core.logsteps import call_seqs, run_from_log
from afnb.errors import AgentError, ParameterError, UpstreamError
from afnb.io.conversation import Conversation
from afnb.io.executors import Tool
from afnb.io.logged import LoggedAgent
from afnb.io.simulated import SimulatedUpstream

SENT: list[Any] = []


def policy_of(category: Any) -> dict[str, Any]:
    return {"category": category, "days": 30 if category == "electronics" else 7}


def refund(order: Any) -> dict[str, Any]:
    SENT.append(order)
    return {"order": order, "status": "paid"}


TOOLS = (Tool(policy_of, "read"), Tool(refund, "write"))


def agent(ctx: Any) -> str:
    """Notes the time, asks for a category, looks the policy up, asks for a decision, and acts on it."""
    stamp, dice = str(ctx.now()), ctx.random() % 2
    talk = [{"role": "user", "content": f"order 8841, {stamp}, {dice}"}]
    category = said(ctx.model_call({"model": "m", "messages": talk}))
    talk.append({"role": "assistant", "content": category})
    found = ctx.tool_call("policy_of", category.split()[-1])
    talk.append({"role": "user", "content": f"window: {found['days']} days"})
    decision = said(ctx.model_call({"model": "m", "messages": talk}))
    if decision.startswith("pay"):
        return f"refunded: {ctx.tool_call('refund', '8841')['status']}"
    return f"declined: {decision}"


def said(reply: Any) -> str:
    return str(reply.response["choices"][0]["message"]["content"])


def model(right: float = 0.5, noise: float = 0.02) -> Any:
    def play(talk: Conversation, rng: random.Random) -> str:
        if talk.turn == 0:
            if rng.random() < right:
                return "a headset is an electronic device, so its category is electronics"
            return "small extra, hence accessories"
        pay = ("window: 30" in talk.messages[-1].text) != (rng.random() < noise)
        return "pay it back" if pay else f"outside the window {rng.random():.3f}"

    return play


def logged(**options: Any) -> LoggedAgent:
    return LoggedAgent(agent, tools=TOOLS, definition="refund-1", **options)


def recorded(category: str) -> EventLog:
    """A run whose first answer named this category."""
    for seed in range(50):
        upstream = SimulatedUpstream(model(), seed=seed)
        run = logged(model=upstream).run(
            EventLog(None), input="8841", run_id=f"00000000-0000-4000-8000-{seed:012d}"
        )
        first = run_from_log(run.log).steps[0].outputs["text"]
        paid = str(run.output) == "refunded: paid"
        if category in first and paid == (category == "electronics"):
            return run.log
    raise AssertionError(category)


@pytest.fixture(scope="module")
def bad() -> EventLog:
    return recorded("accessories")


@pytest.fixture(scope="module")
def good() -> EventLog:
    return recorded("electronics")


def paid(run: afnb.Run) -> bool:
    return str(run.answer) == "refunded: paid"


def options(**changes: Any) -> dict[str, Any]:
    return {
        "agent": logged(),
        "upstream": SimulatedUpstream(model()),
        "oracle": paid,
        "allow_tools": ["refund"],
        "progress": False,
        **changes,
    }


def test_steps_are_the_calls_in_log_order(bad: EventLog) -> None:
    run = run_from_log(bad)
    assert [(s.kind, s.name) for s in run.steps] == [("llm", "llm"), ("tool", "policy_of"), ("llm", "llm")]
    assert [s.seq for s in run.steps] == [seq for seq, _ in call_seqs(bad)]
    assert run.steps[1].outputs == {"category": "accessories", "days": 7}
    assert str(run.answer).startswith("declined")


def test_diff_takes_event_logs(bad: EventLog, good: EventLog) -> None:
    d = afnb.diff(bad, good)
    assert d.comparable
    assert d.fork is not None
    assert d.fork_step_observed == 0


def test_the_planted_step_is_verified(bad: EventLog, good: EventLog) -> None:
    a = afnb.attribute(bad, good, **options())
    assert (a.verdict, a.label, a.origination) == ("recovered", "verified", (0,)), a.to_text()
    assert all(check.ok for check in a.fidelity)
    for e in a.experiments_run:
        for result in e.results:
            assert result.report.served >= 1
            assert isinstance(result.recording, EventLog)
            assert result.recording.id != bad.id


def test_the_prefix_serves_recorded_clocks_and_random_bits(bad: EventLog) -> None:
    e = afnb.what_if(bad, afnb.Edit(0, "certainly electronics"), **options())
    assert (e.verdict, e.label) == ("recovered", "verified"), e.to_text()
    recorded_ones = [
        x.event for x in bad.envelopes if isinstance(x.event, ev.NowObserved | ev.RandomObserved)
    ]
    for result in e.results:
        assert isinstance(result.recording, EventLog)
        again = [x.event for x in result.recording if isinstance(x.event, ev.NowObserved | ev.RandomObserved)]
        assert again == recorded_ones
        head = result.recording.envelopes[0].event
        assert isinstance(head, ev.RunStarted)
        assert head.extra["forked_from"]["run_id"] == bad.id


def test_a_patched_completion_keeps_its_usage_and_shape(bad: EventLog) -> None:
    e = afnb.what_if(bad, afnb.Edit(0, "certainly electronics"), **options())
    patched = next(r for r in e.results if r.role == "patch").recording
    assert isinstance(patched, EventLog)
    old = next(x.event for x in bad if isinstance(x.event, ev.ModelCallCompleted))
    new = next(x.event for x in patched if isinstance(x.event, ev.ModelCallCompleted))
    assert new.usage == old.usage
    assert said(new) == "certainly electronics"
    assert {**new.response, "choices": None} == {**old.response, "choices": None}


def test_a_live_write_is_refused_unless_allowed_by_name(bad: EventLog) -> None:
    SENT.clear()
    e = afnb.what_if(
        bad,
        afnb.Edit(0, "certainly electronics"),
        **options(allow_tools=[], upstream=SimulatedUpstream(model(noise=0.0))),
    )
    assert SENT == []
    assert (e.verdict, e.label) == ("unverified", "Unverified")
    assert {(r.reason, r.lost) for r in e.results if r.role == "patch"} == {("write_refused", "after")}
    assert "refund" in (next(r.detail for r in e.results if r.role == "patch") or "")


def test_a_changed_agent_diverges_before_the_branch_and_spends_nothing(bad: EventLog) -> None:
    def other(ctx: Any) -> str:
        ctx.now()
        return said(ctx.model_call({"model": "m", "messages": []}))

    changed = LoggedAgent(other, tools=TOOLS, definition="refund-1")
    e = afnb.what_if(bad, afnb.Edit(0, "certainly electronics"), **options(agent=changed))
    assert e.label == "Unverified"
    assert "divergence at seq" in e.reason
    assert "self-check failed" in e.reason
    assert e.live_calls_spent == 0


def test_a_replay_that_leaves_the_recorded_prefix_is_lost_with_both_sides(bad: EventLog) -> None:
    runs: list[int] = []

    def fickle(ctx: Any) -> str:
        """As the recorded agent does it, but for every third run: that looks at the clock twice."""
        runs.append(1)
        if len(runs) % 3 == 0:
            ctx.now()
            ctx.now()
        return agent(ctx)

    changing = LoggedAgent(fickle, tools=TOOLS, definition="refund-1")
    e = afnb.what_if(bad, afnb.Edit(1, {"category": "accessories", "days": 30}), **options(agent=changing))
    lost = [r for r in e.results if r.reason == "prefix_diverged"]
    assert lost
    for result in lost:
        assert (result.recovery, result.lost) == ("inconclusive", "before")
        assert "RandomObserved" in (result.detail or "")  # what was recorded there
        assert "now" in (result.detail or "").lower()  # what was asked for instead
        assert result.report.live == 0


def test_many_pairs_of_logs_are_attributed_in_one_go(bad: EventLog, good: EventLog, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_bytes(bad.to_bytes())
    (tmp_path / "good.jsonl").write_bytes(good.to_bytes())
    pairs = [(bad, good), (str(tmp_path / "bad.jsonl"), str(tmp_path / "good.jsonl")), ("none.jsonl", good)]
    batch = afnb.attribute_many(pairs, **options())
    rows = batch.rows()
    assert [row["state"] for row in rows] == ["repair", "repair", "error"]
    assert {row["verdict"] for row in rows[:2]} == {"recovered"}
    assert "none.jsonl" in str(rows[2])


def test_resample_asks_the_call_again(bad: EventLog) -> None:
    e = afnb.what_if(
        bad, afnb.Resample(0), **options(upstream=SimulatedUpstream(model(right=1.0, noise=0.0)))
    )
    assert (e.verdict, e.label) == ("recovered", "verified"), e.to_text()
    assert {r.report.live for r in e.results if r.role == "patch"} == {2}
    assert {r.report.live for r in e.results if r.role == "control"} == {1}


def test_a_tool_output_can_be_edited(bad: EventLog) -> None:
    e = afnb.what_if(bad, afnb.Edit(1, {"category": "accessories", "days": 30}), **options())
    assert (e.verdict, e.label) == ("recovered", "verified"), e.to_text()


def test_later_interventions_act_by_position(bad: EventLog) -> None:
    changes = [afnb.Edit(0, "still accessories"), afnb.Edit(2, "pay it back")]
    e = afnb.what_if(bad, changes, **options())
    assert (e.verdict, e.label) == ("recovered", "verified"), e.to_text()
    assert {r.report.patches_applied for r in e.results if r.role == "patch"} == {(0, 2)}


def test_a_step_that_changes_nothing_is_not_recovered(bad: EventLog) -> None:
    e = afnb.what_if(bad, afnb.Edit(2, "outside the window, sorry"), **options())
    assert (e.verdict, e.label) == ("not_recovered", "verified")


@pytest.mark.parametrize("n_jobs", [4, 8])
def test_any_number_of_workers_gives_the_same_verdict(bad: EventLog, n_jobs: int) -> None:
    def rows(e: afnb.Experiment) -> list[tuple[Any, ...]]:
        return [(r["arm"], r["index"], r["recovery"], r["seed"]) for r in e.replay_rows() if r["used"]]

    one = afnb.what_if(bad, afnb.Edit(0, "certainly electronics"), **options(n_jobs=1, seed=5))
    many = afnb.what_if(bad, afnb.Edit(0, "certainly electronics"), **options(n_jobs=n_jobs, seed=5))
    assert (one.verdict, rows(one)) == (many.verdict, rows(many))


def test_kinds_do_not_mix(bad: EventLog) -> None:
    with pytest.raises(ParameterError, match="LoggedAgent"):
        afnb.what_if(bad, afnb.Edit(0, "x"), **options(agent=lambda ctx: "x"))
    with pytest.raises(ParameterError, match="event logs"):
        afnb.what_if(afnb.Cassette("c"), afnb.Edit(0, "x"), **options())
    with pytest.raises(ParameterError, match="one kind"):
        afnb.attribute(bad, afnb.Cassette("c"), **options())
    with pytest.raises(ParameterError, match="live"):
        afnb.what_if(bad, afnb.Edit(0, "x"), **options(tail="tape"))


def test_a_log_without_calls_is_said(bad: EventLog) -> None:
    empty = replace(bad, envelopes=bad.envelopes[:1])
    with pytest.raises((AgentError, ParameterError), match=r"step|call"):
        afnb.what_if(empty, afnb.Edit(0, "x"), **options())


def test_a_budget_of_none_spends_none(bad: EventLog) -> None:
    e = afnb.what_if(bad, afnb.Edit(0, "electronics"), **options(budget=afnb.Budget(live_calls=0)))
    assert e.live_calls_spent == 0
    assert e.label == "Unverified"


@pytest.mark.parametrize("status", [200, 429, 503])
def test_a_provider_that_fails_an_agent_that_copes_gives_no_verdict(bad: EventLog, status: int) -> None:
    """What the agent would have said with an answer is not known, however politely it ends."""

    def patient(ctx: Any) -> str:
        try:
            return agent(ctx)
        except (UpstreamError, KeyError):
            return "sorry, come again"

    e = afnb.what_if(
        bad,
        afnb.Edit(0, "it is electronics"),
        **options(
            agent=LoggedAgent(patient, tools=TOOLS, definition="refund-1"),
            upstream=lambda request: Response(status, (("content-type", "application/json"),), b"{}"),
        ),
    )
    assert (e.verdict, e.label) == ("unverified", "Unverified")
    assert {(r.reason, r.lost) for r in e.results} == {("provider_error", "after")}
