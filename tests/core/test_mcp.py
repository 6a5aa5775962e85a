"""MCP over HTTP: which exchanges are calls, what they gave, and steps made of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from afnb.causal.compile import compile_arms
from afnb.causal.interventions import Edit, Resample
from afnb.core.arm import AnswerPatch
from afnb.core.cassette import Cassette, Chunk, Exchange, Request, Response
from afnb.core.jsonvalue import MISSING
from afnb.core.mcp import (
    declared_effects,
    mcp_call,
    mcp_effects,
    mcp_result,
    result_of_value,
    same_tool,
    with_result,
)
from afnb.core.steps import run_from_cassette
from afnb.core.toolcalls import effect_of, seen_tools
from afnb.errors import InputError, ParameterError

JSON = (("content-type", "application/json"),)
SSE = (("content-type", "text/event-stream"),)


def rpc(method: str, ident: Any = 1, **params: Any) -> Request:
    body = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
    return Request("POST", "/mcp", JSON, json.dumps(body).encode())


def call(name: str, arguments: Any, ident: Any = 1) -> Request:
    return rpc("tools/call", ident, name=name, arguments=arguments)


def result(text: str, ident: Any = 1, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": ident, "result": {"content": [{"type": "text", "text": text}], **more}}


def as_json(message: Any) -> Response:
    return Response(200, JSON, json.dumps(message).encode())


def as_stream(*messages: Any) -> Response:
    pieces = [f"event: message\ndata: {json.dumps(m)}\n\n".encode() for m in messages]
    return Response(200, SSE, b"".join(pieces), tuple(Chunk(i * 5.0, p) for i, p in enumerate(pieces)))


NOTE = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}


@pytest.mark.parametrize("answer", [as_json(result('{"n": 1}')), as_stream(NOTE, result('{"n": 1}'))])
def test_the_result_is_found_in_json_and_in_streams(answer: Response) -> None:
    asked = mcp_call(call("look", {"q": 1}))
    assert asked is not None
    found = mcp_result(asked, answer)
    assert found is not None
    assert (found.value, found.error) == ({"n": 1}, None)
    changed = with_result(asked, answer, {"n": 2})
    again = mcp_result(asked, changed)
    assert again is not None
    assert again.value == {"n": 2}
    if answer.chunks is not None:
        assert changed.chunks is not None
        assert b"".join(chunk.data for chunk in changed.chunks) == changed.body
        assert changed.chunks[0] == answer.chunks[0], "other events stay byte for byte"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (result("no such order", isError=True), "no such order"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "unknown tool"}}, "unknown tool"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1}}, "an error without a message"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"content": [], "isError": True}}, "an error without a text"),
    ],
)
def test_failures_in_both_forms(message: dict[str, Any], error: str) -> None:
    asked = mcp_call(call("look", {}))
    assert asked is not None
    found = mcp_result(asked, as_json(message))
    assert found is not None
    assert found.error == error
    repaired = mcp_result(asked, with_result(asked, as_json(message), "fine"))
    assert repaired is not None
    assert (repaired.value, repaired.error) == ("fine", None)


def test_structured_content_follows_the_text() -> None:
    asked = mcp_call(call("look", {}))
    assert asked is not None
    answer = as_json(result('{"n": 1}', structuredContent={"n": 1}))
    fresh = json.loads(with_result(asked, answer, {"n": 2}).body)["result"]
    assert (fresh["structuredContent"], fresh["content"][0]["text"]) == ({"n": 2}, '{"n":2}')
    assert result_of_value({"content": [], "x": 1}) == {"content": [], "x": 1}


def test_other_requests_are_no_calls() -> None:
    for request in (
        rpc("tools/list"),
        Request("GET", "/mcp"),
        Request("POST", "/mcp", JSON, b'{"tools/call": 1}'),
        Request("POST", "/mcp", JSON, b'"tools/call"'),
        rpc("tools/call", 1, arguments={}),
        Request("POST", "/mcp", JSON, b'{"jsonrpc": "2.0", "method": "tools/call", "params": 3}'),
    ):
        assert mcp_call(request) is None
    asked = mcp_call(call("look", {}, 7))
    assert asked is not None
    assert mcp_result(asked, as_json(result("x", 8))) is None
    with pytest.raises(InputError, match="no result of the call"):
        with_result(asked, Response(202), "x")


def test_names_that_clients_put_a_server_before() -> None:
    assert same_tool("look", "look")
    assert same_tool("mcp__orders__look", "look")
    assert same_tool("orders.look", "look")
    assert not same_tool("outlook", "look")
    assert not same_tool("look_up", "look")


LISTED = as_json(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {
            "tools": [
                {"name": "look", "annotations": {"readOnlyHint": True}},
                {"name": "put", "annotations": {"idempotentHint": True}},
                {"name": "pay", "annotations": {"destructiveHint": True}},
                {"name": "odd", "annotations": 3},
                7,
            ]
        },
    }
)


def llm(*calls: tuple[str, Any], text: str = "") -> Response:
    made = [
        {"id": f"c{i}", "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
        for i, (n, a) in enumerate(calls)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if made:
        message["tool_calls"] = made
    return as_json({"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def chat(*messages: dict[str, Any]) -> Request:
    body = {"model": "m", "messages": [{"role": "user", "content": "u"}, *messages]}
    return Request("POST", "/v1/chat/completions", JSON, json.dumps(body).encode())


ASSISTANT = json.loads(llm(("orders__look", {"q": 1})).body)["choices"][0]["message"]
TALK = Cassette(
    "talk",
    (
        Exchange(0, rpc("initialize"), as_json({"jsonrpc": "2.0", "id": 1, "result": {}})),
        Exchange(1, rpc("tools/list"), LISTED),
        Exchange(2, chat(), llm(("orders__look", {"q": 1}))),
        Exchange(3, call("look", {"q": 1}), as_stream(result('{"n": 1}'))),
        Exchange(
            4, chat(ASSISTANT, {"role": "tool", "tool_call_id": "c0", "content": '{"n": 1}'}), llm(text="1")
        ),
        Exchange(5, call("pay", {"n": 1}), as_json(result("declined", isError=True))),
    ),
)


def test_calls_are_tool_steps_joined_with_the_answer_that_made_them() -> None:
    steps = run_from_cassette(TALK).steps
    assert [(s.kind, s.name, s.exchange) for s in steps] == [
        ("other", "POST /mcp", 0),
        ("other", "POST /mcp", 1),
        ("llm", "llm", 2),
        ("tool", "orders__look", 3),
        ("llm", "llm", 4),
        ("tool", "pay", 5),
    ]
    assert (steps[3].outputs, steps[3].attrs["call_exchange"], steps[3].result_exchange) == ({"n": 1}, 2, 4)
    assert (steps[5].outputs, steps[5].attrs["error"]) == (MISSING, "declined")


def test_effects_are_what_the_server_hints_at_else_write() -> None:
    assert declared_effects([json.loads(LISTED.body)]) == {"look": "read", "put": "idempotent"}
    assert mcp_effects(TALK) == {"look": "read", "pay": "write"}
    assert effect_of("orders__look", seen_tools(TALK)) == "read"
    assert effect_of("other", seen_tools(TALK)) is None


def test_a_result_is_changed_in_the_answer_that_brought_it() -> None:
    compiled = compile_arms(Edit(3, {"n": 2}), TALK)
    patch, control = compiled.patch.patches[0], compiled.control.patches[0]
    assert isinstance(patch, AnswerPatch)
    assert isinstance(control, AnswerPatch)
    assert (patch.exchange, patch.step, compiled.patch.serve_through) == (3, 3, 3)
    asked = mcp_call(TALK.exchanges[3].request)
    assert asked is not None
    changed = mcp_result(asked, patch.response)
    assert changed is not None
    assert changed.value == {"n": 2}
    assert control.response == TALK.exchanges[3].response
    with pytest.raises(ParameterError, match="resample the answer that called it"):
        compile_arms(Resample(3), TALK)
