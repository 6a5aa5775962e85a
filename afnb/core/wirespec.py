"""Every struct of the wire form as a row of field specs, and the one reader and writer over them.

A `Struct` is a class and its fields in the order the wire declares them; ``EVENTS`` has the 24
payloads by their name on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from afnb.core import events as ev
from afnb.core.jsonvalue import MISSING, Json, dumps
from afnb.core.wirekinds import (
    BUDGET,
    EFFECT,
    F64,
    JSON,
    LABELS,
    PERFORMER,
    RUN_ID,
    SEQS,
    TEXT,
    TIME,
    U32,
    U64,
    Fault,
    Kind,
    Repeats,
    joined,
    not_there,
    not_written,
    write_json,
)
from afnb.errors import ParameterError

Presence = Literal["required", "optional", "nullable"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field: ``optional`` ones are left out when None, ``nullable`` ones written as null.

    ``absent`` is the value of a field that the wire leaves out.
    """

    name: str
    kind: Kind
    presence: Presence = "required"
    absent: Any = None


@dataclass(frozen=True, slots=True)
class Struct:
    """A class and its fields in wire order; ``as_array`` says whether an array of them is read too."""

    cls: type[Any]
    fields: tuple[Field, ...]
    as_array: bool = True


def _struct(cls: type[Any], *fields: tuple[str, Kind]) -> Kind:
    spec = Struct(cls, tuple(Field(name, kind) for name, kind in fields))
    return Kind(
        lambda value, at: read_struct(spec, value, at),
        lambda value, canonical, at: write_struct(spec, value, canonical, at),
    )


_USAGE = _struct(ev.TokenUsage, ("input_tokens", U32), ("output_tokens", U32))
_LIMIT = _struct(ev.BudgetLimit, ("kind", BUDGET), ("limit", F64))
_FORK = _struct(
    ev.ForkOrigin,
    ("run_id", RUN_ID),
    ("through_seq", U64),
    ("from_node", TEXT),
    ("graph_hash", TEXT),
    ("acknowledged_writes", SEQS),
)
_CALL = _struct(ev.CallOrigin, ("run_id", RUN_ID), ("seq", U64))
_UNRESOLVED = _struct(ev.UnresolvedWrite, ("seq", U64), ("tool", TEXT))


def _payload(cls: type[ev.Event], *fields: Field | tuple[str, Kind]) -> Struct:
    rows = tuple(f if isinstance(f, Field) else Field(*f) for f in fields)
    return Struct(cls, rows, as_array=False)


def _optional(name: str, kind: Kind, absent: Any = None) -> Field:
    return Field(name, kind, "optional", absent)


_NODE, _INDEX = ("node", TEXT), ("index", U64)

EVENTS: Mapping[str, Struct] = {
    spec.cls.__name__: spec
    for spec in (
        _payload(ev.RunStarted, ("agent_def_hash", TEXT), ("input", JSON), _optional("labels", LABELS)),
        _payload(
            ev.GraphRunStarted,
            ("graph_hash", TEXT),
            ("input", JSON),
            _optional("labels", LABELS),
            _optional("forked_from", _FORK),
        ),
        _payload(
            ev.ModelCallRequested,
            ("seq", U64),
            ("request_hash", TEXT),
            _optional("request_body", JSON, MISSING),
        ),
        _payload(ev.ModelCallCompleted, ("seq", U64), ("response", JSON), ("usage", _USAGE)),
        _payload(
            ev.ToolCallRequested,
            ("seq", U64),
            ("tool", TEXT),
            ("input", JSON),
            ("effect", EFFECT),
            Field("idempotency_key", TEXT, "nullable"),
            _optional("performed_by", PERFORMER),
        ),
        _payload(ev.ToolCallCompleted, ("seq", U64), ("output", JSON), _optional("deduplicated_from", _CALL)),
        _payload(ev.NowObserved, ("now", TIME)),
        _payload(ev.RandomObserved, ("value", U64)),
        _payload(ev.Suspended, ("reason", TEXT), ("input_schema", JSON)),
        _payload(ev.Resumed, ("input", JSON)),
        _payload(ev.BudgetExceeded, ("budget", _LIMIT), ("observed", F64)),
        _payload(ev.RunCompleted, ("output", JSON)),
        _payload(ev.RunFailed, ("error", TEXT)),
        _payload(ev.RunAbandoned, _optional("reason", TEXT), _optional("unresolved_write", _UNRESOLVED)),
        _payload(ev.NodeEntered, _NODE),
        _payload(ev.NodeExited, _NODE),
        _payload(ev.NodeSkipped, _NODE, ("reason", TEXT)),
        _payload(ev.BranchTaken, _NODE, ("case", TEXT)),
        _payload(ev.MapFannedOut, _NODE, ("items", JSON)),
        _payload(ev.MapIterationStarted, _NODE, _INDEX, ("child_run", TEXT)),
        _payload(ev.MapIterationJoined, _NODE, _INDEX),
        _payload(ev.FoldIterationStarted, _NODE, _INDEX),
        _payload(ev.FoldIterationJoined, _NODE, _INDEX),
        _payload(ev.FoldConverged, _NODE, ("winner_index", U64), ("reason", TEXT)),
    )
}


