r"""Event streams as bytes: server-sent events (SSE) and newline-delimited JSON.

A line of SSE ends at CR LF, LF or CR and at nothing else: characters such as U+2028, which general
line splitting takes for line ends, occur in model text. Bytes are decoded line by line, never chunk
by chunk, so a character cut in two by the network stays whole. Every event keeps the bytes it came
from; joining them (and the decoder's rest) gives the stream back exactly.

>>> [e.data for e in parse(b'data: a\n\ndata: b\ndata: c\r\n\r\n')]
['a', 'b\nc']
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_LINE_END = re.compile(rb"\r\n|\n|\r")
_DATA_LINE_END = re.compile(r"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream.

    Parameters
    ----------
    data
        Its data lines, joined with LF. Bytes that are not UTF-8 are kept as surrogate escapes.
    event, id, retry
        The fields of these names, None where absent.
    raw
        The bytes it was read from: its lines, the blank line that ends it, and whatever stood before
        it without being an event (comments, a byte order mark). Empty for an event made here.
    terminated
        False for a last event that the stream's end cut off before its blank line.
    invalid_at
        Offset in the stream of the first byte that is not UTF-8, or None.
    """

    data: str
    event: str | None = None
    id: str | None = None
    retry: int | None = None
    raw: bytes = b""
    terminated: bool = True
    invalid_at: int | None = None


@dataclass(slots=True)
class _Open:
    """The event being read."""

    data: list[str] = field(default_factory=list)
    event: str | None = None
    id: str | None = None
    retry: int | None = None
    invalid_at: int | None = None

    def take(self, line: bytes, offset: int) -> None:
        name, _, value = line.partition(b":")
        if not name:
            return  # a comment
        value = value.removeprefix(b" ")
        text, bad = _decode(value)
        if bad is not None and self.invalid_at is None:
            self.invalid_at = offset + len(line) - len(value) + bad
        match name:
            case b"data":
                self.data.append(text)
            case b"event":
                self.event = text
            case b"id" if "\0" not in text:
                self.id = text
            case b"retry" if text.isascii() and text.isdigit() and len(text) < 19:
                self.retry = int(text)
            case _:
                pass  # unknown fields are ignored, as the format asks

    def close(self, raw: bytes, terminated: bool = True) -> Event:
        return Event("\n".join(self.data), self.event, self.id, self.retry, raw, terminated, self.invalid_at)


def _decode(data: bytes) -> tuple[str, int | None]:
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError as error:
        return data.decode("utf-8", "surrogateescape"), error.start


class Decoder:
    """Reads SSE bytes that arrive in pieces; the events do not depend on where the pieces end.

    Examples
    --------
    >>> decoder = Decoder()
    >>> decoder.feed(b"data: caf\\xc3"), [e.data for e in decoder.feed(b"\\xa9\\n\\n")], decoder.close()
    ([], ['café'], [])
    """

    def __init__(self) -> None:
        self._buffer = bytearray()  # bytes not yet given out in an event's `raw`
        self._scanned = 0  # of these, how many are whole lines that were read
        self._searched = 0  # and how many hold no line end
        self._offset = 0  # position of the buffer in the stream
        self._open = _Open()

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete."""
        self._buffer += data
        return self._read(final=False)

    def close(self) -> list[Event]:
        """The events that the stream's end completes; an unterminated one is given too."""
        events = self._read(final=True)
        line = bytes(self._buffer[self._scanned :])
        if line:
            self._take(line)
        if self._open.data:
            events.append(self._open.close(bytes(self._buffer), terminated=False))
            self._buffer.clear()
        return events

    @property
    def rest(self) -> bytes:
        """Bytes that belong to no event (yet)."""
        return bytes(self._buffer)

    def _take(self, line: bytes) -> None:
        offset = self._offset + self._scanned
        if offset == 0 and line.startswith(_BOM):
            line, offset = line[len(_BOM) :], len(_BOM)
        self._open.take(line, offset)

    def _read(self, final: bool) -> list[Event]:
        events: list[Event] = []
        buffer = self._buffer
        given = 0  # bytes of `buffer` already in an event
        while True:
            found = _LINE_END.search(buffer, max(self._searched, self._scanned))
            if found is None:
                self._searched = len(buffer)
                break
            if found.group() == b"\r" and found.end() == len(buffer) and not final:
                self._searched = found.start()  # the LF that belongs to this CR may still come
                break
            line = bytes(buffer[self._scanned : found.start()])
            if line and not (self._offset + self._scanned == 0 and line == _BOM):
                self._take(line)
            elif self._open.data:
                events.append(self._open.close(bytes(buffer[given : found.end()])))
                given = found.end()
                self._open = _Open()
            else:
                self._open = _Open()
            self._scanned = found.end()
        if given:
            del self._buffer[:given]
            self._offset += given
            self._scanned -= given
            self._searched -= given
        return events


