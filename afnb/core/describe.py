"""Events in a few words, for messages that show both sides of a divergence."""

from __future__ import annotations

from typing import Any

from afnb.core import events as ev
from afnb.core.instants import Instant
from afnb.core.jsonvalue import MISSING, dumps, first_difference
from afnb.errors import ParameterError

_CLIP = 80


def shown(value: Any) -> str:
    """A field's value as clipped JSON text."""
    if isinstance(value, ev.BudgetLimit):
        return f"{value.kind} {shown(value.limit)}"
    if isinstance(value, Instant):
        return str(value)
    if value is MISSING:
        return "nothing"
    try:
        text = dumps(value)
    except ParameterError:
        text = f"a {type(value).__name__}, which is no JSON"
    return text if len(text) <= _CLIP else text[: _CLIP - 3] + "..."


def said(name: str, event: ev.Event, fields: tuple[str, ...]) -> str:
    """``name`` and the named fields of the event: ``tool_call tool="search", effect="read"``."""
    parts = ", ".join(f"{f}={shown(getattr(event, f))}" for f in fields)
    return f"{name} {parts}" if parts else name


def differing(recorded: ev.Event, asked: ev.Event, fields: tuple[str, ...]) -> str:
    """The first place where two events of one kind differ in these fields; empty where they do not."""
    for name in fields:
        a, b = getattr(recorded, name), getattr(asked, name)
        if isinstance(a, ev.BudgetLimit) and isinstance(b, ev.BudgetLimit):
            if (a.kind, a.limit) != (b.kind, b.limit):
                return f"{name} differs"
            continue
        found = first_difference(a, b)
        if found is not None:
            path = f"{name}{'' if found.path.startswith('[') or not found.path else '.'}{found.path}"
            return f"the log has {shown(found.a)} at {path}, the request {shown(found.b)}"
    return ""
