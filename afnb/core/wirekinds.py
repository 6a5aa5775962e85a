"""How each type of value on the wire is read, checked and written: one `Kind` a type."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from afnb.core import events as ev
from afnb.core.instants import Instant
from afnb.core.jsonvalue import Json, dumps, type_name
from afnb.core.wiretext import canonical_text
from afnb.errors import InputError, ParameterError

Rule = Literal["bad_envelope", "unknown_kind", "bad_payload"]

_UUID = re.compile(
    r"(?:urn:uuid:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"|\{([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\}"
    r"|([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"|([0-9a-f]{32}))",
    re.IGNORECASE,
)


class Fault(Exception):
    """What is wrong with a value read from the wire, and at which field of the envelope."""

    def __init__(self, field: str, message: str, rule: Rule | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.message = f"{message} (field {field})" if field else message
        inside = field.startswith("event.payload")
        self.rule: Rule = rule or ("bad_payload" if inside else "bad_envelope")


class Repeats(dict[str, Json]):
    """An object whose text names a key more than once; the last value counts."""

    repeated: frozenset[str]

    @classmethod
    def of(cls, pairs: list[tuple[str, Json]]) -> Repeats:
        """The object of ``pairs``, which has repeated keys."""
        value = cls(pairs)
        seen: set[str] = set()
        value.repeated = frozenset(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        return value


@dataclass(frozen=True, slots=True)
class Kind:
    """How one value is read and written; the last argument is its path, for faults."""

    read: Callable[[Json, str], Any]
    write: Callable[[Any, bool, str], str]


def not_there(value: Any, expected: str, at: str) -> Fault:
    """The fault of a value on the wire that is not what its field holds."""
    shown = dumps(value) if isinstance(value, str | int | float | None) else type_name(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return Fault(at, f"found {shown}, expected {expected}")


def not_written(value: Any, expected: str, at: str) -> ParameterError:
    """The error of a value that the wire cannot hold at its field."""
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return ParameterError(f"{at} is {shown}; the wire holds {expected} there")


def joined(at: str, name: str) -> str:
    """The path of the field ``name`` inside ``at``."""
    return f"{at}.{name}" if at else name


def _checked(expected: str, holds: Callable[[Any], bool], text: Callable[[Any], str]) -> Kind:
    """A scalar that is kept as it is read."""

    def read(value: Json, at: str) -> Any:
        if not holds(value):
            raise not_there(value, expected, at)
        return value

    def write(value: Any, canonical: bool, at: str) -> str:
        if not holds(value):
            raise not_written(value, expected, at)
        return text(value)

    return Kind(read, write)


def _whole(most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 0 <= value <= most


def _one_of(names: tuple[str, ...]) -> Kind:
    return _checked(f"one of {', '.join(names)}", lambda v: isinstance(v, str) and v in names, dumps)


def _read_float(value: Json, at: str) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            pass
    raise not_there(value, "a number a 64-bit float can hold", at)


def _write_float(value: Any, canonical: bool, at: str) -> str:
    if type(value) is not float or not math.isfinite(value):
        raise not_written(value, "a finite float", at)
    return canonical_text(value)


def _read_instant(value: Json, at: str) -> Instant:
    if not isinstance(value, str):
        raise not_there(value, "an RFC 3339 time as text", at)
    try:
        return Instant.parse(value)
    except InputError as error:
        raise Fault(at, error.message) from None


def _write_instant(value: Any, canonical: bool, at: str) -> str:
    if not isinstance(value, Instant):
        raise not_written(value, "an Instant", at)
    return dumps(str(value) if canonical else value.verbatim)


def _read_uuid(value: Json, at: str) -> str:
    match = _UUID.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise not_there(value, "a UUID", at)
    digits = next(g for g in match.groups() if g).replace("-", "").lower()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def normal_run_id(text: str) -> str:
    """A run id as the wire writes it: lower case with hyphens.

    Raises
    ------
    ParameterError
        The text is no UUID.

    Examples
    --------
    >>> normal_run_id("{DDEBF940-733C-4466-8A93-3972A45C17D6}")
    'ddebf940-733c-4466-8a93-3972a45c17d6'
    """
    try:
        return _read_uuid(text, "")
    except Fault:
        raise ParameterError(f"run id {text!r} is no UUID; make one with str(uuid.uuid4())") from None


def _write_uuid(value: Any, canonical: bool, at: str) -> str:
    try:
        return dumps(_read_uuid(value, at))
    except Fault:
        raise not_written(value, "a UUID", at) from None


def _read_labels(value: Json, at: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise not_there(value, "an object of texts", at)
    for key, label in value.items():
        if not isinstance(label, str):
            raise not_there(label, "text", joined(at, key))
    return dict(sorted(value.items()))


def _write_labels(value: Any, canonical: bool, at: str) -> str:
    if not isinstance(value, Mapping) or not all(
        isinstance(k, str) and isinstance(v, str) for k, v in value.items()
    ):
        raise not_written(value, "a mapping of text to text", at)
    return dumps(dict(sorted(value.items())))


def _read_seqs(value: Json, at: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise not_there(value, "an array of seqs", at)
    return tuple(U64.read(v, f"{at}[{i}]") for i, v in enumerate(value))


def _write_seqs(value: Any, canonical: bool, at: str) -> str:
    return "[" + ",".join(U64.write(v, canonical, f"{at}[{i}]") for i, v in enumerate(value)) + "]"


def write_json(value: Any, canonical: bool, at: str) -> str:
    """A free JSON value as text; `ParameterError` where it is none."""
    try:
        return canonical_text(value) if canonical else dumps(value)
    except ParameterError as error:
        raise ParameterError(f"{at}: {error}") from None
    except RecursionError:
        raise ParameterError(f"{at} is nested too deeply to be written") from None


U64 = _checked("an integer from 0 to 2**64 - 1", _whole(ev.U64_MAX), dumps)
U32 = _checked("an integer from 0 to 2**32 - 1", _whole(ev.U32_MAX), dumps)
TEXT = _checked("text", lambda v: isinstance(v, str), dumps)
F64 = Kind(_read_float, _write_float)
TIME = Kind(_read_instant, _write_instant)
RUN_ID = Kind(_read_uuid, _write_uuid)
LABELS = Kind(_read_labels, _write_labels)
SEQS = Kind(_read_seqs, _write_seqs)
JSON = Kind(lambda value, at: value, write_json)
EFFECT, PERFORMER, BUDGET = _one_of(ev.EFFECTS), _one_of(ev.PERFORMERS), _one_of(ev.BUDGET_KINDS)
