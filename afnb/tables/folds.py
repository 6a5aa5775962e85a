"""The folds of ``core.state`` and ``core.budgets`` over all runs of a table at once.

What a fold keeps of a run is a matter of its last (or first, or each) event of some kinds, so it is a
few maxima and sums over the rows of each run. Payloads are read only where a value stands nowhere
else: the grants of resumed budgets, the head of a graph run, clock readings beyond Arrow's times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from afnb.core import events as ev
from afnb.core.budgets import BudgetExtensions
from afnb.core.instants import Instant
from afnb.core.jsonvalue import Json, dumps, loads
from afnb.core.state import STATUSES
from afnb.tables.build import from_columns
from afnb.tables.columns import AnyArray, Bools, Groups, Ints, codes, group, numbers, texts
from afnb.tables.rules import IS_COMPLETION, IS_INTENT, KIND_CODE, KINDS, WRITE
from afnb.tables.validate import EventRows

if TYPE_CHECKING:
    import pyarrow as pa

_NONE = -1
_CALL_STATUS = {"ModelCallRequested": "awaiting_model", "ToolCallRequested": "awaiting_tool"}
_RUNNING = ("RunStarted", "GraphRunStarted", "Resumed", "ModelCallCompleted", "ToolCallCompleted")
_CAUSES = {
    "Suspended": "suspended",
    "BudgetExceeded": "budget_exceeded",
    "RunCompleted": "completed",
    "RunFailed": "failed",
    "RunAbandoned": "abandoned",
}
_STATUS_OF_KIND = np.full(256, _NONE, np.int8)
for _name, _means in {**dict.fromkeys(_RUNNING, "running"), **_CALL_STATUS, **_CAUSES}.items():
    _STATUS_OF_KIND[KIND_CODE[_name]] = STATUSES.index(_means)
_IS_CAUSE = np.zeros(256, np.bool_)
_IS_CAUSE[[KIND_CODE[_name] for _name in _CAUSES]] = True


@dataclass(frozen=True, slots=True)
class Grouped:
    """A table's rows run by run: ``kind`` and the other columns are in that order."""

    events: pa.Table
    rows: EventRows
    groups: Groups
    kind: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, events: pa.Table) -> Grouped:
        """The rows of a table of events, run by run."""
        rows = EventRows.of(events)
        groups = group(rows.runs.codes)
        return cls(events, rows, groups, groups.take(rows.facts.kind))

    def is_kind(self, *names: str) -> Bools:
        """Which rows are of one of these kinds."""
        wanted = np.zeros(256, np.bool_)
        wanted[[KIND_CODE[name] for name in names]] = True
        return wanted[self.kind]

    def last(self, where: Bools) -> Ints:
        """The last place of each run at which ``where`` holds, or -1."""
        return self._extreme(where, np.maximum, _NONE)

    def first(self, where: Bools) -> Ints:
        """The first place of each run at which ``where`` holds, or -1."""
        found = self._extreme(where, np.minimum, self.groups.rows)
        return np.where(found == self.groups.rows, _NONE, found)

    def _extreme(self, where: Bools, best: np.ufunc, otherwise: int) -> Ints:
        places = np.where(where, np.arange(self.groups.rows), otherwise)
        found: Ints = best.reduceat(places, self.groups.starts) if len(places) else places
        return found

    def total(self, values: AnyArray) -> AnyArray:
        """The sum of each run's values, which are in the runs' order."""
        found: AnyArray = np.add.reduceat(values, self.groups.starts) if len(values) else values
        return found

    def table_rows(self, places: AnyArray) -> AnyArray:
        """The table's rows at places of the order."""
        return places if self.groups.order is None else self.groups.order[places]

    def payloads(self, places: AnyArray) -> list[str]:
        """The payloads at places of the order."""
        return [text or "null" for text in texts(self.events, "payload", self.table_rows(places))]


_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def raw_fields(payload: str) -> Mapping[str, str]:
    """The fields of a payload as the texts they are written as."""
    try:
        return {name: bytes(raw).decode("utf-8") for name, raw in _FIELDS.decode(payload).items()}
    except (msgspec.MsgspecError, RecursionError):
        return {name: dumps(value) for name, value in loads(payload).items()}


