"""Event logs: one envelope a line, or one array of envelopes; a file may hold several runs.

::

    {"run_id", "seq", "schema_version", "recorded_at", "event": {"kind", "payload"}}

One run of the file is taken; ``read_events`` reads all runs of any number of files into a table.
"""

from __future__ import annotations

from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import Json, JsonOrMissing
from afnb.io.files import PathLike, read_bytes
from afnb.io.formats.source import Found, Source, decompressed

_FIELDS = ("run_id", "seq", "schema_version", "recorded_at", "event")


def detect(source: Source) -> Found:
    """How sure it is that this is an event log."""
    first = _first(source)
    if isinstance(first, list):
        is_envelope = len(first) == len(_FIELDS) and isinstance(first[-1], dict | list)
        return Found(1.0 if is_envelope and isinstance(first[0], str) else 0.0)
    if not isinstance(first, dict) or "event" not in first:
        return Found(0.0)
    lacking = [name for name in _FIELDS if name not in first]
    if not lacking and isinstance(first["event"], dict | list):
        return Found(1.0)
    if not lacking:
        return Found(0.5, "its event is no object with a kind and a payload")
    return Found(max(0.0, 0.9 - 0.3 * len(lacking)), f"its first event has no {' and no '.join(lacking)}")


def _first(source: Source) -> JsonOrMissing:
    """The first envelope: of an array of them, or the first line."""
    whole: Json = source.json
    if isinstance(whole, list) and whole and isinstance(whole[0], dict | list):
        return whole[0]
    return source.first_line


def load(source: Source, run_id: str | None = None) -> EventLog:
    """The log of one run of the file."""
    return EventLog.from_bytes(source.data, source=source.path, run_id=run_id)


def read_log(source: PathLike | bytes, run_id: str | None = None) -> EventLog:
    """Read the log of one run.

    Parameters
    ----------
    source
        A file's path (``.gz`` and ``.zst`` are opened as well), or the bytes of one.
    run_id
        Which run, for a file that holds several.

    Raises
    ------
    InputError
        The file is missing or holds several runs, or (an ``EventError``) a line cannot be read.

    Examples
    --------
    >>> read_log(b"")
    <EventLog empty: 0 events, not started>
    """
    if isinstance(source, bytes):
        return EventLog.from_bytes(source, run_id=run_id)
    name = str(source)
    return EventLog.from_bytes(decompressed(read_bytes(source), name), source=name, run_id=run_id)
