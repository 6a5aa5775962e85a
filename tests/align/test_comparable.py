from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from afnb.align.comparable import content_words
from afnb.align.diff import NotComparable, diff
from afnb.core.run import Run, Step
from afnb.io.formats.trace import read_trace

from .runs import runs

REFUND = [
    ("llm", {"text": "", "tool_calls": [{"name": "lookup_order", "arguments": {"order": 8841}}]}),
    ("lookup_order", {"status": "delivered", "category": "electronics", "price": 129.0}),
    (
        "llm",
        {"text": "The return window for electronics is thirty days, so the refund is due.", "tool_calls": []},
    ),
]
WEATHER = [
    ("llm", {"text": "", "tool_calls": [{"name": "forecast", "arguments": {"city": "Oslo"}}]}),
    ("forecast", {"sky": "cloudy", "wind": "gale", "temperature": 4.0}),
    (
        "llm",
        {"text": "Expect heavy snow tonight; drivers should keep winter tyres mounted.", "tool_calls": []},
    ),
]


def run(steps: list[tuple[str, Any]], **fields: Any) -> Run:
    return Run(
        "r", tuple(Step(i, "llm", name, outputs=outputs) for i, (name, outputs) in enumerate(steps)), **fields
    )


def test_two_tasks_are_not_comparable() -> None:
    found = diff(run(WEATHER), run(REFUND))
    assert isinstance(found, NotComparable)
    assert found.comparable is False
    assert "nothing in common" in (found.reason or "")
    assert not found.converged
    assert found.fork is not None, "what a comparison would give stays readable"
    assert found.to_json()["comparable"] is False
    assert "not comparable" in found.to_text()


@pytest.mark.parametrize("speaks_for_it", ["task", "inputs", "short", "shared word"])
def test_one_thing_that_speaks_for_it_is_enough(speaks_for_it: str) -> None:
    bad, good = run(WEATHER), run(REFUND)
    if speaks_for_it == "task":
        bad, good = run(WEATHER, task="help"), run(REFUND, task="help")
    elif speaks_for_it == "inputs":
        bad, good = (
            Run("r", (Step(0, "llm", "llm", "the same question", r.steps[0].outputs), *r.steps[1:]))
            for r in (bad, good)
        )
    elif speaks_for_it == "short":
        bad = run(WEATHER[:1])
    else:
        bad = run([*WEATHER, ("llm", {"text": "electronics"})])
    assert diff(bad, good).comparable


def test_tasks_that_differ_say_nothing() -> None:
    assert not diff(run(WEATHER, task="a"), run(REFUND, task="b")).comparable
    assert not diff(run(WEATHER), run(REFUND, task="b")).comparable


@given(runs())
def test_a_run_is_comparable_with_itself(one: Run) -> None:
    found = diff(one, one)
    assert found.comparable
    assert found.converged


@given(runs(max_steps=1), runs())
def test_short_runs_are_always_comparable(short: Run, other: Run) -> None:
    assert diff(short, other).comparable
    assert diff(other, short).comparable


@given(runs(), runs(), st.data())
def test_a_run_that_keeps_part_of_another_is_comparable(base: Run, other: Run, data: st.DataObject) -> None:
    """Heads, tails and inserted stretches of one run stay comparable with it."""
    cut = data.draw(st.integers(0, len(base)))
    kept = base.steps[:cut] if data.draw(st.booleans()) else base.steps[cut:]
    assume(len(kept) >= (len(base) + 1) // 2)
    assume(not kept or any(content_words(step) for step in kept))
    mixed = Run("m", (*kept, *other.steps) if data.draw(st.booleans()) else (*other.steps, *kept))
    assert diff(mixed, base).comparable
    assert diff(base, mixed).comparable


@given(runs(), runs())
def test_the_rule_is_the_same_both_ways_where_nothing_is_in_sync(a: Run, b: Run) -> None:
    one, two = diff(a, b), diff(b, a)
    if not any(m.in_sync(0.3) for m in (*one.moves, *two.moves)):
        assert one.comparable == two.comparable


@pytest.mark.parametrize("seed", range(20))
def test_runs_of_made_up_languages(seed: int) -> None:
    """Two vocabularies without a common word are told apart; half of one vocabulary is not another."""
    rng = random.Random(seed)

    def vocabulary(sign: str) -> list[str]:
        return [sign + "".join(rng.choices("bcdfghjklmnp", k=5)) for _ in range(60)]

    def speak(words: list[str]) -> Run:
        return run([("llm", " ".join(rng.choices(words, k=20))) for _ in range(5)])

    one, two = vocabulary("a"), vocabulary("e")
    assert not diff(speak(one), speak(two)).comparable
    assert diff(speak(one), speak([*one[:30], *two[:30]])).comparable


def test_words_of_content() -> None:
    step = Step(
        0,
        "tool",
        "Web.search2 (retry)",
        outputs={"order": "the refund of x1y2 is DUE", "n": 5, "l": ["Paris"]},
    )
    assert content_words(step) == {"web", "retry", "refund", "due", "paris"}
    assert content_words(Step(0, "llm", "llm")) == set()
    assert content_words(Step(0, "llm", "llm", outputs={"a": "x" * 700, "b": "late"})) == {"x" * 600}


def test_recorded_pairs_are_comparable(shared: Path) -> None:
    """Fifteen recorded pairs, each made of two runs of one task up to a known step."""
    seen = 0
    for path in sorted(shared.glob("public/chimera/*/a_*.json")):
        a, b = (read_trace(path.with_name(path.name.replace("a_", side))) for side in ("a_", "b_"))
        assert diff(a, b).comparable
        assert diff(b, a).comparable
        seen += 1
    assert seen >= 15
