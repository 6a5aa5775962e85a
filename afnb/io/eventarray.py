"""The envelopes of one JSON array, as if each stood on a line of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec
import numpy as np

from afnb.io import eventkinds as fast
from afnb.io.eventproblems import Problem, problem
from afnb.io.eventscan import Fill, Stretch

_STRETCH = 2 << 20
_READ = 4 << 20
_SPACE = re.compile(r"[ \t\r\n]*")
_BETWEEN = re.compile(rb"[ \t\r\n\[,]*")

Element = tuple[bytes, int, int]


def array_stretches(fill: Fill, file: str | None, problems: list[Problem]) -> Iterator[Stretch]:
    """The elements of an array of envelopes, each on one line; the array is read as a whole.

    Line ends inside an element, which JSON has between its tokens only, become spaces. Where the text
    stops being JSON there is a problem, and what came before it is kept.
    """
    data = bytearray()
    buffer = bytearray(_READ)
    while size := fill(memoryview(buffer)):
        data += buffer[:size]
    waiting: list[Element] = []
    held = 0
    for element in _elements(bytes(data), file, problems):
        waiting.append(element)
        held += len(element[0])
        if held >= _STRETCH:
            yield _stretch(waiting)
            waiting, held = [], 0
    if waiting:
        yield _stretch(waiting)


def _stretch(elements: list[Element]) -> Stretch:
    text = b"".join(element.replace(b"\n", b" ") + b"\n" for element, _, _ in elements)
    numbers = np.array([line for _, line, _ in elements], np.int64)
    places = np.array([place for _, _, place in elements], np.int64)
    return Stretch(memoryview(text), 0, 0, numbers=numbers, places=places)


def _elements(data: bytes, file: str | None, problems: list[Problem]) -> Iterator[Element]:
    """Text, first line and first byte of each element."""
    try:
        found = fast.decode_elements(data)
    except (msgspec.MsgspecError, RecursionError):
        yield from _one_by_one(data, file, problems)
        return
    at, line, counted = 0, 1, 0
    for raw in found:
        text = bytes(raw)
        at = _BETWEEN.match(data, at).end()  # type: ignore[union-attr]
        line += data.count(b"\n", counted, at)
        counted = at
        yield text, line, at
        at += len(text)


def _one_by_one(data: bytes, file: str | None, problems: list[Problem]) -> Iterator[Element]:
    """The same for a text that is no JSON as a whole: as far as it can be told apart."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}; save the log as UTF-8"
        problems.append(problem("error", "bad_envelope", message, file, line=line, byte=error.start))
        text = data[: error.start].decode("utf-8")
    decoder = json.JSONDecoder(parse_int=str, parse_float=str)  # only where elements end is asked
    at = _skip(text, _skip(text, 0) + 1)
    more = text[at : at + 1] != "]"
    line, counted, byte, encoded = 1, 0, 0, 0
    while more:
        line, counted = line + text.count("\n", counted, at), at
        byte, encoded = byte + len(text[encoded:at].encode("utf-8")), at
        try:
            _, end = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            _broken(text, at, error, file, line, byte, problems)
            return
        yield text[at:end].encode("utf-8"), line, byte
        at = _skip(text, end)
        more = text[at : at + 1] == ","
        if more:
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "]":
            _broken(text, at, None, file, line + text.count("\n", counted, at), byte, problems)
            return
    if text[_skip(text, at + 1) :]:
        problems.append(problem("error", "bad_envelope", "text after the array", file, line=line))


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _broken(
    text: str,
    at: int,
    error: Exception | None,
    file: str | None,
    line: int,
    byte: int,
    problems: list[Problem],
) -> None:
    """Say that the array cannot be read on: cut off at the end of the file, or broken before it."""
    where = {"line": line, "byte": byte}
    place = error.pos if isinstance(error, json.JSONDecodeError) else at
    unterminated = isinstance(error, json.JSONDecodeError) and error.msg.startswith("Unterminated")
    if unterminated or _skip(text, place) >= len(text):
        message = (
            f"the array breaks off here, {len(text) - at} characters into an event; "
            "it may still be being written"
        )
        problems.append(problem("warning", "unfinished_tail", message, file, **where))
        return
    found = error.msg if isinstance(error, json.JSONDecodeError) else "expected ',' or ']'"
    if isinstance(error, RecursionError):
        found = "nested too deeply"
    message = f"not a JSON array from here on: {found}; what came before was read"
    problems.append(problem("error", "bad_envelope", message, file, **where))
