"""The wire form of one envelope: text to value and back, exactly.

Reading refuses what the logs' own reader refuses (repeated struct keys, integers where the text has
a float, numbers beyond a double, lone surrogates, nesting deeper than 127) and says at which field.
Two things it reads better: floats are correctly rounded and integers of any size are kept.

Writing has two forms. The default keeps unknown keys, key order and the text of every time as read.
``canonical=True`` gives the bytes of the logs' own writer: unknown keys dropped, times normalised,
keys of free JSON values sorted, its float text; an integer beyond 64 bits, which that writer would
have turned into a float, is written exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from afnb.core import events as ev
from afnb.core import wirespec
from afnb.core.jsonvalue import Json, decoder, loads
from afnb.core.wirekinds import Fault, Repeats
from afnb.errors import EventError, InputError, ParameterError

DEEPEST = 127  # levels of nesting of one envelope, the envelope itself included

_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SPACE = re.compile(r"[ \t\n\r]*")


def parse_envelope(
    text: str | bytes, *, source: str | None = None, line: int | None = None, position: int | None = None
) -> ev.Envelope:
    """Read one envelope, an object or the array of its fields.

    Parameters
    ----------
    text
        One JSON text, e.g. one line of a ``.jsonl`` log; bytes are UTF-8.
    source, line, position
        Where it comes from, for messages: file, 1-based line, 0-based position in the array or run.

    Raises
    ------
    EventError
        It cannot be read; ``rule`` is ``bad_envelope``, ``unknown_kind`` or ``bad_payload`` and
        ``field`` the JSON path of the fault.

    Examples
    --------
    >>> e = parse_envelope('{"run_id":"00000000-0000-4000-8000-000000000001","seq":3,"schema_version":1,'
    ...     '"recorded_at":"2026-07-09T12:00:00Z","event":{"kind":"RandomObserved","payload":{"value":7}}}')
    >>> e.seq, e.event
    (3, RandomObserved(value=7))
    """
    where = _Where(source, line, position)
    decoded = _decoded(text, where)
    reader = _Reader()
    value, end = reader.value(decoded, _SPACE.match(decoded).end(), where)  # type: ignore[union-attr]
    if decoded[end:].strip(" \t\n\r"):
        raise where.error(f"text after the value, at column {end + 1}; expected one envelope")
    return reader.envelope(value, decoded, where)


def parse_array(text: str | bytes, *, source: str | None = None) -> list[ev.Envelope]:
    """Read a JSON array of envelopes, the form of a ``.json`` log.

    Raises
    ------
    EventError
        As `parse_envelope`; ``position`` is the element's index, or None when the text as a whole is
        no JSON array.
    """
    where = _Where(source, None, None)
    decoded = _decoded(text, where)
    reader = _Reader()
    return [
        reader.envelope(value, piece, _Where(source, line, index))
        for index, (value, piece, line) in enumerate(_elements(decoded, reader, source))
    ]


def write_envelope(envelope: ev.Envelope, *, canonical: bool = False) -> str:
    """One envelope as one line of JSON, without the line's end.

    Parameters
    ----------
    envelope
        The value; its fields are checked against the wire's ranges.
    canonical
        True for the bytes of the logs' own writer (see the module's text).

    Raises
    ------
    ParameterError
        A field cannot stand on the wire (a seq beyond 64 bits, a NaN), named by its path, or the
        whole is nested deeper than `DEEPEST`.
    """
    text = wirespec.write_envelope(envelope, canonical)
    if text.count("[") + text.count("{") > DEEPEST and depth(loads(text)) > DEEPEST:
        raise ParameterError(f"seq {envelope.seq} is nested deeper than {DEEPEST} levels; no reader takes it")
    return text


def write_lines(envelopes: Iterable[ev.Envelope], *, canonical: bool = False) -> list[str]:
    """`write_envelope` for each, in order."""
    return [write_envelope(e, canonical=canonical) for e in envelopes]


class _Where:
    """Where a text comes from, to make errors that say so."""

    __slots__ = ("line", "position", "source")

    def __init__(self, source: str | None, line: int | None, position: int | None) -> None:
        self.source, self.line, self.position = source, line, position

    def error(self, message: str, rule: str = "bad_envelope", field: str = "") -> EventError:
        return EventError(
            message, rule=rule, field=field, path=self.source, line=self.line, position=self.position
        )


def _decoded(text: str | bytes, where: _Where) -> str:
    if isinstance(text, str):
        found = None if text.isascii() else _SURROGATE.search(text)
        if found:
            raise where.error(f"a lone surrogate at column {found.start() + 1}; expected valid Unicode text")
    else:
        try:
            text = bytes(text).decode("utf-8")
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise where.error(
                f"not UTF-8: byte 0x{byte:02x} at offset {error.start}; save the log as UTF-8"
            ) from None
    if text.startswith("\ufeff"):
        raise where.error("it starts with a byte order mark; save the log as UTF-8 without one")
    return text


class _Reader:
    """A JSON decoder that notes repeated keys and hands out where values end."""

    __slots__ = ("_json", "_repeats")

    def __init__(self) -> None:
        self._repeats = False
        self._json = decoder(self._object)

    def _object(self, pairs: list[tuple[str, Json]]) -> Json:
        value = dict(pairs)
        if len(value) == len(pairs):
            return value
        self._repeats = True
        return Repeats.of(pairs)

    def value(self, text: str, start: int, where: _Where) -> tuple[Json, int]:
        """The JSON value at ``start`` and where it ends."""
        try:
            return self._json.raw_decode(text, start)
        except json.JSONDecodeError as error:
            raise _Where(where.source, _line(where, text, error.pos), None).error(
                f"not JSON: {error.msg.removesuffix(' at')} at {_place(where, text, error.pos)}"
            ) from None
        except RecursionError:
            raise where.error(f"nested deeper than {DEEPEST} levels") from None
        except InputError as error:
            no_json = error.message.startswith("not JSON:")  # NaN or Infinity: the text as a whole is none
            raise (_Where(where.source, where.line, None) if no_json else where).error(
                error.message
            ) from None

    def envelope(self, value: Json, text: str, where: _Where) -> ev.Envelope:
        """The envelope that ``value``, read from ``text``, stands for."""
        if text.count("[") + text.count("{") > DEEPEST and depth(value) > DEEPEST:
            raise where.error(f"nested deeper than {DEEPEST} levels")
        if _SURROGATE_ESCAPE.search(text):
            place = _lone_surrogate(value)
            if place is not None:
                raise where.error(f"a lone surrogate in the text at {place}; it is no Unicode character")
        try:
            envelope = wirespec.read_envelope(value)
            # The repeats that remain are in free JSON values, where the last one simply counts.
            return wirespec.read_envelope(_plain(value)) if self._repeats else envelope
        except Fault as fault:
            raise where.error(fault.message, fault.rule, fault.field) from None


def _plain(value: Json) -> Json:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _line(where: _Where, text: str, pos: int) -> int | None:
    return where.line if where.line is not None else text.count("\n", 0, pos) + 1


def _place(where: _Where, text: str, pos: int) -> str:
    column = f"column {pos - text.rfind(chr(10), 0, pos)}"
    if where.position is not None:
        column += f" (element {where.position})"
    return column


def _elements(text: str, reader: _Reader, source: str | None) -> Iterator[tuple[Json, str, int]]:
    """Value, own text and first line of each element of the array in ``text``."""

    def skip(at: int) -> int:
        return _SPACE.match(text, at).end()  # type: ignore[union-attr]

    def broken(at: int, expected: str) -> EventError:
        whole = _Where(source, text.count("\n", 0, at) + 1, None)
        return whole.error(f"not a JSON array: expected {expected} at {_place(whole, text, at)}")

    at = skip(0)
    if text[at : at + 1] != "[":
        raise broken(at, "'['")
    at = skip(at + 1)
    index, line, counted = 0, 1, 0
    more = text[at : at + 1] != "]"
    while more:
        line, counted = line + text.count("\n", counted, at), at
        value, end = reader.value(text, at, _Where(source, line, index))
        yield value, text[at:end], line
        at, index = skip(end), index + 1
        more = text[at : at + 1] == ","
        if more:
            at = skip(at + 1)
        elif text[at : at + 1] != "]":
            raise broken(at, "',' or ']'")
    at = skip(at + 1)
    if at != len(text):
        raise broken(at, "nothing more")


def depth(value: Json) -> int:
    """Levels of nesting of arrays and objects, counted no further than one beyond `DEEPEST`."""
    level, count = [value], 0
    while count <= DEEPEST:
        inner = [v for v in level if isinstance(v, dict | list | tuple)]
        if not inner:
            return count
        count += 1
        level = [c for v in inner for c in (v.values() if isinstance(v, dict) else v)]
    return count


def _lone_surrogate(value: Json) -> str | None:
    """The path of the first text or key that holds half a surrogate pair."""
    stack: list[tuple[str, Json]] = [("", value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, str):
            if _SURROGATE.search(item):
                return path or "the top"
        elif isinstance(item, dict):
            for key, child in item.items():
                if _SURROGATE.search(key):
                    return f"a key of {path or 'the top'}"
                stack.append((f"{path}.{key}" if path else key, child))
        elif isinstance(item, list):
            stack.extend((f"{path}[{i}]", child) for i, child in enumerate(item))
    return None
