"""The factors of one block: the printed tables, and that no bet can be won where there is nothing to win."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.causal.evidence import (
    REFUTE_WEIGHTS,
    VERIFY_GUESSES,
    bets,
    block_code,
    d_factors,
    exp,
    full_factors,
    lazy_factors,
    log_sum,
    null_point,
)
from afnb.errors import ParameterError

FULL = {
    (0.95, 0.05): (0.19, 3.61, 0.01, 0.19),
    (0.8, 0.3): (0.7934, 2.2626, 0.2424, 0.6914),
    (0.6, 0.1): (0.4898, 2.3736, 0.1758, 0.8521),
}
LAZY = {
    (0.95, 0.05): (0.102, 3.612, 0.182),
    (0.8, 0.3): (0.474, 2.296, 0.719),
    (0.6, 0.1): (0.681, 2.228, 0.353),
}
rate = st.floats(0.0, 1.0)
inner = st.floats(0.02, 0.98)


def test_the_guesses_and_weights_of_the_rule():
    assert tuple(FULL) == VERIFY_GUESSES
    assert REFUTE_WEIGHTS == (0.65, 0.35)
    assert math.isclose(sum(map(exp, bets(0.5).verify_weights)), 1.0)
    assert math.isclose(sum(map(exp, bets(0.5).refute_weights)), 1.0)


@pytest.mark.parametrize("guess", FULL)
def test_full_factors_are_the_printed_ones(guess):
    f = full_factors(*guess, 0.0)
    assert (f.s11, f.s10, f.s01, f.s00) == pytest.approx(FULL[guess], abs=6e-5)


@pytest.mark.parametrize("guess", LAZY)
def test_lazy_factors_are_the_printed_ones(guess):
    f = lazy_factors(*guess)
    assert (f.s0, f.s10, f.s11) == pytest.approx(LAZY[guess], abs=6e-4)


def test_the_lazy_point_at_zero_has_its_closed_form():
    for a, b in VERIFY_GUESSES:
        p, q = null_point(a, b, 0.0, control_weight=a)
        assert p == q == pytest.approx((a + a * b) / (1 + a), abs=1e-12)


def test_refuting_factors_are_the_printed_ones():
    f = full_factors(0.5, 0.5, 0.5)
    assert (f.s11, f.s10, f.s01, f.s00) == pytest.approx((1.3333, 0.4444, 4.0, 1.3333), abs=5e-5)
    assert d_factors(0.02, 0.5) == pytest.approx((0.04, 1.96))


@settings(deadline=None)
@given(a=inner, b=inner, d=st.floats(-0.9, 0.9))
def test_the_null_point_solves_its_equation_on_the_boundary(a, b, d):
    p, q = null_point(a, b, d)
    assert q == pytest.approx(p - d, abs=1e-12)
    assert 0.0 < p < 1.0
    assert 0.0 < q < 1.0
    slope = (a - p) * q * (1 - q) + (b - q) * p * (1 - p)
    assert abs(slope) < 1e-9


@settings(deadline=None)
@given(a=inner, b=inner, d=st.floats(-0.9, 0.9), p=rate, q=rate)
def test_a_full_block_wins_nothing_on_the_far_side_of_its_boundary(a, b, d, p, q):
    if abs(a - b - d) < 1e-6:
        return
    f = full_factors(a, b, d)
    expected = p * q * f.s11 + p * (1 - q) * f.s10 + (1 - p) * q * f.s01 + (1 - p) * (1 - q) * f.s00
    far = p - q <= d if a - b > d else p - q >= d
    if far:
        assert expected <= 1 + 1e-7


@settings(deadline=None)
@given(a=inner, b=inner, d=st.floats(-0.9, 0.9), p=rate, q=rate)
def test_a_lazy_block_wins_nothing_where_the_effect_is_at_most_d(a, b, d, p, q):
    if a - b <= d + 1e-6 or p - q > d:
        return
    f = lazy_factors(a, b, d)
    assert (1 - p) * f.s0 + p * (1 - q) * f.s10 + p * q * f.s11 <= 1 + 1e-7


def test_the_null_grid_is_safe_for_the_rule_itself():
    grid = [k / 50 for k in range(51)]
    for guess in VERIFY_GUESSES:
        full, lazy = full_factors(*guess, 0.0), lazy_factors(*guess)
        worst_full = worst_lazy = 0.0
        for p, q in itertools.product(grid, grid):
            if p > q:
                continue
            both, only_patch = p * q, p * (1 - q)
            worst_full = max(
                worst_full,
                both * full.s11
                + only_patch * full.s10
                + (1 - p) * q * full.s01
                + (1 - p) * (1 - q) * full.s00,
            )
            worst_lazy = max(worst_lazy, (1 - p) * lazy.s0 + only_patch * lazy.s10 + both * lazy.s11)
        assert worst_full <= 1 + 1e-9
        assert worst_lazy <= 1 + 1e-9


@settings(deadline=None)
@given(d=st.floats(0.05, 0.95), share=st.floats(0.0, 0.99), p=rate, q=rate)
def test_the_d_rule_wins_nothing_where_the_effect_is_at_least_d(d, share, p, q):
    if p - q < d:
        return
    on, off = d_factors(share * d, d)
    chance = p * (1 - q)
    assert chance * on + (1 - chance) * off <= 1 + 1e-9


def test_a_lost_outcome_takes_the_smallest_factor_bet_by_bet():
    table = bets(0.5)

    def verify(*block):
        return [exp(term) for term in table.verify[block_code(*block)]]

    def refute(*block):
        return [exp(term) for term in table.refute[block_code(*block)]]

    # a patch lost in a lazy block, no control run
    assert verify(True, None, None) == pytest.approx([0.102, 0.474, 0.353], abs=6e-4)
    assert refute(True, None, None) == pytest.approx([0.04, 0.5])
    # full blocks: patch 0 and control 1 against the claim, patch 1 and control 0 against the other
    assert verify(False, None, None) == verify(False, 0, 1)
    assert refute(False, None, None) == refute(False, 1, 0)
    assert verify(False, 1, None) == verify(False, 1, 1)
    assert verify(False, None, 0) == verify(False, 0, 0)
    assert refute(False, None, 0) == refute(False, 1, 0)
    assert refute(False, 0, None)[0] == pytest.approx(1.96)
    # a control lost after a recovery in a lazy block
    assert verify(True, 1, None) == verify(True, 1, 1)
    assert refute(True, 1, None) == refute(True, 1, 0)


@pytest.mark.parametrize("min_effect", [0.1, 0.3, 0.5, 0.8, 0.95])
def test_bets_are_recomputed_for_any_min_effect(min_effect):
    table = bets(min_effect)
    strict = d_factors(0.04 * min_effect, min_effect)
    assert exp(table.refute[block_code(True, 0, None)][0]) == pytest.approx(strict[1])
    middle = full_factors(0.5, 0.5, min_effect)
    assert exp(table.refute[block_code(False, 0, 1)][1]) == pytest.approx(middle.s01)
    assert table.verify == bets(0.5).verify


def test_sums_in_logs():
    assert log_sum([math.log(2), math.log(3)]) == pytest.approx(math.log(5))
    assert log_sum([-math.inf, 0.0]) == 0.0
    assert log_sum([-math.inf, -math.inf]) == -math.inf
    assert log_sum([2000.0, 2000.0]) == pytest.approx(2000.0 + math.log(2))
    assert exp(2000.0) == math.inf


def test_bets_on_the_wrong_side_are_refused():
    with pytest.raises(ParameterError, match="above the boundary"):
        lazy_factors(0.1, 0.5)
    with pytest.raises(ParameterError, match="0 <= t < d"):
        d_factors(0.5, 0.5)


@settings(max_examples=30, deadline=None)
@given(blocks=st.lists(st.integers(0, 17), max_size=30))
def test_a_lost_outcome_never_helps(blocks):
    """Replacing known outcomes by lost ones cannot raise either product."""
    table = bets(0.5)
    for code in blocks:
        is_lazy, rest = divmod(code, 9)
        x, y = divmod(rest, 3)
        for lost in {(2, y), (x, 2), (2, 2)}:
            worse = 9 * is_lazy + 3 * lost[0] + lost[1]
            assert all(a <= b for a, b in zip(table.verify[worse], table.verify[code], strict=True))
            assert all(a <= b for a, b in zip(table.refute[worse], table.refute[code], strict=True))
