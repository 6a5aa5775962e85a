"""One run's log on disk: one writer, whole lines, a stated fsync policy, and ways to settle a run."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from afnb.core import events as ev
from afnb.core.eventlog import EventLog
from afnb.core.instants import Instant
from afnb.errors import EventError, InputError, NeedsReconciliation, ParameterError
from afnb.io import eventfile
from afnb.io.context import AgentContext
from afnb.io.eventfile import EventFile
from afnb.io.executors import Tool
from afnb.io.logged import LoggedAgent, abandon_run, record_output, system_bits, wall_clock

RUN = "00000000-0000-4000-8000-000000000001"
OTHER = "00000000-0000-4000-8000-000000000002"


def envelope(seq: int, event: ev.Event, run_id: str = RUN) -> ev.Envelope:
    return ev.Envelope(run_id, seq, Instant(seq), event)


HEAD = envelope(0, ev.RunStarted("h", "hi"))
DRAW = envelope(1, ev.RandomObserved(2**64 - 1))
WRITE = envelope(1, ev.ToolCallRequested(1, "pay", 7, "write"))
READ = envelope(1, ev.ToolCallRequested(1, "look", 7, "read"))


def write(path: Path, *events: ev.Envelope) -> Path:
    path.write_bytes(EventLog.from_envelopes(events).to_bytes())
    return path


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the calls of fsync; the first entry is how many there were."""
    count = [0]

    def fsync(fd: int) -> None:
        count[0] += 1

    monkeypatch.setattr(eventfile.os, "fsync", fsync)
    return count


def test_what_is_appended_is_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with EventFile(path) as file:
        assert len(file.log) == 0
        for event in (HEAD, DRAW):
            file.append(event)
            assert EventLog.from_bytes(path.read_bytes()).envelopes[-1] == event
        assert file.events().envelopes == (HEAD, DRAW)
    with EventFile(path) as file:
        assert file.log.envelopes == (HEAD, DRAW)
        assert file.log.warnings == ()


@pytest.mark.parametrize("fsync", ["always", "batch", "never"])
def test_the_fsync_policy_is_kept(tmp_path: Path, synced: list[int], fsync: Any) -> None:
    def body(ctx: AgentContext) -> Any:
        ctx.random()
        seen.append(synced[0])
        return ctx.tool_call("look", 1)

    def look(value: Any) -> Any:
        seen.append(synced[0])
        return value

    seen: list[int] = []
    run = LoggedAgent(body, tools=[Tool(look, "read")]).run(tmp_path / "run.jsonl", fsync=fsync)
    assert len(run.log) == 5
    folder = 0 if fsync == "never" else 1
    # Synced before the first call, in the call (head, draw and intent are on disk), and at the end.
    expected = {"always": (2, 3, 5), "batch": (0, 1, 2), "never": (0, 0, 0)}[fsync]
    assert [n - folder for n in (*seen, synced[0])] == list(expected)


def test_an_unfinished_last_line_is_cut_off_and_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", HEAD, DRAW)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with EventFile(path) as file:
        assert file.log.envelopes == (HEAD,)
        assert file.log.warnings[0].code == "unfinished_tail"
        file.append(DRAW)
    assert path.read_bytes() == whole


def test_a_whole_last_line_without_newline_is_kept_and_finished(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", HEAD, DRAW)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with EventFile(path) as file:
        assert [w.code for w in file.log.warnings] == ["no_final_newline"]
        file.append(envelope(2, ev.RunFailed("x")))
    assert path.read_bytes().startswith(whole)
    assert len(EventLog.from_bytes(path.read_bytes())) == 3


def test_only_one_run_appends_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with EventFile(path), pytest.raises(InputError, match=r"run\.jsonl: another run is appending"):
        EventFile(path)
    file = EventFile(path)
    file.close()
    file.close()
    EventFile(path).close()


def test_what_is_no_log_of_one_run_is_left_alone(tmp_path: Path) -> None:
    two = write(tmp_path / "two.jsonl", HEAD, envelope(0, ev.RunStarted("h", 1), OTHER))
    array = tmp_path / "array.json"
    array.write_text("[" + ",".join(EventLog.from_envelopes((HEAD,)).to_wire()) + "]\n")
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b"{}\n" + two.read_bytes())
    for path, error, why in (
        (two, InputError, "holds 2 runs"),
        (array, EventError, r"array\.json:1"),
        (broken, EventError, r"broken\.jsonl:1: .*starts at byte 0"),
        (tmp_path, InputError, "cannot be opened"),
        (tmp_path / "no" / "folder.jsonl", InputError, "cannot be opened: No such file"),
    ):
        before = path.read_bytes() if path.is_file() else None
        for _ in range(2):
            with pytest.raises(error, match=why):
                EventFile(path)
        assert (path.read_bytes() if path.is_file() else None) == before
    with pytest.raises(ParameterError, match="one of always, batch, never"):
        EventFile(tmp_path / "x.jsonl", "sometimes")  # type: ignore[arg-type]


