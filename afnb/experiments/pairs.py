"""What a batch works on: pairs of a failing run and its good runs, from a manifest, a folder or a table.

========================== =======================================================================
given                      pairs
========================== =======================================================================
a folder                   ``<name>/bad.json`` beside ``<name>/good*.json``, at any depth
``.json``, ``.jsonl``      a list of objects, or ``{"pairs": [...]}``, or one object a line
``.csv``, ``.parquet``     one row a pair
a pandas or Arrow table    one row a pair
a list                     ``(bad, good)``, ``(bad, [good, ...])`` or mappings, with paths or recordings
========================== =======================================================================

Columns and keys: ``bad``; ``good``, ``good2``, ... (each a path, a glob pattern, or a list of them);
``name``, ``task``; ``agent``, ``oracle``, ``upstream`` for one pair alone (in Python); every other one is
a label. Paths count from the manifest's own folder.
"""

from __future__ import annotations

import csv
import glob
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from afnb.core.jsonvalue import dumps, loads
from afnb.errors import InputError, ParameterError

OWN = ("agent", "oracle", "upstream")
_GOOD = re.compile(r"goods?[_-]?\d*")
_SKIPPED = (".part", ".tmp", "~")
_NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class BatchPair:
    """One failing run and the good runs it is compared with.

    Parameters
    ----------
    name
        Unique in its batch.
    bad, goods
        Recordings, or paths of them; ``bad`` is None where the manifest names none.
    task
        What the run was to do.
    labels
        The user's own columns, as (name, text) pairs.
    agent, oracle, upstream
        For this pair in place of the batch's own; None for those.
    """

    name: str
    bad: Any
    goods: tuple[Any, ...] = ()
    task: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    agent: Any = None
    oracle: Any = None
    upstream: Any = None

    def label(self, name: str) -> str | None:
        """The text of one label, or None.

        Examples
        --------
        >>> BatchPair("a", "bad.json", labels=(("suite", "nightly"),)).label("suite")
        'nightly'
        """
        return dict(self.labels).get(name)

    def words(self) -> dict[str, str]:
        """What ``{name}``, ``{task}`` and ``{label}`` stand for in an agent's command."""
        return {**dict(self.labels), "name": self.name, "task": self.task or ""}


@dataclass(frozen=True, slots=True)
class Kept(os.PathLike[str]):
    """A recording that was handed in as a value and is kept in a file, so that workers can read it."""

    path: str
    id: str

    def __fspath__(self) -> str:
        return self.path


def as_pairs(pairs: Any) -> tuple[BatchPair, ...]:
    """The pairs that a caller means, each with a name of its own.

    Parameters
    ----------
    pairs
        Any of the forms above.

    Returns
    -------
    tuple of BatchPair
        In the order given (a folder: in natural order of the names).

    Raises
    ------
    InputError
        The manifest cannot be read.
    ParameterError
        It is no such form.

    Examples
    --------
    >>> found = as_pairs([("a/bad.json", "a/good.json"), ("b.json", ["c.json", "d.json"])])
    >>> [(pair.name, pair.goods) for pair in found]
    [('a', ('a/good.json',)), ('b', ('c.json', 'd.json'))]
    """
    if isinstance(pairs, (str, os.PathLike)):
        return _distinct(_of_path(Path(pairs)))
    return _distinct(_of_rows(_rows(pairs), None))


def _rows(pairs: Any) -> list[Any]:
    if hasattr(pairs, "column_names") and hasattr(pairs, "to_pylist"):
        return list(pairs.to_pylist())
    if hasattr(pairs, "iloc") and hasattr(pairs, "to_dict"):
        return list(pairs.to_dict("records"))
    if isinstance(pairs, Mapping):
        if isinstance(pairs.get("pairs"), Sequence):
            return list(pairs["pairs"])
        return [pairs] if "bad" in pairs else [{"name": name, **_one(value)} for name, value in pairs.items()]
    if isinstance(pairs, Iterable) and not isinstance(pairs, bytes):
        return list(pairs)
    raise ParameterError(
        f"pairs: expected a folder, a manifest, a table or a list of (bad, good), got {type(pairs).__name__}"
    )


