"""Every exception afnb raises, by who must act.

::

    AfnbError
    ├── InputError (ValueError)             a file or a log cannot be read: which, where, found, expected
    │   └── EventError                      one event of a log cannot be read: by which rule, which field
    ├── ParameterError (ValueError)         a call's argument is out of range: the value seen, the rule
    ├── MalformedLog (ValueError)           an event log breaks a shape rule the cursor depends on
    ├── Divergence (RuntimeError)           a re-run asked for something the log does not record there
    ├── NeedsReconciliation (RuntimeError)  a write was asked for and never answered: a person decides
    ├── PermitError (RuntimeError)          a cursor's permit was used twice, or another was still out
    ├── WriteRefused (RuntimeError)         a tool that writes was about to run and was not allowed to
    ├── ToolRefused (RuntimeError)          a wrapped tool may not run in this replay, or knows no run
    ├── ToolFailed (RuntimeError)           a wrapped tool failed when it was recorded, as is not known here
    ├── AgentError (RuntimeError)           the agent cannot be started at all
    ├── UpstreamError (ConnectionError)     the provider cannot be reached
    └── MissingDependency (ImportError)     an optional package is missing: the pip line that adds it

A message is one sentence or two: what was seen, what the rule is, what to do. Inconclusive
replays, crossed budgets, cache misses and broken runs of a batch are values, never exceptions.
"""

from __future__ import annotations

from typing import Any


class AfnbError(Exception):
    """Base of every exception that afnb raises on purpose."""


class InputError(AfnbError, ValueError):
    """A file, a log or a recording cannot be read.

    Parameters
    ----------
    message
        What was found and what was expected.
    path
        The file, if there is one.
    line
        1-based line in that file.
    run_id
        The run, for logs that hold several.
    position
        0-based position in the run or array.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        run_id: str | None = None,
        position: int | None = None,
    ) -> None:
        self.message = message
        self.path = path
        self.line = line
        self.run_id = run_id
        self.position = position
        where = ""
        if path is not None:
            where = path if line is None else f"{path}:{line}"
        if run_id is not None:
            where += f"{' ' if where else ''}run {run_id}"
        if position is not None:
            where += f"{' ' if where else ''}position {position}"
        super().__init__(f"{where}: {message}" if where else message)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_input_error, (self.message, self.path, self.line, self.run_id, self.position)


def _rebuild_input_error(
    message: str, path: str | None, line: int | None, run_id: str | None, position: int | None
) -> InputError:
    return InputError(message, path=path, line=line, run_id=run_id, position=position)


class EventError(InputError):
    """One event of a log cannot be read.

    ``rule`` is ``bad_envelope``, ``unknown_kind`` or ``bad_payload``; ``field`` is the JSON path of
    the fault inside the envelope, empty for the envelope as a whole.
    """

    def __init__(
        self,
        message: str,
        *,
        rule: str,
        field: str = "",
        path: str | None = None,
        line: int | None = None,
        run_id: str | None = None,
        position: int | None = None,
    ) -> None:
        self.rule = rule
        self.field = field
        super().__init__(message, path=path, line=line, run_id=run_id, position=position)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_event_error, (
            self.message,
            {
                "rule": self.rule,
                "field": self.field,
                "path": self.path,
                "line": self.line,
                "run_id": self.run_id,
                "position": self.position,
            },
        )


def _rebuild_event_error(message: str, where: dict[str, Any]) -> EventError:
    return EventError(message, **where)


class ParameterError(AfnbError, ValueError):
    """An argument is out of range or contradicts another; the message says the value it saw."""


class MalformedLog(AfnbError, ValueError):
    """An event log breaks a shape rule that the replay cursor depends on.

    ``position`` is the seq at which it breaks, ``detail`` what was found there.
    """

    def __init__(self, position: int, detail: str) -> None:
        self.position = position
        self.detail = detail
        super().__init__(f"malformed log at seq {position}: {detail}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.position, self.detail)


class Divergence(AfnbError, RuntimeError):
    """A re-run asked for something else than the log records at this position."""

    def __init__(self, position: int, recorded: str, requested: str) -> None:
        self.position = position
        self.recorded = recorded
        self.requested = requested
        super().__init__(
            f"divergence at seq {position}: the log records {recorded}, the run asked for {requested}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.position, self.recorded, self.requested)


class NeedsReconciliation(AfnbError, RuntimeError):
    """A recorded ``write`` tool call has no completion: it may have landed, a person must decide."""

    def __init__(self, position: int, tool: str, input: object, idempotency_key: str | None) -> None:
        self.position = position
        self.tool = tool
        self.input = input
        self.idempotency_key = idempotency_key
        super().__init__(
            f"write {tool!r} at seq {position} was requested and never answered; it may have landed: "
            "find out, then record its completion or abandon the run"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.position, self.tool, self.input, self.idempotency_key)


class PermitError(AfnbError, RuntimeError):
    """A cursor's permit was redeemed twice, or a request was made while another permit was out."""


class WriteRefused(AfnbError, RuntimeError):
    """A tool whose effect is ``write`` was about to run live and was not allowed by name."""

    def __init__(self, tool: str, seq: int) -> None:
        self.tool = tool
        self.seq = seq
        super().__init__(
            f"the run was about to call {tool!r} live at seq {seq}, a tool that writes, and that is not "
            f"allowed here; allow it by name with allow_writes={{{tool!r}}} or give a stub in its place"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.tool, self.seq)


class ToolRefused(AfnbError, RuntimeError):
    """A wrapped tool was called in a replay that cannot answer it from the recording and must not run it."""


class ToolFailed(AfnbError, RuntimeError):
    """The recorded failure of a wrapped tool, where the class that was raised is not known here."""


class AgentError(AfnbError, RuntimeError):
    """The agent cannot be started at all, so every replay would fail."""


class UpstreamError(AfnbError, ConnectionError):
    """The provider cannot be reached (a transport fault; an HTTP error status is an answer)."""


class MissingDependency(AfnbError, ImportError):
    """An optional package is not installed; the message holds the pip line that adds it."""

    def __init__(self, package: str, extra: str | None = None) -> None:
        self.package = package
        self.extra = extra
        line = f"pip install 'afnb[{extra}]'" if extra else f"pip install {package}"
        super().__init__(f"{package} is not installed; run: {line}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.package, self.extra)
