"""The sentences that are true of a decision. Faces print these and make no claims of their own.

What is estimated: the total effect of one recorded answer through the live tail, given the history
before it, under today's agent, provider and world: ``P(recover | do(history, answer = patch), live tail)
- P(recover | do(history, answer = recorded), live tail)``. What follows from it is said here; what does
not (that a step is the only cause, or innocent, or a cause with some probability) is said nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from afnb.causal.decision import Decision, Label, Rule, Sensitivity, Verdict

INTERVAL_NOTE = (
    "The interval is two-sided and valid at any moment, so it may contain 0 beside a recovered verdict: "
    "that one is one-sided, verified above 0."
)
DESCRIPTIVE_NOTE = (
    "Rates and their Wilson intervals describe the replays that were run; since the rule decided when to "
    "stop, they are biased outward."
)
REPAIR_NOTE = (
    "A repair is not proof of an origin: a late answer may carry the result itself, and minimal repairs "
    "are not unique."
)
NOTHING_TO_LOCATE = "This agent does not recover even from the start: nothing to locate."
NO_DROP = "No drop of the recovery rate was found anywhere in this recording."
SCREEN = "a screen: the tail was not live in both arms"
NO_CONTROL = "no control arm"


def percent(value: float) -> str:
    """A share as per cent, without needless digits.

    Examples
    --------
    >>> percent(0.05), percent(0.025), percent(0.05 / 3)
    ('5 %', '2.5 %', '1.67 %')
    """
    return f"{100 * value:.3g} %"


def points(value: float) -> str:
    """A difference of rates in percentage points.

    Examples
    --------
    >>> points(0.5)
    '50 points'
    """
    return f"{100 * value:.3g} points"


def listed(steps: Sequence[object]) -> str:
    """``3``, ``3 and 5``, ``3, 5 and 7``.

    Examples
    --------
    >>> listed([3, 5, 7])
    '3, 5 and 7'
    """
    words = [str(step) for step in steps]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _setting(steps: Sequence[int], also: Sequence[int], what: str | None = None) -> str:
    """The do() part of a claim: what was held, what was re-run, what was changed."""
    every = sorted({*steps, *also})
    if what is not None:
        beside = ""
        if also:
            named = f"step{'s' if len(also) > 1 else ''} {listed(sorted(also))}"
            beside = f", with {named} changed in both arms"
        return (
            f"With everything before step {every[0]} as recorded and everything from there on re-run"
            f"{beside}, {what} (step{'s' if len(steps) > 1 else ''} {listed(sorted(steps))})"
        )
    if len(every) == 1:
        step = every[0]
        return (
            f"With everything before step {step} as recorded and everything after it re-run, "
            "changing this answer"
        )
    held = f"With everything before step {every[0]} as recorded"
    rerun = f"everything after step {every[-1]} re-run"
    if also:
        others = f"step{'s' if len(also) > 1 else ''} {listed(sorted(also))} changed in both arms"
        which = "this answer" if len(steps) == 1 else "these answers"
        return (
            f"{held}, {rerun} and {others}, changing {which} (step{'s' if len(steps) > 1 else ''} "
            f"{listed(sorted(steps))})"
        )
    return f"{held} and {rerun}, changing these answers (steps {listed(every)})"


def experiment_sentence(
    decision: Decision,
    steps: Sequence[int],
    verdict: Verdict | None = None,
    label: Label | None = None,
    reason: str | None = None,
    *,
    also: Sequence[int] = (),
    what: str | None = None,
) -> str:
    """What one experiment has shown, or that it has shown nothing.

    Parameters
    ----------
    decision
        What the rule concluded.
    steps
        The steps that differ between the arms.
    verdict, label, reason
        Where the experiment holds the decision back (a screen, a failed self-check); else as decided.
    also
        Further steps that were changed in both arms (when one step of a set is confirmed).
    what
        What was changed, where it is more than an answer (``interventions.deed``).

    Examples
    --------
    >>> from afnb.causal.consensus import SequentialConsensus
    >>> state = SequentialConsensus().start()
    >>> for index in range(3):
    ...     state.feed("control", index, "not_recovered")
    ...     state.feed("patch", index, "recovered")
    >>> print(experiment_sentence(state.decision, [7]))
    With everything before step 7 as recorded and everything after it re-run, changing this answer made \