def _one(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return {"bad": value[0], "good": value[1]}
    raise ParameterError(f"pairs: expected (bad, good) or a mapping with 'bad' and 'good', got {value!r:.80}")


def _of_path(path: Path) -> list[BatchPair]:
    if path.is_dir():
        return _of_folder(path)
    if not path.exists():
        raise InputError("there is no such manifest or folder of pairs", path=str(path))
    readers = {".json": _json, ".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet, ".pq": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"a manifest of pairs ends in {', '.join(readers)}, or is a folder; "
            f"found {path.suffix or 'no ending'}",
            path=str(path),
        )
    return _of_rows(reader(path), path)


def _of_rows(rows: Sequence[Any], path: Path | None) -> list[BatchPair]:
    base = None if path is None else path.parent
    found = []
    for number, row in enumerate(rows):
        if isinstance(row, BatchPair):
            found.append(row)
            continue
        try:
            values = _one(row)
        except ParameterError as error:
            if path is None:
                raise
            raise InputError(str(error).removeprefix("pairs: "), path=str(path), position=number) from None
        found.append(_pair(values, base, f"pair {number}"))
    if found and all(pair.bad is None for pair in found):
        names = ", ".join(map(str, _one(rows[0]))) or "none"
        raise InputError(
            f"no row names a failing run: there is no column 'bad' (there are: {names})",
            path=None if path is None else str(path),
        )
    return found


def _pair(values: Mapping[str, Any], base: Path | None, fallback: str) -> BatchPair:
    bad: Any = None
    name = task = None
    goods: list[Any] = []
    labels: dict[str, str] = {}
    own: dict[str, Any] = {}
    for key, value in values.items():
        key = str(key)
        if _absent(value):
            continue
        if key == "bad":
            bad = _place(value, base)
        elif _GOOD.fullmatch(key):
            goods.extend(_places(value, base))
        elif key == "name":
            name = str(value)
        elif key == "task":
            task = _text(value)
        elif key in OWN and not isinstance(value, str):
            own[key] = value
        elif key == "labels" and isinstance(_structure(value), Mapping):
            labels.update({str(k): _text(v) for k, v in _structure(value).items() if not _absent(v)})
        else:
            labels[key] = _text(value)
    return BatchPair(name or _name_of(bad) or fallback, bad, tuple(goods), task, tuple(labels.items()), **own)


def _absent(value: Any) -> bool:
    """None, an empty text, NaN and what tables have in their place."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return dumps(value)
    except (TypeError, ValueError):
        return str(value)


def _structure(value: Any) -> Any:
    """A JSON text's value; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return loads(value)
        except ValueError:
            return value
    return value


def _place(value: Any, base: Path | None) -> Any:
    if not isinstance(value, (str, os.PathLike)):
        return value
    path = Path(os.path.expanduser(value))
    return str(path if base is None or path.is_absolute() else base / path)


def _places(value: Any, base: Path | None) -> list[Any]:
    value = _structure(value)
    if hasattr(value, "tolist") and not isinstance(value, str):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [place for item in value if not _absent(item) for place in _places(item, base)]
    place = _place(value, base)
    if isinstance(place, str) and glob.has_magic(place) and not os.path.exists(place):
        return sorted(glob.glob(place, recursive=True), key=_natural) or [place]
    return [place]


def _name_of(bad: Any) -> str | None:
    if isinstance(bad, str):
        path = Path(bad)
        stem = path.name.partition(".")[0]
        return path.parent.name or stem if stem == "bad" else stem
    found = getattr(bad, "id", None)
    return found if isinstance(found, str) and found else None


def _natural(text: str) -> list[Any]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in _NUMBER.split(text)]


def _of_folder(folder: Path) -> list[BatchPair]:
    found = []
    places = sorted(
        {path.parent for path in folder.rglob("bad*") if path.is_file()}, key=lambda p: _natural(str(p))
    )
    for place in places:
        names = [path.name for path in place.iterdir() if path.is_file()]
        names.sort(key=lambda name: (_natural(name.partition(".")[0]), name))
        names = [name for name in names if not name.endswith(_SKIPPED)]
        bads = [name for name in names if name.startswith("bad")]
        goods = tuple(str(place / name) for name in names if name.startswith("good"))
        about = _about(place)
        title = folder.resolve().name if place == folder else place.relative_to(folder).as_posix()
        for bad in bads:
            name = title if len(bads) == 1 else f"{title}/{bad.partition('.')[0]}"
            found.append(replace(about, name=about.name or name, bad=str(place / bad), goods=goods))
    return found


def _about(place: Path) -> BatchPair:
    """Task and labels that ``pair.json`` beside the recordings gives."""
    path = place / "pair.json"
    if not path.is_file():
        return BatchPair("", None)
    values = _json_of(path)
    if not isinstance(values, Mapping):
        raise InputError("expected an object with name, task and labels", path=str(path))
    own = {key: value for key, value in values.items() if key != "bad" and not _GOOD.fullmatch(str(key))}
    return replace(_pair(own, place, ""), bad=None)


def _distinct(pairs: list[BatchPair]) -> tuple[BatchPair, ...]:
    """The same pairs; a name that is taken gets a number."""
    taken: set[str] = set()
    given = {pair.name for pair in pairs}
    out = []
    for pair in pairs:
        name, number = pair.name, 2
        while name in taken or (name != pair.name and name in given):
            name, number = f"{pair.name} #{number}", number + 1
        taken.add(name)
        out.append(pair if name == pair.name else replace(pair, name=name))
    return tuple(out)


def _json_of(path: Path) -> Any:
    try:
        return loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=str(path)) from None
    except ValueError as error:
        raise InputError(f"is no JSON: {error}", path=str(path)) from None


def _json(path: Path) -> list[Any]:
    value = _json_of(path)
    if not isinstance(value, (list, Mapping)):
        raise InputError("expected a list of pairs", path=str(path))
    return _rows(value)


def _jsonl(path: Path) -> list[Any]:
    rows = []
    for number, line in enumerate(_read(path).split("\n"), 1):
        if line.strip():
            try:
                rows.append(loads(line))
            except ValueError as error:
                raise InputError(f"is no JSON: {error}", path=str(path), line=number) from None
    return rows


def _csv(path: Path) -> list[Any]:
    reader = csv.DictReader(io.StringIO(_read(path), newline=""), restkey="", strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise InputError(f"is no CSV: {error}", path=str(path), line=reader.line_num) from None
    return [{key: value for key, value in row.items() if key} for row in rows]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=str(path)) from None
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 (byte {error.start})", path=str(path)) from None


def _parquet(path: Path) -> list[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_table(path).to_pylist())
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"is no Parquet table: {error}", path=str(path)) from None
