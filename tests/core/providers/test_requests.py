"""What a request says: its conversation, its tool results, its tools; and changing one thing in it."""

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
    read_answer,
    read_tool_results,
    replace_tool_result,
    request_text,
    requested_model,
    tool_results,
    with_model,
)
from afnb.errors import ParameterError

from .wire import chat_answer, chat_request, claude_answer, claude_request, post

CALLS_MESSAGE = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"id": 7}'}},
        {"id": "c2", "type": "function", "function": {"name": "get_user", "arguments": "{}"}},
    ],
}


def chat_with(*results: Any) -> Request:
    contents = [{"role": "tool", "tool_call_id": f"c{i + 1}", "content": r} for i, r in enumerate(results)]
    return chat_request([{"role": "user", "content": "go"}, CALLS_MESSAGE, *contents])


def claude_with(*blocks: dict[str, Any]) -> Request:
    calls = [
        {"type": "tool_use", "id": "t1", "name": "get_order", "input": {"id": 7}},
        {"type": "tool_use", "id": "t2", "name": "get_user", "input": {}},
    ]
    results = [{"type": "tool_result", "tool_use_id": f"t{i + 1}", **b} for i, b in enumerate(blocks)]
    return claude_request(
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": calls},
            {"role": "user", "content": results},
        ]
    )


# --- tool results ---


def test_results_are_json_where_they_parse_and_text_else() -> None:
    request = chat_with('{"total": 3}', "no such user")
    assert tool_results(request) == [("c1", {"total": 3}), ("c2", "no such user")]
    request = claude_with(
        {"content": [{"type": "text", "text": "[1, 2]"}]}, {"content": "x", "is_error": True}
    )
    assert tool_results(request) == [("t1", [1, 2]), ("t2", "x")]
    assert [r.is_error for r in read_tool_results(request)] == [False, True]
    assert tool_results(claude_with({})) == [("t1", "")]
    image = {"type": "image", "source": {"data": "aaaa"}}
    assert tool_results(claude_with({"content": [image, {"type": "text", "text": "a"}]}))[0][1][0] == image


@pytest.mark.parametrize(
    ("recorded", "value", "written"),
    [
        ('{"a": 1, "b": [1, 2]}', {"a": 2}, '{"a": 2}'),
        ('{"a":1,"b":[1,2]}', {"a": 2, "b": [1]}, '{"a":2,"b":[1]}'),
        ('{\n  "a": 1\n}', {"a": 2}, '{\n  "a": 2\n}'),
        ('{\n    "a": 1\n}', {"a": 2}, '{\n    "a": 2\n}'),
        ('{"a": "\\u00e4"}', {"a": "ö"}, '{"a": "\\u00f6"}'),
        ('{"a": "ä"}', {"a": "ö"}, '{"a": "ö"}'),
        ("{'a': 1, 'b': None}", {"a": 2, "b": True}, "{'a': 2, 'b': True}"),
        ("plain", "other", "other"),
        ("plain", {"a": 1}, '{"a":1}'),
        ('{"a": 1}', "not found", "not found"),
        ('"quoted"', "also", '"also"'),
        ("3", 4, "4"),
        ("", "x", "x"),
        (None, "x", "x"),
    ],
)
def test_a_new_result_is_written_the_way_the_recorded_one_was(
    recorded: Any, value: Any, written: str
) -> None:
    changed = replace_tool_result(chat_with("other", recorded), "c2", value)
    assert changed is not None
    messages = loads(changed.body)["messages"]
    assert messages[3]["content"] == written
    assert messages[2]["content"] == "other"
    parts = [{"type": "text", "text": recorded or "", "cache_control": {"type": "ephemeral"}}]
    changed = replace_tool_result(claude_with({"content": parts}), "t1", value)
    assert changed is not None
    block = loads(changed.body)["messages"][2]["content"][0]
    assert block["content"] == [{**parts[0], "text": written}]


