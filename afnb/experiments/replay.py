"""One replay: start the agent against the recording under one arm, and judge what it did.

Whatever happens to a replay is a value with a reason; the only exception that leaves this module is
the one for an agent that cannot be started at all, which the runner raises for the caller.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from afnb.causal.oracles import Oracle
from afnb.core.arm import Arm
from afnb.core.cassette import Cassette, Request
from afnb.core.jsonvalue import dumps
from afnb.core.run import Run
from afnb.core.steps import run_from_cassette
from afnb.core.tape import Tape
from afnb.io.serve import Session
from afnb.io.serve_report import SessionReport
from afnb.io.upstream import Upstream

if TYPE_CHECKING:
    from afnb.experiments.agents import Agent, AgentResult
    from afnb.experiments.budget import Meter

Role = Literal["patch", "control", "check"]
Recovery = Literal["recovered", "not_recovered", "inconclusive"]
Lost = Literal["before", "after"]

STOPPED = ("budget", "interrupted")
"""Reasons that say the experiment ended, not that the replay failed."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all replays of an experiment share."""

    recording: Cassette
    tape: Tape
    agent: Agent
    upstream: Upstream | None
    oracle: Oracle | None
    good_tape: Tape | None = None
    incomplete_recorded: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """One replay to run: which arm, which index in it, with which seed."""

    arm: Arm | None
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
    recording: Cassette | None
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


def run_replay(
    setting: Setting,
    job: Job,
    *,
    gate: Callable[[Request], str | None] | None = None,
    stop: threading.Event | None = None,
) -> ReplayResult:
    """Run and judge one replay.

    The agent gets a fresh working directory and seed; its session, recording and upstream view are
    made for it alone, so that nothing passes from one replay to the next.
    """
    started = time.monotonic()
    workdir = Path(tempfile.mkdtemp(prefix="afnb-replay-"))
    name = f"{setting.recording.id}/{job.arm.name if job.arm else 'check'}/{job.index}"
    live = job.arm is not None and setting.upstream is not None
    session = Session(setting.tape, job.arm, setting.good_tape, id=name, live=live, gate=gate)
    upstream = setting.upstream
    if upstream is not None:
        upstream = upstream.for_replay(job.seed, job.role, job.index)
    try:
        outcome = setting.agent.run(session, upstream, seed=job.seed, workdir=workdir, stop=stop)
    finally:
        session.close()
        shutil.rmtree(workdir, ignore_errors=True)
    report = session.report()
    cassette = session.cassette()
    run = finished_run(run_from_cassette(cassette), outcome)
    recovery, reason, lost, detail = judge(setting, job, report, outcome, run)
    return ReplayResult(
        role=job.role,
        index=job.index,
        seed=job.seed,
        recovery=recovery,
        reason=reason,
        lost=lost,
        detail=detail,
        report=report,
        run=run,
        recording=cassette,
        tail_digest=tail_digest(run),
        wall_s=time.monotonic() - started,
        worker=threading.current_thread().name,
        cannot_start=outcome.status == "cannot_start",
    )


def finished_run(run: Run, outcome: AgentResult) -> Run:
    """The replayed run with what its agent returned or printed."""
    answer = run.answer if outcome.value is None else outcome.value
    return replace(
        run, answer=answer, exit_status=outcome.exit_status, stdout=outcome.stdout, stderr=outcome.stderr
    )


def tail_digest(run: Run) -> str:
    """Digest of everything the model said in the run; equal for replays whose tails are equal."""
    said = [step.outputs for step in run.steps if step.kind == "llm"]
    return hashlib.blake2b(dumps(said).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def judge(
    setting: Setting, job: Job, report: SessionReport, outcome: AgentResult, run: Run
) -> tuple[Recovery, str | None, Lost | None, str | None]:
    """Recovery of one replay, or why it is inconclusive and on which side of the first intervention."""
    fault = find_fault(setting, job, report, outcome)
    if fault is not None:
        reason, detail = fault
        lost: Lost = "after" if report.patches_applied else "before"
        return "inconclusive", reason, lost, detail
    if setting.oracle is None:
        return "inconclusive", "no_oracle", "before", None
    judgement = setting.oracle.judge(run)
    if judgement.recovery == "inconclusive":
        return "inconclusive", "oracle_undecided", "after", judgement.detail
    return judgement.recovery, None, None, judgement.detail


def find_fault(
    setting: Setting, job: Job, report: SessionReport, outcome: AgentResult
) -> tuple[str, str | None] | None:
    """Why this replay says nothing about the arm, as (reason, detail), or None if it can be judged."""
    arm = job.arm
    if outcome.status == "cannot_start":
        return "cannot_start", outcome.error
    if report.prefix_diverged is not None:
        return "prefix_diverged", report.prefix_diverged.reason
    for key, _count in report.refused:
        if key.startswith("gate: "):
            word, _, rest = key.removeprefix("gate: ").partition(": ")
            return (word, rest) if word in STOPPED else ("refused", key.removeprefix("gate: "))
    if report.upstream_errors:
        return "provider_unreachable", report.upstream_errors[0]
    if outcome.status == "timeout":
        return "timeout", outcome.error
    if outcome.status == "stopped":
        return "interrupted", outcome.error
    if arm is not None and arm.serve_through >= 0 and report.served == 0:
        return "nothing_served", "the agent's requests did not reach the recording"
    if arm is not None and not report.branch_reached:
        if outcome.status == "crashed" or (outcome.exit_status or 0) != 0:
            return "crashed_before_branch", outcome.error or _last_line(outcome.stderr)
        reason = "intervention_not_applied" if report.patches_applied else "branch_not_reached"
        return reason, f"steps {list(report.patches_missing)} were never asked for"
    if report.incomplete > setting.incomplete_recorded:
        return "incomplete_stream", "a live answer stopped before its end"
    return provider_fault(report, outcome)


def provider_fault(report: SessionReport, outcome: AgentResult) -> tuple[str, str | None] | None:
    """A tail in which the provider answered with errors only is no evidence about the agent."""
    errors = report.live_error_statuses
    if not errors:
        return None
    failed = outcome.status == "crashed" or (outcome.exit_status or 0) != 0
    faults = [status for status in errors if status in (401, 402, 403, 404, 408, 409, 429) or status >= 500]
    if len(errors) >= report.live or (failed and faults and faults[-1] == errors[-1]):
        return "provider_error", f"the provider answered HTTP {errors[-1]}"
    return None


def _last_line(text: str | None) -> str | None:
    lines = (text or "").strip().splitlines()
    return lines[-1][:300] if lines else None
