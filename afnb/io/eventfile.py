"""``EventFile``: one run's log on disk, appended to by one process at a time.

Every event is one line, given to the operating system in one write before anything relies on it, so
that the death of the process (``kill -9``) loses nothing that was appended; at most the last line is
torn, and is cut off when the file is opened again. What the death of the *machine* can lose is the
``fsync`` policy's matter:

========  =============================================================================
always    nothing: each event is on the disk before the run goes on
batch     what no call has left the process for: all events are on the disk before a model
          or a tool is called, and when the file is closed
never     whatever the operating system had not yet written by itself
========  =============================================================================
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, get_args

from afnb.core import events as ev
from afnb.core.eventlog import EventLog, read_lines
from afnb.core.run import Warn
from afnb.core.wire import write_envelope
from afnb.errors import InputError, ParameterError
from afnb.io.files import PathLike

Fsync = Literal["always", "batch", "never"]


class EventFile:
    """An event log open for appending; use it in a ``with`` block.

    Parameters
    ----------
    path
        The ``.jsonl`` file; made if it is not there. An unfinished last line is cut off.
    fsync
        When events are forced to the disk (see the module).

    Raises
    ------
    InputError
        It cannot be read or opened, holds several runs or one JSON array, or another run has it.

    Examples
    --------
    >>> import tempfile
    >>> from afnb.core.instants import Instant
    >>> head = ev.Envelope("00000000-0000-4000-8000-000000000001", 0, Instant(0), ev.RunStarted("h", 1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with EventFile(f"{folder}/run.jsonl") as file:
    ...         file.append(head)
    ...     with EventFile(f"{folder}/run.jsonl") as file:
    ...         file.log
    <EventLog 00000000-0000-4000-8000-000000000001: 1 event, running>
    """

    def __init__(self, path: PathLike, fsync: Fsync = "always") -> None:
        if fsync not in get_args(Fsync):
            raise ParameterError(f"fsync is {fsync!r}; expected one of {', '.join(get_args(Fsync))}")
        self.path = os.fspath(path)
        self.fsync: Fsync = fsync
        self._fd = self._open()
        try:
            self.log = self._recover()
        except BaseException:
            os.close(self._fd)
            raise
        self._events = list(self.log.envelopes)

    def _open(self) -> int:
        is_new = not os.path.lexists(self.path)
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise InputError(f"cannot be opened: {error.strerror or error}", path=self.path) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if not isinstance(error, BlockingIOError):
                raise InputError(f"cannot be locked: {error.strerror or error}", path=self.path) from None
            raise InputError(
                "another run is appending to this log; wait for it to end, or give this run its own log",
                path=self.path,
            ) from None
        if is_new and self.fsync != "never":
            self._sync_folder()
        return fd

    def _sync_folder(self) -> None:
        """Force the new file's name to the disk, where the system can do that."""
        with contextlib.suppress(OSError):
            folder = os.open(os.path.dirname(os.path.abspath(self.path)), os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _recover(self) -> EventLog:
        data = Path(self.path).read_bytes()
        content = read_lines(data, source=self.path)
        warnings = content.warnings
        if content.good_bytes < len(data):
            os.ftruncate(self._fd, content.good_bytes)
            cut = len(data) - content.good_bytes
            warnings = (Warn("unfinished_tail", f"1 unfinished line at the end was cut off: {cut} bytes"),)
        elif not content.ends_with_newline:
            self._write(b"\n")
        self._size = os.fstat(self._fd).st_size
        runs = {e.run_id for _, e in content.rows}
        if len(runs) > 1:
            raise InputError(
                f"it holds {len(runs)} runs; a run that is to go on needs a file of its own", path=self.path
            )
        lines = tuple(number for number, _ in content.rows)
        events = tuple(e for _, e in content.rows)
        return EventLog(min(runs, default=None), events, self.path, warnings, lines)

    def append(self, envelope: ev.Envelope) -> None:
        """Write one event; when this returns it is on disk as far as the policy says.

        Raises
        ------
        ParameterError
            The event cannot stand on the wire; nothing was written.
        OSError
            The system could not write (a full disk); the file is as it was before.
        """
        data = f"{write_envelope(envelope)}\n".encode()
        try:
            self._write(data)
            if self.fsync == "always":
                os.fsync(self._fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)
        self._events.append(envelope)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def before_call(self) -> None:
        """To be called before a live call leaves the process: its intent must be durable by then."""
        if self.fsync == "batch":
            os.fsync(self._fd)

    def events(self) -> EventLog:
        """The log as it is now."""
        run_id = self._events[0].run_id if self._events else None
        return EventLog(run_id, tuple(self._events), self.path, self.log.warnings)

    def close(self) -> None:
        """Give the file back; a second call does nothing."""
        if self._fd >= 0:
            try:
                if self.fsync == "batch":
                    os.fsync(self._fd)
            finally:
                os.close(self._fd)
                self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class EventMemory:
    """The same for a log that is kept in memory only."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self._events = list(log.envelopes)

    def append(self, envelope: ev.Envelope) -> None:
        """Keep one event, if it could be written; `ParameterError` if it could not."""
        write_envelope(envelope)
        self._events.append(envelope)

    def before_call(self) -> None:
        """Nothing to do."""

    def events(self) -> EventLog:
        """The log as it is now."""
        run_id = self._events[0].run_id if self._events else None
        return EventLog(run_id, tuple(self._events), self.log.source, self.log.warnings)

    def close(self) -> None:
        """Nothing to do."""


EventSink = EventFile | EventMemory
