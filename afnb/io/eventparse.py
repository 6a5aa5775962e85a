"""Lines of an event log to columns: at speed where that is certain, else by the single-log parser.

A line takes the first of four ways that is certain to agree with ``core.wire.parse_envelope``:

1. decoded by msgspec, it is as short as an envelope with its values can be (see ``eventkinds``);
2. so it is without the spaces between its tokens, which is how Python's json writes;
3. its objects' keys are found to stand there once each: unknown keys, escaped text;
4. the single-log parser itself, whose refusals become problems.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from afnb.core import events as ev
from afnb.core.instants import Instant
from afnb.core.jsonvalue import loads
from afnb.core.wire import parse_envelope
from afnb.errors import EventError, InputError
from afnb.io import eventkinds as fast
from afnb.io.eventbatch import NO_CODE, Batch, Names, Optional
from afnb.io.eventscan import Stretch
from afnb.io.eventtimes import usual
from afnb.tables.columns import AnyArray, Ints, arrow
from afnb.tables.events import extra_of, facts_of, nanoseconds
from afnb.tables.rules import KIND_CODE, UNKNOWN_KIND

BLANK = b" \t\r\n"
_NO_ENVELOPE = fast.Envelope("", 0, 0, "", fast.Event("", msgspec.Raw(b"null")))


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that is no event: where it stands among the lines, and why."""

    at: int
    error: EventError


