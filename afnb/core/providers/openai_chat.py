"""OpenAI chat completions, and the many servers that speak the same shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import Json
from afnb.core.providers.base import (
    Answer,
    Ask,
    New,
    ToolCall,
    ToolResult,
    Turn,
    framing,
    json_object,
    obj,
    objs,
    parsed_or_text,
    text_or_none,
    usage_of,
    with_body,
    with_json,
)
from afnb.core.providers.changes import arguments_text
from afnb.core.providers.content import content_text, replace_content, result_value
from afnb.core.providers.openai_chat_stream import call_id, finish_word, first_choice, read_stream, rewrite

NAME = "openai-chat"


def matches(method: str, path: str, body: Mapping[str, Any] | None) -> bool:
    """POST .../chat/completions (or Mistral's .../agents/completions) with messages."""
    return (
        method == "POST"
        and path.endswith(("/chat/completions", "/agents/completions"))
        and body is not None
        and isinstance(body.get("messages"), list)
    )


# --- requests -----------------------------------------------------------------------------------


def turns(ask: Ask) -> Iterator[Turn]:
    """The messages, in order."""
    return (_turn(message) for message in objs(ask.body.get("messages")))


def _turn(message: dict[str, Any]) -> Turn:
    role, content, name = message.get("role"), message.get("content"), text_or_none(message.get("name"))
    if role in ("system", "developer"):
        return Turn("system", content_text(content), name=name)
    if role == "assistant":
        return Turn("assistant", content_text(content), calls=tuple(_history_calls(message)), name=name)
    if role in ("tool", "function"):
        call_id = text_or_none(message.get("tool_call_id")) or ""
        return Turn("tool", results=(ToolResult(call_id, result_value(content), name=name),), name=name)
    return Turn("user", content_text(content), name=name)


def _history_calls(message: dict[str, Any]) -> list[ToolCall]:
    calls = [
        ToolCall(text_or_none(call.get("id")) or "", *_function(call))
        for call in objs(message.get("tool_calls"))
    ]
    if isinstance(message.get("function_call"), dict):
        calls.append(ToolCall("", *_named(message["function_call"])))
    return calls


def _function(call: dict[str, Any]) -> tuple[str, Json]:
    """Name and arguments of a function call, or of a custom tool's call."""
    if isinstance(call.get("custom"), dict):
        custom = call["custom"]
        return text_or_none(custom.get("name")) or "", custom.get("input")
    return _named(obj(call.get("function")))


def _named(function: dict[str, Any]) -> tuple[str, Json]:
    return text_or_none(function.get("name")) or "", parsed_or_text(function.get("arguments"))


def tools(ask: Ask) -> tuple[str, ...]:
    """Names of the functions offered."""
    offered = [
        obj(tool.get("function") or tool.get("custom")).get("name") for tool in objs(ask.body.get("tools"))
    ]
    offered += [function.get("name") for function in objs(ask.body.get("functions"))]
    return tuple(name for name in offered if isinstance(name, str))


def model(ask: Ask) -> str | None:
    """The model asked for."""
    return text_or_none(ask.body.get("model"))


def replace_model(ask: Ask, model: str) -> Request:
    """The request, asking another model."""
    return with_body(ask.request, {**ask.body, "model": model})


def replace_result(ask: Ask, index: int, value: Json) -> Request:
    """The request with its ``index``-th tool message's content replaced."""
    messages: list[Json] = list(ask.body["messages"])
    places = [i for i, m in enumerate(messages) if obj(m).get("role") in ("tool", "function")]
    place = places[index]
    message = messages[place]
    messages[place] = {**message, "content": replace_content(message.get("content"), value)}
    return with_body(ask.request, {**ask.body, "messages": messages})


# --- answers ------------------------------------------------------------------------------------


def read(ask: Ask, response: Response) -> Answer | None:
    """The first choice of a completion, plain or streamed."""
    if framing(response) == "sse":
        return read_stream(response)
    body = json_object(response.body)
    choice = first_choice(body)
    if body is None or choice is None or not isinstance(choice.get("message"), dict):
        return None
    message = choice["message"]
    return Answer(
        text=_message_text(message),
        tool_calls=tuple(_history_calls(message)),
        finish=text_or_none(choice.get("finish_reason")),
        usage=usage_of(body.get("usage"), "prompt_tokens", "completion_tokens"),
        model=text_or_none(body.get("model")),
        role_name=None,
        complete=not response.incomplete,
    )


def _message_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(p["text"] for p in objs(content) if isinstance(p.get("text"), str))
    return text_or_none(content) or text_or_none(message.get("refusal")) or ""


def write(ask: Ask, response: Response, new: New) -> Response:
    """The recorded completion with new text and calls in its first choice."""
    if framing(response) == "sse":
        return rewrite(ask, response, new)
    body = dict(json_object(response.body) or {})
    choices: list[Json] = list(body["choices"])
    place = next(i for i, c in enumerate(choices) if c is first_choice(body))
    choice = dict(choices[place])
    choice["message"] = _new_message(ask, choice["message"], new)
    choice["finish_reason"] = finish_word(text_or_none(choice.get("finish_reason")), new, _is_legacy(choice))
    if new.text_changed and choice.get("logprobs") is not None:
        choice["logprobs"] = None
    choices[place] = choice
    return with_json(response, {**body, "choices": choices})


def _is_legacy(choice: dict[str, Any]) -> bool:
    return isinstance(obj(choice.get("message")).get("function_call"), dict)


def _new_message(ask: Ask, message: dict[str, Any], new: New) -> dict[str, Any]:
    message = dict(message)
    if new.text_changed:
        message["content"] = _new_content(message.get("content"), new)
        if message.get("refusal") is not None:
            message["refusal"] = None
    if not new.calls_changed:
        return message
    if isinstance(message.get("function_call"), dict):
        message.pop("function_call")
        if len(new.calls) == 1:
            call = new.calls[0]
            message["function_call"] = {"name": call.name, "arguments": arguments_text(call.arguments)}
            return message
    recorded = objs(message.get("tool_calls"))
    calls = [
        recorded[i] if call.same else _new_call(ask, new, i, recorded[i] if i < len(recorded) else {})
        for i, call in enumerate(new.calls)
    ]
    message.pop("tool_calls", None)
    if calls:
        message["tool_calls"] = calls
    return message


def _new_content(content: Json, new: New) -> Json:
    if not new.text and new.calls:
        return None
    if not isinstance(content, list):
        return new.text
    others = [part for part in content if not isinstance(obj(part).get("text"), str)]
    return [*others, {"type": "text", "text": new.text}]


def _new_call(ask: Ask, new: New, index: int, recorded: dict[str, Any]) -> dict[str, Any]:
    call = new.calls[index]
    rest = {k: v for k, v in recorded.items() if k not in ("id", "type", "function", "custom")}
    if isinstance(recorded.get("custom"), dict) and isinstance(call.arguments, str):
        custom = {**recorded["custom"], "name": call.name, "input": call.arguments}
        return {"id": call_id(ask, new, index), "type": "custom", "custom": custom, **rest}
    function = {
        **obj(recorded.get("function")),
        "name": call.name,
        "arguments": arguments_text(call.arguments),
    }
    return {"id": call_id(ask, new, index), "type": "function", "function": function, **rest}
