"""JSON values: exact reading and writing, typed equality and the first place where two values differ.

Equality is typed: ``1`` is not ``1.0``, ``True`` is not ``1``, null is not a missing key, and the
literal ``-0`` is the float ``-0.0`` (which equals ``0.0`` but not ``0``). Object key order does not
count, array order does, and strings are compared by code point. Everything here copes with integers
of any size and with values nested deeper than Python's own recursion limit.
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from afnb.errors import InputError, ParameterError


class Missing(enum.Enum):
    """The type of ``MISSING``: a value that is not there, as opposed to JSON null (``None``)."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> Literal[False]:
        return False


MISSING: Final = Missing.MISSING

Json = Any
JsonOrMissing = Any
PathParts = tuple[str | int, ...]

PORTABLE_DEPTH = 127
"""So many levels of arrays and objects every reader of JSON can be trusted with."""

_DIGITS = 600  # int() and str() of more digits may be refused: Python's limit can be set as low as 640
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _int_of(text: str) -> int | float:
    """The integer a JSON literal stands for, whatever its length; ``-0`` is the float -0.0."""
    if text == "-0":
        return -0.0
    if len(text) <= _DIGITS:
        return int(text)
    if text[0] == "-":
        return -_big_int(text[1:])
    return _big_int(text)


def _big_int(digits: str) -> int:
    if len(digits) <= _DIGITS:
        return int(digits)
    low = len(digits) // 2
    power: int = 10**low
    return _big_int(digits[:-low]) * power + _big_int(digits[-low:])


def _int_text(value: int) -> str:
    """Decimal digits of an integer of any size."""
    value = int(value)
    if value.bit_length() < 1900:  # fewer than 600 digits
        return str(value)
    sign, value = ("-", -value) if value < 0 else ("", value)
    return sign + _big_text(value, int(value.bit_length() * 0.30103) + 1).lstrip("0")


def _big_text(value: int, width: int) -> str:
    if width <= _DIGITS:
        return str(value).zfill(width)
    low = width // 2
    head, tail = divmod(value, 10**low)
    return _big_text(head, width - low) + _big_text(tail, low)


def _float_of(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise InputError(f"not JSON that can be held: the number {shown} is too large for a 64-bit float")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise InputError(f"not JSON: {text} is not a JSON number; write null or leave the key out")


_DECODER = json.JSONDecoder(parse_int=_int_of, parse_float=_float_of, parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
_quote = json.encoder.encode_basestring


def decoder(on_object: Callable[[list[tuple[str, Json]]], Json]) -> json.JSONDecoder:
    """A decoder with the number rules of `loads` that hands every object's pairs to ``on_object``.

    For readers that must see repeated keys or where a value ends (``raw_decode``). Its faults are
    ``json.JSONDecodeError``, `InputError` for a number that cannot be held, and ``RecursionError``.
    """
    return json.JSONDecoder(
        parse_int=_int_of,
        parse_float=_float_of,
        parse_constant=_refuse_constant,
        object_pairs_hook=on_object,
    )


def loads(
    data: str | bytes,
    *,
    portable: bool = False,
    on_object: Callable[[list[tuple[str, Json]]], Json] | None = None,
) -> Json:
    """Read one JSON text.

    Integers are exact at any size, other numbers are correctly rounded doubles, the last of
    duplicate keys wins, and escaped lone surrogates are kept as they are.

    Parameters
    ----------
    data
        Text, or its UTF-8 bytes (no byte order mark).
    portable
        Refuse what other languages' readers refuse: half of a surrogate pair, more than 127 levels.
    on_object
        Makes each object from its pairs, repeated keys included; ``dict`` if None.

    Returns
    -------
    Json
        None, bool, int, float, str, list or dict.

    Raises
    ------
    InputError
        Not UTF-8, not JSON, NaN or Infinity, a number beyond a double, text after the value, or
        nesting too deep to read. ``line`` is the 1-based line of the fault where it is known.

    Examples
    --------
    >>> loads('{"n": 18446744073709551616, "n": 2}')
    {'n': 2}
    >>> loads("[NaN]")
    Traceback (most recent call last):
    ...
    afnb.errors.InputError: not JSON: NaN is not a JSON number; write null or leave the key out
    """
    if isinstance(data, str):
        text = data
    else:
        try:
            text = bytes(data).decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InputError(
                f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start} (line {line}); "
                "save the file as UTF-8",
                line=line,
            ) from None
    if text.startswith("\ufeff"):
        raise InputError("not JSON: it starts with a byte order mark; save it as UTF-8 without one", line=1)
    try:
        value = (_DECODER if on_object is None else decoder(on_object)).decode(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg.removesuffix(' at')} at line {error.lineno} column {error.colno}",
            line=error.lineno,
        ) from None
    except RecursionError:
        raise InputError("JSON nested too deeply to read; expected at most a few hundred levels") from None
    if portable:
        _check_portable(value)
    return value


