"""Logs of the kind that other readers change, lose or choke on: each value comes through or is named."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import pyarrow as pa
import pytest

import afnb
from afnb.core.jsonvalue import loads
from afnb.core.logsteps import run_from_log
from afnb.tables.events import event_log, event_problems
from afnb.tables.schemas import schema

from .event_lines import RUN, good_line

AGENT = {"agent_def_hash": "h", "input": None}


def event(kind: str, **payload: Any) -> dict[str, Any]:
    return {"kind": kind, "payload": payload}


def failed(error: str) -> dict[str, Any]:
    return event("RunFailed", error=error)


def run(number: int, *events: dict[str, Any]) -> bytes:
    """The lines of one run."""
    run_id = f"00000000-0000-4000-8000-{number:012}"
    return b"".join(good_line(n, run_id=run_id, event=e) + b"\n" for n, e in enumerate(events))


def called(output: Any, given: Any = None) -> list[dict[str, Any]]:
    asked = event("ToolCallRequested", seq=1, tool="t", input=given, effect="read", idempotency_key=None)
    return [event("RunStarted", **AGENT), asked, event("ToolCallCompleted", seq=1, output=output)]


def outputs(events: pa.Table) -> list[Any]:
    payloads = events.filter(pa.compute.equal(events["kind"], "ToolCallCompleted")).column("payload")
    return [loads(text)["output"] for text in payloads.to_pylist()]


def test_a_field_that_only_the_bad_run_has_is_kept_whatever_file_comes_first(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        run(1, event("RunStarted", **AGENT), event("RunCompleted", output=None))
    )
    (tmp_path / "b.jsonl").write_bytes(b"")
    (tmp_path / "c.jsonl").write_bytes(run(2, event("RunStarted", **AGENT), failed("boom")))
    (tmp_path / "d.jsonl").write_bytes(good_line(0, run_id=RUN[:-1] + "9", note="late") + b"\n")
    events = afnb.read_events(tmp_path)
    assert events.schema.equals(schema("events"))
    assert [row["rule"] for row in event_problems(events).to_pylist()] == ["no_events"]
    assert events.column("payload").to_pylist()[1::2] == ['{"output":null}', '{"error":"boom"}']
    assert events.column("extra").to_pylist()[-1] == '{"envelope":{"note":"late"}}'
    assert afnb.run_states(events).column("status").to_pylist()[:2] == ["completed", "failed"]


def test_values_of_any_type_stand_in_one_column_of_one_folder(tmp_path: Path) -> None:
    values = [1.0, "C", {"v": 1}, True, None, 0, [{"type": "text", "text": "hi"}], "hi"]
    for n, value in enumerate(values):
        (tmp_path / f"{n}.jsonl").write_bytes(run(n, *called(value, value)))
    found = outputs(afnb.read_events(tmp_path))
    assert [(type(v), v) for v in found] == [(type(v), v) for v in values]


def test_text_of_digits_stays_text_through_every_format(tmp_path: Path) -> None:
    values = ["1344800117571260417", "00010", "10", "1e3", "2024-01-02", "NaN", ""]
    events = afnb.read_events(io.BytesIO(b"".join(run(n, *called(v)) for n, v in enumerate(values))))
    for name in ("a.jsonl", "a.json", "a.parquet", "a.arrow", "a.jsonl.gz"):
        afnb.write_events(events, tmp_path / name)
        assert outputs(afnb.read_events(tmp_path / name)) == values


def test_columns_named_like_times_and_text_that_looks_like_one_are_left_alone() -> None:
    value = {
        "modified": 1700000000,
        "created_at": "2024-01-02",
        "timestamp": 5,
        "date": "2024-01-02T03:04:05Z",
    }
    assert outputs(afnb.read_events(io.BytesIO(run(1, *called(value))))) == [value]


def test_counts_with_gaps_stay_whole_numbers_in_pandas() -> None:
    usage = {"input_tokens": 2**32 - 1, "output_tokens": 0}
    model = event("ModelCallCompleted", seq=2**53 + 1, response=None, usage=usage)
    frame = afnb.to_pandas(afnb.read_events(io.BytesIO(run(1, event("RunStarted", **AGENT), model))))
    assert frame["corr"].tolist() == [pd.NA, 2**53 + 1]
    assert frame["input_tokens"].tolist() == [pd.NA, 2**32 - 1]
    assert {str(frame[name].dtype) for name in ("seq", "corr", "value", "index")} == {"UInt64"}


def test_the_largest_seed_survives_parquet_beside_a_small_one(tmp_path: Path) -> None:
    seeds = [18446744073709551615, 1, 2**53 + 1, 0]
    data = run(1, event("RunStarted", **AGENT), *(event("RandomObserved", value=v) for v in seeds))
    for name in ("a.parquet", "a.arrow", "a.jsonl"):
        afnb.write_events(afnb.read_events(io.BytesIO(data)), tmp_path / name)
        again = afnb.read_events(tmp_path / name)
        assert again.column("value").to_pylist() == [None, *seeds]
        assert [json.loads(text)["value"] for text in again.column("payload").to_pylist()[1:]] == seeds


def test_no_arguments_and_null_stay_different_in_parquet(tmp_path: Path) -> None:
    events = afnb.read_events(io.BytesIO(run(1, *called({}, {})) + run(2, *called(None, None))))
    afnb.write_events(events, tmp_path / "a.parquet")
    again = afnb.read_events(tmp_path / "a.parquet")
    assert outputs(again) == [{}, None]
    assert again.column("payload").to_pylist() == events.column("payload").to_pylist()


def test_keys_with_the_separators_of_other_formats_are_not_merged() -> None:
    value = {"a.b": 1, "a": {"b": 2}, "_id": 3, "x__y": 4, "": 5, "a[0]": 6}
    assert outputs(afnb.read_events(io.BytesIO(run(1, *called(value))))) == [value]


def test_payloads_of_more_than_two_gib_are_grouped_folded_and_taken() -> None:
    """One megabyte stands there 2,200 times, in one piece of memory; any joining would need the memory."""
    text = "x" * 2**20
    one = afnb.read_events(io.BytesIO(run(1, *called(text), event("RunCompleted", output=text))))
    ids = [f"00000000-0000-4000-8000-{n:012}" for n in range(1100)]
    tables = []
    for run_id in ids:
        column = pa.DictionaryArray.from_arrays(
            pa.array([0] * 4, pa.int32()), pa.array([run_id], pa.large_string())
        )
        tables.append(one.set_column(0, one.field("run_id"), column))
    events = pa.concat_tables(tables)
    assert pa.compute.sum(pa.compute.binary_length(events["payload"])).as_py() > 2**31
    before = pa.total_allocated_bytes()
    assert afnb.validate(events).ok
    states = afnb.run_states(events)
    assert set(states.column("status").to_pylist()) == {"completed"}
    log = event_log(events, ids[-1])
    assert log.envelopes[2].event.output == text  # type: ignore[union-attr]
    assert pa.total_allocated_bytes() - before < 2**27
    assert {str(events.schema.field(name).type) for name in ("payload", "recorded_at", "extra")} == {
        "large_string"
    }


def test_times_are_equal_to_the_nanosecond_after_json_and_csv(tmp_path: Path) -> None:
    times = ["2026-07-09T12:00:00.123456789Z", "2026-07-09T12:00:00Z", "2026-07-09T14:00:00.5+02:00"]
    lines = [good_line(n, recorded_at=t) for n, t in enumerate(times)]
    events = afnb.read_events(io.BytesIO(b"\n".join(lines) + b"\n"))
    exact = events.column("recorded_at_ns").cast(pa.int64()).to_pylist()
    afnb.write_events(events, tmp_path / "a.json")
    assert (
        afnb.read_events(tmp_path / "a.json").column("recorded_at_ns").cast(pa.int64()).to_pylist() == exact
    )
    afnb.to_pandas(events).to_csv(tmp_path / "a.csv")
    csv = pd.read_csv(tmp_path / "a.csv", dtype=str)
    assert csv["recorded_at"].tolist() == times
    assert [pd.Timestamp(text).value for text in csv["recorded_at_ns"]] == exact


def scratch(run: afnb.Run) -> int:
    """A judge that uses what it is given as a notebook of its own."""
    values = run.steps[0].outputs
    assert isinstance(values, list)
    values[0] = -1
    return len(values)


@pytest.mark.parametrize("size", [10, 200_000])
def test_a_judge_in_a_worker_may_write_into_what_it_gets_whatever_its_size(size: int) -> None:
    log = event_log(afnb.read_events(io.BytesIO(run(1, *called(list(range(size)))))))
    judged = run_from_log(log)
    work = joblib.delayed(scratch)
    assert joblib.Parallel(2, backend="loky")([work(judged), work(judged)]) == [size, size]
    assert judged.steps[0].outputs[:2] == [0, 1]


@pytest.mark.parametrize("rows", [10, 200_000])
def test_a_frame_may_be_written_to_whatever_its_size_and_the_table_stays_as_it_is(rows: int) -> None:
    events = afnb.read_events(io.BytesIO(run(1, *called(1))))
    events = pa.concat_tables([events] * (rows // 3 + 1)).slice(0, rows).combine_chunks()
    frame = afnb.to_pandas(events)
    frame.loc[0, "seq"] = 77
    assert frame["seq"].tolist()[:2] == [77, 1]
    assert events.column("seq").to_pylist()[:2] == [0, 1]


def test_a_log_that_is_being_written_is_read_again_where_the_first_reading_ended(tmp_path: Path) -> None:
    whole = run(1, event("RunStarted", **AGENT), *called("naïve")[1:], failed("é"))
    path = tmp_path / "live.jsonl"
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        events, report = afnb.read_events(path), afnb.validate_files(path)
        ended = whole[:cut].count(b"\n")
        tails = [r for r in event_problems(events).to_pylist() if r["rule"] == "unfinished_tail"]
        assert report.ok
        if tails:
            assert events.num_rows == ended
            assert tails[0]["byte"] == whole[:cut].rfind(b"\n") + 1
            assert [row["rule"] for row in report.problems.to_pylist()] == ["unfinished_tail"]
