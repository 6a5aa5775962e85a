"""``EventLog``: the recorded events of one run, read from and written to the wire.

Lines end at LF only. A last line without one is read if it is whole (and said so in a warning); if
it breaks off inside JSON it is left out as an unfinished tail, since a log may be read while it is
being written. A broken line anywhere else is an error that names line and byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from afnb.core import events as ev
from afnb.core.log_page import log_page
from afnb.core.page import Page, Shown
from afnb.core.run import OutcomeLabel, Warn
from afnb.core.shape import Violation, first_violation
from afnb.core.state import RunState, derive_state
from afnb.core.wire import parse_array, parse_envelope, write_lines
from afnb.core.wirekinds import normal_run_id
from afnb.errors import EventError, InputError

_BLANK = b" \t\r\n"


@dataclass(frozen=True, slots=True, repr=False)
class EventLog(Shown):
    """One run's log as a value.

    Parameters
    ----------
    id
        The run's id; None for a log without events.
    envelopes
        The events in log order.
    source
        The file it was read from, if any.
    warnings
        What reading had to leave out or remark.
    lines
        The 1-based line each event was read from, if it was read from lines.
    outcome
        How the run went, as the user says; never guessed from a status.

    Examples
    --------
    >>> log = EventLog.from_wire(['{"run_id":"00000000-0000-4000-8000-000000000001","seq":0,'
    ...     '"schema_version":1,"recorded_at":"2026-07-09T12:00:00Z",'
    ...     '"event":{"kind":"RunStarted","payload":{"agent_def_hash":"h","input":1}}}'])
    >>> log
    <EventLog 00000000-0000-4000-8000-000000000001: 1 event, running>
    >>> EventLog.from_wire(log.to_wire()) == log
    True
    """

    id: str | None
    envelopes: tuple[ev.Envelope, ...] = ()
    source: str | None = field(default=None, compare=False)
    warnings: tuple[Warn, ...] = field(default=(), compare=False)
    lines: tuple[int, ...] | None = field(default=None, compare=False)
    outcome: OutcomeLabel | None = None

    @classmethod
    def from_envelopes(cls, envelopes: Iterable[ev.Envelope], source: str | None = None) -> EventLog:
        """The log of these events; its id is the first one's run."""
        rows = tuple(envelopes)
        return cls(rows[0].run_id if rows else None, rows, source)

    @classmethod
    def from_wire(
        cls, lines: Iterable[str | bytes], *, source: str | None = None, run_id: str | None = None
    ) -> EventLog:
        """Read whole lines, one envelope each; blank lines are skipped.

        Parameters
        ----------
        lines
            Text or UTF-8 bytes, with or without the line's end.
        source
            The file, for messages.
        run_id
            Which run to take when the lines hold several.

        Raises
        ------
        EventError
            A line cannot be read; it says which and at which field.
        InputError
            Several runs and no ``run_id``, or one that is not among them.
        """
        read = [
            (number, parse_envelope(line, source=source, line=number))
            for number, line in enumerate(lines, 1)
            if line.strip()
        ]
        return _one_run(cls, read, source, run_id, ())

    @classmethod
    def from_bytes(
        cls, data: bytes, *, source: str | None = None, run_id: str | None = None, strict: bool = True
    ) -> EventLog:
        """Read a file's content: one envelope a line, or one JSON array of envelopes.

        Parameters
        ----------
        data
            The content.
        source, run_id
            As in `from_wire`.
        strict
            False to leave unreadable lines out, each with a warning, instead of raising.

        Raises
        ------
        EventError, InputError
            As in `from_wire`; the message names the byte where the line starts as well.
        """
        if is_array(data):
            array = [(0, e) for e in parse_array(data, source=source)]
            return _one_run(cls, array, source, run_id, ())
        content = read_lines(data, source=source, strict=strict)
        return _one_run(cls, content.rows, source, run_id, content.warnings)

    def to_wire(self, *, canonical: bool = False) -> list[str]:
        """One line of JSON an event, without line ends; ``canonical`` as in ``wire.write_envelope``."""
        return write_lines(self.envelopes, canonical=canonical)

    def to_bytes(self, *, canonical: bool = False) -> bytes:
        """The content of a ``.jsonl`` file."""
        return "".join(f"{line}\n" for line in self.to_wire(canonical=canonical)).encode("utf-8")

    def prefix(self, events: int) -> EventLog:
        """The log as it was after its first ``events`` events."""
        kept = self.envelopes[:events]
        lines = None if self.lines is None else self.lines[:events]
        return replace(self, id=self.id if kept else None, envelopes=kept, lines=lines)

    @property
    def state(self) -> RunState:
        """What the log says of its run."""
        return derive_state(self.envelopes)

    def violation(self) -> Violation | None:
        """The first shape rule the log breaks, with the file and line where known, or None."""
        found = first_violation(self.envelopes)
        if found is None:
            return None
        line = None if self.lines is None else self.lines[found.index]
        return Violation(
            found.run_id,
            found.index,
            found.seq,
            found.rule,
            found.message,
            found.level,
            self.source,
            line,
        )

    def page(self) -> Page:
        """The log as a card: its status, what it called, its events in order, its nodes."""
        return log_page(self)

    def __len__(self) -> int:
        return len(self.envelopes)

    def __iter__(self) -> Iterator[ev.Envelope]:
        return iter(self.envelopes)

    def __repr__(self) -> str:
        count = f"{len(self)} event{'' if len(self) == 1 else 's'}"
        notes = f", {len(self.warnings)} warning{'' if len(self.warnings) == 1 else 's'}"
        status = self.state.status.replace("_", " ")
        return f"<EventLog {self.id or 'empty'}: {count}, {status}{notes if self.warnings else ''}>"


