"""The task that every agent of the matrix has, and its two tools: pure, and quick."""

from __future__ import annotations

from typing import Any

SYSTEM = "You help with packing. Look the weather up before you answer."
TASK = "I fly to Oslo and to Rome. What do I pack?"
CELSIUS = {"Oslo": 4, "Rome": 21, "Lima": 18}


def weather(city: str) -> str:
    """Weather of a city.

    Args:
        city: Name of the city.
    """
    return f"{city}: {CELSIUS[city]} C"


def pack(celsius: int) -> str:
    """What to pack for a temperature.

    Args:
        celsius: The temperature.
    """
    return "a coat" if celsius < 10 else "a shirt"


TOOLS: dict[str, Any] = {"weather": weather, "pack": pack}


def _schema(name: str, kind: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}


SCHEMAS = {"weather": _schema("city", "string"), "pack": _schema("celsius", "integer")}
