"""Agents on the event log: nothing recorded happens twice, nothing happens that is not recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core import events as ev
from afnb.core.branch import branch_log
from afnb.core.budgets import Pricing, RunBudgets
from afnb.core.cassette import Request, Response
from afnb.core.eventlog import EventLog
from afnb.core.instants import Instant
from afnb.core.jsonvalue import Json
from afnb.core.permits import ModelReply
from afnb.errors import (
    Divergence,
    MalformedLog,
    NeedsReconciliation,
    ParameterError,
    PermitError,
    UpstreamError,
    WriteRefused,
)
from afnb.io.context import AgentContext
from afnb.io.executors import Tool, model_request, request_hash
from afnb.io.logged import AgentRun, LoggedAgent
from afnb.testing import logs

EMPTY = EventLog(None)
RUN = logs.RUN_ID


class Calls(list[str]):
    """What was really called, in order."""

    def model(self, request: Request) -> Any:
        self.append("model")
        return {"text": f"answer {len(self)}", "usage": {"input_tokens": 3, "output_tokens": 4}}

    def tool(self, name: str, effect: ev.Effect, output: Json = "out") -> Tool:
        def run(value: Json) -> Json:
            self.append(name)
            return output

        return Tool(run, effect, name=name)

    def agent(self, function: Callable[[AgentContext], Json], **options: Any) -> LoggedAgent:
        tools = (self.tool("look", "read"), self.tool("hold", "idempotent"), self.tool("pay", "write"))
        return LoggedAgent(function, **{"model": self.model, "tools": tools, "definition": "v1", **options})


def go(agent: LoggedAgent, log: EventLog = EMPTY, **options: Any) -> AgentRun:
    options = {"clock": lambda: Instant(5), "bits": lambda: 2**64 - 1, **options}
    if not len(log):
        options = {"run_id": RUN, **options}
    return agent.run(log, **options)


def kinds(log: EventLog) -> list[str]:
    return [e.event.kind for e in log]


def everything(ctx: AgentContext) -> Json:
    start = ctx.now()
    with ctx.node("a"):
        bits = ctx.random()
        ctx.branch_taken("a", "yes")
    ctx.node_skipped("b", "no need")
    reply = ctx.model_call({"ask": ctx.input})
    held = ctx.tool_call("hold", reply.response)
    seen = ctx.tool_call("look", held, effect="read")
    paid = ctx.tool_call("pay", {"n": 1})
    return [str(start), bits, ctx.uniform(), seen, paid]


def test_a_run_is_written_ahead_and_its_repetition_calls_nothing() -> None:
    calls = Calls()
    run = go(calls.agent(everything), input={"order": 7}, labels={"case": "7"})
    assert run.status == "completed"
    assert run.output == ["1970-01-01T00:00:00.000000005Z", 2**64 - 1, 1 - 2**-53, "out", "out"]
    assert calls == ["model", "hold", "look", "pay"]
    assert run.log.violation() is None
    head, *_, last = run.log
    assert head.event == ev.RunStarted("v1", {"order": 7}, {"case": "7"})
    assert last.event == ev.RunCompleted(run.output)
    hold = run.log.envelopes[9].event
    assert isinstance(hold, ev.ToolCallRequested)
    assert hold.idempotency_key == f"{RUN}:9"
    again = go(calls.agent(everything), run.log)
    assert (again.status, again.output, again.live, again.log) == ("completed", run.output, 0, run.log)
    assert len(calls) == 4
    assert repr(again) == f"<AgentRun {RUN}: completed, 17 replayed, 0 new>"


def test_a_run_goes_on_from_every_boundary_to_the_same_log() -> None:
    calls = Calls()
    whole = go(calls.agent(everything), input=1).log
    for n in range(len(whole) + 1):
        made = Calls()
        # What was completed before must not be called again; the answers number the calls, so it would show.
        made.extend("x" for e in whole.prefix(n) if isinstance(e.event, ev.Completion))
        done = len(made)
        agent = made.agent(everything)
        if whole.prefix(n).state.status == "needs_reconciliation":
            with pytest.raises(NeedsReconciliation):
                go(agent, whole.prefix(n))
            assert len(made) == done
            run = go(agent, whole.prefix(n), not_executed=n - 1)
        else:
            run = go(agent, whole.prefix(n), **({} if n else {"input": 1}))
        assert run.log == whole
        assert made[done:] == calls[done:]


_OPS = st.lists(
    st.tuples(
        st.sampled_from(("now", "random", "model", "look", "hold", "pay", "suspend")), logs.json_values(3)
    ),
    max_size=7,
)


@settings(max_examples=60, deadline=None)
@given(_OPS, logs.json_values(3))
def test_the_guard_accepts_whatever_an_agent_does(ops: list[tuple[str, Json]], output: Json) -> None:
    def body(ctx: AgentContext) -> Json:
        for op, value in ops:
            if op in ("now", "random"):
                getattr(ctx, op)()
            elif op == "model":
                ctx.model_call({"value": value})
            elif op == "suspend":
                ctx.suspend("wait", value)
            else:
                ctx.tool_call(op, value)
        return output

    calls = Calls()
    run = go(calls.agent(body))
    while run.status == "parked":
        run = go(calls.agent(body), run.log, answer={"go": "on"})
    assert run.log.violation() is None
    assert EventLog.from_bytes(run.log.to_bytes()) == run.log
    assert len(calls) == sum(op not in ("now", "random", "suspend") for op, _ in ops)
    assert go(calls.agent(body), run.log).live == 0


# Calls that do not come back


def test_a_model_that_fails_leaves_its_call_open_and_the_same_call_closes_it() -> None:
    answers = [
        UpstreamError("down"),
        Response(503, (), b"{}"),
        Response(200, (), b"{}", incomplete=True),
        {"ok": 1},
    ]

    def body(ctx: AgentContext) -> Json:
        for _ in range(3):
            with pytest.raises(UpstreamError):
                ctx.model_call({"ask": 1})
            with pytest.raises(PermitError, match="model_call at seq 1 has no answer yet"):
                ctx.now()
            with pytest.raises(PermitError, match="make the same call again"):
                ctx.model_call({"ask": 1.0})
        return ctx.model_call({"ask": 1}).response

    run = go(LoggedAgent(body, model=answers, definition="v1"))
    assert run.output == {"ok": 1}
    assert kinds(run.log) == ["RunStarted", "ModelCallRequested", "ModelCallCompleted", "RunCompleted"]


def test_a_run_that_ends_in_an_open_call_is_not_failed_and_goes_on() -> None:
    log: list[ev.Envelope] = []

    def body(ctx: AgentContext) -> Json:
        return ctx.model_call({"ask": 1}).response

    with pytest.raises(UpstreamError, match="status 429"):
        go(LoggedAgent(body, model=lambda r: (429, {"error": "slow"}), definition="v1"), on_event=log.append)
    left = EventLog.from_envelopes(log)
    assert kinds(left) == ["RunStarted", "ModelCallRequested"]
    calls = Calls()
    run = go(calls.agent(body), left)
    assert (run.status, run.replayed, run.live) == ("completed", 2, 2)
    swallow = calls.agent(lambda ctx: [try_(lambda: ctx.model_call(1)), "done"][1], model=lambda r: (500, {}))
    with pytest.raises(PermitError, match="has no answer yet"):
        go(swallow)


def try_(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return error


@pytest.mark.parametrize(("effect", "again"), [("read", True), ("idempotent", True), ("write", False)])
def test_a_tool_that_raises_leaves_its_call_open(effect: ev.Effect, again: bool) -> None:
    made: list[Json] = []

    def flaky(value: Json, idempotency_key: str | None = None) -> Json:
        made.append(idempotency_key)
        if len(made) == 1:
            raise OSError("connection reset")
        return "done"

    tool = Tool(flaky, effect)

    def body(ctx: AgentContext) -> Json:
        return ctx.tool_call("flaky", 1)

    log: list[ev.Envelope] = []
    agent = LoggedAgent(body, tools=[tool], definition="v1")
    with pytest.raises(OSError, match="reset"):
        go(agent, on_event=log.append)
    left = EventLog.from_envelopes(log)
    assert kinds(left) == ["RunStarted", "ToolCallRequested"]
    if again:
        assert go(agent, left).output == "done"
        assert made == [f"{RUN}:1" if effect == "idempotent" else None] * 2
    else:
        with pytest.raises(NeedsReconciliation):
            go(agent, left)
        assert len(made) == 1

    def insists(ctx: AgentContext) -> Json:
        try_(lambda: ctx.tool_call("flaky", 1))
        return ctx.tool_call("flaky", 1)

    made.clear()
    insisting = LoggedAgent(insists, tools=[tool], definition="v1")
    if again:
        assert go(insisting).output == "done"
    else:
        with pytest.raises(NeedsReconciliation):
            go(insisting)
        assert len(made) == 1


@pytest.mark.parametrize("bad", [{1, 2}, float("nan"), object(), {1: 2}])
def test_a_tool_that_gives_what_no_log_holds_is_named(bad: Any) -> None:
    def body(ctx: AgentContext) -> Json:
        return ctx.tool_call("odd", 1)

    agent = LoggedAgent(body, tools=[Tool(lambda value: bad, "read", name="odd")], definition="v1")
    with pytest.raises(ParameterError, match="the output of odd cannot be recorded"):
        go(agent)


def test_a_request_no_log_holds_is_refused_before_anything_is_recorded() -> None:
    def body(ctx: AgentContext) -> Json:
        deep: Json = 1
        for _ in range(200):
            deep = [deep]
        deeper = deep
        for _ in range(4_000):
            deeper = [deeper]
        for call in (
            lambda: ctx.tool_call("look", {1}),
            lambda: ctx.tool_call("look", deep),
            lambda: ctx.tool_call("nothing", 1),
            lambda: ctx.tool_call("look", 1, effect="write"),
            lambda: ctx.model_call({"a": float("inf")}),
            lambda: ctx.model_call({"a": deep}),
            lambda: ctx.model_call(deeper),
            lambda: ctx.suspend("r", {2}),
        ):
            with pytest.raises(ParameterError):
                call()
        return "fine"

    calls = Calls()
    run = go(calls.agent(body))
    assert kinds(run.log) == ["RunStarted", "RunCompleted"]
    assert calls == []


def test_half_surrogate_pairs_are_replaced_counted_and_the_same_again() -> None:
    seen: list[Json] = []

    def body(ctx: AgentContext) -> Json:
        seen.append(ctx.tool_call("odd", "in \udcb2"))
        seen.append(ctx.model_call({"m": "bad \udcb2 end"}).response)
        return seen[-1]

    agent = LoggedAgent(
        body,
        model=lambda request: {"text": "half \ud800"},
        tools=[Tool(lambda value: {"k\udfff": "\ud83d\ude00 \ud83d"}, "read", name="odd")],
        definition="v1",
    )
    run = go(agent)
    assert seen == [{"k\ufffd": "😀 \ufffd"}, {"text": "half \ufffd"}]
    assert sum(w.code == "lone_surrogates" for w in run.warnings) == 4
    assert EventLog.from_bytes(run.log.to_bytes()) == run.log
    assert go(agent, run.log).live == 0
    assert seen[2:] == seen[:2]


# Divergence, failure, refusal


def test_an_agent_that_asks_for_something_else_diverges_even_if_it_looks_away() -> None:
    calls = Calls()
    log = go(calls.agent(everything), input=1).log

    def other(ctx: AgentContext) -> Json:
        ctx.now()
        seen = try_(lambda: ctx.tool_call("look", 2))
        assert isinstance(seen, Divergence)
        assert try_(ctx.random) is seen
        return "as if nothing had happened"

    with pytest.raises(Divergence) as caught:
        go(calls.agent(other), log)
    assert caught.value.position == 2
    assert caught.value.recorded == 'NodeEntered node="a"'
    assert caught.value.requested.startswith('tool_call tool="look"')
    with pytest.raises(Divergence, match="agent_def_hash"):
        go(calls.agent(everything, definition="v2"), log)
    assert len(calls) == 4


def test_an_agents_own_error_is_the_runs_failure_and_its_text_may_change() -> None:
    addresses = iter(("0x7f01", "0x7f02"))

    def body(ctx: AgentContext) -> Json:
        ctx.random()
        raise ValueError(f"no order in <Basket at {next(addresses)}>, took 0.31 s")

    agent = LoggedAgent(body, definition="v1")
    run = go(agent)
    assert run.status == "failed"
    assert isinstance(run.exception, ValueError)
    assert run.error == "ValueError: no order in <Basket at 0x7f01>, took 0.31 s"
    assert run.log.state.status == "failed"
    again = go(agent, run.log)
    assert (again.status, again.error, again.live) == ("failed", run.error, 0)
    assert [w.code for w in again.warnings] == ["other_error_text"]

    def other(ctx: AgentContext) -> Json:
        ctx.random()
        raise KeyError("no order")

    with pytest.raises(Divergence, match='fail_run error="KeyError'):
        go(LoggedAgent(other, definition="v1"), run.log)


def test_a_write_runs_only_where_it_is_allowed() -> None:
    calls = Calls()

    def body(ctx: AgentContext) -> Json:
        ctx.tool_call("look", 1)
        assert isinstance(try_(lambda: ctx.tool_call("pay", 1)), WriteRefused | str)
        return "paid"

    log: list[ev.Envelope] = []
    for allowed in ((), ("send",)):
        log.clear()
        with pytest.raises(WriteRefused, match="'pay' live at seq 3") as caught:
            go(calls.agent(body), allow_writes=allowed, on_event=log.append)
        assert (caught.value.tool, caught.value.seq) == ("pay", 3)
        assert kinds(EventLog.from_envelopes(log)) == ["RunStarted", "ToolCallRequested", "ToolCallCompleted"]
    assert "pay" not in calls
    run = go(calls.agent(body), allow_writes={"pay"})
    assert run.status == "completed"
    assert go(calls.agent(body), run.log, allow_writes=()).live == 0
    assert calls.count("pay") == 1


# Parking


def ask_first(ctx: AgentContext) -> Json:
    try:
        approved = ctx.suspend("pay 7?", {"type": "boolean"})
    except Exception:
        return "swallowed"
    return ctx.tool_call("pay", approved) if approved else "not paid"


def test_a_run_parks_and_goes_on_with_its_answer() -> None:
    calls = Calls()
    run = go(calls.agent(ask_first))
    assert (run.status, run.waits_for) == ("parked", ev.Suspended("pay 7?", {"type": "boolean"}))
    assert go(calls.agent(ask_first), run.log).log == run.log
    paid = go(calls.agent(ask_first), run.log, answer=True)
    assert (paid.status, paid.output, calls) == ("completed", "out", ["pay"])
    with pytest.raises(ParameterError, match="waits for none: it is completed"):
        go(calls.agent(ask_first), paid.log, answer=True)
    with pytest.raises(ParameterError, match="waits for none: it is not_started"):
        go(calls.agent(ask_first), answer=None)


def test_a_reached_budget_parks_the_run_until_it_is_extended() -> None:
    def body(ctx: AgentContext) -> Json:
        return [ctx.model_call({"n": n}).usage.input_tokens for n in range(4)]

    calls = Calls()
    agent = calls.agent(body, budgets=RunBudgets(max_steps=2, max_tokens=1000))
    run = go(agent)
    assert run.waits_for == ev.BudgetExceeded(ev.BudgetLimit("steps", 2.0), 2.0)
    with pytest.raises(ParameterError, match="holds 'more'"):
        go(agent, run.log, answer={"more": 1})
    run = go(agent, run.log, answer={"extend": {"steps": 1}})
    assert run.waits_for == ev.BudgetExceeded(ev.BudgetLimit("steps", 3.0), 3.0)
    run = go(agent, run.log, answer={})
    assert run.waits_for == ev.BudgetExceeded(ev.BudgetLimit("steps", 3.0), 3.0)
    run = go(agent, run.log, answer={"extend": {"steps": 10}})
    assert run.output == [3, 3, 3, 3]
    assert len(calls) == 4
    assert run.log.violation() is None
    assert go(agent, run.log).live == 0


def test_time_and_cost_are_limited_by_what_is_recorded() -> None:
    ticks = iter(range(100))

    def body(ctx: AgentContext) -> Json:
        return [ctx.model_call({"n": n}).usage.output_tokens for n in range(9)]

    def clock() -> Instant:
        return Instant(next(ticks) * 500_000_000)

    calls = Calls()
    agent = calls.agent(body, budgets=RunBudgets(max_wall_time_s=3.0))
    run = go(agent, clock=clock)
    assert isinstance(run.waits_for, ev.BudgetExceeded)
    assert run.waits_for.budget == ev.BudgetLimit("wall_time", 3.0)
    assert go(agent, run.log, clock=lambda: pytest.fail("the clock was read")).log == run.log
    dear = calls.agent(body, budgets=RunBudgets(max_cost_usd=0.5), pricing=Pricing(50_000.0, 25_000.0))
    parked = go(dear).waits_for
    assert parked == ev.BudgetExceeded(ev.BudgetLimit("cost_usd", 0.5), 0.5)
    with pytest.raises(ParameterError, match="pricing"):
        calls.agent(body, budgets=RunBudgets(max_cost_usd=1.0))


# A counterfactual over the log


def test_a_patched_branch_that_takes_one_more_step_keeps_its_ids_and_sends_nothing_twice() -> None:
    """A branch's prefix serves recorded clocks and bits; what it adds draws its own."""
    bits = iter(range(1, 100))

    def body(ctx: AgentContext) -> Json:
        ids = []
        steps = ctx.model_call({"plan": 1}).response["steps"]
        for step in range(steps):
            ids.append(ctx.random())
            ctx.tool_call("look", {"step": step, "id": ids[-1]})
        return {"ids": ids, "paid": ctx.tool_call("pay", steps)}

    calls = Calls()
    agent = calls.agent(body, model=lambda request: {"steps": 2})
    origin = go(agent, bits=lambda: next(bits)).log
    assert origin.envelopes[-1].event == ev.RunCompleted({"ids": [1, 2], "paid": "out"})
    branch = branch_log(origin, 2, run_id=logs.OTHER_RUN_ID, value={"steps": 3}, acknowledge_writes="all")
    with pytest.raises(WriteRefused):
        go(agent, branch, bits=lambda: next(bits), allow_writes=())
    late = branch_log(origin, 8, run_id=logs.OTHER_RUN_ID, acknowledge_writes="all")
    calls.clear()
    run = go(agent, late, bits=lambda: next(bits), allow_writes={"pay"})
    assert run.output == {"ids": [1, 2], "paid": "out"}
    assert calls == ["pay"]
    assert run.log.id == logs.OTHER_RUN_ID
    assert run.log.violation() is None


