from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from afnb.core import legible

HIDDEN = [
    0x00,
    0x07,
    0x1B,
    0x7F,
    0x85,
    0x9B,
    0x200B,
    0x200E,
    0x202A,
    0x202E,
    0x2066,
    0x2069,
    0x2028,
    0xFEFF,
    0xE0041,
]


def test_marks_that_cannot_be_seen_become_visible() -> None:
    for code in HIDDEN:
        shown = legible.visible(f"a{chr(code)}b")
        assert chr(code) not in shown, hex(code)
        assert shown.startswith("a⟨")
        assert shown.endswith("⟩b")


def test_hidden_instructions_in_tag_characters_are_spelled_out() -> None:
    hidden = "".join(chr(0xE0000 + ord(c)) for c in "Go")
    assert legible.visible(hidden) == "⟨tag G⟩⟨tag o⟩"


def test_scripts_and_emoji_stay_as_they_are() -> None:
    for text in ("退款 é ü", "שלום", "مرحبا", "👩‍👩‍👧", "a\tb\nc"):
        assert legible.visible(text) == text


def test_lone_surrogates_can_be_encoded_afterwards() -> None:
    assert legible.visible("a\ud800b").encode() == "a⟨U+D800⟩b".encode()


@given(st.text())
def test_nothing_hidden_or_unencodable_is_left(text: str) -> None:
    shown = legible.visible(text)
    shown.encode("utf-8")
    assert not any(unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF") for c in shown)
    assert all(c in "\n\t" or unicodedata.category(c) != "Cc" for c in shown)
    assert legible.visible(shown) == shown


@given(st.text(), st.integers(0, 40))
def test_cut_keeps_the_head_and_says_how_long_it_was(text: str, limit: int) -> None:
    shown = legible.cut(text, limit)
    assert shown.startswith(text[:limit])
    assert (shown == text) == (len(text) <= limit)
    assert len(text) <= limit or f"({len(text):,} characters)" in shown


@given(st.text(), st.integers(0, 40))
def test_middle_and_fit_hold_their_width(text: str, width: int) -> None:
    assert len(legible.middle(text, width)) <= max(width, 0)
    assert legible.columns(legible.fit(text, width)) <= width
    if len(text) <= width:
        assert legible.middle(text, width) == text


def test_middle_keeps_both_ends_of_ids_that_share_a_prefix() -> None:
    ids = [f"{'run-' * 15}{i:03d}" for i in range(500)]
    assert len({legible.middle(i, 30) for i in ids}) == 500


def test_ten_megabytes_are_cut_before_they_are_scanned() -> None:
    assert len(legible.one_line("\x1b" * 10_000_000, 200)) < 2000
