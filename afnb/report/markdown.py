"""A report as Markdown: the same words, for a pull request, a ticket or a wiki."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from afnb.core import page_layout as layout
from afnb.core.legible import cut, literal, one_line, visible
from afnb.core.page import (
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
)
from afnb.report.model import Report

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#])")


def render_markdown(report: Report) -> str:
    """The report as one Markdown document.

    Parameters
    ----------
    report
        As ``report_of`` gives it.
    """
    lines = [f"# {escape(report.title)}", "", f"**{escape(report.badge.text)}**", ""]
    lines += table(("", ""), [(tile.number, tile.words) for tile in report.tiles])
    lines += [line for part in report.lead for line in part_lines(part)]
    for section in report.sections:
        if section.title:
            lines += [f"## {escape(section.title)}", ""]
        lines += [line for part in section.parts for line in part_lines(part)]
    if report.entries:
        lines += ["## Pairs", ""]
        lines += table([column.name for column in report.columns], [entry.cells for entry in report.entries])
        lines += ["## Cards", ""]
        for entry in report.entries:
            lines += page_lines(entry.page)
    return "\n".join(lines).rstrip() + "\n"


def page_lines(page: Page) -> list[str]:
    """One card under a heading of its own."""
    badge = f" – {escape(page.badge.text)}" if page.badge is not None else ""
    lines = [f"### {escape(page.title)}{badge}", ""]
    lines += [line for part in page.parts for line in part_lines(part)]
    return lines


def part_lines(part: Part) -> Iterator[str]:
    """Lines of one part, an empty one last."""
    match part:
        case Text():
            mark = layout.TONE_MARKS[part.tone]
            text = " ".join(escape(literal(part.text, layout.MAX_TEXT)).split("\n"))
            yield f"{mark} {text}" if mark else text
        case Facts():
            rows = [(label, literal(value, layout.MAX_TEXT)) for label, value in part.rows]
            yield from table(("", ""), rows, layout.MAX_TEXT)
            return
        case Table():
            yield from _caption(part.caption)
            rows_shown = part.rows[: layout.MAX_ROWS]
            yield from table(part.columns, rows_shown)
            total = max(part.total or 0, len(part.rows))
            if total > len(rows_shown):
                yield f"{len(rows_shown):,} of {total:,} rows"
                yield ""
            return
        case Bars():
            yield from _caption(part.caption)
            words = [(b.label, *layout.bar_words(b.count, b.total, b.low, b.high)) for b in part.rows]
            yield from table(("", "", ""), words)
            return
        case Histogram():
            yield from _caption(part.label)
            head = ("from", "count", *((part.marks,) if part.marked else ()))
            yield from table(
                head,
                [
                    (label, str(count), *((str(few),) if part.marked else ()))
                    for label, count, few in layout.histogram_rows(part)
                ],
            )
            yield escape(f"{part.caption}: " if part.caption else "") + layout.histogram_sentence(part)
        case Timeline():
            yield from _caption(part.caption)
            tally = layout.tally(part.ticks, part.lanes)
            yield ", ".join(f"{escape(word)} {count:,}" for _, word, count in tally) or "no steps"
            yield ""
            ticks, total = layout.notable(part.ticks)
            yield from (f"- {escape(layout.tick_sentence(tick, part.lanes))}" for tick in ticks)
            if total > len(ticks):
                yield f"- and {total - len(ticks):,} more"
        case Path():
            caption = f"{part.caption}: " if part.caption else ""
            yield f"**{escape(one_line(part.label))}** {escape(caption)}{layout.path_sentence(part)}"
        case Code():
            text = visible(cut(part.text, layout.MAX_CODE))
            fence = "`" * max(3, 1 + max((len(found) for found in re.findall("`+", text)), default=0))
            yield from _caption(part.caption)
            yield from (f"{fence}python", *text.split("\n"), fence)
        case Heading():
            yield f"#### {escape(one_line(part.text))}"
        case Folded():
            yield f"**{escape(one_line(part.caption))}**"
            yield ""
            for inner in part.parts:
                yield from part_lines(inner)
            return
    yield ""


def _caption(text: str) -> Iterator[str]:
    if text:
        yield f"*{escape(one_line(text, 400))}*"
        yield ""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], limit: int = layout.MAX_CELL) -> list[str]:
    """A table of GitHub's kind, an empty line after it; only the head where there are no rows.

    Examples
    --------
    >>> table(("a", "b"), [("1", "x|y")])
    ['| a | b |', '| --- | --- |', '| 1 | x\\\\|y |', '']
    """

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(escape(one_line(cell, limit)) for cell in cells)} |"

    return [line(head), f"|{' --- |' * len(head)}", *(line(row) for row in rows), ""]


def escape(text: str) -> str:
    """Text that Markdown shows as it is spelled.

    Examples
    --------
    >>> escape("<b>*x*</b>")
    '\\\\<b\\\\>\\\\*x\\\\*\\\\</b\\\\>'
    """
    return _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;"))
