"""From a cassette to a run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from afnb.core.cassette import Cassette, Exchange, Request, Response, ToolExchange
from afnb.core.jsonvalue import MISSING, dumps
from afnb.core.run import Run, Warn
from afnb.core.steps import attempts, model_positions, run_from_cassette

from .providers.wire import (
    answer,
    chat_answer,
    chat_chunk,
    chat_request,
    claude_answer,
    claude_calls_stream,
    claude_request,
    post,
    stream,
)
from .providers.wire_more import (
    ORDER_ITEM,
    ORDER_PART,
    USER_ITEM,
    USER_PART,
    gemini_chunk,
    gemini_request,
    message_item,
    responses_body,
    responses_request,
)

Pair = tuple[Request, Response]


def cassette(*pairs: Pair, **more: Any) -> Cassette:
    exchanges = tuple(
        Exchange(i, q, r, t_start=f"2026-01-01T00:00:{i:02}Z", t_end=f"2026-01-01T00:00:{i:02}.5Z")
        for i, (q, r) in enumerate(pairs)
    )
    return Cassette("run-1", exchanges, **more)


def call(name: str, arguments: Any, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": dumps(arguments)}}


def asks(*calls: dict[str, Any]) -> tuple[dict[str, Any], Response]:
    """The history message and the answer that make these calls."""
    message = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    return message, chat_answer({"content": None, "tool_calls": list(calls)}, "tool_calls")


def result(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


USER = {"role": "user", "content": "Refund order 7"}


def shape(run: Run) -> list[tuple[Any, ...]]:
    return [(s.kind, s.name, s.outputs, s.exchange, s.result_exchange) for s in run.steps]


def text(said: str) -> dict[str, Any]:
    return {"text": said, "tool_calls": []}


def test_an_agent_with_tools() -> None:
    first, first_answer = asks(call("get_order", {"id": 7}, "c1"), call("get_user", {"id": 3}, "c2"))
    second, second_answer = asks(call("refund", {"order": 7}, "c3"))
    history = [USER, first, result("c1", '{"status": "paid"}'), result("c2", "Ann")]
    recording = cassette(
        (chat_request([USER]), first_answer),
        (chat_request(history), second_answer),
        (chat_request([*history, second, result("c3", "done")]), chat_answer({"content": "Refunded."})),
        task="refund",
        outcome="pass",
        source="x.json",
        warnings=(Warn("a", "b"),),
    )
    run = run_from_cassette(recording)
    both = [{"name": "get_order", "arguments": {"id": 7}}, {"name": "get_user", "arguments": {"id": 3}}]
    assert shape(run) == [
        ("llm", "llm", {"text": "", "tool_calls": both}, 0, None),
        ("tool", "get_order", {"status": "paid"}, None, 1),
        ("tool", "get_user", "Ann", None, 1),
        ("llm", "llm", {"text": "", "tool_calls": [{"name": "refund", "arguments": {"order": 7}}]}, 1, None),
        ("tool", "refund", "done", None, 2),
        ("llm", "llm", text("Refunded."), 2, None),
    ]
    assert [s.idx for s in run.steps] == [0, 1, 2, 3, 4, 5]
    assert [s.parent_idx for s in run.steps] == [None, 0, 0, None, 3, None]
    assert [s.call_id for s in run.steps] == [None, "c1", "c2", None, "c3", None]
    assert [(s.attrs["call_exchange"], s.attrs["call_index"]) for s in run.steps if s.kind == "tool"] == [
        (0, 0), (0, 1), (1, 0)
    ]  # fmt: skip
    assert [s.inputs for s in run.steps] == [
        "user: Refund order 7",
        {"id": 7},
        {"id": 3},
        'get_order returned: {"status":"paid"}\nget_user returned: Ann',
        {"order": 7},
        "refund returned: done",
    ]
    assert run.steps[0].attrs["usage"] == {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16}
    assert run.steps[0].attrs["model"] == "gpt-x-1"
    assert (run.steps[0].t_start, run.steps[0].t_end) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z")
    assert (run.id, run.task, run.outcome, run.source, run.answer) == (
        "run-1",
        "refund",
        "pass",
        "x.json",
        "Refunded.",
    )
    assert run.warnings == (Warn("a", "b"),)
    assert list(model_positions(recording)) == [0, 1, 2]
    assert {b for b, _ in model_positions(recording).values()} == {run.steps[0].attrs["branch"]}


def test_a_result_that_never_comes_back_is_missing() -> None:
    _, first_answer = asks(call("f", {}, "c1"), call("g", {}, "c2"))
    run = run_from_cassette(cassette((chat_request([USER]), first_answer)))
    assert [s.outputs for s in run.steps[1:]] == [MISSING, MISSING]
    assert run.answer is None


def test_a_null_result_is_not_a_missing_one() -> None:
    first, first_answer = asks(call("f", {}, "c1"))
    later = chat_request([USER, first, result("c1", "null")])
    run = run_from_cassette(
        cassette((chat_request([USER]), first_answer), (later, chat_answer({"content": "ok"})))
    )
    assert run.steps[1].outputs is None


def test_the_first_result_counts_even_if_it_is_rewritten_later() -> None:
    first, first_answer = asks(call("f", {}, "c1"))
    run = run_from_cassette(
        cassette(
            (chat_request([USER]), first_answer),
            (chat_request([USER, first, result("c1", "long text")]), chat_answer({"content": "a"})),
            (chat_request([USER, first, result("c1", "[cut]"), USER]), chat_answer({"content": "b"})),
        )
    )
    assert (run.steps[1].outputs, run.steps[1].result_exchange) == ("long text", 1)
    assert run.answer == "b"


# --- attempts ---


def test_failed_asks_are_attempts_of_the_step() -> None:
    ask = chat_request([USER])
    busy, down = answer({"error": {"message": "slow"}}, 429), Response(503)
    recording = cassette((ask, busy), (ask, down), (ask, chat_answer({"content": "ok"})))
    run = run_from_cassette(recording)
    assert shape(run) == [("llm", "llm", text("ok"), 2, None)]
    assert run.steps[0].attrs["failed_attempts"] == 2
    assert attempts(recording) == {0: 2, 1: 2}
    assert [(e, n) for e, (_, n) in model_positions(recording).items()] == [(2, 0)]
    assert run.warnings == ()


def test_asks_that_all_failed_are_one_other_step() -> None:
    ask = chat_request([USER])
    recording = cassette(*[(ask, answer({"error": {"message": "slow"}}, 429))] * 3)
    run = run_from_cassette(recording)
    assert [(s.kind, s.name, s.exchange) for s in run.steps] == [("other", "POST /v1/chat/completions", 2)]
    assert run.steps[0].attrs == {"status": 429, "error": "slow", "failed_attempts": 2}
    assert attempts(recording) == {0: 2, 1: 2}
    assert model_positions(recording) == {}
    assert [w.code for w in run.warnings] == ["provider_error"]


def test_a_refused_request_is_no_attempt_when_another_is_asked_next() -> None:
    bad = answer({"error": {"message": "tool_use_failed", "type": "invalid_request_error"}}, 400)
    recording = cassette(
        (chat_request([USER]), bad), (chat_request([USER, USER]), chat_answer({"content": "ok"}))
    )
    run = run_from_cassette(recording)
    assert [s.kind for s in run.steps] == ["other", "llm"]
    assert run.steps[0].outputs["error"]["message"] == "tool_use_failed"
    assert attempts(recording) == {}


def test_an_overload_inside_a_success_that_is_asked_again_is_an_attempt() -> None:
    ask = claude_request()
    overload = stream({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, named=True)
    recording = cassette((ask, overload), (ask, claude_answer([{"type": "text", "text": "ok"}])))
    assert attempts(recording) == {0: 1}
    assert [s.kind for s in run_from_cassette(recording).steps] == ["llm"]
    alone = run_from_cassette(cassette((ask, overload)))
    assert [(s.kind, s.attrs["error"]) for s in alone.steps] == [("other", "overloaded_error: busy")]
    assert [w.code for w in alone.warnings] == ["provider_error"]


@pytest.mark.parametrize("link", [(1, 0), (0, 1)])
def test_linked_exchanges_are_attempts_even_if_their_bytes_differ(link: tuple[int, int]) -> None:
    recording = cassette(
        (chat_request([USER]), Response(500)), (chat_request([USER], seed=1), chat_answer({"content": "ok"}))
    )
    exchanges = list(recording.exchanges)
    exchanges[link[0]] = replace(exchanges[link[0]], attempt_of=link[1])
    assert attempts(replace(recording, exchanges=tuple(exchanges))) == {0: 1}
    assert attempts(recording) == {}


def test_the_same_request_answered_twice_is_two_steps() -> None:
    ask = chat_request([USER])
    recording = cassette((ask, chat_answer({"content": "a"})), (ask, chat_answer({"content": "b"})))
    assert [s.outputs["text"] for s in run_from_cassette(recording).steps] == ["a", "b"]
    assert [n for _, n in model_positions(recording).values()] == [0, 1]


# --- other exchanges ---


def test_other_exchanges_stand_where_they_were_recorded() -> None:
    first, first_answer = asks(call("search", {"q": "x"}, "c1"))
    recording = cassette(
        (chat_request([USER]), first_answer),
        (post("/search?key=1", {"q": "x"}), answer({"hits": [1]})),
        (Request("GET", "/logo.png"), Response(200, body=b"\x89PNG\xff")),
        (Request("POST", "/ingest", body=b"plain"), Response(204)),
        (chat_request([USER, first, result("c1", "found")]), chat_answer({"content": "ok"})),
    )
    run = run_from_cassette(recording)
    assert [(s.kind, s.name) for s in run.steps] == [
        ("llm", "llm"),
        ("tool", "search"),
        ("other", "POST /search"),
        ("other", "GET /logo.png"),
        ("other", "POST /ingest"),
        ("llm", "llm"),
    ]
    assert run.steps[1].outputs == "found"
    assert (run.steps[2].inputs, run.steps[2].outputs) == ({"q": "x"}, {"hits": [1]})
    assert run.steps[3].inputs is MISSING
    assert run.steps[3].outputs["bytes"] == 5
    assert (run.steps[4].inputs, run.steps[4].outputs) == ("plain", MISSING)
    assert run.warnings == ()


def test_an_answer_that_cannot_be_read_is_told() -> None:
    run = run_from_cassette(cassette((chat_request([USER]), Response(200, body=b"<html>"))))
    assert [s.kind for s in run.steps] == ["other"]
    assert [(w.code, w.message) for w in run.warnings] == [
        ("unreadable_answer", "exchange 0: the model's answer cannot be read")
    ]


# --- streams that broke off ---


def test_a_broken_off_stream_is_a_step_and_a_warning() -> None:
    half = stream(chat_chunk({"role": "assistant", "content": "The ord"}))
    run = run_from_cassette(cassette((chat_request([USER]), half)))
    assert shape(run) == [("llm", "llm", text("The ord"), 0, None)]
    assert run.steps[0].attrs["complete"] is False
    assert [(w.code, w.message) for w in run.warnings] == [
        ("incomplete", "exchange 0: the answer's stream stopped before its end")
    ]


def test_a_streamed_answer_makes_the_same_steps() -> None:
    content = [
        {"type": "tool_use", "id": "toolu_a", "name": "get_order", "input": {"id": 7}},
        {"type": "tool_use", "id": "toolu_b", "name": "get_user", "input": {"name": "Zoë"}},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_b", "content": "no", "is_error": True},
        {"type": "tool_result", "tool_use_id": "toolu_a", "content": [{"type": "text", "text": "{}"}]},
    ]
    messages = [USER, {"role": "assistant", "content": content}, {"role": "user", "content": results}]
    run = run_from_cassette(
        cassette(
            (claude_request([USER]), claude_calls_stream()),
            (claude_request(messages), claude_answer([{"type": "text", "text": "done"}])),
        )
    )
    assert [(s.name, s.outputs) for s in run.steps if s.kind == "tool"] == [
        ("get_order", {}),
        ("get_user", "no"),
    ]
    assert run.steps[2].attrs["is_error"] is True
    assert "is_error" not in run.steps[1].attrs


# --- ids that are not unique ---


def loop(turns: Sequence[tuple[Any, str]], start: Any = USER, window: int = 99) -> list[Pair]:
    """An agent that calls ``f`` once a turn, always under the id call_0, and keeps ``window`` turns."""
    history: list[list[Any]] = []
    pairs: list[Pair] = []
    for arguments, said in turns:
        message, response = asks(call("f", arguments, "call_0"))
        pairs.append((chat_request([start, *itertools.chain.from_iterable(history[-window:])]), response))
        history.append([message, result("call_0", said)])
    pairs.append(
        (
            chat_request([start, *itertools.chain.from_iterable(history[-window:])]),
            chat_answer({"content": "end"}),
        )
    )
    return pairs


@pytest.mark.parametrize("window", [99, 2, 1])
def test_ids_used_again_in_every_turn(window: int) -> None:
    turns = [({"n": i}, f"r{i}") for i in range(4)]
    run = run_from_cassette(cassette(*loop(turns, window=window)))
    assert [s.outputs for s in run.steps if s.kind == "tool"] == ["r0", "r1", "r2", "r3"]
    assert [s.result_exchange for s in run.steps if s.kind == "tool"] == [1, 2, 3, 4]


def test_the_same_call_again_under_the_same_id() -> None:
    run = run_from_cassette(cassette(*loop([({}, "wait"), ({}, "wait"), ({}, "ready")])))
    assert [s.outputs for s in run.steps if s.kind == "tool"] == ["wait", "wait", "ready"]


def test_conversations_that_share_ids_do_not_mix() -> None:
    a = loop([({"n": 1}, "a1"), ({"n": 2}, "a2")], {"role": "user", "content": "A"})
    b = loop([({"n": 1}, "b1"), ({"n": 2}, "b2")], {"role": "user", "content": "B"})
    crossed = [pair for both in zip(a, b, strict=True) for pair in reversed(both)]
    run = run_from_cassette(cassette(*crossed))
    assert [s.outputs for s in run.steps if s.kind == "tool"] == ["b1", "a1", "b2", "a2"]
    positions = model_positions(cassette(*crossed))
    assert [n for _, n in positions.values()] == [0, 0, 1, 1, 2, 2]
    assert len({branch for branch, _ in positions.values()}) == 2
    assert positions[0][0] == positions[2][0] != positions[1][0]
    apart = run_from_cassette(cassette(*a, *b))
    assert [s.outputs for s in apart.steps if s.kind == "tool"] == ["a1", "a2", "b1", "b2"]


def test_two_calls_of_one_answer_under_the_same_id() -> None:
    first, first_answer = asks(call("f", {"n": 1}, "x"), call("f", {"n": 2}, "x"))
    later = chat_request([USER, first, result("x", "one"), result("x", "two")])
    run = run_from_cassette(
        cassette((chat_request([USER]), first_answer), (later, chat_answer({"content": "ok"})))
    )
    assert [s.outputs for s in run.steps if s.kind == "tool"] == ["one", "two"]


def test_a_hand_off_carries_the_result_into_another_conversation() -> None:
    first, first_answer = asks(call("transfer", {}, "c1"))
    system = {"role": "system", "content": "You are the other agent."}
    later = chat_request([system, USER, first, result("c1", "ok")])
    run = run_from_cassette(
        cassette((chat_request([USER]), first_answer), (later, chat_answer({"content": "hi"})))
    )
    assert (run.steps[1].outputs, run.steps[1].result_exchange) == ("ok", 1)


def test_calls_without_ids() -> None:
    def bare(*arguments: Any) -> tuple[dict[str, Any], Response]:
        calls = [{"function": {"name": "f", "arguments": dumps(a)}} for a in arguments]
        return {"role": "assistant", "tool_calls": calls}, chat_answer({"content": None, "tool_calls": calls})

    def said(value: str) -> dict[str, Any]:
        return {"role": "tool", "name": "f", "content": value}

    first, first_answer = bare({"n": 1}, {"n": 2})
    second, second_answer = bare({"n": 3})
    history = [USER, first, said("r1"), said("r2")]
    run = run_from_cassette(
        cassette(
            (chat_request([USER]), first_answer),
            (chat_request(history), second_answer),
            (chat_request([*history, second, said("r3")]), chat_answer({"content": "ok"})),
        )
    )
    assert [(s.call_id, s.outputs) for s in run.steps if s.kind == "tool"] == [
        ("f#0", "r1"),
        ("f#1", "r2"),
        ("f#2", "r3"),
    ]


# --- recorded tool exchanges ---


def test_a_tool_exchange_joins_the_call_it_answers() -> None:
    first, first_answer = asks(call("f", {"n": 1}, "c1"), call("f", {"n": 2}, "c2"), call("g", {}, "c3"))
    later = chat_request([USER, first, result("c1", "one"), result("c2", "two")])
    tools = (
        ToolExchange("f", {"n": 2}, "two raw", "read", after_exchange=0, t_start="s", t_end="e"),
        ToolExchange("f", {"n": 1}, "one raw", "read", after_exchange=0),
        ToolExchange("g", {"default": True}, "three", after_exchange=0),
        ToolExchange("h", {"x": 1}, "alone", "idempotent", after_exchange=0),
        ToolExchange("late", {}, None, error="boom", after_exchange=1),
    )
    run = run_from_cassette(
        cassette(
            (chat_request([USER]), first_answer),
            (later, chat_answer({"content": "ok"})),
            tool_exchanges=tools,
        )
    )
    assert [(s.name, s.outputs, s.attrs.get("tool_exchange")) for s in run.steps] == [
        ("llm", run.steps[0].outputs, None),
        ("f", "one", 1),
        ("f", "two", 0),
        ("g", "three", 2),  # never came back in a message: what the tool gave
        ("h", "alone", 3),
        ("llm", text("ok"), None),
        ("late", MISSING, 4),
    ]
    assert (run.steps[2].t_start, run.steps[2].t_end, run.steps[2].attrs["effect"]) == ("s", "e", "read")
    assert run.steps[4].inputs == {"x": 1}
    assert run.steps[6].attrs == {"tool_exchange": 4, "effect": "write", "error": "boom"}


def test_tool_exchanges_before_any_request_come_first() -> None:
    tools = (ToolExchange("setup", {}, 1),)
    recording = cassette((chat_request([USER]), chat_answer({"content": "ok"})), tool_exchanges=tools)
    assert [s.name for s in run_from_cassette(recording).steps] == ["setup", "llm"]


def test_an_empty_cassette() -> None:
    run = run_from_cassette(Cassette("e"))
    assert (len(run), run.answer, run.warnings) == (0, None, ())
    assert attempts(Cassette("e")) == model_positions(Cassette("e")) == {}


# --- other wire shapes ---


def test_a_chain_of_responses_sends_results_alone() -> None:
    calls = [ORDER_ITEM, USER_ITEM]
    results = [
        {"type": "function_call_output", "call_id": "call_b", "output": "Zoë"},
        {"type": "function_call_output", "call_id": "call_a", "output": '{"total": 3}'},
    ]
    recording = cassette(
        (responses_request(), answer(responses_body(calls))),
        (
            responses_request(results, previous_response_id="resp_1"),
            answer(responses_body([message_item("ok")])),
        ),
    )
    run = run_from_cassette(recording)
    assert [(s.name, s.outputs) for s in run.steps[:3]][1:] == [
        ("get_order", {"total": 3}),
        ("get_user", "Zoë"),
    ]
    assert run.answer == "ok"


def test_an_answer_fetched_later_is_the_step() -> None:
    queued = answer(responses_body([], "queued", usage=None))
    fetch = Request("GET", "/v1/responses/resp_1")
    history = [ORDER_ITEM, {"type": "function_call_output", "call_id": "call_a", "output": "x"}]
    recording = cassette(
        (responses_request(), queued),
        (fetch, answer(responses_body([], "in_progress", usage=None))),
        (fetch, answer(responses_body([ORDER_ITEM]))),
        (responses_request(["hi", *history]), answer(responses_body([message_item("ok")]))),
    )
    run = run_from_cassette(recording)
    assert [(s.kind, s.exchange) for s in run.steps] == [
        ("other", 0), ("other", 1), ("llm", 2), ("tool", None), ("llm", 3)
    ]  # fmt: skip
    assert run.steps[3].outputs == "x"
    assert run.warnings == ()


def test_parallel_calls_without_ids_are_told_by_name_and_order() -> None:
    again = {"functionCall": {"name": "get_order", "args": {"id": 8}}}
    said = [("get_user", "u"), ("get_order", "o7"), ("get_order", "o8")]
    results = [{"functionResponse": {"name": n, "response": {"result": r}}} for n, r in said]
    contents = [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [ORDER_PART, again, USER_PART]},
        *({"role": "user", "parts": [r]} for r in results),
    ]
    recording = cassette(
        (gemini_request(), answer(gemini_chunk(ORDER_PART, again, USER_PART, finish="STOP"))),
        (gemini_request(contents=contents), answer(gemini_chunk({"text": "ok"}, finish="STOP"))),
    )
    run = run_from_cassette(recording)
    assert [(s.call_id, s.outputs) for s in run.steps if s.kind == "tool"] == [
        ("get_order#0", {"result": "o7"}), ("get_order#1", {"result": "o8"}), ("get_user#0", {"result": "u"})
    ]  # fmt: skip


def test_positions_are_those_of_the_run() -> None:
    """The run knows what `model_positions` reads from its cassette."""
    from afnb.core.cassette import Cassette, Exchange, Request, Response
    from afnb.core.steps import model_positions, positions_of, run_from_cassette

    def ask(user: str, status: int, text: str | None) -> tuple[Request, Response]:
        body = b'{"messages": [{"role": "user", "content": "%s"}]}' % user.encode()
        said = b"{}" if text is None else b'{"choices": [{"message": {"content": "%s"}}]}' % text.encode()
        return Request("POST", "/v1/chat/completions", body=body), Response(status, body=said)

    pairs = [
        ask("a", 429, None),
        ask("a", 200, "x"),
        ask("b", 200, "y"),
        ask("a", 200, "z"),
        ask("b", 200, None),
        ask("b", 500, None),
        ask("b", 200, "w"),
    ]
    cassette = Cassette("c", tuple(Exchange(i, q, r) for i, (q, r) in enumerate(pairs)))
    assert positions_of(run_from_cassette(cassette)) == model_positions(cassette)
    assert len(model_positions(cassette)) == 4
