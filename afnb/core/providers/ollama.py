"""Ollama: chat and generate, plain or as newline-delimited JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from afnb.core import sse
from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import Json, dumps
from afnb.core.providers.base import (
    Answer,
    Ask,
    New,
    ToolCall,
    ToolResult,
    Turn,
    error_text,
    json_object,
    obj,
    objs,
    parsed_or_text,
    pieces,
    restream,
    text_or_none,
    usage_of,
    with_body,
    with_json,
)
from afnb.core.providers.content import content_text, part_mark, replace_content, result_value
from afnb.errors import ParameterError

NAME = "ollama"


def matches(method: str, path: str, body: Mapping[str, Any] | None) -> bool:
    """POST .../api/chat with messages, or .../api/generate with a prompt."""
    if method != "POST" or body is None:
        return False
    if path.endswith("/api/chat"):
        return isinstance(body.get("messages"), list)
    return path.endswith("/api/generate") and isinstance(body.get("prompt"), str)


def _generates(ask: Ask) -> bool:
    return ask.path.endswith("/api/generate")


# --- requests -----------------------------------------------------------------------------------


def turns(ask: Ask) -> list[Turn]:
    """The messages, or the system text and the prompt."""
    if _generates(ask):
        system = text_or_none(ask.body.get("system"))
        found = [Turn("system", system)] if system else []
        return [*found, Turn("user", _with_images(ask.body["prompt"], ask.body.get("images")))]
    return [_turn(message) for message in objs(ask.body.get("messages"))]


def _turn(message: dict[str, Any]) -> Turn:
    role, text = message.get("role"), _with_images(message.get("content"), message.get("images"))
    if role == "system":
        return Turn("system", text)
    if role == "assistant":
        return Turn("assistant", text, calls=tuple(_calls(message)))
    if role == "tool":
        name = text_or_none(message.get("tool_name")) or text_or_none(message.get("name"))
        call_id = text_or_none(message.get("tool_call_id")) or ""
        return Turn("tool", results=(ToolResult(call_id, result_value(message.get("content")), name=name),))
    return Turn("user", text)


def _with_images(content: Json, images: Json) -> str:
    marks = [part_mark(image) for image in images] if isinstance(images, list) else []
    return "\n".join([content_text(content), *marks])


def _calls(message: Mapping[str, Any]) -> list[ToolCall]:
    calls = []
    for call in objs(message.get("tool_calls")):
        function = obj(call.get("function"))
        name = text_or_none(function.get("name")) or ""
        arguments = parsed_or_text(function.get("arguments", {}))
        calls.append(ToolCall(text_or_none(call.get("id")) or "", name, arguments))
    return calls


def tools(ask: Ask) -> tuple[str, ...]:
    """Names of the functions offered."""
    names = [obj(tool.get("function")).get("name") for tool in objs(ask.body.get("tools"))]
    return tuple(name for name in names if isinstance(name, str))


def model(ask: Ask) -> str | None:
    """The model asked for."""
    return text_or_none(ask.body.get("model"))


def replace_model(ask: Ask, model: str) -> Request:
    """The request, asking another model."""
    return with_body(ask.request, {**ask.body, "model": model})


def replace_result(ask: Ask, index: int, value: Json) -> Request:
    """The request with its ``index``-th tool message's content replaced."""
    messages: list[Json] = list(ask.body["messages"])
    place = [i for i, m in enumerate(messages) if obj(m).get("role") == "tool"][index]
    message = messages[place]
    messages[place] = {**message, "content": replace_content(message.get("content"), value)}
    return with_body(ask.request, {**ask.body, "messages": messages})


# --- answers ------------------------------------------------------------------------------------


def _lines(response: Response) -> list[tuple[sse.Event, dict[str, Any]]]:
    """The objects of an answer, one a line; a plain answer is one line."""
    whole = json_object(response.body)
    events = [sse.Event("")] if whole is not None else sse.parse_lines(response.body)
    values = [whole] if whole is not None else [json_object(event.data) for event in events]
    return [(event, value) for event, value in zip(events, values, strict=True) if value is not None]


def _text(ask: Ask, value: Mapping[str, Any]) -> str:
    said = value.get("response") if _generates(ask) else obj(value.get("message")).get("content")
    return text_or_none(said) or ""


