"""Stable hashes of agents: they change when the agent's program does, and are the same in every process."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import threading
import types
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from afnb.io.simulated import SimulatedUpstream
from afnb.io.upstream import FunctionUpstream, RoutedUpstream, ScriptedUpstream, Upstream

MAX_SCRIPT = 16 << 20
MAX_FILES = 300
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
    """Name and content hash of each argument after the first that is a file (a script, settings).

    With a Python script, or a module after ``-m``, come the Python files of its folder and of the folders
    in it (``MAX_FILES`` of them; no hidden folders, no virtual environments): what it may import.
    """
    base = Path(cwd) if cwd is not None else Path()
    parts = [str(part) for part in list(argv)[1:]]
    hashes: list[tuple[str, str]] = []
    for i, part in enumerate(parts):
        try:
            path = base / part
            module = base / part.replace(".", "/") if i and parts[i - 1] == "-m" else None
            if module is not None and (module.is_dir() or module.with_suffix(".py").is_file()):
                folder = module if module.is_dir() else module.parent
                hashes += _python_files(folder)
            elif path.is_file() and path.stat().st_size <= MAX_SCRIPT:
                hashes.append((part, _content(path)))
                if path.suffix == ".py":
                    hashes += _python_files(path.parent)
        except (OSError, ValueError):
            continue
    return hashes


def _python_files(folder: Path) -> list[tuple[str, str]]:
    found: list[Path] = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "__pycache__"))
            and name not in ("site-packages", "node_modules")
            and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
        )
        found += [Path(place) / name for name in sorted(files) if name.endswith(".py")]
        if len(found) >= MAX_FILES:
            break
    return [
        (str(path.relative_to(folder)), _content(path))
        for path in found[:MAX_FILES]
        if path.is_file() and path.stat().st_size <= MAX_SCRIPT
    ]


def _content(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def function_name(f: Callable[..., Any]) -> str:
    """The name to show for a function, a partial or a callable object."""
    if isinstance(f, functools.partial):
        return f"partial({function_name(f.func)})"
    return str(getattr(f, "__qualname__", None) or type(f).__qualname__)


def function_fingerprint(f: Callable[..., Any]) -> str:
    """Hash of a function's source, its defaults, and the constants and functions it uses.

    Those are the ones that it closes over, and the globals of its own module that it names, of which
    functions are looked into in their turn. Other modules are not, nor are objects other than plain
    constants and containers of them: only their type counts.

    Examples
    --------
    >>> one, two = (lambda ctx: 1), (lambda ctx: 2)
    >>> function_fingerprint(one) == function_fingerprint(one)
    True
    """
    return hash_parts("function", _Description().of(f, frozenset()))


def upstream_fingerprint(upstream: Upstream) -> str:
    """Hash of who answers live: a provider by its origin, a function or a policy by its code.

    Examples
    --------
    >>> one, two = FunctionUpstream(lambda request: "a"), FunctionUpstream(lambda request: "b")
    >>> upstream_fingerprint(one) == upstream_fingerprint(two)
    False
    """
    if isinstance(upstream, RoutedUpstream):
        return hash_parts(
            "routed", [(n, upstream_fingerprint(u)) for n, u in sorted(upstream.routes.items())]
        )
    if isinstance(upstream, FunctionUpstream):
        return hash_parts("function", function_fingerprint(upstream.f), upstream.seed)
    if isinstance(upstream, SimulatedUpstream):
        return hash_parts(
            "simulated", function_fingerprint(upstream.policy), upstream.seed, upstream.provider
        )
    if isinstance(upstream, ScriptedUpstream):
        return hash_parts("scripted", upstream.answers)
    return hash_parts(type(upstream).__qualname__, upstream.origin)


class _Description:
    """Descriptions of values, each function looked into once."""

    def __init__(self) -> None:
        self._functions: set[int] = set()

    def of(self, value: Any, seen: frozenset[int]) -> object:
        """What ``value`` is, as plain data whose ``repr`` is the same in every process."""
        return _describe(value, seen, self)

    def function(self, value: types.FunctionType, seen: frozenset[int]) -> object:
        """A function: its source, what it closes over, and the globals of its module that it names."""
        if id(value) in self._functions:
            return ["function", value.__qualname__]
        self._functions.add(id(value))
        cells = [_cell(cell) for cell in value.__closure__ or ()]
        return [
            "function",
            value.__qualname__,
            _source(value),
            _code(value.__code__) if value.__name__ == "<lambda>" else "",  # one line may hold several
            self.of(value.__defaults__, seen),
            self.of(value.__kwdefaults__, seen),
            [self.of(cell, seen) for cell in cells],
            [(name, self.named(used, seen)) for name, used in _globals(value)],
        ]

    def named(self, value: Any, seen: frozenset[int]) -> object:
        """A global: a class with its source."""
        source = _source(value) if isinstance(value, type) else ""
        return [self.of(value, seen), source]


def _globals(f: types.FunctionType) -> list[tuple[str, Any]]:
    """Globals of its own module that a function names: functions, classes and plain constants."""
    found = []
    for name in sorted(_names(f.__code__)):
        value = f.__globals__.get(name)
        own = isinstance(value, (types.FunctionType, type)) and value.__module__ == f.__module__
        if own or (value is not None and isinstance(value, (*CONSTANTS, tuple, list, dict, set, frozenset))):
            found.append((name, value))
    return found


def _names(code: types.CodeType) -> set[str]:
    inner = [_names(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return {*code.co_names}.union(*inner)


def _describe(value: Any, seen: frozenset[int], inside: _Description) -> object:
    if isinstance(value, CONSTANTS):
        return (type(value).__name__, repr(value))
    if id(value) in seen:
        return "again"
    seen = seen | {id(value)}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(inside.of(item, seen) for item in value)]
    if isinstance(value, (set, frozenset)):
        return [type(value).__name__, *sorted(repr(inside.of(item, seen)) for item in value)]
    if isinstance(value, dict):
        pairs = [(repr(inside.of(k, seen)), repr(inside.of(v, seen))) for k, v in value.items()]
        return ["dict", *sorted(pairs)]
    if isinstance(value, functools.partial):
        return ["partial", *(inside.of(part, seen) for part in (value.func, value.args, value.keywords))]
    if isinstance(value, types.MethodType):
        return ["method", inside.of(value.__func__, seen), inside.of(value.__self__, seen)]
    if isinstance(value, types.FunctionType):
        return inside.function(value, seen)
    if isinstance(value, type):
        return ["class", value.__module__, value.__qualname__]
    state = getattr(value, "__dict__", None)
    fields = inside.of(state, seen) if isinstance(state, dict) and callable(value) else None
    call = vars(type(value)).get("__call__")
    does = inside.function(call, seen) if isinstance(call, types.FunctionType) else None
    return ["object", type(value).__module__, type(value).__qualname__, _source(type(value)), fields, does]


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


_READING = threading.Lock()
"""A class's source is found by parsing its module, which CPython cannot do in several threads at once."""

_SOURCES: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def _source(thing: Any) -> str:
    with _READING:
        try:
            known = _SOURCES.get(thing)
            if known is None:
                known = _SOURCES[thing] = inspect.getsource(thing)
            return known
        except (OSError, TypeError):
            code = getattr(thing, "__code__", None)
            return repr(_code(code)) if isinstance(code, types.CodeType) else ""


def _code(code: types.CodeType) -> object:
    inner = [
        _code(c) if isinstance(c, types.CodeType) else (type(c).__name__, repr(c)) for c in code.co_consts
    ]
    return [code.co_code.hex(), code.co_names, code.co_varnames, inner]
