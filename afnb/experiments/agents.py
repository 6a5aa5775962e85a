"""Agents: what a replay starts. A ``Command`` in any language, or a Python ``Function``.

Either way the agent's model requests reach the session: a command finds a base URL in its environment,
a function gets a context whose clients, transport and base URL all lead there.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from afnb.core.ending import Ending, ending
from afnb.core.jsonvalue import MISSING, dumps, loads
from afnb.core.redaction import Redaction
from afnb.errors import ParameterError
from afnb.experiments.context import AgentContext
from afnb.experiments.fingerprint import function_fingerprint, function_name, hash_parts, script_hashes
from afnb.experiments.threads import call_with_limit
from afnb.io.environment import BaseUrls, agent_environment, base_url_paths
from afnb.io.process import ProcessResult, resolve_argv, run_command, scratch
from afnb.io.serve import Session
from afnb.io.server import LoopbackServer
from afnb.io.tools import attached
from afnb.io.upstream import RoutedUpstream, Upstream

OPAQUE = 1 << 20
"""Characters of a return value's ``repr`` that are looked at."""

AgentStatus = Literal["finished", "timeout", "cannot_start", "crashed", "stopped"]


@dataclass(frozen=True, slots=True)
class AgentResult:
    """How one run of an agent ended, as plain data that any worker process can hand back.

    Parameters
    ----------
    status
        ``finished`` (a command with exit status 0, a function that returned), ``crashed`` (another exit
        status, an exception), ``timeout``, ``cannot_start``, or ``stopped`` from outside.
    value
        What a function returned, if it is text or another JSON value.
    exit_status, stdout, stderr
        Of a command; None for a function, whose output is not captured.
    error
        One sentence, for every status but ``finished``.
    wall_s
        Seconds from start to end.
    traceback
        Of a function that raised, as text.
    opaque
        The ``repr`` of what a function returned, where that is no JSON value.
    """

    status: AgentStatus
    value: Any = None
    exit_status: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    error: str | None = None
    wall_s: float = 0.0
    traceback: str | None = None
    opaque: str | None = None

    def ending(self, redaction: Redaction | None = None) -> Ending | None:
        """How the agent ended, as a recording keeps it; None if it could not be started."""
        if self.status == "cannot_start":
            return None
        if self.exit_status is not None:
            said = MISSING if self.stdout is None else self.stdout
            return ending("command", self.status, self.exit_status, said, redaction=redaction)
        said = self.value if self.status == "finished" else MISSING
        return ending("function", self.status, said=said, opaque=self.opaque, redaction=redaction)


@runtime_checkable
class Agent(Protocol):
    """What an experiment needs of an agent."""

    def run(
        self,
        session: Session,
        upstream: Upstream | None,
        *,
        seed: int,
        workdir: str | os.PathLike[str],
        stop: threading.Event | None = None,
    ) -> AgentResult:
        """Run once against ``session``; what it does not answer goes to ``upstream``."""
        ...

    def fingerprint(self) -> str:
        """A hash that changes when the agent does."""
        ...

    def describe(self) -> str:
        """The agent in one line."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """An agent that is started as a command, in any language.

    It runs in the caller's directory (or ``cwd``), in a process group of its own that is ended as a
    whole, with a fresh ``TMPDIR``, ``AFNB_SEED``, ``AFNB_WORKDIR`` and the base URL in its environment.
    A bare ``python`` is the interpreter that runs this.

    Parameters
    ----------
    argv
        The command and its arguments.
    base_url_env
        The variable its SDK reads the base URL from (``OPENAI_BASE_URL``, ``ANTHROPIC_BASE_URL``, any);
        several of them; or a mapping to a path or an upstream's name (``io.environment.base_url_paths``).
    timeout_s
        Seconds after which it is ended; None lets it run.
    cwd
        Working directory.
    env
        Variables added to the caller's environment.
    capture
        Keep its output. False gives it this process's own terminal, output and input; ``"tee"`` does so
        and keeps what it prints on stdout.
    block_network
        Lead clients that follow the environment's proxies to a proxy that lets nothing through. A request
        that was to leave this machine is refused and counted with its host. A client that follows no proxy
        is not held back.

    Raises
    ------
    ParameterError
        A command that is no list of texts, a time-out that is not positive, a name that is no variable.

    Examples
    --------
    >>> Command(["python", "agent.py"], base_url_env="ANTHROPIC_BASE_URL").describe()
    'command: python agent.py'
    """

    argv: Sequence[str | os.PathLike[str]]
    base_url_env: BaseUrls = "OPENAI_BASE_URL"
    timeout_s: float | None = 60.0
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] | None = None
    capture: bool | Literal["tee"] = True
    block_network: bool = False

    def __post_init__(self) -> None:
        resolve_argv(self.argv)
        base_url_paths(self.base_url_env)
        _check_timeout(self.timeout_s)
        object.__setattr__(self, "argv", tuple(os.fspath(part) for part in self.argv))

    def run(
        self,
        session: Session,
        upstream: Upstream | None,
        *,
        seed: int,
        workdir: str | os.PathLike[str],
        stop: threading.Event | None = None,
    ) -> AgentResult:
        """Start the command against a loopback server over ``session``, and wait for its end."""
        with LoopbackServer(session, upstream) as server, scratch(workdir) as tmpdir:
            env = agent_environment(
                os.environ,
                base_url=server.base_url,
                names=self.base_url_env,
                several=isinstance(upstream, RoutedUpstream),
                seed=seed,
                workdir=workdir,
                tmpdir=tmpdir,
                extra=self.env,
                proxy=server.blocking_proxy if self.block_network else None,
            )
            done = run_command(
                self.argv, env=env, cwd=self.cwd, timeout_s=self.timeout_s, stop=stop, capture=self.capture
            )
        return _of_process(done)

    def fingerprint(self) -> str:
        """Hash of the command, of the files named in it, of where it reads its base URL, and of ``env``."""
        env = sorted((self.env or {}).items())
        return hash_parts(
            "command",
            list(self.argv),
            base_url_paths(self.base_url_env),
            env,
            script_hashes(self.argv, self.cwd),
        )

    def describe(self) -> str:
        """``command:`` and the command, with the values of options such as ``--api-key`` masked."""
        return "command: " + " ".join(_without_secrets(self.argv))


@dataclass(frozen=True, slots=True)
class Function:
    """An agent that is a Python function ``f(ctx)``, plain or async.

    ``ctx`` has ``http_client()``, ``async_http_client()`` and ``transport()`` for SDKs that take one,
    ``base_url`` for those that do not, ``seed`` and ``workdir`` (see ``AgentContext``). What it returns
    is the run's answer. Many replays may call it at once, in threads; for process backends it must
    pickle (``require_picklable`` says what does not).

    A function cannot be killed: after a time-out its requests are refused and its thread is left to end
    by itself (an async function is cancelled). Use a ``Command`` for agents that may hang.

    Parameters
    ----------
    f
        The function.
    timeout_s
        Seconds after which it is given up; None waits for ever.

    Examples
    --------
    >>> Function(print).describe()
    'function: print'
    """

    f: Callable[[AgentContext], Any]
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.f):
            raise ParameterError(
                f"the agent is {self.f!r}, which cannot be called; give a function of one context"
            )
        _check_timeout(self.timeout_s)

    def run(
        self,
        session: Session,
        upstream: Upstream | None,
        *,
        seed: int,
        workdir: str | os.PathLike[str],
        stop: threading.Event | None = None,
    ) -> AgentResult:
        """Call the function with a context over ``session``, and wait for its end."""
        with ExitStack() as stack:
            ctx = AgentContext(session, upstream, seed=seed, workdir=Path(workdir))
            stack.callback(ctx.close)
            stack.enter_context(attached(session.tools))
            done = call_with_limit(self.f, ctx, timeout_s=self.timeout_s, stop=stop, give_up=session.close)
        if done.error is not None:
            return AgentResult(done.status, error=done.error, traceback=done.traceback, wall_s=done.wall_s)
        value = _plain(done.value)
        opaque = repr(done.value)[:OPAQUE] if value is None and done.value is not None else None
        return AgentResult(done.status, value=value, wall_s=done.wall_s, opaque=opaque)

    def fingerprint(self) -> str:
        """Hash of the function's source and of the constants it closes over."""
        return function_fingerprint(self.f)

    def describe(self) -> str:
        """``function:`` and its name."""
        return "function: " + function_name(self.f)


