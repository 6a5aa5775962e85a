"""``validate_files``: the shape of logs larger than memory, checked piece by piece on several cores.

A file of lines is cut into byte ranges, each of which begins at the first line that starts in it; a
compressed file, an array or a table is one task. Each task reads some megabytes at a time and keeps of
an event only what the rules ask for; what it says of its range is joined in the order of the files
(see ``tables.pieces``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from afnb.core import events as ev
from afnb.core.eventlog import is_array
from afnb.errors import InputError, ParameterError
from afnb.io.eventbatch import NO_CODE, Names
from afnb.io.eventparse import LineParser
from afnb.io.eventproblems import Problem, problem, remarks, unread
from afnb.io.events import log_stretches, read_table
from afnb.io.eventscan import Fill, Stretch
from afnb.io.eventsources import (
    Damaged,
    EventsFrom,
    EventSource,
    find_sources,
    is_compressed,
    opened,
    table_format,
)
from afnb.tables.build import build
from afnb.tables.columns import Codes, Numbers, group
from afnb.tables.events import event_problems
from afnb.tables.pieces import Piece, RunBook, piece_of
from afnb.tables.rules import KINDS, Facts
from afnb.tables.schemas import columns
from afnb.tables.validate import EventRows
from afnb.tables.validation import ValidationReport

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_BYTES = 64 << 20
"""How much of a file one task checks."""

_ALONE_BYTES = 32 << 20  # so little that starting workers would take longer than the work
_MOST_PROBLEMS = 1000


def validate_files(
    sources: EventsFrom | Iterable[EventsFrom],
    one_run_per_file: bool = False,
    *,
    n_jobs: int | None = None,
) -> ValidationReport:
    """Check the shape of every run of any number of logs, without holding them in memory.

    What is found is what ``validate(read_events(sources))`` finds. Memory holds some megabytes of the
    logs for each worker, and a few hundred bytes for each run; an array (``.json``) is read as a whole.

    Parameters
    ----------
    sources
        As in `read_events`.
    one_run_per_file
        As in `validate`.
    n_jobs
        Processes at a time; -1 for one a core. By default as many as the logs are worth, and none
        besides this one for less than 32 MB.

    Returns
    -------
    ValidationReport
        ``problems`` holds the first 1,000; ``errors`` and ``warnings`` count all of them.

    Raises
    ------
    InputError
        There is no such file, or it cannot be opened.
    ParameterError
        ``sources`` are no paths or open files, or ``n_jobs`` is 0 or below -1.

    Examples
    --------
    >>> import io
    >>> report = validate_files(io.BytesIO(b'{"run_id":"00000000-0000-4000-8000-000000000001","seq":0,'
    ...     b'"schema_version":1,"recorded_at":"2026-07-09T12:00:00Z",'
    ...     b'"event":{"kind":"NodeEntered","payload":{"node":"a"}}}'))
    >>> report.violations.column("message").to_pylist()
    ['the first event is NodeEntered, expected RunStarted or GraphRunStarted']
    """
    if n_jobs is not None and (n_jobs == 0 or n_jobs < -1):
        raise ParameterError(f"n_jobs is {n_jobs}; expected a number from 1, or -1 for one a core")
    found = find_sources(sources)
    tasks = [task for source in found for task in _tasks(source, one_run_per_file)]
    book = RunBook(_MOST_PROBLEMS)
    file: EventSource | None = None
    seen = lines = 0
    for task, piece in zip(tasks, _pieces(tasks, n_jobs), strict=True):
        if task.source is not file:
            _note_if_empty(book, file, seen)
            file, seen, lines = task.source, book.events + book.errors + book.warnings, 0
        book.add(piece, lines)
        lines += piece.lines
    _note_if_empty(book, file, seen)
    return ValidationReport(
        violations=build("violations", book.violations()),
        problems=build("problems", book.problems),
        runs=book.run_count,
        events=book.events,
        files=len(found),
        errors=book.errors,
        warnings=book.warnings,
        one_run_per_file=one_run_per_file,
    )


def _note_if_empty(book: RunBook, file: EventSource | None, seen: int) -> None:
    if file is not None and seen == book.events + book.errors + book.warnings:
        book.remark(problem("warning", "no_events", "there are no events in it", file.path))


@dataclass(frozen=True, slots=True)
class Task:
    """A stretch of one file's bytes; to the end of the file, whatever it is, if ``end`` is None."""

    source: EventSource
    start: int
    end: int | None
    one_run_per_file: bool


