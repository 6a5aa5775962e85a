"""What is true of a planted run, computed exactly from its plan: no replay and no sampling.

A replay of an arm goes through the plan's turns with few states (the faults so far, and whether the
conversation is still that of the recording), so its recovery rate is a finite sum.

What a replay lost to the plan's own troubles counts for: a crash or a missing tool before the first
intervened answer is left out (the two arms are alike up to there); a crash after the branch point is a run
that failed; a hang, and a crash between two interventions, hide an outcome that the run would have had, and
that outcome is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from afnb.errors import ParameterError
from afnb.testing.planted_plan import BROKEN, Faults, Plan

EXACT = 1e-9
"""Rates are sums of products: differences below this are rounding."""

State = tuple[Faults, bool]
"""Faults so far, and whether the conversation is still the recorded one."""


def recovery_rate(plan: Plan, answers: Mapping[int, str] | None = None, through: int | None = None) -> float:
    """How often a run recovers if some turns are answered for it and the rest is live.

    Parameters
    ----------
    plan
        The plan.
    answers
        Turn to ``good`` (the good run's answer) or ``bad`` (the recorded one, given by position).
    through
        The last turn that the recording answers, -1 for none; the last of ``answers`` if None. Turns up to
        it without an answer of their own are as recorded while the conversation is, live after.

    Examples
    --------
    >>> from afnb.testing.planted import Turn
    >>> plan = Plan((Turn("style"), Turn("cause"), Turn("echo")), clean=0.9, faulty=0.1)
    >>> rates = [recovery_rate(plan, {1: "good"}), recovery_rate(plan, {1: "bad"}), recovery_rate(plan)]
    >>> [round(rate, 3) for rate in rates]
    [0.9, 0.1, 0.5]
    """
    answers = answers or {}
    through = max(answers, default=-1) if through is None else through
    last = len(plan.turns)
    if any(not 0 <= turn <= last for turn in answers) or not -1 <= through <= last:
        raise ParameterError(f"the turns of this plan are 0 to {last}; got {dict(answers)}, {through}")
    first = min(answers, default=through)
    states: dict[State, float] = {(frozenset(), True): 1.0}
    for turn in range(last):
        states = _after_turn(plan, states, turn, answers.get(turn), turn <= through)
        if plan.tools and plan.flaky and turn >= first:
            states = _after_tool(plan, states)
    if plan.told and last <= through:
        if last in answers:
            return 1.0 if answers[last] == "good" else 0.0
        states = {key: share for key, share in states.items() if not key[1]}  # else: recorded, so it failed
    survived = (1.0 - plan.crash) ** (last - through)
    return survived * _closing(plan, states)


def _closing(plan: Plan, states: Mapping[State, float]) -> float:
    return sum(
        share * (plan.clean if plan.in_order(faults) else plan.faulty)
        for (faults, _), share in states.items()
    )


def _after_turn(
    plan: Plan, states: Mapping[State, float], turn: int, answer: str | None, taped: bool
) -> dict[State, float]:
    found: dict[State, float] = {}
    bad, good = plan.bad_script[turn], plan.good_script[turn]
    for (faults, on_tape), share in states.items():
        if answer is not None:
            options = [(good if answer == "good" else bad, 1.0)]
        elif taped and on_tape:
            options = [(bad, 1.0)]
        else:
            options = plan.odds(turn, faults)
        stays = on_tape and taped and answer != "good"
        for said, chance in options:
            if chance > 0.0:
                key = (plan.after(faults, turn, said), stays)
                found[key] = found.get(key, 0.0) + share * chance
    return found


def _after_tool(plan: Plan, states: Mapping[State, float]) -> dict[State, float]:
    found: dict[State, float] = {}
    for (faults, on_tape), share in states.items():
        for key, chance in (
            ((faults, on_tape), 1.0 - plan.flaky),
            ((faults | {BROKEN}, False), plan.flaky),
        ):
            found[key] = found.get(key, 0.0) + share * chance
    return found


@dataclass(frozen=True, slots=True)
class Effect:
    """Exact recovery rates of two arms."""

    patch: float
    control: float

    @property
    def effect(self) -> float:
        """The difference.

        Examples
        --------
        >>> Effect(0.75, 0.25).effect
        0.5
        """
        return self.patch - self.control

    @property
    def none(self) -> bool:
        """Whether the patch does not help: `recovered` would be false."""
        return self.effect <= EXACT

    def at_least(self, min_effect: float) -> bool:
        """Whether the effect is that large: `not_recovered` would be false."""
        return self.effect >= min_effect - EXACT


def effect_of(plan: Plan, grafts: Collection[int], without: int | None = None) -> Effect:
    """Grafting the good run's answers at these turns, against all as recorded or ``without`` one of them.

    Parameters
    ----------
    plan
        The plan.
    grafts
        The turns.
    without
        The turn whose effect is asked, all others grafted in both arms; None for the effect of all.

    Examples
    --------
    >>> from afnb.testing.planted import Turn
    >>> pair = Plan((Turn("cause"), Turn("style"), Turn("cause")))
    >>> effect_of(pair, [0]).effect, effect_of(pair, [0, 2]).effect, effect_of(pair, [0, 2], 0).effect
    (0.5, 1.0, 1.0)
    """
    if not grafts:
        raise ParameterError("effect_of needs at least one turn to graft")
    patch = recovery_rate(plan, dict.fromkeys(grafts, "good"))
    if without is None:
        return Effect(patch, recovery_rate(plan, {max(grafts): "bad"}))
    if without not in grafts:
        raise ParameterError(f"effect_of(without={without}): the grafted turns are {sorted(grafts)}")
    answers = {turn: "bad" if turn == without else "good" for turn in grafts}
    return Effect(patch, recovery_rate(plan, answers))


def drop_curve(plan: Plan) -> list[float]:
    """q(k): how often a run recovers if the recording answers its first ``k`` turns, for every k.

    Examples
    --------
    >>> from afnb.testing.planted import Turn
    >>> drop_curve(Plan((Turn(), Turn("cause", wrong=0.2), Turn())))
    [0.8, 0.8, 0.0, 0.0, 0.0]
    """
    return [recovery_rate(plan, through=k - 1) for k in range(len(plan.turns) + 2)]
