"""From interventions and recordings to arms: what a patch replay and a control replay serve.

``do(llm step k)``: the tape answers through k's exchange ``e`` with k's answer replaced; control: the
same with k's answer as recorded. ``do(tool step k)``, the tool having run inside the agent: the tape
answers through the exchange that made the call, and the call's result is replaced in every later
request; control: forwarded unchanged. ``Resample(k)``: the tape answers through ``e - 1`` and k is asked
live; control: as recorded through ``e``. Everything after is live in both arms.

With several interventions the patch arm carries all of them and ends its tape at the last; the control
keeps everything as recorded up to the last. For confirming one step ``s`` of a set M, ``without(s)`` is
do(M) with s as recorded, at the same branch point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from afnb.causal.compile_log import log_arm_parts
from afnb.causal.interventions import (
    Edit,
    Graft,
    Intervention,
    Interventions,
    RequestIntervention,
    Resample,
    as_interventions,
)
from afnb.causal.marks import digest
from afnb.causal.requests import change_of
from afnb.causal.values import called, edited_answer, edited_result, tool_answer, written
from afnb.core.arm import AnswerPatch, Arm, AskAgain, LogArm, Patch, ResultPatch, Tail
from afnb.core.cassette import Cassette, Exchange, Response
from afnb.core.jsonvalue import MISSING, dumps, equal
from afnb.core.providers import provider_of
from afnb.core.providers.base import framing
from afnb.core.run import Run, Step
from afnb.core.steps import positions_of, run_from_cassette
from afnb.errors import ParameterError

if TYPE_CHECKING:
    from afnb.align.diff import Diff


@dataclass(frozen=True, slots=True)
class Compiled:
    """The arms of one experiment.

    Parameters
    ----------
    interventions
        As resolved (a ``Graft()`` names its step), in run order.
    patch, control
        The two arms. Controls with equal :func:`arm_fingerprint` may share replays.
    recorded
        For each patch of the patch arm the same place as recorded.
    unchanged
        Steps whose new value equals the recorded one.
    """

    interventions: tuple[Intervention, ...]
    patch: Arm
    control: Arm
    recorded: tuple[Patch, ...]
    unchanged: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[int, ...]:
        """The intervened steps, in run order."""
        return tuple(patch.step for patch in self.patch.patches)

    def without(self, step: int) -> Arm:
        """The control arm for confirming ``step``: every other intervention, and ``step`` as recorded."""
        if step not in self.steps:
            raise ParameterError(f"without({step}): the intervened steps are {list(self.steps)}")
        pairs = zip(self.patch.patches, self.recorded, strict=True)
        patches = tuple(recorded if patch.step == step else patch for patch, recorded in pairs)
        return _arm(f"without step {step}", patches, self.patch.tail)


def compile_arms(
    interventions: Interventions,
    bad: Cassette,
    good: Cassette | None = None,
    alignment: Diff | None = None,
    *,
    bad_run: Run | None = None,
    good_run: Run | None = None,
    tail: Tail = "live",
) -> Compiled:
    """Patch and control arm for interventions on a recording.

    Parameters
    ----------
    interventions
        One, or several on different steps; they act in run order.
    bad, good
        The recordings; ``good`` is needed for ``Graft`` only.
    alignment
        ``diff(bad, good)``; needed for ``Graft`` only.
    bad_run, good_run
        The recordings' runs, if known already.
    tail
        What answers after the branch point; other than ``live`` is a screen.

    Raises
    ------
    ParameterError
        No such step, a step of the wrong kind, two interventions on one step, a graft without an aligned
        good step, or a value that does not fit.
    """
    source_run = bad_run or run_from_cassette(bad)
    source = _Source(bad, source_run, positions_of(source_run))
    donor = None
    if good is not None and alignment is not None:
        donor = _Donor(good, good_run or run_from_cassette(good), alignment)
    resolved = [_resolve(item, donor) for item in as_interventions(interventions)]
    pairs: list[tuple[Patch, Patch, Intervention]] = []
    for item in resolved:
        step = source.step(item)
        if any(patch.step == item.step for patch, _, _ in pairs):
            raise ParameterError(f"two interventions on step {item.step}: one step takes one")
        pairs.append((*_patch_pair(item, step, source, donor), item))
    pairs.sort(key=lambda pair: _run_order(pair[0]))
    patches = tuple(patch for patch, _, _ in pairs)
    recorded = tuple(kept for _, kept, _ in pairs)
    return Compiled(
        interventions=tuple(item for _, _, item in pairs),
        patch=_arm("patch", patches, tail),
        control=_arm("control", recorded[-1:], tail),
        recorded=recorded,
        unchanged=tuple(patch.step for patch, kept, _ in pairs if _same(patch, kept)),
    )


def arm_fingerprint(arm: Arm | LogArm) -> str:
    """Hash of everything an arm does; its name is left out.

    Examples
    --------
    >>> one, two, other = Arm("a", (), 3), Arm("b", (), 3), Arm("a", (), 4)
    >>> arm_fingerprint(one) == arm_fingerprint(two) != arm_fingerprint(other)
    True
    """
    if isinstance(arm, LogArm):
        return digest("log", log_arm_parts(arm))
    return digest(arm.serve_through, arm.tail, [_patch_parts(patch) for patch in arm.patches])


def _patch_parts(patch: Patch) -> list[object]:
    where: list[object] = [type(patch).__name__, patch.step, patch.exchange]
    if isinstance(patch, AnswerPatch):
        response = patch.response
        chunks = None if response.chunks is None else [(chunk.ms, chunk.data) for chunk in response.chunks]
        what = [response.status, response.headers, response.body, chunks, response.incomplete]
        return [*where, patch.branch, patch.ordinal, patch.as_recorded, *what]
    if isinstance(patch, AskAgain):
        change = [] if patch.change is None else [dumps(patch.change.to_json())]
        return [*where, patch.branch, patch.ordinal, patch.model, *change]
    value = None if patch.value is MISSING else dumps(patch.value)
    source = [] if patch.tool_exchange is None else [patch.tool_exchange]
    return [*where, patch.call_id, patch.call_index, patch.tool, patch.as_recorded, value, *source]


def _arm(name: str, patches: tuple[Patch, ...], tail: Tail) -> Arm:
    last = max(patch.exchange for patch in patches)
    live_at_last = any(isinstance(patch, AskAgain) and patch.exchange == last for patch in patches)
    return Arm(name, patches, last - 1 if live_at_last else last, tail)


def _run_order(patch: Patch) -> tuple[int, int, int]:
    if isinstance(patch, ResultPatch):
        return patch.exchange, 1, patch.call_index
    return patch.exchange, 0, 0


def _same(patch: Patch, kept: Patch) -> bool:
    if isinstance(patch, AnswerPatch) and isinstance(kept, AnswerPatch):
        return patch.response == kept.response
    if isinstance(patch, AskAgain) and isinstance(kept, AskAgain):
        return patch.change is None
    if isinstance(patch, ResultPatch) and isinstance(kept, ResultPatch):
        return kept.value is not MISSING and equal(patch.value, kept.value)
    return False


# -- reading the recordings ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Source:
    cassette: Cassette
    run: Run
    positions: dict[int, tuple[str, int]]

    def step(self, item: Intervention) -> Step:
        steps, k = self.run.steps, item.step
        assert k is not None
        if k >= len(steps):
            raise ParameterError(
                f"{called(item)}: the run {self.run.id} has {len(steps)} steps"
                + (f", 0 to {len(steps) - 1}" if steps else "")
            )
        return steps[k]

    def exchange(self, item: Intervention, idx: int | None) -> Exchange:
        found = _exchange(self.cassette, idx)
        if found is None:
            raise ParameterError(
                f"{called(item)}: no recorded exchange belongs to this step, nothing to change"
            )
        return found


@dataclass(frozen=True, slots=True)
class _Donor:
    cassette: Cassette
    run: Run
    alignment: Diff

    def step(self, k: int) -> Step:
        for move in self.alignment.moves:
            if move.kind == "sync" and move.bad_step == k and move.good_step is not None:
                return self.run.steps[move.good_step]
        raise ParameterError(
            f"Graft(step={k}): no step of the good run {self.run.id} is aligned with it; "
            "use Edit or Resample, or graft another step"
        )


def _exchange(cassette: Cassette, idx: int | None) -> Exchange | None:
    return next((exchange for exchange in cassette.exchanges if exchange.idx == idx), None)


def _resolve(item: Intervention, donor: _Donor | None) -> Intervention:
    if not isinstance(item, Graft):
        return item
    if donor is None:
        raise ParameterError(
            "Graft needs the answer of a good run, and none is given: good=, a recording of the same task "
            "(command line: --graft GOOD); Edit and Resample need none"
        )
    if item.step is not None:
        return item
    fork = donor.alignment.fork
    if fork is None:
        raise ParameterError("Graft(): the two runs do not fork, so there is no fork to graft; name a step")
    if fork.bad_step is None or fork.good_step is None:
        side = "good" if fork.bad_step is None else "bad"
        raise ParameterError(
            f"Graft(): the fork is a step of the {side} run alone; name another step, or use Edit"
        )
    return Graft(fork.bad_step)


# -- one patch and its control -------------------------------------------------------------------


def _patch_pair(item: Intervention, step: Step, source: _Source, donor: _Donor | None) -> tuple[Patch, Patch]:
    if step.kind == "tool" and step.exchange is not None:
        return _over_http_pair(item, step, source, donor)
    if step.kind == "tool":
        return _tool_pair(item, step, source, donor)
    if step.kind == "agent":
        raise ParameterError(
            f"{called(item)}: step {item.step} is an agent, not an answer; name a step inside it"
        )
    exchange = source.exchange(item, step.exchange)
    branch, ordinal = source.positions.get(exchange.idx, ("", -1))
    k = item.step
    assert k is not None
    kept = AnswerPatch(k, exchange.idx, ordinal, branch, exchange.response, as_recorded=True)
    if isinstance(item, Resample):
        if ordinal < 0:
            raise ParameterError(
                f"{called(item)}: step {k} is no model answer (it is {step.kind} {step.name!r})"
            )
        return AskAgain(k, exchange.idx, ordinal, branch, item.model), kept
    if isinstance(item, RequestIntervention):
        if ordinal < 0:
            raise ParameterError(f"{called(item)}: step {k} is no model answer (it is {step.kind})")
        change = change_of(item, exchange.request)
        again = AskAgain(k, exchange.idx, ordinal, branch)
        return replace(again, change=change), again
    if isinstance(item, Edit):
        response = edited_answer(item, step, exchange)
    else:
        assert donor is not None
        response = _grafted(item, step, exchange, donor)
    return AnswerPatch(k, exchange.idx, ordinal, branch, response), kept


def _tool_pair(item: Intervention, step: Step, source: _Source, donor: _Donor | None) -> tuple[Patch, Patch]:
    if isinstance(item, Resample | RequestIntervention):
        raise ParameterError(
            f"{called(item)}: step {item.step} is the tool {step.name!r}, which no provider can be asked for "
            "again; resample the answer that called it, or Edit its result"
        )
    k = item.step
    assert k is not None
    number = step.attrs.get("tool_exchange")
    if "call_exchange" in step.attrs:
        exchange, call_index = (
            source.exchange(item, step.attrs["call_exchange"]).idx,
            step.attrs["call_index"],
        )
    elif number is not None:  # the agent's own code called it, and a wrapped tool said so
        exchange, call_index = source.cassette.tool_exchanges[number].after_exchange, -1
    else:
        raise ParameterError(
            f"{called(item)}: no recorded model answer called the tool {step.name!r} of step {k}, so its "
            "result cannot be found in a request"
        )
    if isinstance(item, Edit):
        value = edited_result(item, step)
    else:
        assert donor is not None
        value = _same_kind(item, step, donor).outputs
        if value is MISSING:
            raise ParameterError(
                f"{called(item)}: the good run recorded no result for its tool {step.name!r}"
            )
    kept = ResultPatch(k, exchange, step.call_id, call_index, step.name, step.outputs, True, number)
    return replace(kept, value=value, as_recorded=False), kept


def _over_http_pair(
    item: Intervention, step: Step, source: _Source, donor: _Donor | None
) -> tuple[Patch, Patch]:
    """A tool's result is replaced in the HTTP answer that brought it: an MCP server's, or a service's."""
    if isinstance(item, Resample | RequestIntervention):
        raise ParameterError(
            f"{called(item)}: step {item.step} is the tool {step.name!r}; resample the answer that called "
            "it, or Edit its result"
        )
    exchange = source.exchange(item, step.exchange)
    k = item.step
    assert k is not None
    kept = AnswerPatch(k, exchange.idx, -1, "", exchange.response, as_recorded=True)
    if isinstance(item, Edit):
        value = edited_result(item, step)
    else:
        assert donor is not None
        value = _same_kind(item, step, donor).outputs
        if value is MISSING:
            raise ParameterError(
                f"{called(item)}: the good run recorded no result for its tool {step.name!r}"
            )
    return replace(kept, response=tool_answer(item, exchange, value), as_recorded=False), kept


def _same_kind(item: Graft, step: Step, donor: _Donor) -> Step:
    assert item.step is not None
    found = donor.step(item.step)
    if found.kind != step.kind:
        raise ParameterError(
            f"{called(item)}: the bad run's step is {step.kind} {step.name!r}, the good run's aligned one is "
            f"{found.kind} {found.name!r}; only steps of one kind can be grafted"
        )
    return found


def _grafted(item: Graft, step: Step, exchange: Exchange, donor: _Donor) -> Response:
    found = _same_kind(item, step, donor)
    given = _exchange(donor.cassette, found.exchange)
    if given is None:
        raise ParameterError(f"{called(item)}: the good run's aligned step has no recorded answer to graft")
    same_form = (
        provider_of(given.request) == provider_of(exchange.request)
        and framing(given.response) == framing(exchange.response)
        and not given.response.incomplete
    )
    if step.kind != "llm" or same_form:
        return given.response
    return written(item, exchange, found.outputs)
