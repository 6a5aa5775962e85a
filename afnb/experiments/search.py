"""The search inside an attribution: candidates, precondition, ddmin, confirmation, and the drop at a step."""

from __future__ import annotations

from dataclasses import dataclass, field

from afnb.align.diff import Diff
from afnb.causal.candidates import candidates
from afnb.causal.consensus import SequentialConsensus
from afnb.causal.decision import Rule, Verdict
from afnb.causal.interventions import Graft, Resample
from afnb.causal.minimise import Reduction, ddmin
from afnb.core.jsonvalue import equal
from afnb.errors import ParameterError
from afnb.experiments.prepare import Prepared
from afnb.experiments.recordings import AnyCompiled, Recording, compiled_arms
from afnb.experiments.results import Experiment
from afnb.experiments.what_if import one_experiment

SEARCH_ALPHA = 0.1
SEARCH_REPLAYS = 30


@dataclass
class Search:
    """An attribution under way: what was asked so far, in order."""

    ready: Prepared
    diff: Diff
    rule: Rule
    search_rule: Rule
    pairs: list[tuple[int, int]]
    compiled: dict[tuple[int, ...], AnyCompiled] = field(default_factory=dict)
    asked: dict[tuple[int, ...], Experiment] = field(default_factory=dict)
    experiments: list[Experiment] = field(default_factory=list)

    def arms(self, subset: tuple[int, ...]) -> AnyCompiled:
        """Arms that graft the candidates with these numbers."""
        if subset not in self.compiled:
            ready = self.ready
            self.compiled[subset] = compiled_arms(
                [Graft(self.pairs[i][0]) for i in subset],
                ready.bad,
                ready.good,
                self.diff,
                bad_run=ready.bad_run,
                good_run=ready.good_run,
            )
        return self.compiled[subset]

    def ask(self, subset: tuple[int, ...]) -> Verdict:
        """Whether grafting this subset recovers; a question asked before is not asked again."""
        if subset not in self.asked:
            first = not self.asked
            rule = self.rule if first else self.search_rule
            experiment = one_experiment(
                self.ready,
                self.arms(subset),
                rule,
                purpose="precondition" if first else "search",
                stage="search",
            )
            self.asked[subset] = experiment
            self.experiments.append(experiment)
        return self.asked[subset].decision.verdict

    def minimise(self) -> Reduction:
        """ddmin over the candidates."""
        search = ddmin(len(self.pairs))
        try:
            subset = next(search)
            while True:
                subset = search.send(self.ask(subset))
        except StopIteration as end:
            reduction: Reduction = end.value
            return reduction

    def confirm(self, subset: tuple[int, ...]) -> list[Experiment]:
        """Each step of the set against the set without it, on fresh replays, at alpha over their number."""
        compiled = self.arms(subset)
        rule = split(self.rule, len(compiled.steps))
        found = []
        for step in compiled.steps:
            alone = len(compiled.steps) == 1
            experiment = one_experiment(
                self.ready,
                compiled,
                rule,
                purpose="confirmation",
                stage="confirmation",
                without=None if alone else step,
            )
            found.append(experiment)
            self.experiments.append(experiment)
        return found


def split(rule: Rule, tests: int) -> Rule:
    """The rule for each of several tests whose joint error is to stay the rule's own."""
    return rule.split(tests) if isinstance(rule, SequentialConsensus) else rule


def looser(rule: Rule) -> Rule:
    """The rule of the search: the same kind at alpha 0.1 with at most 30 replays."""
    if not isinstance(rule, SequentialConsensus):
        return rule
    return SequentialConsensus(
        alpha=max(rule.alpha, SEARCH_ALPHA),
        min_effect=rule.min_effect,
        max_replays=min(rule.max_replays, SEARCH_REPLAYS),
        timeout_is_failure=rule.timeout_is_failure,
    )


def graftable(bad: Recording, good: Recording, found: Diff) -> tuple[list[tuple[int, int]], list[str]]:
    """Candidates that can be grafted and would change something, and a note on each of the others.

    A tool step whose call differs between the runs only inherits: its result follows from the answer
    that made the call. That answer stands in its place, also where the alignment took it for alike.
    """
    if not found.comparable:
        return [], []
    pairs: list[tuple[int, int]] = []
    notes: list[str] = []
    for pair in candidates(found):
        caller = calling_pair(found, pair)
        if caller is not None:
            notes.append(
                f"step {pair[0]} is no candidate: its call differs, so step {caller[0]} stands for it"
            )
            pair = caller
        if pair in pairs:
            continue
        try:
            compiled = compiled_arms(Graft(pair[0]), bad, good, found)
        except ParameterError as error:
            notes.append(f"step {pair[0]} is no candidate: {error}")
            continue
        if compiled.unchanged:
            notes.append(f"step {pair[0]} is no candidate: both runs recorded the same there")
        else:
            pairs.append(pair)
    return sorted(pairs), notes


def calling_pair(found: Diff, pair: tuple[int, int]) -> tuple[int, int] | None:
    """For a pair of tool steps whose calls differ: the aligned pair of answers that made them, else None."""
    ours, theirs = found.bad.steps[pair[0]], found.good.steps[pair[1]]
    if ours.kind != "tool" or theirs.kind != "tool" or ours.parent_idx is None or theirs.parent_idx is None:
        return None
    if ours.name == theirs.name and equal(ours.inputs, theirs.inputs):
        return None
    caller = (ours.parent_idx, theirs.parent_idx)
    aligned = {(move.bad_step, move.good_step) for move in found.moves}
    return caller if caller in aligned else None


def first_arm(
    bad: Recording, good: Recording, found: Diff, pairs: list[tuple[int, int]]
) -> AnyCompiled | None:
    """Arms of the first experiment: all candidates grafted, or the forking answer asked again; else None."""
    if pairs:
        return compiled_arms([Graft(step) for step, _ in pairs], bad, good, found)
    if not found.comparable or found.fork is None or found.fork_step_observed is None:
        return None
    steps = found.bad.steps
    for step in range(min(found.fork_step_observed, len(steps) - 1), -1, -1):
        if steps[step].kind == "llm":
            return compiled_arms(Resample(step), bad)
    return None


def drop_at(search: Search, steps: tuple[int, ...]) -> tuple[bool, list[str]]:
    """Whether asking for each step's answer again recovers the run more often than the recorded one does."""
    ready, notes, every = search.ready, [], True
    for step in steps:
        if ready.bad_run.steps[step].kind != "llm":
            notes.append(
                f"step {step} is no model answer, so no drop of the recovery rate can be measured there"
            )
            every = False
            continue
        arms = compiled_arms(Resample(step), ready.bad, bad_run=ready.bad_run)
        experiment = one_experiment(
            ready, arms, split(search.rule, len(steps)), purpose="origin", stage="origin"
        )
        search.experiments.append(experiment)
        every = every and experiment.verdict == "recovered" and experiment.label == "verified"
    return every, notes