def parse(data: bytes) -> list[Event]:
    r"""All events of a whole SSE stream; the last one even if its blank line is missing.

    Examples
    --------
    >>> [(e.event, e.data, e.terminated) for e in parse(b": hello\n\nevent: x\ndata: 1\n\ndata: cut")]
    [('x', '1', True), (None, 'cut', False)]
    """
    decoder = Decoder()
    return decoder.feed(data) + decoder.close()


def serialise(events: Iterable[Event]) -> bytes:
    r"""The bytes of a stream: what an event was read from, or its fields written anew.

    Examples
    --------
    >>> serialise([Event("1", event="x"), *parse(b"data:2\r\n\r\n")])
    b'event: x\ndata: 1\n\ndata:2\r\n\r\n'
    """
    out = bytearray()
    for event in events:
        if event.raw:
            out += event.raw
            if not event.terminated:
                out += b"\n\n"
            continue
        if event.event is not None:
            out += b"event: " + _encode(event.event) + b"\n"
        if event.id is not None:
            out += b"id: " + _encode(event.id) + b"\n"
        if event.retry is not None:
            out += f"retry: {event.retry}\n".encode()
        for line in _DATA_LINE_END.split(event.data):
            out += b"data: " + _encode(line) + b"\n"
        out += b"\n"
    return bytes(out)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class LineDecoder:
    """Reads newline-delimited JSON that arrives in pieces: one event a line, blank lines skipped.

    Examples
    --------
    >>> decoder = LineDecoder()
    >>> [e.data for e in decoder.feed(b'{"a":1}\\r\\n{"b"')] + [e.data for e in decoder.close()]
    ['{"a":1}', '{"b"']
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._offset = 0

    def feed(self, data: bytes) -> list[Event]:
        """The lines that these bytes complete."""
        self._buffer += data
        events: list[Event] = []
        buffer = self._buffer
        given = position = 0
        while (end := buffer.find(b"\n", max(self._searched, position))) >= 0:
            position = end + 1
            line = bytes(buffer[given:position])
            if line.strip():
                events.append(self._event(line, given, True))
                given = position
        self._searched = len(buffer) - given
        del self._buffer[:given]
        self._offset += given
        return events

    def close(self) -> list[Event]:
        """The last line, if the stream ended without a line end."""
        line = bytes(self._buffer)
        if not line.strip():
            return []
        self._buffer.clear()
        return [self._event(line, 0, False)]

    @property
    def rest(self) -> bytes:
        """Bytes that belong to no line (yet)."""
        return bytes(self._buffer)

    def _event(self, line: bytes, start: int, terminated: bool) -> Event:
        content = line.strip(b"\r\n")
        skipped = line.find(content)
        if self._offset + start == 0 and content.startswith(_BOM):
            content, skipped = content[len(_BOM) :], skipped + len(_BOM)
        text, bad = _decode(content)
        at = None if bad is None else self._offset + start + skipped + bad
        return Event(text, raw=line, terminated=terminated, invalid_at=at)


def parse_lines(data: bytes) -> list[Event]:
    r"""All lines of newline-delimited JSON as events; lines end at LF only, one CR is stripped.

    Examples
    --------
    >>> [e.data for e in parse_lines(b'{"a":1}\n\n{"b":2}')]
    ['{"a":1}', '{"b":2}']
    """
    decoder = LineDecoder()
    return decoder.feed(data) + decoder.close()


def serialise_lines(events: Iterable[Event]) -> bytes:
    r"""The bytes of newline-delimited JSON.

    Examples
    --------
    >>> serialise_lines([Event('{"a":1}'), *parse_lines(b'{"b":2}')])
    b'{"a":1}\n{"b":2}\n'
    """
    out = bytearray()
    for event in events:
        if event.raw:
            out += event.raw if event.terminated else event.raw + b"\n"
        else:
            out += _encode(event.data) + b"\n"
    return bytes(out)
