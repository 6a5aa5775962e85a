"""``replay``: run an agent against a recording once, unpatched, and say how far the recording carried."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afnb.core.cassette import Cassette
from afnb.core.page import Badge, Facts, Page, Shown, Text
from afnb.core.run import Run
from afnb.core.steps import run_from_cassette
from afnb.core.tape import Tape
from afnb.errors import AgentError, ParameterError
from afnb.experiments.agents import AgentResult, as_agent
from afnb.experiments.recordings import as_recording
from afnb.experiments.tape_replay import finished_run
from afnb.io.serve import Session
from afnb.io.serve_report import SessionReport
from afnb.io.upstream import as_upstream
from afnb.tables.schemas import SCHEMA_VERSION


@dataclass(frozen=True, slots=True, repr=False)
class Replay(Shown):
    """One replay of a recording: what was served, what went live, what missed, and how the agent ended."""

    source: str
    recorded: int
    report: SessionReport
    agent: AgentResult
    recording: Cassette
    run: Run
    same_answer: bool

    @property
    def faithful(self) -> bool:
        """Everything recorded was asked for, nothing missed, and the answer is the recorded one."""
        report = self.report
        return (
            report.missed == 0
            and report.live == 0
            and report.served >= self.recorded > 0
            and self.same_answer
        )

    def to_json(self) -> dict[str, Any]:
        """The versioned machine form."""
        report = self.report
        return {
            "afnb": "replay",
            "schema_version": SCHEMA_VERSION,
            "recording": self.source,
            "recorded": self.recorded,
            "served": report.served,
            "live": report.live,
            "missed": report.missed,
            "rules": dict(report.rules),
            "first_miss": report.first_miss.reason if report.first_miss else None,
            "same_answer": self.same_answer,
            "faithful": self.faithful,
            "agent_status": self.agent.status,
            "exit_status": self.agent.exit_status,
            "answer": self.run.answer,
        }

    def page(self) -> Page:
        """The card."""
        report = self.report
        rules = ", ".join(f"{count} by {name}" for name, count in report.rules) or "none"
        facts = [
            ("served", f"{report.served} of {self.recorded} recorded exchanges"),
            ("live", str(report.live)),
            ("missed", str(report.missed)),
            ("needed a matching rule", rules),
            ("answer", "as recorded" if self.same_answer else "differs from the recorded one"),
            ("agent", self.agent.status + (f": {self.agent.error}" if self.agent.error else "")),
        ]
        parts: list[Any] = [Facts(tuple(facts))]
        if report.first_miss is not None:
            parts.insert(0, Text(f"First miss: {report.first_miss.reason}", "warn"))
        tone = Badge("faithful", "good") if self.faithful else Badge("differs", "bad")
        return Page(f"Replay of {self.source}", tone, tuple(parts))


def replay(
    recording: Any,
    *,
    agent: Any,
    upstream: Any = None,
    seed: int = 0,
) -> Replay:
    """Run ``agent`` once against ``recording``; requests that are not on it go to ``upstream``, if given.

    Parameters
    ----------
    recording
        A ``Cassette`` or the path of one.
    agent
        ``Command``, ``Function``, a list of arguments or a plain function.
    upstream
        Who answers what the recording does not; None refuses it, so that nothing goes live.
    seed
        Seed handed to the agent.

    Returns
    -------
    Replay
        Counts, the replay's own complete recording, and how the agent ended.

    Raises
    ------
    AgentError
        The agent cannot be started.
    InputError, ParameterError
        The recording cannot be read, or is no recording of HTTP exchanges.

    Examples
    --------
    >>> from afnb.experiments.demo import bundled
    >>> pair = bundled("refund")
    >>> replay(pair.bad, agent=pair.agent).faithful
    True
    """
    cassette = as_recording(recording, "recording")
    if not isinstance(cassette, Cassette):
        raise ParameterError("an event log is replayed by its LoggedAgent: agent.run(log)")
    runner = as_agent(agent)
    provider = None if upstream is None else as_upstream(upstream).for_replay(seed, "replay", 0)
    session = Session(Tape(cassette), id=f"{cassette.id}/replay", live=provider is not None)
    workdir = Path(tempfile.mkdtemp(prefix="afnb-replay-"))
    try:
        outcome = runner.run(session, provider, seed=seed, workdir=workdir)
    finally:
        session.close()
        shutil.rmtree(workdir, ignore_errors=True)
    if outcome.status == "cannot_start":
        raise AgentError(outcome.error or "the agent cannot be started")
    again = session.cassette()
    run = run_from_cassette(again)
    same = run.answer == run_from_cassette(cassette).answer
    return Replay(
        cassette.id,
        len(cassette.exchanges),
        session.report(),
        outcome,
        again,
        finished_run(run, outcome),
        same,
    )
