"""Bodies as they were before a content-encoding: gzip, deflate, br, zstd, or several of them."""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from dataclasses import replace
from typing import TypeVar

from afnb.core.cassette import Exchange, Request, Response, header
from afnb.core.run import Warn
from afnb.errors import MissingDependency

FOUND = {
    "decoded_body": "a stored body was compressed, as its content-encoding said; it was decompressed",
    "body_was_plain": "a stored body was plain although its content-encoding says compressed; kept as it is",
}
"""What ``decode_body`` says it found, in words."""

M = TypeVar("M", Request, Response)
_OLD = ("content-encoding", "content-length")


def decoded_exchanges(exchanges: tuple[Exchange, ...]) -> tuple[tuple[Exchange, ...], tuple[Warn, ...]]:
    """Exchanges whose bodies agree with their headers: decoded, and the encoding's header gone.

    Examples
    --------
    >>> ask = Request("POST", "/", (("content-encoding", "gzip"),), gzip.compress(b"{}"))
    >>> (one,), (said,) = decoded_exchanges((Exchange(0, ask, Response(200)),))
    >>> one.request.body, one.request.headers, said.code
    (b'{}', (), 'decoded_body')
    """
    counts: Counter[str] = Counter()
    made = []
    for exchange in exchanges:
        request, asked = _agreeing(exchange.request)
        response, answered = _agreeing(exchange.response)
        counts.update(how for how in (asked, answered) if how)
        same = request is exchange.request and response is exchange.response
        made.append(exchange if same else replace(exchange, request=request, response=response))
    said = (Warn(how, f"{n} times: {FOUND[how]}") for how, n in sorted(counts.items()))
    return tuple(made), tuple(said)


def _agreeing(message: M) -> tuple[M, str]:
    coding = header(message.headers, "content-encoding")
    if coding is None:
        return message, ""
    body, how = decode_body(message.body, coding)
    headers = tuple((k, v) for k, v in message.headers if k.lower() not in _OLD)
    if isinstance(message, Response) and body != message.body:
        return replace(message, headers=headers, body=body, chunks=None), how
    return replace(message, headers=headers, body=body), how


def decode_body(data: bytes, encoding: str) -> tuple[bytes, str]:
    """A stored body without its content-encoding, whether or not it was still encoded.

    Recorders differ: some keep the bytes of the wire, some decode them and keep the header.

    Parameters
    ----------
    data
        The body as stored.
    encoding
        The ``content-encoding`` header; empty if there is none.

    Returns
    -------
    tuple
        The plain bytes, and what was found: ``"decoded_body"``, ``"body_was_plain"`` or ``""``.

    Raises
    ------
    MissingDependency
        Brotli bytes, and no brotli package.

    Examples
    --------
    >>> decode_body(gzip.compress(b"{}"), "gzip"), decode_body(b"{}", "gzip"), decode_body(b"", "gzip")
    ((b'{}', 'decoded_body'), (b'{}', 'body_was_plain'), (b'', ''))
    """
    names = [name.strip().lower() for name in encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if not data or not names:
        return data, ""
    plain = data
    for name in reversed(names):
        decoded = _decoded(plain, name)
        if decoded is None:
            return (plain, "decoded_body") if plain is not data else (data, "body_was_plain")
        plain = decoded
    return plain, "decoded_body"


def _decoded(data: bytes, name: str) -> bytes | None:
    """The data without one encoding; None if they are not encoded so."""
    if name in ("gzip", "x-gzip"):
        try:
            return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else None
        except (OSError, EOFError, zlib.error):
            return None
    if name == "zstd":
        return _zstd(data)
    if name in ("deflate", "br"):
        if _is_text(data):
            return None  # neither has a mark at its start, and plain text can pass for raw deflate
        return _brotli(data) if name == "br" else _deflated(data)
    # an encoding afnb does not know, or one that was masked when it was recorded
    return _decoded(data, "gzip") if data[:2] == b"\x1f\x8b" else None


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def _is_text(data: bytes) -> bool:
    try:
        return _CONTROL.search(data.decode("utf-8")) is None
    except UnicodeDecodeError:
        return False


def _deflated(data: bytes) -> bytes | None:
    for window in (zlib.MAX_WBITS, -zlib.MAX_WBITS):
        decoder = zlib.decompressobj(window)
        try:
            plain = decoder.decompress(data) + decoder.flush()
        except zlib.error:
            continue
        if decoder.eof and not decoder.unused_data:
            return plain
    return None


def _zstd(data: bytes) -> bytes | None:
    import zstandard

    try:
        decoder = zstandard.ZstdDecompressor().decompressobj()
        plain: bytes = decoder.decompress(data)
    except zstandard.ZstdError:
        return None
    return plain if decoder.eof else None


def _brotli(data: bytes) -> bytes | None:
    try:
        import brotli
    except ImportError:
        raise MissingDependency("brotli") from None
    try:
        plain: bytes = brotli.decompress(data)
    except brotli.error:
        return None
    return plain
