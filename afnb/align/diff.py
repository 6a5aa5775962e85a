"""``diff``: two runs in, one ``Diff`` out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from afnb import __version__
from afnb.align.aligning import align
from afnb.align.comparable import incomparable
from afnb.align.deltas import Delta, Deltas, deltas
from afnb.align.diff_page import diff_page
from afnb.align.fields import FieldDiff, field_diffs
from afnb.align.fork import Fork, find_fork, observed_step
from afnb.align.moves import Move
from afnb.align.params import AlignParams
from afnb.core.cassette import Cassette
from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import MISSING, dumps
from afnb.core.logsteps import run_from_log
from afnb.core.page import Page, Shown
from afnb.core.run import Run, Warn
from afnb.core.steps import run_from_cassette
from afnb.errors import ParameterError

SCHEMA_VERSION = "1"


@dataclass(frozen=True, repr=False)
class Diff(Shown):
    """Where two runs part, and what differs between their aligned steps.

    Parameters
    ----------
    bad, good
        The observed and the reference run.
    params
        What the alignment and the fork rule used.
    moves
        The alignment in run order; every step of both runs once.
    fork
        Where the bad run leaves the good one for good; None if it never does.
    field_diffs
        Fields that differ inside aligned steps.
    deltas
        Time and tokens, bad minus good; None where the runs say nothing of either.
    warnings
        What the loaders could not use, each saying which run.
    """

    bad: Run
    good: Run
    params: AlignParams
    moves: tuple[Move, ...]
    fork: Fork | None
    field_diffs: tuple[FieldDiff, ...] = ()
    deltas: Deltas | None = None
    warnings: tuple[Warn, ...] = ()

    comparable: ClassVar[bool] = True
    """Whether the two runs have anything in common."""

    reason: str | None = field(default=None, init=False)
    """Why they are not comparable; None for a plain diff."""

    @property
    def converged(self) -> bool:
        """Whether the bad run follows the good one to its end."""
        return self.comparable and self.fork is None

    @cached_property
    def fork_step_observed(self) -> int | None:
        """The step of the bad run at which the fork is seen; None without a fork.

        Where the fork is a step that only the good run has, it is the first step the bad run has not
        taken by then, at most its last.
        """
        return observed_step(self.moves, self.fork, len(self.bad))

    @property
    def origin(self) -> int | None:
        """Where a static reading puts the cause: the fork's observed step. Nothing has been verified."""
        return self.fork_step_observed

    @property
    def propagation(self) -> tuple[int, ...]:
        """Steps of the bad run after ``origin``."""
        origin = self.origin
        return () if origin is None else tuple(range(origin + 1, len(self.bad)))

    def at_fork(self) -> tuple[FieldDiff, ...]:
        """The field diffs of the move at the fork."""
        return () if self.fork is None else tuple(d for d in self.field_diffs if d.move == self.fork.move)

    def move_rows(self) -> list[dict[str, Any]]:
        """Rows of the ``moves`` table: move, kind, bad_step, good_step, cost, confidence, in_sync."""
        return [
            {
                "move": index,
                "kind": move.kind,
                "bad_step": move.bad_step,
                "good_step": move.good_step,
                "cost": move.cost,
                "confidence": move.confidence,
                "in_sync": move.in_sync(self.params.tau),
            }
            for index, move in enumerate(self.moves)
        ]

    def field_diff_rows(self) -> list[dict[str, Any]]:
        """Rows of the ``field_diffs`` table: move, path, kind, good_value, bad_value."""
        return [
            {"move": d.move, "path": d.path, "kind": d.kind, "good_value": d.good, "bad_value": d.bad}
            for d in self.field_diffs
        ]

    def page(self) -> Page:
        """The card."""
        return diff_page(self)

    def to_json(self) -> dict[str, Any]:
        """The machine form, versioned; keys whose value is absent are left out."""
        fork = self.fork
        return {
            "afnb": "diff",
            "schema_version": SCHEMA_VERSION,
            "afnb_version": __version__,
            "comparable": self.comparable,
            "reason": self.reason,
            "converged": self.converged,
            "params": {
                name: getattr(self.params, name) for name in ("gap_open", "gap_ext", "tau", "resync_k")
            },
            "bad": _run_json(self.bad),
            "good": _run_json(self.good),
            "fork": None
            if fork is None
            else {
                "move": fork.move,
                "bad_step": fork.bad_step,
                "good_step": fork.good_step,
                "observed_step": self.fork_step_observed,
                "confidence": fork.confidence,
            },
            "origin": self.origin,
            "propagation": list(self.propagation),
            "moves": self.move_rows(),
            "field_diffs": [
                {key: value for key, value in row.items() if value is not MISSING}
                for row in self.field_diff_rows()
            ],
            "deltas": None
            if self.deltas is None
            else {"total": _delta_json(self.deltas.total), "at_fork": _delta_json(self.deltas.at_fork)},
            "warnings": [{"code": warn.code, "message": warn.message} for warn in self.warnings],
        }


