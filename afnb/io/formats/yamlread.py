"""YAML as plain JSON values: null, booleans, numbers and text as JSON has them, and nothing that runs code.

PyYAML's own tag resolution is that of YAML 1.1, where an unquoted ``12:30:45`` is a number, ``no`` a
boolean and a date no text; files written by other tools lose values that way. What is read here as no
text is a part of what PyYAML quotes when it writes text, so its files keep theirs (``1e5`` is text).
"""

from __future__ import annotations

import functools
import math
import re
from typing import Any, ClassVar

from afnb.errors import InputError, MissingDependency

_MOST_VALUES = 20_000_000


@functools.cache
def _loader() -> Any:
    """The loader class; made on first use, since PyYAML is an extra."""
    try:
        import yaml
    except ImportError:
        raise MissingDependency("pyyaml", "vcr") from None
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    tag = "tag:yaml.org,2002:"
    for name, pattern, first in (
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
        ("int", r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
        ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?", list("-+.0123456789")),
        ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", list("-+.")),
    ):
        Loader.add_implicit_resolver(tag + name, re.compile(rf"(?:{pattern})\Z"), first)
    Loader.add_constructor(tag + "int", lambda loader, node: _int(loader.construct_scalar(node)))
    Loader.add_constructor(
        tag + "python/tuple", lambda loader, node: loader.construct_sequence(node, deep=True)
    )
    for old in ("python/unicode", "python/str"):
        Loader.add_constructor(tag + old, lambda loader, node: loader.construct_scalar(node))
    return Loader


def _int(text: str) -> int | float:
    return int(text) if len(text) < 600 else float(text)


def read_yaml(data: bytes, path: str | None = None) -> Any:
    """One YAML document as null, booleans, numbers, texts, bytes, lists and dicts.

    Raises
    ------
    InputError
        Not UTF-8, not YAML, a type that is none of these, a value that contains itself, or aliases that
        unfold to more than 20 million values.
    MissingDependency
        PyYAML is not installed.
    """
    import importlib

    loader = _loader()
    yaml = importlib.import_module("yaml")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}", path=path, line=line
        ) from None
    try:
        value = yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        raise InputError(_sentence(error), path=path, line=_line(error)) from None
    except RecursionError:
        raise InputError("YAML nested too deeply to read", path=path) from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(f"YAML with a value that cannot be read: {error}", path=path) from None
    _check(value, path)
    return value


def _line(error: Any) -> int | None:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return None if mark is None else int(mark.line) + 1


def _sentence(error: Any) -> str:
    problem = (
        getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).split("\n", 1)[0]
    )
    context = getattr(error, "context", None)
    return f"not YAML that can be read: {context + ': ' if context else ''}{problem}"


def _check(value: Any, path: str | None) -> None:
    """Refuse what is no JSON value (bytes apart), cycles, and aliases that unfold without end."""
    sizes: dict[int, int] = {}
    inside: set[int] = set()
    stack: list[tuple[Any, bool]] = [(value, False)]
    while stack:
        item, done = stack.pop()
        if not isinstance(item, dict | list):
            if item is not None and not isinstance(item, str | bytes | bool | int | float):
                raise InputError(
                    f"found a YAML {type(item).__name__}, expected values as JSON has them", path=path
                )
            continue
        children = list(item.values()) if isinstance(item, dict) else item
        if done:
            inside.discard(id(item))
            size = 1 + sum(sizes.get(id(child), 1) for child in children)
            if size > _MOST_VALUES:
                raise InputError("YAML aliases unfold to more than 20 million values", path=path)
            sizes[id(item)] = size
            continue
        if id(item) in sizes:
            continue
        if id(item) in inside:
            raise InputError("a YAML value that contains itself", path=path)
        inside.add(id(item))
        stack.append((item, True))
        stack.extend((child, False) for child in children)


def as_json(value: Any, place: str, path: str | None) -> Any:
    """The value with text keys, finite numbers and no bytes, or an `InputError` naming the place."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else _key(key, place, path): as_json(one, f"{place}.{key}", path)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [as_json(one, f"{place}[{i}]", path) for i, one in enumerate(value)]
    if isinstance(value, bytes):
        raise InputError(f"{place}: found bytes, expected a JSON value", path=path)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{place}: found {value}, expected a finite number as JSON has them", path=path)
    return value


def _key(key: Any, place: str, path: str | None) -> str:
    if key is None or isinstance(key, bool):
        return "null" if key is None else str(key).lower()
    if isinstance(key, int):
        return str(key)
    raise InputError(f"{place}: found the key {key!r}, expected text", path=path)
