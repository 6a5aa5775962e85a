"""Text and HTML are two faces of the same parts: they tell the same, and neither trusts its words."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path as FilePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core.page import Badge, Code, Facts, Page, Shown, Table, Text
from afnb.core.page_css import STYLE
from afnb.core.page_html import render_html
from afnb.core.page_text import page_lines, render_short, render_text

from .pages import ATTRIBUTION, HOSTILE, ODD, hostile, long_timeline

ALLOWED = set(
    re.findall(
        r"\w+",
        "br circle code dd details div dl dt figcaption figure g li p path pre rect section span strong "
        "style summary svg table tbody td text th thead title tr tspan ul",
    )
)


class Reader(HTMLParser):
    """Tags, attributes and words of a card; the style block and the plain-text copy left out."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.skip = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if self.skip or tag == "style" or (tag == "pre" and "afnb-plain" in (found.get("class") or "")):
            self.skip += tag not in ("br",)
        elif tag not in ("span", "tspan"):
            self.words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if self.skip:
            self.skip -= 1
        elif tag not in ("span", "tspan"):
            self.words.append(" ")

    def handle_data(self, data: str) -> None:
        if not self.skip:
            self.words.append(data)


def read(card: str) -> Reader:
    reader = Reader()
    reader.feed(re.sub(r"<title>.*?</title>", "", card, flags=re.DOTALL))
    reader.close()
    return reader


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text))


@pytest.mark.parametrize("page", [ATTRIBUTION, ODD, Page("empty"), hostile("words")], ids=lambda p: p.title)
def test_text_and_html_hold_the_same_words(page: Page) -> None:
    text = words(render_text(page, 10_000))
    card = words("".join(read(render_html(page)).words))
    # numbers of steps and axes are drawn beside the picture only
    assert {w for w in text ^ card if not w.isdigit()} == set()


plain = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)


@given(title=plain, label=plain, value=plain, cell=plain, code=plain, step=plain)
@settings(max_examples=60, deadline=None)
def test_every_string_of_a_page_is_in_both_faces(
    title: str, label: str, value: str, cell: str, code: str, step: str
) -> None:
    from afnb.core.legible import literal, one_line

    page = Page(
        title,
        Badge(label, "warn"),
        (Text(value), Facts(((label, value),)), Table((label,), ((cell,),)), Code(code)),
        (step,),
    )
    text = squeezed(render_text(page, 100_000))
    card = squeezed("".join(read(render_html(page)).words))
    for shown in (one_line(title), one_line(label), one_line(cell), one_line(step)):
        assert squeezed(shown).strip() in text
        assert squeezed(shown).strip() in card
    for shown in (literal(value), literal(code)):
        for line in re.split(r"\s+", shown):
            assert line in text
            assert line in card


@pytest.mark.parametrize("text", HOSTILE)
def test_no_recorded_text_becomes_markup(text: str) -> None:
    card = render_html(hostile(text))
    assert {tag for tag, _ in read(card).tags} <= ALLOWED
    assert not any(name.startswith("on") for _, attrs in read(card).tags for name in attrs)
    assert text not in card
    assert html.escape(text) in card
    assert text in render_text(hostile(text), 10_000)


def test_no_part_asks_for_anything_outside() -> None:
    for page in (ATTRIBUTION, ODD, hostile("https://example.org/x.png url(https://example.org/y)")):
        card = render_html(page)
        for tag, attrs in read(card).tags:
            assert not set(attrs) & {"src", "href", "xlink:href", "srcset", "data", "action"}, tag
            assert "url(" not in (attrs.get("style") or "")
    assert "url(" not in STYLE
    assert "@import" not in STYLE


def test_no_id_can_collide_between_two_cards() -> None:
    assert not any("id" in attrs for _, attrs in read(render_html(ATTRIBUTION)).tags)


def test_every_style_rule_stays_inside_the_card() -> None:
    flat = re.sub(r"@media[^{]*\{((?:[^{}]*\{[^{}]*\})*)\}", r"\1", STYLE)
    rules = re.findall(r"([^{}]+)\{[^{}]*\}", flat)
    assert len(rules) > 40
    for rule in rules:
        for selector in re.split(r",(?![^(]*\))", rule):
            assert re.search(r"\.afnb-(card|plain)\b", selector), selector


@pytest.mark.parametrize(
    "text", ["costs $5 and $6", "$$x$$", r"\(x\)", r"\[x\]", r"\begin{equation}", r"\ref{a}"]
)
def test_tex_renderers_find_no_formula(text: str) -> None:
    card = re.sub(r"<style>.*?</style>", "", render_html(hostile(text)), flags=re.DOTALL)
    stretches = re.split(r"<[^>]*>", card)
    formula = re.compile(r"\$.*\$|\\[(\[]|\\(begin|ref)")
    assert not [s for s in stretches if formula.search(html.unescape(s))]
    assert card.count('class="afnb-plain tex2jax_ignore mathjax_ignore"') == 1
    assert text in render_text(hostile(text), 10_000)


