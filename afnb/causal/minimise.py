"""Delta debugging: from a recovering set of candidates to a minimal one, asked step by step.

The order of the questions is part of the contract. The full set is asked first; then, at granularity
``g``, the blocks ``[i*len/g, (i+1)*len/g)`` of the current set, then their complements. A recovering
block becomes the current set at granularity 2, a recovering complement at ``max(g - 1, 2)``; otherwise
``g`` doubles until it reaches the size of the set. The empty set is never asked, and nothing is
remembered here: a question may come again, and whoever asks may keep the answers (:func:`minimise`).

A minimal recovering set is one from which nothing can be dropped, as far as the verdicts went; it need
not be the only one.

Source: Zeller, Hildebrandt, Simplifying and isolating failure-inducing input (TSE 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Literal

from afnb.causal.decision import Verdict
from afnb.errors import ParameterError

Subset = tuple[int, ...]
ReductionKind = Literal["minimized", "persisted", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Reduction:
    """Where the search ended.

    Parameters
    ----------
    kind
        ``minimized``: ``subset`` recovers and nothing could be dropped. ``persisted``: even the full set
        does not recover (or there is none). ``inconclusive``: the full set got no verdict.
    subset
        Indices of the minimal set, ascending; None unless minimized.
    questions
        How many subsets were asked.
    """

    kind: ReductionKind
    subset: Subset | None
    questions: int


def ddmin(n: int) -> Generator[Subset, Verdict, Reduction]:
    """Delta debugging over the indices ``0 .. n-1`` as a generator: yields subsets, takes their verdicts.

    Only ``recovered`` shrinks the set; ``unverified`` counts as not recovered, except for the full set.

    Parameters
    ----------
    n
        Number of candidates.

    Returns
    -------
    Reduction
        The generator's return value.

    Examples
    --------
    >>> search = ddmin(4)
    >>> subset = next(search)
    >>> try:
    ...     while True:
    ...         subset = search.send("recovered" if 2 in subset else "not_recovered")
    ... except StopIteration as end:
    ...     print(end.value.kind, end.value.subset)
    minimized (2,)
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ParameterError(f"ddmin({n!r}): the number of candidates is an integer of at least 0")
    if n == 0:
        return Reduction("persisted", None, 0)
    current = tuple(range(n))
    asked = 1
    first = yield current
    if first != "recovered":
        return Reduction("persisted" if first == "not_recovered" else "inconclusive", None, asked)
    granularity = 2
    while len(current) >= 2:
        size = len(current)
        blocks = [
            current[i * size // granularity : (i + 1) * size // granularity] for i in range(granularity)
        ]
        shrunk = False
        for block in blocks:
            asked += 1
            if (yield block) == "recovered":
                current, granularity, shrunk = block, 2, True
                break
        if shrunk:
            continue
        for block in blocks:
            complement = tuple(index for index in current if index not in block)
            asked += 1
            if (yield complement) == "recovered":
                current, granularity, shrunk = complement, max(granularity - 1, 2), True
                break
        if shrunk:
            continue
        if granularity >= size:
            break
        granularity = min(2 * granularity, size)
    return Reduction("minimized", current, asked)


class Minimiser:
    """:func:`ddmin` as a machine: ``question`` is the subset to judge next, ``answer(verdict)`` goes on.

    Parameters
    ----------
    n
        Number of candidates.
    remember
        Answer a question that was asked before with the verdict it got, without asking again. Off, every
        question is put, in the exact order of :func:`ddmin`.
    infer
        Take a part of a set that did not recover for not recovering, without asking. That need not be so: a
        part's branch point may be earlier, and what is live after it may come right by itself. It is a
        search, and what it finds is confirmed.

    Attributes
    ----------
    question
        The subset to judge, or None at the end.
    result
        The reduction, or None before the end.

    Examples
    --------
    >>> search = Minimiser(3, remember=True)
    >>> while search.question is not None:
    ...     search.answer("recovered" if {0, 2} <= set(search.question) else "not_recovered")
    >>> search.result.subset
    (0, 2)
    """

    __slots__ = ("_failed", "_known", "_search", "infer", "question", "remember", "result")

    def __init__(self, n: int, *, remember: bool = False, infer: bool = False) -> None:
        self.remember = remember
        self.infer = infer
        self.question: Subset | None = None
        self.result: Reduction | None = None
        self._known: dict[Subset, Verdict] = {}
        self._failed: list[frozenset[int]] = []
        self._search = ddmin(n)
        self._go_on(None)

    def answer(self, verdict: Verdict) -> None:
        """Give the verdict on ``question``."""
        if self.question is None:
            raise ParameterError("Minimiser.answer: the search has ended, there is no question to answer")
        if verdict not in ("recovered", "not_recovered", "unverified"):
            raise ParameterError(
                f"Minimiser.answer({verdict!r}): a verdict is recovered, not_recovered or unverified"
            )
        self._known[self.question] = verdict
        if verdict == "not_recovered":
            self._failed.append(frozenset(self.question))
        self._go_on(verdict)

    def _go_on(self, verdict: Verdict | None) -> None:
        try:
            question = next(self._search) if verdict is None else self._search.send(verdict)
            while (told := self._told(question)) is not None:
                question = self._search.send(told)
        except StopIteration as end:
            self.question, self.result = None, end.value
        else:
            self.question = question

    def _told(self, question: Subset) -> Verdict | None:
        """The verdict on a question that need not be asked, or None."""
        if self.remember and question in self._known:
            return self._known[question]
        if self.infer and any(failed.issuperset(question) for failed in self._failed):
            return "not_recovered"
        return None


def minimise(n: int, judge: Callable[[Subset], Verdict], *, remember: bool = True) -> Reduction:
    """Run the whole search with a function that judges subsets.

    Examples
    --------
    >>> minimise(5, lambda s: "recovered" if 3 in s else "not_recovered").subset
    (3,)
    """
    search = Minimiser(n, remember=remember)
    while search.question is not None:
        search.answer(judge(search.question))
    assert search.result is not None
    return search.result
