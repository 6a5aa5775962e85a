"""Pages as one piece of HTML: no script, no outside asset, readable without colour or style. Pure.

The card holds the page twice: as plain text, which a host that strips styles will show, and as
HTML with inline SVG. Every recorded word is escaped and made literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from afnb.core import page_layout as layout
from afnb.core import page_svg as svg
from afnb.core.legible import cut, literal, one_line, visible
from afnb.core.page_css import STYLE
from afnb.core.page_svg import attribute, escape
from afnb.core.page_text import render_text
from afnb.core.parts import (
    Badge,
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

_LONG = re.compile(r"\S{33}")
_NUMBER = re.compile(r"[-+–]?[\d,.]*( ?(%|ms|s|\$))?|\d+ of \d+")


def render_html(page: Page) -> str:
    """The page as one self-contained piece of HTML with its own scoped style.

    Examples
    --------
    >>> card = render_html(Page("diff", parts=(Text("<script>alert(1)</script>"),)))
    >>> "<script" in card, "&lt;script&gt;" in card
    (False, True)
    """
    return (
        f"<div><style>{STYLE}</style>"
        f'<pre class="afnb-plain tex2jax_ignore mathjax_ignore">{escape(render_text(page))}</pre>'
        f"{render_card(page)}</div>"
    )


def render_card(page: Page) -> str:
    """The card alone, for pages that hold many and one style block (``page_css.STYLE``)."""
    body = _parts(page.parts)
    return (
        '<section class="afnb-card tex2jax_ignore mathjax_ignore" style="display:none" '
        f'aria-label="{attribute(one_line(page.title))}">{_head(page)}{body}{_next(page)}</section>'
    )


def render_parts(parts: tuple[Part, ...]) -> str:
    """Parts alone, for pages that have a frame of their own and the card's style block."""
    return _parts(parts)


def _head(page: Page) -> str:
    title = f'<div class="afnb-title" role="heading" aria-level="3">{escape(one_line(page.title))}</div>'
    return f'<div class="afnb-head">{title}{_badge(page.badge)}</div>'


def _badge(badge: Badge | None) -> str:
    if badge is None:
        return ""
    mark = layout.TONE_MARKS[badge.tone]
    sign = f'<span aria-hidden="true">{mark} </span>' if mark else ""
    return f'<span class="afnb-badge{_tone(badge.tone)}">{sign}{escape(one_line(badge.text))}</span>'


def _tone(tone: Tone) -> str:
    return "" if tone == "plain" else f" afnb-{tone}"


def _next(page: Page) -> str:
    if not page.next:
        return ""
    steps = "".join(f'<code class="afnb-step">{escape(one_line(step, 400))}</code>' for step in page.next)
    return f'<div class="afnb-next"><span class="afnb-quiet">next</span>{steps}</div>'


def _cell(value: str) -> str:
    return escape(one_line(value, layout.MAX_CELL))


def _caption(text: str) -> str:
    return f'<div class="afnb-cap">{escape(one_line(text, 400))}</div>' if text else ""


def _also(caption: str) -> str:
    return f"{escape(one_line(caption, 400))}: " if caption else ""


def _note(shown: int, total: int) -> str:
    return f'<div class="afnb-quiet">{shown:,} of {total:,} rows</div>' if total > shown else ""


def _parts(parts: tuple[Part, ...]) -> str:
    """The parts in order; neighbouring paths stand side by side where there is room."""
    out: list[str] = []
    for alike, group in groupby(parts, key=lambda part: isinstance(part, Path)):
        inner = "".join(_part(part) for part in group)
        out.append(f'<div class="afnb-row">{inner}</div>' if alike else inner)
    return "".join(out)


