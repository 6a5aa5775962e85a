"""``attribute``: which step of a failing run made it fail, given a good run of the same task.

::

    diff ─ candidates ─ precondition: graft all ─ search: ddmin ─ confirmation on fresh replays
             │                │                                      │
             none:            not recovered:                         each step of the set, at alpha/|set|,
             resample or      no cause here                          against the set without it
             static
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from afnb.align.diff import Diff, diff
from afnb.align.params import AlignParams
from afnb.causal.consensus import SequentialConsensus
from afnb.causal.decision import Label, Rule, Verdict
from afnb.causal.oracles import Converges, as_oracle
from afnb.core.matching import Matching
from afnb.experiments.arguments import check_settings
from afnb.experiments.attribution import Attribution
from afnb.experiments.budget import Budget, Meter
from afnb.experiments.prepare import prepare
from afnb.experiments.recordings import (
    AnyCompiled,
    agent_marks,
    agent_of,
    as_recording,
    recording_hash,
    recording_id,
    require_one_kind,
)
from afnb.experiments.replay import ReplayResult
from afnb.experiments.search import Search, drop_at, first_arm, graftable, looser
from afnb.experiments.what_if import one_experiment


def attribute(
    bad: Any,
    good: Any,
    *,
    agent: Any,
    upstream: Any = None,
    oracle: Any = None,
    consensus: Rule | None = None,
    origin: bool = False,
    n_jobs: int | Callable[[], int] = 4,
    budget: Budget | Meter | None = None,
    allow_tools: Iterable[str] = (),
    seed: int = 0,
    backend: str = "threading",
    progress: bool | None = None,
    params: AlignParams | None = None,
    matching: Matching | None = None,
    ledger: Any = None,
    on_replay: Callable[[ReplayResult, str], None] | None = None,
) -> Attribution:
    """Find the steps whose good answers repair the failing run, and prove each by re-execution.

    The two runs are aligned; the fork and the two-sided moves after it are the candidates. Grafting all
    of them must recover the run, else there is no cause among them. Delta debugging then looks for a
    minimal set, and each step of it is confirmed on fresh replays, against a control arm that differs in
    that step alone, at ``alpha`` over the number of steps. Only that confirmation is ``verified``.

    Parameters
    ----------
    bad, good
        Recordings of the failing and of a good run of the same task: two cassettes or two event logs.
    agent, upstream
        As in ``what_if``.
    oracle
        What counts as recovered; ``Converges(good)`` unless another is given.
    consensus
        Rule of the precondition and the confirmation; the search uses a looser one (alpha 0.1, 30 replays).
    origin
        Also test whether asking for the step's answer again (``Resample``) recovers the run more often than
        the recorded answer does. With it a confirmed step is called an origin, without it a repair.
    n_jobs, budget, allow_tools, seed, backend, progress, params, matching, ledger, on_replay
        As in ``what_if``; the budget is one for the whole attribution. A ``Meter`` in its place is shared
        with other attributions, and a function for ``n_jobs`` is asked before each round of replays.

    Returns
    -------
    Attribution
        ``kind`` is ``repair`` or ``origin`` (verified recovered), ``no_cause`` or ``asked_again`` (verified
        not recovered, by grafting all candidates or by asking for the answer at a one-sided fork again),
        or says why there is no verdict: ``no_candidates``, ``not_comparable``, ``static``, ``unverified``.

    Raises
    ------
    ParameterError, AgentError
        As in ``what_if``.

    Examples
    --------
    >>> from afnb.experiments.demo import bundled
    >>> pair = bundled("refund")
    >>> a = attribute(
    ...     pair.bad, pair.good, agent=pair.agent, upstream=pair.upstream(), oracle=pair.oracle,
    ...     allow_tools=pair.tools, progress=False,
    ... )
    >>> a.verdict, a.label, a.origination
    ('recovered', 'verified', (4,))
    """
    started = time.monotonic()
    check_settings(
        consensus=consensus,
        n_jobs=n_jobs,
        budget=budget,
        allow_tools=allow_tools,
        seed=seed,
        backend=backend,
        progress=progress,
        params=params,
        matching=matching,
        on_replay=on_replay,
    )
    failing, reference = as_recording(bad, "bad"), as_recording(good, "good")
    agent_of(failing, agent)
    require_one_kind(failing, reference)
    found = diff(failing, reference, params or AlignParams())
    pairs, dropped = graftable(failing, reference, found)
    judge = Converges(reference, params) if oracle is None else as_oracle(oracle)
    rule = consensus or SequentialConsensus()
    plan = first_arm(failing, reference, found, pairs)
    if plan is None:
        return without_replays(failing, reference, found, budget or Budget(), seed, started)
    ready = prepare(
        failing,
        reference,
        plan.patch,
        agent=agent,
        upstream=upstream,
        oracle=judge,
        n_jobs=n_jobs,
        budget=budget or Budget(),
        allow_tools=allow_tools,
        seed=seed,
        tail="live",
        backend=backend,
        progress=progress,
        label="attribute",
        watch=[on_replay] if on_replay is not None else [],
        matching=matching,
        ledger=ledger,
    )
    search_rule = looser(rule)
    search = Search(ready, found, rule, search_rule, pairs)
    try:
        if not pairs:
            return resampled(search, plan, started)
        return searched(search, origin, dropped, started)
    finally:
        ready.progress.close()


def without_replays(
    bad: Any, good: Any, found: Diff, budget: Budget | Meter, seed: int, started: float
) -> Attribution:
    """The honest answer where nothing can be re-run: the diff, no verdict."""
    if not found.comparable:
        kind, reason = "not_comparable", found.reason or "the runs cannot be compared"
    elif found.fork is None:
        kind, reason = "no_candidates", "the two runs do not part, so there is no step to change"
    else:
        kind, reason = (
            "static",
            "the runs part where only one of them has a step, and no answer can be asked again",
        )
    return make(
        found,
        bad,
        good,
        verdict="unverified",
        label="Unverified",
        kind=kind,
        reason=reason,
        budget=budget.describe(),
        seed=seed,
        wall_s=time.monotonic() - started,
    )


def resampled(search: Search, plan: AnyCompiled, started: float) -> Attribution:
    """A fork that only one run has a step for: ask for that answer again, against the recorded one."""
    experiment = one_experiment(search.ready, plan, search.rule, purpose="confirmation", stage="confirmation")
    search.experiments.append(experiment)
    step = plan.steps[0]
    kind = {"recovered": "origin", "not_recovered": "asked_again"}.get(experiment.verdict, "static")
    note = f"only one run has a step where they part; step {step} was asked again instead of grafted"
    return conclude(
        search,
        verdict=experiment.verdict,
        label=experiment.label,
        kind=kind,
        reason=experiment.reason,
        origination=(step,) if experiment.verdict == "recovered" else (),
        warnings=[note, *experiment.warnings],
        started=started,
    )


def searched(search: Search, origin: bool, dropped: list[str], started: float) -> Attribution:
    """Precondition, search and confirmation."""
    reduction = search.minimise()
    if reduction.kind != "minimized" or reduction.subset is None:
        first = search.experiments[0]
        kind = "no_cause" if first.verdict == "not_recovered" else "unverified"
        return conclude(
            search,
            verdict=first.verdict,
            label=first.label,
            kind=kind,
            reason=first.reason,
            warnings=[*dropped, *first.warnings],
            started=started,
        )
    confirmed = search.confirm(reduction.subset)
    steps = search.arms(reduction.subset).steps
    warnings = [*dropped, *(warning for e in confirmed for warning in e.warnings)]
    if not all(e.verdict == "recovered" and e.label == "verified" for e in confirmed):
        open_steps = [str(e.steps[0]) for e in confirmed if e.verdict != "recovered" or e.label != "verified"]
        reason = (
            f"the search found {list(steps)} to repair the run; fresh replays did not confirm step "
            f"{', '.join(open_steps)}: {next(e.reason for e in confirmed if str(e.steps[0]) in open_steps)}"
        )
        return conclude(
            search,
            verdict="unverified",
            label="Unverified",
            kind="unverified",
            reason=reason,
            warnings=warnings,
            started=started,
        )
    kind = "repair"
    if origin:
        drops, notes = drop_at(search, steps)
        warnings += notes
        kind = "origin" if drops else "repair"
    return conclude(
        search,
        verdict="recovered",
        label="verified",
        kind=kind,
        reason=confirmed[-1].reason,
        origination=steps,
        warnings=warnings,
        started=started,
    )


def conclude(
    search: Search,
    *,
    verdict: Verdict,
    label: Label,
    kind: str,
    reason: str,
    started: float,
    origination: tuple[int, ...] = (),
    warnings: list[str],
) -> Attribution:
    """The attribution of a finished search."""
    ready = search.ready
    return make(
        search.diff,
        ready.bad,
        ready.good,
        verdict=verdict,
        label=label,
        kind=kind,
        reason=reason,
        origination=origination,
        candidates=tuple(search.pairs),
        alpha=search.rule.error or 1.0,
        experiments_run=tuple(search.experiments),
        fidelity=ready.fidelity,
        warnings=tuple(dict.fromkeys(warnings)),
        preflight=ready.preflight,
        replays_spent=ready.lab.spending.replays,
        live_calls_spent=ready.meter.live_calls,
        tokens_spent=ready.meter.tokens,
        dollars_spent=ready.meter.dollars,
        replays_reused=ready.lab.spending.reused,
        wall_s=time.monotonic() - started,
        budget=ready.meter.budget.describe(),
        hashes=(
            ("bad", recording_hash(ready.bad)),
            ("good", recording_hash(ready.good) if ready.good is not None else ""),
            ("agent", agent_marks(ready.agent)[1]),
            ("oracle", ready.oracle.fingerprint()),
        ),
        seed=ready.lab.seed,
        rule=search.rule,
    )


def make(
    found: Diff, bad: Any, good: Any, *, origination: tuple[int, ...] = (), **fields: Any
) -> Attribution:
    """An ``Attribution`` with what is known of the two runs filled in."""
    fork = found.fork_step_observed if found.comparable and found.fork is not None else None
    steps = len(found.bad.steps)
    after = () if fork is None else tuple(step for step in range(fork, steps) if step not in origination)
    defaults: dict[str, Any] = {
        "candidates": (),
        "alpha": 0.05,
        "experiments_run": (),
        "fidelity": (),
        "warnings": (),
        "preflight": None,
        "replays_spent": 0,
        "live_calls_spent": 0,
        "tokens_spent": 0,
    }
    return Attribution(
        id=f"{recording_id(bad)} against {recording_id(good)}",
        bad=recording_id(bad),
        good=recording_id(good),
        task=found.bad.task,
        fork_step=fork,
        steps=steps,
        origination=origination,
        propagation=after,
        diff=found,
        names=tuple(step.name for step in found.bad.steps),
        **{**defaults, **fields},
    )
