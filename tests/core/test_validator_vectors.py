"""The single-log guard, the cursor's check and the folds against the reference's decisions.

Where this library decides otherwise on purpose, the difference is named here by category and
mutation, with the decision that is expected instead; anything else must agree.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from afnb.core import events as ev
from afnb.core import shape
from afnb.core.budgets import budget_extensions, budget_observations
from afnb.core.graph import GraphProjection, derive_graph_projection
from afnb.core.shape import LogValidator, cursor_refusal, first_violation
from afnb.core.state import RunState, derive_state
from afnb.core.wire import parse_array, write_envelope
from afnb.errors import EventError

Vectors = Callable[[str], list[dict[str, Any]]]

STATUS = {
    "NotStarted": "not_started",
    "Running": "running",
    "AwaitingModel": "awaiting_model",
    "AwaitingTool": "awaiting_tool",
    "Suspended": "suspended",
    "BudgetExceeded": "budget_exceeded",
    "NeedsReconciliation": "needs_reconciliation",
    "Completed": "completed",
    "Failed": "failed",
    "Abandoned": "abandoned",
}
CATEGORIES = (
    "correlation",
    "double",
    "head",
    "lenient",
    "parse",
    "prefix",
    "run_id",
    "schema",
    "seq",
    "terminal",
    "valid-agent",
    "valid-graph",
    "wire",
)


def text_of(vector: dict[str, Any]) -> str:
    return vector["raw"] if "raw" in vector else json.dumps(vector["log"])


def payload_of(event: ev.Event) -> dict[str, Any]:
    line = write_envelope(ev.Envelope("00000000-0000-4000-8000-000000000000", 0, ZERO, event))
    return json.loads(line)["event"]["payload"]


ZERO = parse_array(
    '[{"run_id":"00000000-0000-4000-8000-000000000000","seq":0,"schema_version":1,'
    '"recorded_at":"1970-01-01T00:00:00Z","event":{"kind":"RunFailed","payload":{"error":""}}}]'
)[0].recorded_at


def is_abandoned_write(log: list[ev.Envelope], index: int) -> bool:
    """The named difference: an abandon that says which dangling write it leaves behind is accepted."""
    if index == 0 or not isinstance(log[index].event, ev.RunAbandoned):
        return False
    intent, left = log[index - 1].event, log[index].event.unresolved_write
    return (
        isinstance(intent, ev.ToolCallRequested)
        and intent.effect == "write"
        and left is not None
        and (left.seq, left.tool) == (intent.seq, intent.tool)
    )


def guard_mismatch(log: list[ev.Envelope], expect: dict[str, Any]) -> str | None:
    ours, theirs = first_violation(log), expect["validator"]
    if theirs != "ok" and theirs["kind"] == "ExpectedCompletion" and is_abandoned_write(log, theirs["index"]):
        return None if ours is None or ours.index > theirs["index"] else f"abandoned write refused: {ours}"
    if ours is None or theirs == "ok":
        return None if ours is None and theirs == "ok" else f"{ours} against {theirs}"
    if (ours.index, shape.RULE[ours.rule].reference) != (theirs["index"], theirs["kind"]):
        return f"{ours} against {theirs}"
    return None


def cursor_mismatch(log: list[ev.Envelope], expect: dict[str, Any]) -> str | None:
    ours, theirs = cursor_refusal(log), expect["cursor_new"]
    if ours is None or theirs == "ok":
        return None if ours is None and theirs == "ok" else f"{ours} against {theirs}"
    words = {
        "missing_head": "must start with",
        "head_not_at_zero": "must start at",
        "non_contiguous": "non-contiguous",
        "mixed_run_ids": "mixed run ids",
        "after_terminal": "after terminal",
    }
    same = ours.seq == theirs["position"] and words[ours.rule] in theirs["detail"]
    return None if same else f"{ours} against {theirs}"


def state_json(state: RunState) -> dict[str, Any]:
    cause = {} if state.cause is None else payload_of(state.cause)
    if isinstance(state.cause, ev.RunAbandoned):
        cause = {"reason": None, "unresolved_write": None} | cause
    call: dict[str, Any] | None = None
    if state.pending_call is not None:
        call = payload_of(state.pending_call)
        call.pop("performed_by", None)
        call.pop("request_body", None)
        call["call"] = "Model" if isinstance(state.pending_call, ev.ModelCallRequested) else "Tool"
    name = next(k for k, v in STATUS.items() if v == state.status)
    return {
        "next_seq": state.next_seq,
        "pending_call": call,
        "status": {"status": name} | cause,
        "usage": {
            "input_tokens": state.usage.input_tokens,
            "output_tokens": state.usage.output_tokens,
        },
    }


def graph_json(graph: GraphProjection) -> dict[str, Any]:
    def fold(f: Any) -> Any:
        if f is None:
            return None
        won = None if f.winner_index is None else {"winner_index": f.winner_index, "reason": f.reason}
        return {
            "converged": won,
            "iterations": [{"index": i.index, "joined": i.joined} for i in f.iterations],
        }

    def map_(m: Any) -> Any:
        if m is None:
            return None
        rows = [{"index": i.index, "child_run": i.child_run, "joined": i.joined} for i in m.iterations]
        return {"items": m.items, "iterations": rows}

    fork = graph.forked_from
    return {
        "current_node": graph.current_node,
        "graph_hash": graph.graph_hash,
        "forked_from": None
        if fork is None
        else {
            "run_id": fork.run_id,
            "through_seq": fork.through_seq,
            "from_node": fork.from_node,
            "graph_hash": fork.graph_hash,
            "acknowledged_writes": list(fork.acknowledged_writes),
        },
        "nodes": [
            {
                "node": n.node,
                "state": n.state,
                "skip_reason": n.skip_reason,
                "branch_case": n.branch_case,
                "map": map_(n.map),
                "fold": fold(n.fold),
            }
            for n in graph.nodes
        ],
    }


def fold_mismatch(log: list[ev.Envelope], expect: dict[str, Any]) -> str | None:
    state, graph = state_json(derive_state(log)), graph_json(derive_graph_projection(log))
    seen, more = budget_observations(log), budget_extensions(log)
    used = {
        "elapsed_seconds": seen.elapsed_seconds,
        "input_tokens": seen.input_tokens,
        "output_tokens": seen.output_tokens,
        "steps": seen.steps,
    }
    granted = {
        "cost_usd": more.cost_usd,
        "steps": more.steps,
        "tokens": more.tokens,
        "wall_time_seconds": more.wall_time_seconds,
    }
    for name, ours in (
        ("state", state),
        ("graph", graph),
        ("budget_observations", used),
        ("budget_extensions", granted),
    ):
        if ours != expect[name]:
            return f"{name}: {ours} against {expect[name]}"
    return None


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_reference_and_we_agree(vectors: Vectors, category: str) -> None:
    rows = [v for v in vectors("validator") if v["category"] == category]
    assert rows
    wrong = []
    for vector in rows:
        expect = vector["expect"]
        try:
            log = parse_array(text_of(vector))
        except EventError as error:
            theirs = expect["parse"]
            if theirs == "ok" or theirs["index"] != error.position:
                wrong.append(f"{vector['mutation']}: {error!r} against {theirs}")
            continue
        if expect["parse"] != "ok":
            wrong.append(f"{vector['mutation']}: read, against {expect['parse']}")
            continue
        for check in (guard_mismatch, cursor_mismatch, fold_mismatch):
            message = check(log, expect)
            if message:
                wrong.append(f"{vector['mutation']}: {message}")
    assert not wrong, f"{len(wrong)} of {len(rows)}: {wrong[0]}"


def test_every_category_is_covered(vectors: Vectors) -> None:
    assert {v["category"] for v in vectors("validator")} == set(CATEGORIES)


def test_the_guard_appends_what_the_reference_accepts(vectors: Vectors) -> None:
    counts: Counter[str] = Counter()
    for vector in vectors("validator"):
        expect = vector["expect"]
        if expect["parse"] != "ok":
            continue
        log = parse_array(text_of(vector))
        guard = LogValidator()
        refused = next((v for e in log if (v := guard.append(e)) is not None), None)
        if guard.accepted != expect["accepted"]:
            assert is_abandoned_write(log, expect["accepted"])
            counts["abandoned write"] += 1
        counts["refused" if refused else "accepted"] += 1
    assert counts["accepted"] > 300
    assert counts["refused"] > 400
