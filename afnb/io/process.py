"""Run a command to its end, and leave nothing of it behind: no process, no file, no thread.

The command is the leader of a process group of its own. When it ends, times out or is stopped, the
whole group is ended: asked first (TERM), then made to (KILL). A process that leaves the group on
purpose (a daemon with a session of its own) is out of reach and is not looked for.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from afnb.errors import ParameterError

ProcessStatus = Literal["exited", "timeout", "stopped", "cannot_start"]

GRACE_S = 2.0
"""How long a group that was asked to end may take before it is killed."""

MAX_OUTPUT = 1 << 20
"""Bytes kept of each of stdout and stderr: the first half and the last half of this."""

_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a command ended.

    Parameters
    ----------
    status
        ``exited`` by itself, ``timeout``, ``stopped`` (the stop event was set) or ``cannot_start``.
    exit_status
        As a shell would give it: 0 to 255, or minus the signal's number; None if it was not started.
    stdout, stderr
        What was captured, the middle left out where it was too long; None where it was not captured.
    error
        One sentence where the status is not ``exited``.
    wall_s
        Seconds from start to end.
    """

    status: ProcessStatus
    exit_status: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    error: str | None = None
    wall_s: float = 0.0


def resolve_argv(argv: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The command as it is started: texts, with a bare ``python`` or ``python3`` as this interpreter.

    Raises
    ------
    ParameterError
        One text instead of a list, an empty list, or parts that are no text.

    Examples
    --------
    >>> resolve_argv(["python", "agent.py"])[0] == sys.executable
    True
    """
    if isinstance(argv, (str, bytes)):
        raise ParameterError(
            f"the command is the text {argv!r}; give a list of its parts, such as ['python', 'agent.py']"
        )
    parts: list[str] = []
    for part in argv:
        if not isinstance(part, (str, os.PathLike)):
            raise ParameterError(
                f"the command has a part of type {type(part).__name__}: {part!r}; give texts"
            )
        parts.append(os.fspath(part))
    if not parts or not parts[0]:
        raise ParameterError("the command is empty; give a list such as ['python', 'agent.py']")
    if parts[0] in ("python", "python3") and sys.executable:
        parts[0] = sys.executable
    return parts


def run_command(
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    timeout_s: float | None = None,
    stop: threading.Event | None = None,
    capture: bool | Literal["tee"] = True,
    max_output: int = MAX_OUTPUT,
    grace_s: float = GRACE_S,
) -> ProcessResult:
    """Run a command and wait for its end, its time-out or ``stop``.

    Parameters
    ----------
    argv
        The command and its arguments.
    env
        The whole environment; None for this process's own.
    cwd
        Working directory; None for this process's own.
    timeout_s
        Seconds after which the group is ended; None waits for ever.
    stop
        When set, the group is ended.
    capture
        Keep stdout and stderr (the command then has no terminal and an empty stdin). False lets it use
        this process's own, terminal included. ``"tee"`` does that too, but keeps what it prints on stdout
        while passing it on.
    max_output
        Bytes kept of each stream.
    grace_s
        Seconds between asking the group to end and killing it.

    Returns
    -------
    ProcessResult
        A command that cannot be started is a value as well, with the reason.

    Examples
    --------
    >>> run_command(["python", "-c", "print(6 * 7)"]).stdout
    '42\\n'
    """
    parts = resolve_argv(argv)
    start = time.monotonic()
    reason = _why_not(parts, env, cwd)
    held = _HeldInterrupts()
    if reason is None:
        try:
            child = _spawn(parts, env, cwd, capture)
        except (OSError, ValueError, TypeError) as error:
            reason = f"the command {parts[0]!r} cannot be started: {error}"
    if reason is not None:
        held.release()
        return ProcessResult("cannot_start", error=reason, wall_s=time.monotonic() - start)
    streams = _Streams(child, max_output, echo=capture == "tee") if capture else None
    status: ProcessStatus = "exited"
    with _foreground(child, wanted=capture is not True):
        try:
            held.release()
            status = _watch(child, streams, None if timeout_s is None else start + timeout_s, stop)
        finally:
            _end_group(child, streams, grace_s)
    wall = time.monotonic() - start
    ended = "it and its children were ended"
    sentence = {
        "timeout": f"the command {parts[0]!r} did not end within {timeout_s} s; {ended}",
        "stopped": f"the command {parts[0]!r} was stopped; {ended}",
    }.get(status)
    out, err = streams.texts() if streams else (None, None)
    return ProcessResult(status, child.returncode, out, err, sentence, wall)


def _why_not(
    parts: list[str], env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None
) -> str | None:
    if cwd is not None and not os.path.isdir(cwd):
        return f"the working directory {os.fspath(cwd)!r} does not exist; give cwd= a folder that does"
    base = Path(cwd) if cwd is not None else Path()
    command = parts[0]
    if os.sep in command:
        command = str(base / command)
    path = (os.environ if env is None else env).get("PATH", os.defpath)
    if shutil.which(command, path=path) is None:
        what = (
            "is not an executable file" if os.path.exists(command) and os.sep in command else "was not found"
        )
        return f"the command {parts[0]!r} {what}; give its full path, or install it"
    if command == sys.executable and len(parts) > 1 and parts[1].endswith(".py"):
        script = base / parts[1]
        if not script.is_file():
            return (
                f"the program {parts[1]!r} does not exist in {str(base.resolve())!r}; check its path or cwd="
            )
    return None


def _spawn(
    parts: list[str], env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None, capture: object
) -> subprocess.Popen[bytes]:
    if capture is True:
        return subprocess.Popen(
            parts,
            env=None if env is None else dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    out = subprocess.PIPE if capture else None
    return subprocess.Popen(
        parts, env=None if env is None else dict(env), cwd=cwd, stdout=out, process_group=0
    )


def _watch(
    child: subprocess.Popen[bytes],
    streams: _Streams | None,
    deadline: float | None,
    stop: threading.Event | None,
) -> ProcessStatus:
    """Read output until the leader ends, the deadline passes or ``stop`` is set."""
    pause = 0.001
    while child.poll() is None:
        if stop is not None and stop.is_set():
            return "stopped"
        if deadline is not None and time.monotonic() >= deadline:
            return "timeout"
        pause = min(pause * 1.5, _POLL_S)
        if streams is None or not streams.read(pause):
            time.sleep(pause)
    return "exited"


def _end_group(child: subprocess.Popen[bytes], streams: _Streams | None, grace_s: float) -> None:
    """End what is left of the group, then let go of its streams and its entry in the process table."""
    try:
        for sign, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, grace_s)):
            if not _signal_group(child.pid, sign):
                break
            until = time.monotonic() + patience
            while time.monotonic() < until:
                child.poll()
                if streams is not None:
                    streams.read(0.0)
                if not _signal_group(child.pid, 0):
                    break
                time.sleep(0.005)
        child.wait(timeout=grace_s)
    finally:
        if streams is not None:
            streams.finish()


def _signal_group(group: int, sign: int) -> bool:
    """Send a signal to a group; False if nobody is in it any more."""
    try:
        os.killpg(group, sign)
    except (ProcessLookupError, PermissionError):
        return False
    return True


class _HeldInterrupts:
    """Ctrl-C held back while a command is being started: one just started would be ended by nobody."""

    def __init__(self) -> None:
        self._pending = False
        self._old: Any = None
        if threading.current_thread() is threading.main_thread():
            old = signal.getsignal(signal.SIGINT)
            if callable(old):
                self._old = old
                signal.signal(signal.SIGINT, self._note)

    def _note(self, sign: int, frame: object) -> None:
        self._pending = True

    def release(self) -> None:
        """Put the old handler back, and call it if there was an interrupt meanwhile."""
        old, self._old = self._old, None
        if old is not None:
            signal.signal(signal.SIGINT, old)
            if self._pending:
                old(signal.SIGINT, None)


class _Streams:
    """The captured ends of stdout and stderr, read without threads and kept within bounds.

    With ``echo`` what is read is passed on to this process's own stdout.
    """

    def __init__(self, child: subprocess.Popen[bytes], limit: int, *, echo: bool = False) -> None:
        self._files: tuple[IO[bytes] | None, ...] = (child.stdout, child.stderr)
        self._kept = (_Ends(limit), _Ends(limit))
        self._echo = echo
        self._selector = selectors.DefaultSelector()
        for file, kept in zip(self._files, self._kept, strict=True):
            if file is None:
                continue
            os.set_blocking(file.fileno(), False)
            self._selector.register(file, selectors.EVENT_READ, kept)

    def read(self, wait_s: float) -> bool:
        """Take what is there, waiting at most ``wait_s``; False once both streams have ended."""
        if not self._selector.get_map():
            return False
        for key, _ in self._selector.select(wait_s):
            try:
                data = os.read(key.fd, 1 << 16)
            except BlockingIOError:
                continue
            if data:
                key.data.add(data)
                if self._echo:
                    _pass_on(data)
            else:
                self._selector.unregister(key.fileobj)
        return True

    def finish(self) -> None:
        """Take what is still in the pipes, without waiting for whoever else holds them, and close them."""
        until = time.monotonic() + 1.0
        while self._selector.get_map() and time.monotonic() < until:
            ready = self._selector.select(0)
            if not ready:
                break
            self.read(0.0)
        self._selector.close()
        for file in self._files:
            if file is not None:
                file.close()

    def texts(self) -> tuple[str | None, str | None]:
        """Both streams as text, None if not captured; bytes that are not UTF-8 are shown as escapes."""
        pairs = zip(self._files, self._kept, strict=True)
        out, err = (None if file is None else kept.text() for file, kept in pairs)
        return out, err


def _pass_on(data: bytes) -> None:
    """Write to this process's stdout; if nobody reads it any more, the rest is only kept."""
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(1, data) :]