class LineParser:
    """Reads lines into batches; ``names`` are the words of the batches' codes."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def parse(self, stretch: Stretch, source: str | None = None) -> tuple[Batch, list[Refused]]:
        """Read some lines; blank ones are passed over. ``source`` is the file, for messages."""
        return _Lines(self.names, stretch, source).read()


class _Lines:
    """One stretch of lines while it is read."""

    def __init__(self, names: Names, stretch: Stretch, source: str | None) -> None:
        self.names, self.stretch, self.source = names, stretch, source
        self.exact = stretch.doubtful()
        rows = len(stretch)
        envelopes = self._decoded()
        run_ids = fast.column(envelopes, "run_id")
        events = fast.column(envelopes, "event")
        payload = fast.column(events, "payload")
        self.batch = Batch(
            run=np.array(list(map(names.runs.__getitem__, run_ids)), np.int32),
            seq=self._integers(fast.column(envelopes, "seq"), ev.U64_MAX),
            version=self._integers(fast.column(envelopes, "schema_version"), ev.U32_MAX).astype(np.uint32),
            recorded_at=fast.column(envelopes, "recorded_at"),
            recorded_at_ns=Optional.none(rows, np.int64),
            kind=np.array(list(map(_KINDS.__getitem__, fast.column(events, "kind"))), np.uint8),
            corr=Optional.none(rows),
            tool=np.full(rows, NO_CODE, np.int32),
            effect=np.full(rows, NO_CODE, np.int8),
            node=np.full(rows, NO_CODE, np.int32),
            index=Optional.none(rows),
            input_tokens=Optional.none(rows),
            output_tokens=Optional.none(rows),
            value=Optional.none(rows),
            now_ns=Optional.none(rows, np.int64),
            payload=payload,
            payload_bytes=fast.lengths(payload),
            extra={},
            line=stretch.numbers,
        )
        self.exact |= self.batch.run < 0
        self.over = self._envelope_bytes(run_ids)
        self.structs: dict[int, tuple[fast.Shape, Any]] = {}

    def read(self) -> tuple[Batch, list[Refused]]:
        batch = self.batch
        for code in np.flatnonzero(np.bincount(batch.kind[~self.exact], minlength=256)).tolist():
            rows = np.flatnonzero((batch.kind == code) & ~self.exact)
            shape = fast.SHAPES.get(code)
            if shape is None:
                self.exact[rows] = True
            else:
                self._payloads(shape, rows)
        self._times()
        for row in np.flatnonzero((self.over != 0) & ~self.exact).tolist():
            if not self._spaced(row, int(self.over[row]), *self.structs[row]):
                self._by_members(row)
        return self._finish()

    def _decoded(self) -> list[fast.Envelope]:
        stretch = self.stretch
        if stretch.has_an_object_a_line:
            try:
                found = fast.decode_envelopes(stretch.data)
            except (msgspec.MsgspecError, RecursionError):
                pass
            else:
                if len(found) == len(stretch):  # else a line holds several values
                    return found
        found = []
        for row in range(len(stretch)):
            try:
                found.append(fast.decode_envelope(stretch.line(row)))
            except (msgspec.MsgspecError, RecursionError):
                found.append(_NO_ENVELOPE)
                self.exact[row] = True
        return found

    def _integers(self, values: list[int], most: int) -> AnyArray:
        found = fast.unsigned(values, most)
        if found is None:
            outside = [row for row, value in enumerate(values) if not 0 <= value <= most]
            self.exact[outside] = True
            found = np.array([value if 0 <= value <= most else 0 for value in values], np.uint64)
        return found

    def _envelope_bytes(self, run_ids: Sequence[str]) -> Ints:
        """By how many bytes each line exceeds the least it could have, its payload apart."""
        batch = self.batch
        over = self.stretch.sizes - batch.payload_bytes - fast.ENVELOPE_BYTES
        over -= np.array(list(map(len, run_ids)), np.int64)
        over -= np.array(list(map(len, batch.recorded_at)), np.int64)
        over -= _KIND_BYTES[batch.kind]
        over -= fast.digits(batch.seq)
        over -= fast.digits(batch.version.astype(np.uint64))
        return over

    def _payloads(self, shape: fast.Shape, rows: Ints) -> None:
        """Decode the payloads of one kind and fill the columns."""
        payload, decode = self.batch.payload, shape.decode
        try:
            found = [decode(payload[row]) for row in rows.tolist()]
        except (msgspec.MsgspecError, RecursionError):
            rows, found = self._decodable(shape, rows)
        numbers: dict[str, AnyArray] = {}
        for name, most in shape.integers:
            numbers[name] = self._own_integers(rows, fast.column(found, name), most)
        if shape.has_usage:
            usage = fast.column(found, "usage")
            for name in ("input_tokens", "output_tokens"):
                numbers[name] = self._own_integers(rows, fast.column(usage, name), ev.U32_MAX)
        least = shape.least(found, numbers)
        self.exact[rows[least < 0]] = True
        if "labels" in shape.optional:
            odd = [not fast.plain_labels(labels) for labels in fast.column(found, "labels")]
            self.exact[rows[odd]] = True
        self.over[rows] += self.batch.payload_bytes[rows] - least
        for n in np.flatnonzero(self.over[rows] != 0).tolist():
            self.structs[int(rows[n])] = (shape, found[n])
        self._fill(shape, rows, found, numbers)

    def _decodable(self, shape: fast.Shape, rows: Ints) -> tuple[Ints, list[Any]]:
        kept, found = [], []
        for row in rows.tolist():
            try:
                found.append(shape.decode(self.batch.payload[row]))
                kept.append(row)
            except (msgspec.MsgspecError, RecursionError):
                self.exact[row] = True
        return np.array(kept, np.int64), found

    def _own_integers(self, rows: Ints, values: list[int], most: int) -> AnyArray:
        found = fast.unsigned(values, most)
        if found is None:
            good = [0 <= value <= most for value in values]
            self.exact[rows[~np.array(good)]] = True
            found = np.array([value if ok else 0 for value, ok in zip(values, good, strict=True)], np.uint64)
        return found

    def _fill(
        self, shape: fast.Shape, rows: Ints, found: Sequence[Any], numbers: Mapping[str, AnyArray]
    ) -> None:
        batch, names = self.batch, self.names
        for name, values in numbers.items():
            column = getattr(batch, _COLUMN_OF.get(name, name))
            column.put(rows, values)
        if "tool" in shape.texts:
            batch.tool[rows] = list(map(names.tools.__getitem__, fast.column(found, "tool")))
        if "effect" in shape.texts:
            batch.effect[rows] = list(map(_EFFECT_CODE.__getitem__, fast.column(found, "effect")))
        if "node" in shape.texts:
            batch.node[rows] = list(map(names.nodes.__getitem__, fast.column(found, "node")))
        if "now" in shape.texts:
            self._put_times(batch.now_ns, rows, fast.column(found, "now"))

    def _times(self) -> None:
        batch = self.batch
        rows: Ints = np.arange(len(self.stretch))
        texts: list[str] = batch.recorded_at
        if self.exact.any():
            rows = np.flatnonzero(~self.exact)
            texts = [texts[row] for row in rows.tolist()]
        self._put_times(batch.recorded_at_ns, rows, texts)

    def _put_times(self, column: Optional, rows: Ints, texts: list[str]) -> None:
        """Times as nanoseconds: the usual forms by Arrow, the others one by one."""
        pa, _ = arrow()
        found = pa.array(texts, pa.large_string())
        mask = usual(found)
        if not mask.all():
            found = found.filter(pa.array(mask))
            for n in np.flatnonzero(~mask).tolist():
                try:
                    ns = nanoseconds(Instant.parse(texts[n]))
                except InputError:
                    self.exact[rows[n]] = True
                    continue
                if ns is not None:
                    column.put(rows[n], ns)
            rows = rows[mask]
        column.put(rows, found.cast(pa.timestamp("ns", "UTC")).view(pa.int64()).to_numpy())

    def _spaced(self, row: int, over: int, shape: fast.Shape, struct: Any) -> bool:
        """Whether the spaces between its tokens are all that a line has too much."""
        line = self.stretch.line(row)
        free, inside = shape.inside(struct)
        spaces = line.count(b" ") - inside - self.batch.recorded_at[row].count(" ")
        return spaces - (0 if free is None else bytes(free).count(b" ")) == over

    def _by_members(self, row: int) -> None:
        """Look at the keys of each object of the wire's; keep the unknown ones."""
        envelope = members(self.stretch.line(row))
        event = None if envelope is None else members(envelope["event"])
        payload = None if event is None else members(event["payload"])
        objects = [envelope, event, payload]
        if payload is not None and "usage" in payload:
            objects.append(members(payload["usage"]))
        if any(
            one is None or any(bytes(v) == b"-0" for v in one.values() if len(memoryview(v)) == 2)
            for one in objects
        ):
            self.exact[row] = True
            return
        assert envelope is not None
        assert event is not None
        beside_run = {k: loads(bytes(v)) for k, v in envelope.items() if k not in _ENVELOPE_KEYS}
        beside_kind = {k: loads(bytes(v)) for k, v in event.items() if k not in _EVENT_KEYS}
        extra = extra_of(beside_run, beside_kind)
        if extra is not None:
            self.batch.extra[row] = extra

    def _finish(self) -> tuple[Batch, list[Refused]]:
        """Read the remaining lines exactly and leave out those that are no events."""
        refused: list[Refused] = []
        lost: list[int] = []
        for row in np.flatnonzero(self.exact).tolist():
            line = self.stretch.line(row)
            try:
                if not line.strip(BLANK):
                    lost.append(row)
                    continue
                envelope = parse_envelope(line, source=self.source, line=int(self.batch.line[row]))
            except EventError as error:
                refused.append(Refused(row, error))
                lost.append(row)
                continue
            self._put(row, line, envelope)
        if not lost:
            return self.batch, refused
        kept = np.ones(len(self.stretch), np.bool_)
        kept[lost] = False
        return self.batch.keep(np.flatnonzero(kept)), refused

    def _put(self, row: int, line: bytes, envelope: ev.Envelope) -> None:
        """Fill one row from a parsed envelope."""
        batch, names = self.batch, self.names
        batch.run[row] = names.runs[envelope.run_id]
        batch.seq[row], batch.version[row] = envelope.seq, envelope.schema_version
        batch.recorded_at[row] = envelope.recorded_at.verbatim
        batch.kind[row] = KIND_CODE[envelope.event.kind]
        batch.payload[row] = payload_text(line)
        batch.payload_bytes[row] = len(batch.payload[row])
        batch.tool[row] = batch.node[row] = batch.effect[row] = NO_CODE
        for name in _NUMBER_COLUMNS:
            getattr(batch, name).there[row] = False
        facts = {"recorded_at_ns": nanoseconds(envelope.recorded_at), **facts_of(envelope.event)}
        for name, value in facts.items():
            if value is None:
                continue
            if name in ("tool", "node"):
                getattr(batch, name)[row] = (names.tools if name == "tool" else names.nodes)[value]
            elif name == "effect":
                batch.effect[row] = _EFFECT_CODE[value]
            else:
                getattr(batch, name).put(row, value)
        extra = extra_of(envelope.extra, envelope.event_extra)
        if extra is not None:
            batch.extra[row] = extra


