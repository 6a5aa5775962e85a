from __future__ import annotations

import re

import pytest

from afnb.causal import sentences
from afnb.causal.consensus import MajorityConsensus, SequentialConsensus
from afnb.causal.decision import Sensitivity

R, N = "recovered", "not_recovered"


def decide(patch, control, rule=None):
    state = (rule or SequentialConsensus()).start()
    for arm, kinds in (("patch", patch), ("control", control)):
        for index, kind in enumerate(kinds):
            state.feed(arm, index, kind)
    assert state.decision is not None
    return state.decision


CAUSE = decide([R] * 3, [N] * 3)
NO_CAUSE = decide([N] * 5, [])
OPEN = SequentialConsensus().start().stop("the budget of 3 live calls is spent")
MAJORITY = decide([R, R], [], MajorityConsensus())


def test_a_verified_cause():
    assert sentences.experiment_sentence(CAUSE, [7]) == (
        "With everything before step 7 as recorded and everything after it re-run, changing this answer made "
        "the run recover more often (3 of 3 against 0 of 3). Chance of saying so if it made no difference: "
        "at most 5 %."
    )


def test_a_verified_non_cause_is_not_called_innocent():
    assert sentences.experiment_sentence(NO_CAUSE, [7]) == (
        "With everything before step 7 as recorded and everything after it re-run, changing this answer "
        "raises the recovery rate by less than 50 points (error at most 5 %). A smaller effect is not "
        "excluded."
    )


def test_without_a_verdict():
    said = sentences.experiment_sentence(OPEN, [7])
    assert said == "0 replays do not decide; reason: the budget of 3 live calls is spent."
    held_back = sentences.experiment_sentence(CAUSE, [7], "unverified", "Unverified", "the self-check failed")
    assert held_back == "6 replays do not decide; reason: the self-check failed."


def test_a_majority_shows_nothing_and_says_so():
    said = sentences.experiment_sentence(MAJORITY, [7])
    assert said == "2 replays do not decide; reason: 2 of 2 recovered, no control arm."


def test_several_steps_and_a_confirmation():
    both = sentences.experiment_sentence(CAUSE, [3, 7])
    assert both.startswith(
        "With everything before step 3 as recorded and everything after step 7 re-run, changing these "
        "answers (steps 3 and 7) made"
    )
    one = sentences.experiment_sentence(CAUSE, [7], also=[3, 9])
    assert one.startswith(
        "With everything before step 3 as recorded, everything after step 9 re-run and steps 3 and 9 changed "
        "in both arms, changing this answer (step 7) made"
    )


@pytest.mark.parametrize(("tests", "shown"), [(1, "5 %"), (2, "2.5 %"), (3, "1.67 %")])
def test_the_error_bound_is_the_rules_own(tests, shown):
    decision = decide([R] * 8, [N] * 8, SequentialConsensus().split(tests))
    assert f"at most {shown}." in sentences.experiment_sentence(decision, [1])


def test_min_effect_is_the_rules_own():
    decision = decide([N] * 12, [], SequentialConsensus(min_effect=0.3))
    assert "less than 30 points" in sentences.experiment_sentence(decision, [1])


def test_attribution():
    rule = SequentialConsensus()
    repair = sentences.attribution_sentence(
        R, "verified", "repair", ["step 4 (llm)", "step 6 (tool)"], "", rule
    )
    assert repair.startswith(
        "One minimal repair: changing step 4 (llm) and step 6 (tool) made the run recover"
    )
    assert "not proof of an origin" in repair
    origin = sentences.attribution_sentence(R, "verified", "origin", ["step 4"], "", rule)
    assert "lowers the rate" in origin
    assert "not proof" not in origin
    none = sentences.attribution_sentence(N, "verified", "repair", [], "", rule)
    assert "less than 50 points (error at most 5 %)" in none
    no_rule = sentences.attribution_sentence(N, "verified", "repair", [], "")
    assert "A smaller effect is not excluded." in no_rule
    open_ = sentences.attribution_sentence("unverified", "Unverified", "repair", [], "no fork.")
    assert open_ == "The replays do not decide; reason: no fork."


def test_located():
    said = sentences.located_sentence(CAUSE, 12, (11, 13))
    assert "lowers the recovery rate (3 of 3 recovered with the tape ending before it, 0 of 3" in said
    assert "95 % credible interval steps 11 to 13" in said
    assert "by less than 50 points" in sentences.located_sentence(NO_CAUSE, 12, (1, 20))
    assert "do not decide" in sentences.located_sentence(OPEN, 12, (1, 20))


def test_sensitivity():
    assert sentences.sensitivity_sentence(None) == "No replay was lost."
    assert "against it: not recovered" in sentences.sensitivity_sentence(Sensitivity(R, R, N))


def everything_said():
    rule = SequentialConsensus()
    yield from (value for name, value in vars(sentences).items() if name.isupper() and isinstance(value, str))
    for decision in (CAUSE, NO_CAUSE, OPEN, MAJORITY):
        for steps, also in (([7], ()), ([3, 7], ()), ([7], (3,))):
            yield sentences.experiment_sentence(decision, steps, also=also)
        yield sentences.located_sentence(decision, 4, (2, 5))
    for verdict, label in ((R, "verified"), (N, "verified"), ("unverified", "Unverified")):
        for kind in ("origin", "repair"):
            yield sentences.attribution_sentence(verdict, label, kind, ["step 4"], "why", rule)
    yield sentences.deterministic_tail("patch", 3)


FORBIDDEN = r"root cause|innocent|p-value|% sure|proven|probability that step|direct effect|because of step"


def test_nothing_untrue_is_ever_said():
    said = list(everything_said())
    assert len(said) > 20
    for sentence in said:
        assert not re.search(FORBIDDEN, sentence, re.IGNORECASE), sentence