def field(payload: str, name: str) -> Json:
    """One field of a payload, None where it is not there."""
    text = raw_fields(payload).get(name)
    return None if text is None else loads(text)


def run_states(events: pa.Table) -> pa.Table:
    """What the log of every run says of it: status, tokens, the open call, budgets, graph.

    Parameters
    ----------
    events
        A table as `read_events` gives it, runs whole or not, well formed or not.

    Returns
    -------
    pyarrow.Table
        The declared table ``run_states``, one row a run, in the order in which runs first appear;
        each row is what ``derive_state``, ``budget_observations`` and ``budget_extensions`` say of
        that run's log.

    Raises
    ------
    ParameterError
        It is no table of events.

    Examples
    --------
    >>> from afnb.core.events import Envelope, ModelCallRequested, RunStarted
    >>> from afnb.core.eventlog import EventLog
    >>> from afnb.core.instants import Instant
    >>> from afnb.tables.events import events_table
    >>> events = [RunStarted("h", None), ModelCallRequested(1, "r")]
    >>> run = "00000000-0000-4000-8000-000000000001"
    >>> log = EventLog.from_envelopes(Envelope(run, i, Instant(i), e) for i, e in enumerate(events))
    >>> run_states(events_table(log)).select(["status", "next_seq", "pending_index"]).to_pylist()
    [{'status': 'awaiting_model', 'next_seq': 2, 'pending_index': 1}]
    """
    table = Grouped.of(events)
    runs = table.rows.runs
    data: dict[str, list[Any]] = {
        "run_id": [runs.text(row) for row in table.groups.first_rows().tolist()],
        "events": table.groups.sizes.tolist(),
        **_status(table),
        **_usage(table),
        **_pending(table),
        **_elapsed(table),
        **_granted(table),
        **_graph(table),
    }
    return from_columns("run_states", data)


def _status(table: Grouped) -> dict[str, list[Any]]:
    status = _STATUS_OF_KIND[table.kind]
    effect = table.groups.take(table.rows.facts.effect)
    status[table.is_kind("ToolCallRequested") & (effect == WRITE)] = STATUSES.index("needs_reconciliation")
    last = table.last(status != _NONE)
    found = np.where(last < 0, STATUSES.index("not_started"), status[last]) if len(last) else last
    is_cause = (last >= 0) & _IS_CAUSE[table.kind[last]] if len(last) else last.astype(np.bool_)
    ends = table.groups.starts + table.groups.sizes - 1
    seqs = table.rows.facts.seq[table.table_rows(ends)].tolist()
    return {
        "status": [STATUSES[code] for code in found.tolist()],
        "next_seq": [None if seq == ev.U64_MAX else seq + 1 for seq in seqs],
        "cause_index": _indices(table, np.where(is_cause, last, _NONE)),
        "cause_kind": _kinds(table, np.where(is_cause, last, _NONE)),
    }


def _indices(table: Grouped, places: Ints) -> list[int | None]:
    pairs = zip(places.tolist(), table.groups.starts.tolist(), strict=True)
    return [None if place < 0 else place - start for place, start in pairs]


def _kinds(table: Grouped, places: Ints) -> list[str | None]:
    return [None if place < 0 else KINDS[table.kind[place]] for place in places.tolist()]


def _usage(table: Grouped) -> dict[str, list[Any]]:
    """Sums of 32-bit counts, which no table is long enough to carry past 64 bits."""
    answered = table.is_kind("ModelCallCompleted")
    found: dict[str, list[Any]] = {"model_calls": table.total(answered.astype(np.int64)).tolist()}
    for name in ("input_tokens", "output_tokens"):
        counts = table.groups.take(numbers(table.events, name, np.uint64).values)
        found[name] = table.total(np.where(answered, counts, np.uint64(0))).tolist()
    return found


def _pending(table: Grouped) -> dict[str, list[Any]]:
    last = table.last(IS_INTENT[table.kind] | IS_COMPLETION[table.kind])
    is_open = (last >= 0) & IS_INTENT[table.kind[last]] if len(last) else last.astype(np.bool_)
    last = np.where(is_open, last, _NONE)
    rows = [None if place < 0 else table.groups.row(place) for place in last.tolist()]
    seen = [None if row is None else table.rows.seen(row) for row in rows]
    return {
        "pending_index": _indices(table, last),
        "pending_kind": _kinds(table, last),
        "pending_seq": [None if s is None else s.corr for s in seen],
        "pending_tool": [None if s is None else s.tool for s in seen],
        "pending_effect": [None if s is None else s.effect for s in seen],
    }


