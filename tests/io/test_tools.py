"""Wrapped tools: recorded, served, replaced at their source, held back, found from threads and processes."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from afnb.core.arm import AnswerPatch, Arm, AskAgain, ResultPatch
from afnb.core.cassette import Cassette, Exchange, Request, Response, ToolExchange
from afnb.core.providers import conversation_key
from afnb.core.redaction import Redaction
from afnb.core.steps import run_from_cassette
from afnb.core.tape import Tape
from afnb.core.toolcalls import wrapped_tools
from afnb.core.tooltape import ToolHit, ToolMiss, ToolTape
from afnb.errors import AfnbError, ParameterError, ToolFailed, ToolRefused
from afnb.io.formats.cassette import read_cassette
from afnb.io.journal import recover
from afnb.io.record import Recorder
from afnb.io.serve import Forward, Serve, Session
from afnb.io.server import LoopbackServer
from afnb.io.tools import SESSION_VARIABLE, attached, tool, wrapped_here

PATH = "/v1/chat/completions"


class Tools:
    """Tools that count how often they really ran."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def wrap(self, effect: str = "read", **options: Any) -> Callable[..., Any]:
        @tool(effect=effect, name="look", **options)
        def look(order: Any, **more: Any) -> Any:
            self.ran.append(order)
            if order == "bad":
                raise KeyError("no such order")
            return {"order": order, "n": len(self.ran)}

        return look


def chat(*messages: dict[str, Any]) -> Request:
    body = {"model": "m", "messages": [{"role": "user", "content": "u"}, *messages]}
    return Request("POST", PATH, (), json.dumps(body).encode())


