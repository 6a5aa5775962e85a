"""``read_events``: any number of event logs as one Arrow table.

::

    files -> stretches of lines -> columns (or problems) -> one table
            (eventsources, eventscan)  (eventparse)        (eventbatch)

Nothing is inferred from the data: columns and types are declared, payloads are kept character for
character. A line that the single-log parser would refuse is left out and becomes a row of the table's
problems (see `event_problems`); every other line is a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from afnb.core.eventlog import is_array
from afnb.errors import InputError, ParameterError
from afnb.io.eventarray import array_stretches
from afnb.io.eventbatch import NO_CODE, Batch, Names, TableBuilder
from afnb.io.eventparse import LineParser
from afnb.io.eventproblems import Problem, TimesOutside, problem, remarks, unread
from afnb.io.eventscan import Fill, Stretch, stretches
from afnb.io.eventsources import Damaged, EventsFrom, EventSource, find_sources, opened, table_format
from afnb.tables.build import build
from afnb.tables.columns import arrow, codes, numbers
from afnb.tables.events import as_events, event_problems, with_problems

if TYPE_CHECKING:
    import pyarrow as pa

STRETCH_BYTES = 2 << 20
"""Read at a time: so much of a log, and what becomes of it, fits in a processor's cache."""

_SHARED_RUNS = 100


def read_events(sources: EventsFrom | Iterable[EventsFrom]) -> pa.Table:
    """Read event logs into one table.

    Parameters
    ----------
    sources
        A path, a folder, a pattern (``logs/**/*.jsonl``), an open file, or several of these. Files
        hold one envelope a line or one JSON array of envelopes, of one run or many, interleaved or
        not; ``.gz`` and ``.zst`` are told by their first bytes. Tables written by `write_events` are
        read as well. Files are read in path order.

    Returns
    -------
    pyarrow.Table
        The declared table ``events``, one row an event. Lines that are no events are left out;
        `event_problems` lists them with file and line, and remarks besides (an unfinished last line,
        a run in two files).

    Raises
    ------
    InputError
        There is no such file, or it cannot be opened.
    ParameterError
        ``sources`` are no paths or open files.

    Examples
    --------
    >>> import io
    >>> line = (b'{"run_id":"00000000-0000-4000-8000-000000000001","seq":0,"schema_version":1,'
    ...     b'"recorded_at":"2026-07-09T12:00:00Z","event":{"kind":"RunFailed","payload":{"error":"x"}}}')
    >>> events = read_events(io.BytesIO(line + b"\\n" + line[:50]))
    >>> events.column("payload").to_pylist()
    ['{"error":"x"}']
    >>> event_problems(events).column("rule").to_pylist()
    ['unfinished_tail']
    """
    reading = _Reading()
    tables = [table for source in find_sources(sources) if (table := reading.read(source)) is not None]
    return reading.table(tables)


class _Reading:
    """One call of `read_events`."""

    def __init__(self) -> None:
        self.names = Names()
        self.parser = LineParser(self.names)
        self.builder = TableBuilder(self.names)
        self.problems: list[Problem] = []

    def read(self, source: EventSource) -> pa.Table | None:
        """Read one source; what is a table already is given back."""
        with opened(source) as (head, fill):
            kind = table_format(head)
            if kind is not None:
                return read_table(source, fill)
            file = NO_CODE if source.path is None else self.names.files[source.path]
            times, events, before = TimesOutside(), self.builder.rows, len(self.problems)
            for stretch, batch in self._batches(fill, source.path):
                times.see(batch)
                self.builder.add(batch, file)
                self.problems += remarks(stretch, batch, source.path)
            self.problems += times.problems(source.path)
            if events == self.builder.rows and before == len(self.problems):
                self.problems.append(
                    problem("warning", "no_events", "there are no events in it", source.path)
                )
        return None

    def _batches(self, fill: Fill, file: str | None) -> Iterator[tuple[Stretch, Batch]]:
        try:
            for stretch in log_stretches(fill, file, self.problems):
                batch, refused = self.parser.parse(stretch, file)
                self.problems += [unread(stretch, one, file) for one in refused]
                yield stretch, batch
        except Damaged as damage:
            message = f"{damage}; what came before that was read"
            self.problems.append(problem("error", "damaged_file", message, file))
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path=file) from None

    def table(self, more: list[pa.Table]) -> pa.Table:
        """Everything that was read, in the order of the files."""
        import pyarrow as pa

        table = self.builder.table()
        if more:
            self.problems += [row for one in more for row in event_problems(one).to_pylist()]
            parts = [*([table] if table.num_rows else []), *more]
            table = pa.concat_tables([part.replace_schema_metadata(table.schema.metadata) for part in parts])
        self.problems += _shared_runs(table)
        return with_problems(table, build("problems", self.problems))


