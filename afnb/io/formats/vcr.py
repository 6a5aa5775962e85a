"""VCR cassettes (YAML or JSON) as cassettes: VCR.py in all its serialisers, and Ruby's VCR.

Seen and read: ``interactions`` of request and response; ``requests`` beside ``responses``;
``http_interactions``. Bodies as text, bytes, ``string``, ``base64_string``, ``content`` or
``parsed_body``. What the layout does not say is not made up: there are times only where a response has a
``date`` header or the file says when it was recorded, and no outcome.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from afnb.core.cassette import Cassette, Exchange, Headers, Request, Response
from afnb.core.jsonvalue import dumps, type_name
from afnb.core.run import Warn
from afnb.errors import InputError
from afnb.io.decode import FOUND, decode_body
from afnb.io.formats.source import Found, Source
from afnb.io.formats.yamlread import as_json, read_yaml
from afnb.io.redact import allowed_headers, mask_query

_TOP_KEY = re.compile(rb"^(interactions|http_interactions|requests|responses) *:", re.MULTILINE)
_ORIGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?#@]*@)?([^/?#]*)")


def detect(source: Source) -> Found:
    """Whether a file is a VCR cassette."""
    if isinstance(source.json, dict):
        keys = set(source.json)
    else:
        keys = {match[1].decode() for match in _TOP_KEY.finditer(source.data)}
    if keys & {"interactions", "http_interactions"} or {"requests", "responses"} <= keys:
        return Found(1.0)
    if source.name.endswith((".yaml", ".yml")):
        return Found(0.3, "it has no interactions")
    return Found(0.0)


@dataclass
class _Notes:
    """What was found on the way and is worth telling, counted."""

    path: str | None
    counts: Counter[str] = field(default_factory=Counter)

    def warnings(self) -> tuple[Warn, ...]:
        return tuple(Warn(code, f"{n} times: {_MEANING[code]}") for code, n in sorted(self.counts.items()))


_MEANING = {
    **FOUND,
    "content_type_guessed": "a response's content-type was missing or masked; it was told from the body",
    "rebuilt_body": "a body was stored as parsed JSON; its bytes are written anew, so spaces may differ",
    "uri_masked": "a request's address was masked when it was recorded; the exchange cannot be matched",
    "unknown_version": "the file states a VCR version that afnb does not know",
}


def load(source: Source) -> Cassette:
    """The cassette in a VCR file; ``upstream`` of each exchange is the origin it was sent to.

    Raises
    ------
    InputError
        The file cannot be read, holds WebSocket frames, or an interaction has the wrong form; the
        message names its position.
    MissingDependency
        PyYAML is not installed.
    """
    path = source.path
    value = source.json if isinstance(source.json, dict) else read_yaml(source.data, path)
    if not isinstance(value, dict):
        raise InputError(f"found {_a(value)}, expected a VCR cassette (interactions)", path=path)
    notes = _Notes(path)
    if value.get("version", 1) not in (1, "1"):
        notes.counts["unknown_version"] += 1
    exchanges = tuple(
        _exchange(i, request, response, recorded_at, notes)
        for i, (request, response, recorded_at) in enumerate(_pairs(value, path))
    )
    return Cassette(source.stem or "vcr", exchanges, warnings=notes.warnings(), source=path)


def _a(value: Any) -> str:
    return "nothing" if value is None else f"a YAML or JSON {type_name(value)}"


def _pairs(value: dict[str, Any], path: str | None) -> Iterable[tuple[Any, Any, Any]]:
    key = "http_interactions" if "http_interactions" in value else "interactions"
    if key in value:
        found = value[key]
        if found is None:
            return []
        if not isinstance(found, list):
            raise InputError(f"{key}: found {_a(found)}, expected a list", path=path)
        return [_pair(one, i, path) for i, one in enumerate(found)]
    requests, responses = value.get("requests"), value.get("responses")
    if not isinstance(requests, list) or not isinstance(responses, list):
        raise InputError("found no interactions, expected a list of them", path=path)
    if len(requests) != len(responses):
        raise InputError(
            f"found {len(requests)} requests and {len(responses)} responses, expected as many of each; "
            "the file was cut off or edited",
            path=path,
        )
    return [(a, b, None) for a, b in zip(requests, responses, strict=True)]


def _pair(one: Any, i: int, path: str | None) -> tuple[Any, Any, Any]:
    if not isinstance(one, dict):
        raise InputError(f"found {_a(one)}, expected an interaction", path=path, position=i)
    if "request" not in one and ("direction" in one or "kind" in one):
        raise InputError(
            "found WebSocket frames, and afnb replays HTTP requests and responses only", path=path, position=i
        )
    if "request" not in one or "response" not in one:
        missing = "request" if "request" not in one else "response"
        raise InputError(f"the interaction has no {missing}", path=path, position=i)
    return one["request"], one["response"], one.get("recorded_at")


def _exchange(i: int, request: Any, response: Any, recorded_at: Any, notes: _Notes) -> Exchange:
    for name, value in (("request", request), ("response", response)):
        if not isinstance(value, dict):
            raise InputError(f"{name}: found {_a(value)}, expected a mapping", path=notes.path, position=i)
    method, uri = request.get("method"), request.get("uri", request.get("url"))
    if not isinstance(method, str) or not isinstance(uri, str):
        raise InputError("the request has no method or no uri", path=notes.path, position=i)
    origin, target = _split(uri)
    if not origin and not target.startswith("/"):
        notes.counts["uri_masked"] += 1
    sent = _headers(request.get("headers"), i, notes)
    got = _headers(response.get("headers"), i, notes)
    status = response.get("status", response.get("status_code"))
    if isinstance(status, dict):
        status = status.get("code")
    if isinstance(status, str) and status.isdigit() and len(status) == 3:
        status = int(status)
    if isinstance(status, bool) or not isinstance(status, int) or not 100 <= status <= 999:
        raise InputError(
            f"response.status: found {_a(status)}, expected a code such as 200", path=notes.path, position=i
        )
    asked = _body(request, sent, "request", i, notes)
    answer = _body(response, got, "response", i, notes)
    ended = _date(got)
    if ended is None and isinstance(recorded_at, str) and "T" in recorded_at:
        ended = recorded_at
    return Exchange(
        i,
        Request(method.upper(), mask_query(target), _kept(sent, asked, False, notes), asked),
        Response(status, _kept(got, answer, True, notes), answer),
        t_end=ended,
        upstream=origin or None,
    )


def _split(uri: str) -> tuple[str, str]:
    """Origin (without any credentials) and path with query."""
    found = _ORIGIN.match(uri)
    if found is None:
        return "", uri.partition("#")[0]
    rest = uri[found.end() :].partition("#")[0]
    return found[1].lower() + found[2], rest if rest.startswith("/") else "/" + rest


def _headers(value: Any, i: int, notes: _Notes) -> Headers:
    """Headers in any of the layouts: name to text, name to list of texts, or pairs."""
    if value is None:
        return ()
    pairs: list[tuple[str, str]] = []
    items: Iterable[Any] = (
        value.items() if isinstance(value, dict) else value if isinstance(value, list) else ()
    )
    if not isinstance(value, dict | list):
        raise InputError(f"headers: found {_a(value)}, expected a mapping", path=notes.path, position=i)
    for item in items:
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise InputError(
                f"headers: found {_a(item)}, expected a name and a value", path=notes.path, position=i
            )
        name, several = item
        for one in several if isinstance(several, list) else [several]:
            if one is not None:
                pairs.append((_text(name).lower(), _text(one)))
    return tuple(pairs)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else str(value)


def _first(headers: Headers, name: str) -> str:
    return next((text for key, text in headers if key == name), "")


def _date(headers: Headers) -> str | None:
    """The response's ``date`` header as RFC 3339, if it is a date."""
    try:
        at = parsedate_to_datetime(_first(headers, "date"))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return at.strftime("%Y-%m-%dT%H:%M:%SZ") if at.utcoffset() is not None and not at.utcoffset() else None