def _check_portable(value: Json) -> None:
    level: list[Any] = [value]
    for depth in range(PORTABLE_DEPTH + 1):
        if depth == PORTABLE_DEPTH and any(isinstance(item, list | dict) for item in level):
            raise InputError(f"JSON nested too deeply: more than {PORTABLE_DEPTH} levels")
        inner: list[Any] = []
        for item in level:
            if isinstance(item, str):
                if not item.isascii() and _SURROGATE.search(item):
                    shown = dumps(item[:40])
                    raise InputError(f"half of a surrogate pair in the text {shown}; expected whole pairs")
            elif isinstance(item, list):
                inner.extend(item)
            elif isinstance(item, dict):
                inner.extend(item)
                inner.extend(item.values())
        level = inner


def dumps(value: Json) -> str:
    r"""Write one JSON value as compact text that `loads` reads back to an equal value.

    Keys keep their order and non-ASCII characters stay as they are, except lone surrogates, which
    are escaped (``\ud800``) so that the text can always be encoded as UTF-8. Tuples are arrays.

    Raises
    ------
    ParameterError
        The value (or one inside it, whose path is named) is not JSON: NaN, a set, ``MISSING``, a
        cycle, a key that is no string.

    Examples
    --------
    >>> dumps({"b": [1, 1.0, None], "a": "é"})
    '{"b":[1,1.0,null],"a":"é"}'
    """
    try:
        text = _ENCODER.encode(value)
    except (ValueError, TypeError, RecursionError):
        text = _dumps_slowly(value)
    else:
        if not _keys_are_text(value):
            _dumps_slowly(value)  # raises, naming the place
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = _SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", text)
    return text


_ONLY_TEXT = frozenset((str,))
_NO_KEYS = frozenset((str, int, float, bool, type(None)))


def _keys_are_text(value: Json) -> bool:
    """Whether every key is text; the json module would quietly write the key 1 as "1"."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if not _ONLY_TEXT.issuperset(map(type, item)) and not all(isinstance(key, str) for key in item):
                return False
            inside: Iterable[Any] = item.values()
        elif isinstance(item, list | tuple):
            inside = item
        else:
            continue
        if not _NO_KEYS.issuperset(map(type, inside)):
            stack.extend(v for v in inside if isinstance(v, dict | list | tuple))
    return True


def _scalar_text(value: Json, path: PathParts) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _int_text(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float.__repr__(value)
        raise ParameterError(
            f"not JSON: {value!r} at {path_text(path) or 'the top'}; JSON has finite numbers only"
        )
    if isinstance(value, str):
        return _quote(value)
    raise ParameterError(
        f"not JSON: a {type(value).__name__} at {path_text(path) or 'the top'}; "
        "expected null, a boolean, a number, text, a list or a dict"
    )


def _dumps_slowly(value: Json) -> str:
    """The same text without recursion; names the path of what is not JSON."""
    out: list[str] = []
    inside: set[int] = set()
    # work items: (what, path, text written before it); `what` is a closing mark when path is None
    stack: list[tuple[Any, PathParts | None, str]] = [(value, (), "")]
    while stack:
        item, path, before = stack.pop()
        out.append(before)
        if path is None:
            inside.discard(item)
            continue
        is_object = isinstance(item, dict)
        if not is_object and not isinstance(item, list | tuple):
            out.append(_scalar_text(item, path))
            continue
        if id(item) in inside:
            raise ParameterError(f"not JSON: the value at {path_text(path) or 'the top'} contains itself")
        inside.add(id(item))
        out.append("{" if is_object else "[")
        children: list[tuple[Any, PathParts | None, str]] = []
        if is_object:
            for key, child in item.items():
                if not isinstance(key, str):
                    raise ParameterError(
                        f"not JSON: the key {key!r} at {path_text(path) or 'the top'} is a "
                        f"{type(key).__name__}; keys are text"
                    )
                children.append((child, (*path, key), f"{',' if children else ''}{_quote(key)}:"))
        else:
            children.extend((child, (*path, i), "," if i else "") for i, child in enumerate(item))
        stack.append((id(item), None, "}" if is_object else "]"))
        stack.extend(reversed(children))
    return "".join(out)


def type_name(value: JsonOrMissing) -> str:
    """The JSON name of a value's type, for messages: ``object``, ``array``, ``integer``, ...

    >>> [type_name(v) for v in ({}, [], 1, 1.0, "a", True, None, MISSING)]
    ['object', 'array', 'integer', 'number', 'string', 'boolean', 'null', 'missing']
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list | tuple):
        return "array"
    if isinstance(value, Mapping):
        return "object"
    if value is MISSING:
        return "missing"
    return type(value).__name__


