"""``replay``: run an agent against a recording once, unpatched, and say how far the recording carried."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afnb.core.arm import Arm
from afnb.core.cassette import Cassette
from afnb.core.ending import Compared, with_ending
from afnb.core.matching import Matching
from afnb.core.page import Badge, Facts, Page, Part, Shown, Table, Text
from afnb.core.redaction import kept_redaction
from afnb.core.run import Run
from afnb.core.steps import run_from_cassette
from afnb.core.tape import Repeat, Tape
from afnb.errors import AgentError, ParameterError
from afnb.experiments.agents import Agent, AgentResult, as_agent
from afnb.experiments.fidelity import Fidelity, fidelity_of
from afnb.experiments.recordings import as_recording
from afnb.experiments.replay import derive_seed
from afnb.experiments.tape_replay import finished_run, hidden
from afnb.io.relay import pace_of
from afnb.io.serve import Session
from afnb.io.serve_report import SessionReport
from afnb.io.upstream import Upstream, as_upstream
from afnb.tables.build import build
from afnb.tables.schemas import SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_MISSES = 12


@dataclass(frozen=True, slots=True, repr=False)
class Replay(Shown):
    """One replay of a recording: what was served, what went live, what missed, and how the agent ended.

    Attributes
    ----------
    misses
        Arrow table (``misses``), one row for each request that the recording does not answer.
    """

    source: str
    recorded: int
    report: SessionReport
    agent: AgentResult
    recording: Cassette
    run: Run
    fidelity: Fidelity
    serve_through: int | None = None

    @property
    def faithful(self) -> bool:
        """Everything recorded was asked for, nothing missed or went live, the answer is as recorded."""
        return self.fidelity.ok

    @property
    def same_answer(self) -> bool:
        """Whether the replay's last answer of the model is the recorded one."""
        return self.fidelity.same_answer

    @property
    def ending(self) -> tuple[Compared, ...]:
        """How the agent itself ended, beside how it did when it was recorded: one part for each thing."""
        return self.fidelity.ending

    @property
    def misses(self) -> pa.Table:
        """One row for each request that missed (table ``misses``)."""
        return build("misses", self.miss_rows())

    def miss_rows(self) -> list[dict[str, Any]]:
        """Rows of the ``misses`` table, in order of asking."""
        return [
            {
                "recording": self.source,
                "request": miss.request,
                "method": miss.method,
                "path": miss.path,
                "key": miss.key,
                "nearest": miss.nearest,
                "nearest_key": miss.nearest_key,
                "where": miss.where,
                "offset": miss.offset,
                "recorded": miss.recorded,
                "asked": miss.asked,
                "reason": miss.reason,
                "suggestions": list(miss.suggestions),
            }
            for miss in self.report.misses
        ]

    def to_json(self) -> dict[str, Any]:
        """The versioned machine form."""
        report = self.report
        return {
            "afnb": "replay",
            "schema_version": SCHEMA_VERSION,
            "recording": self.source,
            "recorded": self.recorded,
            "serve_through": self.serve_through,
            "served": report.served,
            "live": report.live,
            "missed": report.missed,
            "refused": dict(report.refused),
            "tools_served": report.tools_served,
            "tools_live": report.tools_live,
            "tools_refused": list(report.tools_refused),
            "beyond_recording": report.beyond_recording,
            "out_of_order": report.out_of_order,
            "rules": dict(report.rules),
            "first_miss": report.first_miss.reason if report.first_miss else None,
            "misses": self.miss_rows(),
            "same_answer": self.same_answer,
            "ending": [asdict(part) for part in self.ending],
            "faithful": self.faithful,
            "reason": self.fidelity.reason,
            "agent_status": self.agent.status,
            "exit_status": self.agent.exit_status,
            "answer": self.run.answer,
        }

    def page(self) -> Page:
        """The card."""
        report = self.report
        rules = ", ".join(f"{count} by {name}" for name, count in report.rules) or "none"
        facts = [
            ("served", f"{report.served} requests, {self.fidelity.served} of {self.recorded} exchanges"),
            ("live", str(report.live)),
            ("missed", str(report.missed)),
            ("needed a matching rule", rules),
            ("answer", "as recorded" if self.same_answer else "differs from the recorded one"),
            *(ending_fact(part) for part in self.ending),
            ("agent", self.agent.status + (f": {self.agent.error}" if self.agent.error else "")),
        ]
        if self.recording.tool_exchanges or report.tools_refused:
            told = f"{report.tools_served} calls served, {report.tools_live} run"
            facts.insert(3, ("tools", f"{told}, {len(report.tools_refused)} refused"))
        if report.beyond_recording:
            facts.insert(2, ("asked more often than recorded", str(report.beyond_recording)))
        if report.out_of_order:
            facts.insert(2, ("in another order", f"{report.out_of_order} (harmless)"))
        parts: list[Part] = [Facts(tuple(facts))]
        reason = self.fidelity.reason
        if report.first_miss is not None:
            parts.insert(0, Text(f"First miss: {report.first_miss.reason}", "warn"))
        elif reason is not None and self.serve_through is None:
            parts.insert(0, Text(reason[0].upper() + reason[1:], "warn"))
        parts.extend(miss_parts(report))
        tone = Badge("faithful", "good") if self.faithful else Badge("differs", "bad")
        if self.serve_through is not None:
            tone = Badge(f"served through {self.serve_through}, live after it", "quiet")
        following = ("r.misses.to_pandas()",) if report.missed else ()
        return Page(f"Replay of {self.source}", tone, tuple(parts), following)


