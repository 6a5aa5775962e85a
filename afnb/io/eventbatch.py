"""Events read from a stretch of lines, column by column, and how stretches become one Arrow table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from afnb.core import events as ev
from afnb.core.wirekinds import normal_run_id
from afnb.errors import ParameterError
from afnb.tables.columns import AnyArray, Bools, Ints, arrow
from afnb.tables.rules import KINDS
from afnb.tables.schemas import schema

if TYPE_CHECKING:
    import pyarrow as pa

NO_CODE = -1


class Words(dict[str, int]):
    """Texts numbered in the order in which they are first met."""

    def __missing__(self, word: str) -> int:
        code = self[word] = len(self)
        return code


class RunIds(dict[str, int]):
    """Run ids as they are written, numbered by the run they name; -1 for a text that is no UUID."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._normal: dict[str, int] = {}

    def __missing__(self, text: str) -> int:
        try:
            normal = normal_run_id(text)
        except ParameterError:
            return NO_CODE
        code = self._normal.setdefault(normal, len(self.words))
        if code == len(self.words):
            self.words.append(normal)
        self[text] = code
        return code


@dataclass(slots=True)
class Names:
    """The words that the codes of all batches of one reading stand for."""

    runs: RunIds = field(default_factory=RunIds)
    tools: Words = field(default_factory=Words)
    nodes: Words = field(default_factory=Words)
    files: Words = field(default_factory=Words)


@dataclass(frozen=True, slots=True)
class Optional:
    """A number a row where it is there; 0 elsewhere."""

    values: AnyArray
    there: Bools

    @classmethod
    def none(cls, rows: int, dtype: Any = np.uint64) -> Optional:
        """Nothing there yet."""
        return cls(np.zeros(rows, dtype), np.zeros(rows, np.bool_))

    def put(self, rows: Any, values: Any) -> None:
        """Set the number of one row, or of several."""
        self.values[rows] = values
        self.there[rows] = True

    def at(self, rows: Ints) -> Optional:
        """Some rows only."""
        return Optional(self.values[rows], self.there[rows])


@dataclass(slots=True)
class Batch:
    """Events of one stretch of lines; every column has one value an event."""

    run: npt.NDArray[np.int32]
    seq: npt.NDArray[np.uint64]
    version: npt.NDArray[np.uint32]
    recorded_at: list[str]
    recorded_at_ns: Optional
    kind: npt.NDArray[np.uint8]
    corr: Optional
    tool: npt.NDArray[np.int32]
    effect: npt.NDArray[np.int8]
    node: npt.NDArray[np.int32]
    index: Optional
    input_tokens: Optional
    output_tokens: Optional
    value: Optional
    now_ns: Optional
    payload: list[Any]
    payload_bytes: Ints
    extra: dict[int, str]
    line: Ints

    def __len__(self) -> int:
        return len(self.seq)

    def keep(self, rows: Ints) -> Batch:
        """The events of some rows, in order."""
        where = {int(row): n for n, row in enumerate(rows)}
        kept: dict[str, Any] = {}
        for name in self.__slots__:
            column = getattr(self, name)
            if name == "extra":
                kept[name] = {where[row]: text for row, text in column.items() if row in where}
            elif isinstance(column, list):
                kept[name] = [column[row] for row in rows]
            else:
                kept[name] = column.at(rows) if isinstance(column, Optional) else column[rows]
        return Batch(**kept)


_PLAIN = {"seq": "seq", "schema_version": "version", "line": "line"}
_CODED = {"run_id": "run", "kind": "kind", "tool": "tool", "effect": "effect", "node": "node"}
_OPTIONAL = ("recorded_at_ns", "corr", "index", "input_tokens", "output_tokens", "value", "now_ns")


class TableBuilder:
    """Gathers batches as Arrow columns; codes are given their words at the end, one list for all.

    Payloads are copied together batch by batch and stay in those chunks, for all of them in one would
    need their memory twice. The other columns are small and become one chunk each.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._columns: dict[str, list[Any]] = {name: [] for name in schema("events").names}
        self.rows = 0

    def add(self, batch: Batch, file: int) -> None:
        """Append one batch, all of it of one file."""
        rows = len(batch)
        if not rows:
            return
        for name, attribute in {**_PLAIN, **_CODED}.items():
            self._columns[name].append(getattr(batch, attribute))
        for name in _OPTIONAL:
            self._columns[name].append(getattr(batch, name))
        self._columns["recorded_at"].append(_texts(batch.recorded_at))
        self._columns["extra"].extend((self.rows + row, text) for row, text in batch.extra.items())
        self._columns["file"].append((file, rows))
        self._columns["payload"].append(_joined(batch.payload, batch.payload_bytes))
        self.rows += rows

    def table(self) -> pa.Table:
        """The table of everything added; the builder is empty then."""
        import pyarrow as pa

        names = self._names
        words: dict[str, Sequence[str]] = {
            "run_id": names.runs.words,
            "kind": KINDS,
            "tool": list(names.tools),
            "effect": ev.EFFECTS,
            "node": list(names.nodes),
            "file": list(names.files),
        }
        declared = schema("events")
        arrays = []
        for column in declared:
            chunks = self._columns.pop(column.name)  # so that each is freed once it is copied
            if column.name == "payload":
                arrays.append(pa.chunked_array(chunks, column.type))
                continue
            array = self._array(column.name, chunks)
            if column.name in words:
                array = pa.DictionaryArray.from_arrays(array, pa.array(words[column.name], pa.large_string()))
            arrays.append(pa.chunked_array([array], column.type))
        return pa.Table.from_arrays(arrays, schema=declared)

    def _array(self, name: str, chunks: list[Any]) -> Any:
        """One column in one chunk."""
        pa, _ = arrow()
        if name == "recorded_at":
            return pa.concat_arrays(chunks) if chunks else pa.array([], pa.large_string())
        if name == "extra":
            return _sparse(dict(chunks), self.rows)
        if name in _OPTIONAL:
            values = _one([c.values for c in chunks], np.uint64)
            array = pa.array(values, mask=~_one([c.there for c in chunks], np.bool_))
            return array.view(schema("events").field(name).type) if name.endswith("_ns") else array
        if name == "file":
            chunks = [np.full(rows, file, np.int32) for file, rows in chunks]
        if name == "file" or name in _CODED:
            codes = _one(chunks, np.int32).astype(np.int32)
            return pa.array(codes, mask=codes < 0)
        return pa.array(_one(chunks, {"line": np.int64, "schema_version": np.uint32}.get(name, np.uint64)))


def _one(chunks: list[AnyArray], dtype: Any) -> AnyArray:
    """Arrays one after the other; an empty one of ``dtype`` where there are none."""
    return np.concatenate(chunks) if chunks else np.empty(0, dtype)


def _texts(texts: Sequence[str]) -> Any:
    pa, _ = arrow()
    return pa.array(texts, pa.large_string())


def _joined(payloads: Sequence[Any], sizes: Ints) -> Any:
    """Pieces of UTF-8 text as one Arrow array."""
    pa, _ = arrow()
    offsets = np.zeros(len(payloads) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(payloads))]
    return pa.Array.from_buffers(pa.large_string(), len(payloads), buffers)


def _sparse(texts: dict[int, str], rows: int) -> Any:
    pa, _ = arrow()
    if not texts:
        return pa.nulls(rows, pa.large_string())
    return pa.array([texts.get(row) for row in range(rows)], pa.large_string())
