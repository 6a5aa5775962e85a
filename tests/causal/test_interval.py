from __future__ import annotations

import random

import pytest

from afnb.causal.consensus import SequentialConsensus
from afnb.causal.evidence import block_code
from afnb.causal.interval import effect_interval, wilson
from afnb.causal.planning import rates, simulate
from afnb.errors import ParameterError


def blocks(p: float, q: float, n: int, rng: random.Random) -> list[int]:
    codes, seen = [], False
    for _ in range(n):
        x, y = int(rng.random() < p), int(rng.random() < q)
        codes.append(block_code(not seen, x, y if seen or x else None))
        seen = seen or x == 1
    return codes


@pytest.mark.parametrize(("n", "low"), [(3, -0.25), (5, 0.05), (10, 0.45), (20, 0.65)])
def test_a_clean_effect(n, low):
    assert effect_interval(blocks(1, 0, n, random.Random(0))) == (low, 1.0)


def test_nothing_recovers():
    assert effect_interval(blocks(0, 0, 10, random.Random(0))) == (-1.0, 0.35)


def test_without_blocks_everything_is_possible():
    assert effect_interval([]) == (-1.0, 1.0)


def test_lost_outcomes_only_widen():
    clean = blocks(1, 0, 8, random.Random(0))
    lossy = [*clean[:4], block_code(False, None, 0), block_code(False, 1, None), *clean[6:]]
    low, high = effect_interval(clean)
    wide_low, wide_high = effect_interval(lossy)
    assert wide_low <= low
    assert wide_high >= high


@pytest.mark.parametrize(("p", "q"), [(0.9, 0.1), (0.5, 0.5), (0.2, 0.6)])
def test_it_covers_the_true_effect(p, q):
    rng = random.Random(3)
    missed = 0
    for _ in range(60):
        low, high = effect_interval(blocks(p, q, 15, rng))
        missed += not low <= p - q <= high
    assert missed <= 3  # 5 % are allowed; the bound is far from tight


def test_mean_at_twenty_blocks():
    rng = random.Random(4)
    found = [effect_interval(blocks(0.9, 0.1, 20, rng)) for _ in range(60)]
    assert sum(low for low, _ in found) / 60 == pytest.approx(0.40, abs=0.08)
    assert sum(high for _, high in found) / 60 == pytest.approx(0.99, abs=0.03)


def test_a_decision_carries_its_interval():
    decision = simulate(SequentialConsensus(), rates(1.0, 0.0), seed=1)
    assert decision.interval == (-0.25, 1.0)
    assert decision.patch.wilson == pytest.approx((0.4385, 1.0), abs=1e-4)


def test_wilson_against_published_values():
    # Newcombe (1998), two-sided intervals for the single proportion, method 3
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)


def test_wilson_refuses_impossible_counts():
    with pytest.raises(ParameterError, match="4 of 3"):
        wilson(4, 3)
    with pytest.raises(ParameterError, match="level"):
        wilson(1, 3, 1.0)
    with pytest.raises(ParameterError, match="alpha"):
        effect_interval([], 0.0)
