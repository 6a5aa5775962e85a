"""The folder of a batch: everything it needs to go on after a kill, and to be read again.

::

    batch.json              settings and what they hash to: a folder holds one batch
    purse                   what was spent (``Purse``)
    replays/                the ledger of finished replays
    parts/<key>.*.parquet   a finished pair, written beside and renamed; ``.pairs`` comes last
    pairs.parquet, experiments.parquet, replays.parquet, cards.parquet
                            all of them together, once the batch has come to an end
    report.html             the report, where one was asked for
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afnb.causal.ebh import e_bh
from afnb.core.jsonvalue import dumps, loads
from afnb.errors import InputError, ParameterError
from afnb.experiments.pair_row import PairResult
from afnb.tables.build import build
from afnb.tables.schemas import schema

if TYPE_CHECKING:
    import pyarrow as pa

TABLES = ("experiments", "replays", "cards", "pairs")
"""The tables of a batch, in the order in which a pair's parts are written."""

SETTINGS = "batch.json"


class BatchFolder:
    """One batch on disk.

    Parameters
    ----------
    path
        The folder; made once it is held.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock: int | None = None

    def hold(self) -> None:
        """Make the folder, and keep every other process from working in it.

        Raises
        ------
        InputError
            Another one does, or the folder cannot be written to.
        """
        try:
            (self.path / "parts").mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise InputError("another process is working on this batch", path=str(self.path)) from None
        except OSError as error:
            raise InputError(
                f"cannot be used as a batch's folder: {error.strerror}", path=str(self.path)
            ) from None
        for torn in (*self.path.glob("*.part"), *(self.path / "parts").glob("*.part")):
            torn.unlink(missing_ok=True)

    def release(self) -> None:
        """Let others in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def settings(self) -> dict[str, Any] | None:
        """What ``batch.json`` says; None where there is none.

        Raises
        ------
        InputError
            It is something else.
        """
        path = self.path / SETTINGS
        try:
            value = loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read: {error}", path=str(path)) from None
        if not isinstance(value, dict) or value.get("afnb") != "batch":
            raise InputError("these are not the settings of a batch", path=str(path))
        return value

    def agree(self, settings: Mapping[str, Any]) -> None:
        """Write the settings down, or check that they are those of the batch that is here.

        Raises
        ------
        ParameterError
            The folder holds a batch with other settings.
        """
        there = self.settings()
        if there is None:
            if any(self.path.glob("*.parquet")):
                raise ParameterError(
                    f"{self.path} holds tables of something else; name a folder that is new or empty"
                )
        else:
            asked, known = settings["identity"], there.get("identity", {})
            for name in asked:
                if known.get(name) != asked[name]:
                    raise ParameterError(
                        f"{self.path} holds a batch with another {name} ({known.get(name)!r}, now "
                        f"{asked[name]!r}); name another folder, or go on with what it was begun with"
                    )
        self.write_text(SETTINGS, dumps({**(there or {}), **settings}) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Write a file of the folder beside and rename it."""
        part = self.path / f"{name}.part"
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(self.path / name)

    # -- pairs ---------------------------------------------------------------------------------

    def write(self, result: PairResult) -> None:
        """Keep a pair's result in place of what was known of it; it is there once its last part is."""
        name = part_name(str(result.row["pair"]))
        (self.path / "parts" / f"{name}.pairs.parquet").unlink(missing_ok=True)
        rows: dict[str, Sequence[Mapping[str, Any]]] = {
            "experiments": result.experiments,
            "replays": result.replays,
            "cards": [{"pair": result.row["pair"], "card": result.card}] if result.card is not None else [],
            "pairs": [result.row],
        }
        for table in TABLES:
            write_table(build(table, rows[table]), self.path / "parts" / f"{name}.{table}.parquet")

    def known(self) -> dict[str, dict[str, Any]]:
        """Name to (key, final, state) of every pair that is here; nothing else of it is read."""
        columns = ["pair", "key", "final", "state"]
        found: dict[str, dict[str, Any]] = {}
        for path in (self.path / "pairs.parquet", *sorted((self.path / "parts").glob("*.pairs.parquet"))):
            if path.exists():
                for row in read_table(path, columns).to_pylist():
                    found[row["pair"]] = row
        return found

    def tables(self, names: Sequence[str] | None = None, alpha: float | None = None) -> dict[str, pa.Table]:
        """All tables, parts and whole ones together, ordered as ``names`` (else as they are).

        Rows of pairs that ``names`` does not hold are left out. ``alpha`` is the rate of false discoveries
        over all pairs, by which the column ``e_bh`` is filled.
        """
        parts = {
            path.name.removesuffix(".pairs.parquet") for path in (self.path / "parts").glob("*.pairs.parquet")
        }
        fresh: dict[str, list[pa.Table]] = {table: [] for table in TABLES}
        for part in sorted(parts):
            for table in TABLES:
                fresh[table].append(read_table(self.path / "parts" / f"{part}.{table}.parquet"))
        renewed = {str(name) for table in fresh["pairs"] for name in table.column("pair").to_pylist()}
        found = {table: self._together(table, fresh[table], renewed, names) for table in TABLES}
        return {**found, "pairs": reported(found["pairs"], alpha)}

    def _together(
        self, table: str, fresh: list[pa.Table], renewed: set[str], names: Sequence[str] | None
    ) -> pa.Table:
        import pyarrow as pa

        whole = self.path / f"{table}.parquet"
        pieces = list(fresh)
        if whole.exists():
            old = read_table(whole)
            keep = [name not in renewed for name in old.column("pair").to_pylist()]
            pieces.append(old.filter(pa.array(keep, pa.bool_())))
        joined = pa.concat_tables(pieces) if pieces else build(table, [])
        order = None if names is None else {name: i for i, name in enumerate(names)}
        return tidy(joined, table, order)

    def settle(self, names: Sequence[str], alpha: float | None = None) -> dict[str, pa.Table]:
        """Put all parts together into one file a table, in the order of ``names``, and remove them.

        Killed at any moment, nothing is lost: parts go only once every whole table is there.
        """
        tables = self.tables(names, alpha)
        for table in TABLES:
            write_table(tables[table], self.path / f"{table}.parquet")
        for path in (self.path / "parts").glob("*.parquet"):
            path.unlink(missing_ok=True)
        return tables


def part_name(pair: str) -> str:
    """A file name for one pair, whatever signs its own name has."""
    return hashlib.blake2b(pair.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def write_table(table: pa.Table, path: Path) -> None:
    """Write a Parquet file beside and rename it; nothing is left of one that could not be written."""
    import pyarrow.parquet as pq

    part = path.with_name(f"{path.name}.part")
    try:
        pq.write_table(table, part, compression="zstd")
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """A Parquet file, or some of its columns.

    Raises
    ------
    InputError
        It cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, columns=None if columns is None else list(columns))
    except (OSError, pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise InputError(f"is no table of a batch: {error}", path=str(path)) from None


def tidy(table: pa.Table, name: str, order: Mapping[str, int] | None) -> pa.Table:
    """The table in the declared schema, one chunk a column, its pairs in ``order``.

    What a table holds does then not depend on how many files it was put together from.
    """
    import pyarrow as pa

    if order is not None:
        found = [order.get(str(pair), -1) for pair in table.column("pair").to_pylist()]
        chosen = sorted((i for i, place in enumerate(found) if place >= 0), key=lambda i: found[i])
        table = table.take(pa.array(chosen, pa.int64()))
    target = schema(name)
    columns = []
    for field in target:
        column: Any = table.column(field.name)
        if pa.types.is_dictionary(field.type):
            column = column.cast(field.type.value_type).combine_chunks().dictionary_encode()
        else:
            column = column.combine_chunks()
        columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=target)


def reported(pairs: pa.Table, alpha: float | None) -> pa.Table:
    """The table of pairs with ``e_bh`` filled in: which repairs hold together, by e-BH."""
    import pyarrow as pa

    if alpha is None or not 0 < alpha < 1 or not pairs.num_rows:
        return pairs
    chosen = set(e_bh([float(value or 1.0) for value in pairs.column("e_value").to_pylist()], alpha))
    marks = pa.array([i in chosen for i in range(pairs.num_rows)], pa.bool_())
    place = pairs.schema.get_field_index("e_bh")
    return pairs.set_column(place, pairs.schema.field(place), marks)


def digest_of(parts: Iterable[object]) -> str:
    """24 hexadecimal digits of texts and numbers."""
    text = "\x1f".join(str(part) for part in parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
