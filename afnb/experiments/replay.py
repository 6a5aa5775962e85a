"""One replay as data: the job, the result, the seed, and the gate before live calls.

How a replay is run is ``tape_replay`` (HTTP recordings) and ``log_replay`` (event logs). Whatever happens
to one is a value with a reason; only an agent that cannot be started at all ends an experiment.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from afnb.core.arm import Arm, LogArm
from afnb.core.cassette import Cassette, Request
from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import dumps
from afnb.core.run import Run
from afnb.experiments.fidelity import Fidelity
from afnb.io.serve_report import SessionReport

if TYPE_CHECKING:
    from afnb.experiments.budget import Meter

Role = Literal["patch", "control", "check"]
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

    def run(
        self, job: Job, gate: Callable[[Request], str | None] | None, stop: threading.Event | None
    ) -> ReplayResult:
        """Run and judge one replay; whatever happens to it is a value."""
        ...

    def check(self, seed: int, converges: Callable[[ReplayResult], bool] | None = None) -> Fidelity:
        """Replay the recording unpatched, nothing live; ``AgentError`` if nothing of it was replayed."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """One replay to run: which arm, which index in it, with which seed."""

    arm: Arm | LogArm | None
    role: Role
    index: int
    seed: int


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """One finished replay, as plain data (picklable).

    ``recording`` is the replay's own complete cassette, ``run`` its steps.
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


def make_gate(meter: Meter, stop: threading.Event) -> Callable[[Request], str | None]:
    """A gate that refuses live calls once the budget is spent or the experiment was stopped."""

    def gate(_request: Request) -> str | None:
        if stop.is_set():
            return "interrupted: the experiment was stopped"
        crossed = meter.crossed()
        if crossed is not None:
            return f"budget: {crossed}"
        meter.charge_call()
        return None

    return gate


def tail_digest(run: Run) -> str:
    """Digest of everything the model said in the run; equal for replays whose tails are equal."""
    said = [step.outputs for step in run.steps if step.kind == "llm"]
    return hashlib.blake2b(dumps(said).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
