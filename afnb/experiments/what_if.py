"""``what_if``: one experiment by hand. Change something at a step, and see whether it mattered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from afnb.align.diff import diff
from afnb.align.params import AlignParams
from afnb.causal.consensus import SequentialConsensus
from afnb.causal.decision import Rule
from afnb.causal.interventions import Interventions, deed
from afnb.causal.oracles import as_oracle
from afnb.core.arm import Tail
from afnb.core.matching import Matching
from afnb.errors import ParameterError
from afnb.experiments.arguments import check_settings
from afnb.experiments.budget import Budget, Meter
from afnb.experiments.lab import Trial
from afnb.experiments.prepare import Prepared, finish, prepare
from afnb.experiments.recordings import AnyCompiled, agent_of, as_recording, compiled_arms, require_one_kind
from afnb.experiments.replay import ReplayResult
from afnb.experiments.results import Experiment


def what_if(
    recording: Any,
    intervention: Interventions,
    *,
    agent: Any,
    upstream: Any = None,
    oracle: Any = None,
    good: Any = None,
    consensus: Rule | None = None,
    n_jobs: int = 4,
    budget: Budget | Meter | None = None,
    allow_tools: Iterable[str] = (),
    seed: int = 0,
    tail: Tail = "live",
    backend: str = "threading",
    progress: bool | None = None,
    params: AlignParams | None = None,
    matching: Matching | None = None,
    ledger: Any = None,
    on_replay: Callable[[ReplayResult, str], None] | None = None,
) -> Experiment:
    """Change one or several steps of a recorded run, re-run it many times, and compare with a control arm.

    Patch and control replays differ in the intervened steps alone: up to the branch point (the last
    intervened step) the tape answers in both, after it everything is live in both.

    Parameters
    ----------
    recording
        The failing run: a ``Cassette``, an ``EventLog``, or the path of one. The ``recording`` of a replay
        can be branched again: what was changed in it holds.
    intervention
        ``Graft``, ``Edit``, ``Resample``, ``SystemPrompt``, ``DropMessage``, ``InsertMessage``, or a list of
        them on different steps.
    agent
        ``Command([...])``, ``Function(f)``, a list of arguments or a plain function; for an event log a
        ``LoggedAgent``.
    upstream
        Who answers live: the provider's URL, a function, a ``SimulatedUpstream``, any ``Upstream``.
    oracle
        What counts as recovered: ``Outcome``, ``AnswerEquals``, ``Matches``, ``Converges``,
        ``ExitStatus`` or a function of the replayed run. There is no default.
    good
        A good run of the same task; needed by ``Graft`` and ``tail="good"``.
    consensus
        ``SequentialConsensus()`` unless another rule is given.
    n_jobs
        Replays at a time, -1 for one per core. Verdict and used replays do not depend on it.
    budget
        ``Budget()`` (200 live calls) unless another is given; printed before anything is spent. The
        limits of a ``Meter`` in its place are said by whoever made it.
    allow_tools
        Names of the agent's tools that may run again.
    seed
        Seed of all replays.
    tail
        ``live``; ``tape`` and ``good`` are cheap screens that are never verified.
    backend
        joblib backend.
    progress
        True or False shows or hides the bar; None shows it on a terminal or in a notebook.
    params
        Of the alignment, for ``Graft``.
    matching
        How re-issued requests are compared with both recordings; None for the recordings' own rules, or the
        default ones. What matched only by a rule is counted in the self-check and in every replay.
    ledger
        A folder in which finished replays are kept: run again after a kill, the experiment goes on where it
        stopped. A changed recording, agent, oracle, provider or seed meets none of them.
    on_replay
        Called with each finished replay and the experiment's title.

    Returns
    -------
    Experiment
        With verdict, label, both arms, the evidence, and every replay.

    Raises
    ------
    ParameterError
        An argument is missing or contradicts another, or a tool would run again that is not allowed.
    AgentError
        The agent cannot be started, or replays nothing of its recording.

    Examples
    --------
    >>> from afnb import Edit
    >>> from afnb.experiments.demo import bundled
    >>> pair = bundled("refund")
    >>> e = what_if(
    ...     pair.bad, Edit(4, "Stop here."), agent=pair.agent, upstream=pair.upstream(),
    ...     oracle=pair.oracle, allow_tools=pair.tools, progress=False,
    ... )
    >>> e.verdict, e.label
    ('not_recovered', 'verified')
    """
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
    cassette = as_recording(recording, "recording")
    reference = None if good is None else as_recording(good, "good")
    if oracle is None:
        raise ParameterError(
            "what_if needs an oracle, e.g. oracle=afnb.Outcome(lambda run: 'issued' in str(run.answer)); "
            "likeness to a good run is afnb.Converges(good)"
        )
    agent_of(cassette, agent)
    require_one_kind(cassette, reference)
    alignment = None if reference is None else diff(cassette, reference, params or AlignParams())
    compiled = compiled_arms(intervention, cassette, reference, alignment, tail=tail)
    ready = prepare(
        cassette,
        reference,
        compiled.patch,
        agent=agent,
        upstream=upstream,
        oracle=as_oracle(oracle),
        n_jobs=n_jobs,
        budget=budget or Budget(),
        allow_tools=allow_tools,
        seed=seed,
        tail=tail,
        backend=backend,
        progress=progress,
        label="what if",
        watch=[on_replay] if on_replay is not None else [],
        matching=matching,
        ledger=ledger,
    )
    rule = consensus or SequentialConsensus()
    try:
        return one_experiment(ready, compiled, rule, purpose="what_if", stage="what_if")
    finally:
        ready.progress.close()


def one_experiment(
    ready: Prepared,
    compiled: AnyCompiled,
    rule: Rule,
    *,
    purpose: str,
    stage: str,
    without: int | None = None,
) -> Experiment:
    """Run the compiled arms as one experiment; with ``without``, against everything but that step.

    Nothing is run, and nothing spent, if the self-check failed.
    """
    texts = tuple(item.describe() for item in compiled.interventions)
    title = f"{purpose} {'+'.join(str(step) for step in compiled.steps)}"
    if without is not None:
        title += f" against without {without}"
    if ready.failed_check is not None:
        trial = Trial(rule.start().stop(ready.failed_check), ())
    else:
        control = compiled.control if without is None else compiled.without(without)
        trial = ready.lab.run(compiled.patch, control, rule, stage, title)
    steps = compiled.steps if without is None else (without,)
    also: tuple[int, ...] = ()
    changed = compiled.interventions
    if without is not None:
        texts = tuple(text for text, step in zip(texts, compiled.steps, strict=True) if step == without)
        also = tuple(step for step in compiled.steps if step != without)
        changed = tuple(one for one in changed if one.step == without)
    return finish(
        ready,
        trial,
        rule,
        title=title,
        purpose=purpose,
        texts=texts,
        steps=steps,
        also=also,
        deed=deed(changed),
    )
