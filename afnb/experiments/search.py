"""The search inside an attribution: candidates, precondition, ddmin, confirmation, and the drop at a step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from afnb.align.diff import Diff
from afnb.causal.candidates import candidates
from afnb.causal.consensus import SequentialConsensus
from afnb.causal.decision import Rule, Verdict
from afnb.causal.interventions import Graft, Resample
from afnb.causal.minimise import Minimiser, Reduction
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
        """Delta debugging over the candidates; a part of a set that did not recover is not asked.

        The run's closing answer carries the outcome itself: it repairs any run, whatever went wrong before.
        So it is left aside at first, and tried alone if the steps before it do not recover.
        """
        closing = closing_answer(self.diff, self.pairs)
        tried = [i for i in range(len(self.pairs)) if i != closing] or [0]
        search = Minimiser(len(tried), remember=True, infer=True)
        while search.question is not None:
            search.answer(self.ask(tuple(tried[i] for i in search.question)))
        found = search.result
        assert found is not None
        if found.subset is not None:
            return replace(found, subset=tuple(tried[i] for i in found.subset))
        if closing is None or len(tried) == len(self.pairs) or self.ask((closing,)) != "recovered":
            return found
        return Reduction("minimized", (closing,), found.questions + 1)

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

    Besides the fork and the two-sided moves after it: earlier pairs that the alignment takes for alike
    and that differ in what was *done* (``acted_differently``), since one word of an argument can decide
    a run. A tool step whose call differs only inherits: its result follows from the answer that made the
    call, and that answer stands in its place.
    """
    if not found.comparable:
        return [], []
    pairs: list[tuple[int, int]] = []
    notes: list[str] = []
    regular = candidates(found)
    for pair in [*acted_differently(found), *regular]:
        caller = calling_pair(found, pair)
        if caller is not None:
            notes.append(
                f"step {pair[0]} is no candidate: its call differs, so step {caller[0]} stands for it"
            )
            pair = caller
        if pair in pairs:
            continue
        try:
            compiled = compiled_arms(Graft(pair[0]), bad, good, found, bad_run=found.bad, good_run=found.good)
        except ParameterError as error:
            notes.append(f"step {pair[0]} is no candidate: {error}")
            continue
        if compiled.unchanged or says_the_same(found, pair):
            notes.append(f"step {pair[0]} is no candidate: both runs recorded the same there")
        else:
            pairs.append(pair)
            if pair not in regular and caller is None:
                notes.append(
                    f"step {pair[0]} is a candidate though the runs do not part there: what it did differs"
                )
    return sorted(pairs), notes


def acted_differently(found: Diff) -> list[tuple[int, int]]:
    """Aligned pairs before the fork that differ in what was done, though the runs did not part there.

    That is: pairs that look unlike, answers that call other tools or with other arguments, and equal
    calls with other results. Among pairs that look alike, wording counts for nothing here, so that
    paraphrases do not flood the search.
    """
    pairs = []
    before = found.moves if found.fork is None else found.moves[: found.fork.move]
    for move in before:
        if move.bad_step is None or move.good_step is None:
            continue
        ours, theirs = found.bad.steps[move.bad_step], found.good.steps[move.good_step]
        if ours.kind != theirs.kind:
            continue
        if not move.in_sync(found.params.tau):
            differs = True
        elif ours.kind == "tool":
            differs = (
                ours.name == theirs.name
                and equal(ours.inputs, theirs.inputs)
                and not equal(ours.outputs, theirs.outputs)
            )
        else:
            differs = not equal(calls_of(ours.outputs), calls_of(theirs.outputs))
        if differs:
            pairs.append((move.bad_step, move.good_step))
    return pairs


def calls_of(outputs: object) -> object:
    """The tool calls of an llm step's outputs; None where there are none to compare."""
    return outputs.get("tool_calls") if isinstance(outputs, dict) else None


def closing_answer(found: Diff, pairs: list[tuple[int, int]]) -> int | None:
    """Which of the pairs is the answer that ends both runs, if there is one and others besides."""
    last = (len(found.bad.steps) - 1, len(found.good.steps) - 1)
    if last not in pairs or len(pairs) == 1 or found.bad.steps[last[0]].kind != "llm":
        return None
    return pairs.index(last)


def says_the_same(found: Diff, pair: tuple[int, int]) -> bool:
    """Whether the two steps say the same; the ids and times around it differ from answer to answer."""
    ours, theirs = found.bad.steps[pair[0]], found.good.steps[pair[1]]
    return ours.kind == theirs.kind and equal(ours.outputs, theirs.outputs)


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
        grafts = [Graft(step) for step, _ in pairs]
        return compiled_arms(grafts, bad, good, found, bad_run=found.bad, good_run=found.good)
    if not found.comparable or found.fork is None or found.fork_step_observed is None:
        return None
    steps = found.bad.steps
    for step in range(min(found.fork_step_observed, len(steps) - 1), -1, -1):
        if steps[step].kind == "llm":
            return compiled_arms(Resample(step), bad, bad_run=found.bad)
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
