"""``plan``: how many replays, live calls, tokens and dollars something will take, before anything starts.

The same machines that decide over real replays are rehearsed over a seeded coin; what each replay costs is
read off the recording's own tail. Nothing is run, and no agent is needed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

from afnb.align.diff import diff
from afnb.align.params import AlignParams
from afnb.causal.consensus import SEARCH, SequentialConsensus
from afnb.causal.curve import Curve
from afnb.causal.decision import Rule
from afnb.causal.interventions import Edit, Graft, Interventions, Resample
from afnb.causal.places import places_of
from afnb.causal.planning import rates, simulate
from afnb.causal.rehearsal import one_cause, rehearse_attribution, rehearse_locate
from afnb.core.arm import Arm
from afnb.core.cassette import Cassette
from afnb.errors import ParameterError
from afnb.experiments.budget import Budget
from afnb.experiments.locate import search_of
from afnb.experiments.location import Mode
from afnb.experiments.planned import Plan, Scene, scene_of
from afnb.experiments.preflight import Preflight, preflight
from afnb.experiments.recordings import (
    Recording,
    as_recording,
    compiled_arms,
    recording_id,
    recording_run,
    require_one_kind,
)
from afnb.experiments.search import first_arm, graftable
from afnb.experiments.tails import TailCost, Tails

What = Literal["what_if", "attribute", "locate"]
Sample = tuple[int, TailCost, bool | None]
"""Replays of one rehearsal, their cost, and whether it ended with a verdict (None: not known)."""

EXPERIMENTS, ATTRIBUTIONS, SEARCHES = 300, 80, 40
PLACES = 4000
"""A search over more places than these by its number of rehearsals is rehearsed less often."""


def plan(
    recording: Any,
    good: Any = None,
    *,
    intervention: Interventions | int | Sequence[int] | None = None,
    what: What | None = None,
    mode: Mode = "bisect",
    replays: int | None = None,
    origin: bool = False,
    consensus: Rule | None = None,
    budget: Budget | None = None,
    patch_rate: float = 0.9,
    control_rate: float = 0.1,
    seed: int = 0,
    params: AlignParams | None = None,
    allow_tools: Iterable[str] = (),
) -> Plan:
    """Say what a ``what_if``, an ``attribute`` or a ``locate`` will take, without starting anything.

    Parameters
    ----------
    recording
        The failing run: a ``Cassette``, an ``EventLog``, or the path of one.
    good
        A good run of the same task: plans an ``attribute``.
    intervention
        What is to be changed, or the numbers of the steps alone: plans a ``what_if``.
    what
        ``what_if``, ``attribute`` or ``locate``, where the arguments leave it open; without ``good`` and
        ``intervention`` it is ``locate``.
    mode, replays
        Of a ``locate``.
    origin
        Of an ``attribute``.
    consensus
        The rule; ``SequentialConsensus()`` unless another is given.
    budget
        The budget to hold it against; its ``prices`` give the dollars.
    patch_rate, control_rate
        The assumed recovery rates: with the cause changed (or still ahead), and with it as recorded.
    seed
        Of the rehearsals.
    params
        Of the alignment.
    allow_tools
        Names of tools that may run again, for the pre-flight.

    Returns
    -------
    Plan
        The median under the assumed rates, the median if nothing has an effect, and the most it can take.

    Raises
    ------
    ParameterError
        An argument is missing or contradicts another.

    Examples
    --------
    >>> from afnb.experiments.demo import bundled
    >>> plan(bundled("refund").bad, intervention=4, patch_rate=1.0, control_rate=0.0).scenes[0].replays
    6
    """
    bad = as_recording(recording, "recording")
    chosen = what_of(what, good, intervention)
    for name, rate in (("patch_rate", patch_rate), ("control_rate", control_rate)):
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
            raise ParameterError(f"{name}={rate!r}: a rate lies between 0 and 1")
    rule = consensus or SequentialConsensus()
    limits = budget or Budget()
    tails = Tails(bad, limits.prices)
    assumed = (float(patch_rate), float(control_rate))
    reference = None if good is None else as_recording(good, "good")
    if chosen == "what_if":
        assert intervention is not None
        scenes = of_experiment(bad, reference, intervention, rule, tails, assumed, seed, params)
    elif chosen == "attribute":
        assert reference is not None
        scenes = of_attribution(bad, reference, required(rule), tails, assumed, seed, params, origin)
    else:
        scenes = of_search(bad, mode, replays, required(rule), tails, assumed, seed)
    return Plan(
        what=chosen,
        recording=recording_id(bad),
        scenes=scenes,
        rule=repr(rule),
        limits=limits,
        estimated=tails.estimated,
        preflight=flight_of(bad, reference, intervention, params, allow_tools),
    )


def flight_of(
    bad: Recording,
    good: Recording | None,
    intervention: Interventions | int | Sequence[int] | None,
    params: AlignParams | None,
    allow_tools: Iterable[str],
) -> Preflight | None:
    """The pre-flight of the first replays; None for event logs, whose tools only their agent knows."""
    if not isinstance(bad, Cassette):
        return None
    alignment = None if good is None else diff(bad, good, params or AlignParams())
    if intervention is not None:
        arm: Any = compiled_arms(changes_of(intervention), bad, good, alignment).patch
    elif good is not None and alignment is not None:
        first = first_arm(bad, good, alignment, graftable(bad, good, alignment)[0])
        arm = None if first is None else first.patch
    else:
        arm = places_of(bad).arm(0)
    if not isinstance(arm, Arm):
        return None
    recordings = [(one, recording_run(one)) for one in (bad, good) if isinstance(one, Cassette)]
    return preflight(recordings, arm, allow_tools)


def what_of(what: What | None, good: Any, intervention: object) -> What:
    """What is to be planned.

    Raises
    ------
    ParameterError
        The arguments do not fit it.
    """
    if what is not None and what not in get_args(What):
        raise ParameterError(f"what={what!r}: expected what_if, attribute or locate")
    chosen: What = what or (
        "what_if" if intervention is not None else "attribute" if good is not None else "locate"
    )
    if chosen == "what_if" and intervention is None:
        raise ParameterError("plan(what='what_if') needs intervention=, e.g. intervention=afnb.Resample(4)")
    if chosen == "attribute" and good is None:
        raise ParameterError("plan(what='attribute') needs the good recording")
    if chosen != "what_if" and intervention is not None:
        raise ParameterError(f"plan(what={chosen!r}) takes no intervention")
    return chosen


def required(rule: Rule) -> SequentialConsensus:
    """The rule, which a rehearsed search has to be able to split.

    Raises
    ------
    ParameterError
        It is of another kind.
    """
    if not isinstance(rule, SequentialConsensus):
        raise ParameterError(
            f"consensus={rule!r}: attribute and locate are planned with SequentialConsensus only"
        )
    return rule


def most_of(rule: Rule) -> int:
    """The most replays that an experiment under the rule consumes."""
    most = getattr(rule, "max_replays", getattr(rule, "n", None))
    if not isinstance(most, int):
        raise ParameterError(f"consensus={rule!r}: it has no max_replays, so nothing can be said of it")
    return most


def changes_of(intervention: Interventions | int | Sequence[int]) -> Interventions:
    """Interventions as given; for the number of a step, a change of it."""
    items: list[Any] = list(intervention) if isinstance(intervention, (list, tuple)) else [intervention]
    return [Edit(item, "changed") if type(item) is int else item for item in items]


def of_experiment(
    bad: Recording,
    good: Recording | None,
    intervention: Interventions | int | Sequence[int],
    rule: Rule,
    tails: Tails,
    assumed: tuple[float, float],
    seed: int,
    params: AlignParams | None,
) -> tuple[Scene, ...]:
    """Scenes of a ``what_if``."""
    require_one_kind(bad, good)
    alignment = None if good is None else diff(bad, good, params or AlignParams())
    arms = compiled_arms(changes_of(intervention), bad, good, alignment)
    return of_arms(tails.of(arms.patch), tails.of(arms.control), rule, assumed, seed)


def of_arms(
    patch: TailCost, control: TailCost, rule: Rule, assumed: tuple[float, float], seed: int
) -> tuple[Scene, ...]:
    """Scenes of one experiment whose replays cost so much in either arm."""

    def sample(pair: tuple[float, float], number: int) -> Sample:
        decision = simulate(rule, rates(*pair), seed * 1_000_003 + number)
        used = TailCost().plus(patch, decision.patch.conclusive).plus(control, decision.control.conclusive)
        return decision.replays, used, decision.verdict != "unverified"

    dearer = patch if patch.live_calls >= control.live_calls else control
    most = most_of(rule)
    return scenes_of(sample, assumed, EXPERIMENTS, most, TailCost().plus(dearer, most))


def of_attribution(
    bad: Recording,
    good: Recording,
    rule: SequentialConsensus,
    tails: Tails,
    assumed: tuple[float, float],
    seed: int,
    params: AlignParams | None,
    origin: bool,
) -> tuple[Scene, ...]:
    """Scenes of an ``attribute``: none where the runs leave nothing to re-run."""
    require_one_kind(bad, good)
    found = diff(bad, good, params or AlignParams())
    pairs, _ = graftable(bad, good, found)
    first = first_arm(bad, good, found, pairs)
    if first is None:
        return ()
    if not pairs:
        return of_arms(tails.of(first.patch), tails.of(first.control), rule, assumed, seed)
    costs = [
        tails.of(compiled_arms(Graft(step), bad, good, found, bad_run=found.bad, good_run=found.good).control)
        for step, _ in pairs
    ]
    asked_again = [_resample_costs(bad, step, tails) for step, _ in pairs] if origin else []
    search = SequentialConsensus(
        max(rule.alpha, SEARCH.alpha), rule.min_effect, min(rule.max_replays, SEARCH.max_replays)
    )
    k = len(pairs)

    def sample(pair: tuple[float, float], number: int) -> Sample:
        dice = random.Random(seed * 1_000_003 + number)
        cause = None if pair[0] == pair[1] else dice.randrange(k)
        world = one_cause(k, cause, pair[0], pair[0], pair[1])
        done = rehearse_attribution(world, dice.randrange(1 << 30), rule, search, precondition=rule)
        used, replays = TailCost(), done.replays
        for branch, count in done.branches:
            used = used.plus(costs[branch], count)
        for step in done.verified if origin else ():
            drop = simulate(rule.split(len(done.verified)), rates(*pair), dice.randrange(1 << 30))
            again, recorded = asked_again[step]
            used = used.plus(again, drop.patch.conclusive).plus(recorded, drop.control.conclusive)
            replays += drop.replays
        return replays, used, None if cause is None else bool(done.verified)

    questions = min(2**k - 1, k * k + 3 * k + 1) if k < 64 else k * k + 3 * k + 1
    most = rule.max_replays * (1 + k) + search.max_replays * (questions - 1)
    most += rule.max_replays * k if origin else 0
    dearest = max([*costs, *(one for two in asked_again for one in two)], key=lambda cost: cost.live_calls)
    return scenes_of(sample, assumed, ATTRIBUTIONS, most, TailCost().plus(dearest, most))


def _resample_costs(bad: Recording, step: int, tails: Tails) -> tuple[TailCost, TailCost]:
    """Costs of asking a step again and of serving it; nothing for a step that no model answered."""
    if recording_run(bad).steps[step].kind != "llm":
        return TailCost(), TailCost()
    arms = compiled_arms(Resample(step), bad)
    return tails.of(arms.patch), tails.of(arms.control)


def of_search(
    bad: Recording,
    mode: Mode,
    replays: int | None,
    rule: SequentialConsensus,
    tails: Tails,
    assumed: tuple[float, float],
    seed: int,
) -> tuple[Scene, ...]:
    """Scenes of a ``locate``."""
    if mode not in get_args(Mode):
        raise ParameterError(f"mode={mode!r}: expected bisect or curve")
    places = places_of(bad)
    n = len(places)
    search = search_of(mode, n, replays)
    costs = [tails.of(places.arm(served)) for served in range(n + 1)]

    def sample(pair: tuple[float, float], number: int) -> Sample:
        dice = random.Random(seed * 1_000_003 + number)
        drop = dice.randint(1, n)
        done = rehearse_locate(
            n, lambda served: pair[0] if served < drop else pair[1], dice.randrange(1 << 30), rule, search
        )
        used = TailCost()
        for served, count in done.places:
            used = used.plus(costs[served], count)
        return done.replays, used, done.verified or done.refuted

    searched = (n + 1) * search.replays if isinstance(search, Curve) else search.max_replays
    most = searched + rule.max_replays
    dearest = TailCost().plus(costs[0], rule.max_replays)
    if isinstance(search, Curve):
        for cost in costs:
            dearest = dearest.plus(cost, search.replays)
    else:
        dearest = dearest.plus(costs[0], searched)
    times = min(SEARCHES, max(10, PLACES // n))
    return scenes_of(sample, assumed, times, most, dearest)


def scenes_of(
    sample: Callable[[tuple[float, float], int], Sample],
    assumed: tuple[float, float],
    times: int,
    most: int,
    dearest: TailCost,
) -> tuple[Scene, ...]:
    """The median under the assumed rates, the median without an effect, and the most."""
    patch, control = assumed
    words = f"{patch:g} against {control:g}"
    found = [scene_of("assumed", words, [sample(assumed, i) for i in range(times)])]
    if patch != control:
        flat = (control, control)
        words = f"{control:g} throughout"
        found.append(scene_of("no effect", words, [sample(flat, i) for i in range(times)]))
    found.append(Scene("most", "any", most, None, dearest, None))
    return tuple(found)
