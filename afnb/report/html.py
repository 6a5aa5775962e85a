"""A report as one HTML file that needs nothing else: no asset, no request, readable without scripts."""

from __future__ import annotations

import base64
import hashlib

from afnb.core.legible import one_line
from afnb.core.page import Badge, Part, Text, Timeline
from afnb.core.page_css import STYLE as CARD_STYLE
from afnb.core.page_html import render_parts
from afnb.core.page_layout import MAX_CELL, TONE_MARKS, notable, tally, tick_sentence
from afnb.core.page_svg import attribute, escape
from afnb.report.model import SHORT, Entry, Report, Section, Tile
from afnb.report.style import SCRIPT, STYLE

PICTURES = 500
"""Up to so many pairs have their time lines drawn; those of more are told in words."""


def policy() -> str:
    """The page's content security policy: its own script by its hash, its own style, nothing else."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def render_html(report: Report) -> str:
    """The report as one HTML document.

    Parameters
    ----------
    report
        As ``report_of`` gives it.
    """
    title = escape(one_line(report.title))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        f"<title>{title}</title><style>{CARD_STYLE}\n{STYLE}</style></head><body>\n"
        f'<header><h1>{title}</h1>{_badge(report.badge)}</header>\n<main class="tex2jax_ignore">'
        f"{_tiles(report.tiles)}{_card(render_parts(report.lead), 'lead')}"
        f"{_sections(report.sections)}{_table(report)}{_cards(report.entries)}"
        f"</main>\n<script>{SCRIPT}</script>\n</body></html>\n"
    )


def _badge(badge: Badge) -> str:
    return f'<span class="badge {badge.tone}">{escape(one_line(badge.text))}</span>'


def _card(body: str, kind: str = "") -> str:
    return f'<div class="afnb-card {kind}">{body}</div>\n'


def _tiles(tiles: tuple[Tile, ...]) -> str:
    cells = "".join(
        f'<div class="tile {tile.tone}"><dd>{escape(tile.number)}</dd><dt>{escape(tile.words)}</dt></div>'
        for tile in tiles
    )
    return f'<dl class="tiles">{cells}</dl>\n'


def _sections(sections: tuple[Section, ...]) -> str:
    found = "".join(
        f"<section><h2>{escape(section.title)}</h2>{_card(render_parts(section.parts))}</section>"
        for section in sections
    )
    return f'<div class="sections">{found}</div>\n' if found else ""


def _table(report: Report) -> str:
    if not report.entries:
        return ""
    head = "".join(
        f'<th scope="col"{" class=n" if column.number else ""}>{escape(column.name)}</th>'
        for column in report.columns
    )
    rows = "".join(_row(i, entry, report) for i, entry in enumerate(report.entries))
    states = dict.fromkeys(entry.state for entry in report.entries)
    options = "".join(f'<option value="{state}">{escape(SHORT[state])}</option>' for state in states)
    tools = (
        '<div class="tools" hidden><label>find <input type="search" id="find" autocomplete="off"></label>'
        f'<label>verdict <select id="state"><option value="">all</option>{options}</select></label>'
        '<output id="count"></output><span><button type="button" id="open">open all cards</button> '
        '<button type="button" id="close">close them</button></span></div>'
    )
    return (
        f'<section><h2 id="all">Pairs</h2>{tools}<div class="wide"><table id="pairs"><thead><tr>{head}</tr>'
        f"</thead><tbody>{rows}</tbody></table></div></section>\n"
    )


def _row(number: int, entry: Entry, report: Report) -> str:
    cells = []
    for i, (column, text, key) in enumerate(zip(report.columns, entry.cells, entry.keys, strict=True)):
        shown = escape(one_line(text, MAX_CELL))
        if i == 0:
            shown = f'<a href="#p{number}">{shown}</a>'
        elif i == 1:
            mark = TONE_MARKS[entry.tone]
            shown = f'<span class="{entry.tone}">{f"{mark} " if mark else ""}{shown}</span>'
        value = f' data-v="{key:.6g}"' if key is not None else ""
        cells.append(f"<td{' class=n' if column.number else ''}{value}>{shown}</td>")
    return f'<tr data-s="{attribute(entry.state)}">{"".join(cells)}</tr>\n'


def in_words(part: Part) -> tuple[Part, ...]:
    """A time line as its words, for reports of so many pairs that the pictures would slow the page down."""
    if not isinstance(part, Timeline):
        return (part,)
    counts = ", ".join(f"{count:,} {word}" for _, word, count in tally(part.ticks, part.lanes))
    ticks, total = notable(part.ticks)
    lines = [tick_sentence(tick, part.lanes) for tick in ticks]
    lines += [f"and {total - len(ticks):,} more"] if total > len(ticks) else []
    return Text(f"{part.caption}: {counts}" if part.caption else counts, "quiet"), Text("\n".join(lines))


def _cards(entries: tuple[Entry, ...]) -> str:
    if not entries:
        return ""

    def body(entry: Entry) -> str:
        parts = entry.page.parts
        if len(entries) > PICTURES:
            parts = tuple(word for part in parts for word in in_words(part))
        return render_parts(parts)

    cards = "".join(
        f'<details class="pair" id="p{i}"><summary><b>{escape(one_line(entry.page.title))}</b> '
        f"{_badge(entry.page.badge) if entry.page.badge else ''} "
        f'<span class="quiet">{escape(one_line(entry.cells[3], MAX_CELL))}</span></summary>'
        f"{_card(body(entry))}</details>\n"
        for i, entry in enumerate(entries)
    )
    return f'<section><h2>Cards</h2><div id="cards">{cards}</div></section>\n'