def _elapsed(table: Grouped) -> dict[str, list[Any]]:
    looked = table.is_kind("NowObserved")
    first, last = table.first(looked), table.last(looked)
    now = numbers(table.events, "now_ns", np.int64)
    ends = [
        np.where(looked_at < 0, 0, table.table_rows(np.maximum(looked_at, 0))) for looked_at in (first, last)
    ]
    if not len(first):
        return {"elapsed_s": []}
    start, end = (now.values[rows] for rows in ends)
    sure = (first < 0) | (now.there[ends[0]] & now.there[ends[1]])
    # The distance of two signed 64-bit times fits in 64 bits without a sign.
    late = end >= start
    span = np.where(
        late, end.view(np.uint64) - start.view(np.uint64), start.view(np.uint64) - end.view(np.uint64)
    )
    seconds = (span // 10**9).astype(np.float64) + (span % 10**9).astype(np.float64) / 1e9
    elapsed = np.where(first < 0, 0.0, np.where(late, seconds, -seconds))
    for run in np.flatnonzero(~sure).tolist():
        a, b = table.payloads(np.array([first[run], last[run]]))
        elapsed[run] = _seconds(Instant.parse(field(b, "now")).ns - Instant.parse(field(a, "now")).ns)
    return {"elapsed_s": elapsed.tolist()}


def _seconds(span_ns: int) -> float:
    whole, rest = divmod(abs(span_ns), 10**9)
    length = float(whole) + rest / 1e9
    return -length if span_ns < 0 else length


def _granted(table: Grouped) -> dict[str, list[Any]]:
    """Grants of the resumes that directly follow a crossing."""
    resumed = table.is_kind("Resumed")
    resumed[1:] &= table.is_kind("BudgetExceeded")[:-1]
    resumed[table.groups.starts] = False
    places = np.flatnonzero(resumed)
    owners = np.searchsorted(table.groups.starts, places, side="right") - 1
    granted: dict[int, BudgetExtensions] = {}
    for run, payload in zip(owners.tolist(), table.payloads(places), strict=True):
        granted[run] = granted.get(run, BudgetExtensions()).plus(field(payload, "input"))
    found = [granted.get(run, BudgetExtensions()) for run in range(len(table.groups))]
    return {
        "more_steps": [one.steps for one in found],
        "more_tokens": [one.tokens for one in found],
        "more_cost_usd": [one.cost_usd for one in found],
        "more_wall_time_s": [one.wall_time_seconds for one in found],
    }


def _graph(table: Grouped) -> dict[str, list[Any]]:
    heads = table.last(table.is_kind("GraphRunStarted"))
    runs = np.flatnonzero(heads >= 0)
    fields = {
        run: raw_fields(payload)
        for run, payload in zip(runs.tolist(), table.payloads(heads[runs]), strict=True)
    }
    forks = [fields.get(run, {}).get("forked_from") for run in range(len(table.groups))]
    return {
        "graph_hash": [
            loads(fields[run]["graph_hash"]) if run in fields else None for run in range(len(table.groups))
        ],
        "forked_from": [None if fork == "null" else fork for fork in forks],
        "current_node": _current(table),
    }


def _current(table: Grouped) -> list[str | None]:
    """The node entered last, unless it was left after that."""
    nodes = codes(table.events, "node")
    ordered = table.groups.take(nodes.codes)
    entered = table.last(table.is_kind("NodeEntered"))
    mine = np.where(entered < 0, _NONE, ordered[np.maximum(entered, 0)]) if len(entered) else entered
    of_rows = table.groups.of_rows
    left = table.is_kind("NodeExited")
    left &= (ordered == mine[of_rows]) & (np.arange(table.groups.rows) > entered[of_rows])
    still = (entered >= 0) & (table.last(left) < 0)
    return [
        nodes.words[code] if there else None
        for code, there in zip(mine.tolist(), still.tolist(), strict=True)
    ]
