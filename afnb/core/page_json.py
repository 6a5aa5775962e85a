"""Pages as JSON and back: the machine face, and how finished cards are kept without what they show. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from afnb.core import parts as kinds
from afnb.core.parts import Badge, Bar, Lane, Page, Part
from afnb.errors import InputError

_PARTS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (
        kinds.Text,
        kinds.Facts,
        kinds.Table,
        kinds.Bars,
        kinds.Timeline,
        kinds.Path,
        kinds.Histogram,
        kinds.Code,
        kinds.Heading,
        kinds.Folded,
    )
}
_BOUNDS = ("low", "high")
_INSIDE: dict[tuple[str, str], type[Any]] = {("bars", "rows"): Bar, ("timeline", "ticks"): Lane}


def page_to_json(page: Page) -> dict[str, Any]:
    """The page as plain JSON values; each part says its ``part``.

    Numbers that JSON lacks are texts: ``"inf"``, ``"-inf"``, ``"nan"``.

    Examples
    --------
    >>> from afnb.core.parts import Text
    >>> page_to_json(Page("diff", None, (Text("they part"),)))["parts"]
    [{'part': 'text', 'text': 'they part', 'tone': 'plain'}]
    """
    badge = None if page.badge is None else {"text": page.badge.text, "tone": page.badge.tone}
    return {
        "title": page.title,
        "badge": badge,
        "parts": [part_to_json(part) for part in page.parts],
        "next": list(page.next),
    }


def part_to_json(part: Part) -> dict[str, Any]:
    """One part as plain JSON values."""
    return {"part": type(part).__name__.lower(), **_fields(part)}


def _fields(value: Any) -> dict[str, Any]:
    return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Bar | Lane):
        return _fields(value)
    if type(value).__name__.lower() in _PARTS and type(value) is _PARTS[type(value).__name__.lower()]:
        return part_to_json(value)
    return value


def page_from_json(value: Any) -> Page:
    """The page that ``page_to_json`` wrote.

    Raises
    ------
    InputError
        It is something else.

    Examples
    --------
    >>> from afnb.core.parts import Facts
    >>> page = Page("diff", Badge("forked", "bad"), (Facts((("fork", "step 7"),)),), ("d.moves",))
    >>> page_from_json(page_to_json(page)) == page
    True
    """
    try:
        badge = None if value["badge"] is None else Badge(value["badge"]["text"], value["badge"]["tone"])
        return Page(str(value["title"]), badge, tuple(map(_part, value["parts"])), tuple(value["next"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"this is no page: {type(error).__name__} {error}") from None


def _part(value: Mapping[str, Any]) -> Any:
    name = value["part"]
    inside = {key: _read(name, key, item) for key, item in value.items() if key != "part"}
    return _PARTS[name](**inside)


def _number(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf", "nan") else value


def _read(name: str, key: str, value: Any) -> Any:
    if name == "path" and key == "threshold":
        return _number(value)
    if not isinstance(value, list):
        return value
    if (name, key) == ("path", "values"):
        return tuple(map(_number, value))
    if (name, key) == ("folded", "parts"):
        return tuple(map(_part, value))
    kind = _INSIDE.get((name, key))
    if kind is not None:
        return tuple(
            kind(**{k: _number(v) if k in _BOUNDS else v for k, v in item.items()}) for item in value
        )
    return tuple(tuple(item) if isinstance(item, list) else item for item in value)
