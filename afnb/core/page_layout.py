"""What the text and the HTML face share: limits, marks, and how a long time line is folded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from afnb.core.legible import one_line
from afnb.core.parts import Histogram, Lane, Path, Tone

MAX_ROWS = 100
MAX_CELL = 240
MAX_TEXT = 2000
MAX_CODE = 6000
MAX_NOTES = 6
MAX_BARS = 60

SEVERITY = {"sync": 0, "near": 1, "unlike": 2, "log": 3, "model": 4, "patched": 5, "fork": 6}

WORDS = {
    "sync": "alike",
    "near": "nearly alike",
    "unlike": "unlike",
    "log": "only in {0}",
    "model": "only in {1}",
    "fork": "fork",
    "patched": "changed",
}

TONE_MARKS: dict[Tone, str] = {"plain": "", "good": "✓", "bad": "✗", "warn": "!", "quiet": ""}


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring ticks drawn as one: ``first`` to ``last`` inclusive.

    ``kind`` is their common kind; a ``mixed`` span is a slice of a run too long to draw tick by tick,
    and ``shares`` says which part of it each lane has alone or otherwise.
    """

    kind: str
    first: int
    last: int
    mixed: bool = False
    shares: tuple[float, float] = (0.0, 0.0)

    @property
    def count(self) -> int:
        """How many ticks it stands for."""
        return self.last - self.first + 1


def kind_of(tick: Lane) -> str:
    """The tick's kind; an unknown one is drawn as ``near``."""
    return tick.kind if tick.kind in SEVERITY else "near"


def fold(ticks: Sequence[Lane], room: int) -> list[Span]:
    """Ticks as about ``room`` spans at most: sameness is folded first, difference last.

    Short time lines stay as they are. Else runs of four or more alike ticks become one span; and
    where that is still too much, equal slices, with forks and patches kept by themselves.

    Examples
    --------
    >>> [(s.kind, s.count) for s in fold([Lane("sync", "0 a", "0 a")] * 9 + [Lane("fork", "9 b", "9 c")], 5)]
    [('sync', 9), ('fork', 1)]
    """
    singles = [Span(kind_of(tick), i, i) for i, tick in enumerate(ticks)]
    if len(singles) <= room:
        return singles
    spans = _merge(singles, {"sync"}, 4)
    if len(spans) <= room:
        return spans
    size = math.ceil(len(singles) / room)
    out: list[Span] = []
    start = 0
    for i, single in enumerate(singles):
        standing = single.kind in ("fork", "patched") and len(out) < 2 * room
        if standing or i - start == size:
            out.extend(_slice(singles, start, i))
            start = i
        if standing:
            out.append(single)
            start = i + 1
    out.extend(_slice(singles, start, len(singles)))
    return out


def _slice(singles: Sequence[Span], start: int, stop: int) -> list[Span]:
    if start >= stop:
        return []
    kinds = [span.kind for span in singles[start:stop]]
    both = sum(kind in ("unlike", "fork", "patched") for kind in kinds)
    shares = ((kinds.count("log") + both) / len(kinds), (kinds.count("model") + both) / len(kinds))
    return [Span(max(kinds, key=SEVERITY.__getitem__), start, stop - 1, mixed=True, shares=shares)]


def _merge(spans: Sequence[Span], kinds: set[str], least: int) -> list[Span]:
    out: list[Span] = []
    i = 0
    while i < len(spans):
        j = i
        while j + 1 < len(spans) and spans[j + 1].kind == spans[i].kind:
            j += 1
        if spans[i].kind in kinds and j - i + 1 >= least:
            out.append(Span(spans[i].kind, spans[i].first, spans[j].last))
        else:
            out.extend(spans[i : j + 1])
        i = j + 1
    return out


def tick_sentence(tick: Lane, lanes: tuple[str, str]) -> str:
    """One tick in words, e.g. ``fork: bad 7 refund, good 7 lookup; arguments differ``."""
    kind = kind_of(tick)
    lanes = _names(lanes)
    sides = [
        f"{lane} {one_line(label, 60)}"
        for lane, label in zip(lanes, (tick.bad, tick.good), strict=True)
        if label
    ]
    if kind == "sync" and len(sides) == 2 and tick.bad == tick.good:
        sides = [one_line(tick.bad, 60)]
    head = WORDS[kind].format(*lanes)
    if kind in ("log", "model"):
        sides = [one_line(tick.bad or tick.good or "", 60)]
    note = f"; {one_line(tick.note, 120)}" if tick.note else ""
    return f"{head}: {', '.join(side for side in sides if side) or 'no step'}{note}"


def notable(ticks: Sequence[Lane]) -> tuple[list[Lane], int]:
    """At most ``MAX_NOTES`` ticks worth a line of their own, and how many there are in all."""
    found = [tick for tick in ticks if kind_of(tick) not in ("sync", "near")]
    order = sorted(range(len(found)), key=lambda i: (kind_of(found[i]) not in ("fork", "patched"), i))
    chosen = sorted(order[:MAX_NOTES])
    return [found[i] for i in chosen], len(found)


