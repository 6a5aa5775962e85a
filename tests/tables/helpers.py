"""What the tests of event tables share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from afnb.core import events as ev
from afnb.core.eventlog import EventLog
from afnb.core.wire import parse_array
from afnb.errors import EventError
from afnb.tables.events import events_table


def plain(table: pa.Table) -> pa.Table:
    """The table with coded text as text and in one chunk, without metadata: to compare values."""
    arrays = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(arrays, names=table.schema.names).combine_chunks()


def read_vector(vector: dict[str, Any]) -> list[ev.Envelope] | None:
    """The log of a validator vector, or None where it cannot be read."""
    try:
        return parse_array(vector["raw"] if "raw" in vector else json.dumps(vector["log"]))
    except EventError:
        return None


def one_table(logs: Iterable[list[ev.Envelope]]) -> pa.Table:
    """All logs in one table, each as a file of its own, named by its number."""
    return events_table(
        EventLog(log[0].run_id if log else None, tuple(log), str(number)) for number, log in enumerate(logs)
    )