_COLUMN_OF = {"seq": "corr", "winner_index": "index"}
_NUMBER_COLUMNS = (
    "recorded_at_ns", "corr", "index", "input_tokens", "output_tokens", "value", "now_ns",
)  # fmt: skip
_ENVELOPE_KEYS = frozenset(("run_id", "seq", "schema_version", "recorded_at", "event"))
_EVENT_KEYS = frozenset(("kind", "payload"))
_EFFECT_CODE = {effect: n for n, effect in enumerate(ev.EFFECTS)}


class _KindCodes(dict[str, int]):
    def __missing__(self, kind: str) -> int:
        return UNKNOWN_KIND


_KINDS = _KindCodes(KIND_CODE)
_KIND_BYTES = np.zeros(256, np.int64)
for _name, _code in KIND_CODE.items():
    _KIND_BYTES[_code] = len(_name)


def members(raw: Any) -> dict[str, msgspec.Raw] | None:
    """The members of an object whose text names each key once and escapes none; else None.

    Examples
    --------
    >>> sorted(members(b'{"a":1, "b":2}')), members(b'{"a":1,"a":2}')
    (['a', 'b'], None)
    """
    text = bytes(raw)
    try:
        found = fast.decode_members(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    least = 1 if found else 2
    spaces = 0
    for key, value in found.items():
        least += len(key.encode("utf-8")) + 4 + len(memoryview(value))
        spaces += key.count(" ") + bytes(value).count(b" ")
    over = len(text) - least
    return found if over == 0 or over == text.count(b" ") - spaces else None


def payload_text(line: bytes) -> bytes:
    """The payload of a line that is an envelope of either form, character for character.

    Examples
    --------
    >>> payload_text(b'["r",0,1,"t",{"kind":"k", "payload" : {"a": 1.0} }]')
    b'{"a": 1.0}'
    """
    text = line.decode("utf-8")
    event = _member(text, _skip(text, 0), "event", 4)
    start = _member(text, event, "payload", 1)
    return text[start : _decoder.raw_decode(text, start)[1]].encode("utf-8")


_decoder = json.JSONDecoder(parse_int=str, parse_float=str)  # only where values end is asked
_SPACE = re.compile(r"[ \t\r\n]*")


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _member(text: str, at: int, key: str, index: int) -> int:
    """Where the value of a key begins in the object at ``at``, or in an array the value of that index."""
    is_object = text[at] == "{"
    at = _skip(text, at + 1)
    for n in itertools.count():
        name: str | int = n
        if is_object:
            name, end = _decoder.raw_decode(text, at)
            at = _skip(text, _skip(text, end) + 1)
        if name == (key if is_object else index):
            return at
        at = _skip(text, _decoder.raw_decode(text, at)[1])
        at = _skip(text, at + 1)
    raise AssertionError
