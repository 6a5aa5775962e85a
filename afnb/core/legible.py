"""Text that agents wrote, made safe and literal to show: control and direction marks become visible.

Recorded text is untrusted. A terminal obeys escape sequences, a browser reorders text at
bidirectional marks, and zero-width or tag characters hide instructions from the reader. Here each
of them turns into a sign one can see; letters of every script stay as they are.
"""

from __future__ import annotations

import re
import unicodedata

_NAMED = {
    0x00: "NUL",
    0x07: "BEL",
    0x08: "BS",
    0x0B: "VT",
    0x0C: "FF",
    0x0D: "CR",
    0x1B: "ESC",
    0x7F: "DEL",
    0x00AD: "SHY",
    0x034F: "CGJ",
    0x061C: "ALM",
    0x180E: "MVS",
    0x200B: "ZWSP",
    0x200E: "LRM",
    0x200F: "RLM",
    0x2028: "LS",
    0x2029: "PS",
    0x202A: "LRE",
    0x202B: "RLE",
    0x202C: "PDF",
    0x202D: "LRO",
    0x202E: "RLO",
    0x2060: "WJ",
    0x2066: "LRI",
    0x2067: "RLI",
    0x2068: "FSI",
    0x2069: "PDI",
    0xFEFF: "BOM",
}

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069"
    "\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def _show(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code in _NAMED:
        return f"⟨{_NAMED[code]}⟩"
    if code >= 0xE0000:
        letter = chr(code - 0xE0000)
        return f"⟨tag {letter}⟩" if letter.isprintable() and letter != " " else f"⟨U+{code:X}⟩"
    return f"⟨U+{code:04X}⟩"


def visible(text: str) -> str:
    """``text`` with control, direction, zero-width and tag characters made visible.

    Line feeds and tabs stay; a carriage return before a line feed is dropped.

    Examples
    --------
    >>> visible("\\x1b[31mred")
    '⟨ESC⟩[31mred'
    >>> visible("a\\u202eb")
    'a⟨RLO⟩b'
    """
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(_show, text.replace("\r\n", "\n"))


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters of ``text``; what was left out is counted.

    Examples
    --------
    >>> cut("abcdefghij", 4)
    'abcd … (10 characters)'
    """
    if len(text) <= limit:
        return text
    return f"{text[:limit]} … ({len(text):,} characters)"


def literal(text: object, limit: int = 2000) -> str:
    """``text`` cut and made visible: what every face prints of recorded content."""
    return visible(cut(text if isinstance(text, str) else str(text), limit))


def one_line(text: object, limit: int = 200) -> str:
    """Like ``literal``, on one line: line feeds show as ``⏎``, tabs as spaces.

    Examples
    --------
    >>> one_line("a\\nb")
    'a⏎b'
    """
    return literal(text, limit).replace("\n", "⏎").replace("\t", " ")


def middle(text: str, width: int) -> str:
    """``text`` shortened in its middle to ``width`` characters, so that both ends stay readable.

    Examples
    --------
    >>> middle("refund_order_of_customer_17", 11)
    'refun…er_17'
    """
    if len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    head = width // 2
    tail = width - head - 1
    return f"{text[:head]}…{text[len(text) - tail :] if tail else ''}"


def columns(text: str) -> int:
    """Terminal columns that ``text`` takes: wide characters two, combining marks none.

    Examples
    --------
    >>> columns("ab"), columns("退款"), columns("e\\u0301")
    (2, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def pad(text: str, width: int) -> str:
    """``text`` filled with spaces to ``width`` terminal columns."""
    return text + " " * max(0, width - columns(text))


def fit(text: str, width: int) -> str:
    """``text`` shortened in its middle to at most ``width`` terminal columns."""
    wanted = width
    shown = middle(text, wanted)
    while columns(shown) > width and wanted > 0:
        wanted -= 1
        shown = middle(text, wanted)
    return shown
