"""Pages as plain text: for terminals, logs and ``repr``. Pure.

``page_lines`` gives styled pieces, so that a terminal may colour what ``render_text`` prints plain.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from afnb.core import page_layout as layout
from afnb.core.legible import columns, cut, fit, literal, one_line, pad, visible
from afnb.core.parts import (
    Bars,
    Code,
    Facts,
    Folded,
    Heading,
    Histogram,
    Page,
    Part,
    Path,
    Table,
    Text,
    Timeline,
    Tone,
)

Style = Tone | Literal["title", "code", "label"]


class Piece(NamedTuple):
    """A stretch of one line and how it may be coloured."""

    text: str
    style: Style = "plain"


Line = list[Piece]

MARKS = {"sync": "·", "near": "~", "unlike": "≠", "log": "+", "model": "-", "fork": "◆", "patched": "▲"}
_NUMBER = re.compile(r"[-+]?[\d,.]+( ?(%|ms|s|\$))?|\d+ of \d+|[–-]?")
_PLAIN: tuple[Tone] = ("plain",)
_STEPS = " ▁▂▃▄▅▆▇█"


def render_text(page: Page, width: int = 100) -> str:
    """The whole page as plain text, about ``width`` columns wide.

    Examples
    --------
    >>> from afnb.core.parts import Badge, Facts
    >>> print(render_text(Page("diff", Badge("forked", "bad"), (Facts((("fork", "step 7"),)),))))
    diff [✗ forked]
    fork  step 7
    """
    return "\n".join("".join(p.text for p in line).rstrip() for line in page_lines(page, width))


def render_short(page: Page) -> str:
    """One to six lines: the title, the first words and facts, and what to type next."""
    lines = ["".join(p.text for p in _title(page))]
    for part in page.parts:
        if isinstance(part, Text):
            lines.append(fit(one_line(part.text, 400), 100))
        elif isinstance(part, Facts):
            lines.append(fit(", ".join(f"{_cell(k)}: {_cell(v)}" for k, v in part.rows[:6]), 100))
        elif isinstance(part, Timeline):
            tally = layout.tally(part.ticks, part.lanes)
            lines.append(fit(", ".join(f"{n:,} {word}" for _, word, n in tally) or "no steps", 100))
        elif isinstance(part, Bars):
            bars = (f"{_cell(b.label)} {b.count} of {b.total}" for b in part.rows[:6])
            lines.append(fit(", ".join(bars), 100))
    last = [f"next: {one_line(page.next[0], 110)}"] if page.next else []
    return "\n".join([line for line in lines if line.strip()][: 6 - len(last)] + last)


def page_lines(page: Page, width: int = 100) -> list[Line]:
    """The page as lines of styled pieces."""
    width = max(width, 20)
    lines: list[Line] = [_title(page)]
    previous: Part | None = None
    for part in page.parts:
        block = list(_part(part, width))
        if not block:
            continue
        tight = previous is None or (isinstance(previous, Text) and isinstance(part, Text | Facts))
        if not tight:
            lines.append([])
        lines.extend(block)
        previous = part
    if page.next:
        if page.parts:
            lines.append([])
        lines.extend(
            [Piece("next  " if i == 0 else "      ", "quiet"), Piece(one_line(step, 400), "code")]
            for i, step in enumerate(page.next)
        )
    return lines


def _title(page: Page) -> Line:
    line = [Piece(one_line(page.title), "title")]
    if page.badge is not None:
        mark = layout.TONE_MARKS[page.badge.tone]
        text = f"{mark} {one_line(page.badge.text)}" if mark else one_line(page.badge.text)
        line += [Piece(" "), Piece(f"[{text}]", page.badge.tone)]
    return line


def _cell(value: str) -> str:
    return one_line(value, layout.MAX_CELL)


def _wrap(text: str, width: int, style: Style, indent: str = "") -> Iterator[Line]:
    for paragraph in text.split("\n"):
        wrapped = textwrap.wrap(
            paragraph, width, subsequent_indent=indent, break_on_hyphens=False, replace_whitespace=False
        )
        for line in wrapped or [""]:
            yield [Piece(line, style)]


def _part(part: Part, width: int) -> Iterator[Line]:
    match part:
        case Text():
            mark = layout.TONE_MARKS[part.tone]
            text = literal(part.text, layout.MAX_TEXT)
            yield from _wrap(f"{mark} {text}" if mark else text, width, part.tone)
        case Facts():
            yield from _facts(part, width)
        case Table():
            yield from _table(part, width)
        case Bars():
            yield from _bars(part, width)
        case Timeline():
            yield from _timeline(part, width)
        case Path():
            yield from _path(part, width)
        case Histogram():
            yield from _histogram(part, width)
        case Code():
            yield from _caption(part.caption)
            for line in visible(cut(part.text, layout.MAX_CODE)).split("\n"):
                yield [Piece(f"    {line}", "code")]
        case Heading():
            yield [Piece(one_line(part.text), "title")]
        case Folded():
            yield [Piece(_cell(part.caption), "title")]
            for inner in part.parts:
                for pieces in _part(inner, width - 2):
                    yield [Piece("  "), *pieces]


def _caption(text: str) -> Iterator[Line]:
    if text:
        yield [Piece(one_line(text, 400), "label")]


def _facts(part: Facts, width: int) -> Iterator[Line]:
    labels = [_cell(label) for label, _ in part.rows]
    wide = min(max((columns(label) for label in labels), default=0), width // 3)
    for label, (_, value) in zip(labels, part.rows, strict=True):
        text = literal(value, layout.MAX_TEXT)
        room = max(width - wide - 2, 10)
        lines = [piece for line in _wrap(text, room, "plain") for piece in line] or [Piece("")]
        yield [Piece(pad(fit(label, wide), wide) + "  ", "quiet"), lines[0]]
        for piece in lines[1:]:
            yield [Piece(" " * (wide + 2)), piece]


def _table(part: Table, width: int) -> Iterator[Line]:
    yield from _caption(part.caption)
    rows = [[_cell(cell) for cell in row] for row in part.rows[: layout.MAX_ROWS]]
    total = max(part.total or 0, len(part.rows))
    head = [_cell(name) for name in part.columns]
    if not head:
        return
    if rows:
        marks = [layout.TONE_MARKS[t] for t in part.tones[: len(rows)]]
        marks += [""] * (len(rows) - len(marks))
        widths = _widths(head, rows, width - (2 if any(marks) else 0))
        right = [all(_NUMBER.fullmatch(row[i].strip()) for row in rows) for i in range(len(head))]
        gutter = "  " if any(marks) else ""
        yield [Piece(gutter + _row(head, widths, right), "quiet")]
        tones: list[Tone] = [*part.tones, *(_PLAIN * len(rows))]
        for row, mark, tone in zip(rows, marks, tones, strict=False):
            yield [Piece(pad(mark, 2) if gutter else ""), Piece(_row(row, widths, right), tone)]
    if not rows:
        yield [Piece(", ".join(head) + ": no rows", "quiet")]
    elif total > len(rows):
        yield [Piece(f"{len(rows):,} of {total:,} rows", "quiet")]


def _widths(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Column widths: natural where they fit, else the widest columns give way first."""
    natural = [max(columns(name), *(columns(row[i]) for row in rows)) for i, name in enumerate(head)]
    room = width - 2 * (len(head) - 1)
    if sum(natural) <= room:
        return natural
    low, high = 3, max(natural)
    while low < high:
        limit = (low + high + 1) // 2
        if sum(min(n, limit) for n in natural) <= room:
            low = limit
        else:
            high = limit - 1
    return [min(n, low) for n in natural]


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    out = []
    for cell, wide, to_right in zip(cells, widths, right, strict=True):
        shown = fit(cell, wide)
        out.append(" " * max(0, wide - columns(shown)) + shown if to_right else pad(shown, wide))
    return "  ".join(out)


