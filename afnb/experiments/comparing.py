"""``diff`` as users call it: of recordings that are at hand, or in files."""

from __future__ import annotations

import os

from afnb.align.diff import Diff
from afnb.align.diff import diff as compare
from afnb.align.params import AlignParams
from afnb.core.cassette import Cassette
from afnb.core.eventlog import EventLog
from afnb.core.run import Run
from afnb.errors import ParameterError
from afnb.io.load import load

Comparable = Run | Cassette | EventLog | str | os.PathLike[str]


def diff(
    bad: Comparable,
    good: Comparable,
    params: AlignParams | None = None,
    max_steps: int | None = None,
) -> Diff:
    """Compare a failing run with a good one.

    Parameters
    ----------
    bad, good
        The observed and the reference run: a `Run`, a `Cassette` or `EventLog` whose run is taken, or the
        path of a file that `load` reads.
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
        An argument is none of these, a run is too long, or ``max_steps`` is no positive whole number.
    InputError
        A file cannot be read.

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
    return compare(_loaded(bad, "bad"), _loaded(good, "good"), params, max_steps)


def _loaded(source: Comparable, side: str) -> Run | Cassette | EventLog:
    if isinstance(source, (str, os.PathLike)):
        return load(source)
    if isinstance(source, Run | Cassette | EventLog):
        return source
    raise ParameterError(
        f"{side} is a {type(source).__name__}; expected a path, a Run, a Cassette or an EventLog"
    )
