"""Reading a run's log from a file's bytes: whole, torn, broken, several runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core import events as ev
from afnb.core.cursor import ReplayCursor
from afnb.core.eventlog import EventLog, read_lines
from afnb.core.instants import Instant
from afnb.errors import EventError, InputError, ParameterError
from afnb.testing import logs

RUN, OTHER = logs.RUN_ID, logs.OTHER_RUN_ID
SCRIPT = (
    logs.Step("begin", {"agent_def_hash": "h"}, "refund order 7"),
    logs.Step("random", {}, 2**64 - 1),
    logs.Step("now", {}, Instant(1)),
    logs.Step("complete_run", {"output": "done €"}),
)


def log_of(script: tuple[logs.Step, ...] = SCRIPT, run_id: str = RUN) -> EventLog:
    return EventLog.from_envelopes(logs.drive(ReplayCursor(), script, run_id=run_id))


def test_a_tail_cut_inside_a_character_is_left_out_and_reading_goes_on_from_there() -> None:
    data = log_of().to_bytes()
    cut = data.index("€".encode()) + 2
    content = read_lines(data[:cut], source="live.jsonl")
    assert len(content.rows) == 3
    (warning,) = content.warnings
    assert warning.code == "unfinished_tail"
    assert f"{cut - content.good_bytes} bytes" in warning.message
    rest = read_lines(data[content.good_bytes :])
    assert rest.warnings == ()
    assert tuple(e for _, e in content.rows + rest.rows) == log_of().envelopes


def test_every_cut_of_a_file_loads_as_a_prefix() -> None:
    whole = log_of()
    data = whole.to_bytes()
    for cut in range(len(data) + 1):
        log = EventLog.from_bytes(data[:cut])
        assert log == whole.prefix(len(log))
        lines = data[:cut].split(b"\n")
        whole_lines = len(lines) - 1
        assert len(log) - whole_lines in (0, 1)
        codes = [w.code for w in log.warnings]
        if not lines[-1]:
            assert codes == []
        else:
            assert codes == (["no_final_newline"] if len(log) > whole_lines else ["unfinished_tail"])


def test_a_broken_line_in_the_middle_is_an_error_with_line_and_byte() -> None:
    lines = log_of().to_bytes().splitlines(keepends=True)
    data = lines[0] + lines[1][:40] + b"\n" + lines[2] + lines[3]
    with pytest.raises(
        EventError, match=rf"run\.jsonl:2: not JSON.*starts at byte {len(lines[0])}"
    ) as caught:
        EventLog.from_bytes(data, source="run.jsonl")
    assert caught.value.line == 2
    log = EventLog.from_bytes(data, source="run.jsonl", strict=False)
    assert [e.seq for e in log] == [0, 2, 3]
    assert [w.code for w in log.warnings] == ["unreadable_line"]
    found = log.violation()
    assert found is not None
    assert (found.rule, found.source, found.line) == ("non_contiguous", "run.jsonl", 3)


def test_a_whole_last_line_without_newline_counts_and_is_remarked() -> None:
    log = EventLog.from_bytes(log_of().to_bytes().rstrip(b"\n"))
    assert log == log_of()
    assert log.state.status == "completed"
    assert [w.code for w in log.warnings] == ["no_final_newline"]


@pytest.mark.parametrize("tail", [b"hello", b'{"run_id":7}', b'"text', b"\xff"])
def test_a_last_line_that_is_no_cut_envelope_is_an_error(tail: bytes) -> None:
    with pytest.raises(EventError) as caught:
        EventLog.from_bytes(log_of().to_bytes() + tail)
    assert caught.value.line == 5


@pytest.mark.parametrize("escape", ["\\udcb2", "\\ud800", "\\ud800\\u0041"])
def test_half_a_surrogate_pair_is_refused_with_its_place_or_left_out_with_a_warning(escape: str) -> None:
    data = log_of().to_bytes().replace(b"order 7", f"bad {escape} end".encode())
    with pytest.raises(
        EventError, match=r"a\.jsonl:1: a lone surrogate in the text at event\.payload\.input"
    ):
        EventLog.from_bytes(data, source="a.jsonl")
    log = EventLog.from_bytes(data, source="a.jsonl", strict=False)
    assert len(log) == 3
    assert "lone surrogate" in log.warnings[0].message


def test_lines_end_at_lf_only() -> None:
    script = (SCRIPT[0], logs.Step("fail_run", {"error": "a\u2028b\u2029c\u0085d\x0be\r"}))
    log = log_of(script)
    assert EventLog.from_bytes(log.to_bytes()) == log
    assert EventLog.from_bytes(log.to_bytes().replace(b"\n", b"\r\n")) == log
    assert len(EventLog.from_bytes(b"\n \n" + log.to_bytes() + b"\n\t\n")) == 2


def test_a_line_longer_than_a_read_block_loads() -> None:
    script = (logs.Step("begin", {"agent_def_hash": "h"}, "x" * 3_000_000), SCRIPT[1])
    assert EventLog.from_bytes(log_of(script).to_bytes()) == log_of(script)


def test_several_runs_need_a_choice() -> None:
    mine, other = log_of(), log_of(SCRIPT[:2], OTHER)
    a, b = mine.to_bytes().splitlines(keepends=True), other.to_bytes().splitlines(keepends=True)
    data = a[0] + b[0] + a[1] + b[1] + a[2] + a[3]
    with pytest.raises(InputError, match="2 runs in one log") as caught:
        EventLog.from_bytes(data, source="both.jsonl")
    assert "read_events" in str(caught.value)
    assert "run_id=" in str(caught.value)
    assert str(caught.value).startswith("both.jsonl")
    for run_id in (OTHER, OTHER.upper(), f"{{{OTHER}}}"):
        picked = EventLog.from_bytes(data, run_id=run_id)
        assert picked == other
        assert picked.lines == (2, 4)
    with pytest.raises(InputError, match="there is no run"):
        EventLog.from_bytes(data, run_id="00000000-0000-4000-8000-000000000009")
    with pytest.raises(ParameterError, match="no UUID"):
        EventLog.from_bytes(data, run_id="nine")
    with pytest.raises(InputError, match="2 runs"):
        EventLog.from_wire(data.decode().split("\n"))


def test_lines_of_array_envelopes_are_not_one_array() -> None:
    def as_array(line: str) -> str:
        return json.dumps(list(json.loads(line).values()), ensure_ascii=False)

    data = "".join(as_array(line) + "\n" for line in log_of().to_wire()).encode()
    assert EventLog.from_bytes(data) == log_of()
    both = "[" + ",".join(as_array(line) for line in log_of().to_wire()) + "]"
    assert EventLog.from_bytes(both.encode()) == log_of()


def test_a_byte_order_mark_is_refused_with_file_and_line() -> None:
    with pytest.raises(EventError, match=r"a\.jsonl:1: it starts with a byte order mark"):
        EventLog.from_bytes(b"\xef\xbb\xbf" + log_of().to_bytes(), source="a.jsonl")


def test_nothing_is_an_empty_log() -> None:
    for empty in (b"", b"\n\n", b"[]", b" [ ] "):
        log = EventLog.from_bytes(empty)
        assert (log.id, len(log), log.state.status) == (None, 0, "not_started")
    assert repr(EventLog.from_bytes(b"")) == "<EventLog empty: 0 events, not started>"


def test_a_log_shows_itself_in_a_line() -> None:
    assert repr(log_of()) == f"<EventLog {RUN}: 4 events, completed>"
    cut = EventLog.from_bytes(log_of().to_bytes()[:-30])
    assert repr(cut) == f"<EventLog {RUN}: 3 events, running, 1 warning>"


@settings(max_examples=60, deadline=None)
@given(logs.well_formed_logs(), st.data())
def test_any_cut_of_any_log_is_a_prefix(log: EventLog, data: st.DataObject) -> None:
    content = log.to_bytes()
    cut = content[: data.draw(st.integers(0, len(content)))]
    read = EventLog.from_bytes(cut)
    assert read == log.prefix(len(read))


@pytest.mark.parametrize(
    ("name", "events", "status"),
    [
        ("joseym-salvor__suspend_resume.json", 3, "running"),
        ("joseym-salvor__context_and_usage.json", 7, "running"),
        ("joseym-salvor__failed.json", 3, "failed"),
        ("joseym-salvor__parked_and_terminal.json", 7, "failed"),
    ],
)
def test_the_public_logs_load(shared: Path, name: str, events: int, status: str) -> None:
    log = EventLog.from_bytes((shared / "public" / "salvor" / name).read_bytes(), source=name)
    assert (len(log), log.state.status) == (events, status)
    assert EventLog.from_bytes(log.to_bytes()) == log


def test_envelopes_of_two_runs_are_a_violation() -> None:
    a, b = log_of().envelopes, log_of(run_id=OTHER).envelopes
    found = EventLog.from_envelopes((a[0], b[1])).violation()
    assert found is not None
    assert found.rule == "mixed_run_ids"
    assert isinstance(a[0].event, ev.RunStarted)
