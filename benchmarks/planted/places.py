"""``locate`` on planted runs: the twenty-step policy, and one drop among twenty or two hundred answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import afnb
from afnb.testing.planted import Plan, Turn
from afnb.testing.planted_truth import drop_curve
from benchmarks.planted.measure import RULES, Row, now, recordings, settings, timed
from benchmarks.planted.scenarios import policy_plan


@dataclass(frozen=True)
class Case:
    """One drop among ``n`` answers: rate ``before`` it, ``after`` it."""

    n: int
    before: float
    after: float
    mode: Literal["bisect", "curve"]
    seeds: int

    @property
    def name(self) -> str:
        """For the tables."""
        return f"{self.mode} {self.n} {self.before:g} {self.after:g}"

    def plan(self, cause: int) -> Plan:
        """The plan whose recovery rate drops at a turn, from ``before`` to ``after``.

        The closing answer carries the outcome, so that the recording itself fails whenever it is replayed.
        """
        wrong = (1.0 - self.before) / (1.0 - self.after)
        turns = tuple(Turn("cause", wrong) if t == cause else Turn() for t in range(self.n - 1))
        return Plan(turns, clean=1.0, faulty=self.after, told=True)


CASES = (
    Case(20, 1.0, 0.0, "bisect", 30),
    Case(20, 0.9, 0.1, "bisect", 30),
    Case(20, 0.6, 0.1, "bisect", 30),
    Case(20, 0.9, 0.1, "curve", 3),
    Case(200, 1.0, 0.0, "bisect", 10),
    Case(200, 0.9, 0.1, "bisect", 10),
)


def located(plan: Plan, name: str, seed: int, cause: int, mode: Literal["bisect", "curve"]) -> Row:
    """One ``locate``, and what was true."""
    bad, _ = recordings(plan, seed)
    options = settings(plan, name, seed, RULES["sequential"])
    clock = now()
    found = afnb.locate(bad, mode=mode, **options)
    spent = timed(clock)
    curve = drop_curve(plan)
    turn = None if found.step is None else plan.turn_of(found.step)
    drop = 0.0 if turn is None else curve[turn] - curve[turn + 1]
    named = found.verdict == "recovered" and found.label == "verified"
    return {
        "claim": found.verdict,
        "label": found.label,
        "kind": found.kind,
        "reason": found.reason,
        "turn": turn,
        "planted": cause,
        "drop": drop,
        "exact": named and turn == cause,
        "within_1": turn is not None and abs(turn - cause) <= 1,
        "elsewhere": named and turn != cause,
        "false_recovered": named and drop <= 1e-9,
        "false_not_recovered": found.verdict == "not_recovered" and drop >= 0.5 - 1e-9,
        "covered": found.credible is not None
        and plan.turn_of(found.credible[0]) <= cause <= plan.turn_of(found.credible[1]),
        "replays": found.replays_used,
        "live_calls": found.live_calls_used,
        **spent,
    }


def rows(case: Case, seed: int) -> list[Row]:
    """One drop, at a place that the seed chooses."""
    cause = (7 * seed + 3) % (case.n - 1)
    row = located(case.plan(cause), f"locate {case.name}", seed, cause, case.mode)
    return [{"n": case.n, "before": case.before, "after": case.after, "mode": case.mode, "seed": seed, **row}]


def policy_rows(wrong: float, repair: float, seed: int) -> list[Row]:
    """The twenty-step policy, without the good run."""
    plan = policy_plan(wrong, repair)
    row = located(plan, f"policy {wrong:g} {repair:g}", seed, 12, "bisect")
    return [{"verb": "locate", "chance": wrong, "repair": repair, "seed": seed, **row}]
