"""Planted runs: recordings as scripted, an agent that repeats them, exact rates that replays agree with."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from typing import Any

import pytest

import afnb
from afnb.align.diff import diff
from afnb.causal.oracles import as_oracle
from afnb.core.arm import Arm
from afnb.core.steps import run_from_cassette
from afnb.errors import ParameterError
from afnb.experiments.recordings import compiled_arms, setting_of
from afnb.experiments.replay import Job, derive_seed
from afnb.io.simulated import SimulatedUpstream
from afnb.testing.planted import (
    TOOL,
    Plan,
    PlantedAgent,
    PlantedModel,
    Turn,
    read_plan,
    record_pair,
    said_in,
    succeeded,
)
from afnb.testing.planted_truth import drop_curve, effect_of, recovery_rate

PLAIN = Plan((Turn(), Turn("style"), Turn("cause", 0.4), Turn("echo")), clean=0.9, faulty=0.2)


@pytest.mark.parametrize("shape", ["openai.chat", "anthropic.messages"])
@pytest.mark.parametrize("tools", [False, True])
def test_recordings_say_what_the_script_says(shape: str, tools: bool) -> None:
    plan = Plan(PLAIN.turns, shape=shape, tools=tools, paraphrase=True, busy=0.4)
    for run, script in zip(record_pair(plan, 3), (plan.bad_script, plan.good_script), strict=True):
        steps = [step for step in run_from_cassette(run).steps if step.kind == "llm"]
        assert "".join(said_in(step.outputs["text"]) or "?" for step in steps) == script
        assert [step.idx for step in steps] == [plan.step_of(turn) for turn in range(5)]
    assert plan.bad_script == "abbb-"


def test_a_wrong_choice_makes_its_tool_fail() -> None:
    plan = Plan(PLAIN.turns, tools=True)
    bad, good = (run_from_cassette(run) for run in record_pair(plan))
    states = [[s.outputs["status"] for s in run.steps if s.kind == "tool"] for run in (bad, good)]
    assert states == [["done", "failed", "failed", "failed"], ["done"] * 4]


def arms_of(plan: Plan, turns: list[int], seed: int) -> tuple[Any, list[tuple[str, Arm, float]]]:
    """What replays a plan, and every arm of grafting these turns with its exact rate."""
    bad, good = record_pair(plan, seed)
    grafts = [afnb.Graft(plan.step_of(turn)) for turn in turns]
    arms: Any = compiled_arms(grafts, bad, good, diff(bad, good))
    agent = afnb.Function(PlantedAgent(plan))
    upstream = SimulatedUpstream(PlantedModel(plan), seed=seed)
    setting = setting_of(bad, agent, upstream, as_oracle(succeeded), None, [TOOL])
    whole = effect_of(plan, turns)
    found = [("patch", arms.patch, whole.patch), ("control", arms.control, whole.control)]
    for turn in turns if len(turns) > 1 else ():
        found.append(
            (f"without {turn}", arms.without(plan.step_of(turn)), effect_of(plan, turns, turn).control)
        )
    return setting, found


def turns(kinds: str, wrong: float = 0.5) -> tuple[Turn, ...]:
    names: dict[str, Any] = {"p": "plain", "s": "style", "c": "cause", "e": "echo", "k": "carry"}
    return tuple(Turn(names[kind], wrong) for kind in kinds)


AGREEING = {
    "two causes, repairs, paraphrase": (
        Plan(turns("sscsec", 0.6), clean=0.9, faulty=0.1, repair=0.2, paraphrase=True),
        [1, 5],
    ),
    "either of two, tools that fail by themselves": (
        Plan(turns("scscs", 0.7), clean=0.9, faulty=0.0, needs="any", tools=True, flaky=0.1, told=True),
        [1, 3],
    ),
    "a statement that carries, crashes": (
        Plan(turns("scekes", 0.3), clean=0.8, faulty=0.3, crash=0.06, shape="anthropic.messages"),
        [3],
    ),
    "the closing answer, requests asked again": (
        Plan(turns("scs"), clean=0.7, faulty=0.2, told=True, busy=0.3),
        [1, 3],
    ),
}


@pytest.mark.parametrize("name", AGREEING)
def test_exact_rates_are_those_of_replays(name: str) -> None:
    plan, grafted = AGREEING[name]
    setting, arms = arms_of(plan, grafted, 5)
    for arm_name, arm, exact in arms:
        role: Any = "patch" if arm_name == "patch" else "control"
        jobs = [Job(arm, role, i, derive_seed(1, name, arm_name, i)) for i in range(90)]
        seen = Counter(setting.run(job, None, None).recovery for job in jobs)
        n = seen["recovered"] + seen["not_recovered"]
        assert n >= 40
        error = max(math.sqrt(exact * (1 - exact) / n), 0.5 / n)
        assert abs(seen["recovered"] / n - exact) <= 4 * error, (arm_name, exact, seen)


def test_effects_of_single_turns() -> None:
    effects = {turn: effect_of(PLAIN, [turn]).effect for turn in range(1, 5)}
    assert effects == {1: 0.0, 2: pytest.approx(0.7), 3: 0.0, 4: 0.0}
    assert effect_of(PLAIN, [2]).at_least(0.7)
    assert effect_of(PLAIN, [3]).none
    assert drop_curve(PLAIN) == pytest.approx([0.62, 0.62, 0.62, 0.2, 0.2, 0.2])


def test_an_agent_crashes_and_hangs_as_planned() -> None:
    crashing = Plan(PLAIN.turns, crash=1.0)
    bad, _ = record_pair(crashing)  # recordings are calm
    with pytest.raises(afnb.AfnbError, match="planted: the agent crashed"):
        afnb.what_if(
            bad,
            afnb.Resample(2),
            agent=PlantedAgent(crashing),
            upstream=SimulatedUpstream(PlantedModel(crashing)),
            oracle=succeeded,
            progress=False,
        )


def test_plans_are_checked_and_come_from_json() -> None:
    with pytest.raises(ParameterError, match="between 0 and 1"):
        Plan(PLAIN.turns, clean=1.2)
    with pytest.raises(ParameterError, match="needs tools"):
        Plan(PLAIN.turns, flaky=0.1)
    with pytest.raises(ParameterError, match="turns"):
        Plan(())
    with pytest.raises(ParameterError, match="grafted turns"):
        effect_of(PLAIN, [1], 2)
    with pytest.raises(ParameterError, match="0 to 4"):
        recovery_rate(PLAIN, through=9)
    assert read_plan('{"turns": [{"kind": "cause", "wrong": 1}], "told": true}').told
    assert pickle.loads(pickle.dumps(PlantedAgent(PLAIN))) == PlantedAgent(PLAIN)
