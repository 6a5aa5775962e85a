"""The graph fold of ``core.graph`` over all runs of a table at once.

Rows are grouped by run and node; what a node has done is a matter of the last of its markers of each
kind, and of which iterations started and came back since its last fan-out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from afnb.core.jsonvalue import loads
from afnb.tables.build import from_columns
from afnb.tables.columns import Bools, Codes, Ints, codes, numbers
from afnb.tables.folds import Grouped, field, raw_fields

if TYPE_CHECKING:
    import pyarrow as pa

_STATES = {"NodeEntered": "entered", "NodeExited": "exited", "NodeSkipped": "skipped"}


def node_progress(events: pa.Table) -> pa.Table:
    """What every node of every graph run has done.

    Parameters
    ----------
    events
        A table as `read_events` gives it, runs whole or not, well formed or not.

    Returns
    -------
    pyarrow.Table
        The declared table ``node_progress``: one row a run and node that the run names, as
        ``derive_graph_projection`` says of that run's log. A node that nothing names has no row.

    Raises
    ------
    ParameterError
        It is no table of events.

    Examples
    --------
    >>> from afnb.core.events import BranchTaken, Envelope, GraphRunStarted, NodeEntered
    >>> from afnb.core.eventlog import EventLog
    >>> from afnb.core.instants import Instant
    >>> from afnb.tables.events import events_table
    >>> events = [GraphRunStarted("g", None), NodeEntered("route"), BranchTaken("route", "yes")]
    >>> run = "00000000-0000-4000-8000-000000000001"
    >>> log = EventLog.from_envelopes(Envelope(run, i, Instant(i), e) for i, e in enumerate(events))
    >>> node_progress(events_table(log)).select(["node", "state", "branch_case"]).to_pylist()
    [{'node': 'route', 'state': 'entered', 'branch_case': 'yes'}]
    """
    nodes = _Nodes.of(Grouped.of(events))
    count = len(nodes.first)
    skipped = nodes.last("NodeSkipped")
    state_at = nodes.last(*_STATES)
    states = ["entered" if p < 0 else _STATES[nodes.kind_at(p)] for p in state_at.tolist()]
    is_skipped = [
        place if state == "skipped" else -1 for place, state in zip(skipped.tolist(), states, strict=True)
    ]
    converged = nodes.last("FoldConverged")
    fan_out = nodes.last("MapFannedOut")
    data: dict[str, list[Any]] = {
        "run_id": [nodes.run_of(n) for n in range(count)],
        "node": [nodes.name_of(n) for n in range(count)],
        "order": nodes.order_in_run().tolist(),
        "state": states,
        "skip_reason": nodes.values(np.array(is_skipped, np.int64), "reason"),
        "branch_case": nodes.values(nodes.last("BranchTaken"), "case"),
        "is_map": (nodes.last("MapFannedOut", "MapIterationStarted", "MapIterationJoined") >= 0).tolist(),
        "map_items": nodes.raw(fan_out, "items"),
        "is_fold": (nodes.last("FoldIterationStarted", "FoldIterationJoined", "FoldConverged") >= 0).tolist(),
        "winner_index": [None if p < 0 else int(nodes.index[p]) for p in converged.tolist()],
        "converge_reason": nodes.values(converged, "reason"),
    }
    for loop in ("map", "fold"):
        found = nodes.loops(loop)
        data[f"{loop}_started"] = np.bincount(nodes.node[found.start], minlength=count).tolist()
        data[f"{loop}_joined"] = np.bincount(nodes.node[found.start[found.joined]], minlength=count).tolist()
    return from_columns("node_progress", data)


def iterations(events: pa.Table) -> pa.Table:
    """Every iteration of the map and fold nodes of every run, in the order in which they started.

    Parameters
    ----------
    events
        A table as `read_events` gives it.

    Returns
    -------
    pyarrow.Table
        The declared table ``iterations``; those of a map count from its last fan-out.

    Raises
    ------
    ParameterError
        It is no table of events.

    Examples
    --------
    >>> from afnb.tables.events import events_table
    >>> iterations(events_table([])).num_rows
    0
    """
    nodes = _Nodes.of(Grouped.of(events))
    data: dict[str, list[Any]] = {
        name: [] for name in ("run_id", "node", "loop", "order", "index", "joined", "child_run")
    }
    found = [(loop, nodes.loops(loop)) for loop in ("map", "fold")]
    places = [
        (int(nodes.node[p]), loop == "fold", p, joined, loop)
        for loop, one in found
        for p, joined in zip(one.start.tolist(), one.joined.tolist(), strict=True)
    ]
    order, before = 0, (-1, False)
    for node, is_fold, place, joined, loop in sorted(places):
        order = order + 1 if (node, is_fold) == before else 0
        before = (node, is_fold)
        row = (nodes.run_of(node), nodes.name_of(node), loop, order, int(nodes.index[place]), joined)
        for name, value in zip(data, row, strict=False):
            data[name].append(value)
        data["child_run"].append(None if is_fold else field(nodes.payload(place), "child_run"))
    return from_columns("iterations", data)


@dataclass(frozen=True, slots=True)
class _Loops:
    """Iterations of the loops of one kind: the place of each start, and whether it came back."""

    start: Ints
    joined: Bools


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The rows that name a node; ``place`` is where they stand in the runs' order, ``node`` numbers
    the nodes of all runs in the order in which they are first named, ``first`` is each one's first row.
    """

    table: Grouped
    names: Codes
    place: Ints
    kind: npt.NDArray[np.uint8]
    node: Ints
    index: npt.NDArray[np.uint64]
    first: Ints

    @classmethod
    def of(cls, table: Grouped) -> _Nodes:
        names = codes(table.events, "node")
        ordered = table.groups.take(names.codes)
        place = np.flatnonzero(ordered >= 0)
        run = table.groups.of_rows[place]
        key = run * max(1, len(names.words)) + ordered[place]
        _, first, node = np.unique(key, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first, kind="stable"), kind="stable")
        index = table.groups.take(numbers(table.events, "index", np.uint64).values)[place]
        return cls(table, names, place, table.kind[place], rank[node], index, np.sort(first))

    def run_of(self, node: int) -> str:
        row = self.table.groups.row(int(self.place[self.first[node]]))
        return self.table.rows.runs.text(row) or ""

    def name_of(self, node: int) -> str:
        row = self.table.groups.row(int(self.place[self.first[node]]))
        return self.names.text(row) or ""

    def order_in_run(self) -> Ints:
        run = self.table.groups.of_rows[self.place[self.first]]
        if not len(run):
            return run
        begins = np.concatenate(([True], run[1:] != run[:-1]))
        at: Ints = np.arange(len(run))
        return at - np.maximum.accumulate(np.where(begins, at, 0))

    def is_kind(self, *kinds: str) -> Bools:
        return self.table.is_kind(*kinds)[self.place]

    def kind_at(self, at: int) -> str:
        return self.table.rows.kinds.text(self.table.groups.row(int(self.place[at]))) or ""

    def last(self, *kinds: str) -> Ints:
        """By node, the last of these rows that is of one of the kinds, or -1."""
        return self._last(np.flatnonzero(self.is_kind(*kinds)))

    def _last(self, at: Ints) -> Ints:
        found = np.full(len(self.first), -1, np.int64)
        np.maximum.at(found, self.node[at], at)
        return found

    def payload(self, at: int) -> str:
        return self.table.payloads(self.place[[at]])[0]

    def raw(self, at: Ints, name: str) -> list[str | None]:
        """A field's text of the rows' payloads, None for -1."""
        wanted = at[at >= 0]
        payloads = iter(self.table.payloads(self.place[wanted]))
        return [None if a < 0 else raw_fields(next(payloads)).get(name) for a in at.tolist()]

    def values(self, at: Ints, name: str) -> list[Any]:
        """A field's value of the rows' payloads, None for -1."""
        return [None if text is None else loads(text) for text in self.raw(at, name)]

    def loops(self, loop: str) -> _Loops:
        """Iterations of map or fold nodes. A join counts for the first start of its index before it."""
        title = loop.title()
        started = self.is_kind(f"{title}IterationStarted")
        joins = self.is_kind(f"{title}IterationJoined")
        if loop == "map":
            since = np.arange(len(self.node)) > self.last("MapFannedOut")[self.node]
            started, joins = started & since, joins & since
        rows = np.flatnonzero(started | joins)
        rows = rows[np.lexsort((rows, self.index[rows], self.node[rows]))]
        start: Ints = np.flatnonzero(started)
        joined = np.zeros(len(self.node), np.bool_)
        if len(rows):
            same = (self.node[rows][1:] == self.node[rows][:-1]) & (
                self.index[rows][1:] == self.index[rows][:-1]
            )
            begins = np.concatenate(([0], np.flatnonzero(~same) + 1))
            none = len(self.node)
            first_start = np.minimum.reduceat(np.where(started[rows], rows, none), begins)
            last_join = np.maximum.reduceat(np.where(joins[rows], rows, -1), begins)
            joined[first_start[last_join > first_start]] = True
        return _Loops(start, joined[start])