the run recover more often (3 of 3 against 0 of 3). Chance of saying so if it made no difference: at most 5 %.
    """
    verdict = decision.verdict if verdict is None else verdict
    label = decision.label if label is None else label
    alpha, min_effect = decision.rule.error, decision.rule.refutes_below
    if label != "verified" or verdict == "unverified" or alpha is None or min_effect is None:
        return unverified(decision, reason)
    setting, patch, control = _setting(steps, also, what), decision.patch, decision.control
    if verdict == "recovered":
        return (
            f"{setting} made the run recover more often ({patch.recovered} of {patch.conclusive} against "
            f"{control.recovered} of {control.conclusive}). Chance of saying so if it made no difference: "
            f"at most {percent(alpha)}."
        )
    return (
        f"{setting} raises the recovery rate by less than {points(min_effect)} (error at most "
        f"{percent(alpha)}). A smaller effect is not excluded."
    )


def unverified(decision: Decision, reason: str | None = None) -> str:
    """That the replays do not decide, and why.

    Examples
    --------
    >>> from afnb.causal.consensus import SequentialConsensus
    >>> unverified(SequentialConsensus().start().stop("the budget of 200 live calls is spent"))
    '0 replays do not decide; reason: the budget of 200 live calls is spent.'
    """
    why = decision.reason if reason is None else reason
    if not decision.rule.controlled:
        counts = f"{decision.patch.recovered} of {decision.patch.conclusive} recovered, {NO_CONTROL}"
        why = counts if reason is None or reason == decision.reason else f"{reason}; {counts}"
    replays = decision.replays
    verb = "replay does" if replays == 1 else "replays do"
    return f"{replays} {verb} not decide; reason: {why.rstrip('.')}."


def attribution_sentence(
    verdict: Verdict,
    label: Label,
    kind: str,
    names: Sequence[str],
    reason: str,
    rule: Rule | None = None,
) -> str:
    """What an attribution has shown.

    Parameters
    ----------
    verdict, label
        Of the attribution.
    kind
        ``origin`` if a drop of the recovery rate at the step was shown too, else ``repair``.
    names
        The steps of the minimal repair, as a reader knows them.
    reason
        Why there is no verified repair.
    rule
        The rule, for its error bound.

    Examples
    --------
    >>> attribution_sentence("recovered", "verified", "repair", ["step 4 (llm)"], "")[:60]
    'One minimal repair: changing step 4 (llm) made the run recov'
    """
    bound = "" if rule is None or rule.error is None else f" (error at most {percent(rule.error)})"
    if label == "verified" and verdict == "recovered" and names:
        claim = f"One minimal repair: changing {listed(names)} made the run recover more often{bound}."
        if kind == "origin":
            return f"{claim} Serving the recorded answer lowers the rate, which a repair alone does not show."
        return f"{claim} {REPAIR_NOTE}"
    if label == "verified" and verdict == "not_recovered" and kind == "asked_again":
        less = (
            ""
            if rule is None or rule.refutes_below is None
            else f" by less than {points(rule.refutes_below)}"
        )
        return (
            f"Where the runs part only one of them has a step, so nothing could be grafted. Asking for "
            f"{listed(names)} again raises the recovery rate{less}{bound}. A smaller effect is not excluded."
        )
    if label == "verified" and verdict == "not_recovered":
        least = None if rule is None else rule.refutes_below
        less = "the smallest effect asked about" if least is None else points(least)
        return (
            f"Changing all candidate steps together raises the recovery rate by less than {less}{bound}. "
            "A smaller effect is not excluded."
        )
    return f"The replays do not decide; reason: {reason.rstrip('.')}."


def located_sentence(
    decision: Decision,
    step: int,
    interval: tuple[int, int],
    level: float = 0.95,
    *,
    verdict: Verdict | None = None,
    label: Label | None = None,
    reason: str | None = None,
) -> str:
    """What :func:`locate` has shown of the step it found.

    Parameters
    ----------
    decision
        Of the confirmation: patch arm = tape ending before the step's answer, control = tape through it.
    step
        The step found.
    interval
        Credible interval of the step under the model of one drop.
    level
        Of that interval.
    verdict, label, reason
        Where the experiment holds the decision back; else as decided.

    Examples
    --------
    >>> from afnb.causal.consensus import SequentialConsensus
    >>> state = SequentialConsensus().start()
    >>> for index in range(3):
    ...     state.feed("control", index, "not_recovered")
    ...     state.feed("patch", index, "recovered")
    >>> print(located_sentence(state.decision, 12, (12, 12)))
    Serving the recorded answer of step 12 lowers the recovery rate (3 of 3 recovered with the tape \
ending before it, 0 of 3 with the tape through it). Chance of saying so if it did not: at most 5 %. That \
the rate falls most there is the claim of a model with one drop: 95 % credible interval steps 12 to 12.
    """
    verdict = decision.verdict if verdict is None else verdict
    label = decision.label if label is None else label
    alpha = decision.rule.error
    model = (
        f"That the rate falls most there is the claim of a model with one drop: {percent(level)} credible "
        f"interval steps {interval[0]} to {interval[1]}."
    )
    if label != "verified" or verdict == "unverified" or alpha is None:
        return f"The likeliest place is step {step}. {unverified(decision, reason)} {model}"
    patch, control = decision.patch, decision.control
    if verdict == "not_recovered":
        least = decision.rule.refutes_below or 0.0
        return (
            f"Serving the recorded answer of step {step} lowers the recovery rate by less than "
            f"{points(least)} (error at most {percent(alpha)}). A smaller effect is not excluded."
        )
    return (
        f"Serving the recorded answer of step {step} lowers the recovery rate ({patch.recovered} of "
        f"{patch.conclusive} recovered with the tape ending before it, {control.recovered} of "
        f"{control.conclusive} with the tape through it). Chance of saying so if it did not: at most "
        f"{percent(alpha)}. {model}"
    )


def sensitivity_sentence(sensitivity: Sensitivity | None) -> str:
    """Whether the verdict would change if every lost replay had gone one way.

    Examples
    --------
    >>> sensitivity_sentence(Sensitivity("recovered", "recovered", "undecided"))
    'Had every lost replay gone for the claim: recovered; against it: undecided.'
    """
    if sensitivity is None:
        return "No replay was lost."
    way, other = sensitivity.if_for.replace("_", " "), sensitivity.if_against.replace("_", " ")
    return f"Had every lost replay gone for the claim: {way}; against it: {other}."


def deterministic_tail(arm: str, replays: int) -> str:
    """The warning for an arm whose replays all had equal tails.

    Examples
    --------
    >>> deterministic_tail("control", 3)
    'deterministic tail: the 3 control replays are 1 observation of the agent, the verdict is about this \
deterministic pair'
    """
    return (
        f"deterministic tail: the {replays} {arm} replays are 1 observation of the agent, "
        "the verdict is about this deterministic pair"
    )
