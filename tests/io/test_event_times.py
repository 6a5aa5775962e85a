"""The fast check of times says what its slow form, a pattern, says."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.io import eventtimes
from tests.io.event_lines import TIMES

_NUMBERS = [st.sampled_from(range(low, high)) for low, high in ((0, 14), (0, 33), (0, 26), (0, 62), (0, 62))]
_YEARS = st.sampled_from((0, 1600, 1699, 1700, 2023, 2024, 2199, 2200))
_FRACTIONS = st.sampled_from(("", "", ".", ".5", ".123456789", ".1234567890", ".12é"))
_ZONES = st.sampled_from(("Z", "Z", "Z", "z", "+02:00", "-23:59", "+24:00", ""))
_times = st.builds(
    lambda year, month, day, hour, minute, second, fraction, zone: (
        f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}{fraction}{zone}"
    ),
    _YEARS,
    *_NUMBERS,
    _FRACTIONS,
    _ZONES,
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(_times | st.sampled_from(TIMES) | st.text(max_size=31), max_size=20), st.sampled_from((0, 1, 3))
)
def test_times_are_told_as_by_the_pattern(texts: list[str], offset: int) -> None:
    found = pa.array(texts, pa.large_string()).slice(offset)
    by_pattern = pc.match_substring_regex(found, eventtimes._USUAL).to_pylist()
    assert eventtimes.usual(found).tolist() == by_pattern


@pytest.mark.parametrize("month", range(1, 13))
def test_every_day_of_a_common_year_is_usual_and_no_other(month: int) -> None:
    texts = [f"2026-{month:02d}-{day:02d}T00:00:00Z" for day in range(33)]
    found = eventtimes.usual(pa.array(texts, pa.large_string())).tolist()
    last = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]
    assert found == [1 <= day <= last for day in range(33)]