@dataclass(frozen=True, slots=True)
class Content:
    """What a file of lines holds.

    ``rows`` are line number and envelope; ``good_bytes`` is where the unfinished tail starts (the
    file's length if there is none), so that a later reader can go on from there.
    """

    rows: tuple[tuple[int, ev.Envelope], ...]
    warnings: tuple[Warn, ...]
    good_bytes: int
    ends_with_newline: bool


def read_lines(data: bytes, *, source: str | None = None, strict: bool = True) -> Content:
    """Read a file of one envelope a line, any number of runs.

    Raises
    ------
    EventError
        A line cannot be read and ``strict`` is set; a tail that breaks off is never an error.
    """
    rows: list[tuple[int, ev.Envelope]] = []
    warnings: list[Warn] = []
    pieces = data.split(b"\n")
    offset = 0
    for number, piece in enumerate(pieces, 1):
        is_tail = number == len(pieces)
        if piece.strip(_BLANK):
            try:
                rows.append((number, parse_envelope(piece, source=source, line=number)))
                if is_tail:
                    warnings.append(
                        Warn("no_final_newline", f"line {number} is whole but has no newline at its end")
                    )
            except EventError as error:
                if is_tail and breaks_off(piece, error):
                    message = (
                        f"1 unfinished line at the end was left out: {len(piece)} bytes from byte {offset} "
                        f"(line {number}); it may still be being written"
                    )
                    warnings.append(Warn("unfinished_tail", message))
                    return Content(tuple(rows), tuple(warnings), offset, True)
                found = _at_byte(error, offset)
                if strict:
                    raise found from None
                warnings.append(Warn("unreadable_line", str(found)))
        offset += len(piece) + 1
    return Content(tuple(rows), tuple(warnings), len(data), not pieces[-1])


def breaks_off(piece: bytes, error: EventError) -> bool:
    """Whether a last line is the beginning of an envelope rather than something else."""
    cut = error.message.startswith(("not JSON:", "not UTF-8"))
    return cut and piece.lstrip(_BLANK)[:1] in (b"{", b"[")


def _at_byte(error: EventError, offset: int) -> EventError:
    return EventError(
        f"{error.message}; the line starts at byte {offset}",
        rule=error.rule,
        field=error.field,
        path=error.path,
        line=error.line,
    )


def is_array(data: bytes) -> bool:
    """Whether it is one array of envelopes, not lines (of which each may be an array of fields)."""
    head = data[:4096].lstrip(_BLANK)
    return head[:1] == b"[" and head[1:].lstrip(_BLANK)[:1] in (b"{", b"[", b"]")


def _one_run(
    cls: type[EventLog],
    rows: Sequence[tuple[int, ev.Envelope]],
    source: str | None,
    run_id: str | None,
    warnings: tuple[Warn, ...],
) -> EventLog:
    runs = list(dict.fromkeys(e.run_id for _, e in rows))
    if run_id is not None:
        wanted = normal_run_id(run_id)
        if wanted not in runs:
            known = ", ".join(runs[:3]) + (f" and {len(runs) - 3} more" if len(runs) > 3 else "")
            raise InputError(f"there is no run {run_id}; found {known or 'no events at all'}", path=source)
        rows = [row for row in rows if row[1].run_id == wanted]
        runs = [wanted]
    if len(runs) > 1:
        raise InputError(
            f"{len(runs)} runs in one log ({runs[0]}, {runs[1]}{', ...' if len(runs) > 2 else ''}); "
            "name one with run_id=, or read them all into a table with read_events",
            path=source,
        )
    lines = tuple(number for number, _ in rows)
    return cls(
        runs[0] if runs else None,
        tuple(e for _, e in rows),
        source,
        warnings,
        lines if all(lines) else None,
    )
