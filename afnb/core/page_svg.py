"""Small pictures for the card as inline SVG: the time line, a proportion's bar, a path. Pure.

Shapes carry presentation attributes in ``currentColor``, so that they stay readable where a host
strips the style block; classes give them their colours.
"""

from __future__ import annotations

import html
import re

from afnb.core import page_layout as layout
from afnb.core.legible import middle, one_line
from afnb.core.parts import Bar, Histogram, Lane, Path, Timeline

_STEP = re.compile(r"(\d{1,5})(?:\s|$)")
_TEX = re.compile(r"\$|\\(?=[()\[\]]|begin|end|ref|eqref)")
_WIDTH = 860
_LEFT = 64
_TITLES = 250
_ROOM = 150
_TOP, _BOTTOM = 50, 90


def escape(text: str) -> str:
    """Text for an element's content: HTML escaped, and set apart from what a TeX renderer looks for."""
    return _TEX.sub(r"<span>\g<0></span>", html.escape(text, quote=True))


def attribute(text: str) -> str:
    """Text for an attribute's value."""
    return html.escape(text, quote=True).replace("$", "&#36;")


def _svg_text(text: str) -> str:
    return _TEX.sub(r"<tspan>\g<0></tspan>", html.escape(text, quote=True))


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


MIXED = "each bar stands for many moves, as high as the share that this run has alone or otherwise"


def spans(part: Timeline) -> list[layout.Span]:
    """The time line as it is drawn."""
    return layout.fold(part.ticks, _ROOM)


def timeline(part: Timeline) -> str:
    """Two lanes: alike ticks small and pale, differences large, filled and lettered by shape."""
    drawn = spans(part)
    words = "; ".join(f"{n} {word}" for _, word, n in layout.tally(part.ticks, part.lanes))
    widths = [_weight(span) for span in drawn]
    unit = min(34.0, (_WIDTH - _LEFT - 12) / max(sum(widths), 1))
    roomy = unit >= 22.0
    standing = any(span.kind in ("fork", "patched") and not span.mixed for span in drawn)
    top = 0 if standing else _TOP - (30 if roomy else 14)
    bottom = _BOTTOM + (50 if standing and roomy else 30 if standing or roomy else 14)
    end = _LEFT + unit * sum(widths)
    wide = int(min(_WIDTH, max(end + 60, 360))) if roomy else _WIDTH
    body = [_lanes(part.lanes, end)]
    x = float(_LEFT)
    flagged = named = -1e9
    for i, (span, width) in enumerate(zip(drawn, widths, strict=True)):
        step = unit * width
        centre = x + step / 2
        tick = part.ticks[span.first]
        shape = _shape(span, tick, centre, step, roomy)
        if i < _TITLES:
            shape = f"<g><title>{escape(_title(span, tick, part.lanes))}</title>{shape}</g>"
        body.append(shape)
        if roomy and span.count == 1:
            body.append(_numbers(tick, centre))
        if span.kind in ("fork", "patched") and not span.mixed and centre - flagged > 60:
            apart = roomy and centre - named > 170
            body.append(_flag(span.kind, tick, centre, named=apart, wide=wide))
            flagged, named = centre, centre if apart else named
        x += step
    label = attribute(
        f"{one_line(part.lanes[0])} and {one_line(part.lanes[1])} on one time line, "
        f"{len(part.ticks)} moves: {words}"
    )
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 {top} {wide} {bottom - top}" '
        f'width="{wide}" height="{bottom - top}" style="max-width:{wide}px" fill="currentColor">'
        f"{''.join(body)}</svg>"
    )


def _numbers(tick: Lane, x: float) -> str:
    """Step numbers, above the upper lane and below the lower one, where labels begin with one."""
    out = ""
    for y, label in ((_TOP - 14, tick.bad), (_BOTTOM + 22, tick.good)):
        found = _STEP.match(label or "")
        if found:
            out += (
                f'<text x="{_n(x)}" y="{y}" text-anchor="middle" font-size="11" '
                f'class="afnb-t-dim afnb-small">{found.group(1)}</text>'
            )
    return out


def _weight(span: layout.Span) -> float:
    if span.count == 1 or span.mixed:
        return 1.0
    return 2.6 if span.kind == "sync" else 1.8


def _lanes(lanes: tuple[str, str], end: float) -> str:
    parts = []
    for y, lane, tone in ((_TOP, lanes[0], "bad"), (_BOTTOM, lanes[1], "good")):
        parts.append(
            f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end" class="afnb-f-{tone}" font-size="13">'
            f"{_svg_text(middle(one_line(lane), 8))}</text>"
            f'<path d="M{_LEFT - 4} {y}H{_n(end + 4)}" stroke="currentColor" stroke-opacity=".35" '
            f'class="afnb-s-line"/>'
        )
    return "".join(parts)