def as_agent(value: Any) -> Agent:
    """Make an agent of an agent, a list (a command) or a function.

    Raises
    ------
    ParameterError
        Anything else, with what is expected.

    Examples
    --------
    >>> as_agent(["python", "agent.py"]).describe()
    'command: python agent.py'
    """
    if isinstance(value, (Command, Function)):
        return value
    if isinstance(value, str):
        raise ParameterError(
            f"agent is the text {value!r}; give a list of the command's parts, or a function"
        )
    if isinstance(value, (list, tuple)):
        return Command(value)
    if isinstance(value, Agent) and not isinstance(value, type):
        return value
    if callable(value):
        return Function(value)
    raise ParameterError(
        f"agent is {value!r} ({type(value).__name__}); expected Command([...]), Function(f), a list of texts "
        "or a function"
    )


def _plain(value: Any) -> Any:
    """``value`` as JSON, which is all that leaves a replay; None for anything else."""
    try:
        return loads(dumps(value))
    except (TypeError, ValueError, RecursionError):
        return None


def with_timeout(agent: Agent, timeout_s: float | None) -> Agent:
    """The same agent with another time-out."""
    if isinstance(agent, (Command, Function)):
        return replace(agent, timeout_s=timeout_s)
    return agent


def _check_timeout(timeout_s: float | None) -> None:
    if timeout_s is not None and not timeout_s > 0:
        raise ParameterError(f"timeout_s is {timeout_s!r}; it must be a positive number of seconds, or None")


def _of_process(done: ProcessResult) -> AgentResult:
    status: AgentStatus
    error = done.error
    if done.status == "exited":
        status = "finished" if done.exit_status == 0 else "crashed"
        if status == "crashed":
            error = f"the command ended with exit status {done.exit_status}{_last_words(done.stderr)}"
    else:
        status = done.status
    return AgentResult(status, None, done.exit_status, done.stdout, done.stderr, error, done.wall_s)


_SECRET_OPTION = re.compile(
    r"(?i)^(-{1,2}[\w-]*(?:key|token|secret|password|passwd|credential)[\w-]*)(=.*)?$"
)


def _without_secrets(argv: Sequence[object]) -> list[str]:
    """The parts of a command, what follows an option that names a secret left out."""
    shown: list[str] = []
    hide = False
    for part in map(str, argv):
        option = _SECRET_OPTION.match(part)
        if option is None:
            shown.append("***" if hide and not part.startswith("-") else part)
        else:
            shown.append(option[1] + ("=***" if option[2] else ""))
        hide = option is not None and option[2] is None
    return shown


def _last_words(stderr: str | None) -> str:
    lines = [line for line in (stderr or "").strip().split("\n") if line.strip()]
    return f": {lines[-1].strip()[:300]}" if lines else ""
