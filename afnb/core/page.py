"""``Page``: what a result says, as parts. Text, HTML and JSON faces render the same parts.

A result has one method, ``page()``; ``Shown`` gives it ``repr``, ``_repr_html_`` and ``to_text``.
Parts hold finished words and numbers: renderers compute nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from afnb.core.page_html import render_html
from afnb.core.page_text import render_short, render_text
from afnb.core.parts import (
    Badge,
    Bar,
    Bars,
    Code,
    Facts,
    Folded,
    Heading,
    Histogram,
    Lane,
    Page,
    Part,
    Path,
    Table,
    Text,
    Timeline,
    Tone,
)

__all__ = [
    "Badge",
    "Bar",
    "Bars",
    "Code",
    "Facts",
    "Folded",
    "Heading",
    "Histogram",
    "Lane",
    "Page",
    "Part",
    "Path",
    "Shown",
    "Table",
    "Text",
    "Timeline",
    "Tone",
]


CARDS: dict[type, Callable[[Any], Page]] = {}
"""Cards of values that know less than their card shows (``core.cards`` fills it in)."""


class Shown:
    """Mixin: a result that shows itself. Subclasses give ``page()``."""

    __slots__ = ()

    def page(self) -> Page:
        """The result as parts: the subclass's own, or the card registered for its class in ``CARDS``."""
        for kind in type(self).__mro__:
            if kind in CARDS:
                return CARDS[kind](self)
        return Page(type(self).__name__)

    def to_text(self, width: int = 100) -> str:
        """The whole page as plain text."""
        return render_text(self.page(), width)

    def __repr__(self) -> str:
        return render_short(self.page())

    def _repr_html_(self) -> str:
        return render_html(self.page())
