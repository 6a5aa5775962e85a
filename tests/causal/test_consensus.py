"""The machines: what they consume, in which order, and what a lost replay does."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.causal.consensus import SEARCH, MajorityConsensus, SequentialConsensus
from afnb.causal.decision import ARMS, OUTCOME_KINDS
from afnb.causal.planning import rates, simulate
from afnb.errors import ParameterError

R, N, B, A = OUTCOME_KINDS
RULE = SequentialConsensus()


def feed_all(rule, patch, control):
    """Feed whole streams, patch first; entries are kinds or (kind, reason)."""
    state = rule.start()
    for arm, stream in (("patch", patch), ("control", control)):
        for index, entry in enumerate(stream):
            kind, reason = entry if isinstance(entry, tuple) else (entry, "")
            state.feed(arm, index, kind, reason)
    return state


def serial(rule, world):
    """One replay at a time: always the one the machine asks for first."""
    state = rule.start()
    while state.decision is None:
        wanted = state.wanted(1)[0]
        state.feed(wanted.arm, wanted.index, *world(wanted.arm, wanted.index))
    return state.decision


def parallel(rule, world, workers, rng):
    """``workers`` replays in flight, finishing in random order. Returns the decision and what was started."""
    state, running, started = rule.start(), [], set()
    while state.decision is None:
        for wanted in state.wanted(workers):
            key = (wanted.arm, wanted.index)
            if len(running) < workers and key not in started:
                started.add(key)
                running.append(key)
        arm, index = running.pop(rng.randrange(len(running)))
        state.feed(arm, index, *world(arm, index))
    return state.decision, started


def random_world(seed, p, q, before, after):
    def world(arm, index):
        rng = random.Random(f"{seed}/{arm}/{index}")
        return rates(p, q, lost_before=before, lost_after=after)(rng, arm, index)

    return world


def test_a_clean_cause_takes_six_replays():
    decision = feed_all(RULE, [R] * 5, [N] * 5).decision
    assert (decision.verdict, decision.label, decision.stopped) == ("recovered", "verified", "evidence")
    assert decision.used == (
        ("patch", 0),
        ("control", 0),
        ("patch", 1),
        ("control", 1),
        ("patch", 2),
        ("control", 2),
    )
    assert decision.e_recovered >= 20 > decision.blocks[1].e_recovered
    assert decision.threshold == 20
    assert [block.lazy for block in decision.blocks] == [True, False, False]


def test_two_blocks_never_suffice():
    assert feed_all(RULE, [R, R], [N, N]).decision is None


def test_no_control_is_run_while_the_patch_keeps_failing():
    decision = feed_all(RULE, [N] * 6, []).decision
    assert (decision.verdict, decision.label, decision.replays) == ("not_recovered", "verified", 5)
    assert decision.control.conclusive == 0
    assert decision.e_not_recovered >= 20


def test_controls_are_consecutive_even_after_lazy_blocks():
    decision = feed_all(RULE, [N, N, R, R, R, R, R], [N] * 7).stop("look")
    assert [key for key in decision.used if key[0] == "control"][:3] == [("control", i) for i in range(3)]
    assert decision.used[:4] == (("patch", 0), ("patch", 1), ("patch", 2), ("control", 0))


def test_the_cap_counts_replays_as_the_rule_does():
    decision = feed_all(RULE, [R, N] * 20, [N, N, R] * 20).decision
    assert (decision.verdict, decision.stopped) == ("unverified", "max_replays")
    assert decision.replays == 40
    odd = feed_all(RULE, [N, *[R, N] * 20], [N, N, R] * 20).decision
    assert (odd.verdict, odd.replays) == ("unverified", 39)  # a 40th could not be paired
    assert feed_all(SequentialConsensus(max_replays=6), [R] * 9, [N] * 9).decision.verdict == "recovered"
    short = feed_all(SequentialConsensus(max_replays=5), [R] * 9, [N] * 9).decision
    assert (short.verdict, short.replays) == ("unverified", 4)
    assert "5 replays" in short.reason


def test_smaller_alpha_needs_more():
    def replays(alpha, patch):
        return simulate(SequentialConsensus(alpha=alpha), rates(patch, 0.0), seed=0).replays

    assert [replays(alpha, 1.0) for alpha in (0.05, 0.0421, 0.042, 0.025, 0.01, 0.005)] == [
        6,
        6,
        8,
        8,
        10,
        10,
    ]
    assert [replays(alpha, 0.0) for alpha in (0.05, 0.025, 0.01, 0.005)] == [5, 6, 8, 9]
    assert RULE.split(2) == SequentialConsensus(alpha=0.025)


# -- order of arrival ------------------------------------------------------------------------------


worlds = st.builds(
    random_world,
    seed=st.integers(0, 10_000),
    p=st.sampled_from([0.0, 0.3, 0.6, 0.9, 1.0]),
    q=st.sampled_from([0.0, 0.1, 0.6, 1.0]),
    before=st.sampled_from([0.0, 0.2, 0.5]),
    after=st.sampled_from([0.0, 0.1, 0.3]),
)
rules = st.sampled_from(
    [RULE, SEARCH, RULE.split(3), SequentialConsensus(min_effect=0.3, max_replays=25), MajorityConsensus(5)]
)


@settings(max_examples=120, deadline=None)
@given(rules, worlds, st.integers(1, 9), st.randoms(use_true_random=False))
def test_arrival_order_and_workers_change_nothing(rule, world, workers, rng):
    alone = serial(rule, world)
    decision, started = parallel(rule, world, workers, rng)
    assert decision == alone
    assert {(c.arm, c.index) for c in decision.consumed} <= started


@settings(max_examples=60, deadline=None)
@given(rules, worlds, st.integers(1, 9), st.randoms(use_true_random=False))
def test_what_is_certain_is_consumed_and_the_first_is_what_it_waits_for(rule, world, workers, rng):
    """Without losses every certain replay ends up consumed; nothing is listed twice or after being fed."""
    lossless = lambda arm, index: (world(arm, index)[0].replace(B, N).replace(A, N), "")  # noqa: E731
    state, promised, fed = rule.start(), set(), set()
    while state.decision is None:
        wanted = state.wanted(workers)
        keys = [(w.arm, w.index) for w in wanted]
        assert keys
        assert len(keys) <= workers
        assert len(set(keys)) == len(keys)
        assert not fed & set(keys)
        assert wanted[0].certain
        for arm in ARMS:
            indices = [index for a, index in keys if a == arm]
            assert indices == sorted(indices)
        promised |= {(w.arm, w.index) for w in wanted if w.certain}
        arm, index = keys[0] if rng.random() < 0.5 else rng.choice(keys)
        fed.add((arm, index))
        state.feed(arm, index, *lossless(arm, index))
    assert promised <= {(c.arm, c.index) for c in state.decision.consumed}
    assert state.wanted(workers) == []


def test_serial_use_starts_nothing_that_is_not_consumed():
    for seed in range(30):
        world = random_world(seed, 0.7, 0.3, 0.2, 0.1)
        decision, started = parallel(RULE, world, 1, random.Random(0))
        assert started == {(c.arm, c.index) for c in decision.consumed}


def test_no_more_is_wanted_than_the_cap_allows():
    state = SequentialConsensus(max_replays=8).start()
    state.feed("patch", 0, R)
    wanted = state.wanted(100)
    assert [w.index for w in wanted if w.arm == "control"] == [0, 1, 2, 3]
    assert [w.index for w in wanted if w.arm == "patch"] == [1, 2, 3]


def test_feeding_after_the_decision_changes_nothing():
    state = feed_all(RULE, [R] * 3, [N] * 3)
    before = state.decision
    state.feed("patch", 3, N)
    assert state.decision is before
    assert state.stop("too late") is before


def test_feeding_twice():
    state = RULE.start()
    state.feed("patch", 0, R)
    state.feed("patch", 0, R)
    with pytest.raises(ParameterError, match="was recovered before and is not_recovered now"):
        state.feed("patch", 0, N)
    with pytest.raises(ParameterError, match="'treatment'"):
        state.feed("treatment", 0, N)
    with pytest.raises(ParameterError, match="'ok'"):
        state.feed("patch", 1, "ok")
    with pytest.raises(ParameterError, match="-1"):
        state.feed("patch", -1, R)


def test_stopping_from_outside():
    state = RULE.start()
    state.feed("patch", 0, R)
    state.feed("control", 1, R)
    decision = state.stop("the budget of 3 live calls is spent")
    assert (decision.verdict, decision.label, decision.stopped) == ("unverified", "Unverified", "stopped")
    assert decision.reason == "the budget of 3 live calls is spent"
    assert [(c.arm, c.index) for c in decision.consumed] == [("patch", 0)]
    assert decision.e_recovered == 1.0


# -- lost replays ------------------------------------------------------------------------------------


def test_lost_before_is_discarded_and_the_next_takes_its_place():
    decision = feed_all(RULE, [R, B, R, R], [B, N, N, N]).decision
    assert (decision.verdict, decision.replays) == ("recovered", 8)
    assert decision.discarded == (("control", 0), ("patch", 1))
    assert [key for key in decision.used if key[0] == "patch"] == [("patch", 0), ("patch", 2), ("patch", 3)]
    clean = feed_all(RULE, [R] * 3, [N] * 3).decision
    assert [block.code for block in decision.blocks] == [block.code for block in clean.blocks]
    assert decision.patch.lost_before == decision.control.lost_before == 1


def test_lost_after_counts_against_the_claim():
    state = feed_all(RULE, [R, (A, "timeout"), R, R, R], [N] * 5)
    decision = state.decision
    clean = feed_all(RULE, [R] * 3, [N] * 3).decision
    assert decision is None or decision.replays > clean.replays
    worst = feed_all(RULE, [R, N], [N, N])
    lost = feed_all(RULE, [R, A], [N, N])
    lost_e = lost.stop("look").blocks[1].e_recovered
    assert lost_e == pytest.approx(worst.stop("look").blocks[1].e_recovered)


def test_a_patch_lost_after_in_a_lazy_block_asks_no_control_and_stays_lazy():
    decision = feed_all(RULE, [A, N], []).stop("look")
    first, second = decision.blocks
    assert (first.lazy, first.patch, first.control) == (True, None, None)
    assert second.lazy
    assert first.e_recovered == pytest.approx((0.1024 + 0.4737 + 0.3526) / 3, abs=1e-3)
    assert first.e_not_recovered == pytest.approx(0.65 * 0.04 + 0.35 * 0.5)
    assert decision.patch.lost_after == 1
    assert [c.block for c in decision.consumed] == [0, 1]


def test_a_timeout_is_a_failure_only_if_said_beforehand():
    strict = SequentialConsensus(timeout_is_failure=True)
    decision = feed_all(strict, [(A, "timeout")] * 5, []).decision
    assert (decision.verdict, decision.patch.not_recovered, decision.lost) == ("not_recovered", 5, ())
    plain = feed_all(RULE, [(A, "timeout")] * 5, []).decision
    assert (plain.verdict, plain.stopped) == ("unverified", "inconclusive")
    other = feed_all(strict, [(A, "oracle_raised")], []).stop("look")
    assert other.patch.lost_after == 1
    before = feed_all(strict, [(B, "timeout")], []).stop("look")
    assert before.patch.lost_before == 1


def test_it_gives_up_when_an_arm_says_nothing():
    decision = feed_all(RULE, [(B, "agent crashed")] * 3 + [(B, "timeout")] * 3, []).decision
    assert (decision.verdict, decision.stopped, decision.replays) == ("unverified", "inconclusive", 5)
    assert "first 5 patch replays" in decision.reason
    assert "agent crashed" in decision.reason
    decision = feed_all(RULE, [R] * 3, [(B, "provider down")] * 6).decision
    assert decision.stopped == "inconclusive"
    assert "control" in decision.reason
    assert "provider down" in decision.reason


def test_no_verdict_while_more_than_half_are_lost():
    lossy = [B, B, B, R, B, B, B, B, R, R]
    state = feed_all(RULE, lossy, [N] * 10)
    assert state.decision is None  # 3 clean blocks, but 7 of 13 replays said nothing
    state.feed("patch", 10, R)
    assert state.decision.verdict == "recovered"
    assert (len(state.decision.lost), state.decision.replays) == (7, 15)


def test_more_than_half_lost_at_the_cap():
    rule = SequentialConsensus(max_replays=12)
    state = feed_all(rule, [R, B, B, B, B, (B, "flaky"), B, B, R], [N, N, N])
    assert (state.decision.stopped, state.decision.replays) == ("inconclusive", 9)
    assert "7 of 9" in state.decision.reason


def test_sensitivity_both_ways():
    decision = feed_all(RULE, [R, B, R, R], [N, N, N]).decision
    sensitivity = decision.sensitivity
    assert sensitivity.if_for == "recovered"
    assert sensitivity.if_against == "undecided"
    assert sensitivity.changes
    firm = feed_all(RULE, [N, N, (B, "x"), N, N, N], []).decision
    assert (firm.verdict, firm.replays) == ("not_recovered", 6)
    assert firm.sensitivity.if_against == "not_recovered"
    assert firm.sensitivity.if_for == "undecided"  # the recovery would have asked for a control
    assert feed_all(RULE, [R] * 3, [N] * 3).decision.sensitivity is None
    stopped = feed_all(RULE, [B, R], []).stop("budget")
    assert not stopped.sensitivity.changes


def test_bounds_show_both_denominators():
    counts = feed_all(RULE, [R, R, B, (A, "x"), N], [N, N, N]).stop("look").patch
    assert (counts.recovered, counts.conclusive, counts.lost) == (2, 3, 2)
    assert counts.rate == pytest.approx(2 / 3)
    assert counts.bounds == (2 / 5, 4 / 5)


# -- the majority ------------------------------------------------------------------------------------


def test_majority_of_the_conclusive_ones():
    rule = MajorityConsensus()
    assert feed_all(rule, [R, N, R], []).decision.verdict == "recovered"
    assert feed_all(rule, [N, N], []).decision.verdict == "not_recovered"
    assert feed_all(rule, [R, N, B], []).decision.verdict == "unverified"
    assert feed_all(rule, [A, A, R], []).decision.verdict == "recovered"
    assert feed_all(rule, [B, B, B], []).decision.verdict == "unverified"
    assert feed_all(MajorityConsensus(1), [R], []).decision.replays == 1


def test_majority_is_never_labelled_verified():
    decision = feed_all(MajorityConsensus(), [R, R], []).decision
    assert decision.label == "Unverified"
    assert decision.interval is decision.e_recovered is decision.threshold is None


def test_majority_stops_when_the_rest_cannot_change_it():
    state = MajorityConsensus(5).start()
    assert [w.certain for w in state.wanted(9)] == [True, True, True, False, False]
    for index in (2, 0, 1):
        state.feed("patch", index, R)
    assert state.decision.replays == 3


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1}, "alpha"),
        ({"alpha": "5%"}, "alpha"),
        ({"min_effect": 1.0}, "min_effect"),
        ({"min_effect": True}, "min_effect"),
        ({"max_replays": 1}, "max_replays"),
        ({"max_replays": 40.0}, "max_replays"),
    ],
)
def test_parameters_are_checked_and_named(arguments, word):
    with pytest.raises(ParameterError, match=f"{word}={next(iter(arguments.values()))!r}"):
        SequentialConsensus(**arguments)


def test_majority_parameters():
    with pytest.raises(ParameterError, match="n=0"):
        MajorityConsensus(0)
    with pytest.raises(ParameterError, match="tests"):
        RULE.split(0)
