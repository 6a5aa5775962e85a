from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afnb.align.deltas import Delta, Deltas, _nanoseconds, deltas
from afnb.align.fork import Fork
from afnb.core.run import Step


def timed(start: str | None, end: str | None) -> Step:
    return Step(0, "llm", "x", t_start=start, t_end=end)


def used(usage: object) -> Step:
    return Step(0, "llm", "x", outputs={"usage": usage})


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)))
def test_times_are_those_of_the_calendar(moment: datetime) -> None:
    text = f"{moment.isoformat()}Z"
    since = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    epoch = _nanoseconds("1970-01-01T00:00:00Z")
    found = _nanoseconds(text)
    assert epoch is not None
    assert found is not None
    assert found - epoch == microseconds * 1000


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("2026-07-09T12:00:00Z", True),
        ("2026-07-09t12:00:00.123456789123z", True),
        ("2026-02-31T00:00:00Z", True),
        ("2026-07-09T12:00:00+00:00", False),
        ("2026-07-09 12:00:00Z", False),
        ("2026-07-09T12:00:00.Z", False),
        ("2026-07-09T24:00:00Z", False),
        ("2026-13-09T12:00:00Z", False),
        ("2026-07-09T12:00:60Z", False),
        ("2026-07-09T12:00:00Z ", False),
        ("2026-07-٠٩T12:00:00Z", False),
        (None, False),
    ],
)
def test_which_times_are_read(text: str | None, reads: bool) -> None:
    assert (_nanoseconds(text) is not None) == reads


def test_whole_run_time_is_first_start_to_last_end() -> None:
    good = [timed("2026-07-09T12:00:00Z", "2026-07-09T12:00:01Z"), timed(None, "2026-07-09T12:00:10.9999Z")]
    bad = [timed("bad", None), timed("2026-07-09T12:00:00Z", "2026-07-09T12:00:15Z")]
    assert deltas(good, bad, None) == Deltas(Delta(15_000 - 10_999, None))


def test_an_end_before_its_start_is_no_time() -> None:
    good = [timed("2026-07-09T12:00:10Z", "2026-07-09T12:00:00Z")]
    assert deltas(good, good, None) is None


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"total_tokens": 5, "prompt_tokens": 100}, 5),
        ({"total_tokens": 3.5, "completion_tokens": 4}, 4),
        ({"prompt_tokens": 3, "completion_tokens": 4}, 7),
        ({"total_tokens": True, "prompt_tokens": 2}, 2),
        ({"total_tokens": 2**63, "prompt_tokens": 2}, 2),
        ({}, None),
        ("x", None),
    ],
)
def test_tokens_of_a_step(usage: object, tokens: int | None) -> None:
    found = deltas([used({"total_tokens": 0})], [used(usage)], None)
    assert (found.total.tokens if found else None) == tokens


def test_usage_in_attrs_counts_for_recorded_steps_only() -> None:
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    recorded = Step(0, "llm", "x", outputs={"text": ""}, attrs={"usage": usage}, exchange=0)
    traced = Step(0, "llm", "x", outputs={"text": ""}, attrs={"usage": usage})
    assert deltas([recorded], [recorded], None) == Deltas(Delta(None, 0))
    assert deltas([traced], [traced], None) is None


def test_at_the_fork_both_sides_are_needed() -> None:
    good, bad = [used({"total_tokens": 1})], [used({"total_tokens": 4})]
    assert deltas(good, bad, Fork(0, 0, 0, 1.0)) == Deltas(Delta(None, 3), Delta(None, 3))
    assert deltas(good, bad, Fork(0, None, 0, 1.0)) == Deltas(Delta(None, 3))
    assert deltas(good, [], Fork(0, 0, None, 1.0)) is None