def _part(part: Part) -> str:
    match part:
        case Text():
            mark = layout.TONE_MARKS[part.tone]
            sign = f"{mark} " if mark else ""
            return (
                f'<p class="afnb-p{_tone(part.tone)}">{sign}{escape(literal(part.text, layout.MAX_TEXT))}</p>'
            )
        case Facts():
            rows = "".join(
                f"<dt>{_cell(label)}</dt><dd>{escape(literal(value, layout.MAX_TEXT))}</dd>"
                for label, value in part.rows
            )
            return f'<dl class="afnb-facts">{rows}</dl>' if rows else ""
        case Table():
            return _table(part)
        case Bars():
            return _bars(part)
        case Timeline():
            return _timeline(part)
        case Path():
            return (
                f'<figure class="afnb-fig"><figcaption><strong>{_cell(part.label)}</strong><br>'
                f'<span class="afnb-quiet">{_also(part.caption)}{escape(layout.path_sentence(part))}</span>'
                f"</figcaption>"
                f"{svg.path(part)}</figure>"
            )
        case Histogram():
            words = escape(layout.histogram_sentence(part))
            return (
                f'<figure class="afnb-fig"><figcaption><strong>{_cell(part.label)}</strong><br>'
                f'<span class="afnb-quiet">{_also(part.caption)}{words}</span>'
                f"</figcaption>{svg.histogram(part)}</figure>"
            )
        case Code():
            text = escape(visible(cut(part.text, layout.MAX_CODE)))
            return f'{_caption(part.caption)}<pre class="afnb-code"><code>{text}</code></pre>'
        case Heading():
            return f'<div class="afnb-h" role="heading" aria-level="4">{escape(one_line(part.text))}</div>'
        case Folded():
            return (
                f'<details class="afnb-fold"><summary>{_cell(part.caption)}</summary>'
                f"<div>{_parts(part.parts)}</div></details>"
            )


def _table(part: Table) -> str:
    if not part.columns:
        return _caption(part.caption)
    if not part.rows:
        names = ", ".join(one_line(name, layout.MAX_CELL) for name in part.columns)
        return f'{_caption(part.caption)}<div class="afnb-quiet">{escape(names)}: no rows</div>'
    rows = part.rows[: layout.MAX_ROWS]
    numeric = [
        all(_NUMBER.fullmatch(row[i].strip()) for row in rows if i < len(row))
        for i in range(len(part.columns))
    ]
    marked = any(layout.TONE_MARKS[tone] for tone in part.tones[: len(rows)])
    kinds = ["afnb-num" if n else "" for n in numeric]
    gutter = '<th scope="col"></th>' if marked else ""
    head = "".join(
        f'<th scope="col"{_class(kind)}>{_cell(name)}</th>'
        for name, kind in zip(part.columns, kinds, strict=True)
    )
    body = "".join(_table_row(part, i, kinds, marked) for i in range(len(rows)))
    return (
        f'{_caption(part.caption)}<div class="afnb-scroll"><table class="afnb-table">'
        f"<thead><tr>{gutter}{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"{_note(len(rows), max(part.total or 0, len(part.rows)))}"
    )


def _table_row(part: Table, i: int, kinds: list[str], marked: bool) -> str:
    tone: Tone = part.tones[i] if i < len(part.tones) else "plain"
    gutter = f"<td>{layout.TONE_MARKS[tone]}</td>" if marked else ""
    cells = "".join(
        f"<td{_class(kind or ('afnb-long' if _LONG.search(cell) else ''))}>{_cell(cell)}</td>"
        for cell, kind in zip(part.rows[i], kinds, strict=True)
    )
    return f"<tr{_class(_tone(tone).strip())}>{gutter}{cells}</tr>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _bars(part: Bars) -> str:
    rows = part.rows[: layout.MAX_BARS]

    def cells() -> Iterator[str]:
        for row in rows:
            count, share = layout.bar_words(row.count, row.total, row.low, row.high)
            yield (
                f"<tr><td>{_cell(row.label)}</td><td>{svg.bar(row)}</td>"
                f"<td>{escape(count)}</td><td>{escape(share)}</td></tr>"
            )

    return (
        f'{_caption(part.caption)}<div class="afnb-fig"><table class="afnb-table afnb-bars">'
        f"<tbody>{''.join(cells())}</tbody></table></div>{_note(len(rows), len(part.rows))}"
    )


def _timeline(part: Timeline) -> str:
    caption = _caption(part.caption)
    if not part.ticks:
        return f'{caption}<p class="afnb-p afnb-quiet">no steps</p>'
    legend = " &nbsp; ".join(
        f"{svg.legend_mark(kind)} {escape(word)} {count:,}"
        for kind, word, count in layout.tally(part.ticks, part.lanes)
    )
    ticks, total = layout.notable(part.ticks)
    notes = "".join(
        f"<li>{svg.legend_mark(layout.kind_of(tick))} {escape(layout.tick_sentence(tick, part.lanes))}</li>"
        for tick in ticks
    )
    if total > len(ticks):
        notes += f'<li class="afnb-quiet">and {total - len(ticks):,} more</li>'
    if any(span.mixed for span in svg.spans(part)):
        legend += f"<br>{escape(svg.MIXED)}"
    listed = f'<ul class="afnb-notes">{notes}</ul>' if notes else ""
    return (
        f'{caption}<figure class="afnb-fig">{svg.timeline(part)}'
        f'<figcaption class="afnb-quiet">{legend}</figcaption></figure>{listed}'
    )
