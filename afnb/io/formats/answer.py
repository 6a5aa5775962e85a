"""One answer of a provider without its request: plain JSON, an event stream, or one event's JSON a line.

Such files are fixtures and log excerpts. They are read and shown like any recording of one exchange. Who
was asked is told by the shape; what was asked is not in the file, so that no replay can ask for it again.
"""

from __future__ import annotations

from typing import Any

from afnb.core import sse
from afnb.core.cassette import Cassette, Exchange, Headers, Request, Response
from afnb.core.jsonvalue import MISSING, Json, dumps, loads
from afnb.core.run import Warn
from afnb.errors import InputError
from afnb.io.formats.source import Found, Source

JSON: Headers = (("content-type", "application/json"),)
SSE: Headers = (("content-type", "text/event-stream"),)
LINES: Headers = (("content-type", "application/x-ndjson"),)
ASKED = {"/v1/responses": "input", "/v1beta": "contents"}
ANTHROPIC = ("message_start", "message_delta", "message_stop", "content_block_", "ping")
ERROR_KEYS = frozenset({"error", "type", "request_id"})
UNKNOWN = Warn(
    "request_unknown", "the file holds an answer and not its request: nothing can ask for it again"
)


def detect(source: Source) -> Found:
    """Whether a file is one answer of a provider."""
    return Found(1.0 if _path(_first(source)) is not None else 0.0)


def load(source: Source) -> Cassette:
    """A recording of one exchange, with a warning that its request is unknown.

    Raises
    ------
    InputError
        A line before the last is no JSON (its number is in the message), or no provider's shape is found.
    """
    warnings = [UNKNOWN]
    first = _first(source)
    path = _path(first)
    if path is None:
        raise InputError("found no answer of a provider that afnb knows", path=source.path)
    if source.json is not MISSING:
        response = Response(_status(first), JSON, source.data)
    elif _is_sse(source.data):
        response = Response(200, SSE, source.data)
        path = _streaming(path)
    else:
        response = _from_lines(source, path, warnings)
        path = _streaming(path)
    asked = next((name for start, name in ASKED.items() if path.startswith(start)), "messages")
    body = dumps({"model": _model(first) or "unknown", asked: []}).encode()
    exchange = Exchange(0, Request("POST", path, JSON, body), response)
    return Cassette(source.stem or "answer", (exchange,), warnings=tuple(warnings), source=source.path)


def _from_lines(source: Source, path: str, warnings: list[Warn]) -> Response:
    """The stream that a file of one event a line was taken from."""
    lines = source.data.split(b"\n")
    parts: list[bytes] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        try:
            value = loads(text)
        except InputError as error:
            if number == len(lines):
                warnings.append(Warn("torn_line", "the last line was cut off; its event is lost"))
                break
            raise InputError(error.message, path=source.path, line=number) from None
        kind = value.get("type") if isinstance(value, dict) else None
        name = f"event: {kind}\n" if isinstance(kind, str) and path in NAMED else ""
        parts.append(text + b"\n" if path == OLLAMA else name.encode() + b"data: " + text + b"\n\n")
    return Response(200, LINES if path == OLLAMA else SSE, b"".join(parts))


OLLAMA = "/api/chat"
NAMED = ("/v1/messages", "/v1/responses")


def _is_sse(data: bytes) -> bool:
    return data[:64].removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"data:", b"event:", b": "))


def _first(source: Source) -> Json:
    """The answer, or its first event; None where there is none."""
    if source.json is not MISSING:
        return source.json
    if source.first_line is not MISSING:
        return source.first_line
    if _is_sse(source.data):
        for event in sse.parse(source.data)[:8]:
            try:
                return loads(event.data)
            except InputError:
                continue
    return None


def _path(value: Json) -> str | None:
    """Where a request is sent whose answer looks so."""
    if not isinstance(value, dict):
        return None
    kind, what = value.get("type"), value.get("object")
    if (isinstance(kind, str) and kind.startswith("response.")) or what == "response":
        return "/v1/responses"
    if isinstance(kind, str) and kind.startswith(ANTHROPIC):
        return "/v1/messages"
    if kind == "message" and value.get("role") == "assistant" and "stop_reason" in value:
        return "/v1/messages"
    if what in ("chat.completion", "chat.completion.chunk") and isinstance(value.get("choices"), list):
        return "/v1/chat/completions"
    if isinstance(value.get("candidates"), list):
        return f"/v1beta/models/{value.get('modelVersion', 'unknown')}:generateContent"
    if isinstance(value.get("message"), dict) and isinstance(value.get("done"), bool):
        return OLLAMA
    return _path_of_error(value)


def _path_of_error(value: dict[str, Any]) -> str | None:
    error = value.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("message"), str) or set(value) - ERROR_KEYS:
        return None
    if value.get("type") == "error":
        return "/v1/messages"
    if isinstance(error.get("code"), int) and isinstance(error.get("status"), str):
        return "/v1beta/models/unknown:generateContent"
    return "/v1/chat/completions" if "type" in error else None


def _streaming(path: str) -> str:
    return path.replace(":generateContent", ":streamGenerateContent?alt=sse")


def _status(value: Json) -> int:
    """200, or for an error the status that it states, else 400."""
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return 200
    code = error.get("code")
    return code if isinstance(code, int) and 400 <= code <= 599 else 400


def _model(value: Json) -> str | None:
    fields = value if isinstance(value, dict) else {}
    inner = [
        fields,
        *(fields[name] for name in ("message", "response") if isinstance(fields.get(name), dict)),
    ]
    return next((one["model"] for one in inner if isinstance(one.get("model"), str)), None)
