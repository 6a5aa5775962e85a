"""Columns of Arrow tables as numpy arrays, without the losses of ``to_numpy``.

A column with gaps turns into floats there, which no 64-bit integer survives. Here the buffers
themselves are read, with the mask of what is there beside them; slots under gaps are set to zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from afnb.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]

ArrowColumn = Any
"""A ``pyarrow.ChunkedArray``, whatever its elements."""

MISSING_CODE = -1


def arrow() -> tuple[Any, Any]:
    """The modules ``pyarrow`` and ``pyarrow.compute``, loaded when they are first used."""
    import pyarrow
    import pyarrow.compute

    return pyarrow, pyarrow.compute


@dataclass(frozen=True, slots=True)
class Numbers:
    """One number a row and whether it is there; where it is not, the number is 0."""

    values: AnyArray
    there: Bools


@dataclass(frozen=True, slots=True)
class Codes:
    """One small integer a row that stands for a text of ``words``; -1 where there is none."""

    codes: npt.NDArray[np.int32]
    words: list[str]

    def text(self, row: int) -> str | None:
        """The text of one row."""
        code = int(self.codes[row])
        return None if code == MISSING_CODE else self.words[code]


def column(table: pa.Table, name: str) -> ArrowColumn:
    """One column; `ParameterError` where the table has none of that name, or several."""
    if table.schema.names.count(name) != 1:
        raise ParameterError(
            f"the table has {table.schema.names.count(name)} columns called {name!r}; expected a table "
            "as read_events gives it, with one"
        )
    return table.column(name)


def numbers(table: pa.Table, name: str, dtype: Any) -> Numbers:
    """An integer or time column as an array of ``dtype`` and a mask.

    Raises
    ------
    ParameterError
        The column is not there, or its values are none of that type.
    """
    pa, _ = arrow()
    data = column(table, name)
    wanted = pa.from_numpy_dtype(np.dtype(dtype))
    if pa.types.is_timestamp(data.type):
        data = _cast(data, pa.timestamp("ns", data.type.tz), name).cast(pa.int64())
    if data.type != wanted:
        data = _cast(data, wanted, name)
    values = np.empty(len(data), dtype)
    there = np.ones(len(data), np.bool_)
    at = 0
    for chunk in data.chunks:
        end = at + len(chunk)
        if len(chunk):
            values[at:end] = np.frombuffer(chunk.buffers()[1], dtype)[
                chunk.offset : chunk.offset + len(chunk)
            ]
        if chunk.null_count:
            there[at:end] = chunk.is_valid().to_numpy(zero_copy_only=False)
            values[at:end][~there[at:end]] = 0
        at = end
    return Numbers(values, there)


def _cast(data: ArrowColumn, wanted: Any, name: str) -> ArrowColumn:
    pa, _ = arrow()
    try:
        return data.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ParameterError(f"column {name!r} holds {data.type}, expected {wanted}: {error}") from None


def codes(table: pa.Table, name: str) -> Codes:
    """A text column, dictionary-encoded or not, as codes into one list of words."""
    pa, _ = arrow()
    data = column(table, name)
    if not pa.types.is_dictionary(data.type):
        if not (pa.types.is_string(data.type) or pa.types.is_large_string(data.type)):
            data = _cast(data, pa.large_string(), name)
        data = data.dictionary_encode()
    if not _same_dictionary(data):
        data = data.unify_dictionaries()
    words: list[str] = data.chunk(0).dictionary.to_pylist() if data.num_chunks else []
    out = np.empty(len(data), np.int32)
    at = 0
    for chunk in data.chunks:
        end = at + len(chunk)
        index = chunk.indices
        if len(index):
            dtype = index.type.to_pandas_dtype()
            out[at:end] = np.frombuffer(index.buffers()[1], dtype)[index.offset : index.offset + len(index)]
        if index.null_count:
            out[at:end][~index.is_valid().to_numpy(zero_copy_only=False)] = MISSING_CODE
        at = end
    return _without_null_words(out, words)


def _without_null_words(out: npt.NDArray[np.int32], words: list[str]) -> Codes:
    """A dictionary may hold a null or a word twice; codes then stand for the same thing."""
    seen: dict[str | None, int] = {None: MISSING_CODE}
    first = [seen.setdefault(word, n) for n, word in enumerate(words)]
    if first != list(range(len(words))):
        out = np.where(out == MISSING_CODE, MISSING_CODE, np.array([*first, 0], np.int32)[out])
    return Codes(out.astype(np.int32, copy=False), words)


def _same_dictionary(data: ArrowColumn) -> bool:
    """Whether all chunks share one dictionary, which is seen without reading it in the common case."""
    chunks = data.chunks
    if len(chunks) < 2:
        return True
    first = chunks[0].dictionary
    where = _addresses(first)
    return all(_addresses(c.dictionary) == where or c.dictionary.equals(first) for c in chunks[1:])


def _addresses(array: Any) -> tuple[Any, ...]:
    places = tuple(None if b is None else (b.address, b.size) for b in array.buffers())
    return (len(array), array.offset, *places)


def texts(table: pa.Table, name: str, rows: npt.ArrayLike) -> list[str | None]:
    """The texts of a few rows of one column, in the order asked for."""
    data = column(table, name)
    wanted = np.asarray(rows, np.int64)
    bounds = np.cumsum([0, *(len(chunk) for chunk in data.chunks)])
    where = np.searchsorted(bounds, wanted, side="right") - 1
    found: list[str | None] = []
    for chunk, row in zip(where.tolist(), wanted.tolist(), strict=True):
        found.append(data.chunk(chunk)[row - int(bounds[chunk])].as_py())
    return found


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in groups: ``order`` brings the rows of each together (None where they are already), in
    their order in the table; ``starts`` says where in that order each group begins.

    Groups are in the order of their first rows.
    """

    order: Ints | None
    starts: Ints
    rows: int

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> Ints:
        """Rows of each group."""
        return np.diff(self.starts, append=self.rows)

    @property
    def of_rows(self) -> Ints:
        """The group of each ordered row."""
        return np.repeat(np.arange(len(self.starts)), self.sizes)

    def take(self, values: AnyArray) -> AnyArray:
        """Values in the groups' order."""
        return values if self.order is None else values[self.order]

    def row(self, position: int) -> int:
        """The table's row at a place of the order."""
        return position if self.order is None else int(self.order[position])

    def first_rows(self) -> Ints:
        """The table's first row of each group."""
        return self.starts if self.order is None else self.order[self.starts]

    def blocks(self, size: int) -> Iterator[slice]:
        """The order in slices of at most ``size`` rows."""
        for start in range(0, self.rows, size):
            yield slice(start, min(start + size, self.rows))


