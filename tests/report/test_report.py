"""The report: three forms that tell the same, no asset, no hostile word taken for markup, fast when large."""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.page import Badge, Bars, Code, Facts, Folded, Heading, Page, Part, Table, Text
from afnb.core.page_json import page_from_json
from afnb.errors import InputError, ParameterError
from afnb.report import render_html, render_json, render_markdown, report_of
from afnb.report.html import PICTURES, policy
from afnb.report.mask import masked
from afnb.report.model import Column, Entry, Report
from afnb.report.style import SCRIPT

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
from many import Case, batch, folder

CASES = [Case(0), Case(1, "skip"), Case(2, "style", right=0.0), Case(3, "same"), Case(4)]
HOSTILE = "<script>alert(1)</script> \"x\" 'y' & $z$ | `b` \x1b[31m \u202e"
KEY = "sk-proj-abcdefghijklmnop1234"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("report")
    place = folder(root / "cases", CASES)
    (place / "case-4" / "good.json").unlink()
    about = {"task": f"refund {HOSTILE}", "labels": {"suite": HOSTILE, "key": KEY}}
    (place / "case-0" / "pair.json").write_text(json.dumps(about))
    batch(place, ledger=root / "out")
    return root / "out"


@pytest.fixture(scope="module")
def report(out: Path) -> Report:
    return report_of(afnb.read_batch(out))


class Reader(HTMLParser):
    """Words and tags of the page; what is inside style and script is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.skip = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("style", "script"):
            self.skip = tag
        elif tag not in ("span", "tspan"):
            self.words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self.skip:
            self.skip = ""

    def handle_data(self, data: str) -> None:
        if not self.skip:
            self.words.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def told(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Text | Heading | Code):
            yield part.text
        elif isinstance(part, Facts | Table):
            yield from (word for row in part.rows for word in row)
        elif isinstance(part, Bars):
            yield from (f"{bar.count} of {bar.total}" for bar in part.rows)
        elif isinstance(part, Folded):
            yield from told(part.parts)


def every_word(report: Report) -> list[str]:
    words = [report.title, report.badge.text, *(tile.words for tile in report.tiles), *told(report.lead)]
    for section in report.sections:
        words += [section.title, *told(section.parts)]
    for entry in report.entries:
        words += [*entry.cells, *told(entry.page.parts)]
    return [
        word for word in words if word.strip() and word.isprintable() and word.isascii() and len(word) < 200
    ]


def test_three_forms_tell_the_same(report: Report) -> None:
    page = squeezed("".join(read(render_html(report)).words))
    plain = squeezed(html.unescape(re.sub(r"\\([\\`*_\[\]<>|~#])", r"\1", render_markdown(report))))
    words = every_word(report)
    assert len(words) > 100
    for form, text in (("html", page), ("markdown", plain)):
        missing = [word for word in words if squeezed(word) not in text]
        assert missing == [], form


def test_json_holds_the_very_parts(report: Report) -> None:
    value = json.loads(render_json(report))
    whole = [*value["lead"], *(part for section in value["sections"] for part in section["parts"])]
    made = page_from_json({"title": "", "badge": None, "parts": whole, "next": []})
    assert made.parts == (*report.lead, *(part for section in report.sections for part in section.parts))
    assert [page_from_json(pair["card"]) for pair in value["pairs"]] == [e.page for e in report.entries]
    assert [tuple(pair["cells"]) for pair in value["pairs"]] == [e.cells for e in report.entries]


def test_nothing_is_asked_for_from_outside(report: Report) -> None:
    text = render_html(report)
    reader = read(text)
    assert not [attrs for _, attrs in reader.tags if {"src", "srcset", "data", "action"} & set(attrs)]
    links = [attrs["href"] or "" for tag, attrs in reader.tags if "href" in attrs]
    assert links
    assert all(link.startswith("#p") for link in links)
    assert not re.search(r"@import|url\(", text)
    assert "http" not in "".join(text.split("<script>")[1:]).replace("http-equiv", "")


def test_only_its_own_script_may_run(report: Report) -> None:
    import base64
    import hashlib

    text = render_html(report)
    digest = base64.b64encode(
        hashlib.sha256(text.split("<script>")[1].split("</script>")[0].encode()).digest()
    )
    assert f"script-src 'sha256-{digest.decode()}'" in policy()
    assert policy() in text
    assert text.count("<script>") == 1
    assert "innerHTML" not in SCRIPT
    assert "default-src 'none'" in policy()


def test_recorded_words_stay_words(report: Report) -> None:
    text = render_html(report)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "\x1b" not in text + render_markdown(report)
    assert "\u202e" not in text + render_markdown(report)
    assert "<script>" not in render_markdown(report).replace("\\<script\\>", "")


def test_credentials_are_masked_in_every_form(report: Report) -> None:
    for render in (render_html, render_markdown, render_json):
        assert KEY not in render(report)
        assert "MASKED" in render(report)


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-REDACTED",
        "Authorization: Bearer abcdefghijklmnop.qrst",
        "https://x.example/v1?key=0123456789&b=1",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_abcdefghijklmnopqrst",
    ],
)
def test_shapes_of_credentials(secret: str) -> None:
    assert "MASKED" in masked(f"before {secret} after")
    assert masked(masked(secret)) == masked(secret)


@pytest.mark.parametrize(
    "text", ["task-1234567890", "a key=value pair", "the basic idea of tokens", "risk-free"]
)
def test_ordinary_words_are_not_masked(text: str) -> None:
    assert masked(text) == text


def test_the_summary_comes_first_and_the_table_is_whole_without_scripts(report: Report) -> None:
    text = render_html(report)
    places = [
        text.index(mark)
        for mark in ('class="tiles"', "Where runs part", "Recurring causes", 'id="pairs"', 'id="cards"')
    ]
    assert places == sorted(places)
    rows = text.split('id="pairs"')[1].split("</table>")[0].count("<tr ")
    assert rows == len(CASES)
    assert '<div class="tools" hidden>' in text


def test_wording_follows_the_evidence(report: Report) -> None:
    """No run without replays, and none whose control recovers alike, is spoken of as having a cause."""
    cards = {entry.name: " ".join(told(entry.page.parts)) for entry in report.entries}
    assert "Not tested" in cards["case-3"]
    assert "made the run recover more often" in cards["case-0"]
    for name in ("case-2", "case-3", "case-4"):
        assert "made the run recover" not in cards[name]
        assert "repair" not in cards[name].lower()
    assert "less than 50 points" in cards["case-2"]
    assert not re.search(r"root cause|sure that|caused by", render_markdown(report))


def test_a_report_is_made_of_the_folder_alone(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No recording is opened, and the overview reads no card."""
    import afnb.io.load
    from afnb.experiments import batch_result

    def refuse(*_args: Any, **_options: Any) -> Any:
        raise AssertionError("a recording was opened")

    monkeypatch.setattr(afnb.io.load, "load", refuse)
    opened: list[str] = []
    real = batch_result.page_from_json
    monkeypatch.setattr(batch_result, "page_from_json", lambda value: opened.append("card") or real(value))
    found = afnb.read_batch(out)
    assert found.pairs.num_rows == len(CASES)
    assert opened == []
    for ending in (".html", ".md", ".json"):
        written = found.report(tmp_path / f"report{ending}")
        assert written.stat().st_size > 1000
    assert len(opened) == 3 * len(CASES)
    assert not list(tmp_path.glob("*.part"))


