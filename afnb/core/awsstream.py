r"""AWS event streams: binary frames with headers, a payload and two checksums.

A frame is its length, the length of its headers, a CRC-32 of these two; the headers; the payload; a
CRC-32 of all of it. Numbers are big-endian.

>>> frames, rest = parse(make("chunk", b"{}") + b"\x00\x00")
>>> frames[0].header(":event-type"), frames[0].payload, rest
('chunk', b'{}', b'\x00\x00')
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # bytes of a header value, by its type
_TEXT = 7
_LEAST = 16


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame; of its headers those whose value is text."""

    headers: tuple[tuple[str, str], ...]
    payload: bytes
    raw: bytes

    def header(self, name: str) -> str | None:
        """Value of a text header, or None."""
        return next((value for key, value in self.headers if key == name), None)


def parse(data: bytes) -> tuple[list[Frame], bytes]:
    """All whole and sound frames at the start of ``data``, and the bytes after them.

    A frame whose checksums or lengths are wrong ends the reading: what follows it cannot be trusted.
    """
    frames: list[Frame] = []
    at = 0
    while len(data) - at >= _LEAST:
        total, header_size, prelude_crc = struct.unpack_from(">III", data, at)
        end = at + total
        if total < _LEAST + header_size or end > len(data):
            break
        if zlib.crc32(data[at : at + 8]) != prelude_crc:
            break
        if zlib.crc32(data[at : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            break
        headers = _headers(data[at + 12 : at + 12 + header_size])
        if headers is None:
            break
        frames.append(Frame(headers, data[at + 12 + header_size : end - 4], data[at:end]))
        at = end
    return frames, data[at:]


def _headers(data: bytes) -> tuple[tuple[str, str], ...] | None:
    found: list[tuple[str, str]] = []
    at = 0
    try:
        while at < len(data):
            name = data[at + 1 : at + 1 + data[at]].decode("utf-8")
            at += 1 + data[at]
            kind = data[at]
            at += 1
            if kind in _FIXED:
                at += _FIXED[kind]
                continue
            (size,) = struct.unpack_from(">H", data, at)
            value = data[at + 2 : at + 2 + size]
            at += 2 + size
            if kind == _TEXT:
                found.append((name, value.decode("utf-8")))
    except (IndexError, struct.error, UnicodeDecodeError):
        return None
    return tuple(found) if at == len(data) else None


def make(
    event_type: str,
    payload: bytes,
    extra: Sequence[tuple[str, str]] = ((":content-type", "application/json"),),
) -> bytes:
    """The bytes of an event frame."""
    headers = b"".join(
        _text_header(name, value)
        for name, value in ((":event-type", event_type), *extra, (":message-type", "event"))
    )
    prelude = struct.pack(">II", _LEAST + len(headers) + len(payload), len(headers))
    body = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))


def _text_header(name: str, value: str) -> bytes:
    key, text = name.encode(), value.encode()
    return bytes([len(key)]) + key + bytes([_TEXT]) + struct.pack(">H", len(text)) + text