def _body(side: dict[str, Any], headers: Headers, name: str, i: int, notes: _Notes) -> bytes:
    where = f"{name}.parsed_body"
    if side.get("parsed_body") is not None:
        notes.counts["rebuilt_body"] += 1
        return _rebuilt(as_json(side["parsed_body"], where, notes.path), _first(headers, "content-length"))
    raw = side.get("body", side.get("content"))
    if isinstance(raw, dict):
        for key in ("string", "base64_string", "content", "text"):
            if raw.get(key) is not None:
                raw = _from_base64(raw[key], name, i, notes) if key.startswith("base64") else raw[key]
                break
        else:
            raw = None if not raw or set(raw) & _BODY_KEYS else as_json(raw, f"{name}.body", notes.path)
    if raw is None:
        return b""
    if isinstance(raw, dict | list):
        notes.counts["rebuilt_body"] += 1
        return _rebuilt(as_json(raw, f"{name}.body", notes.path), _first(headers, "content-length"))
    if not isinstance(raw, str | bytes):
        raise InputError(f"{name}.body: found {_a(raw)}, expected text or bytes", path=notes.path, position=i)
    data = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
    decoded, how = decode_body(data, _first(headers, "content-encoding"))
    if how:
        notes.counts[how] += 1
    return decoded


_BODY_KEYS = {"string", "base64_string", "content", "text", "encoding"}


def _from_base64(text: Any, name: str, i: int, notes: _Notes) -> bytes:
    try:
        return base64.b64decode(text if isinstance(text, bytes) else str(text), validate=False)
    except (binascii.Error, ValueError):
        raise InputError(f"{name}.body: base64 that cannot be read", path=notes.path, position=i) from None


def _rebuilt(value: Any, length: str) -> bytes:
    """A parsed body written again: of the usual ways the one that has the recorded length, else compact."""
    compact = dumps(value).encode("utf-8")
    if not length.isdigit() or len(compact) == int(length[:12]):
        return compact
    try:
        for ascii_only in (False, True):
            for separators in ((",", ":"), (", ", ": ")):
                data = json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode("utf-8")
                if len(data) == int(length[:12]):
                    return data
    except (ValueError, RecursionError):
        pass
    return compact


def _kept(headers: Headers, body: bytes, response: bool, notes: _Notes) -> Headers:
    """Allowlisted headers; a content type that is missing or masked is told from the body."""
    kept = tuple(
        (name, text)
        for name, text in allowed_headers(headers, response=response)
        if "/" in text and name in ("content-type", "accept")
    )
    if response and body and not any(name == "content-type" for name, _ in kept):
        guessed = _guess(body)
        if guessed is not None:
            notes.counts["content_type_guessed"] += 1
            kept = (*kept, ("content-type", guessed))
    return kept


def _guess(body: bytes) -> str | None:
    start = body.lstrip()[:64]
    if re.match(rb"(?:event|data|id|retry)?:", start):
        return "text/event-stream"
    if start[:1] in (b"{", b"["):
        try:
            json.loads(body)
        except (ValueError, RecursionError):
            lines = body.split(b"\n", 2)
            return "application/x-ndjson" if len(lines) > 1 and start[:1] == b"{" else None
        return "application/json"
    return None
