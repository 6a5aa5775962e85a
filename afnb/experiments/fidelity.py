"""``Fidelity``: what the self-check of a recording came to."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from afnb.core.cassette import Cassette
from afnb.core.ending import Compared, Ending, compare_endings, recorded_ending
from afnb.core.run import Run
from afnb.core.steps import run_from_cassette
from afnb.core.tape import Tape
from afnb.io.serve_report import SessionReport

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The self-check: one unpatched replay of a recording from its tape alone.

    ``ok`` needs something served, nothing missed, everything recorded asked for, the same answer of the
    model, and an agent that ended as recorded: exit status, and output or return value, unless these differ
    between two replays of the recording as well (``ending``, one part for each).
    ``served`` counts recorded exchanges that were asked for, each once.
    """

    recording: str
    ok: bool
    recorded: int
    served: int
    missed: int
    same_answer: bool
    rules: tuple[tuple[str, int], ...] = ()
    reason: str | None = None
    converges: bool | None = None
    recovered: bool | None = None
    ending: tuple[Compared, ...] = ()

    @property
    def only_said_differs(self) -> bool:
        """Whether the agent's output or return value is all that stands against this replay."""
        differing = [part for part in self.ending if part.state == "differs"]
        return len(differing) == 1 and len(self.ending) == 2 and self.reason == differing[0].sentence()

    def warning(self) -> str | None:
        """What a reader of a verdict should know of the agent's end, or None."""
        for part in self.ending:
            if part.state == "varies":
                return (
                    f"{part.sentence()} ({self.recording}); it differs between two replays of the recording "
                    "as well, so it was not compared"
                )
        return None

    def end_words(self) -> str:
        """What was compared of the agent's end, for the end of a sentence."""
        same = [f"same {part.what}" for part in self.ending if part.state == "same"]
        varying = [f"the {part.what} varies" for part in self.ending if part.state == "varies"]
        unknown = [
            "how the agent ended is not recorded" if part.what == "end" else f"{part.what} not recorded"
            for part in self.ending
            if part.state == "unknown"
        ]
        words = [part for part in same if part != "same end"] + varying + unknown
        return "".join(f", {part}" for part in words)

    def sentence(self) -> str:
        """One line for a card."""
        matched = "".join(f", {count} matched by {rule}" for rule, count in self.rules if rule != "key_order")
        if self.ok:
            counts = f"{self.served} of {self.recorded} served, 0 missed"
            return f"{self.recording}: {counts}, same answer{self.end_words()}{matched}"
        return f"{self.recording}: failed, {self.reason}"


def fidelity_of(
    tape: Tape,
    report: SessionReport,
    again: Cassette,
    *,
    fault: str | None = None,
    converges: bool | None = None,
    recovered: bool | None = None,
    ended: Ending | None = None,
    other: Ending | None = None,
) -> Fidelity:
    """Whether a replay did what its recording says.

    Parameters
    ----------
    tape
        The recording.
    report, again
        Counts and new recording of the replay.
    fault
        Why the replay as a whole says nothing (a time-out), if it does not.
    converges
        Whether the oracle takes the replay for one of its own kind, where that was asked.
    recovered
        Whether the unchanged replay already counts as recovered.
    ended, other
        How the agent ended in this replay, and in a further one of the same recording.
    """
    recording = tape.cassette
    unasked = unasked_of(tape, again)
    same = same_end(run_from_cassette(recording), run_from_cassette(again))
    reason = fault
    if reason is None and not recording.exchanges:
        reason = "it holds no exchange"
    elif reason is None and report.missed:
        missed = f"{report.missed} requests are not on the tape"
        reason = report.first_miss.reason if report.first_miss else missed
    elif reason is None and report.live:
        reason = f"{report.live} requests went live"
    elif reason is None and unasked:
        more = f" and {len(unasked) - _SHOWN} more" if len(unasked) > _SHOWN else ""
        numbers = ", ".join(str(i) for i in unasked[:_SHOWN])
        reason = (
            f"the agent asked for {len(recording) - len(unasked)} of {len(recording)} recorded exchanges "
            f"(not for {numbers}{more})"
        )
    elif reason is None and report.tools_refused:
        reason = report.tools_refused[0]
    elif reason is None and not same:
        reason = "the agent's answer is not the recorded one"
    ending = compare_endings(recorded_ending(recording), ended, other, tape.matching.patterns)
    if reason is None:
        reason = next((part.sentence() for part in ending if part.state == "differs"), None)
    return Fidelity(
        recording=recording.id,
        ok=reason is None,
        recorded=len(recording),
        served=len(recording) - len(unasked),
        missed=report.missed,
        same_answer=same,
        rules=report.rules,
        reason=reason,
        converges=converges,
        recovered=recovered,
        ending=ending,
    )


def same_end(recorded: Run, again: Run) -> bool:
    """Whether a replay came to the recorded answer.

    Conversations that run at a time end in another order each time. So where those of the recording do, it
    is the last answer of each that counts, and not which came last.
    """
    if again.answer == recorded.answer:
        return True
    return at_a_time(recorded) and last_answers(again) == last_answers(recorded)


def last_answers(run: Run) -> list[str]:
    """The last answer without tool calls of every conversation, in no order.

    What tells conversations apart (a date in the system prompt) may differ between a recording and its
    replay, so that they are not named.
    """
    last: dict[object, str] = {}
    for step in run.steps:
        if step.kind == "llm" and isinstance(step.outputs, dict) and not step.outputs.get("tool_calls"):
            last[step.attrs.get("branch")] = str(step.outputs.get("text"))
    return sorted(last.values())


def at_a_time(run: Run) -> bool:
    """Whether two conversations of a run overlap: in the order of their answers, or by the clock."""
    spans: dict[object, list[tuple[str, str, int]]] = {}
    for step in run.steps:
        if step.kind == "llm":
            asked = (step.t_start or "", step.t_end or "", step.idx)
            spans.setdefault(step.attrs.get("branch"), []).append(asked)
    for one, other in itertools.combinations(spans.values(), 2):
        if one[0][2] < other[-1][2] and other[0][2] < one[-1][2]:
            return True
        begun, ended = max(one[0][0], other[0][0]), min(one[-1][1], other[-1][1])
        if begun and begun < ended:
            return True
    return False


def unasked_of(tape: Tape, again: Cassette) -> tuple[int, ...]:
    """Recorded exchanges that a replay did not ask for, in recorded order.

    Where ``repeat="first"`` answers every ask of a request alike, one ask of it is enough for all.
    """
    sources = again.attrs.get("sources", [])
    served = {int(source.partition(":")[2]) for source in sources if source.startswith(("tape:", "patch:"))}
    if tape.repeat == "first":
        keys = {tape.keys[i].digest for i in served}
        served = {i for i, key in enumerate(tape.keys) if key.digest in keys}
    return tuple(i for i in range(len(tape)) if i not in served)
