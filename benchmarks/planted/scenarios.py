"""The design: at least two hundred planted scenarios, all drawn from one seed.

A scenario is a plan (``afnb.testing.planted``) with a name and a family. Nothing here looks at a result.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from afnb.testing.planted_plan import Kind, Plan, Turn
from afnb.testing.planted_truth import Effect, effect_of

SEED = 20_260_101
WRONG = (0.1, 0.5, 0.9)
PAIR_WRONG = (0.9, 0.95, 1.0)
"""Of two causes that only together repair a run, one must rarely come right by itself."""
SHAPES = ("openai.chat", "openai.chat", "anthropic.messages")
PLACES = ("early", "middle", "late")


@dataclass(frozen=True)
class Scenario:
    """One planted scenario.

    Parameters
    ----------
    name, family
        For people and for the tables.
    plan
        What the agent and its model do.
    place
        Where the cause stands among the candidates: early, middle, late, or ``-`` without one.
    """

    name: str
    family: str
    plan: Plan
    place: str = "-"

    @property
    def candidates(self) -> tuple[int, ...]:
        """The turns from the fork on whose recorded answers differ, be it in their words alone."""
        bad, good, last = self.plan.bad_script, self.plan.good_script, len(self.plan.turns)
        differ = [turn for turn in range(last + 1) if bad[turn] != good[turn]]
        return tuple(differ if self.plan.told or not self.plan.paraphrase else [*differ, last])

    @property
    def planted(self) -> tuple[tuple[int, ...], ...]:
        """The sets of turns of which naming one is exact: what was planted; empty where nothing was."""
        causes, last = self.plan.causes, len(self.plan.turns)
        if self.plan.clean <= self.plan.faulty and not self.plan.told:
            return ()
        if not causes:
            return ((last,),) if self.plan.told else ()
        if self.plan.clean <= self.plan.faulty:
            return ((last,),)
        return tuple((cause,) for cause in causes) if self.plan.needs == "any" else (causes,)

    @functools.cached_property
    def effects(self) -> dict[int, Effect]:
        """The exact effect of grafting each candidate alone."""
        return {turn: effect_of(self.plan, [turn]) for turn in self.candidates}

    @functools.cached_property
    def all_effect(self) -> Effect:
        """The exact effect of grafting all candidates but the closing answer, which is tried last."""
        last = len(self.plan.turns)
        return effect_of(self.plan, [turn for turn in self.candidates if turn != last] or [last])

    @property
    def probes(self) -> tuple[int, ...]:
        """The turns that ``what_if`` is asked about: the first cause, and a difference that is none."""
        causes = [turn for turn in self.plan.causes if turn in self.candidates]
        others = [turn for turn in self.candidates if turn not in causes and turn < len(self.plan.turns)]
        chosen = causes[:1] + ([others[len(self.name) % len(others)]] if others else [])
        return tuple(sorted(chosen))


def turns_of(
    rng: random.Random, count: int, causes: Sequence[int], wrong: float, *, lead: int, echo_after: int | None
) -> tuple[Turn, ...]:
    """Plain turns, then ``count`` candidates: styles up to a place, styles and echoes after it."""
    turns = [Turn() for _ in range(lead)]
    for place in range(count):
        if place in causes:
            turns.append(Turn("cause", wrong))
            continue
        after = echo_after is not None and place > echo_after
        kind: Kind = "echo" if after and rng.random() < 0.6 else "style"
        turns.append(Turn(kind))
    return tuple(turns)


def place_of(place: str, count: int) -> int:
    """The number of the candidate that stands early, in the middle, or late."""
    return {"early": 0, "middle": count // 2, "late": count - 1}[place]


def pair_of(place: str, count: int) -> tuple[int, int]:
    """Two candidates: the first two, two apart, the last two."""
    return {
        "early": (0, 1),
        "middle": (1, count - 2) if count > 3 else (0, count - 1),
        "late": (count - 2, count - 1),
    }[place]


def manner(rng: random.Random) -> dict[str, Any]:
    """What does not matter to the truth, drawn anew for each scenario."""
    return {"shape": rng.choice(SHAPES), "paraphrase": rng.random() < 0.5, "tools": rng.random() < 0.25}


class Design:
    """Collects scenarios; each draws from a generator of its own, so that adding one moves no other."""

    def __init__(self) -> None:
        self.found: list[Scenario] = []

    def add(
        self,
        family: str,
        *,
        rates: tuple[float, float],
        causes: int = 1,
        place: str = "-",
        count: int | None = None,
        carry: bool = False,
        **options: Any,
    ) -> None:
        """Add one scenario of a family."""
        number = sum(1 for scenario in self.found if scenario.family == family)
        rng = random.Random(f"{SEED}/{family}/{number}")
        count = count or rng.choice((4, 6, 10))
        options = {**manner(rng), **options}
        turns = count - bool(options.get("told") or options["paraphrase"])
        at: tuple[int, ...] = ()
        if causes == 1:
            at = (place_of(place, turns),)
        elif causes == 2:
            at = pair_of(place, turns)
        wrong = options.pop("wrong", None) or rng.choice(PAIR_WRONG if causes == 2 else WRONG)
        both = options.get("needs") == "any"
        after = None if not at else max(at) if both else min(at)
        made = turns_of(rng, turns, at, wrong, lead=rng.choice((1, 2)), echo_after=after)
        if carry:
            made = (*made, Turn("carry"), Turn("echo"))
        plan = Plan(made, clean=rates[0], faulty=rates[1], **options)
        self.found.append(Scenario(f"{family}-{number:02d}", family, plan, place))


RATES = ((1.0, 0.0), (0.9, 0.1), (0.8, 0.1), (0.8, 0.3), (0.6, 0.1), (0.5, 0.3), (0.3, 0.0), (0.9, 0.6))
HOLD = ((1.0, 0.0), (0.9, 0.1), (0.95, 0.05), (0.9, 0.0))


def basic(design: Design) -> None:
    """One cause, none, two, either of two."""
    for told, place, rates in itertools.product((False, True), PLACES, RATES):
        design.add("told" if told else "single", rates=rates, place=place, told=told)
    for count, tenth in itertools.product((4, 6, 10), range(10)):
        design.add("none", rates=(tenth / 10, tenth / 10), causes=0, count=count)
    for tenth in (1, 3, 5, 6, 7, 9):
        design.add("closing", rates=(tenth / 10, tenth / 10), causes=0, told=True)
    doubles = ((1.0, 0.0), (0.9, 0.1), (0.8, 0.2), (0.7, 0.0))
    for place, rates in itertools.product(PLACES, (*doubles, *doubles)):
        design.add("double", rates=rates, causes=2, place=place)
    for place, rates in itertools.product(PLACES, doubles):
        design.add("double-told", rates=rates, causes=2, place=place, told=True)
        design.add("either", rates=rates, causes=2, place=place, needs="any")


def harder(design: Design) -> None:
    """Runs that correct themselves, statements that carry, harm, and effects of exactly min_effect."""
    for repair, place, clean in itertools.product((0.03, 0.1, 0.3), PLACES, (1.0, 0.9)):
        design.add("self-correcting", rates=(clean, 0.0), place=place, repair=repair)
    for place, rates in itertools.product(PLACES, ((1.0, 0.0), (0.9, 0.1), (0.8, 0.3), (0.6, 0.1))):
        design.add("carry", rates=rates, place=place, carry=True)
    for rates in ((0.0, 0.9), (0.1, 0.9), (0.3, 0.9), (0.3, 0.6), (0.0, 0.3), (0.5, 0.9), (0.1, 0.3)):
        design.add("harmful", rates=rates, place="middle")
    for place, control in itertools.product(PLACES, (0.0, 0.1, 0.25, 0.4, 0.5)):
        design.add("boundary", rates=(control + 0.5, control), place=place)


def troubled(design: Design) -> None:
    """Providers that ask to ask again, tools that fail, agents that crash or hang, a real socket."""
    for i, busy in enumerate((0.1, 0.3, 0.5) * 4):
        rates = ((0.9, 0.1), (0.8, 0.3), (0.5, 0.5), (1.0, 0.0))[i % 4]
        place = PLACES[i % 3]
        causes = 0 if rates[0] == rates[1] else 1 + (i % 4 == 3)
        design.add("busy", rates=rates, causes=causes, place=place if causes else "-", busy=busy)
    for i, rates in enumerate(((1.0, 0.0), (0.9, 0.1), (0.8, 0.3), (0.6, 0.6), (0.9, 0.0)) * 2):
        causes = 0 if rates[0] == rates[1] else 1 + (i > 5)
        place = PLACES[i % 3] if causes else "-"
        design.add("failing-tools", rates=rates, causes=causes, place=place, tools=True)
    for i, flaky in enumerate((0.005, 0.01, 0.02) * 2):
        design.add("flaky-tools", rates=(0.9, 0.1), place=PLACES[i % 3], tools=True, flaky=flaky, count=6)
    for i, crash in enumerate((0.005, 0.01, 0.02) * 4):
        rates = ((1.0, 0.0), (0.9, 0.1), (0.5, 0.5), (0.8, 0.1))[i % 4]
        causes = int(rates[0] != rates[1])
        design.add("crash", rates=rates, causes=causes, place=PLACES[i % 3] if causes else "-", crash=crash)
    for i, (hang, which) in enumerate(itertools.product((0.01, 0.02, 0.04), ("any", "faulty"))):
        rates = ((0.9, 0.1), (0.5, 0.5))[i % 3 == 2]
        causes = int(rates[0] != rates[1])
        place = PLACES[i % 3] if causes else "-"
        design.add("hang", rates=rates, causes=causes, place=place, hang=hang, hang_if=which, count=4)
    for rates, causes in (((1.0, 0.0), 1), ((0.9, 0.1), 1), ((0.5, 0.5), 0), ((1.0, 0.0), 2)):
        place = "middle" if causes else "-"
        design.add("loopback", rates=rates, causes=causes, place=place, wire="loopback", count=4)


def held(design: Design) -> None:
    """Ten candidates, patch rate at least 0.9, control rate at most 0.1; the closing answer says nothing."""
    for i, (place, rates) in enumerate(itertools.product(PLACES, HOLD)):
        design.add("ten-single", rates=rates, place=place, count=10, wrong=WRONG[i % 3])
        design.add("ten-double", rates=rates, causes=2, place=place, count=10, wrong=PAIR_WRONG[i % 3])


@functools.cache
def scenarios() -> tuple[Scenario, ...]:
    """All of them, in a fixed order."""
    design = Design()
    for part in (basic, harder, troubled, held):
        part(design)
    return tuple(design.found)


CELLS = (
    (1.0, 0.0),
    (0.9, 0.1),
    (0.8, 0.1),
    (0.8, 0.3),
    (0.6, 0.1),
    (0.4, 0.1),
    (0.0, 0.0),
    (0.1, 0.1),
    (0.3, 0.3),
    (0.5, 0.5),
    (0.9, 0.9),
    (1.0, 1.0),
)
"""Rates (patch, control) at which the rule by itself is measured."""


def cell_plan(patch: float, control: float) -> Plan:
    """One choice, then an answer of the provider that is right at either rate."""
    return Plan((Turn("cause"),), clean=patch, faulty=control, told=True)


POLICY = ((0.5, 0.0), (0.5, 0.03), (0.9, 0.0))
"""(chance of the bad choice at step 12, chance that each later step repairs the run)."""


def policy_plan(wrong: float, repair: float) -> Plan:
    """Twenty steps, all of them different in the good run; the one at 12 decides."""
    turns = tuple(Turn("cause", wrong) if step == 12 else Turn("style") for step in range(20))
    return Plan(turns, clean=1.0, faulty=0.0, repair=repair)


def calm(scenario: Scenario) -> Scenario:
    """The same scenario without its troubles, for tests that must be quick."""
    return replace(scenario, plan=replace(scenario.plan, crash=0.0, hang=0.0, flaky=0.0, busy=0.0))