def _title(span: layout.Span, tick: Lane, lanes: tuple[str, str]) -> str:
    if span.count == 1:
        return layout.tick_sentence(tick, lanes)
    first = one_line(tick.bad or tick.good or "", 60)
    names = [one_line(lane, 60) for lane in lanes]
    if span.mixed:
        shares = (f"{layout.percent(s)} only in {n}" for s, n in zip(span.shares, names, strict=True))
        return f"{span.count} moves from {first}: {', '.join(shares)}"
    return f"{span.count} moves {layout.WORDS[span.kind].format(*names)}, from {first}"


def _flag(kind: str, tick: Lane, x: float, *, named: bool, wide: int) -> str:
    """The word over a fork or patch and, where there is room, what the two sides did below it."""
    anchor = "start" if x < 170 else "end" if x > wide - 170 else "middle"
    at = x - 12 if anchor == "start" else x + 12 if anchor == "end" else x
    tone = "bad" if kind == "fork" else "patch"
    out = (
        f'<text x="{_n(x)}" y="{_TOP - 35}" text-anchor="middle" font-size="13" font-weight="600" '
        f'class="afnb-f-{tone}">{layout.WORDS[kind]}</text>'
    )
    sides = dict.fromkeys(middle(one_line(side), 34) for side in (tick.bad, tick.good) if side)
    if named and sides:
        out += (
            f'<text x="{_n(at)}" y="{_BOTTOM + 44}" text-anchor="{anchor}" font-size="13">'
            f"{_svg_text(' / '.join(sides))}</text>"
        )
    return out


def _shape(span: layout.Span, tick: Lane, x: float, step: float, roomy: bool) -> str:
    radius = min(7.0, max(1.6, step * 0.27))
    if span.mixed:
        return _share(span, x, step)
    if span.kind == "sync" and span.count > 1:
        return _band(span, x, step)
    if span.kind in ("sync", "near"):
        return _alike(span.kind, x, radius)
    if span.kind == "unlike":
        return "".join(_cross(y, tone, x, radius) for y, tone in ((_TOP, "bad"), (_BOTTOM, "good")))
    if span.kind in ("log", "model"):
        side = 0 if span.kind == "log" else 1
        return _square((_TOP, _BOTTOM)[side], ("bad", "good")[side], x, radius, filled=side == 0)
    there = (tick.bad is not None, tick.good is not None)
    return _standing(span.kind, there, x, min(9.0, max(5.5, step * 0.36)), roomy)


def _share(span: layout.Span, x: float, step: float) -> str:
    """A slice of a long run: one bar per lane, as high as the share that only this run has."""
    out = ""
    for y, tone, share in zip((_TOP, _BOTTOM), ("bad", "good"), span.shares, strict=True):
        high = 2 + 14 * share
        look = f'class="afnb-f-{tone}"' if share else 'fill-opacity=".3" class="afnb-f-dim"'
        width = max(step - 1, 1)
        out += (
            f'<rect x="{_n(x - width / 2)}" y="{_n(y - high / 2)}" width="{_n(width)}" '
            f'height="{_n(high)}" {look}/>'
        )
    return out


def _alike(kind: str, x: float, radius: float) -> str:
    if kind == "sync":
        return "".join(
            f'<circle cx="{_n(x)}" cy="{y}" r="{_n(radius * 0.5)}" fill-opacity=".45" class="afnb-f-dim"/>'
            for y in (_TOP, _BOTTOM)
        )
    return "".join(
        f'<circle cx="{_n(x)}" cy="{y}" r="{_n(radius * 0.75)}" fill="none" stroke="currentColor" '
        f'stroke-width="1.4" class="afnb-s-dim"/>'
        for y in (_TOP, _BOTTOM)
    )


def _band(span: layout.Span, x: float, step: float) -> str:
    width = max(step - 4, 2)
    bars = "".join(
        f'<rect x="{_n(x - width / 2)}" y="{y - 2}" width="{_n(width)}" height="4" rx="2" '
        f'fill-opacity=".3" class="afnb-f-dim"/>'
        for y in (_TOP, _BOTTOM)
    )
    if step < 20:
        return bars
    y = (_TOP + _BOTTOM) / 2 + 4
    return (
        f'{bars}<text x="{_n(x)}" y="{_n(y)}" text-anchor="middle" font-size="12" class="afnb-t-dim">'
        f"{span.count}</text>"
    )


def _cross(y: float, tone: str, x: float, radius: float) -> str:
    r = radius * 0.85
    return (
        f'<path d="M{_n(x - r)} {_n(y - r)}L{_n(x + r)} {_n(y + r)}M{_n(x - r)} {_n(y + r)}'
        f'L{_n(x + r)} {_n(y - r)}" fill="none" stroke="currentColor" stroke-width="2.2" '
        f'class="afnb-s-{tone}"/>'
    )


