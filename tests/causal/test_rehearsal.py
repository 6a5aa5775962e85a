"""Whole attributions and searches over a seeded coin: error rates, exactness and cost."""

from __future__ import annotations

import math
import random

import pytest

from afnb.causal.consensus import SEARCH, SequentialConsensus
from afnb.causal.rehearsal import (
    World,
    cost,
    one_cause,
    rehearse_attribution,
    rehearse_locate,
)
from afnb.errors import ParameterError


def many(n, candidates, with_cause, patched, base, after, **more):
    rng, found = random.Random(11), []
    for seed in range(n):
        cause = rng.randrange(candidates) if with_cause else None
        world = one_cause(candidates, cause, patched, base, after)
        found.append((cause, rehearse_attribution(world, seed, **more)))
    return found


def share(found, test):
    return sum(test(cause, done) for cause, done in found) / len(found)


def wrong(cause, done):
    return any(step != cause for step in done.verified)


def exact(cause, done):
    return done.verified == (cause,)


def test_no_cause_is_named_where_there_is_none():
    for rate in (0.5, 0.9):
        found = many(80, 20, False, rate, rate, rate)
        assert share(found, wrong) <= 0.05
        assert cost([done.replays for _, done in found]).mean < 50


def test_a_clear_cause_is_found_exactly_and_at_a_bounded_cost():
    found = many(60, 10, True, 0.9, 0.9, 0.1)
    assert share(found, exact) >= 0.9
    assert share(found, wrong) <= 0.02
    assert cost([done.replays for _, done in found]).mean <= 75
    sharp = many(40, 10, True, 1.0, 1.0, 0.0)
    assert share(sharp, exact) == 1.0
    assert cost([done.replays for _, done in sharp]).mean == pytest.approx(42, abs=3)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("candidates", "rates", "exactly", "replays"),
    [
        (10, (1.0, 1.0, 0.0), 1.0, 42),
        (20, (1.0, 1.0, 0.0), 1.0, 51),
        (10, (0.9, 0.9, 0.1), 0.99, 65),
        (20, (0.9, 0.9, 0.1), 0.99, 79),
    ],
)
def test_the_published_search_at_alpha_a_tenth(candidates, rates, exactly, replays):
    found = many(400, candidates, True, *rates)
    assert share(found, exact) == pytest.approx(exactly, abs=4 * math.sqrt(0.01 / 400))
    assert share(found, wrong) <= 0.02
    assert cost([done.replays for _, done in found]).mean == pytest.approx(replays, abs=5)


def test_weak_causes_name_the_wrong_step_rarely():
    found = many(60, 10, True, 0.8, 0.6, 0.3)
    assert share(found, wrong) <= 0.05


def test_two_steps_that_repair_only_together():
    needed = {2, 5}
    world = World(8, lambda subset, branch: 0.95 if needed <= set(subset) else 0.05)
    found = [rehearse_attribution(world, seed) for seed in range(30)]
    assert sum(done.verified == (2, 5) for done in found) >= 24
    assert all(set(done.verified) <= needed for done in found)
    assert all(done.replays > done.search_replays for done in found)


def test_a_looser_search_is_cheaper():
    loose = SequentialConsensus(alpha=0.2, max_replays=30)
    a = many(40, 10, True, 1.0, 1.0, 0.0, search=loose)
    b = many(40, 10, True, 1.0, 1.0, 0.0, search=SEARCH)
    assert cost([d.replays for _, d in a]).mean < cost([d.replays for _, d in b]).mean


def test_the_precondition_may_have_its_own_rule():
    strict = SequentialConsensus(alpha=0.001)
    world = one_cause(5, None, 0.5, 0.5, 0.5)
    asked = [rehearse_attribution(world, seed, precondition=strict) for seed in range(10)]
    assert all(done.found == () for done in asked)
    assert max(done.replays for done in asked) > 30


def test_locate_end_to_end():
    rng, right, used, wrong_ones = random.Random(2), 0, [], 0
    for seed in range(40):
        c = rng.randint(1, 50)
        found = rehearse_locate(50, lambda k, c=c: 0.9 if k < c else 0.1, seed)
        right += found.verified and found.answer == c
        wrong_ones += found.verified and found.answer != c
        used.append(found.replays)
    assert right >= 36
    assert wrong_ones == 0
    assert cost(used).mean == pytest.approx(27, abs=5)


def test_locate_where_nothing_drops():
    for seed in range(20):
        found = rehearse_locate(50, lambda k: 0.0, seed)
        assert (found.answer, found.verified, found.replays) == (None, False, 10)


@pytest.mark.soak
def test_locate_at_two_hundred_answers():
    rng, near, used = random.Random(7), 0, []
    for seed in range(120):
        c = rng.randint(1, 200)
        found = rehearse_locate(200, lambda k, c=c: 0.9 if k < c else 0.1, seed)
        near += found.answer is not None and abs(found.answer - c) <= 1
        used.append(found.replays)
    assert near >= 0.9 * 120
    assert cost(used).mean <= 35


def test_cost_summary():
    assert cost([4, 6]) == type(cost([1]))(5.0, 5.0, 6)
    with pytest.raises(ParameterError, match="at least one"):
        cost([])