def _tasks(source: EventSource, one_run_per_file: bool) -> list[Task]:
    whole = [Task(source, 0, None, one_run_per_file)]
    if source.stream is not None or one_run_per_file or source.size <= PIECE_BYTES:
        return whole
    with _open(source) as file:
        head = file.read(4096)
    if is_compressed(head) or table_format(head) is not None or is_array(head):
        return whole
    size = source.size
    starts = range(0, size, PIECE_BYTES)
    return [Task(source, at, min(size, at + PIECE_BYTES), False) for at in starts]


def _open(source: EventSource) -> BinaryIO:
    assert source.path is not None
    try:
        return open(source.path, "rb")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=source.path) from None


def _pieces(tasks: list[Task], n_jobs: int | None) -> Iterator[Piece]:
    """What each task finds, in the order of the tasks."""
    from_files = [task for task in tasks if task.source.stream is None]
    workers = _workers(from_files, n_jobs)
    if workers == 1:
        yield from map(check_task, tasks)
        return
    from joblib import Parallel, delayed

    parallel = Parallel(
        workers, backend="loky", return_as="generator", batch_size=1, pre_dispatch=2 * workers
    )
    yield from parallel(delayed(check_task)(task) for task in from_files)
    yield from map(check_task, tasks[len(from_files) :])  # open files come last and cannot be sent


def _workers(tasks: list[Task], n_jobs: int | None) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        total = sum((task.source.size if task.end is None else task.end) - task.start for task in tasks)
        n_jobs = 1 if total < _ALONE_BYTES else cores
    elif n_jobs == -1:
        n_jobs = cores
    return max(1, min(n_jobs, len(tasks)))


def check_task(task: Task) -> Piece:
    """Check one stretch of one file."""
    book = RunBook(_MOST_PROBLEMS)
    if task.end is None:
        with opened(task.source) as (head, fill):
            if table_format(head) is not None:
                return _piece_of_table(read_table(task.source, fill, _ASKED), task)
            _check_stream(fill, task, book)
    else:
        with _open(task.source) as file:
            start, end = (line_start(file, at, task.end) for at in (task.start, task.end))
            file.seek(start)
            _check_stream(_up_to(file, end - start), task, book, start, may_be_array=False)
    return book.piece()


def line_start(file: BinaryIO, at: int, last: int) -> int:
    """Where the first line begins that does not begin before ``at``.

    Examples
    --------
    >>> import io
    >>> [line_start(io.BytesIO(b"ab\\ncd"), at, 5) for at in range(6)]
    [0, 3, 3, 3, 5, 5]
    """
    if at == 0:
        return 0
    file.seek(at - 1)
    while block := file.read(1 << 16):
        found = block.find(b"\n")
        if found >= 0:
            return file.tell() - len(block) + found + 1
    return file.tell()


def _up_to(file: BinaryIO, size: int) -> Fill:
    """Reads so many bytes of a file and no more."""
    left = size

    def fill(view: memoryview) -> int:
        nonlocal left
        read: int = file.readinto(view[: min(len(view), left)])  # type: ignore[attr-defined]
        left -= read
        return read

    return fill


