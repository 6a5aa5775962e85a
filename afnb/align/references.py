"""One bad run against several good ones: where most of them say it parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from afnb.align.diff import Diff, diff
from afnb.align.params import AlignParams
from afnb.core.cassette import Cassette
from afnb.core.run import Run


@dataclass(frozen=True, slots=True)
class ModalFork:
    """What several references say about one run.

    Parameters
    ----------
    votes
        One per reference: the observed fork step, None where that reference found no fork.
    diffs
        The diffs behind the votes, in the same order.
    """

    votes: tuple[int | None, ...]
    diffs: tuple[Diff, ...] = ()

    @property
    def step(self) -> int | None:
        """The step most references name, the lowest among equals; None if none of them forked."""
        counts = Counter(vote for vote in self.votes if vote is not None)
        return min(counts, key=lambda step: (-counts[step], step), default=None)

    @property
    def support(self) -> int:
        """How many references name ``step``."""
        return 0 if self.step is None else self.votes.count(self.step)

    @property
    def references(self) -> int:
        """How many references were asked."""
        return len(self.votes)

    @property
    def forked(self) -> int:
        """How many of them found a fork."""
        return sum(vote is not None for vote in self.votes)

    @property
    def agreement(self) -> float | None:
        """Share of the forked references that name ``step``; None if none forked."""
        return self.support / self.forked if self.forked else None


def modal_fork(
    bad: Run | Cassette,
    goods: Sequence[Run | Cassette],
    params: AlignParams | None = None,
    max_steps: int | None = None,
) -> ModalFork:
    """Compare one run with each of several good ones and count where they part.

    One good run may be a lucky sample; the step that most of them name is not.

    Raises
    ------
    ParameterError
        As `diff` does, for the first reference that cannot be compared.

    Examples
    --------
    >>> from afnb.core.run import Step
    >>> def run(*texts):
    ...     return Run("r", tuple(Step(i, "llm", "act", outputs=text) for i, text in enumerate(texts)))
    >>> goods = [run("plan", "ask"), run("plan", "ask again"), run("plan", "guess")]
    >>> found = modal_fork(run("plan", "guess"), goods)
    >>> found.step, found.support, found.forked, found.votes
    (1, 2, 2, (1, 1, None))
    """
    diffs = tuple(diff(bad, good, params, max_steps) for good in goods)
    return ModalFork(tuple(found.fork_step_observed for found in diffs), diffs)
