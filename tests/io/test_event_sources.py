"""Where events are read from, and what is said of files that are torn, damaged, empty or shared."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from afnb.core.eventlog import EventLog, read_lines
from afnb.errors import InputError, ParameterError
from afnb.io.events import read_events
from afnb.io.eventwrite import write_events
from afnb.tables.events import event_log, event_problems
from afnb.tables.validate import validate

from .event_lines import RUN, good_line

OTHER = "00000000-0000-4000-8000-000000000002"


def write(path: Path, *lines: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def problems(events: pa.Table) -> list[tuple[str, str, int | None]]:
    return [(row["level"], row["rule"], row["line"]) for row in event_problems(events).to_pylist()]


def places(events: pa.Table) -> list[tuple[str, int, int]]:
    rows = events.select(["file", "line", "seq"]).to_pylist()
    return [(os.path.basename(row["file"]), row["line"], row["seq"]) for row in rows]


def test_files_folders_and_patterns_are_read_in_path_order(tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", good_line(3))
    write(tmp_path / "a" / "z.jsonl", good_line(1), good_line(2))
    (tmp_path / "a" / "y.json.gz").write_bytes(gzip.compress(b"[" + good_line(0) + b"]"))
    write(tmp_path / "notes.txt", b"not a log")
    write(tmp_path / ".hidden.jsonl", b"not a log")
    wanted = [("y.json.gz", 1, 0), ("z.jsonl", 1, 1), ("z.jsonl", 2, 2), ("b.jsonl", 1, 3)]
    assert places(read_events(tmp_path)) == wanted
    assert places(read_events([tmp_path / "b.jsonl", str(tmp_path / "a")])) == wanted
    assert places(read_events(f"{tmp_path}/**/*.json*")) == wanted
    assert places(read_events([f"{tmp_path}/*.jsonl", tmp_path / "b.jsonl"])) == wanted[3:]


def test_a_name_with_a_bracket_is_a_file_before_it_is_a_pattern(tmp_path: Path) -> None:
    path = write(tmp_path / "run[1].jsonl", good_line(0))
    assert read_events(path).num_rows == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing.jsonl", "no such file"),
        ("*.jsonl", "no file matches this pattern"),
        ("empty", "there are no event logs in this folder; expected names in .jsonl"),
    ],
)
def test_what_is_not_there_is_an_error(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=said) as caught:
        read_events(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize("odd", [7, [7], b"x.jsonl", [None]])
def test_what_is_no_source_is_an_error(odd: Any) -> None:
    with pytest.raises(ParameterError, match="expected"):
        read_events(odd)


def test_open_files_of_any_kind(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", good_line(0), good_line(1))
    with open(path, "rb") as binary, open(path, encoding="utf-8") as text:
        events = read_events([binary, text, io.BytesIO(path.read_bytes()), io.StringIO(path.read_text())])
    assert events.column("seq").to_pylist() == [0, 1] * 4
    assert events.column("file").to_pylist() == [str(path)] * 4 + [None] * 4

    class Reader:
        """No more than a read method, which gives less than it is asked for."""

        def __init__(self) -> None:
            self.rest = path.read_bytes()

        def read(self, size: int = -1) -> bytes:
            size = min(3, size)
            self.rest, data = self.rest[size:], self.rest[:size]
            return data

    assert read_events(Reader()).column("seq").to_pylist() == [0, 1]


def frames(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor()
    return compressor.compress(data[:70]) + compressor.compress(data[70:])


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress, frames])
def test_compression_is_told_by_the_bytes_and_damage_is_said(pack: Any, tmp_path: Path) -> None:
    data = b"".join(good_line(n) + b"\n" for n in range(3000))
    path = tmp_path / "log"
    path.write_bytes(pack(data))
    events = read_events(path)
    assert events.num_rows == 3000
    assert problems(events) == []
    path.write_bytes(pack(data)[:-20])
    cut = read_events(path)
    assert problems(cut)[-1][:2] == ("error", "damaged_file")
    assert "cut off" in event_problems(cut).to_pylist()[-1]["message"]
    assert cut.column("seq").to_pylist() == list(range(cut.num_rows))
    assert not validate(cut).ok
    path.write_bytes(pack(data)[:9] + b"????" + pack(data)[13:])
    assert "damaged_file" in [rule for _, rule, _ in problems(read_events(path))]


def test_a_tail_cut_inside_a_character_is_left_out_and_the_rest_kept(tmp_path: Path) -> None:
    whole = [good_line(n) for n in range(3)]
    last = good_line(3, event={"kind": "RunFailed", "payload": {"error": "no €"}}).replace(
        b"\\u20ac", "€".encode()
    )
    path = tmp_path / "live.jsonl"
    path.write_bytes(b"\n".join([*whole, last[: last.index("€".encode()) + 1]]))
    events = read_events(path)
    assert events.column("seq").to_pylist() == [0, 1, 2]
    (row,) = event_problems(events).to_pylist()
    assert (row["level"], row["rule"], row["line"]) == ("warning", "unfinished_tail", 4)
    assert f"{last.index('€'.encode()) + 1} bytes from byte {sum(map(len, whole)) + 3}" in row["message"]
    path.write_bytes(b"\n".join([*whole, last, b""]))  # the writer went on
    again = read_events(path)
    assert (again.num_rows, problems(again)) == (4, [])


def test_every_cut_of_a_file_reads_as_the_single_log_reader_reads_it() -> None:
    data = b"".join(good_line(n, x="é") + b"\n" for n in range(3))
    for cut in range(len(data) + 1):
        events = read_events(io.BytesIO(data[:cut]))
        content = read_lines(data[:cut])
        assert events.num_rows == len(content.rows)
        rules = [rule for _, rule, _ in problems(events) if rule != "no_events"]
        assert rules == [warning.code for warning in content.warnings]
        assert all(level == "warning" for level, _, _ in problems(events))


def test_a_broken_line_in_the_middle_is_an_error_and_the_rest_is_kept(tmp_path: Path) -> None:
    broken = good_line(1)[:95]
    path = write(tmp_path / "a.jsonl", good_line(0), broken, good_line(2))
    events = read_events(path)
    assert events.column("line").to_pylist() == [1, 3]
    (row,) = event_problems(events).to_pylist()
    assert (row["line"], row["byte"], row["run_id"], row["seq"]) == (2, len(good_line(0)) + 1, RUN, 1)
    report = validate(events)
    assert [(v["index"], v["rule"], v["line"]) for v in report.violations.to_pylist()] == [
        (0, "missing_head", 1)
    ]


@pytest.mark.parametrize("tail", [b"hello", b'{"run_id":7}', b'"text', b"\xff"])
def test_a_last_line_that_is_no_cut_envelope_is_an_error(tail: bytes) -> None:
    events = read_events(io.BytesIO(good_line(0) + b"\n" + tail))
    assert [level for level, _, _ in problems(events)] == ["error"]


def test_a_whole_last_line_without_newline_counts_and_is_remarked() -> None:
    events = read_events(io.BytesIO(good_line(0) + b"\n" + good_line(1)))
    assert events.num_rows == 2
    assert problems(events) == [("warning", "no_final_newline", 2)]


def test_lines_end_at_lf_only_and_a_return_before_it_does_no_harm() -> None:
    text = "a\u2028b\u2029c\u0085d\x0be"
    line = good_line(0, event={"kind": "RunFailed", "payload": {"error": text}})
    raw = line.replace(json.dumps(text).encode(), json.dumps(text, ensure_ascii=False).encode())
    for data in (raw + b"\n", raw + b"\r\n", b"\n \n" + raw + b"\n\t\r\n\n"):
        events = read_events(io.BytesIO(data))
        assert problems(events) == []
        assert [json.loads(p)["error"] for p in events.column("payload").to_pylist()] == [text]


def test_a_line_longer_than_a_read_loads_beside_short_ones() -> None:
    long = good_line(1, event={"kind": "RunCompleted", "payload": {"output": "x" * 5_000_000}})
    events = read_events(io.BytesIO(b"\n".join([good_line(0), long, good_line(2), long])))
    assert [len(p) for p in events.column("payload").to_pylist()] == [11, 5_000_013, 11, 5_000_013]


def test_an_empty_file_is_no_rows_and_a_note(tmp_path: Path) -> None:
    for data in (b"", b"\n\n", b"[]", b" [ ] "):
        path = tmp_path / "a.jsonl"
        path.write_bytes(data)
        events = read_events([path, write(tmp_path / "b.jsonl", good_line(0))])
        assert events.num_rows == 1
        assert [row[:2] for row in problems(events)] == [("warning", "no_events")]
        assert validate(events).files == 2


def test_runs_may_be_interleaved_and_one_run_in_two_files_is_remarked(tmp_path: Path) -> None:
    write(
        tmp_path / "a.jsonl",
        good_line(0),
        good_line(0, run_id=OTHER),
        good_line(1),
        good_line(1, run_id=OTHER),
    )
    write(tmp_path / "b.jsonl", good_line(2), good_line(0, run_id=f"{{{OTHER[:-1].upper()}3}}"))
    events = read_events(tmp_path)
    (row,) = event_problems(events).to_pylist()
    assert (row["rule"], row["level"], row["run_id"], row["line"]) == ("run_in_two_files", "warning", RUN, 1)
    assert row["file"].endswith("b.jsonl")
    assert "a.jsonl as well" in row["message"]
    assert event_log(events, RUN).envelopes == tuple(e for e in event_log(events, RUN))
    assert [e.seq for e in event_log(events, RUN)] == [0, 1, 2]
    assert [e.seq for e in event_log(events, f"{OTHER[:-1]}3")] == [0]
    assert event_log(events, OTHER).lines == (2, 4)
    with pytest.raises(InputError, match=r"the table holds 3 runs; name one with run_id="):
        event_log(events)
    with pytest.raises(InputError, match="there is no run"):
        event_log(events, OTHER[:-1] + "9")


def pretty(*lines: bytes) -> bytes:
    return json.dumps([json.loads(line) for line in lines], indent=2).encode()


def test_an_array_may_be_pretty_printed_and_its_lines_are_known() -> None:
    data = pretty(good_line(0), good_line(1, x=[1, 2]), good_line(2))
    events = read_events(io.BytesIO(data))
    assert events.column("seq").to_pylist() == [0, 1, 2]
    lines = data.split(b"\n")
    assert all(lines[line - 1] == b"  {" for line in events.column("line").to_pylist())
    assert json.loads(events.column("payload").to_pylist()[1]) == {"value": 1}
    assert events.column("extra").to_pylist() == [None, '{"envelope":{"x":[1,2]}}', None]
    assert len(EventLog.from_bytes(data)) == 3
    out = io.BytesIO(b"".join(line.encode() + b"\n" for line in event_log(events).to_wire()))
    assert read_events(out).num_rows == 3


def test_a_bad_element_of_an_array_is_left_out_and_the_rest_kept() -> None:
    bad = good_line(1).replace(b'"value":1', b'"value":1e400')
    lone = good_line(2, x="\ud800")
    kind = good_line(3, event={"kind": "Nothing", "payload": {}})
    data = b"[\n" + b",\n".join([good_line(0), bad, lone, b"7", kind, good_line(4)]) + b"\n]\n"
    events = read_events(io.BytesIO(data))
    assert events.column("seq").to_pylist() == [0, 4]
    assert events.column("line").to_pylist() == [2, 7]
    assert problems(events) == [
        ("error", "bad_envelope", 3),
        ("error", "bad_envelope", 4),
        ("error", "bad_envelope", 5),
        ("error", "unknown_kind", 6),
    ]
    starts = [data.index(line) for line in (bad, lone, b"\n7", kind)]
    assert event_problems(events).column("byte").to_pylist() == [
        starts[0],
        starts[1],
        starts[2] + 1,
        starts[3],
    ]


def test_a_torn_array_keeps_what_is_whole() -> None:
    data = b"[" + b",\n".join([good_line(0), good_line(1), good_line(2)]) + b"]"
    second = data.index(b'"seq":1')
    for cut, rows in ((second, 1), (data.index(b"\n", second), 2), (len(data) - 1, 3), (len(data) - 5, 2)):
        events = read_events(io.BytesIO(data[:cut]))
        assert events.num_rows == rows
        assert [row[:2] for row in problems(events)] == [("warning", "unfinished_tail")]
    for broken, message in (
        (data.replace(b",\n", b"\n", 1), "expected ',' or ']'"),
        (data.replace(b'"seq":1', b'"seq" 1'), "Expecting ':' delimiter"),
        (data + b"x", "text after the array"),
        (data.replace(b'"seq":1', b'"seq":' + b"[" * 100_000), "nested too deeply"),
        (data.replace(b'"seq":2', b'"x":"\xff","seq":2'), "not UTF-8: byte 0xff"),
    ):
        events = read_events(io.BytesIO(broken))
        found = event_problems(events).to_pylist()
        assert found[0]["level"] == "error"
        assert message in found[0]["message"]
        assert events.num_rows in (1, 2, 3)


def test_envelopes_in_array_form_are_read_one_a_line_or_in_an_array() -> None:
    forms = [
        json.dumps(list(json.loads(good_line(n)).values()), separators=(",", ":")).encode() for n in range(3)
    ]
    for data in (b"\n".join([*forms, b""]), b"[" + b",".join(forms) + b"]"):
        events = read_events(io.BytesIO(data))
        assert events.column("seq").to_pylist() == [0, 1, 2]
        assert problems(events) == []


def test_tables_are_read_back_with_their_problems(tmp_path: Path) -> None:
    events = read_events(write(tmp_path / "a.jsonl", good_line(0), b"nonsense"))
    for name in ("a.parquet", "a.arrow"):
        write_events(events, tmp_path / name)
        again = read_events(tmp_path / name)
        assert again.equals(events) or name == "a.parquet"
        assert again.to_pylist() == events.to_pylist()
        assert event_problems(again).equals(event_problems(events))
        with open(tmp_path / name, "rb") as file:
            assert read_events(file).to_pylist() == events.to_pylist()
        both = read_events([tmp_path / name, tmp_path / "a.jsonl"])
        assert both.num_rows == 2
        with pytest.raises(ParameterError, match="overwrite=True"):
            write_events(events, tmp_path / name)
        write_events(events.slice(0, 0), tmp_path / name, overwrite=True)
        assert read_events(tmp_path / name).num_rows == 0


def test_a_table_of_something_else_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="it is a table, but none of events"):
        read_events(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1nonsense")
    with pytest.raises(InputError, match="the table cannot be read"):
        read_events(tmp_path / "b.parquet")
    with pytest.raises(ParameterError, match=r"expected a name that ends in \.jsonl"):
        write_events(EventLog(None), tmp_path / "a.csv")


def test_problems_travel_with_slices_and_filters() -> None:
    events = read_events(io.BytesIO(good_line(0) + b"\nnonsense\n" + good_line(1) + b"\n"))
    for part in (events.slice(1), events.filter(pa.array([True, False])), events.select(events.column_names)):
        assert event_problems(part).num_rows == 1
        assert not validate(part).ok


def test_a_file_whose_first_read_fails_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(file: Any) -> Any:
        raise OSError(5, "Input/output error")

    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x")
    monkeypatch.setattr("afnb.io.eventsources._plain", broken)
    with pytest.raises(InputError, match=r"a\.jsonl.*cannot be read: Input/output error"):
        read_events(path)
