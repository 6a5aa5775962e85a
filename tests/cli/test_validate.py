"""``afnb validate``: what it prints, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from afnb.cli import main
from afnb.core import events as ev
from afnb.core.eventlog import EventLog
from afnb.core.instants import Instant

RUN = "00000000-0000-4000-8000-000000000001"
GOOD = EventLog.from_envelopes(
    ev.Envelope(RUN, n, Instant(0), e) for n, e in enumerate((ev.RunStarted("h", None), ev.RunFailed("x")))
)
GAP = EventLog.from_envelopes((GOOD.envelopes[0], ev.Envelope(RUN, 2, Instant(0), ev.RunFailed("x"))))


def put(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "log.jsonl"
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize(
    ("data", "status", "said"),
    [
        (GOOD.to_bytes(), 0, "The run is well formed."),
        (GOOD.to_bytes() + GOOD.to_bytes()[:80], 0, "unfinished_tail"),
        (GAP.to_bytes(), 1, "non_contiguous"),
        (GOOD.to_bytes() + b"nonsense\n", 2, "1 line could not be read"),
        (b"", 0, "There are no events in these logs."),
    ],
)
def test_the_exit_status_says_what_was_found(
    data: bytes, status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", put(tmp_path, data)]) == status
    out, err = capsys.readouterr()
    assert said in out
    assert err == ""


def test_a_file_that_is_not_there_is_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", str(tmp_path / "nothing.jsonl")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"afnb: {tmp_path / 'nothing.jsonl'}: no such file; check the path\n"


def test_json_and_tables_for_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(tmp_path, GAP.to_bytes())
    assert main(["validate", path, "--json", "--out", str(tmp_path / "out")]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["afnb"], document["broken"], document["by_rule"]) == (
        "validation",
        1,
        {"non_contiguous": 1},
    )
    assert document["violations"][0]["line"] == 2
    assert pq.read_table(tmp_path / "out" / "violations.parquet").num_rows == 1
    assert pq.read_table(tmp_path / "out" / "problems.parquet").num_rows == 0
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == document


def test_one_run_a_file_can_be_asked_for(tmp_path: Path) -> None:
    other = EventLog.from_envelopes(
        ev.Envelope(f"{RUN[:-1]}2", e.seq, e.recorded_at, e.event) for e in GOOD.envelopes
    )
    path = put(tmp_path, GOOD.to_bytes() + other.to_bytes())
    assert main(["validate", path]) == 0
    assert main(["validate", path, "--one-run-per-file"]) == 1
