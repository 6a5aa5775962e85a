"""Cohere chat (version 2): read plain and streamed, written plain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afnb.core import sse
from afnb.core.cassette import Response
from afnb.core.jsonvalue import Json
from afnb.core.providers import openai_chat
from afnb.core.providers.base import (
    Answer,
    Ask,
    New,
    ToolCall,
    framing,
    json_object,
    obj,
    objs,
    parsed_or_text,
    text_or_none,
    usage_of,
    with_json,
)
from afnb.core.providers.changes import arguments_text, fresh_id
from afnb.errors import ParameterError

NAME = "cohere"

# requests have the shape of chat completions
turns = openai_chat.turns
tools = openai_chat.tools
model = openai_chat.model
replace_model = openai_chat.replace_model
replace_result = openai_chat.replace_result


def matches(method: str, path: str, body: Mapping[str, Any] | None) -> bool:
    """POST .../v2/chat with messages."""
    is_one = isinstance((body or {}).get("messages"), list)
    return method == "POST" and path.endswith("/v2/chat") and is_one


def read(ask: Ask, response: Response) -> Answer | None:
    """The message, plain or streamed."""
    if framing(response) == "sse":
        return _read_stream(response)
    body = json_object(response.body)
    if body is None or not isinstance(body.get("message"), dict):
        return None
    message = body["message"]
    return Answer(
        text=_text(message),
        tool_calls=tuple(_call(call) for call in objs(message.get("tool_calls"))),
        finish=text_or_none(body.get("finish_reason")),
        usage=_usage(body.get("usage")),
        model=None,
        role_name=None,
        complete=not response.incomplete,
    )


def _text(message: Mapping[str, Any]) -> str:
    parts = objs(message.get("content"))
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _call(call: Mapping[str, Any]) -> ToolCall:
    function = obj(call.get("function"))
    name = text_or_none(function.get("name")) or ""
    return ToolCall(text_or_none(call.get("id")) or "", name, parsed_or_text(function.get("arguments")))


def _usage(usage: Json) -> Any:
    return usage_of(obj(usage).get("tokens"), "input_tokens", "output_tokens")


def _read_stream(response: Response) -> Answer | None:
    text: list[str] = []
    calls: list[dict[str, Any]] = []
    finish = usage = None
    seen = False
    for event in sse.parse(response.body):
        value = obj(json_object(event.data))
        kind, delta = value.get("type") or event.event, obj(value.get("delta"))
        message = obj(delta.get("message"))
        if kind == "message-start":
            seen = True
        elif kind == "content-delta":
            text.append(text_or_none(obj(message.get("content")).get("text")) or "")
        elif kind == "tool-call-start":
            call = obj(message.get("tool_calls"))
            calls.append({**call, "function": {"arguments": "", **obj(call.get("function"))}})
        elif kind == "tool-call-delta" and calls:
            said = obj(obj(message.get("tool_calls")).get("function")).get("arguments")
            calls[-1]["function"]["arguments"] += text_or_none(said) or ""
        elif kind == "message-end":
            finish = text_or_none(delta.get("finish_reason"))
            usage = _usage(delta.get("usage"))
    if not seen:
        return None
    return Answer(
        text="".join(text),
        tool_calls=tuple(_call(call) for call in calls),
        finish=finish,
        usage=usage,
        model=None,
        role_name=None,
        complete=finish is not None and not response.incomplete,
    )


def write(ask: Ask, response: Response, new: New) -> Response:
    """The recorded message with new text and calls."""
    if framing(response) == "sse":
        raise ParameterError("a streamed Cohere answer cannot be rewritten; record it with stream=false")
    body = dict(json_object(response.body) or {})
    message = dict(body["message"])
    if new.text_changed:
        message.pop("citations", None)
        message["content"] = [{"type": "text", "text": new.text}] if new.text else []
    if new.calls_changed:
        recorded = objs(message.pop("tool_calls", None))
        calls = [
            _written(ask, new, i, recorded[i] if i < len(recorded) else {}) for i in range(len(new.calls))
        ]
        if calls:
            message["tool_calls"] = calls
    body["message"] = message
    body["finish_reason"] = "TOOL_CALL" if new.calls else "COMPLETE"
    return with_json(response, body)


def _written(ask: Ask, new: New, index: int, recorded: dict[str, Any]) -> dict[str, Any]:
    call = new.calls[index]
    if call.same:
        return recorded
    function = {
        **obj(recorded.get("function")),
        "name": call.name,
        "arguments": arguments_text(call.arguments),
    }
    given = {"id": call.id or fresh_id(ask, index, "call_"), "type": "function"}
    return {**recorded, **given, "function": function}
