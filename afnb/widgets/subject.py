"""``Subject``: what an explorer shows. One run or two, their comparison, and whether they can be replayed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from afnb.align.diff import Diff
from afnb.align.params import AlignParams
from afnb.core.cassette import Cassette
from afnb.core.eventlog import EventLog
from afnb.core.run import Run, Step
from afnb.errors import ParameterError
from afnb.experiments.attribution import Attribution
from afnb.experiments.comparing import diff
from afnb.experiments.recordings import Recording, recording_run
from afnb.io.load import load
from afnb.tables.events import event_log


@dataclass(frozen=True, slots=True)
class Subject:
    """The bad run, the good one if there is one, and their recordings where they can be replayed.

    ``known`` is the attribution that was given, if one was. A *row* is a place on the common time line: a
    move of the alignment, or a step of a single run.
    """

    bad_run: Run
    good_run: Run | None = None
    found: Diff | None = None
    bad: Recording | None = None
    good: Recording | None = None
    known: Attribution | None = None

    def __len__(self) -> int:
        return len(self.bad_run) if self.found is None else len(self.found.moves)

    def steps_at(self, row: int) -> tuple[int | None, int | None]:
        """Step of the bad and of the good run at a row."""
        if self.found is None:
            return row, None
        move = self.found.moves[row]
        return move.bad_step, move.good_step

    def bad_step(self, row: int) -> Step | None:
        """The bad run's step at a row."""
        step = self.steps_at(row)[0]
        return None if step is None else self.bad_run.steps[step]

    def good_step(self, row: int) -> Step | None:
        """The good run's step at a row."""
        step = self.steps_at(row)[1]
        return None if step is None or self.good_run is None else self.good_run.steps[step]

    @property
    def fork(self) -> int | None:
        """The row at which the runs part."""
        found = self.found
        return None if found is None or not found.comparable or found.fork is None else found.fork.move

    @property
    def title(self) -> str:
        """The runs by name."""
        return self.bad_run.id if self.good_run is None else f"{self.bad_run.id} against {self.good_run.id}"


def subject_of(x: Any, good: Any = None, params: AlignParams | None = None) -> Subject:
    """What ``afnb.explore`` was given, as a ``Subject``.

    Raises
    ------
    ParameterError
        It is nothing that can be explored, or two good runs were given.

    Examples
    --------
    >>> from afnb.experiments.demo import bundled
    >>> pair = bundled("refund")
    >>> subject = subject_of((pair.bad, pair.good))
    >>> len(subject), subject.fork, subject.steps_at(subject.fork)
    (9, 4, (4, 4))
    """
    if isinstance(x, (tuple, list)):
        if len(x) != 2 or good is not None:
            raise ParameterError(f"explore: a pair is (bad, good); found {len(x)} runs")
        x, good = x
    known = x if isinstance(x, Attribution) else None
    if known is not None:
        x = known.diff
    if isinstance(x, Diff):
        if good is not None:
            raise ParameterError("explore: a diff holds both runs already; give the diff, or bad and good")
        return Subject(x.bad, x.good, x, known=known)
    bad = _source(x, "bad")
    reference = None if good is None else _source(good, "good")
    found = None if reference is None else diff(bad, reference, params)
    return Subject(
        _run(bad),
        None if reference is None else _run(reference),
        found,
        None if isinstance(bad, Run) else bad,
        None if isinstance(reference, Run) else reference,
    )


def _source(x: Any, side: str) -> Run | Recording:
    if isinstance(x, (str, os.PathLike)):
        return load(x)
    if isinstance(x, Run | Cassette | EventLog):
        return x
    if type(x).__module__.startswith("pyarrow"):
        return event_log(x)
    raise ParameterError(
        f"explore: {side} is a {type(x).__name__}; expected a recording, a run, a path, a pair (bad, good), "
        "a diff or an attribution"
    )


def _run(source: Run | Recording) -> Run:
    return source if isinstance(source, Run) else recording_run(source)
