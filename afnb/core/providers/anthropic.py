"""Anthropic messages, plain and streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from afnb.core import sse
from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import Json
from afnb.core.providers.anthropic_stream import (
    FINISH,
    SERVER_CALLS,
    ended,
    finish_word,
    kind_of,
    new_call_id,
    rewrite,
    take_apart,
)
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
    text_or_none,
    usage_of,
    with_body,
    with_json,
)
from afnb.core.providers.changes import plan
from afnb.core.providers.content import content_text, part_mark, replace_content, result_value

NAME = "anthropic"


def matches(method: str, path: str, body: Mapping[str, Any] | None) -> bool:
    """POST .../messages with messages (not the counting and batch calls beside it)."""
    return (
        method == "POST"
        and path.endswith(("/messages", ":rawPredict", ":streamRawPredict"))
        and body is not None
        and isinstance(body.get("messages"), list)
    )


# --- requests -----------------------------------------------------------------------------------


def turns(ask: Ask) -> Iterator[Turn]:
    """The system prompt and the messages; a user message may hold results, text or both."""
    if ask.body.get("system"):
        yield Turn("system", content_text(ask.body["system"]))
    for message in objs(ask.body.get("messages")):
        yield _turn(message)


def _turn(message: dict[str, Any]) -> Turn:
    content = message.get("content")
    if not isinstance(content, list):
        return Turn(_role(message), content_text(content))
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for block in content:
        kind = obj(block).get("type")
        if kind == "tool_use":
            calls.append(_call(block))
        elif kind == "tool_result":
            results.append(
                ToolResult(
                    text_or_none(block.get("tool_use_id")) or "",
                    result_value(block.get("content")),
                    block.get("is_error") is True,
                )
            )
        elif isinstance(block, str) or isinstance(obj(block).get("text"), str):
            texts.append(content_text([block]))
        elif kind not in ("thinking", "redacted_thinking"):
            texts.append(part_mark(block))
    role = _role(message)
    if results and not texts:
        return Turn("tool", results=tuple(results))
    return Turn(role, "\n".join(texts), tuple(calls), tuple(results))


def _role(message: dict[str, Any]) -> Any:
    role = message.get("role")
    return role if role in ("assistant", "system") else "user"


def _call(block: dict[str, Any]) -> ToolCall:
    return ToolCall(
        text_or_none(block.get("id")) or "", text_or_none(block.get("name")) or "", block.get("input", {})
    )


def tools(ask: Ask) -> tuple[str, ...]:
    """Names of the tools offered."""
    names = [tool.get("name") for tool in objs(ask.body.get("tools"))]
    return tuple(name for name in names if isinstance(name, str))


def model(ask: Ask) -> str | None:
    """The model asked for."""
    return text_or_none(ask.body.get("model"))


def replace_model(ask: Ask, model: str) -> Request:
    """The request, asking another model."""
    return with_body(ask.request, {**ask.body, "model": model})


def replace_result(ask: Ask, index: int, value: Json) -> Request:
    """The request with its ``index``-th tool result's content replaced; it is no error any more."""
    messages: list[Json] = list(ask.body["messages"])
    places = [
        (i, j)
        for i, message in enumerate(messages)
        if isinstance(obj(message).get("content"), list)
        for j, block in enumerate(message["content"])
        if obj(block).get("type") == "tool_result"
    ]
    i, j = places[index]
    content = list(messages[i]["content"])
    block = {k: v for k, v in content[j].items() if k != "is_error"}
    content[j] = {**block, "content": replace_content(block.get("content"), value)}
    messages[i] = {**messages[i], "content": content}
    return with_body(ask.request, {**ask.body, "messages": messages})


# --- answers ------------------------------------------------------------------------------------


def read(ask: Ask, response: Response) -> Answer | None:
    """The message of an answer, plain or streamed."""
    if framing(response) == "sse":
        return read_events(sse.parse(response.body), complete=not response.incomplete)
    body = json_object(response.body)
    if body is None or not isinstance(body.get("content"), list) or body.get("type") == "error":
        return None
    return _answer(body, complete=not response.incomplete)


def _answer(message: Mapping[str, Any], complete: bool) -> Answer:
    blocks = objs(message.get("content"))
    return Answer(
        text="".join(b["text"] for b in blocks if b.get("type") == "text" and isinstance(b.get("text"), str)),
        tool_calls=tuple(_call(b) for b in blocks if b.get("type") == "tool_use"),
        finish=text_or_none(message.get("stop_reason")),
        usage=usage_of(message.get("usage"), "input_tokens", "output_tokens"),
        model=text_or_none(message.get("model")),
        role_name=None,
        complete=complete,
        server_calls=tuple(_call(b) for b in blocks if b.get("type") in SERVER_CALLS),
    )


def read_events(events: Sequence[sse.Event], complete: bool = True) -> Answer | None:
    """The message of a stream's events; None if nothing but an error is in it."""
    stream = take_apart(events)
    if not stream.blocks and (stream.message is None or stream.error):
        return None
    message = {**(stream.message or {}), "content": [block.whole() for block in stream.blocks]}
    answer = _answer(message, complete=ended(stream) and complete)
    return replace(answer, error=stream.error)


def write(ask: Ask, response: Response, new: New) -> Response:
    """The recorded message with new text and calls; thinking and server tools stay."""
    if framing(response) == "sse":
        return rewrite(ask, response, new)
    body = dict(json_object(response.body) or {})
    blocks: list[Json] = list(body["content"])
    content: list[Json] = []
    for step in plan([kind_of(b) for b in blocks], new):
        if step.what == "keep":
            content.append(blocks[step.block])
        elif step.what == "text":
            old = blocks[step.block] if step.block >= 0 else {"type": "text"}
            content.append({**old, "text": new.text, **({"citations": None} if old.get("citations") else {})})
        else:
            old = blocks[step.block] if step.block >= 0 else {"type": "tool_use"}
            call = new.calls[step.call]
            content.append(
                {**old, "id": new_call_id(ask, new, step.call), "name": call.name, "input": call.arguments}
            )
    body["content"] = content
    _set_finish(body, new)
    return with_json(response, body)


def _set_finish(body: dict[str, Any], new: New) -> None:
    recorded = text_or_none(body.get("stop_reason"))
    body[FINISH] = finish_word(recorded, new)
    if body[FINISH] != recorded and body.get("stop_sequence") is not None:
        body["stop_sequence"] = None
