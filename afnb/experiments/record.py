"""``record``: run an agent once against its real provider, and keep what they said to each other."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from afnb.core.cassette import Cassette
from afnb.core.matching import Matching
from afnb.experiments.agents import Agent, AgentResult, Command, as_agent
from afnb.io.environment import KEPT_BASE_URLS, base_url_paths
from afnb.io.process import scratch
from afnb.io.record import Recorder
from afnb.io.redact import Redaction
from afnb.io.serve_report import SessionReport


@dataclass(frozen=True, slots=True)
class Recorded:
    """One finished recording.

    Parameters
    ----------
    path
        The cassette, or None if nothing was recorded, so that nothing was written.
    cassette
        What is in it.
    agent
        How the agent ended.
    report
        Counts of the session.
    notice
        What was kept and what was not.
    warnings
        What is wrong with the recording, one sentence each.
    """

    path: str | None
    cassette: Cassette
    agent: AgentResult
    report: SessionReport
    notice: str
    warnings: tuple[str, ...] = ()

    @property
    def silent(self) -> bool:
        """Whether the agent ended well and asked nothing here: it may talk to the provider directly."""
        return self.report.requests == 0 and self.agent.status == "finished"

    @property
    def exit_status(self) -> int:
        """The agent's own exit status as a shell gives it; 2 if it could not start, 124 after a time-out."""
        return shell_status(self.agent)


def shell_status(result: AgentResult) -> int:
    """The exit status to pass on for an agent: its own, 128 and the signal, 124 (time-out) or 2.

    Examples
    --------
    >>> shell_status(AgentResult("crashed", exit_status=3)), shell_status(AgentResult("cannot_start"))
    (3, 2)
    """
    if result.status == "cannot_start":
        return 2
    if result.status == "timeout":
        return 124
    if result.exit_status is None:
        return 0 if result.status == "finished" else 1
    return result.exit_status if result.exit_status >= 0 else 128 - result.exit_status


def where_it_asks(agent: Agent, result: AgentResult) -> str:
    """What to look at if an agent asked nothing; empty if it did not end well, which says why.

    Examples
    --------
    >>> where_it_asks(as_agent(["python", "agent.py"]), AgentResult("finished"))
    'does the agent read OPENAI_BASE_URL? base_url_env= names another variable'
    >>> where_it_asks(as_agent(["python", "agent.py"]), AgentResult("crashed"))
    ''
    """
    if result.status != "finished":
        return ""
    if isinstance(agent, Command):
        names = " or ".join(base_url_paths(agent.base_url_env))
        return f"does the agent read {names}? base_url_env= names another variable"
    return "does the agent use ctx.http_client(), ctx.transport() or ctx.base_url?"


def record(
    agent: Any,
    upstream: Any,
    out: str | os.PathLike[str],
    *,
    seed: int = 0,
    task: str | None = None,
    redaction: Redaction | None = None,
    matching: Matching | None = None,
    append: bool = False,
    stop: threading.Event | None = None,
    say: Callable[[str], None] | None = None,
) -> Recorded:
    """Run an agent once and record its model traffic as a cassette, and how the agent itself ended.

    The exit status and the output of a command, the return value of a function are kept in the recording's
    field ``agent_end`` (``afnb.core.ending``), and each replay is compared with them.

    Parameters
    ----------
    agent
        A ``Command``, a ``Function``, a list of texts or a function.
    upstream
        The provider's origin, or whatever ``as_upstream`` takes.
    out
        The cassette to write; it must not exist, unless ``append`` goes on with it.
    seed
        The agent's ``AFNB_SEED``, or its context's ``seed``.
    task
        What the agent was asked to do, kept in the cassette.
    redaction
        What is taken out of bodies before anything reaches the disk.
    matching
        Rules kept in the recording, for every replay that names no others.
    append
        Go on where an existing recording, or the journal that a crash left, ends.
    stop
        When set, the agent is ended; what it did so far is kept.
    say
        Called with the notice of what is recorded, before the agent starts.

    Returns
    -------
    Recorded
        Whatever became of the agent: a crash and a time-out are values, their recordings are kept.

    Raises
    ------
    ParameterError
        ``out`` exists, or ``agent`` or ``upstream`` is none.

    Examples
    --------
    >>> import tempfile
    >>> def agent(ctx):
    ...     return ctx.http_client("httpx").get("/v1/models").json()["name"]
    >>> out = os.path.join(tempfile.mkdtemp(), "run.json")
    >>> done = record(agent, [{"name": "made-up"}], out)
    >>> done.agent.value, len(done.cassette), done.exit_status
    ('made-up', 1, 0)
    """
    runnable = as_agent(agent)
    led = {}
    if isinstance(runnable, Command):
        paths = base_url_paths(runnable.base_url_env, several=False)
        led[KEPT_BASE_URLS] = {name: path or "/" for name, path in paths.items()}
    recorder = Recorder(
        out, upstream, task=task, attrs=led, redaction=redaction, matching=matching, append=append
    )
    with recorder, scratch() as workdir:
        if say is not None:
            say(recorder.notice)
        result = runnable.run(recorder.session, recorder.upstream, seed=seed, workdir=workdir, stop=stop)
        recorder.ended(result.ending(recorder.redaction))
    return Recorded(
        recorder.path if recorder.written else None,
        recorder.cassette,
        result,
        recorder.report(),
        recorder.notice,
        recorder.warnings(where_it_asks(runnable, result)),
    )
