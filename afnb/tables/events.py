"""The table of events: from single logs, back to them, and to the lines of a file.

One row is one event. ``payload`` is the event's payload character for character; the columns beside it
(``corr``, ``tool``, ``node``, ...) are what the checks and folds need, so that they read no payload.
What could not be read while a table was made travels with it, in its schema: see `event_problems`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from afnb.core import events as ev
from afnb.core.eventlog import EventLog
from afnb.core.instants import Instant
from afnb.core.jsonvalue import dumps, loads
from afnb.core.wire import parse_envelope, write_envelope
from afnb.core.wirekinds import normal_run_id
from afnb.core.wirespec import EVENTS, write_struct
from afnb.errors import InputError, ParameterError
from afnb.tables.build import build, from_columns
from afnb.tables.columns import ArrowColumn, arrow, codes, column, numbers
from afnb.tables.schemas import columns, schema

if TYPE_CHECKING:
    import pyarrow as pa

PROBLEMS_KEY = b"afnb_problems"
_NS_MOST = 2**63 - 1


def nanoseconds(instant: Instant) -> int | None:
    """Nanoseconds since 1970, or None where an Arrow time cannot hold them."""
    return instant.ns if -_NS_MOST <= instant.ns <= _NS_MOST else None


def facts_of(event: ev.Event) -> dict[str, Any]:
    """The columns of one event beside its payload; those it has nothing for are left out."""
    match event:
        case ev.ModelCallRequested():
            return {"corr": event.seq}
        case ev.ModelCallCompleted():
            usage = event.usage
            return {
                "corr": event.seq,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
            }
        case ev.ToolCallRequested():
            return {"corr": event.seq, "tool": event.tool, "effect": event.effect}
        case ev.ToolCallCompleted():
            return {"corr": event.seq}
        case ev.RunAbandoned(unresolved_write=ev.UnresolvedWrite() as left):
            return {"corr": left.seq, "tool": left.tool}
        case ev.RandomObserved():
            return {"value": event.value}
        case ev.NowObserved():
            return {"now_ns": nanoseconds(event.now)}
        case ev.FoldConverged():
            return {"node": event.node, "index": event.winner_index}
    facts = {name: getattr(event, name, None) for name in ("node", "index")}
    return {name: value for name, value in facts.items() if value is not None}


def payload_of(event: ev.Event) -> str:
    """The payload's JSON text; `ParameterError` names a field that cannot be written."""
    return write_struct(EVENTS[event.kind], event, False, "event.payload")


def extra_of(beside_run: Mapping[str, Any], beside_kind: Mapping[str, Any]) -> str | None:
    """Unknown keys of an envelope and of its event as the JSON of one column, None where there are none."""
    found = {"envelope": dict(beside_run), "event": dict(beside_kind)}
    kept = {name: keys for name, keys in found.items() if keys}
    return dumps(kept) if kept else None


def events_table(logs: EventLog | Iterable[EventLog]) -> pa.Table:
    """The table of one log's events, or of several logs' one after the other.

    Parameters
    ----------
    logs
        Logs as `load` gives them, or as they were built.

    Returns
    -------
    pyarrow.Table
        The declared table ``events``.

    Raises
    ------
    ParameterError
        An event holds what cannot stand in a log.

    Examples
    --------
    >>> from afnb.core.events import Envelope, RunCompleted, RunStarted
    >>> events = [RunStarted("h", None), RunCompleted(3)]
    >>> run = "00000000-0000-4000-8000-000000000001"
    >>> log = EventLog.from_envelopes(Envelope(run, i, Instant(i), e) for i, e in enumerate(events))
    >>> events_table(log).column("kind").to_pylist()
    ['RunStarted', 'RunCompleted']
    """
    if isinstance(logs, EventLog):
        logs = [logs]
    data: dict[str, list[Any]] = {c.name: [] for c in columns("events")}
    for log in logs:
        for row in _rows(log):
            for name, values in data.items():
                values.append(row.get(name))
    return from_columns("events", data)


def _rows(log: EventLog) -> Iterator[dict[str, Any]]:
    lines = log.lines or (None,) * len(log)
    for envelope, line in zip(log.envelopes, lines, strict=True):
        write_envelope(envelope)  # refuses what cannot stand in a log
        yield {
            "run_id": normal_run_id(envelope.run_id),
            "seq": envelope.seq,
            "schema_version": envelope.schema_version,
            "recorded_at": envelope.recorded_at.verbatim,
            "recorded_at_ns": nanoseconds(envelope.recorded_at),
            "kind": envelope.event.kind,
            "payload": payload_of(envelope.event),
            "extra": extra_of(envelope.extra, envelope.event_extra),
            "file": log.source,
            "line": line,
            **facts_of(envelope.event),
        }


def wire_lines(events: pa.Table) -> ArrowColumn:
    """One line of JSON an event, payloads as they stand in the table, without line ends.

    Reading the lines gives the same table again. A log that this library wrote comes out byte for
    byte.
    """
    pa, pc = arrow()
    large = pa.large_string()

    def text(name: str) -> ArrowColumn:
        values = column(events, name)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        return values.cast(large)

    def constant(words: str) -> Any:
        return pa.scalar(words, large)

    lines = pc.binary_join_element_wise(
        constant('{"run_id":"'),
        text("run_id"),
        constant('","seq":'),
        text("seq"),
        constant(',"schema_version":'),
        text("schema_version"),
        constant(',"recorded_at":'),
        _quoted(text("recorded_at")),
        constant(',"event":{"kind":"'),
        text("kind"),
        constant('","payload":'),
        _on_one_line(text("payload")),
        constant("}}"),
        constant(""),
    )
    return _with_extra(lines, column(events, "extra"))


