"""Every Arrow schema of afnb, declared once: column, type, unit and meaning.

Nothing is ever inferred from data: inference loses late columns, turns 2^64-1 into a float and text
into a time. Text is ``large_string``; JSON values are JSON text in a ``large_string`` column whose
metadata says ``format: json``. Columns whose metadata says ``volatile`` (wall times, counts of work
that was started and not needed, worker names) may differ between runs that are otherwise the same.
``Table.to_pandas()`` keeps integers with gaps as pandas' nullable integers: the schema says so.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from afnb.errors import ParameterError
from afnb.tables.declare import Column
from afnb.tables.declare import column as _c
from afnb.tables.locate_columns import CURVE, LEDGER, LOCATION, PLAN
from afnb.tables.pair_columns import CARD, PAIR
from afnb.tables.recording_columns import EXCHANGE, MISS

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = "1"


_REPLAY = (
    _c("experiment", "text!", "experiment this replay belongs to"),
    _c("arm", "cat!", "patch, control, probe (of a search over branch points) or check (unpatched)"),
    _c("index", "int!", "replay number within its arm"),
    _c("used", "bool!", "consumed by the consensus rule"),
    _c("recovery", "cat!", "recovered, not_recovered or inconclusive"),
    _c("reason", "cat", "why it is inconclusive: prefix_diverged, branch_not_reached, timeout, ..."),
    _c("lost", "cat", "before or after the first intervened answer, for an inconclusive replay"),
    _c("detail", "text", "the oracle's or the fault's own sentence"),
    _c("seed", "u64!", "seed of this replay"),
    _c("served", "int!", "requests answered from the tape"),
    _c("live", "int!", "requests answered by the provider"),
    _c("missed", "int!", "requests that matched no recorded exchange"),
    _c("normalised", "int!", "served requests that needed a matching rule beyond key order"),
    _c("tools_served", "int!", "calls of wrapped tools answered from the recording or by an intervention"),
    _c("tools_live", "int!", "calls of wrapped tools that really ran"),
    _c("beyond_recording", "int!", "asks served by repeating the last recorded answer"),
    _c("live_before_branch", "int!", "live requests before the last intervention"),
    _c("patched_steps", "json!", "steps whose intervention took effect"),
    _c("exit_status", "int", "exit status of a command agent"),
    _c("answer", "json", "the run's answer"),
    _c("tail_digest", "text", "digest of the live answers, equal for identical tails"),
    _c("input_tokens", "int!", "tokens read by the live calls", "tokens"),
    _c("output_tokens", "int!", "tokens written by the live calls", "tokens"),
    _c("recording", "text", "id of the replay's own recording"),
    _c("wall_s", "float!", "wall time of the replay", "s", volatile=True),
    _c("worker", "text", "worker that ran it", volatile=True),
    _c("pair", "text", "pair of the batch it belongs to"),
)

_EXPERIMENT = (
    _c("experiment", "text!", "name of the experiment"),
    _c("purpose", "cat!", "what_if, precondition, search or confirmation"),
    _c("recording", "text!", "id of the intervened recording"),
    _c("recording_hash", "text!", "digest of the intervened recording"),
    _c("interventions", "json!", "what was changed, one text per intervention"),
    _c("steps", "json!", "intervened steps"),
    _c("branch_step", "int!", "the last intervened step"),
    _c("oracle", "text!", "how a replay is judged"),
    _c("rule", "text!", "the consensus rule and its parameters"),
    _c("tail", "cat!", "live, tape or good (the last two are screens)"),
    _c("verdict", "cat!", "recovered, not_recovered or unverified"),
    _c("label", "cat!", "verified or Unverified"),
    _c("reason", "text!", "why it stopped"),
    _c("patch_recovered", "int!", "recovered replays of the patch arm that were used"),
    _c("patch_total", "int!", "conclusive replays of the patch arm that were used"),
    _c("patch_lost", "int!", "inconclusive replays of the patch arm that were used"),
    _c("control_recovered", "int!", "recovered replays of the control arm that were used"),
    _c("control_total", "int!", "conclusive replays of the control arm that were used"),
    _c("control_lost", "int!", "inconclusive replays of the control arm that were used"),
    _c("e_recovered", "float", "e-value against: the effect is at most 0"),
    _c("e_not_recovered", "float", "e-value against: the effect is at least min_effect"),
    _c("threshold", "float", "1 / alpha"),
    _c("effect_low", "float", "anytime-valid interval of the effect", "rate"),
    _c("effect_high", "float", "anytime-valid interval of the effect", "rate"),
    _c("fidelity", "text!", "the self-check of the unpatched replay"),
    _c("warnings", "json!", "warnings, as texts"),
    _c("replays_used", "int!", "replays the rule consumed"),
    _c("live_calls_used", "int!", "live calls of those replays"),
    _c("replays_spent", "int!", "replays started, needed or not", volatile=True),
    _c("live_calls_spent", "int!", "live calls made, needed or not", volatile=True),
    _c("tokens_spent", "int!", "tokens of all live calls made", "tokens", volatile=True),
    _c("dollars_spent", "float!", "cost of all live calls made", "USD", volatile=True),
    _c("replays_reused", "int!", "replays of these that a ledger had already", volatile=True),
    _c("wall_s", "float!", "wall time", "s", volatile=True),
    _c("pair", "text", "pair of the batch it belongs to"),
)

_ATTRIBUTION = (
    _c("attribution", "text!", "name of the attribution"),
    _c("bad", "text!", "id of the failing recording"),
    _c("good", "text", "id of the good recording"),
    _c("task", "text", "task of the failing recording"),
    _c("verdict", "cat!", "recovered, not_recovered or unverified"),
    _c("label", "cat!", "verified or Unverified"),
    _c(
        "kind",
        "cat!",
        "repair, origin, no_cause, asked_again, no_candidates, not_comparable, static or error",
    ),
    _c("fork_step", "int", "step of the failing run at which the two part"),
    _c("steps", "int!", "steps of the failing run"),
    _c("origination", "json!", "steps of the confirmed minimal repair"),
    _c("propagation", "json!", "the steps after the fork that are not"),
    _c("candidates", "json!", "[bad step, good step] pairs that were searched"),
    _c("reason", "text!", "why it ended so"),
    _c("alpha", "float!", "error bound of the whole attribution"),
    _c("replays_used", "int!", "replays that rules consumed"),
    _c("live_calls_used", "int!", "live calls of those replays"),
    _c("replays_spent", "int!", "replays started", volatile=True),
    _c("live_calls_spent", "int!", "live calls made", volatile=True),
    _c("wall_s", "float!", "wall time", "s", volatile=True),
)

_STEP = (
    _c("run", "text!", "run id"),
    _c("step", "int!", "index in the run"),
    _c("kind", "cat!", "llm, tool, agent or other"),
    _c("name", "text!", "role or tool"),
    _c(
        "exchange",
        "int",
        "cassette exchange that holds the answer; null for a tool step seen only in messages",
    ),
    _c("result_exchange", "int", "exchange whose request first carried the tool's result"),
    _c("seq", "u64", "event-log position of the intent"),
    _c("parent_idx", "int", "enclosing step"),
    _c("call_id", "text", "tool-call id"),
    _c("inputs", "json", "inputs"),
    _c("outputs", "json", "outputs; null where the source had none"),
    _c("t_start", "text", "start, RFC 3339 as recorded"),
    _c("t_end", "text", "end, RFC 3339 as recorded"),
)

_RUN = (
    _c("run", "text!", "run id"),
    _c("task", "text", "task"),
    _c("outcome", "cat", "pass, fail or unknown, as given by the user"),
    _c("steps", "int!", "number of steps"),
    _c("source", "text", "file it was read from"),
    _c("warnings", "json!", "what the loader could not use"),
)

_MOVE = (
    _c("move", "int!", "position in the alignment"),
    _c("kind", "cat!", "sync, log (bad run only) or model (good run only)"),
    _c("bad_step", "int", "step of the bad run"),
    _c("good_step", "int", "step of the good run"),
    _c("cost", "float!", "cost of the move"),
    _c("confidence", "float!", "1 - cost of a sync; least cost to the other side of a gap"),
    _c("in_sync", "bool!", "a sync move with cost at most tau"),
)

_FIELD_DIFF = (
    _c("move", "int!", "position in the alignment"),
    _c("path", "text!", "field, e.g. outputs.status"),
    _c("kind", "cat!", "added, removed or changed"),
    _c("good_value", "json", "value in the good run; null when absent there"),
    _c("bad_value", "json", "value in the bad run; null when absent there"),
)

_EVENT = (
    _c("run_id", "cat!", "run, lower case with hyphens"),
    _c("seq", "u64!", "the envelope's number"),
    _c("schema_version", "u32!", "version of the envelope's form"),
    _c("recorded_at", "text!", "time of recording, RFC 3339 as it was written"),
    _c(
        "recorded_at_ns",
        "time",
        "the same, UTC; null before 1677-09-22 and after 2262-04-11",
        "ns since 1970",
    ),
    _c("kind", "cat!", "what happened, one of the 24 kinds"),
    _c("corr", "u64", "seq the event names: a call's own, a completion's, an abandoned run's open write"),
    _c("tool", "cat", "tool of a tool call, or of an abandoned run's open write"),
    _c("effect", "cat", "read, idempotent or write, of a tool call"),
    _c("node", "cat", "graph node"),
    _c("index", "u64", "iteration of a map or fold node; the winning one where a fold converged"),
    _c("input_tokens", "u64", "tokens a model call read", "tokens"),
    _c("output_tokens", "u64", "tokens a model call wrote", "tokens"),
    _c("value", "u64", "random bits the run drew"),
    _c(
        "now_ns",
        "time",
        "what the run's clock showed, UTC; null where recorded_at_ns would be",
        "ns since 1970",
    ),
    _c("payload", "json!", "the event's payload, character for character"),
    _c("extra", "json", "unknown keys beside the known ones, under envelope and event"),
    _c("file", "cat", "file it was read from"),
    _c("line", "int", "1-based line in it"),
)

_PROBLEM = (
    _c("file", "text", "file"),
    _c("line", "int", "1-based line in it; null for the file as a whole"),
    _c("byte", "int", "where that line starts in the (decompressed) file", "bytes"),
    _c("level", "cat!", "error (something was left out) or warning (all that counts was read)"),
    _c("rule", "cat!", "bad_envelope, unknown_kind, bad_payload, unfinished_tail, no_final_newline, ..."),
    _c("field", "text", "JSON path of the fault in the envelope"),
    _c("message", "text!", "what was found and what was expected"),
    _c("run_id", "text", "run of the unreadable line, where that can be seen"),
    _c("seq", "u64", "its seq, where that can be seen"),
)

_RUN_STATE = (
    _c("run_id", "text!", "run"),
    _c("events", "int!", "events in its log"),
    _c("status", "cat!", "not_started, running, awaiting_model, awaiting_tool, suspended, ..."),
    _c("next_seq", "u64", "the last event's seq + 1; null where that is beyond 64 bits"),
    _c("input_tokens", "u64!", "tokens the completed model calls read", "tokens"),
    _c("output_tokens", "u64!", "tokens the completed model calls wrote", "tokens"),
    _c("model_calls", "int!", "completed model calls"),
    _c("elapsed_s", "float!", "last minus first look at the clock, in log order", "s"),
    _c("pending_index", "int", "position of the call without completion"),
    _c("pending_kind", "cat", "its kind"),
    _c("pending_seq", "u64", "its seq, as it says itself"),
    _c("pending_tool", "text", "its tool"),
    _c("pending_effect", "cat", "its effect"),
    _c("cause_index", "int", "position of the event that gave the status its reason, output or error"),
    _c("cause_kind", "cat", "that event's kind"),
    _c("more_steps", "u64!", "model calls that resumes granted", "calls"),
    _c("more_tokens", "u64!", "tokens that resumes granted", "tokens"),
    _c("more_cost_usd", "float!", "cost that resumes granted", "USD"),
    _c("more_wall_time_s", "float!", "time that resumes granted", "s"),
    _c("graph_hash", "text", "graph of a graph run"),
    _c("current_node", "text", "graph node entered last and not yet left"),
    _c("forked_from", "json", "the log a graph run was forked from"),
)

_NODE_PROGRESS = (
    _c("run_id", "text!", "run"),
    _c("node", "text!", "graph node; those no event names are not reached and have no row"),
    _c("order", "int!", "0 for the node the run named first"),
    _c("state", "cat!", "entered, exited or skipped"),
    _c("skip_reason", "text", "why it was skipped"),
    _c("branch_case", "text", "case a branch node chose"),
    _c("is_map", "bool!", "it fanned out or had map iterations"),
    _c("map_items", "json", "items of the last fan-out"),
    _c("map_started", "int!", "map iterations started since"),
    _c("map_joined", "int!", "those that came back"),
    _c("is_fold", "bool!", "it had fold iterations or converged"),
    _c("fold_started", "int!", "fold iterations started"),
    _c("fold_joined", "int!", "those that came back"),
    _c("winner_index", "u64", "winning pass of a fold that converged"),
    _c("converge_reason", "text", "why it converged"),
)

_ITERATION = (
    _c("run_id", "text!", "run"),
    _c("node", "text!", "graph node"),
    _c("loop", "cat!", "map or fold"),
    _c("order", "int!", "0 for the iteration that started first"),
    _c("index", "u64!", "the iteration's own index"),
    _c("joined", "bool!", "it came back"),
    _c("child_run", "text", "run of a map iteration"),
)

_VIOLATION = (
    _c("run_id", "text!", "run"),
    _c("index", "int!", "position in the run's log"),
    _c("seq", "u64", "seq found there"),
    _c("rule", "cat!", "rule that is broken"),
    _c("level", "cat!", "cursor (the replay cursor refuses it too) or guard"),
    _c("cursor_refuses", "bool!", "the replay cursor refuses this log as a whole"),
    _c("message", "text!", "what was found and what was expected"),
    _c("file", "text", "source file"),
    _c("line", "int", "1-based line in it"),
)

DECLARED: Mapping[str, tuple[Column, ...]] = MappingProxyType(
    {
        "runs": _RUN,
        "exchanges": EXCHANGE,
        "steps": _STEP,
        "misses": MISS,
        "moves": _MOVE,
        "field_diffs": _FIELD_DIFF,
        "events": _EVENT,
        "problems": _PROBLEM,
        "violations": _VIOLATION,
        "run_states": _RUN_STATE,
        "node_progress": _NODE_PROGRESS,
        "iterations": _ITERATION,
        "replays": _REPLAY,
        "experiments": _EXPERIMENT,
        "attributions": _ATTRIBUTION,
        "locations": LOCATION,
        "curve": CURVE,
        "plans": PLAN,
        "ledger": LEDGER,
        "pairs": (*_ATTRIBUTION, *PAIR),
        "cards": CARD,
    }
)
"""Columns of every table, by table name."""


def columns(name: str) -> tuple[Column, ...]:
    """Declared columns of table ``name``; ``ParameterError`` if there is no such table."""
    try:
        return DECLARED[name]
    except KeyError:
        raise ParameterError(f"no table is called {name!r}; there are {', '.join(DECLARED)}") from None


def volatile(name: str) -> tuple[str, ...]:
    """Names of the columns of ``name`` that may differ between otherwise identical runs."""
    return tuple(column.name for column in columns(name) if column.volatile)


@functools.cache
def schema(name: str) -> pa.Schema:
    """Arrow schema of table ``name``.

    Field metadata holds ``meaning``, ``unit``, ``format`` (``json``) and ``volatile``.

    Examples
    --------
    >>> from afnb.tables.schemas import schema
    >>> str(schema("moves").field("cost").type)
    'double'
    """
    import pyarrow as pa

    types = {
        "text": pa.large_string(),
        "json": pa.large_string(),
        "cat": pa.dictionary(pa.int32(), pa.large_string()),
        "int": pa.int64(),
        "u32": pa.uint32(),
        "u64": pa.uint64(),
        "time": pa.timestamp("ns", "UTC"),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "bytes": pa.large_binary(),
    }
    fields = []
    for column in columns(name):
        metadata = {"meaning": column.meaning}
        if column.unit:
            metadata["unit"] = column.unit
        if column.type == "json":
            metadata["format"] = "json"
        if column.volatile:
            metadata["volatile"] = "true"
        fields.append(pa.field(column.name, types[column.type], nullable=column.nullable, metadata=metadata))
    about: dict[bytes | str, bytes | str] = {
        "afnb_table": name,
        "afnb_schema_version": SCHEMA_VERSION,
        "pandas": _pandas_types(columns(name)),
    }
    return pa.schema(fields, metadata=about)


def _pandas_types(declared: tuple[Column, ...]) -> str:
    """What makes ``Table.to_pandas()`` keep integers and booleans with gaps, which it else turns into
    floats and objects: the column types in the form that pandas' own tables carry.
    """
    kept = {"u64": ("uint64", "UInt64"), "int": ("int64", "Int64"), "bool": ("bool", "boolean")}
    rows = [
        {
            "name": c.name,
            "field_name": c.name,
            "pandas_type": kept[c.type][0],
            "numpy_type": kept[c.type][1],
            "metadata": None,
        }
        for c in declared
        if c.nullable and c.type in kept
    ]
    return json.dumps({"columns": rows, "index_columns": [], "column_indexes": []})
