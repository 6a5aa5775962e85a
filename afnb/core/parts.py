"""The parts of a page: finished words and numbers, in reading order. Renderers compute nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["plain", "good", "bad", "warn", "quiet"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A short label beside the title, e.g. ``verified: recovered``."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Text:
    """One paragraph."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Facts:
    """Label and value pairs."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A small table of finished strings; ``total`` says how many rows there are if some are left out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    total: int | None = None
    tones: tuple[Tone, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """``count`` of ``total`` with an interval in [0, 1]."""

    label: str
    count: int
    total: int
    low: float | None = None
    high: float | None = None
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Bars:
    """Proportions as bars with intervals (the arms of an experiment)."""

    rows: tuple[Bar, ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """One tick of a two-lane timeline: ``kind`` is sync, near, unlike, log, model, fork or patched.

    ``bad`` and ``good`` are short labels, step number first (``"7 refund"``), or None where that
    run has no step here; ``note`` says in a few words what differs.
    """

    kind: str
    bad: str | None
    good: str | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Two runs on one time line, the upper lane first."""

    ticks: tuple[Lane, ...]
    caption: str = ""
    lanes: tuple[str, str] = ("bad", "good")


@dataclass(frozen=True, slots=True)
class Path:
    """A series against its threshold, both in natural units (an e-value path).

    It is drawn on a logarithmic axis where all its positive values allow it; ``unit`` names what
    one value stands for.
    """

    label: str
    values: tuple[float, ...]
    threshold: float
    caption: str = ""
    unit: str = "block"


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many of something lie between neighbouring edges.

    ``edges`` are finished words, one more than ``counts``; ``marked`` says how many of each count are of
    the kind that ``marks`` names (drawn filled, the rest pale).
    """

    label: str
    edges: tuple[str, ...]
    counts: tuple[int, ...]
    marked: tuple[int, ...] = ()
    marks: str = ""
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """A snippet to copy."""

    text: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """A title inside the page."""

    text: str


@dataclass(frozen=True, slots=True)
class Folded:
    """Parts that a screen may keep closed behind ``caption``; text prints them in full."""

    caption: str
    parts: tuple[Part, ...]


Part = Text | Facts | Table | Bars | Timeline | Path | Histogram | Code | Heading | Folded


@dataclass(frozen=True, slots=True)
class Page:
    """Title, badge, parts in reading order, and what to type next."""

    title: str
    badge: Badge | None = None
    parts: tuple[Part, ...] = ()
    next: tuple[str, ...] = ()
