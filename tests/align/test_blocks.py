from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.align import blocks
from afnb.align.blocks import matching, ratios

from .slow import slow_matching

texts = st.sampled_from(["a", "ab", "abc", "abcdefghijklmnop"]).flatmap(
    lambda signs: st.tuples(*[st.text(st.sampled_from(signs), max_size=24)] * 2)
)


@given(texts)
@settings(max_examples=400)
def test_the_count_is_difflibs(pair: tuple[str, str]) -> None:
    a, b = pair
    assert matching(a, b) == slow_matching(a, b)


@given(st.text(st.sampled_from("abcd"), max_size=30), st.data())
def test_edited_copies(a: str, data: st.DataObject) -> None:
    b = list(a)
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(b)))
        if data.draw(st.booleans()):
            del b[place : place + data.draw(st.integers(0, 3))]
        else:
            b[place:place] = data.draw(st.text(st.sampled_from("abcd"), max_size=3))
    assert matching(a, "".join(b)) == slow_matching(a, b)


def hard_pairs() -> dict[str, tuple[str, str]]:
    rng = random.Random(5)
    shared = "".join(chr(0x400 + i) for i in range(100))
    return {
        "two letters": ("".join(rng.choices("ab", k=120)), "".join(rng.choices("ab", k=120))),
        "one letter": ("a" * 120, "a" * 119),
        "period": ("ab" * 60, "ba" * 60),
        "one against two": ("a" * 80, "ab" * 60),
        "single blocks": ("".join(s + "x" for s in shared), "".join(s + "y" for s in shared)),
        "staircase": ("".join("a" * n + "x" for n in range(14)), "".join("a" * n + "y" for n in range(14))),
        "reversed": (shared, shared[::-1]),
        "thue": tuple(  # type: ignore[dict-item]
            "".join("ab"[i.bit_count() % 2 ^ flip] for i in range(128)) for flip in (0, 1)
        ),
        "wide": ("".join(map(chr, range(0xD700, 0xD800))), "".join(map(chr, range(0xE000, 0xE080)))),
    }


@pytest.mark.parametrize("name", hard_pairs())
def test_hard_pairs(name: str) -> None:
    a, b = hard_pairs()[name]
    assert matching(a, b) == slow_matching(a, b)
    assert matching(b, a) == slow_matching(b, a)


PAIRS = [
    ("abcb", "bcab"),
    ("", ""),
    ("a", ""),
    ("ab" * 20, "ba" * 20),
    ("a", "a"),
    ("ab", "cd"),
    *hard_pairs().values(),
]


def test_ratios_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import difflib

    monkeypatch.setattr(blocks, "_library", lambda: None)
    expected = [difflib.SequenceMatcher(None, a, b, autojunk=False).ratio() for a, b in PAIRS]
    assert ratios(PAIRS) == expected
    assert ratios([]) == []


def test_ratios_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("difflib_fast", reason="the compiled ratio is an extra")
    compiled = ratios(PAIRS)
    monkeypatch.setattr(blocks, "_library", lambda: None)
    assert compiled == ratios(PAIRS)
