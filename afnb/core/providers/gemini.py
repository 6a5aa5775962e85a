"""Gemini generateContent and streamGenerateContent (as events or as a JSON array)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

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
    framing,
    json_value,
    obj,
    objs,
    restream,
    text_or_none,
    usage_of,
    with_body,
    with_json,
)
from afnb.core.providers.content import part_mark

NAME = "gemini"

_PATH = re.compile(r"/models/(?P<model>[^/:]+):(generateContent|streamGenerateContent)$")
_BETWEEN = re.compile(r"[\s,]*")
_CUT = (None, "MAX_TOKENS", "SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", "OTHER", "BLOCKLIST")


def matches(method: str, path: str, body: Mapping[str, Any] | None) -> bool:
    """POST .../models/NAME:generateContent or :streamGenerateContent, of Gemini or of Vertex AI."""
    return method == "POST" and _PATH.search(path) is not None and body is not None and "contents" in body


# --- requests -----------------------------------------------------------------------------------


def turns(ask: Ask) -> list[Turn]:
    """The system instruction and the contents."""
    found: list[Turn] = []
    system = ask.body.get("systemInstruction", ask.body.get("system_instruction"))
    if system is not None:
        found.append(Turn("system", _parts_text(_parts(system))))
    contents = ask.body.get("contents")
    found += [_turn(content) for content in (contents if isinstance(contents, list) else [contents])]
    return found


def _parts(content: Json) -> list[Json]:
    if isinstance(content, str):
        return [{"text": content}]
    parts = obj(content).get("parts", [])
    return parts if isinstance(parts, list) else [parts]


def _parts_text(parts: Iterable[Json]) -> str:
    texts = [
        part if isinstance(part, str) else text_or_none(obj(part).get("text")) or part_mark(part)
        for part in parts
        if not obj(part).get("thought") and _call(part) is None and _result(part) is None
    ]
    return "\n".join(texts)


def _turn(content: Json) -> Turn:
    parts = _parts(content)
    calls = tuple(_tool_call(call) for part in parts if (call := _call(part)) is not None)
    results = tuple(_tool_result(result) for part in parts if (result := _result(part)) is not None)
    text = _parts_text(parts)
    if results and not text:
        return Turn("tool", results=results)
    return Turn("assistant" if obj(content).get("role") == "model" else "user", text, calls, results)


def _call(part: Json) -> dict[str, Any] | None:
    call = obj(part).get("functionCall", obj(part).get("function_call"))
    return call if isinstance(call, dict) else None


def _result(part: Json) -> dict[str, Any] | None:
    result = obj(part).get("functionResponse", obj(part).get("function_response"))
    return result if isinstance(result, dict) else None


def _tool_call(call: dict[str, Any]) -> ToolCall:
    return ToolCall(
        text_or_none(call.get("id")) or "", text_or_none(call.get("name")) or "", call.get("args", {})
    )


def _tool_result(result: dict[str, Any]) -> ToolResult:
    value = result.get("response")
    is_error = isinstance(value, dict) and list(value) == ["error"]
    return ToolResult(text_or_none(result.get("id")) or "", value, is_error, text_or_none(result.get("name")))


def tools(ask: Ask) -> tuple[str, ...]:
    """Names of the functions declared."""
    declared: list[dict[str, Any]] = []
    for tool in objs(ask.body.get("tools")):
        declared += objs(tool.get("functionDeclarations", tool.get("function_declarations")))
    return tuple(name for d in declared if isinstance(name := d.get("name"), str))


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
    """The request with its ``index``-th function response replaced; it stays an object."""
    is_list = isinstance(ask.body["contents"], list)
    contents = list(ask.body["contents"]) if is_list else [ask.body["contents"]]
    places = [
        (i, j) for i, c in enumerate(contents) for j, p in enumerate(_parts(c)) if _result(p) is not None
    ]
    i, j = places[index]
    parts = list(_parts(contents[i]))
    key = "functionResponse" if "functionResponse" in parts[j] else "function_response"
    old = parts[j][key].get("response")
    if not isinstance(value, dict):
        name = next(iter(old)) if isinstance(old, dict) and len(old) == 1 else "result"
        value = {"result" if name == "error" else name: value}
    parts[j] = {**parts[j], key: {**parts[j][key], "response": value}}
    contents[i] = {**contents[i], "parts": parts}
    return with_body(ask.request, {**ask.body, "contents": contents if is_list else contents[0]})


# --- answers ------------------------------------------------------------------------------------


def _chunks(response: Response) -> list[Json] | None:
    """The pieces of an answer: of an event stream, of a JSON array, or the one of a plain answer."""
    if framing(response) == "sse":
        return [json_value(event.data) for event in sse.parse(response.body)]
    value = json_value(response.body)
    if value is None and response.body.lstrip().startswith(b"["):  # a JSON array cut in mid-stream
        return _whole_elements(response.body.decode("utf-8", "replace"))
    return value if isinstance(value, list) else [value]


def _whole_elements(text: str) -> list[Json]:
    """The elements at the start of a JSON array that breaks off."""
    decoder, found, at = json.JSONDecoder(), [], text.find("[") + 1
    while (match := _BETWEEN.match(text, at)) and match.end() < len(text):
        try:
            _, at = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            break
        found.append(json_value(text[match.end() : at]))
    return found


def _candidate(chunk: Json) -> dict[str, Any] | None:
    candidates = objs(obj(chunk).get("candidates"))
    return next((c for c in candidates if c.get("index", 0) == 0), None)


def read(ask: Ask, response: Response) -> Answer | None:
    """The first candidate, plain or streamed; a blocked prompt is an empty answer that says so."""
    streamed = ask.path.endswith(":streamGenerateContent")
    text: list[str] = []
    calls: list[ToolCall] = []
    finish = error = model = None
    usage = None
    seen = False
    for chunk in _chunks(response) or []:
        if not isinstance(chunk, dict):
            continue
        if chunk.get("error"):
            error = error_text(chunk) or "an error without a message"
        model = text_or_none(chunk.get("modelVersion")) or model
        usage = usage_of(chunk.get("usageMetadata"), "promptTokenCount", "candidatesTokenCount") or usage
        finish = text_or_none(obj(chunk.get("promptFeedback")).get("blockReason")) or finish
        candidate = _candidate(chunk)
        if candidate is None:
            continue
        seen = True
        finish = text_or_none(candidate.get("finishReason")) or finish
        for part in _parts(candidate.get("content")):
            if (call := _call(part)) is not None:
                calls.append(_tool_call(call))
            elif _is_text(part):
                text.append(part["text"])
    if not seen and (finish is None or error is not None):
        return None
    return Answer(
        text="".join(text),
        tool_calls=tuple(calls),
        finish=finish,
        usage=usage,
        model=model,
        role_name=None,
        complete=error is None and not response.incomplete and (finish is not None or not streamed),
        error=error,
    )


def _is_text(part: Json) -> bool:
    return isinstance(obj(part).get("text"), str) and not part.get("thought")


def write(ask: Ask, response: Response, new: New) -> Response:
    """The recorded candidate with new text and calls; thoughts and signatures stay."""
    chunks = _chunks(response) or []
    if framing(response) == "sse":
        events = sse.parse(response.body)
        out = []
        for index, chunk in _rewritten(chunks, new):
            if index is None or chunk is not chunks[index]:
                out.append(sse.Event(dumps(chunk)))
            else:
                out.append(events[index])
        return restream(response, out)
    is_array = response.body.lstrip().startswith(b"[")
    written = [chunk for _, chunk in _rewritten(chunks, new, whole=not is_array)]
    return with_json(response, written if is_array else written[0])


def _rewritten(chunks: Sequence[Json], new: New, whole: bool = False) -> list[tuple[int | None, Json]]:
    """The chunks of the new answer, each with the recorded one it is (or comes from).

    ``whole`` says that one chunk is all there is, so that it ends the answer whatever it says.
    """
    out: list[tuple[int | None, Json]] = []
    due = _Due(new)
    for index, chunk in enumerate(chunks):
        candidate = _candidate(chunk)
        blocked = obj(obj(chunk).get("promptFeedback")).get("blockReason") is not None
        if obj(chunk).get("error") or (candidate is None and blocked):
            continue
        if candidate is None:
            out.append((index, chunk))
            continue
        parts = _parts(candidate.get("content"))
        kept = due.parts(parts)
        finish = text_or_none(candidate.get("finishReason"))
        ends = whole or finish is not None
        if ends:
            kept = [*kept, *due.rest()]
        word = finish_word(finish, new) if ends else None
        if not kept and parts and not ends and not obj(chunk).get("usageMetadata"):
            continue
        same = len(kept) == len(parts) and all(a is b for a, b in zip(kept, parts, strict=True))
        out.append((index, chunk if same and word == finish else _changed(obj(chunk), candidate, kept, word)))
    if not due.finished:
        holding = [c for c in chunks if _candidate(c) is not None]
        template = obj((holding or [c for c in chunks if isinstance(c, dict) and not c.get("error")])[0])
        candidate = _candidate(template)
        out.append(
            (
                None,
                _changed(
                    template, {} if candidate is None else candidate, due.rest(), finish_word(None, new)
                ),
            )
        )
    return out


def _changed(
    chunk: dict[str, Any], candidate: dict[str, Any], parts: list[Json], finish: str | None
) -> dict[str, Any]:
    content = {"role": "model", **obj(candidate.get("content")), "parts": parts}
    changed = {**candidate, "content": content}
    if finish is not None:
        changed["finishReason"] = finish
    candidates = [changed if c is candidate else c for c in objs(chunk.get("candidates"))] or [changed]
    rest = {k: v for k, v in chunk.items() if k != "promptFeedback"}
    return {**rest, "candidates": candidates}


class _Due:
    """New parts, put where the recorded ones stood."""

    def __init__(self, new: New) -> None:
        self.finished = False
        self._new = new
        self._text_due = new.text_changed and bool(new.text)
        self._call = 0

    def parts(self, parts: Sequence[Json]) -> list[Json]:
        """One chunk's parts, rewritten."""
        kept: list[Json] = []
        for part in parts:
            call = _call(part)
            if call is not None:
                kept += self._take_call(part, call)
            elif _is_text(part) and self._new.text_changed and part["text"]:
                if self._text_due:
                    self._text_due = False
                    kept.append({**part, "text": self._new.text})
            else:
                kept.append(part)
        return kept

    def _take_call(self, part: Json, old: dict[str, Any]) -> list[Json]:
        index = self._call
        self._call += 1
        if index >= len(self._new.calls):
            return []
        call = self._new.calls[index]
        if call.same:
            return [part]
        key = "functionCall" if "functionCall" in part else "function_call"
        return [{**part, key: {**old, "name": call.name, "args": call.arguments}}]

    def rest(self) -> list[Json]:
        """What has found no place yet."""
        self.finished = True
        parts: list[Json] = []
        if self._text_due:
            self._text_due = False
            parts.append({"text": self._new.text})
        for call in self._new.calls[self._call :]:
            given = {"id": call.id} if call.id and "#" not in call.id else {}
            parts.append({"functionCall": {**given, "name": call.name, "args": call.arguments}})
        self._call = max(self._call, len(self._new.calls))
        return parts


def finish_word(recorded: str | None, new: New) -> str:
    """Gemini stops with ``STOP`` for text and calls alike; a reason that says it was cut goes."""
    return "STOP" if recorded in _CUT or recorded is None else recorded
