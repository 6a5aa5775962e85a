"""The replay cursor against the reference's decisions, op by op.

Errors are compared by kind and position (and a reconciliation's evidence), never by wording. Two
differences are meant, each named by category: what the original panics at is a divergence here, and
integers beyond 64 bits stay exact here where the original compares them as floats.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from afnb.core import events as ev
from afnb.core.cursor import ReplayCursor
from afnb.core.instants import Instant
from afnb.core.jsonvalue import equal
from afnb.core.permits import Emitted, Live, ModelReply, Permit, Replayed
from afnb.core.wire import parse_envelope, write_envelope
from afnb.errors import AfnbError, Divergence, MalformedLog, NeedsReconciliation

Vectors = Callable[[str], list[dict[str, Any]]]

CATEGORIES = (
    "abandoned-tail",
    "after-terminal",
    "begin-late",
    "begin-wrong-head",
    "budget-float",
    "constructor",
    "cut",
    "dangling-idempotent",
    "dangling-model",
    "dangling-read",
    "dangling-write",
    "divergence",
    "divergence-persist",
    "divergence-skip",
    "dropped-permit",
    "ignored-on-replay",
    "live",
    "malformed-pair",
    "no-begin",
    "replay",
    "resume-unexecuted",
    "value-equality",
)
BEYOND_64_BITS = {
    ("value-equality", f"{where} {pair}")
    for where, pair in (
        ("tool input", "18446744073709551616 vs 18446744073709551617"),
        ("output", "18446744073709551616 vs 18446744073709551617"),
        ("items", "18446744073709551616 vs 18446744073709551617"),
        ("output", "18446744073709551616 vs 1.8446744073709552e+19"),
        ("schema", "18446744073709551616 vs 1.8446744073709552e+19"),
    )
}
NAMED = {"resume-unexecuted": {"panic": 1}, "value-equality": {"beyond 64 bits": 5}}
RUN = "00000000-0000-4000-8000-000000000000"


def wire_event(event: ev.Event) -> dict[str, Any]:
    return json.loads(write_envelope(ev.Envelope(RUN, 0, Instant(0), event), canonical=True))["event"]


def emitted_json(emitted: Emitted | None) -> Any:
    return None if emitted is None else {"seq": emitted.seq, "event": wire_event(emitted.event)}


def value_json(value: Any) -> Any:
    if isinstance(value, ModelReply):
        usage = {"input_tokens": value.usage.input_tokens, "output_tokens": value.usage.output_tokens}
        return {"response": value.response, "usage": usage}
    return str(value) if isinstance(value, Instant) else value


def call(cursor: ReplayCursor, op: dict[str, Any]) -> Any:
    """The request an op of a script stands for."""
    args = {k: v for k, v in op.items() if k not in ("op", "record", "record_deduplicated")}
    if op["op"] == "budget_exceeded":
        args["budget"] = ev.BudgetLimit(**args["budget"])
    if args.get("forked_from"):
        fork = args["forked_from"]
        args["forked_from"] = ev.ForkOrigin(
            **{**fork, "acknowledged_writes": tuple(fork["acknowledged_writes"])}
        )
    return getattr(cursor, op["op"])(**args)


def redeem(permit: Any, op: dict[str, Any]) -> Emitted | None:
    """Redeem a permit with what the script records, or drop it as the original does."""
    if "record_deduplicated" in op:
        given = op["record_deduplicated"]
        return permit.record_deduplicated(given["output"], ev.CallOrigin(**given["origin"]))
    if "record" not in op:
        permit.drop()
        return None
    value = op["record"]
    if op["op"] == "model_call":
        return permit.record(value["response"], ev.TokenUsage(**value["usage"]))
    if op["op"] == "now":
        return permit.record(Instant.parse(value))
    return permit.resume(value) if op["op"] == "await_resume" else permit.record(value)


def outcome_of(cursor: ReplayCursor, op: dict[str, Any]) -> dict[str, Any]:
    if op["op"] == "run_id":
        return {"outcome": "query", "value": cursor.run_id}
    if op["op"] == "dangling_intent":
        intent = cursor.dangling_intent()
        if intent is None:
            return {"outcome": "query", "value": None}
        payload = wire_event(intent)["payload"]
        payload.pop("request_body", None)
        payload.pop("performed_by", None)
        kind = "Model" if isinstance(intent, ev.ModelCallRequested) else "Tool"
        return {"outcome": "query", "value": {"call": kind, **payload}}
    try:
        result = call(cursor, op)
    except AfnbError as error:
        return {"outcome": "error", "error": error}
    if isinstance(result, Replayed):
        return {"outcome": "replayed", "value": value_json(result.value)}
    assert isinstance(result, Live)
    permit = result.permit
    if isinstance(permit, Emitted):
        return {"outcome": "live", "permit": None, "emitted": emitted_json(permit)}
    assert isinstance(permit, Permit)
    ours = {"outcome": "live", "permit": type(permit).__name__.removesuffix("Permit")}
    if op["op"] in ("model_call", "tool_call", "resume_unexecuted_tool_call"):
        ours |= {"correlation": permit.seq, "intent": emitted_json(permit.intent)}
    if op["op"] in ("tool_call", "resume_unexecuted_tool_call"):
        ours |= {"effect": permit.effect, "idempotency_key": permit.idempotency_key}
    return ours | {"emitted": emitted_json(redeem(permit, op))}


def error_mismatch(error: AfnbError, theirs: dict[str, Any], log: list[ev.Envelope]) -> str | None:
    if type(error).__name__ != theirs["kind"] or error.position != theirs["position"]:
        return f"{error!r} against {theirs}"
    if isinstance(error, NeedsReconciliation):
        for name in ("tool", "input", "idempotency_key"):
            if not equal(getattr(error, name), theirs[name]):
                return f"{name}: {getattr(error, name)!r} against {theirs[name]!r}"
    if isinstance(error, Divergence):
        recorded = theirs["recorded"]
        if recorded["step"] == "RunAlreadyTerminal":
            return None if "the run's end" in error.recorded else f"{error} against {theirs}"
        if not error.recorded.startswith(recorded["event"]["kind"]):
            return f"{error} against {theirs}"
        if error.recorded == error.requested:
            return f"both sides read the same: {error}"
    return None


def mismatch(ours: dict[str, Any], theirs: dict[str, Any], log: list[ev.Envelope]) -> str | None:
    if ours["outcome"] != theirs["outcome"]:
        return f"{ours} against {theirs}"
    if ours["outcome"] == "error":
        return error_mismatch(ours["error"], theirs["error"], log)
    wanted = {k: v for k, v in theirs.items() if k != "after"}
    return None if equal(ours, wanted) else f"{ours} against {wanted}"


def after(cursor: ReplayCursor) -> dict[str, Any]:
    return {
        "is_finished": cursor.is_finished,
        "is_replaying": cursor.is_replaying,
        "next_seq": cursor.next_seq,
    }


def play(vector: dict[str, Any]) -> tuple[str | None, Counter[str]]:
    """The first mismatch of a vector, and how often a named difference was met."""
    named: Counter[str] = Counter()
    log = [parse_envelope(json.dumps(e)) for e in vector["log"]]
    expect = vector["expect"]
    try:
        cursor = ReplayCursor(log)
    except MalformedLog as error:
        new = expect["new"]
        same = new != "ok" and (new["kind"], new["position"]) == ("MalformedLog", error.position)
        return (None if same else f"{error!r} against {new}"), named
    if expect["new"] != "ok":
        return f"accepted, against {expect['new']}", named
    start = expect["start"]
    if after(cursor) | {"run_id": cursor.run_id} != start:
        return f"start: {after(cursor)} against {start}", named
    for op, theirs in zip(vector["script"], expect["outcomes"], strict=True):
        ours = outcome_of(cursor, op)
        if theirs["outcome"] == "panic":
            # Named difference: where the original's index runs out of bounds, ours diverges.
            named["panic"] += 1
            assert vector["category"] == "resume-unexecuted"
            wrong = None if isinstance(ours.get("error"), Divergence) else f"{ours} against a panic"
        elif (vector["category"], vector["note"]) in BEYOND_64_BITS and theirs["outcome"] != "error":
            if op["op"] != "begin" and op["op"] != "begin_graph":
                named["beyond 64 bits"] += 1
                return (None if isinstance(ours.get("error"), Divergence) else f"{ours}: equal"), named
            wrong = mismatch(ours, theirs, log)
        else:
            wrong = mismatch(ours, theirs, log)
        if wrong is None and after(cursor) != theirs["after"]:
            wrong = f"after: {after(cursor)} against {theirs['after']}"
        if wrong:
            return f"{op}: {wrong}", named
    return None, named


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_reference_and_we_agree(vectors: Vectors, category: str) -> None:
    rows = [v for v in vectors("cursor") if v["category"] == category]
    assert rows
    named: Counter[str] = Counter()
    wrong = []
    for vector in rows:
        message, met = play(vector)
        named += met
        if message:
            wrong.append(f"{vector['note']}: {message}")
    assert not wrong, f"{len(wrong)} of {len(rows)}: {wrong[0]}"
    assert named == NAMED.get(category, {})


def test_every_category_is_covered(vectors: Vectors) -> None:
    assert {v["category"] for v in vectors("cursor")} == set(CATEGORIES)