def _check_stream(
    fill: Fill, task: Task, book: RunBook, first_byte: int = 0, may_be_array: bool = True
) -> None:
    file = task.source.path
    problems: list[Problem] = []
    piece = _Gathering(file)
    try:
        for stretch in log_stretches(fill, file, problems, first_byte, may_be_array):
            problems += piece.read(stretch)
            if piece.bytes >= PIECE_BYTES:
                book.add(piece.close(problems, task, book))
                piece, problems[:] = _Gathering(file), []
    except Damaged as damage:
        message = f"{damage}; what came before that was read"
        problems.append(problem("error", "damaged_file", message, file))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=file) from None
    book.add(piece.close(problems, task, book))


class _Gathering:
    """What the rules ask for of the events of one piece, while it is read."""

    def __init__(self, file: str | None) -> None:
        self.file, self.names = file, Names()
        self.bytes = self.lines = 0
        self._parser = LineParser(self.names)
        self._columns: dict[str, list[Any]] = {name: [] for name in _KEPT}
        self._corr: list[Any] = []

    def read(self, stretch: Stretch) -> list[Problem]:
        """Read some lines; what there is to say of them is given back."""
        batch, refused = self._parser.parse(stretch, self.file)
        for name, kept in self._columns.items():
            kept.append(getattr(batch, name))
        self._corr.append(batch.corr)
        self.bytes += len(stretch.data)
        self.lines += len(stretch)
        return [unread(stretch, one, self.file) for one in refused] + remarks(stretch, batch, self.file)

    def close(self, problems: list[Problem], task: Task, book: RunBook) -> Piece:
        """The piece that was read; ``book`` knows what stands before it in the file."""
        rows = self._rows()
        groups = group(rows.files.codes if task.one_run_per_file else rows.runs.codes)
        if task.one_run_per_file:
            rows = rows.with_foreign(groups, book.runs[0].run_id if book.runs else None)
        names = [column.name for column in columns("problems")]
        complete = [{**dict.fromkeys(names), **row} for row in problems]
        return piece_of(rows, groups, complete, one_run_per_file=task.one_run_per_file, lines=self.lines)

    def _rows(self) -> EventRows:
        def one(name: str, dtype: Any) -> Any:
            chunks = self._columns[name]
            return np.concatenate(chunks).astype(dtype, copy=False) if chunks else np.empty(0, dtype)

        names, kind, effect = self.names, one("kind", np.uint8), one("effect", np.int8)
        size = len(kind)
        empty = np.empty(0, np.uint64)
        facts = Facts(
            seq=one("seq", np.uint64),
            version=one("version", np.uint32),
            kind=kind,
            corr=np.concatenate([c.values for c in self._corr] or [empty]),
            has_corr=np.concatenate([c.there for c in self._corr] or [empty.astype(np.bool_)]),
            tool=one("tool", np.int32),
            effect=effect,
            foreign=np.zeros(size, np.bool_),
        )
        files = Codes(np.full(size, NO_CODE if self.file is None else 0, np.int32), [self.file or ""])
        return EventRows(
            facts,
            runs=Codes(one("run", np.int32), names.runs.words),
            kinds=Codes(kind.astype(np.int32), list(KINDS)),
            tools=Codes(facts.tool, list(names.tools)),
            effects=Codes(effect.astype(np.int32), list(ev.EFFECTS)),
            files=files,
            lines=Numbers(one("line", np.int64), np.ones(size, np.bool_)),
        )


_KEPT = ("run", "seq", "version", "kind", "tool", "effect", "line")
_ASKED = ["run_id", "seq", "schema_version", "kind", "corr", "tool", "effect", "file", "line"]


def _piece_of_table(table: pa.Table, task: Task) -> Piece:
    rows = EventRows.of(table)
    groups = group(rows.files.codes if task.one_run_per_file else rows.runs.codes)
    if task.one_run_per_file:
        rows = rows.with_foreign(groups)
    problems = event_problems(table).to_pylist()
    return piece_of(rows, groups, problems, one_run_per_file=task.one_run_per_file)
