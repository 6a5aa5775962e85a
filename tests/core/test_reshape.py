"""Changes to requests: system prompt, a message left out, a message put in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from afnb.core.cassette import Request
from afnb.core.reshape import RequestChange, holds_tools, messages_of, reshape, system_of
from afnb.errors import ParameterError

PATHS = {"openai-chat": "/v1/chat/completions", "anthropic": "/v1/messages"}
TALK = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "three"},
]


def ask(shape: str, messages: list[Any], **more: Any) -> Request:
    body = json.dumps({"model": "m", "messages": messages, **more}).encode()
    return Request("POST", PATHS[shape], (("content-length", "9"), ("x-a", "b")), body)


def body_of(request: Request | None) -> dict[str, Any]:
    assert request is not None
    return dict(json.loads(request.body))


@pytest.mark.parametrize("shape", PATHS)
def test_a_message_is_dropped_and_put_in_at_its_place(shape: str) -> None:
    request = ask(shape, TALK)
    dropped = reshape(request, RequestChange("drop", json.dumps(TALK[1]), 1))
    assert body_of(dropped)["messages"] == [TALK[0], TALK[2]]
    more = {"role": "user", "content": "new"}
    put = reshape(request, RequestChange("insert", json.dumps(more), 1, json.dumps(TALK[0])))
    assert body_of(put)["messages"] == [TALK[0], more, *TALK[1:]]
    first = reshape(request, RequestChange("insert", json.dumps(more), 0))
    assert body_of(first)["messages"] == [more, *TALK]
    assert dropped is not None
    assert dropped.headers == (("x-a", "b"),)


@pytest.mark.parametrize("shape", PATHS)
def test_a_later_request_is_changed_where_it_says_the_same(shape: str) -> None:
    moved = [{"role": "user", "content": "before"}, *TALK, {"role": "assistant", "content": "four"}]
    dropped = reshape(ask(shape, moved), RequestChange("drop", json.dumps(TALK[1]), 1))
    assert body_of(dropped)["messages"] == [moved[0], TALK[0], TALK[2], moved[4]]
    hinted = [TALK[0], {**TALK[1], "cache_control": {"type": "ephemeral"}}, TALK[2]]
    again = reshape(ask(shape, hinted), RequestChange("drop", json.dumps(TALK[1]), 1))
    assert body_of(again)["messages"] == [TALK[0], TALK[2]]


@pytest.mark.parametrize("shape", PATHS)
def test_a_request_without_the_message_is_not_changed(shape: str) -> None:
    request = ask(shape, TALK[:1])
    assert reshape(request, RequestChange("drop", json.dumps(TALK[1]), 1)) is None
    put = RequestChange("insert", json.dumps(TALK[2]), 2, json.dumps(TALK[1]))
    assert reshape(request, put) is None


def test_the_system_prompt_where_each_shape_has_it() -> None:
    chat = ask("openai-chat", [{"role": "developer", "content": "old"}, *TALK])
    assert system_of(chat) == "old"
    new = reshape(chat, RequestChange("system", "new"))
    assert body_of(new)["messages"] == [{"role": "developer", "content": "new"}, *TALK]
    gone = reshape(chat, RequestChange("system", ""))
    assert body_of(gone)["messages"] == TALK
    claude = ask("anthropic", TALK, system=[{"type": "text", "text": "old"}])
    assert system_of(claude) == [{"type": "text", "text": "old"}]
    assert body_of(reshape(claude, RequestChange("system", "new")))["system"] == "new"
    assert "system" not in body_of(reshape(claude, RequestChange("system", "")))
    assert system_of(ask("anthropic", TALK)) is None
    assert system_of(ask("openai-chat", TALK)) is None


def test_other_requests_are_refused_or_left() -> None:
    other = Request("GET", "/v1/models")
    assert reshape(other, RequestChange("system", "x")) is None
    with pytest.raises(ParameterError, match="no model request"):
        messages_of(other)
    with pytest.raises(ParameterError, match="openai-responses"):
        messages_of(Request("POST", "/v1/responses", body=b'{"model":"m","input":"hi"}'))


@pytest.mark.parametrize(
    ("message", "holds"),
    [
        ({"role": "tool", "content": "3"}, True),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}, True),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}, True),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}, True),
        ({"role": "user", "content": [{"type": "text", "text": "a"}]}, False),
        ({"role": "assistant", "content": "x", "tool_calls": []}, False),
        ("text", False),
    ],
)
def test_what_holds_tools(message: Any, holds: bool) -> None:
    assert holds_tools(message) is holds


def test_a_change_survives_json() -> None:
    change = RequestChange("insert", '{"role":"user"}', 2, '{"role":"assistant"}')
    assert RequestChange.from_json(json.loads(json.dumps(change.to_json()))) == change