@dataclass(frozen=True, repr=False)
class NotComparable(Diff):
    """A diff of two runs that have nothing in common; ``reason`` says why that is thought.

    Moves, fork and deltas are those a comparison would give; between such runs they mean nothing.

    Examples
    --------
    >>> from afnb.core.run import Step
    >>> def run(name, *texts):
    ...     return Run(name, tuple(Step(i, "llm", "llm", outputs=text) for i, text in enumerate(texts)))
    >>> trip = run("trip", "book trains from Lisbon towards Porto", "reserve hotel rooms near river")
    >>> game = run("game", "white moves knight, black castles queenside", "stalemate offered, draw agreed")
    >>> found = diff(game, trip)
    >>> found.comparable, found.fork is None
    (False, False)
    """

    comparable: ClassVar[bool] = False
    reason: str = "the two runs have nothing in common"


def diff(
    bad: Run | Cassette | EventLog,
    good: Run | Cassette | EventLog,
    params: AlignParams | None = None,
    max_steps: int | None = None,
) -> Diff:
    """Compare a failing run with a good one.

    Parameters
    ----------
    bad, good
        The observed and the reference run: a `Run`, or a `Cassette` or `EventLog` whose run is taken.
    params
        Gap costs, threshold and recovery window; the defaults if None.
    max_steps
        Refuse a run with more steps. Without it, refuse what would take more than 2 GiB of memory.

    Returns
    -------
    Diff
        Moves, fork, field diffs and deltas. A `NotComparable` where the runs share nothing.

    Raises
    ------
    ParameterError
        An argument is neither, a run is too long, or ``max_steps`` is no positive whole number.

    Examples
    --------
    >>> from afnb.core.run import Step
    >>> def run(name, *texts):
    ...     return Run(name, tuple(Step(i, "llm", "act", outputs=text) for i, text in enumerate(texts)))
    >>> good = run("good", "look up the order", "window is 30 days", "refund issued")
    >>> bad = run("bad", "look up the order", "no policy was found anywhere", "sorry, declined")
    >>> found = diff(bad, good)
    >>> found.fork_step_observed, found.converged, diff(good, good).converged
    (1, False, True)
    """
    bad_run, good_run = _run(bad, "bad"), _run(good, "good")
    params = AlignParams() if params is None else params
    if not isinstance(params, AlignParams):
        raise ParameterError(f"params is a {type(params).__name__}; expected AlignParams(...)")
    moves = align(good_run.steps, bad_run.steps, params, max_steps)
    fork = find_fork(moves, params)
    warnings = tuple(
        Warn(warn.code, f"{side} run: {warn.message}")
        for side, run in (("good", good_run), ("bad", bad_run))
        for warn in run.warnings
    )
    reason = incomparable(good_run, bad_run, moves, params.tau)
    found = (
        bad_run,
        good_run,
        params,
        moves,
        fork,
        field_diffs(good_run.steps, bad_run.steps, moves),
        deltas(good_run.steps, bad_run.steps, fork),
        warnings,
    )
    return Diff(*found) if reason is None else NotComparable(*found, reason=reason)


def _run(source: Run | Cassette | EventLog, side: str) -> Run:
    if isinstance(source, Run):
        return source
    if isinstance(source, Cassette):
        return run_from_cassette(source)
    if isinstance(source, EventLog):
        return run_from_log(source)
    raise ParameterError(
        f"{side} is a {type(source).__name__}; expected a Run, Cassette or EventLog, e.g. afnb.load(path)"
    )


def run_digest(run: Run) -> str:
    """32 hexadecimal digits of what a comparison reads: kinds, names, inputs and outputs in order."""
    digest = hashlib.blake2b(digest_size=16)
    for step in run.steps:
        content = [
            [step.kind, step.name],
            *([] if value is MISSING else [value] for value in (step.inputs, step.outputs)),
        ]
        digest.update(dumps(content).encode("utf-8"))
        digest.update(b"\n")
    return digest.hexdigest()


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "task": run.task,
        "outcome": run.outcome,
        "steps": len(run),
        "digest": run_digest(run),
        "source": run.source,
    }


def _delta_json(delta: Delta | None) -> dict[str, int | None] | None:
    return None if delta is None else {"latency_ms": delta.latency_ms, "tokens": delta.tokens}
