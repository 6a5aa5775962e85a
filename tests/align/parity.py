"""The reference implementation's shapes: its names, its absent keys, its words for warnings and errors."""

from __future__ import annotations

import re
from typing import Any

from afnb.align.diff import Diff
from afnb.align.moves import Move
from afnb.align.params import AlignParams
from afnb.core.jsonvalue import MISSING
from afnb.core.run import Run, Warn
from afnb.io.formats.trace import from_json

CODES = {
    "schema_version": "schema-version-mismatch",
    "unknown_fields": "unmapped-attributes",
    "no_content": "content-absent",
}


def run_of(value: dict[str, Any]) -> Run:
    return from_json(value)


def params_of(params: dict[str, Any]) -> tuple[AlignParams, int]:
    given = dict(params)
    max_steps = given.pop("max_steps", 2000)
    return AlignParams(**given), max_steps


def present(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def move_json(move: Move) -> dict[str, Any]:
    return present(
        kind=move.kind,
        a_idx=move.good_step,
        b_idx=move.bad_step,
        cost=move.cost,
        confidence=move.confidence,
    )


def move_of(value: dict[str, Any]) -> Move:
    if value["kind"] == "sync":
        return Move.sync(value["a_idx"], value["b_idx"], value["cost"], value["confidence"])
    if value["kind"] == "log":
        return Move.log(value["b_idx"], value["cost"], value["confidence"])
    return Move.model(value["a_idx"], value["cost"], value["confidence"])


def warning_json(warn: Warn) -> dict[str, str]:
    side, _, message = warn.message.partition(" run: ")
    where = {"good": "run a: ", "bad": "run b: "}.get(side, "")
    if not where:
        message = warn.message
    return {"code": CODES[warn.code], "msg": where + reference_words(warn.code, message)}


def reference_words(code: str, message: str) -> str:
    if code == "schema_version":
        version = re.fullmatch(r"schema_version is (.*), read as 0\.1: .*", message)
        assert version
        return (
            f"trace declares schema_version {version[1]}; this build is native to 0.1 — fields may be read "
            "under the wrong contract"
        )
    if code == "no_content":
        return message.replace("neither inputs nor outputs", "no input or output content captured")
    return message.replace(
        "unknown fields of the run left out",
        "run-level unmapped fields (no run-level attrs to hold them, dropped)",
    ).replace("unknown fields kept in attrs", "unmapped fields moved to attrs")


def run_ref(run: Run) -> dict[str, Any]:
    return present(id=run.id, task=run.task, outcome=run.outcome, n_steps=len(run))


def diff_json(found: Diff) -> dict[str, Any]:
    """The reference's document, without its optional keys where they are absent."""
    out: dict[str, Any] = {
        "runs": {"a": run_ref(found.good), "b": run_ref(found.bad)},
        "alignment": [move_json(move) for move in found.moves],
        "field_diffs": [
            {
                "step": d.move,
                "path": d.path,
                "kind": d.kind,
                **({} if d.good is MISSING else {"before": d.good}),
                **({} if d.bad is MISSING else {"after": d.bad}),
            }
            for d in found.field_diffs
        ],
        "warnings": [warning_json(warn) for warn in found.warnings],
        "meta": {"schema_version": "0.1", "source": "passive"},
        "fork_step_observed": found.fork_step_observed,
    }
    if found.fork is not None:
        out["fork"] = fork_json(found)
        out["attribution"] = {
            "mode": "static",
            "origin_step": found.origin,
            "propagation": list(found.propagation),
            "confidence": found.fork.confidence,
        }
    if found.deltas is not None:
        deltas = {"total": found.deltas.total, "at_fork": found.deltas.at_fork}
        out["deltas"] = {
            name: present(latency_ms=d.latency_ms, tokens=d.tokens)
            for name, d in deltas.items()
            if d is not None
        }
    return out


def fork_json(found: Any) -> dict[str, Any] | None:
    fork = getattr(found, "fork", found)
    if fork is None:
        return None
    return present(index=fork.move, a_step=fork.good_step, b_step=fork.bad_step, confidence=fork.confidence)


def error_parameter(message: str) -> str:
    """The parameter a message of ours or of the reference is about."""
    if "alignment guard" in message:
        return "max_steps"
    return message.split(" ", 1)[0]
