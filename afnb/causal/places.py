"""Where a run can be branched: after each recorded answer, and before the first.

``q(k)`` is the rate at which a run recovers when the tape serves its first ``k`` answers and the rest is
live. The replays behind ``q(k)`` are those of one arm: the tape ends before answer ``k + 1``, which is
asked live. For ``k = n`` everything is as recorded. Confirming a drop at answer ``c`` compares two arms
that are alike up to answer ``c``: the tape ends before it, and the tape serves it too.

In a cassette the answers are those of the model, in capture order. In an event log they are the completed
calls, of models and of tools.
"""

from __future__ import annotations

from dataclasses import dataclass

from afnb.core import events as ev
from afnb.core.arm import AnswerPatch, Arm, AskAgain, CallPatch, LogArm
from afnb.core.cassette import Cassette
from afnb.core.eventlog import EventLog
from afnb.core.logsteps import call_seqs, run_from_log
from afnb.core.run import Run
from afnb.core.steps import model_positions, run_from_cassette
from afnb.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Place:
    """One recorded answer: its number from 1, and where it stands in the run and in the recording."""

    number: int
    step: int
    kind: str
    name: str
    exchange: int | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """The recorded answers of a run and the arms that branch there.

    Parameters
    ----------
    answers
        In recorded order.
    before, through
        For each answer the arm whose tape ends before it, and the one whose tape serves it.
    """

    answers: tuple[Place, ...]
    before: tuple[Arm, ...] | tuple[LogArm, ...]
    through: tuple[Arm, ...] | tuple[LogArm, ...]

    def __len__(self) -> int:
        return len(self.answers)

    def arm(self, served: int) -> Arm | LogArm:
        """The arm behind q(served): the tape serves so many answers, 0 to n."""
        if not 0 <= served <= len(self):
            raise ParameterError(f"a replay can serve 0 to {len(self)} answers, got {served}")
        return self.through[-1] if served == len(self) else self.before[served]

    def pair(self, number: int) -> tuple[Arm | LogArm, Arm | LogArm]:
        """Patch and control arm that confirm a drop at answer ``number`` (from 1)."""
        if not 1 <= number <= len(self):
            raise ParameterError(f"the recorded answers are 1 to {len(self)}, got {number}")
        return self.before[number - 1], self.through[number - 1]

    def step(self, served: int) -> int:
        """The step of the last answer that is served; -1 where none is."""
        return -1 if served == 0 else self.answers[served - 1].step


def places_of(recording: Cassette | EventLog, run: Run | None = None) -> Places:
    """The places of a recording.

    Raises
    ------
    ParameterError
        It records no answer, so there is no place to branch at.

    Examples
    --------
    >>> from afnb.core.cassette import Exchange, Request, Response
    >>> ask = Request("POST", "/v1/messages", body=b'{"messages": []}')
    >>> said = Response(200, body=b'{"content": [{"type": "text", "text": "hi"}]}')
    >>> found = places_of(Cassette("x", (Exchange(0, ask, said),)))
    >>> len(found), found.arm(0).serve_through, found.arm(1).serve_through
    (1, -1, 0)
    """
    if isinstance(recording, EventLog):
        return _of_log(recording, run or run_from_log(recording))
    return _of_cassette(recording, run or run_from_cassette(recording))


def _of_cassette(cassette: Cassette, run: Run) -> Places:
    positions = model_positions(cassette)
    answers: list[Place] = []
    before: list[Arm] = []
    through: list[Arm] = []
    for step in run.steps:
        at = step.exchange
        if step.kind != "llm" or at is None or at not in positions:
            continue
        branch, ordinal = positions[at]
        number = len(answers) + 1
        answers.append(Place(number, step.idx, "llm", step.name, exchange=at))
        ask = AskAgain(step.idx, at, ordinal, branch)
        before.append(Arm(f"served {number - 1}", (ask,), at - 1))
        response = cassette.exchanges[at].response
        kept = AnswerPatch(step.idx, at, ordinal, branch, response, as_recorded=True)
        through.append(Arm(f"served {number}", (kept,), at))
    return _checked(Places(tuple(answers), tuple(before), tuple(through)), run, "answer of a model")


def _of_log(log: EventLog, run: Run) -> Places:
    answers: list[Place] = []
    before: list[LogArm] = []
    through: list[LogArm] = []
    given = _given(log)
    for step, (intent, completion) in zip(run.steps, call_seqs(log), strict=True):
        if completion is None:
            continue
        number = len(answers) + 1
        answers.append(Place(number, step.idx, step.kind, step.name, seq=intent))
        ask = CallPatch(step.idx, step.kind, step.name, ask=True)
        before.append(LogArm(f"served {number - 1}", (ask,), intent - 1, step.idx))
        kept = CallPatch(step.idx, step.kind, step.name, given[completion], as_recorded=True)
        through.append(LogArm(f"served {number}", (kept,), completion, step.idx + 1))
    return _checked(Places(tuple(answers), tuple(before), tuple(through)), run, "completed call")


def _given(log: EventLog) -> dict[int, object]:
    """What each completion gave, by its seq."""
    found: dict[int, object] = {}
    for envelope in log.envelopes:
        event = envelope.event
        if isinstance(event, ev.ModelCallCompleted):
            found[envelope.seq] = event.response
        elif isinstance(event, ev.ToolCallCompleted):
            found[envelope.seq] = event.output
    return found


def _checked(places: Places, run: Run, what: str) -> Places:
    if not places.answers:
        raise ParameterError(f"{run.id} records no {what}, so there is no place to branch at")
    return places