def _quoted(times: ArrowColumn) -> ArrowColumn:
    """Times as JSON text; any character may stand between date and clock, so a few need an escape."""
    pa, pc = arrow()
    odd = pc.any(pc.match_substring_regex(times, r"[\"\\\x00-\x1f]")).as_py()
    if odd:
        quoted = [dumps(t) for t in times.to_pylist()]
        return pa.chunked_array([pa.array(quoted, pa.large_string())])
    quote = pa.scalar('"', pa.large_string())
    return pc.binary_join_element_wise(quote, times, quote, pa.scalar("", pa.large_string()))


def _on_one_line(payloads: ArrowColumn) -> ArrowColumn:
    """Payloads without line ends, which JSON has between values only."""
    _, pc = arrow()
    for end in ("\n", "\r"):
        if pc.any(pc.match_substring(payloads, end)).as_py():
            payloads = pc.replace_substring(payloads, end, " ")
    return payloads


def _with_extra(lines: ArrowColumn, extra: ArrowColumn) -> ArrowColumn:
    """The lines with the unknown keys of those that have some."""
    pa, _ = arrow()
    if extra.null_count == len(extra):
        return lines
    whole = []
    for line, more in zip(lines.to_pylist(), extra.to_pylist(), strict=True):
        keys = {} if more is None else loads(more)
        event, envelope = (_members(keys.get(name, {})) for name in ("event", "envelope"))
        whole.append(f"{line[:-2]}{event}}}{envelope}}}")
    return pa.chunked_array([pa.array(whole, pa.large_string())])


def _members(keys: Mapping[str, Any]) -> str:
    return "".join(f",{dumps(key)}:{dumps(value)}" for key, value in keys.items())


def event_log(events: pa.Table, run_id: str | None = None) -> EventLog:
    """The log of one run of a table.

    Parameters
    ----------
    events
        A table as `read_events` gives it.
    run_id
        Which run, where the table holds several.

    Returns
    -------
    EventLog
        Its events in table order.

    Raises
    ------
    InputError
        The table holds several runs and none is named, or not the named one, or (an ``EventError``)
        an event that cannot be read.

    Examples
    --------
    >>> event_log(events_table([]))
    <EventLog empty: 0 events, not started>
    """
    pa, pc = arrow()
    runs = codes(events, "run_id")
    if run_id is not None:
        wanted = normal_run_id(run_id)
        if wanted not in runs.words:
            raise InputError(f"there is no run {wanted} in the table; it holds {len(runs.words)}")
        events = events.filter(pa.array(runs.codes == runs.words.index(wanted)))
    elif len(set(runs.codes.tolist())) > 1:
        raise InputError(f"the table holds {len(set(runs.codes.tolist()))} runs; name one with run_id=")
    where = numbers(events, "line", np.int64)
    files = pc.unique(column(events, "file").combine_chunks()).to_pylist()
    source = files[0] if len(files) == 1 else None
    text = wire_lines(events).to_pylist()
    envelopes = tuple(parse_envelope(line, source=source, position=n) for n, line in enumerate(text))
    lines = tuple(where.values.tolist()) if where.there.all() and source is not None else None
    return EventLog(envelopes[0].run_id if envelopes else None, envelopes, source, (), lines)


def event_problems(events: pa.Table) -> pa.Table:
    """What could not be read, and what was remarked, while a table of events was made.

    The table carries it in its schema, through slices, filters and files.

    Parameters
    ----------
    events
        A table as `read_events` gives it.

    Returns
    -------
    pyarrow.Table
        The declared table ``problems``: one row an unreadable line (level ``error``) or a remark
        (level ``warning``), with file and line.

    Examples
    --------
    >>> event_problems(events_table([])).num_rows
    0
    """
    found = (events.schema.metadata or {}).get(PROBLEMS_KEY)
    return build("problems", json.loads(found) if found else [])


def with_problems(events: pa.Table, problems: pa.Table) -> pa.Table:
    """The table of events with these problems in its schema."""
    about = {k: v for k, v in (events.schema.metadata or {}).items() if k != PROBLEMS_KEY}
    if problems.num_rows:
        about[PROBLEMS_KEY] = json.dumps(problems.to_pylist(), ensure_ascii=True).encode("ascii")
    return events.replace_schema_metadata(about)


def as_events(table: pa.Table) -> pa.Table:
    """A table of another source as the declared table ``events``.

    Raises
    ------
    ParameterError
        A declared column is missing, or its values do not fit.
    """
    pa, _ = arrow()
    declared = schema("events")
    if table.schema.equals(declared):
        return table
    arrays = [column(table, name) for name in declared.names]
    try:
        cast = pa.Table.from_arrays(arrays, names=declared.names).cast(declared)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise ParameterError(f"no table of events: {error}") from None
    return with_problems(cast, event_problems(table))
