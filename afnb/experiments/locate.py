"""``locate``: at which step a failing run was lost, without a good run.

::

    places ─ search: replays with 0 .. n recorded answers served ─ confirmation on fresh replays
                 │                                                    │
                 bisect: where they say most                          tape ending before the answer,
                 curve: the same number everywhere                    against tape through it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_args

from afnb.causal.bisect import Bisection, Located
from afnb.causal.consensus import SequentialConsensus
from afnb.causal.curve import Curve
from afnb.causal.decision import Label, Rule, Verdict
from afnb.causal.oracles import as_oracle
from afnb.causal.places import Places, places_of
from afnb.core.matching import Matching
from afnb.errors import ParameterError
from afnb.experiments.arguments import check_settings
from afnb.experiments.budget import Budget
from afnb.experiments.lab import Survey, Trial
from afnb.experiments.location import NOT_FAILING, Kind, Location, Mode, Point
from afnb.experiments.prepare import Prepared, finish, prepare, uncounted
from afnb.experiments.recordings import (
    agent_marks,
    agent_of,
    as_recording,
    recording_hash,
    recording_id,
    recording_run,
)
from afnb.experiments.replay import ReplayResult
from afnb.experiments.results import Experiment

SEARCH_REPLAYS = 60
POINT_REPLAYS = 20


def locate(
    recording: Any,
    *,
    agent: Any,
    upstream: Any = None,
    oracle: Any = None,
    mode: Mode = "bisect",
    replays: int | None = None,
    consensus: Rule | None = None,
    n_jobs: int = 4,
    budget: Budget | None = None,
    allow_tools: Iterable[str] = (),
    seed: int = 0,
    backend: str = "threading",
    progress: bool | None = None,
    matching: Matching | None = None,
    ledger: Any = None,
    on_replay: Callable[[ReplayResult, str], None] | None = None,
) -> Location:
    """Find the step at which a failing run stops recovering; no good run is needed.

    q(k) is the rate at which the run recovers when the tape answers through step k and everything after
    it is live. It falls from the agent's own rate to that of a run which is lost; the step where it falls is
    looked for, and then confirmed on fresh replays: the tape ending before the step's answer against the tape
    through it.

    Parameters
    ----------
    recording
        The failing run: a ``Cassette``, an ``EventLog``, or the path of one. Of a cassette the model's
        answers count as places, of an event log all completed calls.
    agent, upstream, oracle
        As in ``what_if``; there is no default oracle.
    mode
        ``bisect`` asks where the replays say most (a noisy binary search that keeps a posterior over the
        places); ``curve`` measures q(k) everywhere, with Wilson's intervals.
    replays
        Most replays of a bisection (60), or replays at each place of a curve (20).
    consensus
        Rule of the confirmation; ``SequentialConsensus()`` unless another is given.
    n_jobs, budget, allow_tools, seed, backend, progress, matching, ledger, on_replay
        As in ``what_if``; the budget is one for search and confirmation.

    Returns
    -------
    Location
        With verdict, label, the step and its credible interval, the curve as a table, and every replay.

    Raises
    ------
    ParameterError
        An argument is missing or contradicts another, the recording holds no answer, or a tool would run
        again that is not allowed.
    AgentError
        The agent cannot be started, or replays nothing of its recording.

    Examples
    --------
    >>> from afnb.experiments.demo import bundled
    >>> pair = bundled("refund")
    >>> loc = locate(
    ...     pair.bad, agent=pair.agent, upstream=pair.upstream(), oracle=pair.oracle, allow_tools=pair.tools,
    ...     progress=False,
    ... )
    >>> loc.label, loc.kind, loc.decisive_step
    ('verified', 'drop', 4)
    """
    check_settings(
        consensus=consensus,
        n_jobs=n_jobs,
        budget=budget,
        allow_tools=allow_tools,
        seed=seed,
        backend=backend,
        progress=progress,
        matching=matching,
        on_replay=on_replay,
    )
    bad = as_recording(recording, "recording")
    if mode not in get_args(Mode):
        raise ParameterError(f"mode={mode!r}: expected bisect or curve")
    if oracle is None:
        raise ParameterError(
            "locate needs an oracle, e.g. oracle=afnb.Outcome(lambda run: 'issued' in str(run.answer)); it "
            "knows no good run to be like"
        )
    agent_of(bad, agent)
    run = recording_run(bad)
    places = places_of(bad, run)
    search = search_of(mode, len(places), replays)
    ready = prepare(
        bad,
        None,
        places.arm(0),
        agent=agent,
        upstream=upstream,
        oracle=as_oracle(oracle),
        n_jobs=n_jobs,
        budget=budget or Budget(),
        allow_tools=allow_tools,
        seed=seed,
        tail="live",
        backend=backend,
        progress=progress,
        label="locate",
        watch=[on_replay] if on_replay is not None else [],
        matching=matching,
        ledger=ledger,
    )
    try:
        return located(ready, places, mode, search, consensus or SequentialConsensus())
    finally:
        ready.progress.close()


def search_of(mode: Mode, n: int, replays: int | None) -> Bisection | Curve:
    """The search's parameters."""
    if mode == "curve":
        return Curve(n, POINT_REPLAYS if replays is None else replays)
    most = SEARCH_REPLAYS if replays is None else replays
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ParameterError(f"replays={replays!r}: it is a number of replays, a whole number from 1")
    return Bisection(n, max_replays=most)


