"""`read_events` takes exactly the lines that the single-log parser takes, and keeps every value."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from afnb.core import events as ev
from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import Json, equal, loads
from afnb.core.wire import parse_envelope
from afnb.errors import EventError
from afnb.io.events import read_events
from afnb.io.eventwrite import write_events
from afnb.tables.events import event_problems, events_table
from afnb.tables.schemas import schema
from afnb.testing import logs

from .event_lines import RUN, good_line, odd_lines


def plain(table: pa.Table) -> pa.Table:
    """The table with coded text as text and in one chunk, without metadata: to compare values."""
    arrays = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(arrays, names=table.schema.names).combine_chunks()


def row_of(line: bytes) -> dict[str, Any] | EventError | None:
    """What the single-log parser makes of a line, as a row of the table; None for a blank line."""
    if not line.strip(b" \t\r\n"):
        return None
    try:
        envelope = parse_envelope(line)
    except EventError as error:
        return error
    (row,) = events_table(EventLog(envelope.run_id, (envelope,))).drop_columns(["payload"]).to_pylist()
    return row


def payload_in(line: bytes) -> Json:
    """The payload of a line that is an envelope of either form."""
    envelope = loads(line)
    event = envelope["event"] if isinstance(envelope, dict) else envelope[4]
    return event["payload"] if isinstance(event, dict) else event[1]


def agree(lines: list[bytes], table: pa.Table) -> None:
    """Check a table against the single-log parser, line by line."""
    rows, refused = table.to_pylist(), event_problems(table).to_pylist()
    rows_of = {row["line"]: row for row in rows}
    errors = {row["line"]: row for row in refused if row["level"] == "error"}
    for number, line in enumerate(lines, 1):
        single = row_of(line)
        if single is None:
            assert number not in rows_of
            assert number not in errors
        elif isinstance(single, EventError):
            assert number not in rows_of, line
            found = errors[number]
            assert (found["rule"], found["message"], found["field"] or "") == (
                single.rule,
                single.message,
                single.field,
            )
            assert found["byte"] == sum(len(before) + 1 for before in lines[: number - 1])
        else:
            assert number not in errors, (line, errors[number])
            mine = dict(rows_of[number])
            assert mine["payload"].encode() in line
            assert equal(loads(mine.pop("payload")), payload_in(line))
            assert mine | {"file": None, "line": None} == single | {"file": None, "line": None}
    assert len(rows_of) == len(rows)


@settings(max_examples=300)
@given(st.lists(odd_lines(), min_size=1, max_size=6))
def test_it_agrees_with_the_single_log_parser_line_by_line(lines: list[bytes]) -> None:
    lines = [good_line(0), *lines, good_line(1)]
    table = read_events(io.BytesIO(b"\n".join(lines) + b"\n"))
    for line in lines[1:-1]:
        event("refused" if isinstance(row_of(line), EventError) else "taken")
    agree(lines, table)


@settings(max_examples=60)
@given(st.lists(odd_lines(), max_size=8), st.sampled_from((40, 300, 1000)), st.booleans())
def test_where_reads_end_changes_nothing(lines: list[bytes], size: int, closed: bool) -> None:
    data = b"\n".join([good_line(0), *lines, good_line(1)]) + (b"\n" if closed else b"")
    whole = read_events(io.BytesIO(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("afnb.io.events.STRETCH_BYTES", size)
        pieces = read_events(io.BytesIO(data))
    assert plain(pieces).equals(plain(whole))
    assert event_problems(pieces).equals(event_problems(whole))


@settings(max_examples=60)
@given(st.lists(logs.any_envelopes(), max_size=8))
def test_writing_and_reading_give_an_equal_table(envelopes: list[ev.Envelope]) -> None:
    log = EventLog(None, tuple(envelopes))
    table = events_table(log)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.jsonl", "a.json", "a.jsonl.gz", "a.json.zst", "a.parquet", "a.arrow"):
            path = os.path.join(folder, name)
            write_events(table, path)
            again = read_events(path)
            nameless = again.drop_columns(["file", "line"])
            assert plain(nameless).equals(plain(table.drop_columns(["file", "line"]))), name
            assert again.schema.equals(schema("events"))
            if name == "a.jsonl":
                assert Path(path).read_bytes() == log.to_bytes()
        write_events(log, os.path.join(folder, "c.jsonl"), canonical=True)
        assert Path(folder, "c.jsonl").read_bytes() == log.to_bytes(canonical=True)


def payloads(data: bytes) -> list[str]:
    return read_events(io.BytesIO(data)).column("payload").to_pylist()


def value_line(value: str) -> bytes:
    """A line whose payload holds one free value, written as it is."""
    line = good_line(event={"kind": "RunCompleted", "payload": {"output": "HERE"}})
    return line.replace(b'"HERE"', value.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "value",
    [
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "1" * 40,
        "1" * 9000,
        "1.0",
        "-0",
        "-0.0",
        "0.1234567890123456789",
        "1e308",
        "1E+000307",
        "1e-400",
        '{"x":1,"x":2}',
        '"\\ud83d\\ude00"',
        '"\\u0000"',
        '"e999,"',
        '"\u2028\u0085\x7f"',
        "[" * 124 + "]" * 124,
        '"' + "[{" * 500 + '"',
        '"' + "9" * 400 + '"',
        "null",
        '"0010"',
        "9" * 308 + ".5",
        '{"2024-01-02":"2024-01-02"}',
        '"00010"',
        "1344800117571260417",
    ],
)
def test_a_value_is_kept_character_for_character(value: str) -> None:
    line = value_line(value)
    for data in (line + b"\n", b"[" + line + b"]", b"[\n" + line + b",\n" + line + b"\n]\n"):
        assert set(payloads(data)) == {f'{{"output":{value}}}'}
    assert equal(loads(payloads(line)[0])["output"], loads(value))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1e400", "1e400 is too large"),
        ("-1E+0400", "too large"),
        ("9" * 309 + ".0", "too large"),
        ("1" * 250 + "e99", "too large"),
        ("[1,1e309]", "too large"),
        ("NaN", "NaN is not a JSON number"),
        ("-Infinity", "Infinity is not a JSON number"),
        ('"\\ud800"', "a lone surrogate in the text at event.payload.output"),
        ('{"a":["x\\udc00"]}', r"a lone surrogate in the text at event.payload.output.a\[0\]"),
        ("[" * 2000 + "]" * 2000, "nested deeper than 127"),
        ("[" * 125 + "]" * 125, "nested deeper than 127"),
        ("01", "not JSON"),
        ("[1,]", "not JSON"),
        ('"\t"', "not JSON"),
        ("tru", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_what_cannot_be_held_is_refused_with_file_and_line(value: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(good_line(0) + b"\n" + value_line(value) + b"\n" + good_line(1) + b"\n")
    events = read_events(path)
    assert events.column("seq").to_pylist() == [0, 1]
    (found,) = event_problems(events).to_pylist()
    assert (found["file"], found["line"], found["byte"]) == (str(path), 2, len(good_line(0)) + 1)
    assert (found["level"], found["rule"], found["run_id"], found["seq"]) == ("error", "bad_envelope", RUN, 0)
    assert re.search(message, found["message"])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda line: line.replace(b'"HERE"', b'"\xff"'), "not UTF-8: byte 0xff at offset"),
        (lambda line: line.replace(b'"HERE"', b'"\xed\xa0\x80"'), "not UTF-8: byte 0xed"),
        (lambda line: line.replace(b'"HERE"', b'"\xe2\x82"'), "not UTF-8"),
        (lambda line: b"\xef\xbb\xbf" + line, "byte order mark"),
        (lambda line: line.decode().encode("utf-16"), "not"),
    ],
)
def test_bytes_that_are_no_text_are_refused(damage: Callable[[bytes], bytes], message: str) -> None:
    line = damage(value_line('"HERE"'))
    events = read_events(io.BytesIO(good_line(0) + b"\n" + line + b"\n" + good_line(1)))
    assert events.column("seq").to_pylist() == [0, 1]
    assert message in event_problems(events).column("message").to_pylist()[0]


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2026-07-09T12:00:00Z", 1783598400000000000),
        ("2026-07-09t14:00:00.123456789+02:00", 1783598400123456789),
        ("2026-07-09T12:00:00.1234567899Z", 1783598400123456789),
        ("2026-06-30T23:59:60Z", 1782863999999999999),
        ("2024-02-29T00:00:00Z", 1709164800000000000),
        ("1677-09-21T00:12:43.145224193Z", -(2**63) + 1),
        ("1677-09-21T00:12:43.145224192Z", None),
        ("2262-04-11T23:47:16.854775807Z", 2**63 - 1),
        ("2262-04-11T23:47:16.854775808Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59Z", None),
    ],
)
def test_a_time_is_kept_as_text_and_exact_in_utc_where_arrow_can_hold_it(text: str, ns: int | None) -> None:
    now = good_line(event={"kind": "NowObserved", "payload": {"now": text}}, recorded_at=text)
    events = read_events(io.BytesIO(b"\n".join([good_line(0), now, good_line(1), b""])))
    assert events.column("recorded_at").to_pylist()[1] == text
    for name in ("recorded_at_ns", "now_ns"):
        assert events.column(name).cast(pa.int64()).to_pylist()[1] == ns
    warned = [(row["rule"], row["line"], row["level"]) for row in event_problems(events).to_pylist()]
    assert warned == ([] if ns is not None else [("time_out_of_range", 2, "warning")])


@pytest.mark.parametrize(
    "text", ["2026-07-09T12:00:00", "2026-06-30T12:00:60Z", "2023-02-29T00:00:00Z", "2026-07-09", ""]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    events = read_events(io.BytesIO(good_line(0, recorded_at=text) + b"\n"))
    assert events.num_rows == 0
    assert event_problems(events).column("field").to_pylist() == ["recorded_at"]


def test_the_largest_integers_are_exact_in_every_column() -> None:
    most = 2**64 - 1
    lines = [
        good_line(most, event={"kind": "RandomObserved", "payload": {"value": most}}),
        good_line(1, event={"kind": "ToolCallCompleted", "payload": {"seq": most, "output": None}}),
        good_line(
            2, event={"kind": "FoldConverged", "payload": {"node": "n", "winner_index": most, "reason": ""}}
        ),
        good_line(
            3,
            event={
                "kind": "ModelCallCompleted",
                "payload": {
                    "seq": 0,
                    "response": 1,
                    "usage": {"input_tokens": 2**32 - 1, "output_tokens": 0},
                },
            },
        ),
    ]
    events = read_events(io.BytesIO(b"\n".join(lines)))
    frame = events.to_pandas()
    assert frame["seq"].tolist() == [most, 1, 2, 3]
    assert [frame[name][row] for name, row in (("value", 0), ("corr", 1), ("index", 2))] == [most] * 3
    assert frame["input_tokens"].dropna().tolist() == [2**32 - 1]
    assert str(frame["value"].dtype) == "UInt64"
