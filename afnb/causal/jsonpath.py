"""A small, safe subset of JSON path: it selects, it never evaluates.

``$``, ``.name``, ``['name']``, ``[3]``, ``[-1]``, ``[*]``, ``.*`` and ``..name`` (any depth), and after
the path optionally ``== VALUE`` or ``!= VALUE`` with a JSON value. No filters, slices or scripts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from afnb.core.jsonvalue import MISSING, JsonOrMissing, equal, loads
from afnb.errors import InputError, ParameterError

_TOKEN = re.compile(
    r"""\s*(?:
        \.\.(?P<deep>\w[\w-]*) | \.(?P<name>\w[\w-]*) | (?P<any>\.\*|\[\s*\*\s*\])
      | \[\s*(?P<index>-?\d{1,9})\s*\] | \[\s*(?P<quote>['"])(?P<quoted>(?:(?!(?P=quote)).)*)(?P=quote)\s*\]
    )""",
    re.VERBOSE,
)
_COMPARISON = re.compile(r"\s*(==|!=)\s*(.*?)\s*\Z", re.DOTALL)

SelectorKind = Literal["name", "index", "any", "deep"]


@dataclass(frozen=True, slots=True)
class Selector:
    """One step of a path: a key, an index, all members (``any``) or a key at any depth (``deep``)."""

    kind: SelectorKind
    key: str | int | None = None


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path with its comparison, if it has one."""

    text: str
    selectors: tuple[Selector, ...]
    operator: Literal["==", "!="] | None = None
    value: JsonOrMissing = MISSING

    def select(self, document: Any) -> list[Any]:
        """Every value the path points at, in document order.

        Examples
        --------
        >>> parse_path("$.items[*].id").select({"items": [{"id": 1}, {"id": 2}, {}]})
        [1, 2]
        """
        found = [document]
        for selector in self.selectors:
            found = [child for value in found for child in _children(value, selector)]
        return found

    def holds(self, document: Any) -> bool:
        """Whether something is there (without comparison), or some value there compares true.

        Equality is typed: ``1`` is neither ``1.0`` nor ``true``. ``!=`` needs a value that differs.

        Examples
        --------
        >>> parse_path('$.status == "paid"').holds({"status": "paid"})
        True
        >>> parse_path("$.refund").holds({"status": "paid"})
        False
        """
        found = self.select(document)
        if self.operator is None:
            return bool(found)
        return any(equal(value, self.value) == (self.operator == "==") for value in found)


def _children(value: Any, selector: Selector) -> Iterator[Any]:
    key = selector.key
    if selector.kind == "deep":
        yield from _deep(value, key)
    elif isinstance(value, dict):
        if selector.kind == "any":
            yield from value.values()
        elif selector.kind == "name" and key in value:
            yield value[key]
    elif isinstance(value, list):
        if selector.kind == "any":
            yield from value
        elif isinstance(key, int) and -len(value) <= key < len(value):
            yield value[key]


def _deep(value: Any, key: str | int | None) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if key in value:
                yield value[key]
            waiting.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            waiting.extend(reversed(value))


@functools.lru_cache(maxsize=256)
def parse_path(text: str) -> JsonPath:
    """Parse a path.

    Raises
    ------
    ParameterError
        It does not begin with ``$``, a part of it is none of the supported forms, or what follows the
        comparison is no JSON value.
    """
    start = text.strip()
    if not start.startswith("$"):
        raise ParameterError(f"the JSON path {text!r} does not begin with '$'")
    selectors: list[Selector] = []
    position = 1
    while position < len(start):
        match = _TOKEN.match(start, position)
        if match is None:
            break
        selectors.append(_selector(match))
        position = match.end()
    rest = start[position:]
    if not rest.strip():
        return JsonPath(text, tuple(selectors))
    comparison = _COMPARISON.match(rest)
    if comparison is None:
        raise ParameterError(
            f"the JSON path {text!r} is not understood from {rest.strip()!r} on; supported are .name, "
            "['name'], [3], [*], ..name, then == or != and a JSON value"
        )
    operator, literal = comparison.groups()
    try:
        value = loads(literal)
    except InputError:
        raise ParameterError(
            f"the JSON path {text!r} compares with {literal!r}, which is no JSON value "
            "(text needs double quotes)"
        ) from None
    return JsonPath(text, tuple(selectors), "==" if operator == "==" else "!=", value)


def _selector(match: re.Match[str]) -> Selector:
    if match["deep"] is not None:
        return Selector("deep", match["deep"])
    if match["any"] is not None:
        return Selector("any")
    if match["index"] is not None:
        return Selector("index", int(match["index"]))
    return Selector("name", match["name"] if match["name"] is not None else match["quoted"])