def _square(y: int, tone: str, x: float, radius: float, *, filled: bool) -> str:
    side = radius * 2
    look = (
        f'class="afnb-f-{tone}"'
        if filled
        else f'fill="none" stroke="currentColor" stroke-width="1.8" class="afnb-s-{tone}"'
    )
    return f'<rect x="{_n(x - radius)}" y="{_n(y - radius)}" width="{_n(side)}" height="{_n(side)}" {look}/>'


def _standing(kind: str, there: tuple[bool, bool], x: float, radius: float, roomy: bool) -> str:
    """A fork's diamonds or a patch's triangles, on a line through both lanes."""
    tones = ("bad", "good") if kind == "fork" else ("patch", "patch")
    line = "bad" if kind == "fork" else "patch"
    ends = (_TOP, _BOTTOM) if roomy else (_TOP - 30, _BOTTOM + 28)
    parts = [
        f'<path d="M{_n(x)} {ends[0]}V{ends[1]}" stroke="currentColor" stroke-width="1.5" '
        f'stroke-dasharray="4 3" class="afnb-s-{line}"/>'
    ]
    for y, here, tone in zip((_TOP, _BOTTOM), there, tones, strict=True):
        r = radius
        outline = (
            f"M{_n(x)} {_n(y - r)}L{_n(x + r)} {y}L{_n(x)} {_n(y + r)}L{_n(x - r)} {y}Z"
            if kind == "fork"
            else f"M{_n(x)} {_n(y - r)}L{_n(x + r)} {_n(y + r * 0.8)}H{_n(x - r)}Z"
        )
        if here:
            parts.append(f'<path d="{outline}" class="afnb-f-{tone}"/>')
        else:
            parts.append(
                f'<path d="{outline}" fill="none" stroke="currentColor" stroke-dasharray="2 2" '
                f'class="afnb-f-bg afnb-s-{tone}"/>'
            )
    return "".join(parts)


def legend_mark(kind: str) -> str:
    """The shape that stands for ``kind``, for the legend."""
    shapes = {
        "sync": '<circle cx="8" cy="8" r="2.6" fill-opacity=".45" class="afnb-f-dim"/>',
        "near": '<circle cx="8" cy="8" r="4.4" fill="none" stroke="currentColor" stroke-width="1.4" '
        'class="afnb-s-dim"/>',
        "unlike": _cross(8, "bad", 8, 5.5),
        "log": '<rect x="3" y="3" width="10" height="10" class="afnb-f-bad"/>',
        "model": '<rect x="3" y="3" width="10" height="10" fill="none" stroke="currentColor" '
        'stroke-width="1.8" class="afnb-s-good"/>',
        "fork": '<path d="M8 1L15 8L8 15L1 8Z" class="afnb-f-bad"/>',
        "patched": '<path d="M8 1L15 14H1Z" class="afnb-f-patch"/>',
    }
    return (
        '<svg aria-hidden="true" viewBox="0 0 16 16" width="12" height="12" fill="currentColor" '
        f'style="display:inline-block;width:12px;height:12px;vertical-align:-1px">{shapes[kind]}</svg>'
    )


def bar(row: Bar) -> str:
    """One proportion on [0, 1] with its interval as a whisker; the words stand beside it."""
    share = min(1.0, max(0.0, row.count / row.total)) if row.total > 0 else 0.0
    tone = row.tone if row.tone in ("good", "bad", "warn") else "dim"
    parts = [
        '<rect x="0.5" y="3.5" width="299" height="15" rx="2" fill="none" stroke="currentColor" '
        'stroke-opacity=".35" class="afnb-f-track"/>'
    ]
    if share > 0:
        parts.append(
            f'<rect x="1" y="4" width="{_n(298 * share)}" height="14" rx="1.5" fill-opacity=".6" '
            f'class="afnb-f-{tone}"/>'
        )
    if row.low is not None and row.high is not None:
        low, high = (1 + 298 * min(1.0, max(0.0, edge)) for edge in (row.low, row.high))
        parts.append(
            f'<path d="M{_n(low)} 11H{_n(high)}M{_n(low)} 6.5V15.5M{_n(high)} 6.5V15.5" fill="none" '
            f'stroke="currentColor" stroke-width="1.8" class="afnb-s-fg"/>'
        )
    return (
        '<svg aria-hidden="true" viewBox="0 0 300 22" width="300" height="22" '
        f'fill="currentColor">{"".join(parts)}</svg>'
    )


