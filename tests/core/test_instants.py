from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core.instants import Instant
from afnb.errors import InputError, ParameterError
from afnb.testing import logs


@pytest.mark.parametrize(
    ("text", "normal", "ns"),
    [
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999999Z", -1),
        ("2026-07-09T12:00:00.120Z", "2026-07-09T12:00:00.12Z", 1783598400120000000),
        ("2026-07-09T12:00:00.000Z", "2026-07-09T12:00:00Z", 1783598400000000000),
        ("2026-07-09t12:00:00z", "2026-07-09T12:00:00Z", 1783598400000000000),
        ("2026-07-09 12:00:00Z", "2026-07-09T12:00:00Z", 1783598400000000000),
        ("2026-07-09T12:00:00+00:00", "2026-07-09T12:00:00Z", 1783598400000000000),
        ("2026-07-09T12:00:00-00:00", "2026-07-09T12:00:00Z", 1783598400000000000),
        ("2026-07-09T17:30:00+05:30", "2026-07-09T17:30:00+05:30", 1783598400000000000),
        ("2026-07-09T11:30:00-00:30", "2026-07-09T11:30:00-00:30", 1783598400000000000),
        ("2026-07-09T12:00:00.1234567891234Z", "2026-07-09T12:00:00.123456789Z", 1783598400123456789),
        ("1677-01-01T00:00:00Z", "1677-01-01T00:00:00Z", -9246096000000000000),
        ("2263-01-01T00:00:00.000000001Z", "2263-01-01T00:00:00.000000001Z", 9246182400000000001),
        ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z", -62167219200000000000),
        ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z", 253402300799999999999),
        ("2026-06-30T23:59:60Z", "2026-06-30T23:59:59.999999999Z", 1782863999999999999),
        ("2026-07-01T01:59:60+02:00", "2026-07-01T01:59:59.999999999+02:00", 1782863999999999999),
        ("2024-02-29T23:59:60.5Z", "2024-02-29T23:59:59.999999999Z", 1709251199999999999),
    ],
)
def test_times_are_exact_and_written_in_one_form(text: str, normal: str, ns: int) -> None:
    instant = Instant.parse(text)
    assert (str(instant), instant.ns, instant.verbatim) == (normal, ns, text)
    assert Instant.parse(normal) == instant
    assert str(Instant.parse(normal)) == normal


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-07-09", "RFC 3339"),
        ("2026-07-09T12:00:00", "offset"),
        ("2026-07-09T12:00Z", "RFC 3339"),
        ("26-07-09T12:00:00Z", "RFC 3339"),
        ("2026-07-09T12:00:00.Z", "RFC 3339"),
        ("2026-07-09T12:00:00Z ", "RFC 3339"),
        ("2026-07-09T12:00:00Z\n", "RFC 3339"),
        ("2026-07-09T12:00:00+0000", "RFC 3339"),
        ("2026-07-09T12:00:00+24:00", "offset 24:00"),
        ("2026-07-09T12:00:00+10:60", "offset 10:60"),
        ("2026-13-09T12:00:00Z", "month 13"),
        ("2026-00-09T12:00:00Z", "month 00"),
        ("2026-02-29T12:00:00Z", "day 29 in month 02"),
        ("1900-02-29T12:00:00Z", "day 29 in month 02"),
        ("2026-07-00T12:00:00Z", "day 00"),
        ("2026-07-09T24:00:00Z", "hour 24"),
        ("2026-07-09T12:60:00Z", "minute 60"),
        ("2026-07-09T12:00:61Z", "second 61"),
        ("2026-07-09T12:00:60Z", "no month ends there"),
        ("2026-06-29T23:59:60Z", "no month ends there"),
        ("2026-06-30T23:59:60+01:00", "no month ends there"),
        ("\u0662026-07-09T12:00:00Z", "RFC 3339"),
        ("x" * 1000, "RFC 3339"),
    ],
)
def test_what_is_no_time_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        Instant.parse(text)
    assert len(str(caught.value)) < 250


@settings(max_examples=200, deadline=None)
@given(logs.instants)
def test_text_and_back_is_the_same_instant_in_the_same_zone(instant: Instant) -> None:
    again = Instant.parse(str(instant))
    assert (again.ns, again.offset_s) == (instant.ns, instant.offset_s)
    assert pickle.loads(pickle.dumps(again)) == again
    assert str(instant.utc()).endswith("Z")


@settings(max_examples=200, deadline=None)
@given(st.dates(), st.times(), st.integers(-1439, 1439))
def test_it_agrees_with_datetime_where_datetime_reaches(day: date, clock: object, minutes: int) -> None:
    assert not isinstance(clock, str)
    value = datetime.combine(day, clock, timezone(timedelta(minutes=minutes)))  # type: ignore[arg-type]
    if not 2 <= value.year <= 9998:
        return
    instant = Instant.parse(value.isoformat())
    assert instant == Instant.from_datetime(value)
    assert instant.ns == (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def test_instants_order_by_the_moment_alone() -> None:
    early, late = Instant.parse("2026-07-09T12:00:00+02:00"), Instant.parse("2026-07-09T11:00:00Z")
    assert early < late
    assert sorted([late, early]) == [early, late]
    assert len({Instant(5), Instant(5, 3600), Instant.parse("1970-01-01T00:00:00.000000005Z")}) == 1


def test_what_no_instant_can_be_is_refused() -> None:
    for make in (
        lambda: Instant(10**23),
        lambda: Instant(-(10**23)),
        lambda: Instant(0, 86_400),
        lambda: Instant(0, 30),
        lambda: Instant.from_datetime(datetime(2026, 1, 1)),
    ):
        with pytest.raises(ParameterError):
            make()
