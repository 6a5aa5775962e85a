"""One measurement at a time, through the real engine: an agent, a transport, a tape, a simulated provider.

Every rule sees the same replays: a replay's seed depends on scenario, stage, arm and index alone.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Sequence
from typing import Any

import afnb
from afnb.causal.decision import Decision, Rule
from afnb.core.cassette import Cassette
from afnb.experiments.replay import derive_seed
from afnb.experiments.results import used_results
from afnb.io.simulated import SimulatedUpstream
from afnb.testing.planted import TOOL, Plan, PlantedAgent, PlantedModel, record_pair, succeeded
from afnb.testing.planted_truth import Effect, effect_of
from benchmarks.planted.rules import FixedFisher
from benchmarks.planted.scenarios import Scenario, cell_plan, policy_plan

RULES: dict[str, Rule] = {
    "sequential": afnb.SequentialConsensus(),
    "majority": afnb.MajorityConsensus(3),
    "fisher": FixedFisher(),
}
MIN_EFFECT = 0.5
HANG_LIMIT_S = 2.0
Row = dict[str, Any]


@functools.lru_cache(maxsize=8)
def recordings(plan: Plan, seed: int) -> tuple[Cassette, Cassette]:
    """The failing and the good run, recorded once."""
    return record_pair(plan, seed)


def settings(plan: Plan, name: str, seed: int, rule: Rule) -> dict[str, Any]:
    """What every call of the engine is given."""
    return {
        "agent": afnb.Function(PlantedAgent(plan), timeout_s=HANG_LIMIT_S if plan.hang else None),
        "upstream": SimulatedUpstream(PlantedModel(plan), seed=derive_seed(0, name)),
        "oracle": succeeded,
        "consensus": rule,
        "budget": afnb.Budget(live_calls=None),
        "allow_tools": (TOOL,),
        "seed": derive_seed(seed, name),
        "n_jobs": 4 if plan.hang else 1,
        "progress": False,
    }


def best(decision: Decision) -> tuple[float, float]:
    """The largest either e-value ever was."""
    blocks = decision.blocks
    return (
        max((block.e_recovered for block in blocks), default=1.0),
        max((block.e_not_recovered for block in blocks), default=1.0),
    )


def decided(experiment: afnb.Experiment, truth: Effect) -> Row:
    """What one experiment came to, beside what is true."""
    decision = experiment.decision
    e_recovered, e_not_recovered = best(decision)
    return {
        "patch_rate": truth.patch,
        "control_rate": truth.control,
        "effect": truth.effect,
        "verdict": experiment.verdict,
        "label": experiment.label,
        "reason": experiment.reason,
        "held_back": experiment.verdict != decision.verdict,
        "false_recovered": experiment.verdict == "recovered" and truth.none,
        "false_not_recovered": experiment.verdict == "not_recovered" and truth.at_least(MIN_EFFECT),
        "can_be_false_recovered": truth.none,
        "can_be_false_not_recovered": truth.at_least(MIN_EFFECT),
        "e_recovered": e_recovered,
        "e_not_recovered": e_not_recovered,
        "replays": decision.replays,
        "lost": decision.patch.lost + decision.control.lost,
        "live_calls": experiment.live_calls_used,
        "replays_spent": experiment.replays_spent,
        "live_calls_spent": experiment.live_calls_spent,
    }


def timed(clock: tuple[float, float]) -> Row:
    """Wall and CPU seconds since ``clock``."""
    return {
        "wall_s": round(time.monotonic() - clock[0], 4),
        "cpu_s": round(time.process_time() - clock[1], 4),
    }


def now() -> tuple[float, float]:
    """A clock for ``timed``."""
    return time.monotonic(), time.process_time()


def asked(plan: Plan, turn: int, name: str, seed: int, rule: str) -> Row:
    """One ``what_if``: graft the good run's answer of a turn."""
    bad, good = recordings(plan, seed)
    clock = now()
    found = afnb.what_if(
        bad, afnb.Graft(plan.step_of(turn)), good=good, **settings(plan, name, seed, RULES[rule])
    )
    return {**decided(found, effect_of(plan, [turn])), **timed(clock)}


def what_if_row(scenario: Scenario, turn: int, seed: int, rule: str) -> Row:
    """One ``what_if`` on one step of a scenario."""
    cause = any(turn in planted for planted in scenario.planted)
    head = {"scenario": scenario.name, "family": scenario.family, "rule": rule, "seed": seed}
    row = asked(scenario.plan, turn, scenario.name, seed, rule)
    return {**head, "turn": turn, "cause": cause, **row}


def cell_row(patch: float, control: float, seed: int) -> Row:
    """One ``what_if`` of the plainest agent at given rates."""
    name = f"cell {patch:g} {control:g}"
    row = asked(cell_plan(patch, control), 0, name, seed, "sequential")
    keep = ("verdict", "label", "effect", "e_recovered", "e_not_recovered", "replays", "live_calls")
    return {"patch": patch, "control": control, "seed": seed, **{key: row[key] for key in keep}}


