"""``load``: a recording in any format that afnb knows, found out from what is in the file.

Each format is a pair: ``detect`` says how sure it is (and what is missing), ``load`` gives the value. A
file that nobody claims is an error that names the nearest format; an outcome is never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from afnb.core.cassette import Cassette
from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import MISSING
from afnb.core.run import OUTCOMES, OutcomeLabel, Run
from afnb.errors import InputError, ParameterError
from afnb.io.files import PathLike
from afnb.io.formats import answer as answer_format
from afnb.io.formats import cassette as cassette_format
from afnb.io.formats import eventlog as eventlog_format
from afnb.io.formats import mcp as mcp_format
from afnb.io.formats import trace as trace_format
from afnb.io.formats import vcr as vcr_format
from afnb.io.formats.reading import read_json
from afnb.io.formats.source import Found, Source, open_source
from afnb.io.journal import is_journal, read_journal

Loaded = Cassette | Run | EventLog


@dataclass(frozen=True, slots=True)
class Format:
    """One file format: its name, what it is in words, and its two functions.

    A format whose files hold ``several`` runs is given the wanted run's id (or None) as well.
    """

    name: str
    what: str
    detect: Callable[[Source], Found]
    load: Callable[..., Any]
    several: bool = False


def _journal(source: Source) -> Found:
    return Found(1.0) if is_journal(source.data) else Found(0.0)


FORMATS: tuple[Format, ...] = (
    Format("journal", "a journal of a recording", _journal, lambda s: read_journal(s.data, s.path)),
    Format("cassette", "a cassette (JSON)", cassette_format.detect, cassette_format.load),
    Format("trace", "a trace (JSON)", trace_format.detect, trace_format.load),
    Format("eventlog", "an event log", eventlog_format.detect, eventlog_format.load, several=True),
    Format("mcp", "a transcript of MCP over stdio (JSON lines)", mcp_format.detect, mcp_format.load),
    Format("vcr", "a VCR.py cassette (YAML)", vcr_format.detect, vcr_format.load),
    Format("answer", "one answer of a provider", answer_format.detect, answer_format.load),
)
"""Every format, in the order in which they are asked."""


def load(
    path: PathLike,
    outcome: OutcomeLabel | None = None,
    *,
    run_id: str | None = None,
    format: str | None = None,
) -> Loaded:
    """Read a recording or a run.

    Parameters
    ----------
    path
        The file; ``.gz`` and ``.zst`` are opened as well.
    outcome
        How the run ended, if you know: ``"pass"``, ``"fail"`` or ``"unknown"``. It is never guessed.
    run_id
        Which run, for a file that holds several.
    format
        The format's name, to skip finding out.

    Returns
    -------
    Cassette, Run or EventLog
        ``warnings`` says what was not understood.

    Raises
    ------
    InputError
        The file cannot be read, or no format knows it; the message names the nearest one and what is
        missing.
    ParameterError
        An outcome or a format that does not exist.

    Examples
    --------
    >>> import os, tempfile
    >>> from afnb.io.formats.cassette import write_cassette
    >>> path = os.path.join(tempfile.mkdtemp(), "x.json")
    >>> write_cassette(Cassette("x"), path)
    >>> load(path, outcome="fail").outcome
    'fail'
    """
    if outcome is not None and outcome not in OUTCOMES:
        raise ParameterError(f"outcome={outcome!r}; expected one of {', '.join(OUTCOMES)}")
    source = open_source(path)
    chosen = _named(format) if format is not None else find_format(source)
    loaded: Loaded = chosen.load(source, run_id) if chosen.several else chosen.load(source)
    if run_id is not None and not chosen.several and loaded.id != run_id:
        raise InputError(f"found the run {loaded.id!r} only, expected run_id={run_id!r}", path=source.path)
    return loaded if outcome is None else replace(loaded, outcome=outcome)


def _named(name: str) -> Format:
    for one in FORMATS:
        if one.name == name:
            return one
    raise ParameterError(f"format={name!r}; expected one of {', '.join(one.name for one in FORMATS)}")


def find_format(source: Source) -> Format:
    """The format of a file.

    Raises
    ------
    InputError
        No format knows it.
    """
    if not source.data.strip():
        raise InputError("the file is empty; expected a recording or a run", path=source.path)
    said = [(one.detect(source), one) for one in FORMATS]
    for found, one in said:
        if found.score >= 1.0:
            return one
    nearest, one = max(said, key=lambda pair: pair[0].score)
    if source.json is MISSING and source.first_line is MISSING and source.data.lstrip()[:1] in (b"{", b"["):
        read_json(source.data, one.what if nearest.score else "a recording or a run", source.path)  # raises
    known = ", ".join(one.what for one in FORMATS)
    if nearest.score <= 0.0:
        raise InputError(f"no known format; afnb reads {known}", path=source.path)
    raise InputError(f"no known format; nearest is {one.what}, but {nearest.missing}", path=source.path)
