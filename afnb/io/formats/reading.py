"""Reading JSON documents with errors that name the place, shared by the formats."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from afnb.core.jsonvalue import MISSING, Json, PathParts, dumps, loads, path_text, type_name
from afnb.errors import InputError


def shown(value: Any) -> str:
    """A value as an error shows it: its type, and the value itself where it is short."""
    kind = type_name(value)
    if kind in ("null", "missing"):
        return "null" if kind == "null" else "nothing"
    if kind in ("object", "array"):
        return f"an {kind}"
    text = dumps(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({kind})"


def read_json(data: bytes, what: str, path: str | None = None) -> Json:
    """One JSON document, or an `InputError` that says what is wrong with it and where.

    Parameters
    ----------
    data
        The file's bytes.
    what
        What was expected, for the messages: ``"a cassette"``.
    path
        The file, for the messages.
    """
    if not data.strip():
        raise InputError(f"the file is empty; expected {what}", path=path)
    try:
        return loads(data)
    except InputError as error:
        raise InputError(_better(data, error.message), path=path, line=error.line) from None


def _better(data: bytes, message: str) -> str:
    """Add where a number stands that JSON has not, or that the document just stops."""
    if "is not a JSON number" in message or "too large for a 64-bit float" in message:
        place = _place_of_bad_number(data.decode("utf-8", "replace"))
        return f"{message} (at {place})" if place else message
    if message.startswith("not JSON: ") and _stops_early(data):
        return f"{message}: the file stops in the middle, so it was cut off; take it from its source again"
    return message


def _stops_early(data: bytes) -> bool:
    """Whether a JSON reader got to the end of the data without finding a fault."""
    text = data.decode("utf-8", "replace").rstrip()
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos :]
        return (
            error.pos >= len(text)
            or error.msg.startswith("Unterminated string")
            or (
                error.msg == "Expecting value"
                and re.fullmatch(r"-|t|tr|tru|f|fa|fal|fals|n|nu|nul", rest) is not None
            )
        )
    except (ValueError, RecursionError):
        return False
    return False


class _Bad(str):
    """Stands where a number was that JSON has not."""


def _place_of_bad_number(text: str) -> str | None:
    def number(literal: str) -> Any:
        value = float(literal)
        return _Bad(literal) if value in (float("inf"), float("-inf")) else value

    try:
        value = json.loads(text, parse_constant=_Bad, parse_float=number, parse_int=lambda _: 0)
    except (ValueError, RecursionError):
        return None
    stack: list[tuple[PathParts, Any]] = [((), value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, _Bad):
            return path_text(path)
        if isinstance(item, dict):
            stack.extend(((*path, key), one) for key, one in reversed(item.items()))
        elif isinstance(item, list):
            stack.extend(((*path, i), item[i]) for i in range(len(item) - 1, -1, -1))
    return None


class Fields:
    """One JSON object being read: takes fields by name and type, and knows which were not taken.

    Parameters
    ----------
    value
        The object.
    at
        Where it stands, for messages: ``exchanges[3].request``.
    path
        The file.
    """

    def __init__(self, value: Json, at: str, path: str | None) -> None:
        self.at = at
        self.path = path
        if not isinstance(value, dict):
            self.wrong(at or "the document", value, "an object")
        self._value: dict[str, Any] = value
        self._taken: set[str] = set()

    def wrong(self, place: str, found: Any, expected: str) -> NoReturn:
        """Refuse a value."""
        raise InputError(f"{place}: found {shown(found)}, expected {expected}", path=self.path)

    def name(self, key: str) -> str:
        """A field's place in words."""
        return f"{self.at}.{key}" if self.at else key

    def raw(self, key: str, default: Any = None) -> Any:
        """A field of any type."""
        self._taken.add(key)
        return self._value.get(key, default)

    def has(self, key: str) -> bool:
        """Whether there is such a field."""
        return key in self._value

    def text(self, key: str) -> str:
        """A field that must be text."""
        value = self.raw(key)
        if not isinstance(value, str):
            self.wrong(self.name(key), value if self.has(key) else MISSING, "text")
        return value

    def optional_text(self, key: str) -> str | None:
        """A field that may be missing or null, else text."""
        value = self.raw(key)
        if value is not None and not isinstance(value, str):
            self.wrong(self.name(key), value, "text or null")
        return value

    def integer(self, key: str, low: int, high: int) -> int:
        """A field that must be an integer in a range, ends included."""
        value = self.raw(key)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.wrong(
                self.name(key),
                value if self.has(key) else MISSING,
                f"an integer from {low} to {high}" if high < 1 << 53 else f"an integer of at least {low}",
            )
        return value

    def optional_integer(self, key: str, low: int, high: int) -> int | None:
        """A field that may be missing or null, else an integer in a range."""
        return None if self.raw(key) is None else self.integer(key, low, high)

    def flag(self, key: str) -> bool:
        """A field that may be missing (False), else true or false."""
        value = self.raw(key, False)
        if not isinstance(value, bool):
            self.wrong(self.name(key), value, "true or false")
        return value

    def array(self, key: str, *, required: bool = True) -> list[Any]:
        """A field that must be an array (if not required, missing and null are an empty one)."""
        value = self.raw(key)
        if value is None and not required:
            return []
        if not isinstance(value, list):
            self.wrong(self.name(key), value if self.has(key) else MISSING, "an array")
        return value

    def rest(self, *kept: str) -> dict[str, Any]:
        """The fields nobody took, and those named here although they were looked at."""
        return {key: value for key, value in self._value.items() if key not in self._taken or key in kept}
