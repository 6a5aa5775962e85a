"""One replay as data: the job, the result, the seed, and the gate before live calls.

How a replay is run is ``tape_replay`` (HTTP recordings) and ``log_replay`` (event logs). Whatever happens
to one is a value with a reason; only an agent that cannot be started at all ends an experiment.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from afnb.core.arm import Arm, LogArm
from afnb.core.cassette import Cassette, Request
from afnb.core.ending import Ending
from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import dumps
from afnb.core.providers import Answer, requested_model
from afnb.core.run import Run
from afnb.experiments.budget import Meter, Use
from afnb.experiments.fidelity import Fidelity
from afnb.io.serve_report import SessionReport

Role = Literal["patch", "control", "probe", "check"]
Recovery = Literal["recovered", "not_recovered", "inconclusive"]
Lost = Literal["before", "after"]

STOPPED = ("budget", "interrupted")
"""Reasons that say the experiment ended, not that the replay failed."""


class Setting(Protocol):
    """What all replays of an experiment share, and how one is run: over a tape or over an event log."""

    @property
    def recording_id(self) -> str:
        """The intervened recording."""
        ...

    def run(self, job: Job, gate: Gate | None, stop: threading.Event | None) -> ReplayResult:
        """Run and judge one replay; whatever happens to it is a value."""
        ...

    def check(
        self,
        seed: int,
        converges: Callable[[ReplayResult], bool] | None = None,
        stop: threading.Event | None = None,
    ) -> Fidelity:
        """Replay the recording unpatched, nothing live; ``AgentError`` if nothing of it was replayed."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """One replay to run: which arm, which index in it, with which seed; of which stage, for the books."""

    arm: Arm | LogArm | None
    role: Role
    index: int
    seed: int
    stage: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """One finished replay, as plain data (picklable).

    ``recording`` is the replay's own complete cassette, ``run`` its steps, ``uses`` what its live answers
    spent, by model.
    """

    role: Role
    index: int
    seed: int
    recovery: Recovery
    reason: str | None
    lost: Lost | None
    detail: str | None
    report: SessionReport
    run: Run | None
    recording: Cassette | EventLog | None
    tail_digest: str | None
    wall_s: float
    worker: str
    cannot_start: bool = False
    uses: tuple[Use, ...] = ()
    agent_error: str | None = None
    ended: Ending | None = None

    def row(self, experiment: str, used: bool) -> dict[str, Any]:
        """A row of the ``replays`` table."""
        report = self.report
        return {
            "experiment": experiment,
            "arm": self.role,
            "index": self.index,
            "used": used,
            "recovery": self.recovery,
            "reason": self.reason,
            "lost": self.lost,
            "detail": self.detail,
            "seed": self.seed,
            "served": report.served,
            "live": report.live,
            "missed": report.missed,
            "normalised": max((count for _, count in report.rules), default=0),
            "tools_served": report.tools_served,
            "tools_live": report.tools_live,
            "beyond_recording": report.beyond_recording,
            "live_before_branch": report.live_before_branch,
            "patched_steps": list(report.patches_applied),
            "exit_status": self.run.exit_status if self.run else None,
            "answer": self.run.answer if self.run else None,
            "tail_digest": self.tail_digest,
            "input_tokens": report.tokens_live.input,
            "output_tokens": report.tokens_live.output,
            "recording": self.recording.id if self.recording else None,
            "wall_s": self.wall_s,
            "worker": self.worker,
        }


def derive_seed(seed: int, *parts: object) -> int:
    """A 63-bit seed that depends on ``seed`` and every part (experiment stage, arm, index).

    Examples
    --------
    >>> derive_seed(0, "patch", 1) == derive_seed(0, "patch", 1) != derive_seed(0, "control", 1)
    True
    """
    text = "\x1f".join(str(part) for part in (seed, *parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


class Gate:
    """Asked before each live call, told of each live answer: what a replay spends goes through here.

    Parameters
    ----------
    meter
        Counts calls, tokens and dollars, and knows the limits; None for a replay without a budget.
    stop
        Set where the experiment was stopped.
    """

    def __init__(self, meter: Meter | None = None, stop: threading.Event | None = None) -> None:
        self._meter = meter
        self._stop = stop
        self._lock = threading.Lock()
        self._uses: dict[str | None, Use] = {}

    def __call__(self, _request: Request) -> str | None:
        """Why this live call may not be made; None lets it go and counts it."""
        if self._stop is not None and self._stop.is_set():
            return "interrupted: the experiment was stopped"
        crossed = None if self._meter is None else self._meter.take()
        return None if crossed is None else f"budget: {crossed}"

    def spent(self, request: Request, answer: Answer | None) -> None:
        """Charge one live answer of a model to the meter, under the model that gave it."""
        use = use_of(request, answer)
        with self._lock:
            known = self._uses.get(use.model)
            self._uses[use.model] = use if known is None else known.plus(use)
        if self._meter is not None:
            self._meter.charge(use)

    @property
    def uses(self) -> tuple[Use, ...]:
        """What was spent so far, by model."""
        with self._lock:
            return tuple(self._uses[model] for model in sorted(self._uses, key=str))


BYTES_PER_TOKEN = 4


def use_of(request: Request, answer: Answer | None) -> Use:
    """One live answer as a ``Use``: by the model's own count, else estimated from the bytes.

    Examples
    --------
    >>> use_of(Request("POST", "/v1/messages", body=b'{"model": "m", "messages": []}'), None)
    Use(model='m', calls=1, input_tokens=8, output_tokens=0, estimated=1)
    """
    model = (None if answer is None else answer.model) or requested_model(request)
    usage = None if answer is None else answer.usage
    if usage is not None:
        return Use(model, 1, usage.input_tokens or 0, usage.output_tokens or 0)
    said = 0 if answer is None else len(answer.text.encode("utf-8", "replace"))
    calls = () if answer is None else answer.tool_calls
    said += sum(len(call.name) + len(dumps(call.arguments)) for call in calls)
    return Use(model, 1, -(-len(request.body) // BYTES_PER_TOKEN), -(-said // BYTES_PER_TOKEN), estimated=1)


def tail_digest(run: Run) -> str:
    """Digest of everything the model said in the run; equal for replays whose tails are equal."""
    said = [step.outputs for step in run.steps if step.kind == "llm"]
    return hashlib.blake2b(dumps(said).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
