"""`validate_files` finds what `validate` finds on the same logs read as a whole, however they are cut."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from afnb.core import events as ev
from afnb.core.eventlog import EventLog
from afnb.core.instants import Instant
from afnb.core.wire import write_envelope
from afnb.errors import InputError, ParameterError
from afnb.io import validate_files as room
from afnb.io.events import read_events
from afnb.io.eventwrite import write_events
from afnb.io.validate_files import validate_files
from afnb.tables.validate import validate
from afnb.tables.validation import ValidationReport
from afnb.testing import logs

from .event_lines import RUN, good_line, odd_lines

TIMES, SHARED = "time_out_of_range", "run_in_two_files"  # what a check has no use for, the latter per file


def found(report: ValidationReport) -> dict[str, Any]:
    """What a report says, apart from what only a table has to say."""
    unsaid = {TIMES, SHARED} if report.one_run_per_file else {TIMES}
    problems = [row for row in report.problems.to_pylist() if row["rule"] not in unsaid]
    return {
        "violations": report.violations.to_pylist(),
        "problems": sorted(problems, key=lambda row: (row["file"] or "", row["line"] or 0, row["rule"])),
        "counts": (report.runs, report.events, report.files, report.errors),
        "ok": report.ok,
    }


@st.composite
def files(draw: st.DrawFn) -> list[bytes]:
    """Files of several runs, of any shape, interleaved, with odd lines between."""
    whole: list[bytes] = []
    for _ in range(draw(st.integers(1, 3))):
        lines: list[bytes] = []
        for log in draw(st.lists(logs.any_logs(max_size=5), max_size=3)):
            number = draw(st.integers(0, 3))
            run_id = f"00000000-0000-4000-8000-{number:012}"
            lines += [
                write_envelope(ev.Envelope(run_id, e.seq, e.recorded_at, e.event, e.schema_version)).encode()
                for e in log
            ]
        lines = draw(st.permutations(lines)) if draw(st.booleans()) else lines
        if draw(st.booleans()):
            lines.insert(draw(st.integers(0, len(lines))), draw(odd_lines()))
        if draw(st.sampled_from((False, False, True))):
            lines.insert(draw(st.integers(0, len(lines))), good_line(1)[:100])
        whole.append(b"\n".join(lines) + (b"\n" if draw(st.booleans()) else b""))
    return whole


@settings(max_examples=150)
@given(files(), st.sampled_from((30, 100, 200, 700, 10**9)), st.booleans())
def test_ranges_of_any_size_give_the_same_report(contents: list[bytes], size: int, per_file: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for number, content in enumerate(contents):
            Path(folder, f"{number}.jsonl").write_bytes(content)
        patch.setattr(room, "PIECE_BYTES", size)
        patch.setattr("afnb.io.events.STRETCH_BYTES", min(size, 2 << 20))
        whole = found(validate(read_events(folder), per_file))
        for row in whole["violations"]:
            event(row["rule"])
        assert found(validate_files(folder, per_file, n_jobs=1)) == whole


def runs(count: int, first: int = 0) -> list[bytes]:
    """Lines of interleaved runs, every seventh of them broken."""
    events: list[ev.Event] = [
        ev.RunStarted("h", "x" * 300),
        ev.ModelCallRequested(1, "r"),
        ev.ModelCallCompleted(1, "y" * 200, ev.TokenUsage(1, 2)),
        ev.RunCompleted(None),
    ]
    lines = []
    for seq, one in enumerate(events):
        for n in range(first, first + count):
            wrong = n % 7 == 0 and seq == 2
            run_id = f"00000000-0000-4000-8000-{n:012}"
            lines.append(write_envelope(ev.Envelope(run_id, seq + wrong, Instant(0), one)).encode() + b"\n")
    return lines


def test_workers_find_what_one_process_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(runs(300))
    (tmp_path / "a.jsonl").write_bytes(data)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b"".join(runs(50, 290))))
    (tmp_path / "c.jsonl").write_bytes(b"")
    monkeypatch.setattr(room, "PIECE_BYTES", 40_000)
    one = validate_files(tmp_path, n_jobs=1)
    two = validate_files([tmp_path, io.BytesIO(data[:3000])], n_jobs=2)
    assert found(validate_files(tmp_path, n_jobs=2)) == found(one)
    assert found(one) == found(validate(read_events(tmp_path)))
    assert one.broken >= 300 // 7
    assert one.warnings == 11  # runs in two files, and the empty file
    assert two.events == one.events + 6 + 0
    assert not one.ok


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.json", "a.parquet", "a.arrow"])
@pytest.mark.parametrize("per_file", [False, True])
def test_every_form_of_a_file_is_checked_alike(
    name: str, per_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "PIECE_BYTES", 5_000)
    monkeypatch.setattr("afnb.io.events.STRETCH_BYTES", 1_000)
    events = read_events(io.BytesIO(b"".join(runs(20))))
    write_events(events, tmp_path / name)
    report = validate_files(tmp_path / name, per_file)
    whole = validate(read_events(tmp_path / name), per_file)
    mine, theirs = found(report), found(whole)
    if name.endswith(("parquet", "arrow")):  # a table says of each event which file it was read from: none
        mine["counts"], theirs["counts"] = mine["counts"][:2], theirs["counts"][:2]
    assert mine == theirs
    assert report.broken == (1 if per_file else 3)


def test_a_stream_is_checked_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "PIECE_BYTES", 20_000)
    data = b"".join(runs(60))
    report = validate_files(io.BytesIO(data * 3))
    assert (report.events, report.runs, report.broken) == (720, 60, 60)
    rows = report.violations.select(["index", "rule", "line"]).to_pylist()
    assert rows[0] == {"index": 2, "rule": "non_contiguous", "line": 121}
    assert rows[1] == {"index": 4, "rule": "non_contiguous", "line": 242}


def test_problems_are_counted_where_they_are_too_many_to_list() -> None:
    report = validate_files(io.BytesIO(b"nonsense\n" * 5000 + good_line(0)))
    assert (report.errors, report.problems.num_rows, report.ok) == (5000, 1000, False)
    assert report.warnings == 1
    assert "5,000 lines could not be read" in report.to_text()
    assert report.to_json()["errors"] == 5000


def test_a_damaged_file_is_no_well_formed_one(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(json.dumps(json.loads(good_line(0))).encode() + b"\n")[:-6])
    report = validate_files(path)
    assert (report.errors, report.ok) == (1, False)
    assert "damaged_file" in report.problems.column("rule").to_pylist()


@pytest.mark.parametrize("n_jobs", [0, -2])
def test_a_number_of_workers_that_makes_no_sense_is_refused(n_jobs: int) -> None:
    with pytest.raises(ParameterError, match=f"n_jobs is {n_jobs}"):
        validate_files(io.BytesIO(b""), n_jobs=n_jobs)
    with pytest.raises(InputError, match="no such file"):
        validate_files("nothing.jsonl", n_jobs=1)


def test_the_run_id_of_a_file_is_its_first_events(tmp_path: Path) -> None:
    other = RUN[:-1] + "2"
    head = {"kind": "RunStarted", "payload": {"agent_def_hash": "h", "input": 1}}
    write = (tmp_path / "a.jsonl").write_bytes
    write(b"\n".join([good_line(0, event=head), good_line(1), good_line(2, run_id=other), good_line(3)]))
    (row,) = validate_files(tmp_path, one_run_per_file=True).violations.to_pylist()
    assert (row["run_id"], row["index"], row["rule"]) == (RUN, 2, "mixed_run_ids")
    assert other in row["message"]
    assert EventLog.from_bytes((tmp_path / "a.jsonl").read_bytes(), run_id=other).id == other
