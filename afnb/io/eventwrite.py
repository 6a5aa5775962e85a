"""``write_events``: a table of events as a new file of lines, of an array, or as the table it is."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING, Any, BinaryIO

from afnb.core.eventlog import EventLog
from afnb.core.wire import parse_envelope, write_envelope
from afnb.errors import ParameterError
from afnb.io.files import PathLike, new_file
from afnb.tables.columns import arrow
from afnb.tables.events import as_events, events_table, wire_lines

if TYPE_CHECKING:
    import pyarrow as pa


def write_events(
    events: pa.Table | EventLog, path: PathLike, *, overwrite: bool = False, canonical: bool = False
) -> None:
    """Write a table of events, or a log, as a new file; reading it gives an equal table.

    Parameters
    ----------
    events
        A table as `read_events` gives it, or a log.
    path
        The new file; its ending says what it is: ``.jsonl`` (one envelope a line), ``.json`` (one
        array), each with ``.gz`` or ``.zst`` after it if it is to be compressed, ``.parquet``, or
        ``.arrow`` (uncompressed Arrow IPC, which is opened without being read).
    overwrite
        Whether a file that is there may be replaced.
    canonical
        Write lines as the logs' own writer would (see ``core.wire``), unknown keys dropped.

    Returns
    -------
    None
        The file is there, whole, when this returns.

    Raises
    ------
    ParameterError
        The file is there already, its ending is none of these, or ``events`` is no table of events.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "log.parquet")
    >>> write_events(EventLog(None), path)
    >>> from afnb.io.events import read_events
    >>> read_events(path).num_rows
    0
    """
    table = events_table(events) if isinstance(events, EventLog) else as_events(events)
    name = os.fspath(path)
    write = _writer(name)
    with new_file(path, overwrite=overwrite) as file:
        write(table, file, name, canonical)


def _writer(name: str) -> Any:
    bare = name.removesuffix(".gz").removesuffix(".zst")
    if bare.endswith((".jsonl", ".ndjson", ".json")):
        return _write_lines
    writers = {".parquet": _write_parquet, ".arrow": _write_arrow}
    for ending, write in writers.items():
        if name.endswith(ending):
            return write
    raise ParameterError(
        f"{name}: expected a name that ends in .jsonl or .json (with .gz or .zst after it to compress), "
        ".parquet or .arrow"
    )


def _write_lines(table: pa.Table, file: BinaryIO, name: str, canonical: bool) -> None:
    as_array = name.removesuffix(".gz").removesuffix(".zst").endswith(".json")
    import pyarrow as pa

    with _compressing(file, name) as out:
        first = True
        for batch in table.to_batches(max_chunksize=4096):
            lines = wire_lines(pa.Table.from_batches([batch])).to_pylist()
            if canonical:
                lines = [write_envelope(parse_envelope(line), canonical=True) for line in lines]
            if not lines:
                continue
            if as_array:
                out.write((("[\n" if first else ",\n") + ",\n".join(lines)).encode("utf-8"))
            else:
                out.write(("\n".join(lines) + "\n").encode("utf-8"))
            first = False
        if as_array:
            out.write(b"[]\n" if first else b"\n]\n")


def _compressing(file: BinaryIO, name: str) -> Any:
    if name.endswith(".gz"):
        return gzip.GzipFile("", "wb", 6, file, mtime=0)
    if name.endswith(".zst"):
        import zstandard

        return zstandard.ZstdCompressor().stream_writer(file, closefd=False)
    return _Open(file)


class _Open:
    """A file that its own block closes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __enter__(self) -> BinaryIO:
        return self._file

    def __exit__(self, *_: object) -> None:
        pass


def _write_parquet(table: pa.Table, file: BinaryIO, name: str, canonical: bool) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, file, compression="zstd", compression_level=3, row_group_size=1 << 17)


def _write_arrow(table: pa.Table, file: BinaryIO, name: str, canonical: bool) -> None:
    pa, _ = arrow()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table.unify_dictionaries())
