"""plan: what something will take, before anything is started, held against what it then takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.causal.planning import forecast
from afnb.errors import ParameterError
from afnb.experiments.demo import bundled
from afnb.experiments.plan import plan
from afnb.experiments.tails import Tails
from afnb.tables.schemas import schema

sys.path.insert(0, str(Path(__file__).parent))
import chain
from planted import experiment, recording

PRICES = {"m": (10.0, 100.0)}


def test_a_what_if_takes_what_the_rule_s_forecast_says() -> None:
    for rates in ((1.0, 0.0), (0.9, 0.1), (0.8, 0.3)):
        found = plan(recording(), intervention=0, patch_rate=rates[0], control_rate=rates[1])
        exact = forecast(afnb.SequentialConsensus(), *rates)
        assert found.scenes[0].replays == pytest.approx(exact.median, abs=2)
        assert found.scenes[0].decided == pytest.approx(1 - exact.unverified, abs=0.08)
        assert found.scenes[-1].replays == 40 >= exact.most


def test_the_plan_holds_for_real_replays() -> None:
    bad = recording()
    found = plan(bad, intervention=0, budget=afnb.Budget(prices=PRICES))
    real = [
        experiment(0.9, 0.1, seed, recording=bad, budget=afnb.Budget(live_calls=None, prices=PRICES))
        for seed in range(25)
    ]
    used = sorted(e.decision.replays for e in real)[12]
    assert used == pytest.approx(found.scenes[0].replays, abs=4)
    assert max(e.decision.replays for e in real) <= found.scenes[-1].replays
    one = real[0]
    tail = Tails(bad, PRICES).after(0)
    assert tail.live_calls == one.live_calls_used / one.decision.replays == 1
    paid = sum(use.tokens for r in one.results for use in r.uses) / len(one.results)
    assert tail.input_tokens + tail.output_tokens == pytest.approx(paid, rel=0.2)
    assert tail.dollars == pytest.approx(one.dollars_spent / one.replays_spent, rel=0.2)


def test_the_tail_is_what_comes_after_the_branch_point() -> None:
    tails = Tails(chain.recording(6, 2))
    assert [tails.after(e).live_calls for e in range(-1, 6)] == [6, 5, 4, 3, 2, 1, 0]
    again = plan(chain.recording(6, 2), intervention=afnb.Resample(2), patch_rate=1.0, control_rate=0.0)
    edited = plan(chain.recording(6, 2), intervention=2, patch_rate=1.0, control_rate=0.0)
    assert again.scenes[0].cost.live_calls == 3 * 4 + 3 * 3
    assert edited.scenes[0].cost.live_calls == 6 * 3


def test_a_locate_takes_what_real_ones_take() -> None:
    tape = chain.recording(10, 4)
    found = plan(tape)
    real = [afnb.locate(tape, **chain.settings(10, 4, 0.9, 0.1, seed=seed)).replays_used for seed in range(8)]
    assert sorted(real)[4] == pytest.approx(found.scenes[0].replays, abs=8)
    assert max(real) <= found.scenes[-1].replays == 100
    curve = plan(tape, mode="curve", replays=3)
    assert curve.scenes[0].replays >= 33
    assert curve.scenes[-1].replays == 33 + 40


def test_an_attribution_takes_what_it_says() -> None:
    pair = bundled("refund")
    found = plan(pair.bad, pair.good)
    a = afnb.attribute(
        pair.bad,
        pair.good,
        agent=pair.agent,
        upstream=pair.upstream(),
        oracle=pair.oracle,
        allow_tools=pair.tools,
        progress=False,
    )
    assert a.replays_used <= found.scenes[-1].replays
    assert a.replays_used <= 3 * found.scenes[0].replays
    more = plan(pair.bad, pair.good, origin=True)
    assert more.scenes[0].replays > found.scenes[0].replays
    assert more.scenes[0].cost.live_calls > found.scenes[0].cost.live_calls


def test_runs_that_do_not_part_take_nothing() -> None:
    pair = bundled("refund")
    found = plan(pair.good, pair.good)
    assert found.scenes == ()
    assert "no replay" in found.to_text()
    assert found.stopped_by() is None


def test_a_budget_that_would_stop_it_is_said() -> None:
    tape = chain.recording(10, 4)
    small = plan(tape, budget=afnb.Budget(live_calls=10))
    assert small.stopped_by() == "10 live calls"
    assert "The budget would stop it first, at 10 live calls" in small.to_text()
    assert plan(tape, budget=afnb.Budget(live_calls=None, tokens=5)).stopped_by() == "5 tokens"
    dear = plan(tape, budget=afnb.Budget(live_calls=None, dollars=0.0001, prices=PRICES))
    assert dear.stopped_by() == "$0.0001"
    assert plan(tape, budget=afnb.Budget(live_calls=None)).stopped_by() is None


def test_dollars_need_prices() -> None:
    assert plan(recording(), intervention=0).rows()[0]["dollars"] is None
    priced = plan(recording(), intervention=0, budget=afnb.Budget(prices=PRICES))
    row = priced.rows()[0]
    assert row["dollars"] == pytest.approx((10 * row["input_tokens"] + 100 * row["output_tokens"]) / 1e6)
    assert "$" in priced.to_text()


def test_event_logs_can_be_planned_too() -> None:
    from test_log_locate import hasty, recorded

    log = recorded(hasty, 0.0)
    assert [Tails(log).after(calls - 1).live_calls for calls in range(5)] == [3, 2, 2, 1, 0]
    found = plan(log)
    assert found.scenes[0].cost.live_calls > 0
    assert found.scenes[0].cost.input_tokens > 0


def test_card_table_and_json() -> None:
    found = plan(recording(), intervention=[0, 1])
    assert found.plans.schema.equals(schema("plans"))
    assert [row["scene"] for row in found.rows()] == ["assumed", "no effect", "most"]
    told = json.loads(json.dumps(found.to_json()))
    assert (told["afnb"], told["what"]) == ("plan", "what_if")
    assert "nothing has been started" in found.to_text()
    assert found == plan(recording(), intervention=[0, 1]), "the same seed gives the same plan"
    assert len(plan(recording(), intervention=0, patch_rate=0.5, control_rate=0.5).scenes) == 2


def test_any_rule_with_a_most_can_be_planned_for_a_what_if() -> None:
    found = plan(recording(), intervention=0, consensus=afnb.MajorityConsensus(3), patch_rate=1.0)
    assert (found.scenes[0].replays, found.scenes[-1].replays) == (2, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"what": "guess"}, "what_if, attribute or locate"),
        ({"what": "what_if"}, "needs intervention"),
        ({"what": "attribute"}, "needs the good recording"),
        ({"what": "locate", "intervention": 0}, "takes no intervention"),
        ({"patch_rate": 1.5}, "patch_rate=1.5"),
        ({"control_rate": True}, "control_rate=True"),
        ({"intervention": 9}, "has 2 steps"),
        ({"intervention": "x"}, "an intervention is"),
        ({"consensus": afnb.MajorityConsensus(3)}, "SequentialConsensus only"),
        ({"mode": "guess"}, "bisect or curve"),
    ],
)
def test_wrong_arguments_are_one_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        plan(recording(), **change)
