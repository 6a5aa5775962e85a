from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from afnb.align import aligning, blocks
from afnb.align.aligning import align, align_words, check_size
from afnb.align.costs import StepCosts
from afnb.align.moves import Move
from afnb.align.params import AlignParams
from afnb.core.run import Run
from afnb.errors import ParameterError

from .parity import move_json, params_of, run_of
from .runs import Words, params, runs, word_runs
from .slow import slow_align


def bits(moves: tuple[Move, ...]) -> list[object]:
    return [(m.kind, m.good_step, m.bad_step, float(m.cost).hex(), float(m.confidence).hex()) for m in moves]


def test_align_vectors(vectors: Callable[[str], list[dict[str, Any]]]) -> None:
    wrong = []
    for vector in vectors("align"):
        if "error" in vector["expect"]:
            continue
        settings_, max_steps = params_of(vector["params"])
        moves = align(run_of(vector["a"]).steps, run_of(vector["b"]).steps, settings_, max_steps)
        if [move_json(move) for move in moves] != vector["expect"]["alignment"]:
            wrong.append(vector)
    assert wrong == []


@given(word_runs(), params)
@settings(max_examples=300)
def test_bit_equal_with_the_plain_alignment(
    pair: tuple[list[Words], list[Words]], params: AlignParams
) -> None:
    assert bits(align_words(*pair, params)) == bits(slow_align(*pair, params))


@pytest.mark.parametrize("seed", range(6))
def test_bit_equal_on_longer_runs(seed: int) -> None:
    rng = random.Random(seed)
    pool = [tuple(rng.choices("abcdefghij", k=rng.randrange(20))) for _ in range(30)]
    a = [rng.choice(pool) for _ in range(40)]
    b = [step if rng.random() < 0.7 else rng.choice(pool)[:-1] for step in a if rng.random() < 0.9]
    assert bits(align_words(a, b, AlignParams())) == bits(slow_align(a, b, AlignParams()))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_bit_equal_on_long_runs(seed: int) -> None:
    rng = random.Random(seed)
    vocabulary = [f"w{i}" for i in range(rng.choice([3, 40, 1000]))]
    pool = [tuple(rng.choices(vocabulary, k=rng.randrange(60))) for _ in range(rng.choice([10, 200]))]
    a = [rng.choice(pool) for _ in range(150)]
    b = [step if rng.random() < 0.7 else rng.choice(pool) for step in a if rng.random() < 0.9]
    assert bits(align_words(a, b, AlignParams())) == bits(slow_align(a, b, AlignParams()))


@given(runs(), runs(), params)
def test_every_step_once_and_in_order(good: Run, bad: Run, params: AlignParams) -> None:
    moves = align(good.steps, bad.steps, params)
    assert [m.good_step for m in moves if m.good_step is not None] == list(range(len(good)))
    assert [m.bad_step for m in moves if m.bad_step is not None] == list(range(len(bad)))
    for move, after in itertools.pairwise(moves):
        assert {move.kind, after.kind} != {"log", "model"}, "a gap of one side ends in a pair"
    if good.steps and bad.steps:
        assert any(move.kind == "sync" for move in moves)
    for move in moves:
        assert 0.0 <= move.confidence <= 1.0
        if move.kind == "sync":
            assert move.confidence == 1.0 - move.cost
        else:
            assert move.cost in (params.gap_open, params.gap_ext)


@given(runs(), params)
def test_a_run_is_in_sync_with_itself(run: Run, params: AlignParams) -> None:
    moves = align(run.steps, run.steps, params)
    assert all(m.kind == "sync" and m.cost == 0.0 and m.good_step == m.bad_step for m in moves)