def path(part: Path) -> str:
    """A step line from 1 value to the next, its threshold dashed, the last value lettered."""
    heights, threshold, logarithmic = layout.path_heights(part)
    width, height, left, top, floor = 400, 150, 46, 16, 118
    right = width - 64
    points = layout.thin(len(heights), 400)

    def at_y(share: float) -> float:
        return floor - share * (floor - top)

    def at_x(i: float) -> float:
        return left + (right - left) * ((i + 1) / max(len(heights), 1))

    y0 = at_y(threshold)
    body = [
        f'<path d="M{left} {top}V{floor}H{right}" fill="none" stroke="currentColor" stroke-opacity=".5" '
        f'class="afnb-s-line"/>',
        f'<path d="M{left} {_n(y0)}H{right}" stroke="currentColor" stroke-width="1.5" '
        f'stroke-dasharray="5 4" class="afnb-s-dim"/>',
        f'<text x="{left - 6}" y="{_n(y0 + 4)}" text-anchor="end" font-size="12">'
        f"{layout.number(part.threshold)}</text>",
    ]
    if heights:
        start = (
            layout.path_heights(Path("", (*part.values, 1.0), part.threshold))[0][-1] if logarithmic else 0.0
        )
        line = f"M{left} {_n(at_y(start))}" + "".join(
            f"L{_n(at_x(i))} {_n(at_y(heights[i]))}" for i in points
        )
        crossed = max(heights) >= threshold
        tone = "good" if crossed else "fg"
        body.append(
            f'<path d="{line}" fill="none" stroke="currentColor" stroke-width="2.2" '
            f'stroke-linejoin="round" class="afnb-s-{tone}"/>'
            f'<circle cx="{_n(at_x(len(heights) - 1))}" cy="{_n(at_y(heights[-1]))}" r="3.6" '
            f'class="afnb-f-{"good" if crossed else "dim"}"/>'
            f'<text x="{_n(at_x(len(heights) - 1) + 8)}" y="{_n(at_y(heights[-1]) + 4)}" font-size="12" '
            f'font-weight="600">{layout.number(part.values[-1])}</text>'
        )
        if logarithmic and abs(start - threshold) > 0.14:
            body.append(
                f'<text x="{left - 6}" y="{_n(at_y(start) + 4)}" text-anchor="end" font-size="12" '
                f'class="afnb-t-dim">1</text>'
            )
    body.append(
        f'<text x="{right}" y="{floor + 18}" text-anchor="end" font-size="12" class="afnb-t-dim">'
        f"{len(heights)} {_svg_text(one_line(part.unit, 40))}{'' if len(heights) == 1 else 's'}</text>"
    )
    scale = ", logarithmic axis" if logarithmic else ""
    label = attribute(f"{one_line(part.label)}: {layout.path_sentence(part)}{scale}")
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" fill="currentColor">{"".join(body)}</svg>'
    )


def histogram(part: Histogram) -> str:
    """Upright bars over their edges, the marked part of each filled, the counts above them."""
    rows = layout.histogram_rows(part)
    width, height, left, right, top, floor = 560, 180, 8, 552, 22, 146
    most = max((count for _, count, _ in rows), default=0)
    step = (right - left) / max(len(rows), 1)
    body = [
        f'<path d="M{left} {floor}H{right}" stroke="currentColor" stroke-opacity=".5" class="afnb-s-line"/>'
    ]
    for i, (label, count, marked) in enumerate(rows):
        x, bar = left + i * step + 1.5, max(step - 3, 1.0)
        title = f"{label}: {count}" + (f", {marked} {one_line(part.marks, 100)}" if part.marked else "")
        high, full = (floor - top) * count / most if most else 0, (floor - top) * marked / most if most else 0
        shape = (
            f'<rect x="{_n(x)}" y="{_n(floor - high)}" width="{_n(bar)}" height="{_n(high)}" '
            f'fill-opacity=".32" class="afnb-f-dim"/><rect x="{_n(x)}" y="{_n(floor - full)}" '
            f'width="{_n(bar)}" height="{_n(full)}" class="afnb-f-good"/>'
        )
        number = (
            f'<text x="{_n(x + bar / 2)}" y="{_n(floor - high - 5)}" text-anchor="middle" font-size="11" '
            f'class="afnb-small">{count:,}</text>'
        )
        body.append(f"<g><title>{escape(title)}</title>{shape}{number if count and step >= 22 else ''}</g>")
    every = max(1, -(-len(part.edges) // 11))
    for i, edge in list(enumerate(part.edges))[::every]:
        anchor = "start" if i == 0 else "end" if i == len(part.edges) - 1 else "middle"
        body.append(
            f'<text x="{_n(left + i * step)}" y="{floor + 18}" text-anchor="{anchor}" font-size="11" '
            f'class="afnb-t-dim afnb-small">{_svg_text(one_line(edge, 12))}</text>'
        )
    label = attribute(f"{one_line(part.label)}: {layout.histogram_sentence(part)}")
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" style="max-width:{width}px" fill="currentColor">{"".join(body)}</svg>'
    )
