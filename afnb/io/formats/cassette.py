"""Cassette JSON, version 0.1: read, checked and written so that every byte of every body survives.

A body is on disk as parsed JSON where compact writing gives back its very bytes; otherwise as parsed JSON
or text beside ``body_base64``, which then holds the bytes. What we write conforms to the original
amberfork schema; everything beyond it is an optional field (``schema()`` says which), and fields that we
do not know are kept.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from typing import Any

from afnb.core.cassette import Cassette, Chunk, Exchange, Headers, Request, Response, ToolExchange
from afnb.core.jsonvalue import MISSING, Json, dumps, equal, loads
from afnb.core.matching import Matching
from afnb.core.run import OUTCOMES, Warn
from afnb.errors import InputError
from afnb.io.decode import decoded_exchanges
from afnb.io.files import PathLike, read_bytes, write_new
from afnb.io.formats.bodies import body_to_json, in_base64, plain_body
from afnb.io.formats.reading import Fields, read_json, shown
from afnb.io.formats.source import Found, Source
from afnb.io.redact import Redaction, safe_exchange

VERSION = "0.1"
_WHAT = "a cassette (a JSON object with cassette_version, id and exchanges)"
_LAST = (1 << 63) - 1


def schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of what `to_json` gives.

    Examples
    --------
    >>> sorted(schema()["required"])
    ['cassette_version', 'exchanges', 'id']
    """
    text = resources.files("afnb.io.formats").joinpath("cassette.schema.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def read_cassette(source: PathLike | bytes) -> Cassette:
    """Read a cassette.

    Parameters
    ----------
    source
        A file's path, or the bytes of one.

    Raises
    ------
    InputError
        The file is missing, empty, cut off, not UTF-8, not JSON, of another version, or a field has the
        wrong form; the message names the place, what was found and what was expected.

    Examples
    --------
    >>> tape = read_cassette(b'{"cassette_version": "0.1", "id": "c", "exchanges": []}')
    >>> tape.id, len(tape)
    ('c', 0)
    """
    if isinstance(source, bytes):
        return from_json(read_json(source, _WHAT))
    path = os.fspath(source)
    return replace(from_json(read_json(read_bytes(path), _WHAT, path), path=path), source=path)


def write_cassette(cassette: Cassette, path: PathLike, *, overwrite: bool = False) -> None:
    """Write a cassette as a new file, one exchange a line; a crash leaves no half file.

    Headers that are not on the allowlist and credentials in queries are left out, wherever the cassette
    came from.

    Raises
    ------
    ParameterError
        There is a file of that name and ``overwrite`` is False.
    """
    write_new(path, text_of(cassette).encode("utf-8"), overwrite=overwrite)


def text_of(cassette: Cassette, *, plain: bool = False) -> str:
    """The text that `write_cassette` writes.

    ``plain`` leaves every body as the text that it was, JSON too: it is not read, which is some times
    faster, and the same cassette comes back.
    """
    document = to_json(cassette, plain=plain)
    lines = []
    for key, value in document.items():
        if key in ("exchanges", "tool_exchanges") and value:
            several = ",\n".join(dumps(one) for one in value)
            lines.append(f"{dumps(key)}:[\n{several}\n]")
        else:
            lines.append(f"{dumps(key)}:{dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def to_json(cassette: Cassette, *, plain: bool = False) -> dict[str, Any]:
    """The cassette as a JSON document; ``plain`` as in `text_of`.

    Examples
    --------
    >>> call = Exchange(0, Request("GET", "/v1/models"), Response(200, body=b'{"data": []}'))
    >>> to_json(Cassette("c", (call,)))["exchanges"][0]["response"]
    {'status': 200, 'headers': [], 'body': {'data': []}, 'body_base64': 'eyJkYXRhIjogW119'}
    """
    out: dict[str, Any] = {"cassette_version": cassette.cassette_version, "id": cassette.id}
    if cassette.task is not None:
        out["task"] = cassette.task
    if cassette.outcome is not None:
        out["outcome"] = cassette.outcome
    out.update((key, value) for key, value in cassette.attrs.items() if key not in out)
    out["exchanges"] = [
        exchange_to_json(exchange, i, plain=plain) for i, exchange in enumerate(cassette.exchanges)
    ]
    if cassette.tool_exchanges:
        out["tool_exchanges"] = [tool_to_json(tool) for tool in cassette.tool_exchanges]
    return out


def exchange_to_json(exchange: Exchange, idx: int | None = None, *, plain: bool = False) -> dict[str, Any]:
    """One exchange as it stands in a document; ``plain`` as in `text_of`."""
    write = plain_body if plain else body_to_json
    exchange = safe_exchange(exchange)
    unknown = dict(exchange.attrs)
    request = {**_request_to_json(exchange.request, write), **_dict(unknown.pop("request", None))}
    response = {**_response_to_json(exchange.response, write), **_dict(unknown.pop("response", None))}
    out: dict[str, Any] = {
        "idx": exchange.idx if idx is None else idx,
        "request": request,
        "response": response,
    }
    for name in ("t_start", "t_end", "attempt_of", "upstream"):
        value = getattr(exchange, name)
        if value is not None:
            out[name] = value
    if exchange.forwarded is not None:
        sent = _request_to_json(exchange.forwarded, write)
        out["forwarded"] = {**sent, **_dict(unknown.pop("forwarded", None))}
    out.update((key, value) for key, value in unknown.items() if key not in out)
    return out


def tool_to_json(tool: ToolExchange) -> dict[str, Any]:
    """One tool exchange as it stands in a document."""
    out: dict[str, Any] = {"name": tool.name, "arguments": tool.arguments, "output": tool.output}
    out["effect"] = tool.effect
    out["after_exchange"] = tool.after_exchange
    for name in ("error", "t_start", "t_end"):
        value = getattr(tool, name)
        if value is not None:
            out[name] = value
    out.update((key, value) for key, value in tool.attrs.items() if key not in out)
    return out


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _request_to_json(request: Request, write: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
    head = {"method": request.method, "path": request.path, "headers": [list(h) for h in request.headers]}
    return {**head, **write(request.body)}


def _response_to_json(response: Response, write: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {"status": response.status, "headers": [list(h) for h in response.headers]}
    out.update(write(response.body))
    if response.chunks is not None:
        out["chunks"] = [[chunk.ms, _chunk_data(chunk.data)] for chunk in response.chunks]
    if response.incomplete:
        out["incomplete"] = True
    return out


def _chunk_data(data: bytes) -> Any:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": in_base64(data)}


def from_json(value: Json, *, path: str | None = None) -> Cassette:
    """The cassette a JSON document describes.

    Raises
    ------
    InputError
        A field is missing or has the wrong form.
    """
    document = Fields(value, "", path)
    version = document.raw("cassette_version")
    if not document.has("cassette_version"):
        raise InputError(f"no cassette_version; expected {_WHAT}", path=path)
    if version != VERSION:
        raise InputError(
            f"cassette_version: found {shown(version)}, and this afnb reads {VERSION!r} only", path=path
        )
    ident = document.text("id")
    task = document.optional_text("task")
    outcome = document.raw("outcome")
    if outcome is not None and outcome not in OUTCOMES:
        document.wrong("outcome", outcome, f"one of {', '.join(OUTCOMES)}")
    for name, reader in (("redaction", Redaction.from_json), ("matching", Matching.from_json)):
        if document.raw(name) is not None:
            try:
                reader(document.raw(name))
            except InputError as error:
                raise InputError(error.message, path=path) from None
    recorded = document.array("exchanges")
    warnings: list[Warn] = []
    numbers = [_number(one, i, path) for i, one in enumerate(recorded)]
    if numbers != list(range(len(numbers))):
        message = "idx of the exchanges is not 0, 1, 2, ...; they were numbered again in file order"
        warnings.append(Warn("idx_renumbered", message))
    place = {number: i for i, number in reversed(list(enumerate(numbers)))}
    exchanges = tuple(exchange_from_json(one, i, path, place) for i, one in enumerate(recorded))
    exchanges, found = decoded_exchanges(exchanges)
    tools = document.array("tool_exchanges", required=False)
    return Cassette(
        ident,
        exchanges,
        tuple(tool_from_json(one, i, path) for i, one in enumerate(tools)),
        task,
        outcome,
        VERSION,
        document.rest("redaction", "matching"),
        (*warnings, *found),
        path,
    )


def _number(value: Json, i: int, path: str | None) -> int:
    return Fields(value, f"exchanges[{i}]", path).integer("idx", 0, _LAST)


def exchange_from_json(
    value: Json, i: int, path: str | None = None, place: dict[int, int] | None = None
) -> Exchange:
    """One exchange of a document; ``place`` maps the document's numbers to positions."""
    fields = Fields(value, f"exchanges[{i}]", path)
    number = fields.integer("idx", 0, _LAST)
    request, unknown_request = _request_from_json(
        fields.raw("request", MISSING), fields.name("request"), path
    )
    response, unknown_response = _response_from_json(
        fields.raw("response", MISSING), fields.name("response"), path
    )
    forwarded: Request | None = None
    unknown_forwarded: dict[str, Any] = {}
    if fields.raw("forwarded") is not None:
        forwarded, unknown_forwarded = _request_from_json(
            fields.raw("forwarded"), fields.name("forwarded"), path
        )
    attempt_of = fields.optional_integer("attempt_of", 0, _LAST)
    if attempt_of is not None and place is not None:
        if attempt_of not in place:
            fields.wrong(fields.name("attempt_of"), attempt_of, "the idx of another exchange")
        attempt_of = place[attempt_of]
    times = [fields.optional_text(name) for name in ("t_start", "t_end", "upstream")]
    attrs = fields.rest()
    unknown = {"request": unknown_request, "response": unknown_response, "forwarded": unknown_forwarded}
    attrs.update((name, found) for name, found in unknown.items() if found)
    return Exchange(
        number if place is None else i,
        request,
        response,
        times[0],
        times[1],
        attempt_of,
        times[2],
        forwarded,
        attrs,
    )


def _request_from_json(value: Json, at: str, path: str | None) -> tuple[Request, dict[str, Any]]:
    fields = Fields(value, at, path)
    method, target = fields.text("method"), fields.text("path")
    request = Request(method, target, _headers(fields), body_from_json(fields))
    return request, fields.rest()


def _response_from_json(value: Json, at: str, path: str | None) -> tuple[Response, dict[str, Any]]:
    fields = Fields(value, at, path)
    status = fields.integer("status", 100, 999)
    headers, body = _headers(fields), body_from_json(fields)
    chunks = _chunks(fields, body) if fields.raw("chunks") is not None else None
    return Response(status, headers, body, chunks, fields.flag("incomplete")), fields.rest()


def _headers(fields: Fields) -> Headers:
    found = fields.array("headers", required=False)
    for i, pair in enumerate(found):
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, str) for one in pair)):
            fields.wrong(f"{fields.name('headers')}[{i}]", pair, "a pair [name, value] of texts")
    return tuple((name.lower(), text) for name, text in found)


def body_from_json(fields: Fields) -> bytes:
    """The exact bytes of a body; without ``body_base64`` text as it is, other JSON written compactly."""
    value = fields.raw("body")
    encoded = fields.optional_text("body_base64")
    if encoded is None:
        if value is None:
            return b""
        return (value if isinstance(value, str) else dumps(value)).encode("utf-8", "surrogatepass")
    data = _from_base64(encoded, fields, "body_base64")
    if not _same_body(value, data):
        raise InputError(
            f"{fields.name('body')}: found a value that is not what body_base64 holds; "
            "if the body was edited, delete body_base64",
            path=fields.path,
        )
    return data


def _same_body(value: Json, data: bytes) -> bool:
    try:
        return value is None or value == data.decode("utf-8") or equal(value, loads(data))
    except (InputError, UnicodeDecodeError):
        return False


def _from_base64(text: str, fields: Fields, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        fields.wrong(fields.name(name), text, "base64")


def _chunks(fields: Fields, body: bytes) -> tuple[Chunk, ...]:
    out: list[Chunk] = []
    for i, one in enumerate(fields.array("chunks")):
        place = f"chunks[{i}]"
        if not (isinstance(one, list) and len(one) == 2):
            fields.wrong(fields.name(place), one, "a pair [milliseconds, data]")
        ms, data = one
        if isinstance(ms, bool) or not isinstance(ms, int | float) or not math.isfinite(ms) or ms < 0:
            fields.wrong(fields.name(f"{place}[0]"), ms, "milliseconds, 0 or more")
        if isinstance(data, str):
            out.append(Chunk(ms, data.encode("utf-8", "surrogatepass")))
        elif isinstance(data, dict) and isinstance(data.get("base64"), str):
            out.append(Chunk(ms, _from_base64(data["base64"], fields, f"{place}[1].base64")))
        else:
            fields.wrong(fields.name(f"{place}[1]"), data, 'text or {"base64": text}')
    if b"".join(chunk.data for chunk in out) != body:
        raise InputError(
            f"{fields.name('chunks')}: the chunks joined are not the body; "
            "if the body was edited, delete chunks",
            path=fields.path,
        )
    return tuple(out)


def tool_from_json(value: Json, i: int, path: str | None = None) -> ToolExchange:
    """One tool exchange of a document."""
    fields = Fields(value, f"tool_exchanges[{i}]", path)
    name = fields.text("name")
    effect = fields.optional_text("effect") or "write"
    error = fields.optional_text("error")
    after = fields.optional_integer("after_exchange", -1, _LAST)
    return ToolExchange(
        name,
        fields.raw("arguments"),
        fields.raw("output"),
        effect,
        error,
        -1 if after is None else after,
        fields.optional_text("t_start"),
        fields.optional_text("t_end"),
        fields.rest(),
    )


def detect(source: Source) -> Found:
    """Whether a file is a cassette."""
    value = source.json
    if not isinstance(value, dict):
        broken = value is MISSING and source.first_line is MISSING
        cut_off = broken and b'"cassette_version"' in source.data[:4096]
        return Found(1.0 if cut_off else 0.0, "it is not one JSON object")
    if "afnb_journal" in value:
        return Found(0.0)
    missing = [key for key in ("cassette_version", "id", "exchanges") if key not in value]
    if "cassette_version" in value or not missing:
        return Found(1.0)
    if "exchanges" not in value:
        return Found(0.1 if "id" in value else 0.0, f"it has no {' and no '.join(missing)}")
    return Found(0.8, f"it has no {' and no '.join(missing)}")


def load(source: Source) -> Cassette:
    """The cassette in a file (see `read_cassette`)."""
    value = source.json
    if value is MISSING:
        value = read_json(source.data, _WHAT, source.path)
    return from_json(value, path=source.path)
