"""From a result, its table or plain rows to columns: what every plot computes with. No drawing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from afnb.errors import ParameterError

Columns = dict[str, list[Any]]


def columns_of(source: Any, table: str, needed: Sequence[str], optional: Sequence[str] = ()) -> Columns:
    """Columns of ``source`` as lists, missing values as None.

    Parameters
    ----------
    source
        A result with the attribute ``table``, a pyarrow Table, a pandas DataFrame, a mapping of columns
        or a sequence of row mappings.
    table
        The attribute that holds the table in a result, and its name in messages.
    needed
        Columns that must be there (a table without rows may lack them).
    optional
        Columns that are None throughout where they are not there.

    Raises
    ------
    ParameterError
        ``source`` is none of these, or a needed column is not there.

    Examples
    --------
    >>> columns_of([{"arm": "patch", "index": 0}], "replays", ["arm"], ["reason"])
    {'arm': ['patch'], 'reason': [None]}
    """
    found = getattr(source, table, source)
    columns, rows = _raw(found, table)
    absent = [name for name in needed if name not in columns]
    if absent and rows:
        raise ParameterError(
            f"the {table} table has no column {absent[0]!r}; it has {', '.join(map(str, columns)) or 'none'}"
        )
    names = [*needed, *optional]
    return {
        name: [_missing(v) for v in columns[name]] if name in columns else [None] * rows for name in names
    }


def _raw(found: Any, table: str) -> tuple[Mapping[str, Sequence[Any]], int]:
    if hasattr(found, "column_names") and hasattr(found, "num_rows"):
        return {name: found.column(name).to_pylist() for name in found.column_names}, int(found.num_rows)
    if hasattr(found, "columns") and hasattr(found, "iloc"):
        return {str(name): found[name].tolist() for name in found.columns}, len(found)
    if isinstance(found, Mapping):
        return found, max((len(values) for values in found.values()), default=0)
    rows = isinstance(found, Sequence) and not isinstance(found, str | bytes)
    if rows and all(isinstance(row, Mapping) for row in found):
        names = dict.fromkeys(str(name) for row in found for name in row)
        return {name: [row.get(name) for row in found] for name in names}, len(found)
    raise ParameterError(
        f"expected a result with {table}, or that table (Arrow, pandas, rows); got {type(found).__name__}"
    )


def _missing(value: Any) -> Any:
    """None for NaN and pandas' own missing values."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value


def top(counts: Mapping[str, int], limit: int) -> tuple[list[str], int]:
    """The ``limit`` commonest names (ties in order of appearance), and how many names are left out."""
    order = sorted(counts, key=lambda name: -counts[name])
    return order[:limit], max(0, len(order) - limit)


def as_list(source: Any) -> list[Any]:
    """``source`` as a list of results: one result, or any iterable of them."""
    if isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping):
        return list(source)
    return [source]
