"""Arrow tables as pandas frames that keep every value.

The tables of this library say in their schema how to be converted, so ``table.to_pandas()`` is
already exact for them; ``to_pandas`` is so for any table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """A frame of the table's values, none of them changed.

    Integer columns become pandas' nullable integers (a gap would otherwise turn the column into
    floats, which 64-bit integers do not survive) and boolean ones its nullable booleans; times keep
    their nanoseconds, coded text stays a category, lists and structs become Python's.

    Parameters
    ----------
    table
        Any Arrow table.

    Returns
    -------
    pandas.DataFrame
        One row a row, one column a column.

    Examples
    --------
    >>> import pyarrow as pa
    >>> frame = to_pandas(pa.table({"n": pa.array([2**64 - 1, None], pa.uint64())}))
    >>> frame["n"].tolist()
    [18446744073709551615, <NA>]
    """
    import pandas as pd
    import pyarrow as pa

    kept = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.uint8(): pd.UInt8Dtype(),
        pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(),
        pa.uint64(): pd.UInt64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    frame: pd.DataFrame = table.to_pandas(types_mapper=kept.get)
    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):  # numbers inside lists have gaps as well
            values: Any = pd.Series(table.column(place).to_pylist(), frame.index, dtype=object)
            frame.isetitem(place, values)
    return frame