def calls(*pairs: tuple[str, str, Any]) -> dict[str, Any]:
    made = [
        {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
        for i, n, a in pairs
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(call_id: str, value: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": json.dumps(value)}


def said(message: dict[str, Any] | str) -> Response:
    if isinstance(message, str):
        message = {"role": "assistant", "content": message}
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    body = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    return Response(200, (("content-type", "application/json"),), json.dumps(body).encode())


A = calls(("c1", "look", {"order": 1}), ("c2", "look", {"order": 2}))
RESULTS = (result("c1", "one"), result("c2", "two"))
B = calls(("c3", "look", {"order": 3}))
TALK = Cassette(
    "talk",
    (
        Exchange(0, chat(), said(A)),
        Exchange(1, chat(A, *RESULTS), said(B)),
        Exchange(2, chat(A, *RESULTS, B, result("c3", "three")), said("done")),
    ),
    (
        ToolExchange("look", {"order": 1}, "one", "read", after_exchange=0),
        ToolExchange("look", {"order": 2}, "two", "read", after_exchange=0),
        ToolExchange("look", {"order": 3}, "three", "read", after_exchange=1),
    ),
)
KEY = conversation_key(chat())


def ask(session: Session, request: Request, answer: Response | None = None) -> str:
    """One request of an agent; where it would go live it is given ``answer``."""
    turn = session.decide(request)
    if isinstance(turn, Forward):
        assert answer is not None, "went live"
        session.complete(turn, answer)
        return "live"
    return turn.source if isinstance(turn, Serve) else turn.reason


# -- the tape ----------------------------------------------------------------------------------------


def test_the_tape_answers_by_name_and_arguments_in_recorded_order() -> None:
    tape = ToolTape(Cassette("c", (), tuple(ToolExchange("t", {"q": 1}, n) for n in "abc")))
    play = tape.play()
    assert [play.take("t", {"q": 1}, None).tool.output for _ in range(4)] == ["a", "b", "c", "c"]  # type: ignore[union-attr]
    once = tape.play()
    hits = [once.take("t", {"q": 1}, None, once=True) for _ in range(4)]
    assert [isinstance(hit, ToolHit) for hit in hits] == [True, True, True, False]
    other = play.take("t", {"q": 2}, None)
    assert isinstance(other, ToolMiss)
    assert (other.ahead, other.explanation.path) == (False, "q")
    unknown = play.take("u", {"q": 1}, None)
    assert isinstance(unknown, ToolMiss)
    assert "no call of the tool u" in unknown.explanation.reason


def test_what_an_argument_is_called_forgives_nothing() -> None:
    """Names that mean an id on the wire mean nothing among a tool's own arguments."""
    tape = ToolTape(Cassette("c", (), (ToolExchange("t", {"call_id": "a", "user": "x"}, 1),)))
    assert isinstance(tape.play().take("t", {"call_id": "b", "user": "x"}, None), ToolMiss)
    assert isinstance(tape.play().take("t", {"user": "x", "call_id": "a"}, None), ToolHit)


def test_calls_belong_to_the_answer_that_made_them_not_to_when_they_ran() -> None:
    late = Cassette(
        "late",
        TALK.exchanges,
        (
            ToolExchange("look", {"order": 3}, "three", "read", after_exchange=1),
            ToolExchange("look", {"order": 2}, "two", "read", after_exchange=1),
        ),
    )
    tape = ToolTape(late)
    assert tape.places == (0, 1)
    assert isinstance(tape.play().take("look", {"order": 2}, 0), ToolHit)
    ahead = tape.play().take("look", {"order": 3}, 0)
    assert isinstance(ahead, ToolMiss)
    assert ahead.ahead


# -- the decorator -----------------------------------------------------------------------------------


def test_without_a_run_it_is_the_function() -> None:
    tools = Tools()
    look = tools.wrap("write")
    assert look(7) == {"order": 7, "n": 1}
    with pytest.raises(KeyError):
        look("bad")


def test_it_looks_like_the_function_it_wraps() -> None:
    import inspect
    import typing

    @tool
    def send(to: str, *, subject: str = "") -> bool:
        """Send a mail."""
        return bool(to and subject)

    async def fetch(url: str) -> str:
        return url

    assert (send.__name__, send.__doc__) == ("send", "Send a mail.")
    assert str(inspect.signature(send)) == "(to: 'str', *, subject: 'str' = '') -> 'bool'"
    assert typing.get_type_hints(send) == {"to": str, "subject": str, "return": bool}
    assert inspect.iscoroutinefunction(tool(fetch, effect="read"))
    assert asyncio.run(tool(fetch, effect="read")("u")) == "u"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tool(effect="reed"), "expected one of read, idempotent, write"),
        (lambda: tool("text"), "is a function"),  # type: ignore[call-overload]
        (lambda: tool(lambda: (yield)), "generator"),
        (lambda: tool(ignore="ctx"), "list of parameter names"),  # type: ignore[call-overload]
    ],
)
def test_what_cannot_be_wrapped(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        make()


# -- recording ---------------------------------------------------------------------------------------


def test_a_recording_holds_each_call_after_the_answer_that_made_it(tmp_path: Path) -> None:
    tools = Tools()
    look = tools.wrap()
    out = tmp_path / "x.json"
    with Recorder(out, [said(A), said("done")]) as recorder, recorder.http_client("httpx") as http:
        look("before")
        http.post(PATH, content=chat().body)
        assert look(1) == {"order": 1, "n": 2}
        with pytest.raises(KeyError, match="no such order"):
            look("bad", why="x")
        on_disk = recover(recorder.path).tool_exchanges
        http.post(PATH, content=chat(A, *RESULTS).body)
    kept = read_cassette(out)
    assert on_disk == kept.tool_exchanges[:3], "each is on disk as soon as it is complete"
    assert [(t.name, t.arguments, t.after_exchange, t.effect) for t in kept.tool_exchanges] == [
        ("look", {"order": "before"}, -1, "read"),
        ("look", {"order": 1}, 0, "read"),
        ("look", {"order": "bad", "why": "x"}, 0, "read"),
    ]
    failed = kept.tool_exchanges[2]
    assert (failed.error, failed.attrs["error_type"]) == ("'no such order'", "builtins:KeyError")
    assert failed.t_start is not None
    assert look("after") == {"order": "after", "n": 4}, "the run is over"
    assert len(read_cassette(out).tool_exchanges) == 3
    steps = run_from_cassette(kept).steps
    assert [(s.kind, s.attrs.get("call_exchange"), s.attrs.get("tool_exchange")) for s in steps] == [
        ("tool", None, 0),
        ("llm", None, None),
        ("tool", 0, 1),
        ("tool", 0, 2),
        ("llm", None, None),
    ]


def test_tools_alone_are_a_recording(tmp_path: Path) -> None:
    with Recorder(tmp_path / "x.json", ["unused"]):
        Tools().wrap()(1)
    assert len(read_cassette(tmp_path / "x.json").tool_exchanges) == 1


def test_async_tools_and_tools_in_threads_belong_to_their_run(tmp_path: Path) -> None:
    look = Tools().wrap()

    @tool(effect="read")
    async def fetch(url: str) -> str:
        await asyncio.sleep(0)
        return url

    async def run() -> None:
        await asyncio.gather(*(fetch(str(n)) for n in range(5)), asyncio.to_thread(look, 1))

    with Recorder(tmp_path / "x.json", ["unused"]) as recorder:
        asyncio.run(run())
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(look, range(5)))
    names = [t.name for t in recorder.cassette.tool_exchanges]
    assert (names.count("fetch"), names.count("look")) == (5, 6)


