"""Replays over a tape: the agent runs against a session that answers from the cassette."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from afnb.causal.oracles import Oracle
from afnb.core.arm import Arm
from afnb.core.cassette import Cassette
from afnb.core.ending import Ending
from afnb.core.redaction import Redaction, kept_redaction
from afnb.core.run import Run
from afnb.core.steps import run_from_cassette
from afnb.core.tape import Tape
from afnb.errors import AgentError
from afnb.experiments.agents import Agent, AgentResult
from afnb.experiments.fidelity import Fidelity, fidelity_of
from afnb.experiments.independence import KEPT
from afnb.experiments.replay import (
    STOPPED,
    Gate,
    Job,
    Lost,
    Recovery,
    ReplayResult,
    derive_seed,
    tail_digest,
)
from afnb.io.serve import Session
from afnb.io.serve_report import SessionReport
from afnb.io.upstream import Upstream


@dataclass(frozen=True, slots=True)
class TapeSetting:
    """What all replays of an experiment share."""

    recording: Cassette
    tape: Tape
    agent: Agent
    upstream: Upstream | None
    oracle: Oracle | None
    good_tape: Tape | None = None
    allow_tools: frozenset[str] = frozenset()

    @property
    def recording_id(self) -> str:
        """The cassette's id."""
        return self.recording.id

    @property
    def redaction(self) -> Redaction | None:
        """What was taken out of the recording."""
        return kept_redaction(self.recording)

    def run(self, job: Job, gate: Gate | None, stop: threading.Event | None) -> ReplayResult:
        """Run and judge one replay."""
        return run_replay(self, job, gate=gate, stop=stop)

    def check(
        self,
        seed: int,
        converges: Callable[[ReplayResult], bool] | None = None,
        stop: threading.Event | None = None,
    ) -> Fidelity:
        """The self-check: one unpatched replay from the tape alone."""
        return self_check(self, seed, converges, stop)


def run_replay(
    setting: TapeSetting,
    job: Job,
    *,
    gate: Gate | None = None,
    stop: threading.Event | None = None,
) -> ReplayResult:
    """Run and judge one replay.

    The agent gets a fresh working directory and seed; its session, recording and upstream view are
    made for it alone, so that nothing passes from one replay to the next.
    """
    started = time.monotonic()
    workdir = Path(tempfile.mkdtemp(prefix="afnb-replay-"))
    name = f"{setting.recording.id}/{job.arm.name if job.arm else 'check'}/{job.index}"
    assert job.arm is None or isinstance(job.arm, Arm)
    live = job.arm is not None and setting.upstream is not None
    gate = gate or Gate()
    session = Session(
        setting.tape,
        job.arm,
        setting.good_tape,
        id=name,
        live=live,
        gate=gate,
        spent=gate.spent,
        allow_tools=setting.allow_tools,
        http_tools=None if setting.upstream is None else setting.upstream.tools,
    )
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
    hide = setting.redaction
    return ReplayResult(
        role=job.role,
        index=job.index,
        seed=job.seed,
        recovery=recovery,
        reason=reason,
        lost=lost,
        detail=without(hide, detail),
        report=report,
        run=hidden(run, hide),
        recording=cassette,
        tail_digest=tail_digest(run),
        wall_s=time.monotonic() - started,
        worker=threading.current_thread().name,
        cannot_start=outcome.status == "cannot_start",
        agent_error=without(hide, outcome.error),
        uses=gate.uses,
        ended=outcome.ending(hide),
    )


def finished_run(run: Run, outcome: AgentResult) -> Run:
    """The replayed run with what its agent returned or printed."""
    answer = run.answer if outcome.value is None else outcome.value
    return replace(
        run, answer=answer, exit_status=outcome.exit_status, stdout=outcome.stdout, stderr=outcome.stderr
    )


def hidden(run: Run, redaction: Redaction | None) -> Run:
    """The run as it may be kept: what the recording redacts is taken out of the agent's own words as well.

    Its steps were read from a recording that is redacted already. Oracles judge the run as it was.
    """
    if redaction is None:
        return run
    answer = run.answer if run.answer is None else redaction.value(run.answer)
    out, err = without(redaction, run.stdout), without(redaction, run.stderr)
    return replace(run, answer=answer, stdout=out, stderr=err)


def without(redaction: Redaction | None, text: str | None) -> str | None:
    """A text without what is to be taken out."""
    return text if redaction is None or text is None else str(redaction.value(text))


