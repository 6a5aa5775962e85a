"""From interventions and event logs to arms.

``do(call k)``: the prefix through k's completion with only its payload replaced (token counts kept);
control: unchanged. ``Resample(k)``: the prefix ends before k's intent, k is asked live; control: as
recorded through k's completion. Everything after is live in both. With several interventions the
prefix of the patch arm ends at the first, and later ones act by position on live calls; the control
keeps everything as recorded through the last.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

from afnb.align.diff import Diff
from afnb.causal.interventions import (
    Edit,
    Graft,
    Intervention,
    Interventions,
    RequestIntervention,
    Resample,
    as_interventions,
)
from afnb.causal.requests import change_of, recorded_request
from afnb.causal.values import called, changed_by
from afnb.core import events as ev
from afnb.core.arm import CallPatch, LogArm, Tail
from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import MISSING, Json, dumps, equal, loads
from afnb.core.logsteps import answer_request, call_seqs, run_from_log
from afnb.core.providers import write_answer
from afnb.core.run import Run
from afnb.errors import ParameterError


@dataclass(frozen=True, slots=True)
class LogCompiled:
    """The arms of one experiment on an event log; the same face as ``compile.Compiled``."""

    interventions: tuple[Intervention, ...]
    patch: LogArm
    control: LogArm
    recorded: tuple[CallPatch, ...]
    seqs: tuple[tuple[int, int | None], ...]
    unchanged: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[int, ...]:
        """The intervened steps, in run order."""
        return tuple(patch.step for patch in self.patch.patches)

    def without(self, step: int) -> LogArm:
        """The control arm for confirming ``step``: every other intervention, and ``step`` as recorded."""
        if step not in self.steps:
            raise ParameterError(f"without({step}): the intervened steps are {list(self.steps)}")
        pairs = zip(self.patch.patches, self.recorded, strict=True)
        patches = tuple(kept if patch.step == step else patch for patch, kept in pairs)
        return _arm(f"without step {step}", patches, self.seqs, self.patch.tail)


def compile_log_arms(
    interventions: Interventions,
    bad: EventLog,
    good: EventLog | None = None,
    alignment: Diff | None = None,
    *,
    bad_run: Run | None = None,
    good_run: Run | None = None,
    tail: Tail = "live",
) -> LogCompiled:
    """Patch and control arm for interventions on an event log.

    Parameters
    ----------
    interventions
        One, or several on different steps; they act in run order.
    bad, good
        The logs; ``good`` is needed for ``Graft`` only.
    alignment
        ``diff(bad, good)``; needed for ``Graft`` only.
    bad_run, good_run
        The logs' runs, if known already.
    tail
        Only ``live``: an event log is replayed by position, so there is no tape to screen with.

    Raises
    ------
    ParameterError
        No such step, a step without completion, two interventions on one step, a graft without an aligned
        good step of the same kind, a value that does not fit, or another tail.
    """
    if tail != "live":
        raise ParameterError(f"tail={tail!r}: on an event log only tail='live' is possible")
    run = bad_run or run_from_log(bad)
    donor = None
    if good is not None and alignment is not None:
        donor = (good, good_run or run_from_log(good), alignment)
    seqs = tuple(call_seqs(bad))
    completions = _completions(bad)
    pairs: list[tuple[CallPatch, CallPatch, Intervention]] = []
    for item in (_resolve(item, donor) for item in as_interventions(interventions)):
        k = item.step
        assert k is not None
        if k >= len(run.steps):
            raise ParameterError(f"{called(item)}: the run {run.id} has {len(run.steps)} steps")
        if any(patch.step == k for patch, _, _ in pairs):
            raise ParameterError(f"two interventions on step {k}: one step takes one")
        if k not in completions:
            raise ParameterError(f"{called(item)}: the log records no completion of this call")
        step = run.steps[k]
        kept = CallPatch(k, step.kind, step.name, completions[k], as_recorded=True)
        patch = _patch(item, kept, step.outputs, donor, step.inputs)
        if patch.change is not None:
            kept = replace(patch, change=None)
        pairs.append((patch, kept, item))
    pairs.sort(key=lambda pair: pair[0].step)
    patches = tuple(patch for patch, _, _ in pairs)
    recorded = tuple(kept for _, kept, _ in pairs)
    return LogCompiled(
        interventions=tuple(item for _, _, item in pairs),
        patch=_arm("patch", patches, seqs, tail),
        control=_arm("control", recorded[-1:], seqs, tail),
        recorded=recorded,
        seqs=seqs,
        unchanged=tuple(p.step for p, kept, _ in pairs if not p.ask and equal(p.value, kept.value)),
    )


Donor = tuple[EventLog, Run, Diff]


def _resolve(item: Intervention, donor: Donor | None) -> Intervention:
    if not isinstance(item, Graft):
        return item
    if donor is None:
        raise ParameterError(
            "Graft needs the answer of a good run, and none is given: good=, a log of the same task "
            "(command line: --graft GOOD)"
        )
    if item.step is not None:
        return item
    fork = donor[2].fork
    if fork is None or fork.bad_step is None or fork.good_step is None:
        raise ParameterError("Graft(): the two runs have no two-sided fork; name a step")
    return Graft(fork.bad_step)


def _completions(log: EventLog) -> dict[int, Json]:
    """Recorded response or output by call number."""
    found: dict[int, Json] = {}
    number = -1
    for envelope in log.envelopes:
        event = envelope.event
        if isinstance(event, ev.ModelCallRequested | ev.ToolCallRequested):
            number += 1
        elif isinstance(event, ev.ModelCallCompleted):
            found.setdefault(number, event.response)
        elif isinstance(event, ev.ToolCallCompleted):
            found.setdefault(number, event.output)
    return found


def _patch(
    item: Intervention, kept: CallPatch, outputs: Any, donor: Donor | None, inputs: Any = MISSING
) -> CallPatch:
    if isinstance(item, Resample):
        if kept.kind != "llm":
            raise ParameterError(
                f"{called(item)}: step {kept.step} is the tool {kept.name!r}; resample a model call"
            )
        return replace(kept, ask=True, as_recorded=False, model=item.model, value=None)
    if isinstance(item, RequestIntervention):
        if kept.kind != "llm":
            raise ParameterError(f"{called(item)}: step {kept.step} is the tool {kept.name!r}, no model call")
        again = replace(kept, ask=True, as_recorded=False, value=None)
        return replace(again, change=change_of(item, recorded_request(item, inputs, kept.value)))
    if isinstance(item, Edit):
        value = _edited(item, kept, outputs)
    else:
        assert donor is not None
        value = _grafted(item, kept, donor)
    return replace(kept, value=value, as_recorded=False)


def _grafted(item: Graft, kept: CallPatch, donor: Donor) -> Json:
    good, run, alignment = donor
    for move in alignment.moves:
        if move.kind == "sync" and move.bad_step == kept.step and move.good_step is not None:
            step = run.steps[move.good_step]
            if step.kind != kept.kind:
                raise ParameterError(
                    f"{called(item)}: the bad run's step is {kept.kind} {kept.name!r}, the good run's "
                    f"aligned one is {step.kind} {step.name!r}; only steps of one kind can be grafted"
                )
            completions = _completions(good)
            if move.good_step not in completions:
                raise ParameterError(f"{called(item)}: the good run completed no aligned call")
            return completions[move.good_step]
    raise ParameterError(
        f"{called(item)}: no step of the good run {run.id} is aligned with it; use Edit or Resample"
    )


def _edited(item: Edit, kept: CallPatch, outputs: Any) -> Json:
    """The new payload: of a tool the output; of a model call the answer written into the recording."""
    recorded = kept.value if kept.kind == "tool" else outputs
    value = changed_by(item.value, item, copy.deepcopy(recorded)) if callable(item.value) else item.value
    if kept.kind == "tool":
        return value
    known = isinstance(outputs, dict) and set(outputs) == {"text", "tool_calls"}
    if not known or not isinstance(kept.value, dict):
        return value
    said = {"text": value, "tool_calls": []} if isinstance(value, str) else value
    if not isinstance(said, dict) or not set(said) <= {"text", "tool_calls"}:
        raise ParameterError(
            f"{called(item)}: a model answer is a text or an object with text and tool_calls"
        )
    return _written(kept.value, {**outputs, **said})


def _written(recorded: dict[str, Any], said: dict[str, Any]) -> Json:
    found = answer_request(MISSING, recorded)
    return said if found is None else loads(write_answer(*found, said).body)


def _arm(
    name: str, patches: tuple[CallPatch, ...], seqs: tuple[tuple[int, int | None], ...], tail: Tail
) -> LogArm:
    first = patches[0]
    intent, completion = seqs[first.step]
    if first.ask or completion is None:
        return LogArm(name, patches, intent - 1, first.step, tail)
    return LogArm(name, patches, completion, first.step + 1, tail)


def _change_part(patch: CallPatch) -> list[str]:
    return [] if patch.change is None else [dumps(patch.change.to_json())]


def log_arm_parts(arm: LogArm) -> list[object]:
    """What an arm does, for its fingerprint.

    Examples
    --------
    >>> log_arm_parts(LogArm("a", (), 3, 1))
    [3, 1, 'live', []]
    """
    patches = [
        [p.step, p.kind, p.name, p.ask, p.as_recorded, p.model, dumps(p.value), *_change_part(p)]
        for p in arm.patches
    ]
    return [arm.through_seq, arm.prefix_calls, arm.tail, patches]
