"""Locating a drop: the posterior, the questions, the end, and that arrival order changes nothing."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.causal.bisect import Bisection
from afnb.causal.posterior import AFTER, BEFORE, PAIRS, entropy, posterior_of
from afnb.errors import ParameterError


def locate(n, chance, rng, rule=None):
    state = (rule or Bisection(n)).start()
    while state.decision is None:
        probe = state.wanted(1)[0]
        kind = "recovered" if rng.random() < chance(probe.served) else "not_recovered"
        state.feed(probe.served, probe.index, kind)
    return state.decision


def step_at(c, r, s):
    return lambda k: r if k < c else s


# (n, r, s) -> mean replays of the search, share exact (200 simulations, 120 for n = 200)
PUBLISHED = {
    (20, 1.0, 0.0): (8.7, 1.0),
    (20, 0.9, 0.1): (13, 0.99),
    (20, 0.6, 0.1): (30, 0.88),
    (50, 1.0, 0.1): (14, 1.0),
    (50, 0.9, 0.0): (13, 0.99),
}


def check_against_published(n, r, s, mean, exact, runs):
    rng, used, right, covered = random.Random(1000 * n), [], 0, 0
    for _ in range(runs):
        c = rng.randint(1, n)
        found = locate(n, step_at(c, r, s), rng)
        used.append(found.replays)
        right += found.answer == c
        covered += found.interval[0] <= c <= found.interval[1]
    spread = math.sqrt(sum((u - sum(used) / runs) ** 2 for u in used) / runs)
    error = 4 * math.hypot(spread / math.sqrt(runs), spread / math.sqrt(150))
    assert sum(used) / runs == pytest.approx(mean, abs=error + 0.5)
    assert right / runs >= exact - 4 * math.sqrt(max(exact * (1 - exact), 0.01) / runs)
    assert covered / runs >= 0.925 - 3 * math.sqrt(0.07 / runs)


@pytest.mark.parametrize("case", PUBLISHED)
def test_a_reduced_form_of_the_published_table(case):
    check_against_published(*case, *PUBLISHED[case], runs=40)


@pytest.mark.soak
@pytest.mark.parametrize(
    "case",
    [
        (20, 1.0, 0.1, 11, 1.0),
        (20, 0.9, 0.0, 10, 0.99),
        (20, 0.6, 0.0, 23, 0.92),
        (50, 1.0, 0.0, 11, 1.0),
        (50, 0.9, 0.1, 17, 0.99),
        (50, 0.6, 0.0, 29, 0.92),
        (50, 0.6, 0.1, 37, 0.85),
        (200, 1.0, 0.0, 13, 1.0),
        (200, 1.0, 0.1, 17, 0.99),
        (200, 0.9, 0.0, 16, 1.0),
        (200, 0.9, 0.1, 21, 1.0),
        (200, 0.6, 0.0, 37, 0.86),
        (200, 0.6, 0.1, 44, 0.68),
    ],
)
def test_the_published_table(case):
    check_against_published(*case, runs=200)


def test_no_drop_is_said():
    never = locate(50, lambda k: 0.0, random.Random(0))
    assert (never.ended, never.answer, never.replays) == ("no_drop", None, 10)
    assert never.nothing_to_locate
    always = locate(50, lambda k: 1.0, random.Random(0))
    assert (always.ended, always.answer, always.replays) == ("no_drop", None, 7)
    assert not always.nothing_to_locate
    assert always.flat_rate > 0.9


def test_one_answer_only():
    found = locate(1, step_at(1, 1.0, 0.0), random.Random(0))
    assert (found.answer, found.interval) == (1, (1, 1))  # likely from the start: confirmation decides


def test_counts_are_those_of_the_conclusive_replays():
    found = locate(20, step_at(13, 1.0, 0.0), random.Random(0))
    counts = found.counts()
    assert [served for served, _, _ in counts] == sorted({asked.served for asked in found.asked})
    assert all(recovered == (total if served < 13 else 0) for served, recovered, total in counts)
    assert sum(total for _, _, total in counts) == found.replays


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 30), st.integers(0, 10_000), st.integers(1, 8), st.randoms(use_true_random=False))
def test_arrival_order_and_workers_change_nothing(n, seed, workers, rng):
    c, r, s = random.Random(seed).randint(1, n), 0.9, 0.1

    def outcome(served, index):
        draw = random.Random(f"{seed}/{served}/{index}")
        if draw.random() < 0.1:
            return "lost_after", "timeout"
        return ("recovered" if draw.random() < step_at(c, r, s)(served) else "not_recovered"), ""

    rule = Bisection(n)
    alone = rule.start()
    while alone.decision is None:
        (probe,) = alone.wanted(1)
        assert probe.certain
        alone.feed(probe.served, probe.index, *outcome(probe.served, probe.index))
    state, running, started = rule.start(), [], set()
    while state.decision is None:
        probes = state.wanted(workers)
        assert probes
        assert len(probes) <= workers
        for probe in probes:
            key = (probe.served, probe.index)
            if key not in started and len(running) < workers:
                started.add(key)
                running.append(key)
        key = running.pop(rng.randrange(len(running)))
        state.feed(*key, *outcome(*key))
    assert state.decision == alone.decision
    assert {(a.served, a.index) for a in state.decision.asked} <= started


def test_lost_replays_are_asked_again_and_give_up_in_the_end():
    state = Bisection(10).start()
    for _ in range(5):
        probe = state.wanted(1)[0]
        state.feed(probe.served, probe.index, "lost_before", "agent crashed")
    assert state.decision.ended == "inconclusive"
    assert "agent crashed" in state.decision.reason
    assert state.decision.answer is None
    state = Bisection(10).start()
    first = state.wanted(1)[0]
    state.feed(first.served, first.index, "lost_after", "timeout")
    again = state.wanted(1)[0]
    assert (again.served, again.index) == (first.served, first.index + 1)


def test_stopping_names_only_what_is_likelier_than_not():
    state = Bisection(40).start()
    assert state.stop("budget").answer is None
    assert state.decision.ended == "stopped"
    assert state.wanted(3) == []


def test_the_posterior_is_a_distribution_and_follows_bayes():
    posterior = posterior_of(5, [(0, 3, 0), (3, 0, 2), (2, 2, 1)])
    assert sum(posterior.places) + posterior.no_drop == pytest.approx(1.0)
    weights = {}
    for c in range(1, 6):
        for r, s in PAIRS:
            q = [r if k < c else s for k in range(6)]
            likelihood = q[0] ** 3 * (1 - q[3]) ** 2 * q[2] ** 2 * (1 - q[2])
            weights[c] = weights.get(c, 0.0) + 0.9 / 5 / len(PAIRS) * likelihood
    flat = sum(0.01 * v**5 * (1 - v) ** 3 for v in (0.02, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.98))
    total = sum(weights.values()) + flat
    assert posterior.no_drop == pytest.approx(flat / total)
    for c in range(1, 6):
        assert posterior.places[c - 1] == pytest.approx(weights[c] / total)


def test_the_next_question_has_the_largest_mutual_information_of_its_candidates():
    posterior = posterior_of(12, [(0, 4, 0), (6, 1, 1), (9, 0, 3)])

    def information(k):
        p = posterior.recovery(k)
        inside = posterior.no_drop * entropy(posterior.flat_rate)
        for c in range(1, 13):
            row, weight = posterior.drop[c - 1], posterior.places[c - 1]
            rate = sum(w * (r if c > k else s) for w, (r, s) in zip(row, PAIRS, strict=True)) / weight
            inside += weight * entropy(rate)
        return entropy(p) - inside

    candidates = {0, posterior.mode, posterior.mode - 1}
    candidates |= {q for share in (0.2, 0.35, 0.5, 0.65, 0.8) for q in (posterior.quantile(share),)}
    candidates |= {q + 1 for share in (0.2, 0.35, 0.5, 0.65, 0.8) for q in (posterior.quantile(share),)}
    best = max(information(k) for k in candidates if k <= 12)
    assert information(posterior.next_query()) == pytest.approx(best)


def test_the_grids():
    assert all(r - s >= 0.3 - 1e-9 for r, s in PAIRS)
    assert len(PAIRS) == sum(r - s >= 0.3 - 1e-9 for r in BEFORE for s in AFTER) == 23


def test_the_credible_interval_is_the_shortest():
    posterior = posterior_of(30, [(0, 6, 0), (14, 5, 0), (15, 0, 5)])
    low, high = posterior.credible()
    total = sum(posterior.places)
    assert sum(posterior.places[low - 1 : high]) >= 0.95 * total
    for start in range(1, 31):
        for end in range(start, min(30, start + high - low - 1) + 1):
            assert sum(posterior.places[start - 1 : end]) < 0.95 * total


def test_parameters_are_checked():
    with pytest.raises(ParameterError, match="n=0"):
        Bisection(0)
    with pytest.raises(ParameterError, match="found_at"):
        Bisection(3, found_at=1.5)
    with pytest.raises(ParameterError, match="max_replays"):
        Bisection(3, max_replays=0)
    state = Bisection(3).start()
    with pytest.raises(ParameterError, match="0 to 3"):
        state.feed(4, 0, "recovered")
    with pytest.raises(ParameterError, match="'yes'"):
        state.feed(1, 0, "yes")
    state.feed(1, 0, "recovered")
    with pytest.raises(ParameterError, match="before"):
        state.feed(1, 0, "not_recovered")
    with pytest.raises(ParameterError, match="0 to 2"):
        posterior_of(2, [(3, 1, 0)])
