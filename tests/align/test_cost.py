from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.align.cost import TEXT_CHARS, cost, outputs_head, step_text, word_cost, words
from afnb.core.jsonvalue import MISSING, dumps
from afnb.core.run import Step

from .parity import run_of
from .slow import slow_cost


def step_of(value: dict[str, Any]) -> Step:
    return run_of({"schema_version": "0.1", "id": "r", "steps": [value]}).steps[0]


def spaced(text: str) -> list[str]:
    return text.split()


def test_cost_vectors(vectors: Callable[[str], list[dict[str, Any]]]) -> None:
    wrong = []
    for vector in vectors("cost"):
        a, b = step_of(vector["a"]), step_of(vector["b"])
        found = {
            "tokens_a": list(words(a)),
            "tokens_b": list(words(b)),
            "cost": cost(a, b),
            "cost_ba": cost(b, a),
        }
        if found != vector["expect"]:
            wrong.append((vector, found))
    assert wrong == []


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (MISSING, ["a", "b"]),
        (None, ["a", "b"]),
        ({}, ["a", "b"]),
        ([], ["a", "b"]),
        ("", ["a", "b"]),
        ("Café DÉJÀ \u212a ok", ["a", "b", "caf", "d", "j", "ok"]),
        ({"c": "hello\nworld"}, ["a", "b", "c", "hello", "nworld"]),
        ({"b": 1, "a": True}, ["a", "b", "a", "true", "b", "1"]),
        ([1e-05, 1.5e-05, -2e-05], ["a", "b", *spaced("0 00001 0 000015 0 00002")]),
        ([1e-07, 1e16, 129.0, 1e21], ["a", "b", *spaced("1e 7 1e 16 129 0 1e 21")]),
        ([0.0001, 1e15, -0.0, 2.5e-10], ["a", "b", *spaced("0 0001 1000000000000000 0 0 0 2 5e 10")]),
        ("x" * 700, ["a", "b", "x" * 595]),
    ],
)
def test_words(outputs: object, expected: list[str]) -> None:
    assert list(words(Step(0, "llm", "a.B", outputs=outputs))) == expected


def test_a_long_name_leaves_no_room() -> None:
    step = Step(0, "llm", "n" * 700, outputs="never read")
    assert step_text(step) == "n" * TEXT_CHARS


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@given(json_values, st.integers(0, 40))
def test_the_head_is_the_head_of_the_whole_text(value: object, limit: int) -> None:
    whole = (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    )
    assert outputs_head(value, limit) == whole[:limit]


def test_a_huge_output_is_not_written_out_whole() -> None:
    class Counting(list[int]):
        seen = 0

        def __getitem__(self, key: Any) -> Any:
            found = super().__getitem__(key)
            Counting.seen += len(found) if isinstance(key, slice) else 1
            return found

    numbers = Counting(range(1_000_000))
    assert outputs_head(numbers, 20) == "[0,1,2,3,4,5,6,7,8,9"
    assert Counting.seen < 1000
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert outputs_head(deep, 50) == "[" * 50
    huge = {"k" * 10_000: "v" * 1_000_000, "a": 10**5000}
    assert outputs_head(huge, 600) == dumps(huge)[:600] or outputs_head(huge, 600).startswith('{"a":1000')


sides = st.lists(st.sampled_from("abcde"), max_size=12).map(tuple)


@given(sides, sides)
@settings(max_examples=200)
def test_cost_is_that_of_difflib(a: tuple[str, ...], b: tuple[str, ...]) -> None:
    assert word_cost(a, b) == slow_cost(a, b)
    assert 0.0 <= word_cost(a, b) <= 1.0
    assert word_cost(a, a) == 0.0


def test_cost_is_not_symmetric() -> None:
    a, b = tuple("abcdab"), tuple("cdabcd")
    pairs = [(a, b), (tuple("aabbab"), tuple("babaab")), (tuple("abab"), tuple("baab"))]
    assert any(word_cost(x, y) != word_cost(y, x) for x, y in pairs)
