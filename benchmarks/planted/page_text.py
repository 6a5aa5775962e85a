"""The words of ``docs/planted.md`` that are no figures."""

from __future__ import annotations

OPENING = """# How often the verdicts are right

<!-- Written by `python -m benchmarks.planted page` from `benchmarks/planted/results`; do not edit. -->

{scenarios} planted scenarios of {families} kinds (`benchmarks/planted/scenarios.py`, from one seed):
agents whose deciding steps are known because they were put there (`afnb/testing/planted.py`), with the
effect of every step computed exactly from the plan (`afnb/testing/planted_truth.py`), never estimated.
How the verdicts come about is in [method.md](method.md).
Every verdict below comes from the real engine: the agent asks over a transport, a tape answers up to the
branch point, a simulated provider after it.

`{command}` makes all of it again; a run that was stopped goes on where it was. Measured at {revisions},
Python {python}, {machine}; {packages}. Times are of a machine that did other work beside it.

- **false `recovered`**: a step was named whose exact effect is at most 0 (in an attribution: given the
  other named steps).
- **false `not_recovered`**: said where the exact effect is at least `min_effect`, 0.5.
- Either is counted among the cases in which it was possible. Intervals are Wilson's, 95 %.
- **exact**: the named steps are the planted ones, no more and no fewer. **within 1**: as many, each at
  most one turn off."""

CELLS_TEXT = """\
One `what_if` of the plainest agent at given recovery rates, beside the exact distribution of the rule
(`afnb.causal.planning.forecast`).

"""

ASKED_TEXT = """\
One step is changed: the first planted cause, and a difference that causes nothing. Each rule sees the
same replays: `sequential` is the default; `majority` the strict majority of 3 patched replays, without a
control arm; `fisher` 23 replays of either arm and Fisher's exact test, sized beforehand for an effect of
0.5. By the exact effect of the step:

"""

SIDE_TEXT = """\
Side by side, on the scenarios and seeds that all five were run on. `majority` names what its search ended
with and confirms nothing; `last-bad-step` names the last step that differs, `random` any of them, neither
with a replay.

"""

POLICY_TEXT = """\
Twenty steps that all differ from the good run's. The bad choice at step 12 is made with the given chance,
and each later step repairs the run with the other. `attribute` has the good run, `locate` has not: it
can only see the recovery rate fall at the choice, from one minus the chance to nearly nothing. Where the
agent mostly chooses badly by itself, that fall is too small for its replays, and it names nothing.

"""

CALIBRATION_TEXT = """![calibration](images/calibration.png)

Left: the chance of `recovered` that the exact forecast states for an experiment's true rates, against how
often it was said; points belong on the diagonal. Right: experiments in which nothing was changed for the
better; for each level alpha, how often the e-value reached 1/alpha at any time. It promises to lie below
the diagonal, at whatever moment one stops."""

FAMILIES = {
    "single": "one cause; the agent's own coin decides",
    "told": "one cause; the closing answer carries the outcome",
    "none": "differences that cause nothing",
    "closing": "nothing matters but the closing answer",
    "double": "two causes, of which one alone repairs nothing",
    "double-told": "the same; the closing answer carries the outcome",
    "either": "two causes, each of which alone repairs the run",
    "self-correcting": "later steps put the run in order again with 3, 10 or 30 %",
    "carry": "a later statement is believed from then on, and repairs the run as well",
    "harmful": "the good run's answer makes it worse",
    "boundary": "an effect of exactly 0.5",
    "busy": "requests are answered 429 first",
    "failing-tools": "the tool of a wrong choice fails",
    "flaky-tools": "tools are not available now and then",
    "crash": "the agent crashes now and then, before or after the branch",
    "hang": "the agent hangs now and then, in any run or in failing ones",
    "loopback": "over a socket",
    "ten-single": "ten candidates, one cause, rates at least 0.9 and at most 0.1",
    "ten-double": "ten candidates, two causes, rates at least 0.9 and at most 0.1",
}
