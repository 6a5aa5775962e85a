"""OpenAI text completions (a prompt and its continuation), as local servers still offer them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afnb.core import sse
from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import Json, dumps
from afnb.core.providers.base import (
    Answer,
    Ask,
    New,
    Turn,
    error_text,
    framing,
    json_object,
    json_value,
    objs,
    pieces,
    restream,
    text_or_none,
    usage_of,
    with_body,
    with_json,
)
from afnb.core.providers.openai_chat_stream import first_choice
from afnb.errors import ParameterError

NAME = "openai-text"

_USAGE = ("prompt_tokens", "completion_tokens")


def matches(method: str, path: str, body: Mapping[str, Any] | None) -> bool:
    """POST .../completions with a prompt."""
    is_one = isinstance((body or {}).get("prompt"), str)
    return method == "POST" and path.endswith("/completions") and is_one


def turns(ask: Ask) -> list[Turn]:
    """The prompt."""
    return [Turn("user", str(ask.body["prompt"]))]


def tools(ask: Ask) -> tuple[str, ...]:
    """None: a prompt offers no tools."""
    return ()


def model(ask: Ask) -> str | None:
    """The model asked for."""
    return text_or_none(ask.body.get("model"))


def replace_model(ask: Ask, model: str) -> Request:
    """The request, asking another model."""
    return with_body(ask.request, {**ask.body, "model": model})


def replace_result(ask: Ask, index: int, value: Json) -> Request:
    """Never asked for: a prompt holds no tool results that could be told apart."""
    raise ParameterError("a text completion request holds no tool results")


def read(ask: Ask, response: Response) -> Answer | None:
    """The first choice's text, plain or streamed."""
    streamed = framing(response) == "sse"
    events = sse.parse(response.body) if streamed else []
    bodies = [json_value(e.data) for e in events] if streamed else [json_object(response.body)]
    done = any(event.data.strip() == "[DONE]" for event in events)
    text: list[str] = []
    finish = error = model = None
    usage = None
    for body in bodies:
        if not isinstance(body, dict):
            continue
        if body.get("error"):
            error = error_text(body) or "an error without a message"
        model = text_or_none(body.get("model")) or model
        usage = usage_of(body.get("usage"), *_USAGE) or usage
        choice = first_choice(body)
        if choice is not None and isinstance(choice.get("text"), str):
            text.append(choice["text"])
            finish = text_or_none(choice.get("finish_reason")) or finish
    if not text:
        return None
    whole = not streamed or done or finish is not None
    return Answer(
        text="".join(text),
        tool_calls=(),
        finish=finish,
        usage=usage,
        model=model,
        role_name=None,
        complete=whole and error is None and not response.incomplete,
        error=error,
    )


def write(ask: Ask, response: Response, new: New) -> Response:
    """The recorded completion with another text; it cannot call tools."""
    if new.calls:
        raise ParameterError("a text completion cannot hold tool calls; give text alone")
    if framing(response) != "sse":
        body = json_object(response.body) or {}
        return with_json(response, _changed(body, new.text, last=True))
    events = sse.parse(response.body)
    values = [json_value(event.data) for event in events]
    holding = [i for i, v in enumerate(values) if isinstance(v, dict) and _said(v) is not None]
    spoken = [i for i in holding if _said(values[i])] or holding[:1]
    texts = dict(zip(spoken, pieces(new.text, len(spoken)), strict=False))
    out: list[sse.Event] = []
    for i, (event, value) in enumerate(zip(events, values, strict=True)):
        if isinstance(value, dict) and value.get("error"):
            continue
        if i in holding:
            changed = _changed(value, texts.get(i, ""), last=i == holding[-1])
            event = event if changed == value else sse.Event(dumps(changed), event.event, event.id)
        elif not isinstance(value, dict) and not event.terminated and event.data.strip() != "[DONE]":
            continue
        out.append(event)
    return restream(response, out)


def _said(value: Mapping[str, Any]) -> str | None:
    return text_or_none((first_choice(value) or {}).get("text"))


def _changed(body: Mapping[str, Any], text: str, last: bool) -> dict[str, Any]:
    old = first_choice(body)
    assert old is not None
    finish = text_or_none(old.get("finish_reason"))
    if last:
        finish = "stop" if finish in (None, "length", "content_filter") else finish
    choice = {**old, "text": text, "finish_reason": finish}
    if choice.get("logprobs") is not None:
        choice["logprobs"] = None
    return {**body, "choices": [choice if c is old else c for c in objs(body.get("choices"))]}