def test_what_is_no_json_is_said_and_not_recorded(tmp_path: Path) -> None:
    @tool(effect="read")
    def find(q: str) -> Any:
        return {q}

    encoded = tool(lambda q: {q}, effect="read", name="sets", encode=sorted, decode=set)
    with Recorder(tmp_path / "x.json", [said("x")]) as recorder:
        with recorder.http_client("httpx") as http:
            http.post(PATH, content=chat().body)
        assert find("a") == {"a"}
        assert encoded("b") == {"b"}
    assert [t.name for t in recorder.cassette.tool_exchanges] == ["sets"]
    assert "find gave a set, which is no JSON value; give encode= and decode=" in " ".join(
        recorder.warnings()
    )
    with attached(Session(Tape(recorder.cassette), live=False).tools):
        assert encoded("b") == {"b"}


def test_a_tool_that_runs_on_a_streams_last_event_belongs_after_that_exchange() -> None:
    session = Session()
    tools = Tools()
    look = tools.wrap()
    forward = session.decide(chat())
    assert isinstance(forward, Forward)
    other = session.decide(chat({"role": "user", "content": "elsewhere"}))
    assert isinstance(other, Forward)
    with attached(session.tools):
        look(1)
        look(9)
        assert session.cassette().tool_exchanges[0].after_exchange == -1
        session.complete(forward, said(A))
        session.fail(other, "down")
    session.close()
    assert [t.after_exchange for t in session.cassette().tool_exchanges] == [0, -1]