def judge(
    setting: TapeSetting, job: Job, report: SessionReport, outcome: AgentResult, run: Run
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
    setting: TapeSetting, job: Job, report: SessionReport, outcome: AgentResult
) -> tuple[str, str | None] | None:
    """Why this replay says nothing about the arm, as (reason, detail), or None if it can be judged."""
    arm = job.arm if isinstance(job.arm, Arm) else None
    if outcome.status == "cannot_start":
        return "cannot_start", outcome.error
    if report.prefix_diverged is not None:
        return "prefix_diverged", report.prefix_diverged.reason
    if report.tools_refused:
        return "write_refused", report.tools_refused[0]
    for key, _count in report.refused:
        if key.startswith("gate: "):
            word, _, rest = key.removeprefix("gate: ").partition(": ")
            return (word, rest) if word in STOPPED else ("refused", key.removeprefix("gate: "))
        if key in ("websocket", "misrouted") or key.startswith("fault: "):
            return "refused", f"a request of the agent could not be taken: {key}"
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
    if report.incomplete_live:
        return "incomplete_stream", "a live answer stopped before its end"
    return provider_fault(report, outcome)


def provider_fault(report: SessionReport, outcome: AgentResult) -> tuple[str, str | None] | None:
    """A tail that ends in the provider's faults, or holds nothing else, is no evidence about the agent."""
    if report.unanswered:
        return "provider_error", f"the provider answered {report.unanswered[0]}"
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


def self_check(
    setting: TapeSetting,
    seed: int,
    converges: Callable[[ReplayResult], bool] | None = None,
    stop: threading.Event | None = None,
) -> Fidelity:
    """Replay the recording unpatched from its tape alone, twice, and say whether the agent does the same.

    The second replay shows what one cannot: an agent that keeps answers between its runs asks for less in it,
    and an output that differs from run to run (a time, an id) differs between the two as well.

    Raises
    ------
    AgentError
        The agent cannot be started, or nothing it asked was on the tape.
    """

    def once(number: int) -> ReplayResult:
        parts = ("check", setting.recording.id) if number == 0 else ("check", setting.recording.id, number)
        return run_replay(setting, Job(None, "check", number, derive_seed(seed, *parts)), stop=stop)

    result = once(0)
    if result.cannot_start:
        raise AgentError(result.detail or "the agent cannot be started")
    if result.report.served == 0 and result.reason not in ("timeout", "interrupted"):
        raise AgentError(nothing_served(setting, result))
    converging = None if converges is None else converges(result)
    alone = _checked(setting, result, None, converging)
    if not (alone.ok or alone.only_said_differs):
        return alone
    second = once(1)
    found = _checked(setting, result, second.ended, converging)
    again = _checked(setting, second, result.ended, converging)
    if found.ok and not again.ok:
        return replace(found, ok=False, reason=f"replayed a second time, {again.reason}; {KEPT}")
    return found


def _checked(
    setting: TapeSetting, result: ReplayResult, other: Ending | None, converges: bool | None
) -> Fidelity:
    """One unpatched replay beside its recording."""
    again = result.recording if isinstance(result.recording, Cassette) else Cassette(setting.recording.id)
    fault = None
    if result.reason in ("timeout", "interrupted"):
        fault = result.detail or f"the agent's run ended by {result.reason}"
    return fidelity_of(
        setting.tape,
        result.report,
        again,
        fault=fault,
        converges=converges,
        recovered=result.recovery == "recovered",
        ended=result.ended,
        other=other,
    )


def nothing_served(setting: TapeSetting, result: ReplayResult) -> str:
    """The sentence for a replay that never touched its tape."""
    recording, report = setting.recording, result.report
    if not recording.exchanges:
        return f"recording {recording.id} holds no exchange, so there is nothing to replay"
    if report.requests == 0:
        hint = (
            "it asked afnb nothing: let it read its base URL from the environment "
            "(Command(base_url_env=...), on the command line --base-url-env) "
            "or use ctx.http_client() in a function"
        )
        if result.agent_error:
            hint = f"it ended before it asked anything: {result.agent_error}"
    else:
        miss = report.first_miss
        hint = (
            f"its first request was not on the tape: {miss.reason}"
            if miss
            else "none of its requests matched"
        )
    return f"the agent replayed 0 of {len(recording.exchanges)} exchanges of {recording.id}; {hint}"