def read_fields(
    fields: tuple[Field, ...], value: Json, at: str, as_array: bool = True
) -> tuple[dict[str, Any], dict[str, Json]]:
    """The fields' values in a JSON object (or an array of them, where that is read), and unknown keys.

    Raises
    ------
    Fault
        A key is missing, repeated or of the wrong type.
    """
    if isinstance(value, list) and as_array:
        if len(value) != len(fields):
            raise Fault(at, f"found an array of {len(value)}, expected {len(fields)} values")
        value = {f.name: v for f, v in zip(fields, value, strict=True)}
    names = [f.name for f in fields]
    if not isinstance(value, dict):
        raise not_there(value, f"an object with {', '.join(names) or 'no particular keys'}", at)
    twice = value.repeated.intersection(names) if isinstance(value, Repeats) else None
    if twice:
        raise Fault(joined(at, min(twice)), "the key is there twice, expected once")
    known: dict[str, Any] = {}
    for f in fields:
        item = value.get(f.name, MISSING)
        required = f.presence == "required"
        if item is MISSING and required:
            raise Fault(joined(at, f.name), "nothing there, expected a value")
        absent = not required and (item is None or item is MISSING)
        known[f.name] = f.absent if absent else f.kind.read(item, joined(at, f.name))
    extra = {} if value.keys() <= known.keys() else {k: v for k, v in value.items() if k not in known}
    return known, extra


def write_fields(
    fields: tuple[Field, ...], value: Any, extra: Mapping[str, Json], canonical: bool, at: str
) -> str:
    """An object's fields, and its unknown keys unless ``canonical``, as JSON text without the braces.

    Raises
    ------
    ParameterError
        A field's value cannot stand on the wire, or an unknown key is called like a field.
    """
    parts = []
    for f in fields:
        item = getattr(value, f.name)
        if item is f.absent and f.presence == "optional":
            continue
        is_null = item is None and f.presence == "nullable"
        text = "null" if is_null else f.kind.write(item, canonical, joined(at, f.name))
        parts.append(f'"{f.name}":{text}')
    if extra and not canonical:
        clash = extra.keys() & {f.name for f in fields}
        if clash:
            raise ParameterError(f"extra holds {min(clash)!r}, which is a field of its own; set the field")
        parts.extend(f"{dumps(k)}:{write_json(v, False, joined(at, k))}" for k, v in extra.items())
    return ",".join(parts)


def read_struct(spec: Struct, value: Json, at: str) -> Any:
    """The value of ``spec.cls`` that ``value`` stands for; `Fault` where it stands for none."""
    known, extra = read_fields(spec.fields, value, at, spec.as_array)
    return spec.cls(**known, extra=extra)


def write_struct(spec: Struct, value: Any, canonical: bool, at: str) -> str:
    """One value of ``spec.cls`` as compact JSON text; `ParameterError` where it cannot be written."""
    if not isinstance(value, spec.cls):
        raise not_written(value, f"a {spec.cls.__name__}", at)
    return "{" + write_fields(spec.fields, value, value.extra, canonical, at) + "}"


def _read_kind(value: Json, at: str) -> Struct:
    name = TEXT.read(value, at)
    if name not in EVENTS:
        raise Fault(at, f"found {dumps(name)}, no event is called so", "unknown_kind")
    return EVENTS[name]


def _as_read(value: Json, at: str) -> Json:
    return value


def _unwritten(value: Any, canonical: bool, at: str) -> str:
    raise NotImplementedError(f"{at} is written by its own function")


_EVENT_FIELDS = (Field("kind", Kind(_read_kind, _unwritten)), Field("payload", Kind(_as_read, _unwritten)))


def read_event(value: Json, at: str) -> tuple[ev.Event, dict[str, Json]]:
    """The event of a ``{"kind", "payload"}`` object and its unknown keys; `Fault` if it is none."""
    known, extra = read_fields(_EVENT_FIELDS, value, at)
    return read_struct(known["kind"], known["payload"], f"{at}.payload"), extra


ENVELOPE_FIELDS = (
    Field("run_id", RUN_ID),
    Field("seq", U64),
    Field("schema_version", U32),
    Field("recorded_at", TIME),
)


def read_envelope(value: Json) -> ev.Envelope:
    """The envelope that a JSON value stands for; `Fault` if it is none."""
    fields = (*ENVELOPE_FIELDS, Field("event", Kind(read_event, _unwritten)))
    known, extra = read_fields(fields, value, "")
    event, event_extra = known.pop("event")
    return ev.Envelope(event=event, extra=extra, event_extra=event_extra, **known)


def write_envelope(envelope: ev.Envelope, canonical: bool) -> str:
    """One envelope as compact JSON text; `ParameterError` names a field that cannot be written."""
    spec = EVENTS.get(envelope.event.kind)
    if spec is None:
        raise not_written(envelope.event, "one of the 24 events", "event")
    payload = write_struct(spec, envelope.event, canonical, "event.payload")
    event = f'"kind":"{envelope.event.kind}","payload":{payload}'
    tail = write_fields((), envelope.event, {} if canonical else envelope.event_extra, canonical, "event")
    head = write_fields(ENVELOPE_FIELDS, envelope, {}, canonical, "")
    rest = write_fields((), envelope, envelope.extra, canonical, "")
    return "{" + head + ',"event":{' + event + (tail and "," + tail) + "}" + (rest and "," + rest) + "}"
