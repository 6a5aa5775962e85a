from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from afnb.core.cursor import ReplayCursor
from afnb.core.eventlog import EventLog
from afnb.errors import EventError, InputError
from afnb.io.formats.eventlog import read_log
from afnb.io.load import load
from afnb.testing import logs

SCRIPT = (logs.Step("begin", {"agent_def_hash": "h"}, 1), logs.Step("random", {}, 2**64 - 1))


def log_of(run_id: str = logs.RUN_ID) -> EventLog:
    return EventLog.from_envelopes(logs.drive(ReplayCursor(), SCRIPT, run_id=run_id))


def save(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_log_is_found_out_whatever_its_form(tmp_path: Path) -> None:
    log = log_of()
    lines = log.to_bytes()
    array = b"[" + b",".join(lines.splitlines()) + b"]"
    fields = b'["' + logs.RUN_ID.encode() + b'",0,1,"2026-07-09T12:00:00Z",["NodeEntered",{"node":"n"}]]\n'
    assert load(save(tmp_path / "a.jsonl", lines)) == log
    assert load(save(tmp_path / "a.json", array)) == log
    assert load(save(tmp_path / "a.jsonl.gz", gzip.compress(lines))) == log
    assert read_log(tmp_path / "a.jsonl.gz") == log == read_log(lines)
    assert isinstance(load(save(tmp_path / "fields.jsonl", fields)), EventLog)
    torn = load(save(tmp_path / "torn.jsonl", lines[:-9]))
    assert torn == log.prefix(1)
    assert [w.code for w in torn.warnings] == ["unfinished_tail"]


def test_the_outcome_is_the_users_and_survives(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", log_of().to_bytes())
    assert load(path).outcome is None
    failed = load(path, outcome="fail")
    assert isinstance(failed, EventLog)
    assert (failed.outcome, failed.prefix(1).outcome) == ("fail", "fail")


def test_one_of_several_runs_is_taken_by_name(tmp_path: Path) -> None:
    path = save(tmp_path / "two.jsonl", log_of().to_bytes() + log_of(logs.OTHER_RUN_ID).to_bytes())
    with pytest.raises(InputError, match=r"two\.jsonl: 2 runs .*run_id=.*read_events"):
        load(path)
    assert load(path, run_id=logs.OTHER_RUN_ID.upper()).id == logs.OTHER_RUN_ID
    with pytest.raises(InputError, match="there is no run"):
        load(path, run_id="00000000-0000-4000-8000-000000000009")


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        (b'"seq":0,', "nearest is an event log, but its first event has no seq"),
        (b'"schema_version":1,', "nearest is an event log, but its first event has no schema_version"),
    ],
)
def test_what_nearly_is_a_log_is_told_what_it_lacks(tmp_path: Path, cut: bytes, why: str) -> None:
    path = save(tmp_path / "a.jsonl", log_of().to_bytes().replace(cut, b""))
    with pytest.raises(InputError, match=why):
        load(path)


def test_a_broken_log_is_still_a_log(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", log_of().to_bytes().replace(b"RandomObserved", b"RandomSeen"))
    with pytest.raises(EventError, match=r'a\.jsonl:2: found "RandomSeen"') as caught:
        load(path)
    assert caught.value.rule == "unknown_kind"