def test_a_branch_takes_recorded_keys_as_they_are_and_makes_its_own_live() -> None:
    def body(ctx: AgentContext) -> Json:
        return [
            ctx.tool_call("hold", 1),
            ctx.tool_call("hold", 2),
            ctx.tool_call("hold", 3, idempotency_key="k"),
        ]

    def keys(log: EventLog) -> list[str | None]:
        return [e.event.idempotency_key for e in log if isinstance(e.event, ev.ToolCallRequested)]

    sent: list[str | None] = []

    def hold(value: Json, idempotency_key: str | None) -> Json:
        sent.append(idempotency_key)
        return value

    agent = LoggedAgent(body, tools=[Tool(hold, "idempotent")], definition="v1")
    origin = go(agent).log
    assert keys(origin) == [f"{RUN}:1", f"{RUN}:3", "k"]
    sent.clear()
    for through, own in ((2, [f"{logs.OTHER_RUN_ID}:3", "k"]), (3, [f"{RUN}:3", "k"])):
        branch = branch_log(origin, through, run_id=logs.OTHER_RUN_ID)
        run = go(agent, branch)
        assert keys(run.log) == [f"{RUN}:1", *own]
        assert sent == own
        sent.clear()


# What does not fit


def test_arguments_that_do_not_fit_the_log_are_refused() -> None:
    calls = Calls()
    agent = calls.agent(everything)
    log = go(agent, input={"a": 1}).log
    assert go(agent, log, input={"a": 1}, run_id=RUN.upper()).live == 0
    for options, why in (
        ({"input": {"a": 1.0}}, "another input"),
        ({"run_id": logs.OTHER_RUN_ID}, "is run .*, not"),
        ({"not_executed": 3}, "does not end in a call there"),
    ):
        with pytest.raises(ParameterError, match=why):
            agent.run(log, **options)
    with pytest.raises(ParameterError, match="no UUID"):
        agent.run(EMPTY, run_id="first")
    abandoned = EventLog(RUN, (*log.prefix(1), ev.Envelope(RUN, 1, Instant(0), ev.RunAbandoned())))
    with pytest.raises(ParameterError, match="was abandoned"):
        agent.run(abandoned)
    gap = EventLog(RUN, (log.envelopes[0], log.envelopes[2]))
    with pytest.raises(MalformedLog, match="seq 2 after seq 0"):
        agent.run(gap)
    stray = EventLog(RUN, (log.envelopes[0], ev.Envelope(RUN, 1, Instant(0), ev.ToolCallCompleted(0, 1))))
    with pytest.raises(MalformedLog, match="no call awaits"):
        agent.run(stray)