def path_text(path: PathParts) -> str:
    """A JSON path in words: ``messages[3].content``; keys that are no plain word are quoted.

    >>> path_text(("messages", 3, "content", "a b"))
    'messages[3].content["a b"]'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.match(part):
            text += f".{part}" if text else part
        else:
            text += f"[{dumps(part)}]"
    return text


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two JSON values first differ: the path and the two values there.

    ``a`` or ``b`` is ``MISSING`` where that side has no such key or element. ``path`` is empty when
    the values themselves differ in type or are different scalars.
    """

    parts: PathParts
    a: JsonOrMissing
    b: JsonOrMissing

    @property
    def path(self) -> str:
        """The place as text, e.g. ``messages[3].content``."""
        return path_text(self.parts)

    @property
    def offset(self) -> int | None:
        """First differing character when both sides are text, else None."""
        if not isinstance(self.a, str) or not isinstance(self.b, str):
            return None
        return next(
            (i for i, (x, y) in enumerate(zip(self.a, self.b, strict=False)) if x != y),
            min(len(self.a), len(self.b)),
        )


def first_difference(a: JsonOrMissing, b: JsonOrMissing) -> Difference | None:
    """The first place where two values differ, in reading order of ``a``; None if they are equal.

    In an object the keys of ``a`` come first, then those only ``b`` has.

    Examples
    --------
    >>> d = first_difference({"m": [{"t": "hi"}, 1]}, {"m": [{"t": "ho"}, 1.0]})
    >>> d.path, d.a, d.b, d.offset
    ('m[0].t', 'hi', 'ho', 1)
    >>> first_difference({"x": None}, {}).b
    MISSING
    """
    stack: list[tuple[PathParts, JsonOrMissing, JsonOrMissing]] = [((), a, b)]
    while stack:
        path, x, y = stack.pop()
        if x is y and not isinstance(x, float):
            continue
        kind = type_name(x)
        if kind != type_name(y):
            return Difference(path, x, y)
        if kind == "object":
            rest = [((*path, k), v, y.get(k, MISSING)) for k, v in x.items()]
            rest.extend(((*path, k), MISSING, v) for k, v in y.items() if k not in x)
            stack.extend(reversed(rest))
        elif kind == "array":
            n = min(len(x), len(y))
            if len(x) != len(y):
                longer = x if len(x) > n else y
                extra = longer[n]
                stack.append(
                    ((*path, n), extra if longer is x else MISSING, MISSING if longer is x else extra)
                )
            stack.extend(((*path, i), x[i], y[i]) for i in range(n - 1, -1, -1))
        elif x != y:
            return Difference(path, x, y)
    return None


def equal(a: JsonOrMissing, b: JsonOrMissing) -> bool:
    """Whether two values are the same JSON value, types included.

    Examples
    --------
    >>> equal(1, 1.0), equal(True, 1), equal(0.0, -0.0), equal({"a": 1, "b": 2}, {"b": 2, "a": 1})
    (False, False, True, True)
    """
    stack: list[tuple[JsonOrMissing, JsonOrMissing]] = [(a, b)]
    while stack:
        x, y = stack.pop()
        if x is y and not isinstance(x, float):
            continue
        kind = type_name(x)
        if kind != type_name(y):
            return False
        if kind == "object":
            if len(x) != len(y):
                return False
            for key, value in x.items():
                if key not in y:
                    return False
                stack.append((value, y[key]))
        elif kind == "array":
            if len(x) != len(y):
                return False
            stack.extend(zip(x, y, strict=True))
        elif x != y:
            return False
    return True
