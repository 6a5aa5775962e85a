"""`read_events` takes exactly the lines that the single-log parser takes, and keeps every value."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import Json, equal, loads
from afnb.core.wire import parse_envelope
from afnb.errors import EventError
from afnb.io.events import read_events
from afnb.tables.events import event_problems, events_table

from .event_lines import good_line, odd_lines


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