def test_an_agent_without_a_model_or_tool_says_so_before_it_records() -> None:
    bare = LoggedAgent(lambda ctx: ctx.model_call(1).response, definition="v1")
    log: list[ev.Envelope] = []
    with pytest.raises(ParameterError, match="give LoggedAgent a model="):
        go(bare, on_event=log.append)
    with pytest.raises(ParameterError, match="there is no tool 'x'; the agent has none"):
        go(LoggedAgent(lambda ctx: ctx.tool_call("x", 1), definition="v1"), on_event=log.append)
    assert kinds(EventLog.from_envelopes(log[:1])) == ["RunStarted"]
    assert len(log) == 2


def test_a_replay_needs_neither_model_nor_tools() -> None:
    calls = Calls()

    def body(ctx: AgentContext) -> Json:
        ctx.model_call({"a": 1})
        return ctx.tool_call("pay", 1, effect="write")

    log = go(calls.agent(body)).log
    assert go(LoggedAgent(body, definition="v1"), log).output == "out"


def test_tools_are_checked_when_the_agent_is_made() -> None:
    def search(query: Json) -> Json:
        return query

    assert Tool(search).effect == "write"
    for make, why in (
        (lambda: Tool(search, "Read"), "one of read, idempotent, write"),  # type: ignore[arg-type]
        (lambda: Tool(lambda value: value), "needs a name"),
        (lambda: Tool("search"), "is a function"),  # type: ignore[arg-type]
        (lambda: LoggedAgent(everything, tools=[Tool(search), Tool(search, "read")]), "two tools"),
        (lambda: LoggedAgent(everything, tools=[search]), "wrap each function"),  # type: ignore[list-item]
    ):
        with pytest.raises(ParameterError, match=why):
            make()