def test_only_the_result_changes() -> None:
    request = claude_with({"content": "1", "is_error": True}, {"content": "2"})
    changed = replace_tool_result(request, "t1", "one")
    assert changed is not None
    before = json.loads(request.body)
    before["messages"][2]["content"][0]["content"] = "one"
    del before["messages"][2]["content"][0]["is_error"]  # a result that was replaced is no error
    assert equal(before, loads(changed.body))
    assert changed.headers == request.headers
    assert replace_tool_result(request, "t9", "x") is None
    assert replace_tool_result(Request("GET", "/x"), "t1", "x") is None


def test_parts_replace_parts() -> None:
    image = {"type": "image", "source": {"data": "aaaa"}}
    changed = replace_tool_result(
        claude_with({"content": [image]}), "t1", [{"type": "text", "text": "a"}, image]
    )
    assert changed is not None
    assert loads(changed.body)["messages"][2]["content"][0]["content"] == [
        {"type": "text", "text": "a"},
        image,
    ]
    changed = replace_tool_result(claude_with({"content": [image]}), "t1", {"a": 1})
    assert changed is not None
    assert tool_results(changed) == [("t1", {"a": 1})]


def test_an_id_used_again_has_occurrences() -> None:
    turn = [CALLS_MESSAGE, {"role": "tool", "tool_call_id": "c1", "content": "a"}]
    request = chat_request([{"role": "user", "content": "go"}, *turn, *turn])
    both = replace_tool_result(request, "c1", "x")
    last = replace_tool_result(request, "c1", "x", occurrence=1)
    assert both is not None
    assert last is not None
    assert [v for _, v in tool_results(both)] == ["x", "x"]
    assert [v for _, v in tool_results(last)] == ["a", "x"]
    assert replace_tool_result(request, "c1", "x", occurrence=2) is None


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3),
    max_leaves=8,
)
_recorded = _values.map(json.dumps) | st.text(max_size=10) | _values.map(repr)


@settings(max_examples=100, deadline=None)
@given(recorded=_recorded, value=_values.filter(lambda v: not isinstance(v, str)), parts=st.booleans())
def test_a_replaced_result_is_read_back(recorded: str, value: Any, parts: bool) -> None:
    content = [{"type": "text", "text": recorded}] if parts else recorded
    for request, call_id in ((chat_with(content), "c1"), (claude_with({"content": content}), "t1")):
        changed = replace_tool_result(request, call_id, value)
        assert changed is not None
        got = tool_results(changed)[0][1]
        assert equal(got, value) or got == repr(value)  # the latter where a Python literal was recorded


# --- conversations ---


def test_a_conversation_keeps_its_key_as_it_grows() -> None:
    first = chat_request([{"role": "system", "content": "S"}, {"role": "user", "content": "hi"}])
    later = chat_request(
        [{"role": "system", "content": "S"}, {"role": "user", "content": "hi"}, CALLS_MESSAGE,
         {"role": "tool", "tool_call_id": "c1", "content": "x"}, {"role": "user", "content": "more"}]
    )  # fmt: skip
    assert conversation_key(first) == conversation_key(later)
    assert conversation_key(first) == conversation_key(with_model(first, "other"))
    for other in (
        chat_request([{"role": "system", "content": "T"}, {"role": "user", "content": "hi"}]),
        chat_request([{"role": "system", "content": "S"}, {"role": "user", "content": "ho"}]),
        chat_request([{"role": "user", "content": "hi"}]),
    ):
        assert conversation_key(first) != conversation_key(other)


def test_cache_hints_and_the_form_of_content_do_not_make_a_conversation() -> None:
    hint = {"cache_control": {"type": "ephemeral"}}
    plain = claude_request([{"role": "user", "content": "hi"}])
    hinted = claude_request(
        [{"role": "user", "content": [{"type": "text", "text": "hi", **hint}]}],
        system=[{"type": "text", "text": "Be brief.", **hint}],
    )
    assert conversation_key(plain) == conversation_key(hinted)
    picture = {"type": "image", "source": {"type": "base64", "data": "aaaa"}}
    one = claude_request([{"role": "user", "content": [{**picture, **hint}]}])
    same = claude_request([{"role": "user", "content": [picture]}])
    two = claude_request(
        [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "b"}}]}]
    )
    assert conversation_key(one) == conversation_key(same) != conversation_key(two)


