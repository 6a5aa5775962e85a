"""What a wrapped tool is called with, as JSON, and its failures, to be raised again as they were."""

from __future__ import annotations

import ast
import base64
import dataclasses
import datetime
import decimal
import enum
import inspect
import math
import os
import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from afnb.core.jsonvalue import Json
from afnb.errors import ParameterError, ToolFailed

_AS_TEXT = (datetime.date, datetime.time, decimal.Decimal, uuid.UUID, os.PathLike)


def arguments_of(
    function: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    ignore: tuple[str, ...],
) -> dict[str, Json]:
    """The arguments of a call by the function's parameter names.

    Raises
    ------
    ParameterError
        One of them cannot be written as JSON; the message says how to leave it out.

    Examples
    --------
    >>> def send(to, *more, subject="", **headers): ...
    >>> arguments_of(send, "send", ("ann", "bob"), {"subject": "hi", "cc": "eve"}, ())
    {'to': 'ann', 'more': ['bob'], 'subject': 'hi', 'cc': 'eve'}
    """
    found: dict[str, Json] = {}
    for key, value in _bound(function, args, kwargs).items():
        if key in ignore:
            continue
        try:
            found[key] = plain(value)
        except TypeError:
            raise ParameterError(
                f"the tool {name} was called with {key}=a {type_name(value)}, which cannot be recorded; "
                f"if it is no part of what is asked, leave it out: ignore=({key!r},)"
            ) from None
    return found


def _bound(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # a wrong call: the function itself says so
        return {**{str(i): value for i, value in enumerate(args)}, **kwargs}
    out: dict[str, Any] = {}
    for position, (key, value) in enumerate(bound.items()):
        kind = signature.parameters[key].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            out.update(value)
        elif position > 0 or key not in ("self", "cls"):
            out[key] = value
    return out


def plain(value: Any) -> Json:
    """A value as JSON; what JSON has no form for as text where that says all, else ``TypeError``.

    Examples
    --------
    >>> plain({"when": datetime.date(2026, 3, 30), "ids": (1, 2)})
    {'when': '2026-03-30', 'ids': [1, 2]}
    """
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, _AS_TEXT):
        return str(value)
    dump = getattr(value, "model_dump", None)  # pydantic
    if callable(dump):
        return plain(dump(mode="json"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    item = getattr(value, "item", None)  # a numpy scalar
    if callable(item) and type(value).__module__ == "numpy":
        return plain(item())
    raise TypeError(type_name(value))


def type_name(value: Any) -> str:
    """The name of a value's type, for a message."""
    return type(value).__qualname__


def failure(error: BaseException) -> dict[str, str]:
    """A failure as it is recorded: its text, and its class as ``module:name``."""
    return {"error": str(error), "error_type": f"{type(error).__module__}:{type(error).__qualname__}"}


def as_recorded(text: str, kind: str | None) -> BaseException:
    """An exception like the recorded one: of its class where that is known here, with its text.

    The class is looked for among the modules that are loaded, and nothing of it is run but ``__new__``.
    Where that gives no exception of the same text, it is a ``ToolFailed`` whose class has the recorded name.

    Examples
    --------
    >>> as_recorded(str(KeyError("8841")), "builtins:KeyError")
    KeyError('8841')
    >>> type(as_recorded("boom", "gone.away:Lost")).__mro__[1].__name__
    'ToolFailed'
    """
    module, _, name = (kind or "").partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, Exception):
        for argument in (text, _literal(text)):
            try:
                made = found.__new__(found, argument)
                made.args = (argument,)
                if str(made) == text:
                    return made
            except Exception:  # noqa: BLE001 - a class that cannot be made so: the stand-in will do
                break
    if not name:
        return ToolFailed(text)
    made_class: type[ToolFailed] = type(name.rpartition(".")[2], (ToolFailed,), {"__module__": module})
    return made_class(text)


def _literal(text: str) -> Any:
    """What a text is the ``repr`` of (the text of a ``KeyError`` is one), else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
