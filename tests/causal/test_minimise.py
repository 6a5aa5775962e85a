from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.causal.minimise import Minimiser, ddmin, minimise
from afnb.errors import ParameterError


def judge_of(vector):
    table, any_of = vector.get("table"), vector.get("any_of", [])

    def judge(subset):
        if table is not None:
            return table[",".join(map(str, subset))]
        return "recovered" if any(set(a) <= set(subset) for a in any_of) else vector["default"]

    return judge


def test_every_vector_in_the_exact_order_of_questions(vectors):
    seen = 0
    for vector in vectors("ddmin"):
        asked, judge = [], judge_of(vector)
        search = Minimiser(vector["n"])
        while search.question is not None:
            asked.append(list(search.question))
            search.answer(judge(search.question))
        expect, found = vector["expect"], search.result
        assert found is not None
        assert asked == expect["calls"]
        assert found.questions == len(asked)
        assert found.kind == expect["reduction"]
        assert (None if found.subset is None else list(found.subset)) == expect["subset"]
        seen += 1
    assert seen > 100


def test_remembering_asks_nothing_twice_and_ends_alike(vectors):
    saved = 0
    for vector in vectors("ddmin"):
        asked, judge = [], judge_of(vector)
        found = minimise(vector["n"], lambda s, asked=asked, judge=judge: asked.append(s) or judge(s))
        assert len(set(asked)) == len(asked)
        assert found.kind == vector["expect"]["reduction"]
        assert (None if found.subset is None else list(found.subset)) == vector["expect"]["subset"]
        saved += len(vector["expect"]["calls"]) - len(asked)
    assert saved > 0


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1)))
)
def test_one_needed_set_is_found_exactly(case):
    n, needed = case
    found = minimise(n, lambda s: "recovered" if needed <= set(s) else "not_recovered")
    assert found.kind == "minimized"
    assert set(found.subset) == needed


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 8), st.randoms(use_true_random=False))
def test_the_result_recovers_and_no_single_step_can_be_dropped(n, rng):
    known = {tuple(range(n)): "recovered"}

    def judge(subset):
        assert subset
        return known.setdefault(subset, rng.choice(["recovered", "not_recovered", "unverified"]))

    found = minimise(n, judge)
    assert known[found.subset] == "recovered"
    if len(found.subset) > 1:
        for dropped in found.subset:
            rest = tuple(index for index in found.subset if index != dropped)
            assert known[rest] != "recovered"


def test_a_full_set_without_verdict_is_inconclusive():
    assert minimise(3, lambda s: "unverified").kind == "inconclusive"
    assert minimise(3, lambda s: "not_recovered").kind == "persisted"
    assert minimise(0, lambda s: "recovered").questions == 0


def test_answers_are_checked():
    search = Minimiser(1)
    with pytest.raises(ParameterError, match="maybe"):
        search.answer("maybe")
    search.answer("recovered")
    assert search.result.subset == (0,)
    with pytest.raises(ParameterError, match="no question"):
        search.answer("recovered")
    with pytest.raises(ParameterError, match="-1"):
        next(ddmin(-1))


@given(st.integers(1, 8), st.data())
@settings(max_examples=80)
def test_inferring_ends_alike_where_parts_of_failing_sets_fail_and_asks_less(n, data):
    """With a verdict that only larger sets improve, nothing is lost by not asking."""
    sets = st.sets(st.integers(0, n - 1), min_size=1)
    enough = data.draw(st.lists(sets, min_size=1, max_size=3))

    def walk(*, infer):
        asked = []
        search = Minimiser(n, remember=True, infer=infer)
        while search.question is not None:
            asked.append(set(search.question))
            recovers = any(need <= set(search.question) for need in enough)
            search.answer("recovered" if recovers else "not_recovered")
        return search.result.subset, asked

    plain, asked_plain = walk(infer=False)
    inferred, asked = walk(infer=True)
    assert inferred == plain
    assert len(asked) <= len(asked_plain)
    failed = []
    for subset in asked:
        assert not any(subset <= earlier for earlier in failed)
        if not any(need <= subset for need in enough):
            failed.append(subset)


def test_inferring_takes_unverified_for_nothing():
    asked = []
    search = Minimiser(4, remember=True, infer=True)
    while search.question is not None:
        asked.append(search.question)
        search.answer("recovered" if len(search.question) == 4 else "unverified")
    assert (0,) in asked
    assert (0, 1) in asked
