"""Answers in a provider's own shape, made from plain values: for scripted and simulated providers.

``Say`` and ``Call`` are what a made-up model says; ``emit`` writes them as the JSON or the event stream
that the request asks for, in the shape its path belongs to (OpenAI chat completions and responses,
Anthropic messages, Gemini), so that the official SDKs accept it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afnb.core.cassette import Chunk, Request, Response
from afnb.core.jsonvalue import dumps, loads
from afnb.errors import UpstreamError
from afnb.io.answers_more import gemini_answer, gemini_model, responses_answer

JSON = (("content-type", "application/json"),)
SSE = (("content-type", "text/event-stream; charset=utf-8"),)
ID_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
WHOLE_CALLS = re.compile(r"(mistral|ministral|codestral|magistral|devstral|pixtral)")  # names of such models
CREATED = 1_767_225_600  # a fixed date: an answer must not depend on the clock


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call that a made-up model asks for; ``id`` is drawn from the seed if it is None."""

    name: str
    arguments: Any
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Say:
    """One answer of a made-up model: text, tool calls, and how it ended (found from these if None)."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: str | None = None
    model: str | None = None


def shape_of(request: Request) -> str | None:
    """``openai.chat``, ``openai.responses``, ``anthropic.messages`` or ``gemini`` by the path, else None.

    Examples
    --------
    >>> shape_of(Request("POST", "/v1/messages?beta=true"))
    'anthropic.messages'
    """
    path = request.path.partition("?")[0].rstrip("/")
    if request.method.upper() != "POST":
        return None
    if path.endswith("/chat/completions"):
        return "openai.chat"
    if path.endswith("/responses"):
        return "openai.responses"
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return "gemini"
    return "anthropic.messages" if path.endswith("/messages") else None


def body_of(request: Request) -> dict[str, Any]:
    """The request's JSON object, or an empty one."""
    try:
        value = loads(request.body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def answer_of(request: Request, value: Any, seed: int) -> Response:
    """Make a response of what a script or a function gave.

    Parameters
    ----------
    value
        A ``Response``; a text, ``Say``, ``Call`` or list of calls (the model's answer in the request's
        shape); a JSON value (status 200); a pair of status and JSON value; an exception, which is raised.
    seed
        For the ids in the answer.

    Raises
    ------
    UpstreamError
        ``value`` is an exception, or none of these.

    Examples
    --------
    >>> answer_of(Request("GET", "/v1/models"), (404, {"error": "none"}), 0).status
    404
    """
    if isinstance(value, Response):
        return value
    if isinstance(value, UpstreamError):
        raise value
    if isinstance(value, BaseException):
        raise UpstreamError(f"{type(value).__name__}: {value}") from value
    said = as_say(value)
    if said is not None:
        return emit(request, said, random.Random(seed))
    status, body = 200, value
    if isinstance(value, tuple) and len(value) == 2 and type(value[0]) is int:
        status, body = value
    if isinstance(body, (Mapping, list)) or body is None:
        try:
            return Response(status, JSON, dumps(body).encode())
        except (TypeError, ValueError) as error:
            raise UpstreamError(f"an upstream's answer is not a JSON value: {error}") from None
    raise UpstreamError(
        f"an upstream answered with {type(value).__name__}; expected a Response, a text, a Say, a Call or a "
        "list of calls, a JSON object, or a pair of status and JSON value"
    )


def as_say(value: Any) -> Say | None:
    """``value`` as a model's answer: a text, a ``Say``, a ``Call`` or a list of calls; else None."""
    if isinstance(value, Say):
        return value
    if isinstance(value, str):
        return Say(text=value)
    if isinstance(value, Call):
        return Say(calls=(value,))
    if isinstance(value, Sequence) and value and all(isinstance(item, Call) for item in value):
        return Say(calls=tuple(value))
    return None


def emit(request: Request, say: Say, rng: random.Random, *, pace_ms: float = 0.0) -> Response:
    """Write ``say`` as the answer to ``request``: JSON, or an event stream where it asks for one.

    Ids are drawn from ``rng``; usage counts are a made-up four characters a token. ``pace_ms`` is the
    time between two events of a stream.
    """
    shape, body = shape_of(request), body_of(request)
    if shape is None:
        return error(
            request, 404, f"{request.method} {request.path} is no model request that is simulated here"
        )
    said = _with_ids(say, rng, "toolu_" if shape == "anthropic.messages" else "call_")
    model = say.model or str(body.get("model") or gemini_model(request))
    counts = (max(1, len(request.body) // 4), max(1, (len(say.text) + len(dumps(_plain(said.calls)))) // 4))
    whole, events = _WRITERS[shape](said, model, counts, rng, body)
    if body.get("stream") is not True and ":streamGenerateContent" not in request.path:
        return Response(200, JSON, dumps(whole).encode())
    pieces = [event.encode() for event in events()]
    chunks = tuple(Chunk(i * pace_ms, piece) for i, piece in enumerate(pieces))
    return Response(200, SSE, b"".join(pieces), chunks)


def error(request: Request, status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """An HTTP error in the shape of the provider that the request's path belongs to."""
    kind = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}.get(status)
    kind = kind or {429: "rate_limit_error", 529: "overloaded_error"}.get(status, "api_error")
    body: dict[str, Any] = {"error": {"type": kind, "message": message}}
    if shape_of(request) == "anthropic.messages":
        body = {"type": "error", **body}
    else:
        body["error"] |= {"param": None, "code": None}
    return Response(status, JSON + headers, dumps(body).encode())


def _with_ids(say: Say, rng: random.Random, prefix: str) -> Say:
    calls = tuple(Call(c.name, c.arguments, c.id or prefix + _letters(rng, 24)) for c in say.calls)
    return Say(say.text, calls, say.finish, say.model)


def _letters(rng: random.Random, count: int) -> str:
    return "".join(rng.choices(ID_LETTERS, k=count))


def _plain(calls: tuple[Call, ...]) -> list[Any]:
    return [[call.name, call.arguments] for call in calls]


def _pieces(text: str) -> list[str]:
    return re.findall(r"\s*\S+\s*?(?=\s|$)|\s+$", text) if text.strip() else [text] if text else []


def _slices(text: str, size: int = 12) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


_Written = tuple[dict[str, Any], Callable[[], list[str]]]


def _chat(
    say: Say, model: str, counts: tuple[int, int], rng: random.Random, body: dict[str, Any]
) -> _Written:
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": dumps(c.arguments)}}
        for c in say.calls
    ]
    finish = say.finish or ("tool_calls" if calls else "stop")
    usage = {"prompt_tokens": counts[0], "completion_tokens": counts[1], "total_tokens": sum(counts)}
    head = {"id": "chatcmpl-" + _letters(rng, 29), "created": CREATED, "model": model}
    message: dict[str, Any] = {"role": "assistant", "content": say.text or (None if calls else "")}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}

    def events() -> list[str]:
        deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
        deltas += [({"content": piece}, None) for piece in _pieces(say.text)]
        for i, call in enumerate(calls):
            function: Any = call["function"]
            if WHOLE_CALLS.match(model):
                deltas.append(({"tool_calls": [{"index": i, **call}]}, None))
                continue
            deltas.append(
                ({"tool_calls": [{"index": i, **call, "function": {**function, "arguments": ""}}]}, None)
            )
            for piece in _slices(function["arguments"]):
                deltas.append(({"tool_calls": [{"index": i, "function": {"arguments": piece}}]}, None))
        deltas.append(({}, finish))
        base = {**head, "object": "chat.completion.chunk"}
        out = [
            {**base, "choices": [{"index": 0, "delta": d, "logprobs": None, "finish_reason": f}]}
            for d, f in deltas
        ]
        if isinstance(body.get("stream_options"), dict) and body["stream_options"].get("include_usage"):
            out.append({**base, "choices": [], "usage": usage})
        return [f"data: {dumps(event)}\n\n" for event in out] + ["data: [DONE]\n\n"]

    return whole, events


def _messages(
    say: Say, model: str, counts: tuple[int, int], rng: random.Random, body: dict[str, Any]
) -> _Written:
    content: list[dict[str, Any]] = [{"type": "text", "text": say.text}] if say.text or not say.calls else []
    content += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in say.calls]
    finish = say.finish or ("tool_use" if say.calls else "end_turn")
    head = {"id": "msg_" + _letters(rng, 24), "type": "message", "role": "assistant", "model": model}
    usage = {"input_tokens": counts[0], "output_tokens": counts[1]}
    whole = {**head, "content": content, "stop_reason": finish, "stop_sequence": None, "usage": usage}

    def events() -> list[str]:
        start = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        out: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
        for i, block in enumerate(content):
            text = block["type"] == "text"
            empty = {**block, "text": ""} if text else {**block, "input": {}}
            out.append({"type": "content_block_start", "index": i, "content_block": empty})
            for piece in _pieces(block["text"]) if text else _slices(dumps(block["input"])):
                delta = {"type": "text_delta", "text": piece} if text else None
                delta = delta or {"type": "input_json_delta", "partial_json": piece}
                out.append({"type": "content_block_delta", "index": i, "delta": delta})
            out.append({"type": "content_block_stop", "index": i})
        ending = {"stop_reason": finish, "stop_sequence": None}
        out.append({"type": "message_delta", "delta": ending, "usage": {"output_tokens": counts[1]}})
        out.append({"type": "message_stop"})
        return [f"event: {event['type']}\ndata: {dumps(event)}\n\n" for event in out]

    return whole, events


def _responses(
    say: Say, model: str, counts: tuple[int, int], rng: random.Random, body: dict[str, Any]
) -> _Written:
    calls = [(str(c.id), c.name, c.arguments) for c in say.calls]
    return responses_answer(say.text, calls, _cut, model, counts, rng, CREATED)


def _gemini(
    say: Say, model: str, counts: tuple[int, int], rng: random.Random, body: dict[str, Any]
) -> _Written:
    calls = [(str(c.id), c.name, c.arguments) for c in say.calls]
    return gemini_answer(say.text, calls, _pieces, model, counts, rng)


def _cut(text: str) -> list[str]:
    return _slices(text) if text[:1] == "{" else _pieces(text)


_WRITERS = {
    "openai.chat": _chat,
    "openai.responses": _responses,
    "anthropic.messages": _messages,
    "gemini": _gemini,
}