def test_results_alone_are_no_first_message() -> None:
    request = claude_with({"content": "x"})
    body = json.loads(request.body)
    body["messages"] = body["messages"][1:]  # a window that dropped the question
    assert conversation_key(post("/v1/messages", body)) != conversation_key(request)
    assert conversation_key(Request("GET", "/x")) == ""
    assert conversation_key(post("/v1/messages", {"messages": []})) != ""


# --- names, tools, models ---


def test_tools_offered() -> None:
    tools = [
        {"type": "function", "function": {"name": "f"}},
        {"type": "custom", "custom": {"name": "g"}},
        {"type": "x"},
    ]
    assert offered_tools(chat_request(tools=tools)) == ("f", "g")
    assert offered_tools(chat_request(functions=[{"name": "old"}])) == ("old",)
    tools = [{"name": "f", "input_schema": {}}, {"type": "web_search_20250305", "name": "web_search"}, {}]
    assert offered_tools(claude_request(tools=tools)) == ("f", "web_search")
    assert offered_tools(Request("GET", "/")) == ()


def test_the_model_asked_for() -> None:
    assert requested_model(chat_request()) == "gpt-x"
    changed = with_model(claude_request(), "claude-y")
    assert requested_model(changed) == "claude-y"
    assert {**loads(changed.body), "model": "claude-x"} == loads(claude_request().body)
    with pytest.raises(ParameterError, match="not a request to a model"):
        with_model(Request("GET", "/v1/models"), "x")


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (chat_request(), None),
        (
            chat_request(
                [{"role": "system", "name": "planner", "content": "S"}, {"role": "user", "content": "x"}]
            ),
            "planner",
        ),
        (chat_request(metadata={"agent_name": "critic"}), "critic"),
        (chat_request(metadata={"agent": "critic", "user": "u"}), "critic"),
        # other people's names, and one's own in earlier turns, are not the agent's name
        (chat_request([{"role": "user", "name": "bob", "content": "x"}]), None),
        (
            chat_request(
                [{"role": "assistant", "name": "ann", "content": "x"}, {"role": "user", "content": "y"}]
            ),
            None,
        ),
    ],
)
def test_the_agents_name(request_: Request, name: str | None) -> None:
    got = read_answer(request_, chat_answer({"content": "a"}))
    assert got is not None
    assert got.role_name == name


def test_the_agents_name_of_a_message_request() -> None:
    got = read_answer(claude_request(metadata={"agent_name": "critic"}), claude_answer([]))
    assert got is not None
    assert got.role_name == "critic"


def test_a_request_as_text() -> None:
    assert request_text(chat_with('{"total": 3}', "none")) == (
        "user: go\n"
        'assistant calls get_order({"id":7})\n'
        "assistant calls get_user({})\n"
        'get_order returned: {"total":3}\n'
        "get_user returned: none"
    )
    text = request_text(claude_with({"content": "boom", "is_error": True}))
    assert text.endswith("get_order failed: boom")
    assert text.startswith("system: Be brief.\nuser: go")
    assert request_text(Request("GET", "/")) == ""


_KEYS = ["messages", "role", "content", "tool_calls", "tool_call_id", "id", "function", "name", "type"]
_KEYS += ["tool_use_id", "text", "input", "system", "tools", "metadata", "model", "functions"]
_odd = st.recursive(
    st.none() | st.integers(-2, 2) | st.sampled_from(["user", "tool", "assistant", "c1", "tool_result", "x"]),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), v, max_size=4),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None)
@given(body=_odd)
def test_no_shape_of_request_raises(body: Any) -> None:
    messages = body if isinstance(body, list) else [body]
    for path in ("/v1/chat/completions", "/v1/messages"):
        for whole in (body, {"messages": messages}, {"messages": [{"role": "user", "content": body}]}):
            request = post(path, whole)
            conversation_key(request)
            request_text(request)
            offered_tools(request)
            for call_id, _ in tool_results(request):
                assert replace_tool_result(request, call_id, {"new": 1}) is not None
            if is_model_request(request):
                assert requested_model(with_model(request, "m")) == "m"
