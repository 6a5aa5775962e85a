"""``convert``: a recording from one format into another, as a new file; ``close_journal`` after a crash."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from afnb.core.cassette import Cassette
from afnb.core.eventlog import EventLog
from afnb.core.logsteps import run_from_log
from afnb.core.matching import Matching
from afnb.core.redaction import with_matching
from afnb.core.run import OutcomeLabel, Run
from afnb.core.steps import run_from_cassette
from afnb.errors import InputError, ParameterError
from afnb.io.files import PathLike, refuse_existing, write_new
from afnb.io.formats.cassette import write_cassette
from afnb.io.formats.trace import write_trace
from afnb.io.formats.vcrwrite import lost_in_vcr, write_vcr
from afnb.io.journal import Journal, journal_path
from afnb.io.load import Loaded, load
from afnb.io.redact import Redaction

TARGETS = ("cassette", "vcr", "trace", "eventlog")
_ENDINGS = {".yaml": "vcr", ".yml": "vcr", ".jsonl": "eventlog", ".json": "cassette"}


@dataclass(frozen=True, slots=True)
class Converted:
    """One conversion: the new file, its format, and what was not understood or has no place there."""

    path: str
    format: str
    notes: tuple[str, ...] = ()


def convert(
    source: Any,
    out: PathLike,
    *,
    to: str | None = None,
    run_id: str | None = None,
    outcome: OutcomeLabel | None = None,
    task: str | None = None,
    redaction: Redaction | None = None,
    matching: Matching | None = None,
) -> Converted:
    """Write a recording in another format. No file is ever overwritten.

    Parameters
    ----------
    source
        A file that ``load`` reads, or a ``Cassette``, a ``Run`` or an ``EventLog``.
    out
        The new file.
    to
        ``"cassette"``, ``"vcr"`` (VCR.py YAML), ``"trace"`` or ``"eventlog"``; None tells by the file's
        ending (``.yaml``: vcr, ``.jsonl``: an event log, ``.json``: a cassette, or a trace where the source
        has no HTTP exchanges to keep).
    run_id
        Which run, for a file that holds several.
    outcome, task
        Set in the new file.
    redaction
        What is taken out on the way; a cassette says so, and replays do the same.
    matching
        Rules kept in a cassette for every replay that names no others.

    Returns
    -------
    Converted
        With a sentence for everything that was lost.

    Raises
    ------
    ParameterError
        ``out`` exists, ``to`` is no format, or the source cannot become one: steps cannot become the HTTP
        exchanges they were made of.
    InputError
        The source cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from afnb.core.cassette import Exchange, Request, Response
    >>> one = Exchange(0, Request("POST", "/v1/messages", body=b"{}"), Response(500, body=b"busy"))
    >>> done = convert(Cassette("c", (one,)), os.path.join(tempfile.mkdtemp(), "c.trace.json"), to="trace")
    >>> done.format, load(done.path).steps[0].name
    ('trace', 'POST /v1/messages')
    """
    refuse_existing(out)
    loaded: Loaded = source if isinstance(source, Cassette | Run | EventLog) else load(source, run_id=run_id)
    kind = _target(loaded, os.fspath(out), to)
    if outcome is not None:
        loaded = replace(loaded, outcome=outcome)
    if task is not None and not isinstance(loaded, EventLog):
        loaded = replace(loaded, task=task)
    if isinstance(loaded, Cassette):
        if redaction is not None and (redaction.paths or redaction.patterns):
            loaded = redaction.cassette(loaded)
        if matching is not None:
            loaded = with_matching(loaded, matching)
    elif redaction is not None and (redaction.paths or redaction.patterns):
        raise ParameterError("only recordings of HTTP exchanges are redacted; leave the redaction out")
    notes = tuple(warning.message for warning in loaded.warnings)
    return Converted(os.fspath(out), kind, (*notes, *_write(loaded, kind, out)))


def _target(loaded: Loaded, out: str, to: str | None) -> str:
    if to is not None and to not in TARGETS:
        raise ParameterError(f"to={to!r}; expected one of {', '.join(TARGETS)}")
    kind = to or _ENDINGS.get(os.path.splitext(out)[1].lower())
    if kind is None:
        raise ParameterError(f"the ending of {out} names no format; give to= one of {', '.join(TARGETS)}")
    if to is None and kind == "cassette" and not isinstance(loaded, Cassette):
        kind = "trace"
    what = {Run: "a trace of steps", EventLog: "an event log"}.get(type(loaded))
    if kind in ("cassette", "vcr") and what is not None:
        raise ParameterError(
            f"{loaded.id} is {what} and holds no HTTP exchanges: it cannot become a {kind}; it can become a "
            "trace"
        )
    if kind == "eventlog" and not isinstance(loaded, EventLog):
        raise ParameterError(
            f"{loaded.id} is no event log and cannot become one, since nobody recorded its events; it can "
            "become a trace"
        )
    return kind


def _write(loaded: Loaded, kind: str, out: PathLike) -> tuple[str, ...]:
    if isinstance(loaded, Cassette) and kind == "cassette":
        write_cassette(loaded, out)
        return ()
    if isinstance(loaded, Cassette) and kind == "vcr":
        write_vcr(loaded, out)
        return lost_in_vcr(loaded)
    if isinstance(loaded, EventLog) and kind == "eventlog":
        write_new(out, loaded.to_bytes())
        return ()
    run = loaded
    if isinstance(loaded, Cassette):
        run = run_from_cassette(loaded)
    elif isinstance(loaded, EventLog):
        run = run_from_log(loaded)
    assert isinstance(run, Run)
    write_trace(run, out)
    return () if run is loaded else ("steps alone are kept: a trace can be compared, and not replayed",)


def close_journal(path: PathLike) -> Cassette:
    """Close what a crash left of a recording: the journal becomes the cassette, as at an orderly end.

    Parameters
    ----------
    path
        The cassette that was to be written, or its journal.

    Raises
    ------
    InputError
        There is no journal, or it is damaged before its last line.
    """
    name = os.fspath(path).removesuffix(journal_path(""))
    if not os.path.lexists(journal_path(name)):
        raise InputError("found no journal of a recording here; nothing is to be recovered", path=name)
    journal = Journal(name, append=True)
    return journal.close()
