"""Which times Arrow and the single-log parser read alike, told for many at once.

Those are RFC 3339 in its plain form: capital letters, no leap day, no leap second, at most nanoseconds,
years Arrow can hold with any offset. All others are read one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from afnb.tables.columns import Bools, Ints, arrow

_DAYS = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    r"|02-(?:0[1-9]|1\d|2[0-8]))"
)
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d"
_USUAL = rf"^(?:1[7-9]|2[01])\d\d-{_DAYS}T{_CLOCK}:[0-5]\d(?:\.\d{{1,9}})?(?:Z|[+-]{_CLOCK})$"
_SHORTEST, _LONGEST = len("2026-07-09T12:00:00Z"), len("2026-07-09T12:00:00.123456789Z")
_MOST_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.uint8)
_ZERO = ord("0")


def usual(texts: Any) -> Bools:
    """Which texts of an Arrow array of times are of the plain form.

    Examples
    --------
    >>> import pyarrow as pa
    >>> texts = ["2026-07-09T12:00:00.5Z", "2026-07-09T12:00:00+02:00", "2026-07-09 12:00:00Z"]
    >>> usual(pa.array(texts, pa.large_string())).tolist()
    [True, True, False]
    """
    _, pc = arrow()
    found = np.zeros(len(texts), np.bool_)
    if not len(texts):
        return found
    _, places, data = texts.buffers()
    offsets = np.frombuffer(places, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    sizes = np.diff(offsets)
    letters = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    for size in range(_SHORTEST, _LONGEST + 1):
        rows = np.flatnonzero(sizes == size)
        if len(rows):
            found[rows] = _plain(_matrix(letters, offsets[:-1][rows], size))
    rest = np.flatnonzero(~found)
    if len(rest):
        found[rest] = pc.match_substring_regex(texts.take(rest), _USUAL).to_numpy(zero_copy_only=False)
    return found


def _matrix(letters: npt.NDArray[np.uint8], starts: Ints, size: int) -> npt.NDArray[np.uint8]:
    """Texts of one length, one character in each row: nth characters lie together."""
    if starts[-1] - starts[0] == (len(starts) - 1) * size:
        rows = letters[starts[0] : starts[0] + len(starts) * size].reshape(-1, size)
    else:
        rows = letters[starts[:, None] + np.arange(size)]
    return np.ascontiguousarray(rows.T)


def _plain(at: npt.NDArray[np.uint8]) -> Bools:
    """Which of some texts of one length, that of a time in UTC, are usual ones."""
    size = len(at)
    good: Bools = (at[4] == 45) & (at[7] == 45) & (at[10] == 84) & (at[13] == 58) & (at[16] == 58)
    good &= at[size - 1] == 90
    digits = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
    if size > _SHORTEST:
        good &= at[19] == 46
        digits += range(20, size - 1)
    values = at[digits] - np.uint8(_ZERO)
    good &= (values < 10).all(axis=0)
    century, month, day, hour, minute, second = (
        values[n] * np.uint8(10) + values[n + 1] for n in (0, 4, 6, 8, 10, 12)
    )
    good &= (century >= 17) & (century <= 21) & (month >= 1) & (month <= 12) & (day >= 1)
    good &= (hour < 24) & (minute < 60) & (second < 60)
    good &= day <= _MOST_DAYS[np.minimum(month, 12)]
    if size == _SHORTEST + 1:  # a point and no digit after it
        good[:] = False
    return good
