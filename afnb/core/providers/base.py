"""What all providers have in common: values read from their wire shapes, and helpers to change them.

A provider module knows one wire shape. It offers the same names as every other one: ``NAME``,
``matches``, ``turns``, ``tools``, ``model``, ``replace_model``, ``replace_result``, ``read`` and
``write``; the package chooses among them and adds what does not depend on the shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from afnb.core import sse
from afnb.core.cassette import Chunk, Headers, Request, Response, header
from afnb.core.jsonvalue import Json, dumps, loads
from afnb.core.run import Warn
from afnb.errors import InputError

Role = Literal["system", "user", "assistant", "tool"]
Framing = Literal["json", "sse", "lines", "aws"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider reported them."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of an answer or of a request's history.

    ``arguments`` is a JSON value where the provider's text parses as one, else that text. Where the
    provider gives calls no id, ``id`` is made of the tool's name and the call's number in the
    conversation (``get_weather#0``).
    """

    id: str
    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class ToolResult:
    """One tool result that a request carries; ``value`` is JSON where the text parses, else the text."""

    call_id: str
    value: Json
    is_error: bool = False
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a request, whatever the provider calls it."""

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model answered.

    Parameters
    ----------
    text
        All visible text, empty if there is none.
    tool_calls
        The calls that the agent is asked to run, in order.
    finish
        The provider's own word for why it stopped, None if it never said.
    usage
        Tokens, None if not reported.
    model
        The model that answered.
    role_name
        The agent's name, where the request gives one.
    complete
        False for a stream that stopped before its end or ended in an error.
    server_calls
        Calls that the provider ran itself (web search, code execution).
    error
        The provider's error message that cut the answer short.
    notes
        What is odd about it: ``incomplete``, ``provider_error``, ``no_end_marker``, ``text_differs``.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish: str | None
    usage: Usage | None
    model: str | None
    role_name: str | None
    complete: bool
    server_calls: tuple[ToolCall, ...] = ()
    error: str | None = None
    notes: tuple[Warn, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A model request, parsed once. ``body`` is never changed in place."""

    request: Request
    path: str
    query: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewCall:
    """A tool call to write; ``same`` if the recorded call at its position is equal."""

    id: str
    name: str
    arguments: Json
    same: bool


@dataclass(frozen=True, slots=True)
class New:
    """What to write into a recorded answer. ``recorded_calls`` is how many calls it had."""

    text: str
    text_changed: bool
    calls: tuple[NewCall, ...]
    recorded_calls: int

    @property
    def calls_changed(self) -> bool:
        """Whether any call is added, dropped or different."""
        return len(self.calls) != self.recorded_calls or not all(c.same for c in self.calls)


class Provider(Protocol):
    """The names every provider module offers."""

    NAME: str

    def matches(self, method: str, path: str, body: Mapping[str, Any] | None) -> bool:
        """Whether this module reads such requests."""

    def turns(self, ask: Ask) -> Iterable[Turn]:
        """The messages of the request; ids that the provider leaves out are empty."""

    def tools(self, ask: Ask) -> tuple[str, ...]:
        """Names of the tools offered."""

    def model(self, ask: Ask) -> str | None:
        """The model asked for."""

    def replace_model(self, ask: Ask, model: str) -> Request:
        """The request, asking another model."""

    def replace_result(self, ask: Ask, index: int, value: Json) -> Request:
        """The request with its ``index``-th tool result replaced."""

    def read(self, ask: Ask, response: Response) -> Answer | None:
        """The answer; None if there is none in it."""

    def write(self, ask: Ask, response: Response, new: New) -> Response:
        """The recorded answer with new text and calls."""


_MAY_BE_JSON = re.compile(r'[ \t\n\r]*[\[{"0-9tfn-]')

# --- JSON ---------------------------------------------------------------------------------------


def json_object(data: bytes | str) -> dict[str, Any] | None:
    """A JSON object, or None if the bytes are something else."""
    value = json_value(data)
    return value if isinstance(value, dict) else None