def test_redaction_reaches_tools_on_disk_and_in_replays(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    tools = Tools()
    look = tools.wrap()
    with Recorder(
        out, [said("x")], redaction=Redaction(paths=("order",), patterns=("sk-[0-9]+",))
    ) as recorder:
        with recorder.http_client("httpx") as http:
            http.post(PATH, content=chat().body)
        look("ann@example.org", token="sk-123")
    assert b"ann" not in out.read_bytes()
    assert b"sk-123" not in out.read_bytes()
    replay = Session(Tape(read_cassette(out)), live=False)
    with attached(replay.tools):
        assert look("bob@example.org", token="sk-456") == {"order": "REDACTED", "n": 1}
    assert len(tools.ran) == 1
    assert "bob" not in str(replay.cassette().tool_exchanges)


# -- replaying ---------------------------------------------------------------------------------------


def test_a_replay_gives_what_was_recorded_and_runs_nothing() -> None:
    tools = Tools()
    look = tools.wrap("write")
    failed = ToolExchange(
        "look",
        {"order": "bad"},
        None,
        "write",
        "'no such order'",
        2,
        attrs={"error_type": "builtins:KeyError"},
    )
    lost = ToolExchange("look", {"order": "lost"}, None, "write", "gone", 2, attrs={"error_type": "x.y:Lost"})
    tape = Tape(Cassette("t", TALK.exchanges, (*TALK.tool_exchanges, failed, lost)))
    session = Session(tape, live=False)
    with attached(session.tools):
        ask(session, chat())
        assert [look(2), look(1), look(1)] == ["two", "one", "one"]
        with pytest.raises(KeyError, match="no such order"):
            look("bad")
        with pytest.raises(ToolFailed, match="gone") as caught:
            look("lost")
        assert type(caught.value).__name__ == "Lost"
        with pytest.raises(ToolRefused, match=r"called otherwise.*order"):
            look(4)
    report = session.report()
    assert (tools.ran, report.tools_served, report.tools_live, report.beyond_recording) == ([], 5, 0, 1)
    assert (report.missed, report.misses[0].path, report.misses[0].where) == (1, "/look", "order")
    sources = [t.attrs["source"] for t in session.cassette().tool_exchanges]
    assert sources == ["tape:1", "tape:0", "tape:0", "tape:3", "tape:4"]


def test_a_tool_wrapped_only_now_runs_if_it_reads() -> None:
    old = Cassette("old", TALK.exchanges)
    for effect, allowed, runs in (("read", (), True), ("write", (), False), ("write", ("look",), True)):
        tools = Tools()
        session = Session(Tape(old), live=False, allow_tools=allowed)
        with attached(session.tools):
            if runs:
                tools.wrap(effect)(1)
            else:
                with pytest.raises(ToolRefused, match="no call of the tool look"):
                    tools.wrap(effect)(1)
        assert bool(tools.ran) is runs


def test_a_late_call_is_refused() -> None:
    session = Session(Tape(TALK), live=False)
    tools = Tools()
    with attached(session.tools):
        session.close()
        with pytest.raises(ToolRefused, match="is over"):
            tools.wrap()(1)
    assert tools.ran == []


# -- branching ---------------------------------------------------------------------------------------


def answer_arm(exchange: int, answer: Response, **options: Any) -> Arm:
    return Arm("a", (AnswerPatch(9, exchange, exchange, KEY, answer, **options),), exchange)


def test_calls_of_the_changed_answer_are_past_the_branch_point() -> None:
    tools = Tools()
    look = tools.wrap("read")
    session = Session(Tape(TALK), answer_arm(1, said(B), as_recorded=True))
    with attached(session.tools):
        assert ask(session, chat()) == "tape"
        assert (look(1), look(2)) == ("one", "two"), "before it the tape answers"
        assert ask(session, chat(A, *RESULTS)) == "patch"
        assert look(3) == {"order": 3, "n": 1}, "after it a tool that reads runs, in the control arm too"
    report = session.report()
    assert (report.tools_served, report.tools_live, report.tools_refused) == (2, 1, ())


@pytest.mark.parametrize(
    ("effect", "allowed", "stub", "outcome"),
    [
        ("write", (), None, "refused"),
        ("write", ("look",), None, "ran"),
        ("write", (), lambda order: f"pretended {order}", "stubbed"),
        ("write", (), {"state": "sent"}, "stubbed"),
        ("idempotent", (), None, "ran"),
    ],
)
def test_writes_past_the_branch_point_are_refused_allowed_or_stubbed(
    effect: str, allowed: tuple[str, ...], stub: Any, outcome: str
) -> None:
    tools = Tools()
    look = tools.wrap(effect, stub=stub)
    session = Session(Tape(TALK), answer_arm(0, said(B)), allow_tools=allowed)
    with attached(session.tools):
        assert ask(session, chat()) == "patch"
        if outcome == "refused":
            with pytest.raises(ToolRefused, match="--allow-tools look"):
                look(3)
        elif outcome == "ran":
            assert look(3) == {"order": 3, "n": 1}
        else:
            assert look(3) == ("pretended 3" if callable(stub) else stub)
    report = session.report()
    assert (report.tools_live, report.tools_stubbed, len(report.tools_refused)) == (
        int(outcome == "ran"),
        int(outcome == "stubbed"),
        int(outcome == "refused"),
    )
    assert bool(tools.ran) is (outcome == "ran")
    recorded = [t.attrs["source"] for t in session.cassette().tool_exchanges]
    assert recorded == {"refused": [], "ran": ["live"], "stubbed": ["stub"]}[outcome]


def test_asking_again_serves_the_calls_before_it() -> None:
    tools = Tools()
    look = tools.wrap("write", stub="stub")
    session = Session(Tape(TALK), Arm("r", (AskAgain(3, 1, 1, KEY),), 0))
    with attached(session.tools):
        ask(session, chat())
        assert (look(1), look(2)) == ("one", "two")
        assert ask(session, chat(A, *RESULTS), said(B)) == "live"
        assert look(3) == "stub"


def result_patch(number: int, exchange: int, index: int, value: Any, **options: Any) -> ResultPatch:
    return ResultPatch(5, exchange, "x", index, "look", value, tool_exchange=number, **options)


def test_a_result_is_replaced_at_its_source_and_its_neighbours_are_served() -> None:
    tools = Tools()
    look = tools.wrap("write")
    session = Session(Tape(TALK), Arm("p", (result_patch(0, 0, 0, "changed"),), 0))
    with attached(session.tools):
        ask(session, chat())
        assert (look(1), look(2)) == ("changed", "two")
        results = (result("c1", "changed"), result("c2", "two"))
        forward = session.decide(chat(A, *results))
        assert isinstance(forward, Forward)
        assert forward.request == forward.asked, "the request carries it already"
        session.complete(forward, said("done"))
        with pytest.raises(ToolRefused):
            look(1)
    report = session.report()
    assert (report.patches_applied, report.tools_served, report.branch_reached) == ((5,), 2, True)
    assert tools.ran == []
    assert session.cassette().tool_exchanges[0].attrs["source"] == "patch:5"


def test_a_control_gives_the_result_as_recorded_failures_included() -> None:
    failed = ToolExchange(
        "look", {"order": 1}, None, "read", "boom", 0, attrs={"error_type": "builtins:ValueError"}
    )
    tape = Tape(Cassette("t", TALK.exchanges, (failed, *TALK.tool_exchanges[1:])))
    tools = Tools()
    look = tools.wrap()
    control = Session(tape, Arm("c", (result_patch(0, 0, 0, "ignored", as_recorded=True),), 0))
    with attached(control.tools):
        ask(control, chat())
        with pytest.raises(ValueError, match="boom"):
            look(1)
    assert control.report().patches_applied == (5,)
    patch = Session(tape, Arm("p", (result_patch(0, 0, 0, {"a": 1}),), 0))
    with attached(patch.tools):
        ask(patch, chat())
        assert look(1) == {"a": 1}


def test_a_tool_that_gives_text_is_given_text() -> None:
    text = ToolExchange("look", {"order": 1}, '{"state": "open"}', "read", after_exchange=0)
    tape = Tape(Cassette("t", TALK.exchanges, (text, *TALK.tool_exchanges[1:])))
    session = Session(tape, Arm("p", (result_patch(0, 0, 0, {"state": "paid"}),), 0))
    with attached(session.tools):
        ask(session, chat())
        assert Tools().wrap()(1) == '{"state":"paid"}'


def test_a_later_result_is_replaced_by_position_whatever_is_asked() -> None:
    """The first intervention changes what the agent asks; the second one acts on the call all the same."""
    tools = Tools()
    look = tools.wrap()
    other = calls(("d3", "look", {"order": 33}))
    arm = Arm("p", (AnswerPatch(1, 0, 0, KEY, said(A)), result_patch(2, 1, 0, "forced")), 1)
    session = Session(Tape(TALK), arm)
    with attached(session.tools):
        assert ask(session, chat()) == "patch"
        look(1)
        look(2)
        assert ask(session, chat(A, *RESULTS, {"role": "user", "content": "more"}), said(other)) == "live"
        assert look(33) == "forced"
    assert session.report().patches_applied == (1, 5)


def test_a_call_of_the_agents_own_code_is_replaced_at_its_source() -> None:
    own = ToolExchange("clock", {}, "12:00", "read", after_exchange=-1)
    tape = Tape(Cassette("t", TALK.exchanges, (own, *TALK.tool_exchanges)))
    patch = ResultPatch(0, -1, None, -1, "clock", "13:00", tool_exchange=0)
    session = Session(tape, Arm("p", (patch,), -1))
    clock = tool(lambda: "live", effect="read", name="clock")
    with attached(session.tools):
        assert clock() == "13:00"
        assert ask(session, chat(), said("x")) == "live"
        assert clock() == "live"
    assert session.report().patches_applied == (0,)


def test_a_call_that_left_the_tape_before_the_branch_ends_the_replay() -> None:
    tools = Tools()
    look = tools.wrap()
    session = Session(Tape(TALK), answer_arm(1, said("x")))
    with attached(session.tools):
        ask(session, chat())
        with pytest.raises(ToolRefused, match="called otherwise"):
            look(8)
        with pytest.raises(ToolRefused, match="called otherwise"):
            look(1)
        assert ask(session, chat(A, *RESULTS)) == "prefix_diverged"
    diverged = session.report().prefix_diverged
    assert diverged is not None
    assert (diverged.path, diverged.where, diverged.nearest) == ("/look", "order", 0)
    assert tools.ran == []


@pytest.mark.parametrize(("tail", "gives"), [("tape", "three"), ("good", "good three"), ("live", "ran")])
def test_screens_answer_tools_of_the_tail_too(tail: Any, gives: str) -> None:
    good = Cassette(
        "g", TALK.exchanges, (ToolExchange("look", {"order": 3}, "good three", "read", after_exchange=1),)
    )
    session = Session(Tape(TALK), Arm("s", (AnswerPatch(9, 0, 0, KEY, said(B)),), 0, tail), Tape(good))
    with attached(session.tools):
        ask(session, chat())
        found = Tools().wrap()(3)
    assert found == gives or (gives == "ran" and found == {"order": 3, "n": 1})


# -- whose run is it ---------------------------------------------------------------------------------


def test_a_thread_of_no_run_is_refused_where_there_are_several() -> None:
    tools = Tools()
    look = tools.wrap()
    one, two = Session(Tape(TALK), live=False), Session(Tape(TALK), live=False)
    seen: list[Any] = []

    def in_thread(call: Callable[[], Any]) -> None:
        def work() -> None:
            try:
                seen.append(call())
            except AfnbError as error:
                seen.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    with attached(one.tools):
        in_thread(lambda: look(1))
        with attached(two.tools):
            in_thread(lambda: look(1))
            context = contextvars.copy_context()
            in_thread(lambda: context.run(look, 2))
    assert seen[0] == "one"
    assert "belongs to none of the 2 runs" in seen[1]
    assert seen[2] == "two"
    assert (one.report().tools_served, two.report().tools_served, tools.ran) == (1, 1, [])


def test_parallel_replays_do_not_cross() -> None:
    look = Tools().wrap()
    many = Cassette("m", (), tuple(ToolExchange("look", {"order": 1}, n) for n in range(20)))
    tape = Tape(many)

    def replay(_: int) -> list[Any]:
        def inside() -> list[Any]:
            with attached(Session(tape, live=False).tools):
                return [look(1) for _ in range(20)]

        return contextvars.copy_context().run(inside)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(replay, range(32))) == [list(range(20))] * 32