def read(ask: Ask, response: Response) -> Answer | None:
    """The answer; complete once a line says ``done``."""
    text: list[str] = []
    calls: list[ToolCall] = []
    finish = error = model = None
    usage = None
    done = seen = False
    for _, value in _lines(response):
        if value.get("error"):
            error = error_text(value)
            continue
        if not isinstance(value.get("response" if _generates(ask) else "message"), str | dict):
            continue
        seen = True
        text.append(_text(ask, value))
        calls += _calls(obj(value.get("message")))
        done = done or value.get("done") is True
        finish = text_or_none(value.get("done_reason")) or finish
        usage = usage_of(value, "prompt_eval_count", "eval_count") or usage
        model = text_or_none(value.get("model")) or model
    if not seen:
        return None
    return Answer(
        text="".join(text),
        tool_calls=tuple(calls),
        finish=finish,
        usage=usage,
        model=model,
        role_name=None,
        complete=done and error is None and not response.incomplete,
        error=error,
    )


def write(ask: Ask, response: Response, new: New) -> Response:
    """The recorded answer with new text and calls; thinking stays."""
    if new.calls and _generates(ask):
        raise ParameterError("a generated text cannot hold tool calls; give text alone")
    lines = [(event, value) for event, value in _lines(response) if not value.get("error")]
    calls = _new_calls([value for _, value in lines], new)
    plain = json_object(response.body)
    if plain is not None and not response.body.rstrip(b" ").endswith(b"\n"):
        kept, _ = _stripped(ask, plain, new)
        text = new.text if new.text_changed else _text(ask, plain)
        return with_json(response, _ended({**_filled(ask, kept, text, calls), "done": True}))
    count = sum(1 for _, value in lines if _text(ask, value))
    due = [_filled(ask, _bare(lines[0][1]), piece, []) for piece in pieces(new.text, count) if piece]
    due = due if new.text_changed else []
    if calls:
        due.append(_filled(ask, _bare(lines[0][1]), "", calls))
    out: list[sse.Event] = []
    for event, value in lines:
        kept, gone = _stripped(ask, value, new)
        last = value.get("done") is True
        if gone or last:
            out += [_line(made) for made in due]
            due = []
        if last:
            kept = _ended(kept)
        if kept == value:
            out.append(event)
        elif last or obj(kept.get("message")).get("thinking") or kept.get("thinking"):
            out.append(_line(kept))
    if not any(value.get("done") is True for _, value in lines):  # the recording was cut
        out += [_line(made) for made in [*due, {**_bare(lines[0][1]), "done": True, "done_reason": "stop"}]]
    return restream(response, out, lines=True)


def _line(value: dict[str, Any]) -> sse.Event:
    return sse.Event(dumps(value))


def _ended(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "done_reason": "stop"} if value.get("done_reason") == "length" else value


def _new_calls(values: Iterable[dict[str, Any]], new: New) -> list[dict[str, Any]]:
    """The calls to write; none where the recorded ones stay."""
    recorded = [c for value in values for c in objs(obj(value.get("message")).get("tool_calls"))]
    calls = []
    for i, call in enumerate(new.calls):
        old = recorded[i] if i < len(recorded) else {}
        function = {**obj(old.get("function")), "name": call.name, "arguments": call.arguments}
        given = {"id": call.id} if call.id and "#" not in call.id else {}
        calls.append(old if call.same else {**old, **given, "function": function})
    return calls if new.calls_changed else []


def _stripped(ask: Ask, value: dict[str, Any], new: New) -> tuple[dict[str, Any], bool]:
    """A line without what changes, and whether anything was taken out."""
    text_gone = new.text_changed and bool(_text(ask, value))
    message = dict(obj(value.get("message")))
    calls_gone = new.calls_changed and bool(message.get("tool_calls"))
    if not text_gone and not calls_gone:
        return value, False
    if _generates(ask):
        return {**value, "response": ""}, True
    if text_gone:
        message["content"] = ""
    if calls_gone:
        del message["tool_calls"]
    return {**value, "message": message}, True


def _bare(value: dict[str, Any]) -> dict[str, Any]:
    """A line's envelope: no text, no calls, no counts."""
    kept: dict[str, Any] = {k: v for k, v in value.items() if k in ("model", "created_at")}
    if "response" in value:
        return {**kept, "response": "", "done": False}
    return {**kept, "message": {"role": "assistant", "content": ""}, "done": False}


def _filled(ask: Ask, value: dict[str, Any], text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """A line with this text and these calls."""
    if _generates(ask):
        return {**value, "response": text}
    message = {**obj(value.get("message")), "content": text, **({"tool_calls": calls} if calls else {})}
    return {**value, "message": message}
