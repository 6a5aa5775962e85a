"""``derive_graph_projection``: where a graph run is, and what each node it reached has done.

Only recorded markers count. A node that no event names is absent (not reached yet), which is not the
same as skipped; which way a branch went is what ``BranchTaken`` says, never a guess. The fold takes
one step an event, whatever the number of nodes and iterations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from afnb.core import events as ev
from afnb.core.jsonvalue import Json

NodeState = Literal["entered", "exited", "skipped"]


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration of a map or fold node; ``child_run`` is None for a fold, which has no child runs."""

    index: int
    joined: bool
    child_run: str | None = None


@dataclass(frozen=True, slots=True)
class MapProgress:
    """How far a map node is: its items as recorded, its iterations in the order they started."""

    items: Json
    iterations: tuple[Iteration, ...] = ()


@dataclass(frozen=True, slots=True)
class FoldProgress:
    """How far a fold node is; ``winner_index`` and ``reason`` are None until it converged."""

    iterations: tuple[Iteration, ...] = ()
    winner_index: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """One reached node: its state, the skip's reason, the branch case, map and fold progress."""

    node: str
    state: NodeState = "entered"
    skip_reason: str | None = None
    branch_case: str | None = None
    map: MapProgress | None = None
    fold: FoldProgress | None = None


@dataclass(frozen=True, slots=True)
class GraphProjection:
    """A graph run as its log tells it; an agent run has no hash and no nodes.

    ``nodes`` are in the order they were first named; ``current_node`` is the node entered last, until
    it exits.
    """

    graph_hash: str | None = None
    forked_from: ev.ForkOrigin | None = None
    nodes: tuple[NodeProgress, ...] = ()
    current_node: str | None = None

    def node(self, name: str) -> NodeProgress | None:
        """The progress of one node, or None where the run has not reached it."""
        return next((n for n in self.nodes if n.node == name), None)


@dataclass(slots=True)
class _Loop:
    """Iterations while they are gathered; ``first`` finds the first of an index without a search."""

    items: Json = None
    started: list[tuple[int, str | None]] = field(default_factory=list)
    joined: set[int] = field(default_factory=set)
    first: dict[int, int] = field(default_factory=dict)
    converged: ev.FoldConverged | None = None

    def start(self, index: int, child_run: str | None = None) -> None:
        self.first.setdefault(index, len(self.started))
        self.started.append((index, child_run))

    def join(self, index: int) -> None:
        if index in self.first:
            self.joined.add(self.first[index])

    def iterations(self) -> tuple[Iteration, ...]:
        return tuple(Iteration(i, n in self.joined, child) for n, (i, child) in enumerate(self.started))

    def as_map(self) -> MapProgress:
        return MapProgress(self.items, self.iterations())

    def as_fold(self) -> FoldProgress:
        won = self.converged
        if won is None:
            return FoldProgress(self.iterations())
        return FoldProgress(self.iterations(), won.winner_index, won.reason)


@dataclass(slots=True)
class _Node:
    state: NodeState = "entered"
    skip_reason: str | None = None
    branch_case: str | None = None
    map: _Loop | None = None
    fold: _Loop | None = None

    def map_loop(self) -> _Loop:
        self.map = self.map or _Loop()
        return self.map

    def fold_loop(self) -> _Loop:
        self.fold = self.fold or _Loop()
        return self.fold

    def progress(self, name: str) -> NodeProgress:
        return NodeProgress(
            name,
            self.state,
            self.skip_reason,
            self.branch_case,
            None if self.map is None else self.map.as_map(),
            None if self.fold is None else self.fold.as_fold(),
        )


def derive_graph_projection(log: Iterable[ev.Envelope]) -> GraphProjection:
    """Fold a log, or any prefix of one, to the progress of its graph's nodes.

    Never fails: a marker out of order counts for what it says, a join without a start for nothing.

    Examples
    --------
    >>> from afnb.core.events import BranchTaken, Envelope, GraphRunStarted, NodeEntered
    >>> from afnb.core.instants import Instant
    >>> events = [GraphRunStarted("g", None), NodeEntered("route"), BranchTaken("route", "yes")]
    >>> p = derive_graph_projection([Envelope("r", i, Instant(0), e) for i, e in enumerate(events)])
    >>> p.current_node, p.node("route").branch_case, p.node("other")
    ('route', 'yes', None)
    """
    graph_hash: str | None = None
    forked_from: ev.ForkOrigin | None = None
    current: str | None = None
    nodes: dict[str, _Node] = {}
    for envelope in log:
        event: Any = envelope.event
        if isinstance(event, ev.GraphRunStarted):
            graph_hash, forked_from = event.graph_hash, event.forked_from
            continue
        name = getattr(event, "node", None)
        if name is None:
            continue
        node = nodes.setdefault(name, _Node())
        match event:
            case ev.NodeEntered():
                node.state, node.skip_reason, current = "entered", None, name
            case ev.NodeExited():
                node.state, node.skip_reason = "exited", None
                current = None if current == name else current
            case ev.NodeSkipped():
                node.state, node.skip_reason = "skipped", event.reason
            case ev.BranchTaken():
                node.branch_case = event.case
            case ev.MapFannedOut():
                node.map = _Loop(items=event.items)
            case ev.MapIterationStarted():
                node.map_loop().start(event.index, event.child_run)
            case ev.MapIterationJoined():
                node.map_loop().join(event.index)
            case ev.FoldIterationStarted():
                node.fold_loop().start(event.index)
            case ev.FoldIterationJoined():
                node.fold_loop().join(event.index)
            case ev.FoldConverged():
                node.fold_loop().converged = event
    return GraphProjection(graph_hash, forked_from, tuple(n.progress(k) for k, n in nodes.items()), current)
