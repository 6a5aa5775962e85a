"""The search inside an attribution: which steps are tried, and which questions need no replay."""

from __future__ import annotations

from typing import Any

import afnb
from afnb.io.simulated import SimulatedUpstream
from afnb.testing.planted import Plan, PlantedAgent, PlantedModel, Turn, record_pair, succeeded


def attribute(plan: Plan, **changes: Any) -> afnb.Attribution:
    bad, good = record_pair(plan)
    options: dict[str, Any] = {
        "agent": PlantedAgent(plan),
        "upstream": SimulatedUpstream(PlantedModel(plan)),
        "oracle": succeeded,
        "budget": afnb.Budget(live_calls=None),
        "n_jobs": 1,
        "progress": False,
        **changes,
    }
    return afnb.attribute(bad, good, **options)


def asked(a: afnb.Attribution) -> list[tuple[int, ...]]:
    return [e.steps for e in a.experiments_run if e.purpose in ("precondition", "search")]


def test_an_answer_that_says_the_same_in_other_ids_is_no_candidate() -> None:
    plan = Plan((Turn("cause", 0.9), Turn("style")))
    bad, good = record_pair(plan)
    bodies = [[run.exchanges[2].response.body] for run in (bad, good)]
    assert not set(bodies[0]) & set(bodies[1])  # other ids around the same words
    a = attribute(plan)
    assert [step for step, _ in a.candidates] == [0, 1]
    assert (a.label, a.origination) == ("verified", (0,))


def test_the_closing_answer_is_left_aside_while_earlier_steps_repair_the_run() -> None:
    """Both causes are needed; the closing answer alone would repair the run, and explain nothing."""
    plan = Plan((Turn("cause", 1.0), Turn("style"), Turn("cause", 1.0), Turn("style")), told=True)
    a = attribute(plan)
    assert [step for step, _ in a.candidates] == [0, 1, 2, 3, 4]
    assert asked(a)[0] == (0, 1, 2, 3)
    assert all(4 not in steps for steps in asked(a))
    assert (a.label, a.origination) == ("verified", (0, 2))


def test_the_closing_answer_is_named_where_nothing_before_it_matters() -> None:
    plan = Plan((Turn("style"), Turn("style"), Turn("style")), clean=0.1, faulty=0.1, told=True)
    a = attribute(plan)
    assert asked(a) == [(0, 1, 2), (3,)]
    assert (a.label, a.kind, a.origination) == ("verified", "repair", (3,))


def test_a_lone_closing_answer_is_a_candidate_like_any_other() -> None:
    plan = Plan((Turn("plain"),), clean=0.1, faulty=0.1, told=True)
    a = attribute(plan)
    assert asked(a) == [(1,)]
    assert a.origination == (1,)


def test_a_part_of_a_set_that_did_not_recover_is_not_asked() -> None:
    """Two causes apart: neither half recovers, so no smaller part of a half needs a replay."""
    turns = [Turn("style") for _ in range(8)]
    turns[1] = turns[6] = Turn("cause", 1.0)
    a = attribute(Plan(tuple(turns)))
    halves = [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert asked(a)[1:3] == halves
    assert not [s for s in asked(a)[3:] if any(set(s) <= set(half) for half in halves)]
    assert (a.label, a.origination) == ("verified", (1, 6))