def test_terminals_and_browsers_get_no_control_or_direction_marks() -> None:
    page = hostile("\x1b[31mred\x1b[0m \u202eevil\u202c \x00 a\u200bb \U000e0041")
    for face in (render_text(page), render_html(page), render_short(page)):
        assert not re.search(
            "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\U000e0000-\U000e007f]", face
        )
        assert "⟨ESC⟩" in face


def test_ten_megabytes_of_text_are_cut() -> None:
    page = hostile("x" * 10_000_000)
    assert len(render_html(page)) < 120_000
    assert len(render_text(page)) < 40_000
    assert "10,000,000 characters" in render_text(page)
    assert len(render_short(page)) < 2000


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_two_thousand_ticks_stay_small(share: float) -> None:
    page = Page("long", None, (long_timeline(2000, share),))
    assert len(render_html(page).encode()) < 300_000
    assert max(len(line) for line in render_text(page, 100).splitlines()) <= 110


def test_a_huge_table_says_what_it_leaves_out() -> None:
    page = Page("t", None, (Table(("a",), tuple((str(i),) for i in range(5000))),))
    assert "100 of 5,000 rows" in render_text(page)
    assert "100 of 5,000 rows" in render_html(page)
    assert len(render_html(page)) < 60_000


def test_pictures_have_words_for_those_who_do_not_see_them() -> None:
    for tag, attrs in read(render_html(ATTRIBUTION)).tags:
        if tag == "svg":
            assert attrs.get("aria-hidden") == "true" or (
                attrs.get("role") == "img" and attrs.get("aria-label")
            )
    labels = [
        attrs["aria-label"]
        for tag, attrs in read(render_html(ATTRIBUTION)).tags
        if attrs.get("role") == "img"
    ]
    assert "bad and good on one time line, 7 moves: 2 alike; 2 nearly alike; 1 only in bad" in labels[0]


def test_without_its_style_block_the_plain_text_is_what_shows() -> None:
    card = render_html(ATTRIBUTION)
    bare = re.sub(r"<style>.*?</style>", "", card, flags=re.DOTALL)
    assert html.escape(render_text(ATTRIBUTION)) in bare
    assert '<section class="afnb-card tex2jax_ignore mathjax_ignore" style="display:none"' in bare


@given(st.integers(20, 200))
@settings(max_examples=20, deadline=None)
def test_text_holds_its_width(width: int) -> None:
    for page in (ATTRIBUTION, ODD):
        for line in render_text(page, width).splitlines():
            assert len(line) <= max(width, 90), line
    wide = Page(
        "t", None, (Table(("a", "b", "c"), (("x" * 300, "y" * 300, "z" * 300),)), Text("word " * 200))
    )
    assert max(map(len, render_text(wide, width).splitlines())) <= width


@pytest.mark.parametrize("page", [ATTRIBUTION, ODD, Page("t"), hostile("a\nb"), hostile("x" * 10_000)])
def test_short_form_has_one_to_six_lines(page: Page) -> None:
    lines = render_short(page).splitlines()
    assert 1 <= len(lines) <= 6
    assert all(line.strip() for line in lines)


def test_coloured_pieces_spell_the_plain_text() -> None:
    lines = ["".join(piece.text for piece in line).rstrip() for line in page_lines(ATTRIBUTION, 80)]
    assert "\n".join(lines) == render_text(ATTRIBUTION, 80)


def test_shown_results_use_the_same_faces() -> None:
    class Result(Shown):
        def page(self) -> Page:
            return ATTRIBUTION

    result = Result()
    assert repr(result) == render_short(ATTRIBUTION)
    assert result.to_text(80) == render_text(ATTRIBUTION, 80)
    assert result._repr_html_() == render_html(ATTRIBUTION)


@pytest.mark.browser
def test_a_browser_runs_nothing_of_what_an_agent_wrote(tmp_path: FilePath) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium here")
    cards = "".join(render_html(hostile(text)) for text in HOSTILE)
    trap = "<script>window.alert=()=>document.title='ran'</script>"
    page = tmp_path / "cards.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><title>calm</title>{trap}{cards}", encoding="utf-8")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    assert "<title>calm</title>" in done.stdout
    assert done.stdout.count('class="afnb-badge') == len(HOSTILE)
    assert "<img" not in done.stdout
