"""Stable marks of values and callables: equal for equal definitions, the same in every process.

Nothing is read from disk: a function is known by its compiled code, its defaults and what it closes
over. Functions that it calls by a global name are not looked into, and objects other than plain
constants and containers count by their type alone, so no memory address ever gets in.
"""

from __future__ import annotations

import functools
import hashlib
import types
from typing import Any

from afnb.causal.lambdas import is_lambda

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type(...))


def digest(*parts: object) -> str:
    """32 hexadecimal digits that depend on every part.

    Examples
    --------
    >>> digest("a", 1) == digest("a", 1) != digest("a", 1.0)
    True
    >>> one, two = (lambda run: True), (lambda run: False)
    >>> digest(one) == digest(two)
    False
    """
    text = repr([_mark(part, ()) for part in parts])
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def name_of(f: Any) -> str:
    """The name to show for a callable.

    Examples
    --------
    >>> name_of(len), name_of(functools.partial(len)), name_of(lambda run: True)
    ('len', 'partial(len)', 'lambda')
    """
    if isinstance(f, functools.partial):
        return f"partial({name_of(f.func)})"
    if is_lambda(f):
        return "lambda"
    return str(getattr(f, "__qualname__", None) or type(f).__qualname__)


def _mark(value: Any, above: tuple[int, ...]) -> object:
    if isinstance(value, _PLAIN):
        return (type(value).__name__, repr(value))
    if id(value) in above:
        return "itself"
    above = (*above, id(value))
    if isinstance(value, (list, tuple)):
        return ["list" if isinstance(value, list) else "tuple", *(_mark(item, above) for item in value)]
    if isinstance(value, (set, frozenset)):
        return ["set", *sorted(repr(_mark(item, above)) for item in value)]
    if isinstance(value, dict):
        return ["dict", *sorted((repr(_mark(k, above)), repr(_mark(v, above))) for k, v in value.items())]
    if isinstance(value, functools.partial):
        return ["partial", *(_mark(part, above) for part in (value.func, value.args, value.keywords))]
    if isinstance(value, types.MethodType):
        return ["method", _mark(value.__func__, above), _mark(value.__self__, above)]
    if isinstance(value, types.FunctionType):
        cells = [_mark(_inside(cell), above) for cell in value.__closure__ or ()]
        defaults = [_mark(value.__defaults__, above), _mark(value.__kwdefaults__, above)]
        return ["function", value.__qualname__, _code(value.__code__), defaults, cells]
    if isinstance(value, type):
        return ["class", value.__module__, value.__qualname__]
    return _object_mark(value, above)


def _object_mark(value: Any, above: tuple[int, ...]) -> object:
    """An object: its type, and for a callable one its code and plain state."""
    kind = type(value)
    mark: list[object] = ["object", kind.__module__, kind.__qualname__, getattr(value, "__qualname__", "")]
    call = vars(kind).get("__call__")
    if isinstance(call, types.FunctionType):
        mark.append(_code(call.__code__))
        state = getattr(value, "__dict__", None)
        names = getattr(kind, "__dataclass_fields__", ()) if state is None else state
        mark.append([(name, _mark(getattr(value, name, None), above)) for name in sorted(names)])
    return mark


def _inside(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def _code(code: types.CodeType) -> object:
    inner = [
        _code(constant) if isinstance(constant, types.CodeType) else _mark(constant, ())
        for constant in code.co_consts
    ]
    return [code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, inner]
