"""Stable hashes of agents: they change when the agent's program does, and are the same in every process."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MAX_SCRIPT = 16 << 20
CONSTANTS = (str, bytes, int, float, complex, bool, type(None), type(...))


def hash_parts(*parts: object) -> str:
    """32 hexadecimal digits that depend on the ``repr`` of every part.

    Examples
    --------
    >>> len(hash_parts("a", 1))
    32
    """
    return hashlib.blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def script_hashes(argv: Iterable[object], cwd: str | os.PathLike[str] | None) -> list[tuple[str, str]]:
    """Name and content hash of each argument after the first that is a file (a script, settings)."""
    base = Path(cwd) if cwd is not None else Path()
    hashes: list[tuple[str, str]] = []
    for part in list(argv)[1:]:
        try:
            path = base / str(part)
            if path.is_file() and path.stat().st_size <= MAX_SCRIPT:
                hashes.append((str(part), hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()))
        except (OSError, ValueError):
            continue
    return hashes


def function_name(f: Callable[..., Any]) -> str:
    """The name to show for a function, a partial or a callable object."""
    if isinstance(f, functools.partial):
        return f"partial({function_name(f.func)})"
    return str(getattr(f, "__qualname__", None) or type(f).__qualname__)


def function_fingerprint(f: Callable[..., Any]) -> str:
    """Hash of a function's source, its defaults and the constants and functions it closes over.

    Functions it calls by a global name are not looked into, nor are objects other than plain constants
    and containers of them: only their type counts.

    Examples
    --------
    >>> one, two = (lambda ctx: 1), (lambda ctx: 2)
    >>> function_fingerprint(one) == function_fingerprint(one)
    True
    """
    return hash_parts("function", _describe(f, set()))


def _describe(value: Any, seen: set[int]) -> object:
    if isinstance(value, CONSTANTS):
        return (type(value).__name__, repr(value))
    if id(value) in seen:
        return "again"
    seen = seen | {id(value)}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(_describe(item, seen) for item in value)]
    if isinstance(value, (set, frozenset)):
        return [type(value).__name__, *sorted(repr(_describe(item, seen)) for item in value)]
    if isinstance(value, dict):
        return ["dict", *sorted((repr(_describe(k, seen)), _describe(v, seen)) for k, v in value.items())]
    if isinstance(value, functools.partial):
        return [
            "partial",
            _describe(value.func, seen),
            _describe(value.args, seen),
            _describe(value.keywords, seen),
        ]
    if isinstance(value, types.MethodType):
        return ["method", _describe(value.__func__, seen), _describe(value.__self__, seen)]
    if isinstance(value, types.FunctionType):
        cells = [_cell(cell) for cell in value.__closure__ or ()]
        return [
            "function",
            value.__qualname__,
            _source(value),
            _describe(value.__defaults__, seen),
            _describe(value.__kwdefaults__, seen),
            [_describe(cell, seen) for cell in cells],
        ]
    if isinstance(value, type):
        return ["class", value.__module__, value.__qualname__]
    state = getattr(value, "__dict__", None)
    inside = _describe(state, seen) if isinstance(state, dict) and callable(value) else None
    return ["object", type(value).__module__, type(value).__qualname__, _source(type(value)), inside]


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        code = getattr(thing, "__code__", None)
        return repr(_code(code)) if isinstance(code, types.CodeType) else ""


def _code(code: types.CodeType) -> object:
    inner = [
        _code(c) if isinstance(c, types.CodeType) else (type(c).__name__, repr(c)) for c in code.co_consts
    ]
    return [code.co_code.hex(), code.co_names, code.co_varnames, inner]