def ending_fact(part: Compared) -> tuple[str, str]:
    """One line of the card about the agent's end."""
    if part.state == "same":
        return part.what, "as recorded"
    if part.state == "unknown":
        return part.what, "not in the recording, or not captured now"
    also = ", and between two replays as well, so it is not compared" if part.state == "varies" else ""
    return part.what, f"differs{also}: recorded {part.recorded}, now {part.again}"


def miss_parts(report: SessionReport) -> list[Part]:
    """The requests that missed as a table, and the matching patterns that would forgive them."""
    if not report.misses:
        return []
    rows = tuple(
        (
            str(miss.request),
            "" if miss.nearest is None else str(miss.nearest),
            miss.where or "",
            miss.recorded or "",
            miss.asked or "",
        )
        for miss in report.misses[:SHOWN_MISSES]
    )
    columns = ("request", "nearest exchange", "first difference", "recorded", "asked")
    parts: list[Part] = [Table(columns, rows, "requests that are not on the tape", report.missed)]
    patterns = dict.fromkeys(name for miss in report.misses for name in miss.suggestions)
    if patterns:
        names = ", ".join(patterns)
        words = f"Ready-made patterns that would forgive a difference: {names} (--match {','.join(patterns)})"
        parts.append(Text(words, "quiet"))
    return parts


def replay(
    recording: Any,
    *,
    agent: Any,
    upstream: Any = None,
    seed: int = 0,
    matching: Matching | None = None,
    serve_through: int | None = None,
    repeat: Repeat = "in_order",
    pace: float | str = "at once",
    allow_tools: Iterable[str] = (),
) -> Replay:
    """Run ``agent`` once against ``recording``; requests that are not on it go to ``upstream``, if given.

    Where everything is as recorded but the agent's output or return value, and nothing can go live, the
    agent is run a second time: what differs between two replays (a time, an id) says nothing.

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
    matching
        How requests are compared; None for the recording's own rules, or the default ones.
    serve_through
        Last exchange that the recording answers, inclusive; later requests go to ``upstream``, which is
        needed then. -1 serves nothing. None serves everything.
    repeat
        What a request gets that is asked more often than recorded: ``in_order`` (the last answer again),
        ``first`` (always the first) or ``error`` (a miss).
    pace
        ``"at once"``, ``"as recorded"`` or a factor on the recorded times.
    allow_tools
        Names of wrapped tools (``afnb.tool``) that may really run again although they write, where the
        recording does not answer them.

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
    pace_of(pace)
    provider = None if upstream is None else as_upstream(upstream).for_replay(seed, "replay", 0)
    tape = Tape(cassette, matching, repeat)
    arm = _arm(cassette, serve_through, provider is not None)
    redaction = kept_redaction(cassette)

    def once(seed: int) -> tuple[Session, AgentResult]:
        live, tools = provider is not None, {} if provider is None else provider.tools
        name = f"{cassette.id}/replay"
        made = Session(tape, arm, id=name, live=live, pace=pace, allow_tools=allow_tools, http_tools=tools)
        return made, in_folder(runner, made, provider, seed)

    session, outcome = once(seed)
    if outcome.status == "cannot_start":
        raise AgentError(outcome.error or "the agent cannot be started")
    report, ended = session.report(), outcome.ending(redaction)
    again = with_ending(session.cassette(), ended)
    fault = None if outcome.status != "timeout" else outcome.error or "the agent timed out"
    fidelity = fidelity_of(tape, report, again, fault=fault, ended=ended)
    if fidelity.only_said_differs and provider is None:
        other = once(derive_seed(seed, "again"))[1].ending(redaction)
        fidelity = fidelity_of(tape, report, again, fault=fault, ended=ended, other=other)
    run = hidden(finished_run(run_from_cassette(again), outcome), redaction)
    return Replay(cassette.id, len(cassette.exchanges), report, outcome, again, run, fidelity, serve_through)


def in_folder(agent: Agent, session: Session, upstream: Upstream | None, seed: int) -> AgentResult:
    """Run an agent once in a fresh working directory, and take that away."""
    workdir = Path(tempfile.mkdtemp(prefix="afnb-replay-"))
    try:
        return agent.run(session, upstream, seed=seed, workdir=workdir)
    finally:
        session.close()
        shutil.rmtree(workdir, ignore_errors=True)


def _arm(cassette: Cassette, serve_through: int | None, live: bool) -> Arm | None:
    if serve_through is None:
        return None
    last = len(cassette) - 1
    if isinstance(serve_through, bool) or not isinstance(serve_through, int) or serve_through < -1:
        raise ParameterError(
            f"serve_through={serve_through!r}: it is the number of the last exchange to serve, -1 for none"
        )
    if serve_through > last:
        raise ParameterError(
            f"serve_through={serve_through}: the recording has {len(cassette)} exchanges, 0 to {last}"
        )
    if not live:
        raise ParameterError(
            f"serve_through={serve_through} lets later requests go live, and there is no upstream to ask; "
            "give upstream=, the provider's origin"
        )
    return Arm("replay", (), serve_through)