def _bars(part: Bars, width: int) -> Iterator[Line]:
    yield from _caption(part.caption)
    rows = part.rows[: layout.MAX_BARS]
    labels = [_cell(bar.label) for bar in rows]
    wide = min(max((columns(label) for label in labels), default=0), width // 3)
    words = [layout.bar_words(bar.count, bar.total, bar.low, bar.high) for bar in rows]
    counts = max((len(count) for count, _ in words), default=0)
    room = max(10, min(30, width - wide - counts - 28))
    for bar, label, (count, share) in zip(rows, labels, words, strict=True):
        filled = round(room * bar.count / bar.total) if bar.total > 0 else 0
        filled = min(max(filled, 0), room)
        yield [
            Piece(pad(fit(label, wide), wide) + "  ", "label"),
            Piece("█" * filled, bar.tone),
            Piece("░" * (room - filled), "quiet"),
            Piece(f"  {count.rjust(counts)}  {share}"),
        ]
    if len(part.rows) > len(rows):
        yield [Piece(f"{len(rows):,} of {len(part.rows):,} rows", "quiet")]


def _histogram(part: Histogram, width: int) -> Iterator[Line]:
    yield [Piece(_cell(part.label), "label")]
    rows = layout.histogram_rows(part)
    wide = min(max((columns(label) for label, _, _ in rows), default=0), width // 3)
    most = max((count for _, count, _ in rows), default=0)
    room = max(10, min(30, width - wide - 20))
    for label, count, marked in rows:
        long = layout.scaled(count, most, room)
        filled = layout.scaled(marked, most, room)
        words = f"  {count}" + (f" ({marked})" if part.marked else "")
        bar = [Piece("█" * filled, "good"), Piece("▒" * max(0, long - filled), "quiet")]
        yield [Piece(pad(fit(label, wide), wide) + "  ", "label"), *bar, Piece(words)]
    caption = f"{one_line(part.caption, 400)}: " if part.caption else ""
    yield from _wrap(f"{caption}{layout.histogram_sentence(part)}", width, "quiet")


def _timeline(part: Timeline, width: int) -> Iterator[Line]:
    yield from _caption(part.caption)
    if not part.ticks:
        yield [Piece("no steps", "quiet")]
        return
    wide = max(columns(_cell(lane)) for lane in part.lanes)
    spans = _spans(part, max(width - wide - 2, 10))
    for side, lane in enumerate(part.lanes):
        line = [Piece(pad(_cell(lane), wide) + "  ", "label")]
        line += [_mark(part, span, side) for span in spans]
        yield line
    if any(span.mixed for span in spans):
        size = max(span.count for span in spans)
        yield [
            Piece(f"one sign for {size} moves; ░▒▓█ the share that this run has alone or otherwise", "quiet")
        ]
    tally = layout.tally(part.ticks, part.lanes)
    yield [Piece("   ".join(f"{MARKS[kind]} {word} {n:,}" for kind, word, n in tally), "quiet")]
    ticks, total = layout.notable(part.ticks)
    for tick in ticks:
        sentence = f"{MARKS[layout.kind_of(tick)]} {layout.tick_sentence(tick, part.lanes)}"
        yield from _wrap(sentence, width, "plain", "  ")
    if total > len(ticks):
        yield [Piece(f"and {total - len(ticks):,} more", "quiet")]


def _spans(part: Timeline, room: int) -> list[layout.Span]:
    spans = layout.fold(part.ticks, room)
    if not any(s.mixed for s in spans) and sum(len(_sign(s)) for s in spans) > room:
        spans = layout.fold(part.ticks, max(1, min(len(spans) - 1, room)))
    return spans


def _sign(span: layout.Span) -> str:
    if span.kind == "sync" and span.count > 3:
        return f"·{span.count}·"
    return MARKS[span.kind] * span.count


def _mark(part: Timeline, span: layout.Span, side: int) -> Piece:
    own: Style = "good" if side else "bad"
    if span.mixed:
        share = span.shares[side]
        return Piece("░▒▓█"[min(3, int(share * 4))], own) if share > 0 else Piece("·", "quiet")
    sign = _sign(span)
    tick = part.ticks[span.first]
    if span.kind in ("sync", "near"):
        return Piece(sign, "quiet")
    return Piece(sign if (tick.bad, tick.good)[side] is not None else " " * len(sign), own)


def _path(part: Path, width: int) -> Iterator[Line]:
    heights, threshold, _ = layout.path_heights(part)
    label = _cell(part.label)
    room = max(10, min(60, width - columns(label) - 2))
    points = layout.thin(len(heights), room)
    line = [Piece(f"{label}  ", "label")]
    for i in points:
        step = min(8, max(1, round(heights[i] * 8)))
        line.append(Piece(_STEPS[step], "good" if heights[i] >= threshold else "quiet"))
    yield line
    caption = f"{one_line(part.caption, 400)}: " if part.caption else ""
    yield from _wrap(f"{caption}{layout.path_sentence(part)}", width, "plain")
