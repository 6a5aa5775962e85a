"""OpenAI responses: answers made of typed items, plain, streamed or asked for later."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import Json
from afnb.core.providers.base import (
    Answer,
    Ask,
    New,
    ToolResult,
    Turn,
    framing,
    json_object,
    obj,
    objs,
    text_or_none,
    with_body,
    with_json,
)
from afnb.core.providers.content import content_text, replace_content, result_value
from afnb.core.providers.openai_responses_items import (
    CALL_FIELDS,
    answer_of,
    call_of,
    rewritten,
)
from afnb.core.providers.openai_responses_stream import read_stream, rewrite

NAME = "openai-responses"

_LATER = re.compile(r"/responses/[^/]+$")
_NOT_YET = ("queued", "in_progress")


def matches(method: str, path: str, body: Mapping[str, Any] | None) -> bool:
    """POST .../responses, or GET of an answer that was asked for in the background."""
    if method == "GET":
        return _LATER.search(path) is not None and body is None
    return (
        method == "POST"
        and path.endswith("/responses")
        and body is not None
        and any(key in body for key in ("input", "prompt", "previous_response_id"))
    )


# --- requests -----------------------------------------------------------------------------------


def turns(ask: Ask) -> list[Turn]:
    """The instructions and the input items; neighbouring items of the model are one turn each."""
    found: list[Turn] = []
    if isinstance(ask.body.get("instructions"), str):
        found.append(Turn("system", ask.body["instructions"]))
    value = ask.body.get("input")
    if isinstance(value, str):
        found.append(Turn("user", value))
    elif isinstance(value, list):
        found += [turn for item in value if (turn := _turn(item)) is not None]
    return found


def _turn(item: Json) -> Turn | None:
    if not isinstance(item, dict):
        return Turn("user", content_text([item]))
    kind = text_or_none(item.get("type", "message"))
    if kind in CALL_FIELDS:
        return Turn("assistant", calls=(call_of(item),))
    if _is_result(item):
        return Turn("tool", results=(ToolResult(_result_id(item), result_value(item.get("output"))),))
    if kind in ("reasoning", "item_reference"):
        return None
    if kind != "message":
        return Turn("assistant", content_text([item]))
    role, text = item.get("role"), content_text(item.get("content"))
    if role in ("system", "developer"):
        return Turn("system", text)
    return Turn("assistant" if role == "assistant" else "user", text)


def _is_result(item: Json) -> bool:
    kind = obj(item).get("type")
    return isinstance(kind, str) and kind.endswith("_call_output")


def _result_id(item: dict[str, Any]) -> str:
    return text_or_none(item.get("call_id")) or text_or_none(item.get("id")) or ""


def tools(ask: Ask) -> tuple[str, ...]:
    """Names of the functions and custom tools offered (not of tools that OpenAI runs)."""
    names = [
        tool.get("name") for tool in objs(ask.body.get("tools")) if tool.get("type") in ("function", "custom")
    ]
    return tuple(name for name in names if isinstance(name, str))


def model(ask: Ask) -> str | None:
    """The model asked for."""
    return text_or_none(ask.body.get("model"))


def replace_model(ask: Ask, model: str) -> Request:
    """The request, asking another model; an answer asked for later was given its model before."""
    if ask.request.method.upper() == "GET":
        return ask.request
    return with_body(ask.request, {**ask.body, "model": model})


def replace_result(ask: Ask, index: int, value: Json) -> Request:
    """The request with its ``index``-th call output replaced."""
    items: list[Json] = list(ask.body["input"])
    place = [i for i, item in enumerate(items) if _is_result(item)][index]
    items[place] = {**items[place], "output": replace_content(items[place].get("output"), value)}
    return with_body(ask.request, {**ask.body, "input": items})


# --- answers ------------------------------------------------------------------------------------


def read(ask: Ask, response: Response) -> Answer | None:
    """The answer's items, plain or streamed; None while it is still being made."""
    if framing(response) == "sse":
        return read_stream(response)
    body = json_object(response.body)
    if body is None or not isinstance(body.get("output"), list) or body.get("status") in _NOT_YET:
        return None
    if body.get("status") == "failed" and not body["output"]:
        return None
    return answer_of(body, complete=not response.incomplete)


def write(ask: Ask, response: Response, new: New) -> Response:
    """The recorded answer with new text and calls; reasoning and hosted tools stay."""
    if framing(response) == "sse":
        return rewrite(ask, response, new)
    return with_json(response, rewritten(ask, json_object(response.body) or {}, new))
