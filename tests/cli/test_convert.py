"""``convert`` and ``recover``: one format into another, and what a crash left into a cassette."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from afnb.core.cassette import Cassette, Chunk, Exchange, Request, Response, ToolExchange
from afnb.core.eventlog import EventLog
from afnb.core.matching import Matching
from afnb.core.redaction import Redaction
from afnb.errors import InputError, ParameterError
from afnb.io.convert import close_journal, convert
from afnb.io.formats.cassette import read_cassette, write_cassette
from afnb.io.journal import Journal
from afnb.io.load import load
from afnb.io.logged import LoggedAgent
from afnb.testing.provider import FakeProvider

yaml = pytest.importorskip("yaml")
Process = Callable[..., subprocess.CompletedProcess[str]]
TYPES = (("content-type", "application/json"),)


def exchange(i: int, words: str, answer: bytes = b'{"a": 1}', **more: Any) -> Exchange:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": words}]}).encode()
    return Exchange(i, Request("POST", "/v1/messages", TYPES, body), Response(200, TYPES, answer), **more)


ODD = Cassette(
    "odd",
    (
        exchange(0, "caf\u00e9 \u2028 \U0001f600\nsecond line"),
        exchange(1, "binary", b"\xff\xfe\x00\xe9"),
        exchange(2, "empty", b"", upstream="https://llm.example.com:8443"),
        exchange(3, "text", b"plain\r\ntext: with 'quotes' and\ttabs"),
        exchange(4, "no", upstream="openai"),
        exchange(5, "~", b"null"),
    ),
)


def test_a_cassette_survives_the_way_to_yaml_and_back(tmp_path: Path) -> None:
    done = convert(ODD, tmp_path / "odd.yaml")
    assert done.format == "vcr"
    assert "5 addresses have the provider's usual origin" in " ".join(done.notes)
    back = load(tmp_path / "odd.yaml")
    assert isinstance(back, Cassette)
    assert [(e.request, e.response.body, e.response.status) for e in back.exchanges] == [
        (e.request, e.response.body, e.response.status) for e in ODD.exchanges
    ]
    assert [e.upstream for e in back.exchanges][:5] == [
        "https://api.anthropic.com",
        "https://api.anthropic.com",
        "https://llm.example.com:8443",
        "https://api.anthropic.com",
        "https://api.openai.com",
    ]
    again = convert(tmp_path / "odd.yaml", tmp_path / "odd.json")
    assert again.format == "cassette"
    assert [e.request for e in read_cassette(tmp_path / "odd.json").exchanges] == [
        e.request for e in ODD.exchanges
    ]


def test_what_yaml_has_no_place_for_is_said(tmp_path: Path) -> None:
    pieces = (Chunk(0.0, b"data: 1\n\n"), Chunk(9.0, b"data: 2\n\n"))
    stream = Response(
        200, (("content-type", "text/event-stream"),), b"data: 1\n\ndata: 2\n\n", pieces, incomplete=True
    )
    full = Cassette(
        "full",
        (Exchange(0, ODD.exchanges[0].request, stream),),
        (ToolExchange("look", {}, 1),),
        attrs={"redaction": Redaction(patterns=("x+",)).to_json()},
    )
    notes = " ".join(convert(full, tmp_path / "full.yaml").notes)
    for words in ("look complete", "arrival times", "1 tool exchanges", "redaction settings"):
        assert words in notes


def test_steps_can_only_become_a_trace(tmp_path: Path) -> None:
    run = convert(ODD, tmp_path / "t.json", to="trace")
    assert "can be compared, and not replayed" in run.notes[0]
    trace = load(run.path)
    assert convert(trace, tmp_path / "again.json").format == "trace"
    agent = LoggedAgent(lambda ctx: ctx.model_call({"q": 1}).response, model=lambda request: {"a": 1})
    log = agent.run(EventLog(None)).log
    assert convert(log, tmp_path / "log.jsonl").format == "eventlog"
    assert isinstance(load(tmp_path / "log.jsonl"), EventLog)
    assert convert(tmp_path / "log.jsonl", tmp_path / "log.json").format == "trace"
    for source, out, to, said in (
        (trace, "x.yaml", None, "cannot become a vcr"),
        (log, "x.json", "cassette", "cannot become a cassette"),
        (ODD, "x.jsonl", None, "cannot become one"),
        (ODD, "x.bin", None, "names no format"),
        (ODD, "x.json", "xml", "expected one of cassette, vcr, trace, eventlog"),
    ):
        with pytest.raises(ParameterError, match=said):
            convert(source, tmp_path / out, to=to)
        assert not (tmp_path / out).exists()
    with pytest.raises(ParameterError, match="leave the redaction out"):
        convert(trace, tmp_path / "x.json", redaction=Redaction(patterns=("x+",)))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text("mine")
    with pytest.raises(ParameterError, match="exists already"):
        convert(ODD, tmp_path / "odd.yaml")
    assert (tmp_path / "odd.yaml").read_text() == "mine"


def test_redaction_and_rules_are_put_in_and_kept(tmp_path: Path) -> None:
    hide = Redaction(paths=("messages[*].content",))
    one = convert(
        ODD,
        tmp_path / "one.json",
        redaction=hide,
        matching=Matching(ignore=("model",)),
        outcome="fail",
        task="t",
    )
    kept = read_cassette(one.path)
    assert (kept.outcome, kept.task, kept.attrs["matching"]["ignore"]) == ("fail", "t", ["model"])
    assert b"REDACTED" in kept.exchanges[0].request.body
    two = convert(one.path, tmp_path / "two.json", redaction=Redaction(patterns=("REDAC",), replacement="#"))
    again = read_cassette(two.path)
    assert again.attrs["redaction"]["paths"] == ["messages[*].content"], (
        "what was taken out before is said still"
    )
    assert b"REDAC" not in b"".join(e.request.body for e in again.exchanges)


def test_the_command_line(afnb_process: Process, tmp_path: Path) -> None:
    write_cassette(ODD, tmp_path / "odd.json")
    (tmp_path / "odd.json.gz").write_bytes(gzip.compress((tmp_path / "odd.json").read_bytes()))
    done = afnb_process("convert", "odd.json.gz", "odd.yaml")
    assert (done.returncode, "wrote odd.yaml (vcr)" in done.stderr) == (0, True), done.stderr
    back = afnb_process(
        "convert", "odd.yaml", "back.json", "--redact-secrets", "--match", "dates", "--outcome", "pass"
    )
    assert back.returncode == 0, back.stderr
    found = json.loads((tmp_path / "back.json").read_text())
    assert (found["outcome"], found["matching"]["patterns"][0]["name"]) == ("pass", "dates")
    assert '**["api_key"]' in found["redaction"]["paths"]
    again = afnb_process("convert", "odd.json", "odd.yaml")
    assert (again.returncode, again.stderr.count("\n"), "exists already" in again.stderr) == (2, 1, True)
    none = afnb_process("convert", "nothing.json", "x.json")
    assert (none.returncode, none.stderr.count("\n")) == (2, 1)


def test_what_a_kill_left_is_closed(afnb_process: Process, tmp_path: Path) -> None:
    code = (
        "import json,os,time,urllib.request as u\n"
        "for word in ('one','two'):\n"
        "    b=json.dumps({'model':'m','messages':[{'role':'user','content':word}]}).encode()\n"
        "    url=os.environ['OPENAI_BASE_URL']+'/chat/completions'\n"
        "    r=u.Request(url,b,{'content-type':'application/json'})\n"
        "    u.urlopen(r).read()\n"
        "open('done','w').close()\n"
        "time.sleep(60)\n"
    )
    with FakeProvider(lambda talk, rng: talk.user) as provider:
        argv = [sys.executable, "-m", "afnb", "record", "--out", "x.json", "--upstream", provider.url, "--"]
        recorder = subprocess.Popen([*argv, sys.executable, "-c", code], cwd=tmp_path, start_new_session=True)
        try:
            until = time.monotonic() + 60
            while not (tmp_path / "done").exists():
                assert time.monotonic() < until
                time.sleep(0.02)
        finally:
            agents = subprocess.run(
                ["pgrep", "-P", str(recorder.pid)], capture_output=True, text=True, check=False
            )
            recorder.kill()
            recorder.wait()
            for pid in agents.stdout.split():
                os.kill(int(pid), signal.SIGKILL)
    assert not (tmp_path / "x.json").exists()
    refused = afnb_process("record", "--out", "x.json", "--upstream", "openai", "--", "true")
    assert "afnb recover x.json" in refused.stderr
    done = afnb_process("recover", "x.json")
    assert (done.returncode, "2 exchanges in" in done.stderr) == (0, True), done.stderr
    assert len(read_cassette(tmp_path / "x.json")) == 2
    assert not (tmp_path / "x.json.journal.jsonl").exists()
    again = afnb_process("recover", "x.json")
    assert (again.returncode, "found no journal" in again.stderr) == (2, True)


def test_a_torn_journal_is_closed_without_its_last_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "x.json")
    journal.append(exchange(0, "one"))
    journal.abandon()
    with open(journal.path, "ab") as file:
        file.write(b'{"exchange": {"idx": 1, "req')
    found = close_journal(journal.path)
    assert (len(found), [w.code for w in found.warnings]) == (1, ["torn_line"])
    with pytest.raises(InputError, match="found no journal"):
        close_journal(tmp_path / "x.json")
