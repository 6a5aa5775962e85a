"""``Column``: how a table's column is declared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``type`` is a name of ``schemas.schema`` (``text``, ``json``, ``int``, ``u64``, ...)."""

    name: str
    type: str
    meaning: str
    unit: str = ""
    nullable: bool = True
    volatile: bool = False


def column(name: str, type: str, meaning: str, unit: str = "", *, volatile: bool = False) -> Column:
    """A column whose type is written short: ``int!`` must have a value, ``int`` may lack it."""
    return Column(name, type.removesuffix("!"), meaning, unit, not type.endswith("!"), volatile)