@given(word_runs(), params)
def test_the_total_is_the_least(pair: tuple[list[Words], list[Words]], params: AlignParams) -> None:
    """Leaving everything out costs at least as much, and so does pairing along the diagonal."""
    a, b = pair
    total = sum(move.cost for move in align_words(a, b, params))
    if a and b:
        diagonal = sum(1.0 for _ in zip(a, b, strict=False))
        extra = abs(len(a) - len(b))
        diagonal += params.gap_open + (extra - 1) * params.gap_ext if extra else 0.0
        assert total <= diagonal + 1e-9


def costs_of(a: list[Words], b: list[Words]) -> tuple[StepCosts, tuple[Move, ...]]:
    made: list[StepCosts] = []

    def keep(x: Any, y: Any) -> StepCosts:
        made.append(StepCosts(x, y))
        return made[-1]

    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(aligning, "StepCosts", keep)
        moves = align_words(a, b, AlignParams())
    return made[0], moves


def different(n: int, seed: int = 7) -> tuple[list[Words], list[Words]]:
    rng = random.Random(seed)
    weights = [1 / (i + 1) for i in range(800)]
    vocabulary = [f"w{i}" for i in range(800)]
    a = [tuple(rng.choices(vocabulary, weights, k=60)) for _ in range(n)]
    b = [tuple(w if rng.random() > 0.2 else rng.choice(vocabulary) for w in step) for step in a]
    return a, b[: n // 2] + b[n // 2 + 3 :]


def test_few_cells_are_counted_exactly() -> None:
    a, b = different(120)
    costs, _ = costs_of(a, b)
    assert 0 < costs.exact_count < 0.2 * len(a) * len(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([("x", "y")] * 60, [("x", "y")] * 50),
        ([(f"a{i}",) * 9 for i in range(60)], [(f"b{i}",) * 9 for i in range(50)]),
        ([(f"w{i}", "z", f"v{i}") for i in range(60)],) * 2,
    ],
    ids=["all equal", "nothing shared", "identical"],
)
def test_runs_that_need_no_exact_count(a: list[Words], b: list[Words]) -> None:
    costs, moves = costs_of(a, b)
    assert costs.exact_count <= len(a)
    assert bits(moves) == bits(slow_align(a, b, AlignParams()))


def test_bounds_never_exceed_costs() -> None:
    import numpy as np

    a, b = different(25, seed=3)
    costs = StepCosts(a, b)
    bound, known = costs.matrix.copy(), costs.known.copy()
    costs.settle(*(index.ravel() for index in np.indices(costs.matrix.shape)))
    assert bool((bound <= costs.matrix).all())
    assert bool((bound[known] == costs.matrix[known]).all())
    assert bool(costs.known.all())


def test_the_extra_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import difflib

    a, b = different(40, seed=11)
    plain = bits(align_words(a, b, AlignParams()))
    asked: list[int] = []

    def compiled(pairs: list[tuple[str, str]], *, threads: int) -> list[float]:
        asked.append(len(pairs))
        return [difflib.SequenceMatcher(None, x, y, autojunk=False).ratio() for x, y in pairs]

    monkeypatch.setattr(blocks, "_library", lambda: compiled)
    assert bits(align_words(a, b, AlignParams())) == plain
    assert sum(asked) > 0


@pytest.mark.parametrize(("n", "m", "limit"), [(3, 2, 2), (0, 5, 4)])
def test_max_steps_is_a_guard(n: int, m: int, limit: int) -> None:
    with pytest.raises(ParameterError, match=f"max_steps is {limit} .* pass max_steps={max(n, m)} to go on"):
        check_size(n, m, limit)
    check_size(n, m, max(n, m))


def test_memory_is_the_guard_without_max_steps() -> None:
    check_size(7000, 7000, None)
    with pytest.raises(
        ParameterError, match=r"20000 with 20000 steps takes about 14\.9 GiB.*max_steps=20000"
    ):
        check_size(20_000, 20_000, None)
    check_size(20_000, 20_000, 20_000)
    check_size(10**9, 0, None)


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "9"])
def test_max_steps_must_be_a_count(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="max_steps is"):
        check_size(1, 1, wrong)
