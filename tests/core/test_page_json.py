"""Pages survive JSON, and a histogram says the same in every face."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core.page import Code, Facts, Folded, Histogram, Page, Text
from afnb.core.page_html import render_html
from afnb.core.page_json import page_from_json, page_to_json
from afnb.core.page_layout import scaled
from afnb.core.page_text import render_text
from afnb.errors import InputError

from .pages import ATTRIBUTION, HOSTILE, ODD, hostile, long_timeline

SPREAD = Histogram("where they fork", ("0 %", "50 %", "100 %"), (7, 2), (3, 0), "verified", "all pairs")


def as_tuple(page: Page) -> tuple[object, ...]:
    """The whole page; its repr tells NaN from NaN, which == does not."""
    return (page.title, page.badge, page.parts, page.next)


@pytest.mark.parametrize(
    "page",
    [
        ATTRIBUTION,
        ODD,
        hostile(HOSTILE[0]),
        Page("long", None, (long_timeline(300, 0.2),)),
        Page("folded", None, (Folded("more", (Text("a", "warn"), Folded("deep", (Code("x = 1"),)))),)),
        Page("histogram", None, (SPREAD, Facts((("a", "b"),)))),
    ],
    ids=["attribution", "odd", "hostile", "long", "folded", "histogram"],
)
def test_pages_come_back_the_same(page: Page) -> None:
    written = json.dumps(page_to_json(page), allow_nan=False)
    assert repr(as_tuple(page_from_json(json.loads(written)))) == repr(as_tuple(page))


@pytest.mark.parametrize(
    "value", [None, 3, {}, {"title": "t", "badge": None, "parts": [{"part": "no"}], "next": []}]
)
def test_something_else_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="no page"):
        page_from_json(value)


def test_a_histogram_says_the_same_in_text_and_html() -> None:
    page = Page("p", None, (SPREAD,))
    text, html = render_text(page), render_html(page)
    for words in ("where they fork", "9 in all, 3 verified"):
        assert words in text
        assert words in html
    for label, count, marked in (("0 % to 50 %", 7, 3), ("50 % to 100 %", 2, 0)):
        assert f"{label}: {count}, {marked} verified" in html
        assert any(label in line and f"{count} ({marked})" in line for line in text.splitlines())


def test_an_empty_histogram_is_no_fault() -> None:
    page = Page("p", None, (Histogram("none", (), ()), Histogram("zero", ("0", "1"), (0,))))
    assert "0 in all" in render_text(page)
    assert "0 in all" in render_html(page)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30), st.integers(1, 60))
@settings(max_examples=50)
def test_lengths_keep_the_order_and_show_what_is_there(counts: list[int], room: int) -> None:
    lengths = [scaled(count, max(counts), room) for count in counts]
    assert all(0 <= long <= room for long in lengths)
    assert all((long > 0) == (count > 0) for long, count in zip(lengths, counts, strict=True))
    pairs = sorted(zip(counts, lengths, strict=True))
    assert [long for _, long in pairs] == sorted(lengths)