def located(ready: Prepared, places: Places, mode: Mode, search: Bisection | Curve, rule: Rule) -> Location:
    """Search, then confirm; nothing is run if the self-check failed or the recording does not fail."""
    if ready.failed_check is not None:
        return conclude(ready, places, mode, rule, None, None, "unverified", ready.failed_check)
    if ready.fidelity[0].recovered:
        return conclude(ready, places, mode, rule, None, None, "not_failing", NOT_FAILING)
    survey = ready.lab.survey(places, search.start(), "locate", "locate")
    found = survey.located
    if found.ended == "no_drop":
        kind: Kind = "nothing_to_locate" if found.nothing_to_locate else "no_drop"
        return conclude(ready, places, mode, rule, survey, None, kind, found.reason)
    if found.answer is None:
        reason = found.reason
        if found.ended in ("max_replays", "found"):
            low, high = steps_of(places, found)
            reason = f"{reason}, and no step is likelier than not (steps {low} to {high} remain)"
        return conclude(ready, places, mode, rule, survey, None, "unverified", reason)
    confirmation = confirm(ready, places, found.answer, rule)
    kind = "unverified"
    if confirmation.label == "verified":
        kind = "drop" if confirmation.verdict == "recovered" else "small_drop"
    return conclude(ready, places, mode, rule, survey, confirmation, kind, confirmation.reason)


def confirm(ready: Prepared, places: Places, number: int, rule: Rule) -> Experiment:
    """The tape ending before an answer against the tape through it, on replays the search never saw."""
    patch, control = places.pair(number)
    step = places.answers[number - 1].step
    title = f"confirmation {step}"
    trial: Trial = ready.lab.run(patch, control, rule, "confirmation", title)
    text = f"step {step} asked again"
    return finish(ready, trial, rule, title=title, purpose="confirmation", texts=(text,), steps=(step,))


def steps_of(places: Places, found: Located) -> tuple[int, int]:
    """The credible interval in steps."""
    low, high = found.interval
    return places.answers[low - 1].step, places.answers[high - 1].step


def points_of(places: Places, survey: Survey | None) -> tuple[Point, ...]:
    """Every place with what was measured there."""
    counts: dict[int, list[int]] = {}
    drops: tuple[float, ...] = () if survey is None else survey.located.places
    for asked in () if survey is None else survey.located.asked:
        row = counts.setdefault(asked.served, [0, 0, 0])
        row[0] += asked.outcome.kind == "recovered"
        row[1] += not asked.outcome.lost
        row[2] += asked.outcome.lost
    points = []
    for served in range(len(places) + 1):
        drop = drops[served - 1] if served and drops else None
        recovered, total, lost = counts.get(served, [0, 0, 0])
        points.append(Point(served, places.step(served), recovered, total, lost, drop))
    return tuple(points)


def conclude(
    ready: Prepared,
    places: Places,
    mode: Mode,
    rule: Rule,
    survey: Survey | None,
    confirmation: Experiment | None,
    kind: Kind,
    reason: str,
) -> Location:
    """The ``Location`` of a finished search."""
    found = None if survey is None else survey.located
    verdict: Verdict = "unverified" if confirmation is None else confirmation.verdict
    label: Label = "Unverified" if confirmation is None else confirmation.label
    step = None if found is None or found.answer is None else places.answers[found.answer - 1].step
    told = found is not None and kind not in ("no_drop", "nothing_to_locate") and found.replays > 0
    agent, agent_hash = agent_marks(ready.agent)
    warnings = () if confirmation is None else confirmation.warnings
    if survey is not None:
        warnings = (*warnings, *uncounted(ready, [result for _, result in survey.results]))
    return Location(
        id=f"locate {recording_id(ready.bad)}",
        recording=recording_id(ready.bad),
        recording_hash=recording_hash(ready.bad),
        mode=mode,
        verdict=verdict,
        label=label,
        kind=kind,
        reason=reason,
        step=step,
        credible=steps_of(places, found) if told and found is not None else None,
        located=found,
        answers=places.answers,
        points=points_of(places, survey),
        search_results=() if survey is None else survey.results,
        confirmation=confirmation,
        fidelity=ready.fidelity,
        warnings=tuple(dict.fromkeys(warnings)),
        oracle=ready.oracle.describe(),
        oracle_fingerprint=ready.oracle.fingerprint(),
        agent=agent,
        agent_hash=agent_hash,
        rule=rule,
        seed=ready.lab.seed,
        budget=ready.meter.describe(),
        spending=ready.lab.spending,
        names=tuple(one.name for one in ready.bad_run.steps),
        preflight=ready.preflight,
        n_jobs=ready.lab.runner.n_jobs,
    )
