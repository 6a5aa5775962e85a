"""A recording while it is made: nothing completed is lost, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from afnb.core.cassette import Cassette, Exchange, Request, Response, ToolExchange
from afnb.core.redaction import Redaction
from afnb.errors import InputError, ParameterError
from afnb.io.formats.cassette import read_cassette, write_cassette
from afnb.io.journal import Journal, journal_path, recover
from afnb.io.load import load


def exchange(n: int, body: bytes = b"") -> Exchange:
    return Exchange(
        99, Request("POST", f"/{n}", (("x-api-key", "secret"),), body), Response(200, (), b"\xff%d" % n)
    )


def test_it_closes_into_the_cassette(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    journal = Journal(path, task="t", attrs={"sdk": "s"})
    assert [journal.append(exchange(n)).idx for n in range(3)] == [0, 1, 2]
    journal.append_tool(ToolExchange("look", {}, "o", after_exchange=2))
    assert not path.exists()
    assert len(recover(path)) == 3
    cassette = journal.close()
    assert read_cassette(path).exchanges == cassette.exchanges
    assert (cassette.id, cassette.task, cassette.attrs) == ("x", "t", {"sdk": "s"})
    assert cassette.tool_exchanges[0].name == "look"
    assert cassette.exchanges[0].request.headers == ()
    assert os.listdir(tmp_path) == ["x.json"]
    assert journal.close() == cassette
    with pytest.raises(ParameterError, match="closed already"):
        journal.append(exchange(4))


def test_existing_files_are_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_cassette(Cassette("old"), path)
    with pytest.raises(ParameterError, match="exists already"):
        Journal(path)
    other = tmp_path / "y.json"
    first = Journal(other)
    with pytest.raises(ParameterError, match="left from a recording that was not closed"):
        Journal(other)
    first.abandon()
    assert len(recover(other)) == 0


def test_append_goes_on_after_a_close_and_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with Journal(path, "run") as journal:
        journal.append(exchange(0))
    with Journal(path, append=True) as journal:
        assert journal.append(exchange(1)).idx == 1
    crashed = Journal(path, append=True)
    crashed.append(exchange(2))
    crashed.abandon()
    with open(journal_path(path), "ab") as file:
        file.write(b'{"exchange":{"idx":3,"req')
    assert [warning.code for warning in recover(path).warnings] == ["torn_line"]
    with Journal(path, append=True) as journal:
        journal.append(exchange(3))
    cassette = read_cassette(path)
    assert (cassette.id, [one.request.path for one in cassette.exchanges]) == (
        "run",
        ["/0", "/1", "/2", "/3"],
    )


def test_every_prefix_of_a_journal_recovers(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    journal = Journal(path)
    ends = [os.path.getsize(journal.path)]
    for n in range(3):
        journal.append(exchange(n))
        ends.append(os.path.getsize(journal.path))
    journal.abandon()
    data = Path(journal.path).read_bytes()
    for size in range(ends[0], len(data) + 1):
        Path(journal.path).write_bytes(data[:size])
        whole = sum(1 for end in ends[1:] if size >= end - 1)
        recovered = recover(path)
        assert [one.request.path for one in recovered.exchanges] == [f"/{n}" for n in range(whole)]
        assert [one.response.body for one in recovered.exchanges] == [b"\xff%d" % n for n in range(whole)]


def test_damage_inside_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    journal = Journal(path)
    for n in range(3):
        journal.append(exchange(n))
    journal.abandon()
    lines = Path(journal.path).read_bytes().split(b"\n")
    lines[2] = lines[2][:-5]
    Path(journal.path).write_bytes(b"\n".join(lines))
    with pytest.raises(InputError, match=r"journal.jsonl:3: not JSON"):
        recover(path)
    Path(journal.path).write_bytes(b"hello\n")
    with pytest.raises(InputError, match="no journal"):
        recover(path)
    with pytest.raises(InputError, match="no such file"):
        recover(tmp_path / "none.json")


def test_a_journal_loads_like_any_recording(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "x.json")
    journal.append(exchange(0))
    journal.abandon()
    loaded = load(journal.path, outcome="fail")
    assert isinstance(loaded, Cassette)
    assert (len(loaded), loaded.outcome) == (1, "fail")


def test_redaction_happens_before_the_first_byte_and_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    hide = Redaction(paths=("user",), patterns=("sk-[a-z]+",))
    journal = Journal(path, redaction=hide)
    journal.append(exchange(0, b'{"user": "private", "k": "sk-abc"}'))
    journal.append_tool(ToolExchange("t", {"user": "private"}, "sk-abc"))
    written = Path(journal.path).read_text()
    assert "private" not in written
    assert "sk-abc" not in written
    journal.close()
    with Journal(path, append=True) as again:
        again.append(exchange(1, b'{"user":"private"}'))
    assert "private" not in path.read_text()
    assert Redaction.from_json(read_cassette(path).attrs["redaction"]) == hide


def test_threads_lose_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path / "x.json") as journal:
        threads = [
            threading.Thread(target=lambda k=k: [journal.append(exchange(k * 25 + n)) for n in range(25)])
            for k in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    cassette = read_cassette(tmp_path / "x.json")
    assert [one.idx for one in cassette.exchanges] == list(range(200))
    assert sorted(int(one.request.path[1:]) for one in cassette.exchanges) == list(range(200))


PROGRAM = """
import sys
from afnb.core.cassette import Exchange, Request, Response
from afnb.io.journal import Journal
journal = Journal(sys.argv[1])
n = 0
while True:
    journal.append(Exchange(0, Request("POST", f"/{n}"), Response(200, (), b"x" * 5000)))
    n += 1
    print(n, flush=True)
"""


def test_kill_9_loses_at_most_the_exchange_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    done = 0
    for line in process.stdout:
        done = int(line)
        if done >= 40:
            break
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    done = max([done, *(int(text) for text in rest if text.isdigit())][:-1] or [done])
    recovered = recover(path)
    assert len(recovered) >= done
    assert [one.request.path for one in recovered.exchanges] == [f"/{n}" for n in range(len(recovered))]
    assert all(one.response.body == b"x" * 5000 for one in recovered.exchanges)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="make its folder first"):
        Journal(tmp_path / "none" / "x.json")