def test_another_process_is_told_over_the_loopback_server(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = Tools()
    look = tools.wrap("write")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with LoopbackServer(Session()) as server:
        monkeypatch.setenv(SESSION_VARIABLE, server.base_url)
        look(1)
        with pytest.raises(KeyError):
            look("bad")
        recorded = server.session.cassette()
        assert server.session.report().requests == 0, "no request of the agent"
    assert [(t.arguments, t.error) for t in recorded.tool_exchanges] == [
        ({"order": 1}, None),
        ({"order": "bad"}, "'no such order'"),
    ]

    async def fetch(order: int) -> Any:
        return "ran"

    wrapped = tool(fetch, effect="write", name="look")
    with LoopbackServer(Session(Tape(recorded), live=False)) as server:
        monkeypatch.setenv(SESSION_VARIABLE, server.base_url)
        assert asyncio.run(wrapped(1)) == {"order": 1, "n": 1}
        with pytest.raises(KeyError):
            look("bad")
        with pytest.raises(ToolRefused, match="otherwise"):
            asyncio.run(wrapped(2))
    with pytest.raises(ToolRefused, match="cannot reach the run"):
        look(1)
    assert tools.ran == [1, "bad"]


def test_who_asks_without_the_token_or_nonsense_is_refused() -> None:
    with LoopbackServer(Session()) as server:
        origin = server.base_url.rpartition("/")[0]
        begin = {"name": "look", "arguments": {}, "effect": "read"}

        def post(url: str, value: Any) -> int:
            request = urllib.request.Request(url, json.dumps(value).encode())
            try:
                with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                return error.code

        control = "/@afnb/tools/"
        assert post(f"{origin}/wrong{control}begin", begin) == 404
        assert post(server.base_url + control + "begin", begin) == 200
        for what, value in (
            ("begin", {**begin, "effect": "reed"}),
            ("begin", {"effect": "read"}),
            ("begin", 3),
            ("end", {"token": 7}),
            ("end", {"token": -1}),
            ("end", {"token": "0"}),
            ("end", {"token": 0, "error": 5}),
            ("announce", {"tools": {"look": "reed"}}),
            ("announce", {"tools": ["look"]}),
            ("other", {}),
        ):
            assert post(server.base_url + control + what, value) == 400, (what, value)
        assert post(server.base_url + control + "end", {"token": 0, "output": 1}) == 200


def test_tools_that_are_never_called_are_known_too(tmp_path: Path) -> None:
    never = tool(lambda: None, effect="idempotent", name="never_called")
    twice = [tool(lambda: None, effect=effect, name="twice") for effect in ("write", "read")]
    with Recorder(tmp_path / "x.json", [said("x")]) as recorder, recorder.http_client("httpx") as http:
        http.post(PATH, content=chat().body)
    kept = read_cassette(tmp_path / "x.json")
    assert {name: kept.attrs["tools"][name] for name in ("never_called", "twice")} == {
        "never_called": "idempotent",
        "twice": "write",
    }
    assert wrapped_tools(kept) == kept.attrs["tools"]
    session = Session(Tape(kept), live=False)
    with attached(session.tools), pytest.raises(ToolRefused, match="no call of the tool never_called"):
        never()
    assert session.cassette().attrs["tools"]["never_called"] == "idempotent"
    del never, twice
    assert {"never_called", "twice"} & set(wrapped_here()) == set()


def test_a_process_that_calls_no_tool_tells_of_them_when_it_ends() -> None:
    code = "import afnb\n@afnb.tool(effect='read')\ndef look(): ...\n"
    with LoopbackServer(Session()) as server:
        env = {**os.environ, SESSION_VARIABLE: server.base_url}
        subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60)
        assert server.session.cassette().attrs["tools"] == {"look": "read"}
