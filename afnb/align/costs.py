"""The matrix of step costs, known from below at once and exactly only where it matters.

Equal steps share a row. Each cell starts as a lower bound: matching blocks form a common subsequence,
so M is at most the length of the longest one, which is cheap. ``settle`` makes cells exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from afnb.align.blocks import ratios
from afnb.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Words = tuple[str, ...]

_ONLY_A, _ONLY_B, _SHARED = 0, 1, 2
_SURROGATES = range(0xD800, 0xE000)
_LAST = 0x10FFFF
_BATCH = 20_000


class StepCosts:
    """Costs of all pairs of steps of a reference run ``a`` and an observed run ``b``.

    Attributes
    ----------
    matrix
        Float64, distinct steps of a by distinct steps of b: the cost where ``known``, else a lower bound
        of it (in floating point too: every operation on the way is monotone).
    known
        Bool of the same shape.
    of_a, of_b
        Row of each step of a, column of each step of b.
    exact_count
        Cells that had to be counted exactly.
    """

    def __init__(self, a: Sequence[Words], b: Sequence[Words]) -> None:
        import numpy as np
        from rapidfuzz.distance import LCSseq
        from rapidfuzz.process import cdist

        texts_a, texts_b = _as_texts(a, b)
        self._a, self.of_a = _distinct(texts_a)
        self._b, self.of_b = _distinct(texts_b)
        shared_a = [text.replace(chr(_ONLY_A), "") for text in self._a]
        shared_b = [text.replace(chr(_ONLY_B), "") for text in self._b]
        common = cdist(shared_a, shared_b, scorer=LCSseq.similarity, dtype=np.uint16)
        lengths_a = np.array([len(text) for text in self._a], dtype=np.int64)
        lengths_b = np.array([len(text) for text in self._b], dtype=np.int64)
        total = lengths_a[:, None] + lengths_b[None, :]
        self.known: NDArray[np.bool_] = common <= 1
        same = (common == lengths_a[:, None]) & (common == lengths_b[None, :])
        self.known |= same
        self.matrix: NDArray[np.float64] = 1.0 - 2.0 * common / np.maximum(total, 1)
        self.matrix[same] = 0.0
        self.exact_count = 0

    def full(self) -> NDArray[np.float64]:
        """The matrix with a row and a column for every step."""
        if len(self._a) == len(self.of_a) and len(self._b) == len(self.of_b):
            return self.matrix
        return self.matrix[self.of_a[:, None], self.of_b[None, :]]

    def settle(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> int:
        """Make these cells of ``matrix`` exact; says how many were not."""
        import numpy as np

        cells = np.unique(rows * len(self._b) + columns)
        cells = cells[~self.known.ravel()[cells]]
        for start in range(0, len(cells), _BATCH):
            batch = cells[start : start + _BATCH]
            where = np.divmod(batch, len(self._b))
            pairs = [(self._a[i], self._b[j]) for i, j in zip(*(x.tolist() for x in where), strict=True)]
            self.matrix[where] = 1.0 - np.array(ratios(pairs))
            self.known[where] = True
        self.exact_count += len(cells)
        return len(cells)

    def least_of_rows(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Least cost of each of these rows of ``matrix`` (at most 1.0), settling no more than needed."""
        return self._least(rows, by_row=True)

    def least_of_columns(self, columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """Least cost of each of these columns of ``matrix``, likewise."""
        return self._least(columns, by_row=False)

    def _least(self, lines: NDArray[np.intp], *, by_row: bool) -> NDArray[np.float64]:
        import numpy as np

        found = np.ones(len(lines))
        open_lines = np.arange(len(lines))
        ask = 4
        while len(open_lines):
            rows: list[NDArray[np.intp]] = []
            columns: list[NDArray[np.intp]] = []
            still: list[int] = []
            for position in open_lines.tolist():
                line = lines[position]
                cost, known = (
                    (self.matrix[line], self.known[line])
                    if by_row
                    else (self.matrix[:, line], self.known[:, line])
                )
                least = min(1.0, float(cost[known].min(initial=1.0)))
                found[position] = least
                candidates = np.flatnonzero(~known & (cost < least))
                if not len(candidates):
                    continue
                if len(candidates) > ask:
                    candidates = candidates[np.argpartition(cost[candidates], ask - 1)[:ask]]
                still.append(position)
                here = np.full(len(candidates), line)
                rows.append(here if by_row else candidates)
                columns.append(candidates if by_row else here)
            if still:
                self.settle(np.concatenate(rows), np.concatenate(columns))
            open_lines = np.array(still, dtype=np.intp)
            ask *= 2
        return found


def _as_texts(a: Sequence[Words], b: Sequence[Words]) -> tuple[list[str], list[str]]:
    """Each step's words as characters: the commonest shared words first, then one character for all
    words that only one side has (they match nothing, so they need no telling apart).
    """
    counts_a: Counter[str] = Counter()
    counts_b: Counter[str] = Counter()
    for counts, side in ((counts_a, a), (counts_b, b)):
        for step in side:
            counts.update(step)
    shared = sorted(
        counts_a.keys() & counts_b.keys(), key=lambda word: (-counts_a[word] - counts_b[word], word)
    )
    if len(shared) > _LAST - len(_SURROGATES) - _SHARED:
        raise ParameterError(
            f"the runs share {len(shared)} different words, more than can be told apart "
            f"({_LAST - len(_SURROGATES) - _SHARED}); compare shorter runs"
        )
    symbols = {word: chr(_code(number)) for number, word in enumerate(shared, _SHARED)}
    only_a, only_b = chr(_ONLY_A), chr(_ONLY_B)
    return (
        ["".join([symbols.get(word, only_a) for word in step]) for step in a],
        ["".join([symbols.get(word, only_b) for word in step]) for step in b],
    )


def _code(number: int) -> int:
    return number if number < _SURROGATES.start else number + len(_SURROGATES)


def _distinct(texts: Sequence[str]) -> tuple[list[str], NDArray[np.intp]]:
    import numpy as np

    rows: dict[str, int] = {}
    of = [rows.setdefault(text, len(rows)) for text in texts]
    return list(rows), np.array(of, dtype=np.intp)