def attribution_row(scenario: Scenario, seed: int, rule: str) -> Row:
    """One whole attribution of a scenario."""
    head = {"scenario": scenario.name, "family": scenario.family, "rule": rule, "seed": seed}
    found = attributed(scenario.plan, scenario.name, seed, rule, scenario.planted)
    return {**head, "candidates_as_planted": found.pop("candidates") == list(scenario.candidates), **found}


def policy_row(wrong: float, repair: float, seed: int) -> Row:
    """One attribution of the twenty-step policy."""
    plan = policy_plan(wrong, repair)
    row = attributed(plan, f"policy {wrong:g} {repair:g}", seed, "sequential", ((12,),))
    row.pop("experiments")
    return {"verb": "attribute", "chance": wrong, "repair": repair, "seed": seed, **row}


def attributed(plan: Plan, name: str, seed: int, rule: str, planted: Sequence[tuple[int, ...]]) -> Row:
    """Attribute a plan's failing run, and say what was true of it."""
    bad, good = recordings(plan, seed)
    clock = now()
    found = afnb.attribute(bad, good, **settings(plan, name, seed, RULES[rule]))
    spent = timed(clock)
    claim, named = claimed(found, plan, rule)
    candidates = [plan.turn_of(step) for step, _ in found.candidates]
    counted = [e for e in found.experiments_run if rule != "majority" or e.purpose != "confirmation"]
    used = {(r.seed, r.role): r.report.live for e in counted for r in used_results(e)}
    return {
        "candidates": candidates,
        "claim": claim,
        "label": found.label,
        "kind": found.kind,
        "reason": found.reason,
        "named": named,
        **scored(plan, claim, named, planted),
        "can_be_false_recovered": any(effect_of(plan, [turn]).none for turn in candidates),
        "replays": len(used),
        "live_calls": sum(used.values()),
        "questions": len(counted),
        **spent,
        "experiments": [experiment_row(e, plan) for e in found.experiments_run],
    }


def claimed(found: afnb.Attribution, plan: Plan, rule: str) -> tuple[str, list[int]]:
    """The claim of an attribution and the turns it names.

    The majority rule confirms nothing: its claim is the set its search ended with, or, where grafting all
    candidates did not recover, that verdict.
    """
    if rule != "majority":
        named = found.origination if found.verdict == "recovered" and found.label == "verified" else ()
        return found.verdict, [plan.turn_of(step) for step in named]
    steps = {step for e in found.confirmations for step in (*e.steps, *e.also)}
    if steps:
        return "recovered", sorted(plan.turn_of(step) for step in steps)
    first = next(iter(found.experiments_run), None)
    return ("unverified" if first is None else first.verdict), []


def scored(plan: Plan, claim: str, named: Sequence[int], planted: Sequence[tuple[int, ...]]) -> Row:
    """Whether the named turns are those that were planted, next to them, or of no effect."""

    def near(steps: tuple[int, ...]) -> bool:
        pairs = zip(sorted(named), steps, strict=True) if len(named) == len(steps) else ()
        return len(named) == len(steps) and all(abs(a - b) <= 1 for a, b in pairs)

    idle = [t for t in named if effect_of(plan, named, t if len(named) > 1 else None).none]
    return {
        "planted": [list(steps) for steps in planted],
        "exact": claim == "recovered" and tuple(sorted(named)) in planted,
        "within_1": claim == "recovered" and any(near(steps) for steps in planted),
        "false_recovered": claim == "recovered" and bool(idle),
    }


def experiment_row(experiment: afnb.Experiment, plan: Plan) -> Row:
    """One experiment inside an attribution."""
    steps = [plan.turn_of(step) for step in (*experiment.steps, *experiment.also)]
    without = plan.turn_of(experiment.steps[0]) if experiment.also else None
    row = decided(experiment, effect_of(plan, steps, without))
    for key in ("held_back", "live_calls", "replays_spent", "live_calls_spent", "reason"):
        row.pop(key)
    return {"purpose": experiment.purpose, "turns": sorted(steps), "without": without, **row}


def guesses(scenario: Scenario, seed: int) -> list[Row]:
    """What two rules of thumb name without a single replay: the last difference, and any of them."""
    rng = random.Random(derive_seed(seed, "guess", scenario.name))
    rows = []
    for rule, turn in (
        ("last-bad-step", scenario.candidates[-1]),
        ("random", rng.choice(scenario.candidates)),
    ):
        rows.append(
            {
                "scenario": scenario.name,
                "family": scenario.family,
                "rule": rule,
                "seed": seed,
                "claim": "recovered",
                "named": [turn],
                **scored(scenario.plan, "recovered", [turn], scenario.planted),
                "all_effect": scenario.all_effect.effect,
                "false_not_recovered": False,
                "can_be_false_not_recovered": scenario.all_effect.at_least(MIN_EFFECT),
                "can_be_false_recovered": any(effect.none for effect in scenario.effects.values()),
                "replays": 0,
                "live_calls": 0,
                "wall_s": 0.0,
            }
        )
    return rows