def log_stretches(
    fill: Fill, file: str | None, problems: list[Problem], first_byte: int = 0, may_be_array: bool = True
) -> Iterator[Stretch]:
    """The envelopes of a log, whether it has one a line or an array of them.

    A part of a file, which begins at ``first_byte``, is no array whatever its first line looks like.
    """
    start = bytearray()
    while len(start) < 4096 and (more := _some(fill, 4096 - len(start))):
        start += more
    rest = memoryview(bytes(start))

    def again(view: memoryview) -> int:
        nonlocal rest
        if not rest:
            return fill(view)
        size = min(len(view), len(rest))
        view[:size] = rest[:size]
        rest = rest[size:]
        return size

    if may_be_array and is_array(bytes(start)):
        yield from array_stretches(again, file, problems)
    else:
        yield from stretches(again, STRETCH_BYTES, first_byte)


def _some(fill: Fill, size: int) -> bytes:
    data = bytearray(size)
    return bytes(data[: fill(memoryview(data))])


def _shared_runs(table: pa.Table) -> list[Problem]:
    """A warning for each run whose events stand in several files (the first hundred such runs)."""
    files, runs = codes(table, "file"), codes(table, "run_id")
    if len(files.words) < 2 or not table.num_rows:
        return []
    pairs, first = np.unique(
        runs.codes.astype(np.int64) * (len(files.words) + 1) + files.codes + 1, return_index=True
    )
    run_of = pairs // (len(files.words) + 1)
    again = np.flatnonzero(run_of[1:] == run_of[:-1]) + 1
    lines = numbers(table, "line", np.int64).values
    found = []
    for n in again[:_SHARED_RUNS].tolist():
        row = int(first[n])
        before = files.text(int(first[n - 1]))
        message = (
            f"run {runs.text(row)} has events in {before} as well; they are taken as one log, in this order"
        )
        found.append(
            problem(
                "warning",
                "run_in_two_files",
                message,
                files.text(row),
                line=int(lines[row]),
                run_id=runs.text(row),
            )
        )
    if len(again) > _SHARED_RUNS:
        message = f"and {len(again) - _SHARED_RUNS:,} runs more have events in several files"
        found.append(problem("warning", "run_in_two_files", message, None))
    return found


def read_table(source: EventSource, fill: Fill, only: list[str] | None = None) -> pa.Table:
    """A table of events from a Parquet or Arrow IPC file, or some of its columns."""
    pa, _ = arrow()
    import pyarrow.parquet as pq

    try:
        if source.stream is None:
            place: Any = pa.memory_map(source.path)
        else:
            place = pa.BufferReader(b"".join(iter(lambda: _some(fill, STRETCH_BYTES), b"")))
        if table_format(place.read(8)) == "parquet":
            place.seek(0)
            found = pq.read_table(place, columns=only)
        else:
            place.seek(0)
            found = pa.ipc.open_file(place).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"the table cannot be read: {error}", path=source.path) from None
    try:
        return as_events(found) if only is None else found
    except ParameterError as error:
        raise InputError(f"it is a table, but none of events: {error}", path=source.path) from None
