"""Columns of Arrow tables as numpy arrays, without the losses of ``to_numpy``.

A column with gaps turns into floats there, which no 64-bit integer survives. Here the buffers
themselves are read, with the mask of what is there beside them; slots under gaps are set to zero.
"""

from __future__ import annotations

import functools
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


@dataclass(frozen=True)
class Codes:
    """One small integer a row that stands for a text of ``words``; -1 where there is none.

    Given as codes and their words, or as a dictionary column whose chunks share one dictionary. Of a
    column codes and words are made where they are first asked for: most checks look at few of them.
    """

    given: Any
    given_words: list[str] | None = None

    @functools.cached_property
    def codes(self) -> npt.NDArray[np.int32]:
        """One code a row."""
        return _codes(self.given) if self.given_words is None else self.given

    @functools.cached_property
    def words(self) -> list[str]:
        """The texts that codes stand for."""
        if self.given_words is not None:
            return self.given_words
        return list(_dictionary(self.given).to_pylist())

    def text(self, row: int) -> str | None:
        """The text of one row."""
        if self.given_words is None:
            found: str | None = self.given[row].as_py()
            return found
        code = int(self.codes[row])
        return None if code == MISSING_CODE else self.given_words[code]


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
    chunks = [chunk for chunk in data.chunks if len(chunk)]
    values = _flat([_values(chunk, dtype, 0) for chunk in chunks], dtype)
    if not data.null_count:
        return Numbers(values, np.broadcast_to(np.True_, len(values)))
    return Numbers(values, _flat([_there(chunk) for chunk in chunks], np.bool_))


def _values(chunk: Any, dtype: Any, missing: int) -> AnyArray:
    """The values of an Arrow array; they lie in its buffer, where none is missing."""
    found: AnyArray = np.frombuffer(chunk.buffers()[1], dtype)[chunk.offset : chunk.offset + len(chunk)]
    return np.where(_there(chunk), found, np.array(missing, dtype)) if chunk.null_count else found


def _there(chunk: Any) -> Bools:
    """Which values of an Arrow array are there."""
    bits = chunk.buffers()[0]
    if not chunk.null_count or bits is None:
        return np.ones(len(chunk), np.bool_)
    end = chunk.offset + len(chunk)
    found = np.unpackbits(np.frombuffer(bits, np.uint8), count=end, bitorder="little")
    return found[chunk.offset :].view(np.bool_)


def _flat(parts: list[AnyArray], dtype: Any) -> AnyArray:
    """One array; a single part is not copied, and cannot be written to."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)


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
    return Codes(data)


def _dictionary(data: ArrowColumn) -> Any:
    pa, _ = arrow()
    return data.chunk(0).dictionary if data.num_chunks else pa.array([], pa.large_string())


def _codes(data: ArrowColumn) -> npt.NDArray[np.int32]:
    pa, _ = arrow()
    words = _dictionary(data)
    indices = [chunk.indices.cast(pa.int32()) for chunk in data.chunks if len(chunk)]
    found = _flat([_values(index, np.int32, MISSING_CODE) for index in indices], np.int32)
    if words.null_count or len(words.unique()) < len(words):
        # A dictionary may hold a null or a word twice; codes then stand for the same thing.
        seen: dict[str | None, int] = {None: MISSING_CODE}
        first = [seen.setdefault(word, n) for n, word in enumerate(words.to_pylist())]
        found = np.where(found == MISSING_CODE, MISSING_CODE, np.array([*first, 0], np.int32)[found])
    return found.astype(np.int32, copy=False)


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


@dataclass(frozen=True)
class Groups:
    """Rows in groups: ``starts`` says where each begins when the rows of each are brought together, in
    their order in the table.

    ``spans`` are the table's rows at which another group than that of the row before goes on. Where the
    rows are not together already, ``places`` says where in the groups' order each span begins, and
    ``by_place`` is the spans in that order. Groups are in the order of their first rows.
    """

    starts: Ints
    rows: int
    spans: Ints
    places: Ints | None = None
    by_place: Ints | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @functools.cached_property
    def order(self) -> Ints | None:
        """What brings the rows of each group together; None where they are."""
        if self.places is None or self.by_place is None:
            return None
        sizes = np.diff(self.spans, append=self.rows)[self.by_place]
        shifts = self.spans[self.by_place] - self.places[self.by_place]
        return np.repeat(shifts, sizes) + np.arange(self.rows)

    @functools.cached_property
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
        return int(self.table_rows(np.array([position]))[0])

    def first_rows(self) -> Ints:
        """The table's first row of each group."""
        return self.table_rows(self.starts)

    def table_rows(self, positions: Ints) -> Ints:
        """The table's rows at places of the order."""
        if self.places is None or self.by_place is None:
            return positions
        ordered = self._ordered_places
        span = self.by_place[np.searchsorted(ordered, positions, side="right") - 1]
        found: Ints = self.spans[span] + (positions - self.places[span])
        return found

    def positions(self, rows: Ints) -> Ints:
        """The places in the order of some of the table's rows."""
        if self.places is None:
            return rows
        span = np.searchsorted(self.spans, rows, side="right") - 1
        found: Ints = self.places[span] + (rows - self.spans[span])
        return found

    def span_befores(self) -> tuple[Ints, Bools]:
        """For each span the row of the same group before it, and whether there is none."""
        if self.places is None or self.by_place is None:
            return self.spans, np.ones(len(self.spans), np.bool_)
        ends = np.append(self.spans[1:], self.rows) - 1
        before = np.zeros(len(self.spans), np.int64)
        before[self.by_place[1:]] = ends[self.by_place[:-1]]
        firsts = np.zeros(len(self.spans), np.bool_)
        firsts[np.searchsorted(self.spans, self.first_rows())] = True
        return before, firsts

    @functools.cached_property
    def _ordered_places(self) -> Ints:
        assert self.places is not None
        return self.places[self.by_place]


def group(keys: npt.NDArray[np.int32]) -> Groups:
    """Rows with equal keys together, each group in table order.

    Stretches of rows with one key are sorted, not rows, and only where a key comes back.

    Examples
    --------
    >>> found = group(np.array([7, 7, 3, 7], np.int32))
    >>> found.order.tolist(), found.starts.tolist()
    ([0, 1, 3, 2], [0, 3])
    """
    spans = _changes(keys)
    if not len(spans):
        return Groups(spans, 0, spans)
    mine = keys[spans] + 1
    first = np.full(int(mine.max()) + 1, len(spans), np.int64)
    first[mine[::-1]] = np.arange(len(spans))[::-1]  # of equal keys the one written last stays
    known = np.flatnonzero(first < len(spans))
    if len(known) == len(spans):
        return Groups(spans, len(keys), spans)
    rank = np.zeros(len(first), np.uint32)
    rank[known[np.argsort(first[known])]] = np.arange(len(known))
    ranks = rank[mine]
    order = _stable_order(ranks)
    sizes = np.diff(spans, append=len(keys))[order]
    ends = np.cumsum(sizes)
    places = np.empty(len(spans), np.int64)
    places[order] = ends - sizes
    return Groups((ends - sizes)[_changes(ranks[order])], len(keys), spans, places, order)


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
