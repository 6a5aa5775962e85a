"""Rows of plain values into Arrow tables of a declared schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from afnb.core.jsonvalue import MISSING, dumps
from afnb.errors import ParameterError
from afnb.tables.schemas import columns, schema

if TYPE_CHECKING:
    import pyarrow as pa


def _json_text(value: Any) -> str | None:
    if value is MISSING:
        return None
    try:
        return dumps(value)
    except (TypeError, ValueError):
        return json.dumps(str(value), ensure_ascii=True)


def build(name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """An Arrow table of declared schema ``name`` from mappings of plain values.

    Parameters
    ----------
    name
        A table of ``afnb.tables.schemas``.
    rows
        One mapping per row; keys are column names. A missing key is null. Values of JSON columns are
        JSON values (``MISSING`` is null, ``None`` is the text ``null``).

    Returns
    -------
    pyarrow.Table
        With exactly the declared columns, also for no rows.

    Raises
    ------
    ParameterError
        A row has a key that is no column, or lacks a value that must be there.

    Examples
    --------
    >>> from afnb.tables.build import build
    >>> build("runs", [{"run": "a", "steps": 3, "warnings": []}]).num_rows
    1
    """
    declared = columns(name)
    names = {column.name for column in declared}
    data: dict[str, list[Any]] = {column.name: [] for column in declared}
    for number, row in enumerate(rows):
        unknown = [key for key in row if key not in names]
        if unknown:
            raise ParameterError(f"table {name!r}, row {number}: no column {unknown[0]!r}")
        for column in declared:
            value = row.get(column.name, MISSING)
            if column.type == "json":
                value = _json_text(value)
            elif value is MISSING:
                value = None
            if value is None and not column.nullable:
                raise ParameterError(f"table {name!r}, row {number}: column {column.name!r} needs a value")
            data[column.name].append(value)
    return from_columns(name, data)


def from_columns(name: str, data: Mapping[str, list[Any]]) -> pa.Table:
    """An Arrow table of declared schema ``name`` from one list of plain values a column.

    Here JSON columns are given as JSON text; every declared column must be there.
    """
    import pyarrow as pa

    target = schema(name)
    arrays = []
    for field in target:
        if pa.types.is_dictionary(field.type):
            arrays.append(
                pa.array(data[field.name], type=field.type.value_type).dictionary_encode().cast(field.type)
            )
        else:
            arrays.append(pa.array(data[field.name], type=field.type))
    return pa.Table.from_arrays(arrays, schema=target)