def test_the_same_batch_gives_the_same_report(out: Path) -> None:
    one, other = (render_html(report_of(afnb.read_batch(out))) for _ in range(2))
    assert one == other


def test_two_thousand_pairs(report: Report) -> None:
    many = replace(report, entries=tuple(report.entries[i % len(CASES)] for i in range(2000)))
    text = render_html(many)
    assert len(text) < 20_000_000
    assert text.count('<details class="pair"') == 2000
    assert len(many.entries) > PICTURES
    assert "moves" not in policy()


def test_no_pairs_and_no_cards() -> None:
    empty = report_of(batch([]))
    for render in (render_html, render_markdown, render_json):
        assert "No pairs were found" in render(empty)
    names = tuple(Column(name) for name in ("pair", "verdict", "step", "reason"))
    entry = Entry("a", "error", "warn", ("a", "error", "", "why"), (None,) * 4, Page("a", Badge("x")))
    assert 'id="p0"' in render_html(replace(empty, entries=(entry,), columns=names))


def test_where_it_cannot_be_written(out: Path, tmp_path: Path) -> None:
    found = afnb.read_batch(out)
    with pytest.raises(ParameterError, match=r"\.html, \.md, \.json; found '\.pdf'"):
        found.report(tmp_path / "report.pdf")
    with pytest.raises(InputError, match="cannot be written"):
        found.report(tmp_path / "none" / "report.html")
