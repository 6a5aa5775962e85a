"""Amazon Bedrock: converse and converse-stream, and invoke with an Anthropic body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import Json
from afnb.core.providers import anthropic
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
from afnb.core.providers.bedrock_stream import (
    finish_word,
    invoke_events,
    kind_of,
    new_block,
    read_blocks,
    rewrite,
    rewrite_invoke,
)
from afnb.core.providers.changes import plan
from afnb.core.providers.content import part_mark, value_text

NAME = "bedrock"

_PATH = re.compile(
    r"/model/(?P<model>[^/]+)/(?P<verb>converse|converse-stream|invoke|invoke-with-response-stream)$"
)


def matches(method: str, path: str, body: Mapping[str, Any] | None) -> bool:
    """POST .../model/NAME/converse(-stream), or invoke(-with-response-stream) of an Anthropic model."""
    found = _PATH.search(path)
    if method != "POST" or found is None or body is None or not isinstance(body.get("messages"), list):
        return False
    return found["verb"].startswith("converse") or "anthropic_version" in body


def _verb(ask: Ask) -> str:
    found = _PATH.search(ask.path)
    return found["verb"] if found else ""


def _invokes(ask: Ask) -> bool:
    return _verb(ask).startswith("invoke")


# --- requests -----------------------------------------------------------------------------------


def turns(ask: Ask) -> list[Turn]:
    """The system texts and the messages."""
    if _invokes(ask):
        return list(anthropic.turns(ask))
    system = [block["text"] for block in objs(ask.body.get("system")) if isinstance(block.get("text"), str)]
    found = [Turn("system", "\n".join(system))] if system else []
    return found + [_turn(message) for message in objs(ask.body.get("messages"))]


def _turn(message: dict[str, Any]) -> Turn:
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for block in objs(message.get("content")):
        if isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif isinstance(block.get("toolUse"), dict):
            calls.append(_call(block["toolUse"]))
        elif isinstance(block.get("toolResult"), dict):
            result = block["toolResult"]
            call_id, failed = text_or_none(result.get("toolUseId")) or "", result.get("status") == "error"
            results.append(ToolResult(call_id, _result_value(result.get("content")), failed))
        elif "reasoningContent" not in block and "cachePoint" not in block:
            texts.append(part_mark(block))
    if results and not texts:
        return Turn("tool", results=tuple(results))
    role = "assistant" if message.get("role") == "assistant" else "user"
    return Turn(
        "assistant" if role == "assistant" else "user", "\n".join(texts), tuple(calls), tuple(results)
    )


def _call(use: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        text_or_none(use.get("toolUseId")) or "", text_or_none(use.get("name")) or "", use.get("input", {})
    )


def _result_value(content: Json) -> Json:
    blocks = objs(content)
    if len(blocks) == 1 and "json" in blocks[0]:
        return blocks[0]["json"]
    if all(isinstance(block.get("text"), str) for block in blocks):
        return parsed_or_text("\n".join(block["text"] for block in blocks))
    return content


def tools(ask: Ask) -> tuple[str, ...]:
    """Names of the tools offered; cache points among them have none."""
    if _invokes(ask):
        return anthropic.tools(ask)
    specs = [obj(tool.get("toolSpec")) for tool in objs(obj(ask.body.get("toolConfig")).get("tools"))]
    return tuple(name for spec in specs if isinstance(name := spec.get("name"), str))


def model(ask: Ask) -> str | None:
    """The model named in the path."""
    found = _PATH.search(ask.path)
    return unquote(found["model"]) if found else None


def replace_model(ask: Ask, model: str) -> Request:
    """The request, with another model in its path."""
    found = _PATH.search(ask.path)
    assert found is not None
    path = ask.path[: found.start("model")] + quote(model, safe="") + ask.path[found.end("model") :]
    return replace(ask.request, path=path + (f"?{ask.query}" if ask.query else ""))


def replace_result(ask: Ask, index: int, value: Json) -> Request:
    """The request with its ``index``-th tool result replaced; it is no error any more."""
    if _invokes(ask):
        return anthropic.replace_result(ask, index, value)
    messages: list[Json] = list(ask.body["messages"])
    places = [
        (i, j)
        for i, message in enumerate(messages)
        for j, block in enumerate(_blocks(message))
        if isinstance(obj(block).get("toolResult"), dict)
    ]
    i, j = places[index]
    blocks = list(_blocks(messages[i]))
    result = {k: v for k, v in blocks[j]["toolResult"].items() if not (k == "status" and v == "error")}
    old = objs(result.get("content"))
    was_json = len(old) == 1 and "json" in old[0]
    content: dict[str, Json] = {"json": value}
    if not was_json or not isinstance(value, dict):
        texts = [block["text"] for block in old if isinstance(block.get("text"), str)]
        content = {"text": value_text(value, texts[0] if texts and len(texts) == len(old) else None)}
    blocks[j] = {**blocks[j], "toolResult": {**result, "content": [content]}}
    messages[i] = {**messages[i], "content": blocks}
    return with_body(ask.request, {**ask.body, "messages": messages})


def _blocks(message: Json) -> list[Json]:
    content = obj(message).get("content")
    return content if isinstance(content, list) else []


# --- answers ------------------------------------------------------------------------------------


def read(ask: Ask, response: Response) -> Answer | None:
    """The message, plain or as frames."""
    if _invokes(ask):
        if framing(response) == "aws":
            return anthropic.read_events(invoke_events(response), complete=not response.incomplete)
        return anthropic.read(ask, response)
    if framing(response) == "aws":
        stream = read_blocks(response)
        if not stream.blocks and (stream.error is not None or not stream.stopped):
            return None
        answer = _answer([block.whole() for block in stream.blocks], stream.stop_reason, stream.usage)
        whole = stream.stopped and stream.error is None and not response.incomplete
        return replace(answer, complete=whole, error=stream.error)
    body = json_object(response.body)
    content = obj(obj(obj(body).get("output")).get("message")).get("content")
    if body is None or not isinstance(content, list):
        return None
    answer = _answer(content, body.get("stopReason"), body.get("usage"))
    return replace(answer, complete=not response.incomplete)


def _answer(content: list[Json], stop: Json, usage: Json) -> Answer:
    blocks = objs(content)
    return Answer(
        text="".join(block["text"] for block in blocks if isinstance(block.get("text"), str)),
        tool_calls=tuple(_call(b["toolUse"]) for b in blocks if isinstance(b.get("toolUse"), dict)),
        finish=text_or_none(stop),
        usage=usage_of(usage, "inputTokens", "outputTokens"),
        model=None,
        role_name=None,
        complete=True,
    )


def write(ask: Ask, response: Response, new: New) -> Response:
    """The recorded message with new text and calls; reasoning stays."""
    if _invokes(ask):
        return (
            rewrite_invoke(ask, response, new)
            if framing(response) == "aws"
            else anthropic.write(ask, response, new)
        )
    if framing(response) == "aws":
        return rewrite(ask, response, new)
    body = dict(json_object(response.body) or {})
    message = body["output"]["message"]
    blocks = message["content"]
    content = [
        blocks[put.block] if put.what == "keep" else new_block(ask, blocks, put, new)
        for put in plan([kind_of(block) for block in blocks], new)
    ]
    body["output"] = {**body["output"], "message": {**message, "content": content}}
    body["stopReason"] = finish_word(text_or_none(body.get("stopReason")), new)
    return with_json(response, body)
