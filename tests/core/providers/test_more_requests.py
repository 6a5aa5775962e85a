"""What requests of the other wire shapes say, and changing one thing in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core.cassette import Request
from afnb.core.jsonvalue import equal, loads
from afnb.core.providers import (
    conversation_key,
    is_model_request,
    offered_tools,
    read_tool_results,
    replace_tool_result,
    request_text,
    requested_model,
    tool_results,
    with_model,
)

from .wire import post
from .wire_more import (
    CONVERSE,
    GEMINI,
    GEMINI_SSE,
    INVOKE,
    ORDER,
    ORDER_ITEM,
    ORDER_PART,
    ORDER_USE,
    REASON_BLOCK,
    REASONING,
    bedrock_request,
    gemini_request,
    invoke_request,
    ollama_call,
    ollama_request,
    responses_request,
)


def responses_with(output: Any) -> Request:
    asked = {"role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    return responses_request(
        [
            asked,
            REASONING,
            ORDER_ITEM,
            {"type": "function_call_output", "call_id": "call_a", "output": output},
        ]
    )


def gemini_with(response: Any) -> Request:
    return gemini_request(
        contents=[
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [{"text": "hm", "thought": True}, ORDER_PART]},
            {"role": "user", "parts": [{"functionResponse": {"name": "get_order", "response": response}}]},
        ]
    )


def ollama_with(content: Any) -> Request:
    return ollama_request(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [ollama_call("get_order", ORDER)]},
            {"role": "tool", "tool_name": "get_order", "content": content},
        ]
    )


def bedrock_with(*content: Any, **more: Any) -> Request:
    result = {"toolUseId": "tooluse_a", "content": list(content), **more}
    return bedrock_request(
        messages=[
            {"role": "user", "content": [{"text": "hi"}, {"cachePoint": {"type": "default"}}]},
            {"role": "assistant", "content": [REASON_BLOCK, ORDER_USE]},
            {"role": "user", "content": [{"toolResult": result}]},
        ]
    )


TALKS: dict[str, tuple[Request, Request, str]] = {
    "responses": (responses_request(), responses_with('{"total": 3}'), "call_a"),
    "gemini": (gemini_request(), gemini_with({"total": 3}), "get_order#0"),
    "ollama": (ollama_request(), ollama_with('{"total": 3}'), "get_order#0"),
    "bedrock": (bedrock_request(), bedrock_with({"json": {"total": 3}}), "tooluse_a"),
}


@pytest.mark.parametrize("name", TALKS)
def test_a_turn_with_a_result(name: str) -> None:
    first, later, call_id = TALKS[name]
    assert tool_results(later) == [(call_id, {"total": 3})]
    assert conversation_key(first) == conversation_key(later)
    assert request_text(later) == (
        'system: Be brief.\nuser: hi\nassistant calls get_order({"id":7})\nget_order returned: {"total":3}'
    )
    changed = replace_tool_result(later, call_id, {"total": 4})
    assert changed is not None
    assert tool_results(changed) == [(call_id, {"total": 4})]
    assert changed.body.replace(b" ", b"") == later.body.replace(b"3}", b"4}").replace(b" ", b"")
    assert replace_tool_result(later, "other", 1) is None


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6).filter(lambda t: not t.strip().isdigit()),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(value=_values.filter(lambda v: not isinstance(v, str)), name=st.sampled_from(sorted(TALKS)))
def test_a_replaced_result_is_read_back(value: Any, name: str) -> None:
    _, later, call_id = TALKS[name]
    changed = replace_tool_result(later, call_id, value)
    assert changed is not None
    got = tool_results(changed)[0][1]
    assert equal(got, value) or (name == "gemini" and equal(got, {"total": value}))


def test_a_gemini_result_stays_an_object() -> None:
    changed = replace_tool_result(gemini_with({"result": [1]}), "get_order#0", "two")
    assert changed is not None
    assert tool_results(changed) == [("get_order#0", {"result": "two"})]
    changed = replace_tool_result(gemini_with({"error": "no"}), "get_order#0", 3)
    assert changed is not None
    assert tool_results(changed) == [("get_order#0", {"result": 3})]
    assert read_tool_results(gemini_with({"error": "no"}))[0].is_error


def test_a_bedrock_error_is_one_no_more() -> None:
    request = bedrock_with({"text": "no"}, status="error")
    assert read_tool_results(request)[0].is_error
    changed = replace_tool_result(request, "tooluse_a", "yes")
    assert changed is not None
    assert (read_tool_results(changed)[0].value, read_tool_results(changed)[0].is_error) == ("yes", False)
    assert loads(changed.body)["messages"][2]["content"][0]["toolResult"]["content"] == [{"text": "yes"}]


def test_responses_results_in_parts_and_of_other_kinds() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "x"}]
    assert tool_results(responses_with(parts)) == [("call_a", parts)]
    changed = replace_tool_result(responses_with([{"type": "input_text", "text": "[1]"}]), "call_a", [2])
    assert changed is not None
    assert loads(changed.body)["input"][3]["output"] == [{"type": "input_text", "text": "[2]"}]
    items = [
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "x"},
        {"type": "local_shell_call_output", "id": "s1", "output": "y"},
    ]
    assert tool_results(responses_request(items)) == [("c1", "x"), ("s1", "y")]


def test_the_model_in_a_body_or_a_path() -> None:
    for request, model, changed in (
        (responses_request(), "gpt-x", "/v1/responses"),
        (gemini_request(GEMINI_SSE), "gemini-x", "/v1beta/models/new%3A1:streamGenerateContent?alt=sse"),
        (ollama_request(), "llama", "/api/chat"),
        (bedrock_request(), "amazon.nova-micro-v1:0", "/model/new%3A1/converse"),
        (invoke_request(), "anthropic.claude-x", "/model/new%3A1/invoke"),
        (post("/v1/completions", {"model": "m", "prompt": "x"}), "m", "/v1/completions"),
        (post("/v2/chat", {"model": "c", "messages": []}), "c", "/v2/chat"),
    ):
        assert requested_model(request) == model
        again = with_model(request, "new:1")
        assert requested_model(again) == "new:1"
        assert again.path == changed
        before, after = json.loads(request.body), json.loads(again.body)
        assert {**before, "model": 0} == {**after, "model": 0}
    later = Request("GET", "/v1/responses/resp_1")
    assert with_model(later, "x") is later


def test_tools_offered() -> None:
    function = {"type": "function", "name": "f", "parameters": {}}
    hosted = {"type": "file_search", "vector_store_ids": []}
    assert offered_tools(responses_request(tools=[function, hosted, {"type": "custom", "name": "g"}])) == (
        "f",
        "g",
    )
    declared = [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}, {"googleSearch": {}}]
    assert offered_tools(gemini_request(tools=declared)) == ("f", "g")
    assert offered_tools(ollama_request(tools=[{"type": "function", "function": {"name": "f"}}])) == ("f",)
    tools = [{"toolSpec": {"name": "f"}}, {"cachePoint": {"type": "default"}}]
    assert offered_tools(bedrock_request(toolConfig={"tools": tools})) == ("f",)
    assert offered_tools(post("/v1/completions", {"prompt": "x"})) == ()


def test_only_the_request_of_a_conversation_counts() -> None:
    assert conversation_key(responses_request("hi")) != conversation_key(responses_request("ho"))
    assert conversation_key(gemini_request()) == conversation_key(gemini_request(GEMINI_SSE))
    text = {"role": "user", "content": "hi"}
    assert conversation_key(responses_request([text])) == conversation_key(responses_request("hi"))
    image = [{"role": "user", "content": "hi", "images": ["aaaa"]}]
    assert conversation_key(ollama_request(image)) != conversation_key(
        ollama_request([{"role": "user", "content": "hi"}])
    )
    assert conversation_key(invoke_request()) == conversation_key(bedrock_request())


_KEYS = [
    "input",
    "role",
    "content",
    "type",
    "call_id",
    "output",
    "contents",
    "parts",
    "functionResponse",
    "name",
]
_KEYS += [
    "response",
    "messages",
    "toolResult",
    "toolUseId",
    "text",
    "prompt",
    "instructions",
    "tools",
    "system",
    "status",
]
_odd = st.recursive(
    st.none()
    | st.integers(-1, 1)
    | st.sampled_from(["", "a", "user", "tool", "function_call", "function_call_output"]),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), v, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(value=_odd)
def test_no_shape_of_request_raises(value: Any) -> None:
    several = value if isinstance(value, list) else [value]
    for path, key in (
        ("/v1/responses", "input"),
        (GEMINI, "contents"),
        ("/api/chat", "messages"),
        ("/api/generate", "prompt"),
        (CONVERSE, "messages"),
        (INVOKE, "messages"),
        ("/v2/chat", "messages"),
    ):
        for body in (value, {key: value}, {key: several, "anthropic_version": "x", "system": value}):
            request = post(path, body)
            conversation_key(request)
            request_text(request)
            offered_tools(request)
            for call_id, _ in tool_results(request):
                assert replace_tool_result(request, call_id, {"new": 1}) is not None
            if is_model_request(request):
                assert requested_model(with_model(request, "m")) == "m"
