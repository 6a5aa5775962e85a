"""The card of an event log: where the run stands, what it called, and its events in order."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from afnb.core import events as ev
from afnb.core.budgets import budget_observations
from afnb.core.describe import shown
from afnb.core.graph import NodeProgress, derive_graph_projection
from afnb.core.instants import Instant
from afnb.core.jsonvalue import MISSING
from afnb.core.page import Badge, Facts, Page, Part, Table, Text, Tone
from afnb.core.state import PARKED, derive_state

if TYPE_CHECKING:
    from afnb.core.eventlog import EventLog

_EVENTS = 60
_NODES = 30
_WARNINGS = 5
_TONES: dict[str, Tone] = {"completed": "good", "failed": "bad", "abandoned": "bad"}
_SAID: dict[type[ev.Event], tuple[str, ...]] = {
    ev.RunStarted: ("input",),
    ev.GraphRunStarted: ("input",),
    ev.ModelCallRequested: ("request_body",),
    ev.ModelCallCompleted: ("response",),
    ev.ToolCallRequested: ("tool", "effect", "input"),
    ev.ToolCallCompleted: ("output",),
    ev.NowObserved: ("now",),
    ev.RandomObserved: ("value",),
    ev.Suspended: ("reason",),
    ev.Resumed: ("input",),
    ev.BudgetExceeded: ("budget", "observed"),
    ev.RunCompleted: ("output",),
    ev.RunFailed: ("error",),
    ev.RunAbandoned: ("reason",),
    ev.NodeSkipped: ("node", "reason"),
    ev.BranchTaken: ("node", "case"),
    ev.MapFannedOut: ("node", "items"),
    ev.FoldConverged: ("node", "winner_index", "reason"),
}


def log_page(log: EventLog) -> Page:
    """Title, status, what was called and used, the events, the nodes of a graph."""
    state = derive_state(log.envelopes)
    parts: list[Part] = [Text(_sentence(log)), Facts(tuple(_facts(log)))]
    if log.envelopes:
        parts.append(_events(log))
    nodes = derive_graph_projection(log.envelopes).nodes
    if nodes:
        rows = tuple((n.node, n.state, _node_words(n)) for n in nodes[:_NODES])
        parts.append(Table(("node", "state", "what it did"), rows, "the graph's nodes so far", len(nodes)))
    parts.extend(Text(warn.message, "warn") for warn in log.warnings[:_WARNINGS])
    tone: Tone = _TONES.get(
        state.status, "warn" if state.status in (*PARKED, "needs_reconciliation") else "plain"
    )
    return Page(
        f"Run {log.id or 'without events'}",
        Badge(state.status.replace("_", " "), tone),
        tuple(parts),
        ("log.state", "log.violation()", "afnb.diff(bad, good)"),
    )


def _sentence(log: EventLog) -> str:
    state = derive_state(log.envelopes)
    call, cause = state.pending_call, state.cause
    if state.status == "needs_reconciliation" and isinstance(call, ev.ToolCallRequested):
        return (
            f"The write {call.tool} at seq {call.seq} was asked for and never answered; it may have landed."
        )
    if isinstance(cause, ev.RunFailed):
        return f"The run failed: {shown(cause.error)}"
    if isinstance(cause, ev.RunCompleted):
        return f"The run completed with {shown(cause.output)}"
    if isinstance(cause, ev.Suspended):
        return f"The run waits for an answer: {shown(cause.reason)}"
    if isinstance(cause, ev.BudgetExceeded):
        return f"The run waits at its limit, {shown(cause.budget)} (observed {shown(cause.observed)})."
    if isinstance(cause, ev.RunAbandoned):
        return "The run was given up" + (f": {shown(cause.reason)}" if cause.reason else ".")
    return {
        "not_started": "The run has not started.",
        "awaiting_model": "The log ends in a model call that was not answered.",
        "awaiting_tool": "The log ends in a tool call that was not answered.",
    }.get(state.status, "The log ends while the run is under way.")


def _facts(log: EventLog) -> list[tuple[str, str]]:
    used = budget_observations(log.envelopes)
    tools = Counter(e.event.tool for e in log.envelopes if isinstance(e.event, ev.ToolCallRequested))
    called = ", ".join(f"{tool} x{n}" if n > 1 else tool for tool, n in tools.most_common())
    rows = [
        ("events", f"{len(log):,}"),
        (
            "model calls",
            f"{used.steps:,} answered, {used.input_tokens:,} tokens in, {used.output_tokens:,} out",
        ),
        ("tool calls", called or "none"),
    ]
    found = log.violation()
    if found is not None:
        refused = "" if found.line is None else f" (line {found.line})"
        rows.append(("malformed", f"event {found.index}{refused}: {found.message}"))
    if log.source is not None:
        rows.append(("read from", log.source))
    return rows


def _events(log: EventLog) -> Table:
    start = log.envelopes[0].recorded_at
    rows = tuple(
        (str(e.seq), _since(start, e.recorded_at), e.event.kind, _said(e.event))
        for e in log.envelopes[:_EVENTS]
    )
    return Table(("seq", "after", "event", "what"), rows, "event by event", len(log))


def _since(start: Instant, at: Instant) -> str:
    return f"{(at.ns - start.ns) / 1e9:,.3f} s"


def _said(event: ev.Event) -> str:
    names = _SAID.get(type(event)) or tuple(n for n in ("node", "index") if hasattr(event, n))
    values = [getattr(event, name) for name in names]
    return " ".join(shown(value) for value in values if value is not MISSING and value is not None)


def _node_words(node: NodeProgress) -> str:
    words = []
    if node.skip_reason is not None:
        words.append(f"skipped: {node.skip_reason}")
    if node.branch_case is not None:
        words.append(f"took {node.branch_case}")
    for name, loop in (("map", node.map), ("fold", node.fold)):
        if loop is not None:
            joined = sum(i.joined for i in loop.iterations)
            words.append(f"{name}: {joined} of {len(loop.iterations)} iterations back")
    if node.fold is not None and node.fold.winner_index is not None:
        words.append(f"converged on {node.fold.winner_index}")
    return ", ".join(words)
