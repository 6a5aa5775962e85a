"""Signs that the replays of an experiment are not independent: an agent that keeps answers between runs.

Every replay asks the provider anew after the branch point. An agent with a cache of its own gets the first
replay's answers in all later ones, so that an arm of any size is one observation; and the control arm gets
the recorded answers back. afnb cannot see a cache, only that requests are missing.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from afnb.core.jsonvalue import equal
from afnb.core.run import Run
from afnb.experiments.replay import ReplayResult

KEPT = (
    "does the agent keep answers between its runs? Switch its cache off, or put it below the working "
    "directory that each replay is given"
)


def not_independent(
    results: Sequence[ReplayResult], used: Container[tuple[str, int]], recorded: Run
) -> str | None:
    """Why these replays cannot carry a verdict, or None.

    Parameters
    ----------
    results
        Replays of both arms.
    used
        Arm and index of those that the rule consumed.
    recorded
        The intervened run.
    """
    for role, name in (("patch", "patched"), ("control", "control")):
        arm = [r for r in results if r.role == role and (role, r.index) in used and _went_well(r)]
        asked = [r for r in arm if r.report.live]
        unasked = [r for r in arm if not r.report.live]
        if any(_alike(one, other) for one in unasked for other in asked):
            return (
                f"some {name} replays asked the provider after the branch point, and others came to the same "
                f"end without asking: {KEPT}"
            )
        if role == "control" and unasked and not asked and all(_shorter(r, recorded) for r in unasked):
            return f"no control replay asked the provider anything, where the recording goes on: {KEPT}"
    return None


def _went_well(result: ReplayResult) -> bool:
    run = result.run
    return result.reason is None and run is not None and not run.exit_status


def _alike(one: ReplayResult, other: ReplayResult) -> bool:
    """Whether two agents said the same in the end: what a command printed, else what a function returned."""
    return equal(_said(one), _said(other))


def _said(result: ReplayResult) -> Any:
    run = result.run
    assert run is not None
    return run.stdout or run.answer


def _shorter(result: ReplayResult, recorded: Run) -> bool:
    assert result.run is not None
    return _answers(result.run) < _answers(recorded)


def _answers(run: Run) -> int:
    return sum(step.kind == "llm" for step in run.steps)
