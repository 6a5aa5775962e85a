"""``derive_state``: what any prefix of a run's log says of the run. It never fails and checks nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from afnb.core import events as ev

StatusName = Literal[
    "not_started",
    "running",
    "awaiting_model",
    "awaiting_tool",
    "suspended",
    "budget_exceeded",
    "needs_reconciliation",
    "completed",
    "failed",
    "abandoned",
]
STATUSES: tuple[StatusName, ...] = (
    "not_started",
    "running",
    "awaiting_model",
    "awaiting_tool",
    "suspended",
    "budget_exceeded",
    "needs_reconciliation",
    "completed",
    "failed",
    "abandoned",
)
PARKED: tuple[StatusName, ...] = ("suspended", "budget_exceeded")
Cause = ev.Suspended | ev.BudgetExceeded | ev.RunCompleted | ev.RunFailed | ev.RunAbandoned

_BY_CAUSE: dict[type[ev.Event], StatusName] = {
    ev.Suspended: "suspended",
    ev.BudgetExceeded: "budget_exceeded",
    ev.RunCompleted: "completed",
    ev.RunFailed: "failed",
    ev.RunAbandoned: "abandoned",
}


@dataclass(frozen=True, slots=True)
class TokenTotals:
    """Tokens over all completed model calls; each count stops at 2**64 - 1."""

    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, usage: ev.TokenUsage) -> TokenTotals:
        """The totals after one more call."""
        return TokenTotals(
            min(ev.U64_MAX, self.input_tokens + usage.input_tokens),
            min(ev.U64_MAX, self.output_tokens + usage.output_tokens),
        )


@dataclass(frozen=True, slots=True)
class RunState:
    """What a log says of its run.

    Parameters
    ----------
    status
        One of ``STATUSES``; a dangling write is ``needs_reconciliation``.
    next_seq
        The last event's seq + 1, or 0.
    usage
        Tokens of the completed model calls.
    pending_call
        The intent without completion, kept through a terminal event.
    cause
        The event that gave the status its reason, output or error, where it has one.
    """

    status: StatusName = "not_started"
    next_seq: int = 0
    usage: TokenTotals = TokenTotals()
    pending_call: ev.Intent | None = None
    cause: Cause | None = None


def derive_state(log: Iterable[ev.Envelope]) -> RunState:
    """Fold a log, or any prefix of one, to the state of its run.

    Events that follow a terminal one overwrite it; clock, random and graph events change nothing.

    Examples
    --------
    >>> from afnb.core.events import Envelope, RunCompleted, RunStarted
    >>> from afnb.core.instants import Instant
    >>> events = [RunStarted("h", None), RunCompleted(3)]
    >>> log = [Envelope("r", seq, Instant(0), event) for seq, event in enumerate(events)]
    >>> [derive_state(log[:n]).status for n in range(3)]
    ['not_started', 'running', 'completed']
    """
    status: StatusName = "not_started"
    next_seq, usage = 0, TokenTotals()
    pending: ev.Intent | None = None
    cause: Cause | None = None
    for envelope in log:
        event = envelope.event
        next_seq = envelope.seq + 1
        if isinstance(event, ev.RunStarted | ev.GraphRunStarted | ev.Resumed):
            status, cause = "running", None
        elif isinstance(event, ev.ModelCallRequested):
            status, cause, pending = "awaiting_model", None, event
        elif isinstance(event, ev.ToolCallRequested):
            status = "needs_reconciliation" if event.effect == "write" else "awaiting_tool"
            cause, pending = None, event
        elif isinstance(event, ev.Completion):
            status, cause, pending = "running", None, None
            if isinstance(event, ev.ModelCallCompleted):
                usage = usage.plus(event.usage)
        elif isinstance(event, Cause):
            status, cause = _BY_CAUSE[type(event)], event
    return RunState(status, next_seq, usage, pending, cause)
