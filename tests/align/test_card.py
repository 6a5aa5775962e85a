"""The card of a diff shows what agents wrote literally, wherever it stands."""

from __future__ import annotations

import html
from typing import Any

import pytest

from afnb.align.diff import diff
from afnb.core.run import Run, Step

HOSTILE = ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "$a$ \x1b[31m\u202e"]


def run(text: str, last: Any) -> Run:
    steps = [Step(i, "tool", text, outputs={"said": f"{text} word {i}"}) for i in range(3)]
    return Run(text, (*steps, Step(3, "tool", text, outputs={text: last})))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_stay_words(text: str) -> None:
    bad = run(text, [text, "a wholly other end of this story", "with many words that the good run lacks"])
    found = diff(bad, run(text, {text: "short"}))
    card, words = found._repr_html_(), found.to_text()
    assert "<script" not in card
    assert "<img" not in card
    assert "\x1b" not in card + words + repr(found)
    assert "\u202e" not in card + words + repr(found)
    if text.isprintable():
        assert html.escape(text) in card
        assert text in words


def test_two_thousand_steps_make_a_small_card() -> None:
    steps = [Step(i, "tool", f"tool_{i % 7}", outputs={"n": i % 11}) for i in range(2000)]
    found = diff(Run("bad", tuple(steps)), Run("good", tuple(steps[:1500] + steps[1600:])))
    assert len(found._repr_html_()) < 300_000
    assert len(repr(found).splitlines()) <= 6
