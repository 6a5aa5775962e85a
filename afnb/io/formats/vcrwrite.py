"""Cassettes as VCR.py cassettes (YAML), for tests and tools that read those.

VCR.py knows no arrival times, no streams that stopped early, no tool calls and no redaction settings:
``lost_in_vcr`` says what a recording has of these.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from afnb.core.cassette import Cassette, Exchange, Headers
from afnb.errors import InputError, MissingDependency
from afnb.io.files import PathLike, write_new
from afnb.io.known import KNOWN_UPSTREAMS
from afnb.io.redact import safe_exchange
from afnb.io.upstream import owner_of_path


def origin_of(exchange: Exchange) -> str:
    """The origin an exchange was sent to: as it was recorded, else that of the provider its path belongs to.

    Examples
    --------
    >>> from afnb.core.cassette import Request, Response
    >>> origin_of(Exchange(0, Request("POST", "/v1/messages"), Response(200)))
    'https://api.anthropic.com'
    """
    said = exchange.upstream or ""
    if "://" in said:
        return said
    name = said if said in KNOWN_UPSTREAMS else owner_of_path(exchange.request.path)
    return KNOWN_UPSTREAMS[name].origin


def to_vcr(cassette: Cassette) -> dict[str, Any]:
    """A cassette in the layout of VCR.py: plain values, bodies as text or bytes."""
    return {"interactions": [_interaction(exchange) for exchange in cassette.exchanges], "version": 1}


def _interaction(exchange: Exchange) -> dict[str, Any]:
    exchange = safe_exchange(exchange)
    request, response = exchange.request, exchange.response
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = ""
    return {
        "request": {
            "body": _body(request.body),
            "headers": _headers(request.headers),
            "method": request.method,
            "uri": origin_of(exchange) + request.path,
        },
        "response": {
            "body": {"string": _body(response.body) or ""},
            "headers": _headers(response.headers),
            "status": {"code": response.status, "message": phrase},
        },
    }


def _headers(headers: Headers) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name, []).append(value)
    return found


def _body(body: bytes) -> str | bytes | None:
    if not body:
        return None
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return body
    return text if text.isprintable() or "\r" not in text else body


def write_vcr(cassette: Cassette, path: PathLike, *, overwrite: bool = False) -> None:
    """Write a VCR.py cassette as a new file.

    Raises
    ------
    MissingDependency
        PyYAML is not installed.
    ParameterError
        The file exists and ``overwrite`` is False.
    """
    try:
        import yaml
    except ImportError:
        raise MissingDependency("pyyaml", extra="vcr") from None
    text = yaml.safe_dump(to_vcr(cassette), allow_unicode=True, sort_keys=True, width=10_000)
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"a body holds half a character, which YAML cannot: {error.reason}") from None
    write_new(path, data, overwrite=overwrite)


def lost_in_vcr(cassette: Cassette) -> tuple[str, ...]:
    """What a VCR.py cassette has no place for, one sentence each."""
    lost = []
    cut = sum(exchange.response.incomplete for exchange in cassette.exchanges)
    if cut:
        lost.append(f"{cut} answers that stopped before their end look complete in it")
    if any(exchange.response.chunks for exchange in cassette.exchanges):
        lost.append("arrival times of streams are left out")
    if cassette.tool_exchanges:
        lost.append(f"{len(cassette.tool_exchanges)} tool exchanges are left out")
    for name in ("redaction", "matching"):
        if name in cassette.attrs:
            lost.append(f"the recording's {name} settings are left out: give them again where it is replayed")
    guessed = sum("://" not in (exchange.upstream or "") for exchange in cassette.exchanges)
    if guessed:
        lost.append(f"{guessed} addresses have the provider's usual origin; the recording holds none")
    return tuple(lost)