class _Ends:
    """The first and the last ``limit / 2`` bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._in_tail = 0
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._in_tail += len(data)
            while self._in_tail - len(self._tail[0]) >= self._half:
                first = self._tail.popleft()
                self._in_tail -= len(first)
                self._dropped += len(first)

    def text(self) -> str:
        tail = b"".join(self._tail)
        extra = max(0, len(tail) - self._half)
        dropped = self._dropped + extra
        gap = f"\n[... {dropped} bytes left out ...]\n".encode() if dropped else b""
        return (bytes(self._head) + gap + tail[extra:]).decode("utf-8", "backslashreplace")


@contextlib.contextmanager
def _foreground(child: subprocess.Popen[bytes], *, wanted: bool) -> Iterator[None]:
    """Give the terminal to the command while it runs, as a shell does, and take it back."""
    terminal = None
    if wanted:
        with contextlib.suppress(OSError, ValueError):
            if sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp():
                terminal = sys.stdin.fileno()
    if terminal is None:
        yield
        return
    _give(terminal, child.pid)
    try:
        yield
    finally:
        _give(terminal, os.getpgrp())


def _give(terminal: int, group: int) -> None:
    """Make ``group`` the terminal's own; the signal that this sends a background group is held back."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(terminal, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


@contextlib.contextmanager
def scratch(workdir: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """A fresh temporary folder, inside ``workdir`` if there is one, gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="tmp-" if workdir else "afnb-", dir=workdir))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