def json_value(data: bytes | str) -> Json:
    """A JSON value, or None if the bytes are none (or null)."""
    if isinstance(data, bytes):
        data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return loads(data)
    except InputError:
        return None


def parsed_or_text(text: Json) -> Json:
    """A JSON value where ``text`` is one, else ``text`` itself (which may be a value already)."""
    if not isinstance(text, str) or not _MAY_BE_JSON.match(text):
        return text
    try:
        return loads(text)
    except InputError:
        return text


def body_bytes(body: Json) -> bytes:
    """Compact UTF-8 JSON."""
    return dumps(body).encode("utf-8")


def with_body(request: Request, body: Json) -> Request:
    """The request with another JSON body; a recorded length no longer holds."""
    return replace(request, body=body_bytes(body), headers=without_length(request.headers))


def without_length(headers: Headers) -> Headers:
    """Headers without those that describe the old bytes."""
    return tuple((k, v) for k, v in headers if k.lower() not in ("content-length", "content-encoding"))


def obj(value: Json) -> dict[str, Any]:
    """``value`` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objs(value: Json) -> list[dict[str, Any]]:
    """The objects in ``value`` if it is an array."""
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def text_or_none(value: Json) -> str | None:
    """``value`` if it is text, else None."""
    return value if isinstance(value, str) else None


def usage_of(value: Json, input_key: str, output_key: str) -> Usage | None:
    """Usage from two integer fields; None unless both are there."""
    usage = obj(value)
    read, written = usage.get(input_key), usage.get(output_key)
    if type(read) is not int or type(written) is not int:
        return None
    return Usage(read, written)


def error_text(value: Json) -> str | None:
    """The sentence of a provider's error object, however it is wrapped; None if there is none."""
    if isinstance(value, dict):
        inner = value.get("error")
        if isinstance(inner, dict | str) and inner:
            return error_text(inner)
        kinds = (value.get(key) for key in ("type", "status", "code"))
        kind = next((k for k in kinds if isinstance(k, str) and k not in ("", "error")), None)
        message = text_or_none(value.get("message"))
        if message is None:
            return kind
        return f"{kind}: {message}" if kind else message
    return value if isinstance(value, str) and value else None


# --- streams ------------------------------------------------------------------------------------


def framing(response: Response) -> Framing:
    """How the body is framed, by content type, else by its first bytes."""
    content_type = (header(response.headers, "content-type") or "").lower()
    if "text/event-stream" in content_type:
        return "sse"
    if "ndjson" in content_type or "jsonl" in content_type:
        return "lines"
    if "vnd.amazon.eventstream" in content_type:
        return "aws"
    start = response.body[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith((b"data:", b"event:", b": ", b"id:")):
        return "sse"
    return "json"


def pieces(text: str, count: int) -> list[str]:
    """``text`` in at most ``count`` (at least one) parts of about the same length."""
    size = max(1, -(-len(text) // max(1, count)))
    return [text[i : i + size] for i in range(0, len(text), size)] or [""]


def restream(response: Response, events: Sequence[sse.Event], *, lines: bool = False) -> Response:
    """The response with these events as its body, arriving at the recorded pace."""
    write = sse.serialise_lines if lines else sse.serialise
    parts = [write([event]) for event in events]
    return with_parts(response, parts)


def with_parts(response: Response, parts: Sequence[bytes]) -> Response:
    """The response with a body of these parts, spread over the recorded arrival times."""
    chunks = None
    if response.chunks is not None:
        times = [chunk.ms for chunk in response.chunks] or [0.0]
        last = len(times) - 1
        chunks = tuple(
            Chunk(times[min(last, i * len(times) // max(1, len(parts)))], part)
            for i, part in enumerate(parts)
        )
    return replace(
        response,
        body=b"".join(parts),
        chunks=chunks,
        incomplete=False,
        headers=without_length(response.headers),
    )


def with_json(response: Response, body: Json) -> Response:
    """The response with another JSON body."""
    return with_parts(response, [body_bytes(body)])