def test_a_full_disk_leaves_whole_lines_and_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.jsonl"
    real, made = os.write, []

    def full(fd: int, data: Any) -> int:
        if b'"seq":3,' in bytes(data):
            real(fd, bytes(data)[:30])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, bytes(data)[:50])  # the system may write less than it was given

    def body(ctx: AgentContext) -> Any:
        ctx.random()
        try:
            ctx.tool_call("look", 1)
        except OSError:
            made.append("swallowed")
        return ctx.random()

    agent = LoggedAgent(body, tools=[Tool(lambda value: value, "read", name="look")], definition="v1")
    with monkeypatch.context() as patch:
        patch.setattr(eventfile.os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            agent.run(path, run_id=RUN)
    assert made == ["swallowed"]
    left = EventLog.from_bytes(path.read_bytes())
    assert left.warnings == ()
    assert [e.event.kind for e in left] == ["RunStarted", "RandomObserved", "ToolCallRequested"]
    assert agent.run(path).status == "completed"


def test_what_cannot_be_written_is_not(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with EventFile(path) as file:
        with pytest.raises(ParameterError):
            file.append(envelope(0, ev.RunStarted("h", float("nan"))))
        assert path.read_bytes() == b""
        file.append(HEAD)
    assert EventLog.from_bytes(path.read_bytes()).envelopes == (HEAD,)


def test_a_dangling_write_is_settled_by_its_output(tmp_path: Path) -> None:
    path = write(tmp_path / "run.jsonl", HEAD, WRITE)
    agent = LoggedAgent(lambda ctx: ctx.tool_call("pay", 7, effect="write"), definition="h")
    with pytest.raises(NeedsReconciliation, match="'pay' at seq 1"):
        agent.run(path)
    log = record_output(path, {"id": 9}, clock=lambda: Instant(9))
    assert log.envelopes[-1] == ev.Envelope(RUN, 2, Instant(9), ev.ToolCallCompleted(1, {"id": 9}))
    assert log.violation() is None
    assert agent.run(path).output == {"id": 9}
    for not_dangling in (path, write(tmp_path / "head.jsonl", HEAD), tmp_path / "none.jsonl"):
        with pytest.raises(ParameterError, match="does not end in a tool call"):
            record_output(not_dangling, 1)


def test_a_run_is_given_up_with_its_write_named(tmp_path: Path) -> None:
    log = abandon_run(write(tmp_path / "run.jsonl", HEAD, WRITE), "nobody knows")
    assert log.envelopes[-1].event == ev.RunAbandoned("nobody knows", ev.UnresolvedWrite(1, "pay"))
    assert log.violation() is None
    plain = abandon_run(write(tmp_path / "plain.jsonl", HEAD, DRAW))
    assert plain.envelopes[-1].event == ev.RunAbandoned()
    assert plain.violation() is None
    with pytest.raises(ParameterError, match=r"can be made again \(ToolCallRequested at seq 1\)"):
        abandon_run(write(tmp_path / "read.jsonl", HEAD, READ))
    for path in (tmp_path / "run.jsonl", tmp_path / "none.jsonl"):
        with pytest.raises(ParameterError, match="holds no run that goes on"):
            abandon_run(path)


def test_time_and_bits_come_from_the_system() -> None:
    assert Instant.parse("2024-01-01T00:00:00Z") < wall_clock() < Instant.parse("2200-01-01T00:00:00Z")
    draws = {system_bits() for _ in range(8)}
    assert len(draws) == 8
    assert all(0 <= bits < 2**64 for bits in draws)