def tally(ticks: Sequence[Lane], lanes: tuple[str, str]) -> list[tuple[str, str, int]]:
    """Kind, its word and its count, for the kinds that occur, gravest last."""
    counts: dict[str, int] = {}
    for tick in ticks:
        counts[kind_of(tick)] = counts.get(kind_of(tick), 0) + 1
    names = _names(lanes)
    return [(kind, WORDS[kind].format(*names), counts[kind]) for kind in SEVERITY if kind in counts]


def _names(lanes: tuple[str, str]) -> tuple[str, str]:
    return one_line(lanes[0], 60), one_line(lanes[1], 60)


def number(value: float) -> str:
    """A number for reading: three significant digits, no exponent below a million.

    Examples
    --------
    >>> number(20), number(3.61234), number(0.0425), number(2.5e9)
    ('20', '3.61', '0.0425', '2.5e+09')
    """
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3g}" if abs(value) < 1000 or abs(value) >= 1e6 else f"{value:,.0f}"


def path_sentence(path: Path) -> str:
    """Where the path ended and whether it reached its threshold."""
    unit = one_line(path.unit, 40)
    if not path.values:
        return f"no {unit} yet; threshold {number(path.threshold)}"
    crossed = next((i for i, value in enumerate(path.values, 1) if value >= path.threshold), None)
    plural = "" if len(path.values) == 1 else "s"
    end = f"{number(path.values[-1])} after {len(path.values)} {unit}{plural}"
    if crossed is None:
        return f"{end}; threshold {number(path.threshold)} not reached"
    return f"{end}; threshold {number(path.threshold)} reached at {unit} {crossed}"


def path_heights(path: Path) -> tuple[list[float], float, bool]:
    """Heights of the values and of the threshold in [0, 1], and whether the axis is logarithmic.

    Zero, negative and non-finite values sit on the axis' floor (or ceiling for +infinity).
    """
    finite = [v for v in (*path.values, path.threshold) if math.isfinite(v)]
    logarithmic = path.threshold > 0 and any(v > 0 for v in finite)
    if logarithmic:
        positive = [v for v in finite if v > 0]
        low = math.log(max(min([*positive, 1.0]), path.threshold * 1e-6))
        high = math.log(max([*positive, path.threshold * 1.3, 1.0]))
    else:
        low, high = min([*finite, 0.0]), max([*finite, 1.0])
    reach = (high - low) or 1.0

    def height(value: float) -> float:
        if math.isnan(value) or value == -math.inf:
            return 0.0
        if value == math.inf:
            return 1.0
        if logarithmic:
            return min(1.0, max(0.0, (math.log(value) - low) / reach)) if value > 0 else 0.0
        return min(1.0, max(0.0, (value - low) / reach))

    return [height(v) for v in path.values], height(path.threshold), logarithmic


def thin(count: int, room: int) -> list[int]:
    """Indices of at most ``room`` of ``count`` points, first and last kept."""
    if count <= room:
        return list(range(count))
    return sorted({round(i * (count - 1) / (room - 1)) for i in range(room)})


def percent(share: float) -> str:
    """A share as whole percent."""
    return f"{share * 100:.0f} %"


def bar_words(count: int, total: int, low: float | None, high: float | None) -> tuple[str, str]:
    """``9 of 10`` and ``90 % [60 %, 98 %]`` (interval left out where there is none)."""
    if total <= 0:
        return f"{count} of {total}", "nothing counted"
    share = percent(count / total)
    if low is None or high is None:
        return f"{count} of {total}", share
    return f"{count} of {total}", f"{share} [{percent(low)}, {percent(high)}]"


def histogram_rows(part: Histogram) -> list[tuple[str, int, int]]:
    """Label, count and marked count of each bin.

    Examples
    --------
    >>> histogram_rows(Histogram("h", ("0", "5", "10"), (3, 1), (2, 0)))
    [('0 to 5', 3, 2), ('5 to 10', 1, 0)]
    """
    marked = (*part.marked, *([0] * len(part.counts)))
    edges = [one_line(edge, 40) for edge in part.edges]
    return [
        (f"{low} to {high}", count, few)
        for low, high, count, few in zip(edges, edges[1:], part.counts, marked, strict=False)
    ]


def histogram_sentence(part: Histogram) -> str:
    """How many there are in all, and of the marked kind."""
    total = f"{sum(part.counts):,} in all"
    return f"{total}, {sum(part.marked):,} {one_line(part.marks, 100)}" if part.marked else total


def scaled(count: int, most: int, room: int) -> int:
    """``count`` as a length out of ``room`` for the largest; what is there is never drawn as nothing."""
    if count <= 0 or most <= 0:
        return 0
    return max(1, round(room * count / most))
