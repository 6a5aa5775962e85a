"""How the fast reader decodes each kind of payload, derived from the wire's own table of fields.

The single-log parser decides what is an event; what is here only recognises, at speed, lines of which
it is certain that the parser takes them. `Shape.least` is the heart of it: the fewest bytes a payload
with these values can have. A payload that has exactly so many holds each key once, no other key, and
numbers in their plain form, for anything else would have cost bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Raw, UnsetType

from afnb.core import events as ev
from afnb.core import wirekinds
from afnb.core.wirespec import EVENTS
from afnb.tables.columns import AnyArray, Ints
from afnb.tables.rules import KIND_CODE

_view: Callable[[Any], Any] = memoryview
EXACT = 1 << 40  # more bytes than any line has
_POWERS = np.array([10**n for n in range(1, 20)], np.uint64)


class Event(msgspec.Struct, gc=False):
    """The event of an envelope, its payload as it stands."""

    kind: str
    payload: Raw


class Envelope(msgspec.Struct, gc=False):
    """One line of a log."""

    run_id: str
    seq: int
    schema_version: int
    recorded_at: str
    event: Event


class Usage(msgspec.Struct, gc=False):
    """Tokens of one model call."""

    input_tokens: int
    output_tokens: int


ENVELOPE_BYTES = len('{"run_id":"","seq":,"schema_version":,"recorded_at":"","event":{"kind":"","payload":}}')
_envelopes = msgspec.json.Decoder(Envelope)
decode_envelope, decode_envelopes = _envelopes.decode, _envelopes.decode_lines
decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
decode_elements = msgspec.json.Decoder(list[Raw]).decode
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode
_USAGE_BYTES = len('{"input_tokens":,"output_tokens":}')


def digits(values: AnyArray) -> Ints:
    """Decimal digits of unsigned integers.

    Examples
    --------
    >>> digits(np.array([0, 9, 10, 2**64 - 1], np.uint64)).tolist()
    [1, 1, 2, 20]
    """
    return np.searchsorted(_POWERS, values, side="right") + 1


def column(rows: Sequence[Any], name: str) -> list[Any]:
    """One attribute of every row."""
    return list(map(attrgetter(name), rows))


def lengths(raws: Sequence[Any]) -> Ints:
    """Bytes of pieces of JSON."""
    return np.array(list(map(len, map(_view, raws))), np.int64)


def unsigned(values: Sequence[int], most: int) -> AnyArray | None:
    """The integers as an array, or None if one of them is below 0 or above ``most``."""
    try:
        found = np.array(values, np.uint64)
    except OverflowError:
        return None
    return None if len(found) and int(found.max()) > most else found


@dataclass(frozen=True, slots=True)
class Shape:
    """How one kind of payload is decoded at speed.

    Parameters
    ----------
    decode
        Payload to struct; `msgspec.MsgspecError` where it is none.
    bytes
        What a payload of all required fields has besides their values.
    integers, texts
        Required fields, with the largest integer that is allowed.
    free
        The field that holds any JSON value, if it is required; ``free_optional`` if it may be absent.
    optional
        Other fields that may be absent or null: texts, and ``labels``.
    exact
        Fields whose presence sends a line to the exact reader, for they are rare.
    """

    kind: str
    code: int
    decode: Callable[[Any], Any]
    bytes: int
    integers: tuple[tuple[str, int], ...]
    texts: tuple[str, ...]
    free: str | None
    free_optional: str | None
    optional: tuple[str, ...]
    exact: tuple[str, ...]
    has_usage: bool

    def least(self, rows: Sequence[Any], numbers: Mapping[str, AnyArray]) -> Ints:
        """The fewest bytes each payload can have, given its values; far below 0 where only the exact
        reader can tell. ``numbers`` has the values of the integer fields.
        """
        total = np.full(len(rows), self.bytes, np.int64)
        for integers in numbers.values():
            total += digits(integers)
        for name in self.texts:
            total += np.array(list(map(len, column(rows, name))), np.int64)
        if self.free is not None:
            total += lengths(column(rows, self.free))
        if self.has_usage:
            total += _USAGE_BYTES
        maybe = self.optional if self.free_optional is None else (*self.optional, self.free_optional)
        for name in maybe:
            values = column(rows, name)
            if values.count(UNSET) < len(values):
                total += np.array([_optional_bytes(name, value) for value in values], np.int64)
        for name in self.exact:
            values = column(rows, name)
            if values.count(UNSET) < len(values):
                total += np.array([_null_bytes(name, value) for value in values], np.int64)
        if not (self.integers or self.texts or self.free or self.has_usage):
            total += total == self.bytes  # the brace that else follows the last field
        return total

    def inside(self, row: Any) -> tuple[Raw | None, int]:
        """The free value of a payload, and how many spaces its texts hold."""
        name = self.free or self.free_optional
        free = None if name is None else getattr(row, name)
        spaces = sum(getattr(row, text).count(" ") for text in self.texts)
        for other in self.optional:
            value = getattr(row, other)
            if isinstance(value, str):
                spaces += value.count(" ")
            elif isinstance(value, Raw):
                spaces += bytes(value).count(b" ")
        return (free if isinstance(free, Raw) else None), spaces


def _optional_bytes(name: str, value: Any) -> int:
    """What an optional field takes, its key and comma included."""
    if value is UNSET:
        return 0
    if type(value) is Raw:
        return len(name) + 4 + len(memoryview(value))
    return len(name) + 4 + (4 if value is None else len(value) + 2)


def _null_bytes(name: str, value: Any) -> int:
    """What a field takes that is absent or null; far below 0 for any other value."""
    if value is UNSET:
        return 0
    return len(name) + 8 if bytes(value) == b"null" else -EXACT


def plain_labels(raw: Any) -> bool:
    """Whether labels are absent, null or an object of texts."""
    if raw is UNSET or raw is None:
        return True
    try:
        _decode_labels(raw)
    except msgspec.MsgspecError:
        return bytes(raw) == b"null"
    return True


_TYPES: tuple[tuple[wirekinds.Kind, Any], ...] = (
    (wirekinds.U64, int),
    (wirekinds.U32, int),
    (wirekinds.TEXT, str),
    (wirekinds.TIME, str),
    (wirekinds.JSON, Raw),
    (wirekinds.EFFECT, Literal["read", "idempotent", "write"]),
    (wirekinds.PERFORMER, Literal["server", "client"]),
    (wirekinds.LABELS, Raw),
)
_MOST = {id(wirekinds.U64): ev.U64_MAX, id(wirekinds.U32): ev.U32_MAX}
_TEXTS = (wirekinds.TEXT, wirekinds.TIME, wirekinds.EFFECT)


def _shape(kind: str) -> Shape | None:
    """The shape of one kind, None for a kind that only the exact reader reads."""
    fields = EVENTS[kind].fields
    types = {id(k): t for k, t in _TYPES}
    declared: list[Any] = []
    integers, texts, optional, exact = [], [], [], []
    free = free_optional = None
    size, has_usage = 1, False
    for f in fields:
        python = Usage if f.name == "usage" else types.get(id(f.kind))
        if f.presence != "required":
            if python is None:
                exact.append(f.name)
                declared.append((f.name, Raw | UnsetType, UNSET))
                continue
            if f.kind is wirekinds.JSON:
                free_optional = f.name
            else:
                optional.append(f.name)
            absent = Raw | UnsetType if python is Raw else python | None | UnsetType
            declared.append((f.name, absent, UNSET))
            continue
        if python is None:
            return None
        declared.append((f.name, python))
        size += len(f.name) + 4
        if id(f.kind) in _MOST:
            integers.append((f.name, _MOST[id(f.kind)]))
        elif f.kind in _TEXTS:
            texts.append(f.name)
            size += 2
        elif f.kind is wirekinds.JSON:
            free = f.name
        has_usage = has_usage or python is Usage
    struct = msgspec.defstruct(f"{kind}Payload", declared, gc=False, kw_only=True)
    return Shape(
        kind,
        KIND_CODE[kind],
        msgspec.json.Decoder(struct).decode,
        size,
        tuple(integers),
        tuple(texts),
        free,
        free_optional,
        tuple(optional),
        tuple(exact),
        has_usage,
    )


SHAPES: Mapping[int, Shape] = {shape.code: shape for kind in EVENTS if (shape := _shape(kind)) is not None}
"""The shapes of the kinds by their code; ``BudgetExceeded`` has none."""