def test_a_definition_changes_with_the_agent_and_with_nothing_else() -> None:
    calls = Calls()
    one = calls.agent(everything, definition=None)
    assert one.hash == calls.agent(everything, definition=None, model=None).hash
    assert one.hash.startswith("sha256:")
    others = (
        calls.agent(ask_first, definition=None),
        calls.agent(everything, definition=None, tools=[calls.tool("look", "write")]),
        calls.agent(everything, definition=None, budgets=RunBudgets(max_steps=3)),
    )
    assert len({one.hash, *(other.hash for other in others)}) == 4


def test_a_model_call_is_recognised_by_its_body_and_a_stream_by_what_it_says() -> None:
    a, body = model_request({"b": 1, "a": [1, 1.0]}, "/v1/x")
    assert (a.method, a.path, a.body) == ("POST", "/v1/x", b'{"b":1,"a":[1,1.0]}')
    assert request_hash(a, body) == request_hash(a, {"a": [1, 1.0], "b": 1})
    assert request_hash(a, body) != request_hash(a, {"a": [1, 1], "b": 1})
    stream = (
        b'data: {"choices":[{"index":0,"delta":{"content":"he"}}]}\n\n'
        b'data: {"choices":[{"index":0,"delta":{"content":"llo"},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":2,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
    )
    response = Response(200, (("content-type", "text/event-stream"),), stream)
    ask = Request("POST", "/v1/chat/completions", (), b'{"model":"m","messages":[],"stream":true}')
    run = go(LoggedAgent(lambda ctx: say(ctx.model_call(ask)), model=lambda r: response, definition="v1"))
    assert run.output == {"text": "hello", "tool_calls": [], "tokens": [2, 1]}
    intent = run.log.envelopes[1].event
    assert isinstance(intent, ev.ModelCallRequested)
    assert intent.request_body == {"model": "m", "messages": [], "stream": True}
    body = LoggedAgent(
        lambda ctx: ctx.model_call(ask).usage.output_tokens,
        model=lambda request: {"usage": {"prompt_tokens": 5, "completion_tokens": 2**40}},
        definition="v1",
        record_bodies=False,
    )
    short = go(body)
    assert short.output == ev.U32_MAX
    assert [w.code for w in short.warnings] == ["token_count"]
    assert "request_body" not in "".join(short.log.to_wire())


def say(reply: ModelReply) -> Json:
    return {**reply.response, "tokens": [reply.usage.input_tokens, reply.usage.output_tokens]}


def test_a_raising_listener_stops_the_run_and_is_no_failure_of_the_agents() -> None:
    def listen(envelope: ev.Envelope) -> None:
        if envelope.seq == 1:
            raise RuntimeError("the listener broke")

    calls = Calls()
    with pytest.raises(RuntimeError, match="listener broke"):
        go(calls.agent(everything), input=1, on_event=listen)
    assert calls == []