def group(keys: npt.NDArray[np.int32]) -> Groups:
    """Rows with equal keys together, each group in table order, by one stable sort where one is needed.

    Examples
    --------
    >>> found = group(np.array([7, 7, 3, 7], np.int32))
    >>> found.order.tolist(), found.starts.tolist()
    ([0, 1, 3, 2], [0, 3])
    """
    starts = _changes(keys)
    if len(np.unique(keys[starts])) == len(starts):
        return Groups(None, starts, len(keys))
    firsts = np.full(int(keys.max()) + 2, len(keys), np.int64)
    np.minimum.at(firsts, keys[starts] + 1, starts)
    rank = np.argsort(np.argsort(firsts, kind="stable"), kind="stable").astype(np.uint32)
    order = _stable_order(rank[keys + 1])
    return Groups(order, _changes(keys[order]), len(keys))


def _changes(keys: AnyArray) -> Ints:
    """Where a new value begins; the first row is one."""
    if not len(keys):
        return np.empty(0, np.int64)
    return np.concatenate(([0], np.flatnonzero(keys[1:] != keys[:-1]) + 1)).astype(np.int64)


def _stable_order(ranks: npt.NDArray[np.uint32]) -> Ints:
    """A stable sort of 32-bit ranks as two of 16 bits, for which numpy counts instead of comparing."""
    order = np.argsort((ranks & 0xFFFF).astype(np.uint16), kind="stable")
    if int(ranks.max()) > 0xFFFF:
        high = (ranks >> 16).astype(np.uint16)[order]
        order = order[np.argsort(high, kind="stable")]
    return order.astype(np.int64, copy=False)
