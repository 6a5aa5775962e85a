from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from afnb.core.cassette import Request
from afnb.errors import ParameterError, UpstreamError
from afnb.io.formats.cassette import read_cassette
from afnb.io.journal import journal_path, recover
from afnb.io.record import Recorder, recording_notice
from afnb.io.redact import Redaction
from afnb.io.reply import Reply, Upstream
from afnb.testing.provider import FakeProvider, Fault

ASK = {"model": "m", "messages": [{"role": "user", "content": "my number is 12345"}]}


def echo(request: Request) -> dict[str, str]:
    return {"body": request.body.decode()}


def hello(talk: object, rng: object) -> str:
    return "one two three four"


def test_it_says_what_is_kept() -> None:
    plain = recording_notice()
    assert "not redacted" in plain
    assert "credentials are never written" in plain
    assert recording_notice(Redaction()) == plain
    some = recording_notice(Redaction(paths=("a",), patterns=("b+",)))
    assert "redacted by 1 JSON paths and 1 patterns" in some
    assert Recorder("x.json", echo).notice == plain


@pytest.mark.parametrize("module", ["httpx", "httpx2"])
def test_a_transport_and_the_proxy_write_the_same(tmp_path: Path, module: str) -> None:
    http = pytest.importorskip(module)
    made = []
    for way in ("client", "transport", "proxy"):
        out = tmp_path / f"{way}.json"
        with Recorder(out, echo, id="x") as recorder:
            if way == "client":
                client = recorder.http_client(module)
            elif way == "transport":
                client = http.Client(transport=recorder.transport(module), base_url="http://any.invalid")
            else:
                client = http.Client(base_url=recorder.base_url, trust_env=False)
            with client:
                for i in range(3):
                    client.post(f"/v1/x?i={i}&key=SECRET", json=ASK, headers={"x-api-key": "SECRET"})
        assert b"SECRET" not in out.read_bytes()
        cassette = read_cassette(out)
        assert recorder.cassette == cassette or len(recorder.cassette) == 3
        made.append([(e.idx, e.request, e.response.status, e.response.body) for e in cassette.exchanges])
        assert not os.path.exists(journal_path(out))
    assert made[0] == made[1] == made[2]
    assert len(made[0]) == 3


def test_an_async_client_is_recorded(tmp_path: Path) -> None:
    import asyncio

    async def main() -> None:
        with Recorder(tmp_path / "x.json", echo) as recorder:
            async with recorder.async_http_client("httpx") as client:
                await asyncio.gather(*(client.post("/x", json={"i": i}) for i in range(8)))
            assert len(recorder.cassette) == 8

    asyncio.run(main())
    bodies = {e.request.body for e in read_cassette(tmp_path / "x.json").exchanges}
    assert bodies == {b'{"i":%d}' % i for i in range(8)}


def test_thirty_two_threads_are_thirty_two_exchanges(tmp_path: Path) -> None:
    import httpx

    with Recorder(tmp_path / "x.json", echo) as recorder:

        def ask(i: int) -> None:
            with httpx.Client(trust_env=False) as client:
                client.post(recorder.base_url + "/x", json={"i": i})

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    exchanges = read_cassette(tmp_path / "x.json").exchanges
    assert [e.idx for e in exchanges] == list(range(32))
    for exchange in exchanges:
        assert exchange.response.body.decode().count(exchange.request.body.decode()[1:-1].split(":")[1]) >= 1
    assert len({e.request.body for e in exchanges}) == 32


def test_a_recording_is_never_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    out.write_text("anything")
    with pytest.raises(ParameterError, match=r"x\.json"), Recorder(out, echo):
        pass
    assert out.read_text() == "anything"


def test_it_goes_on_with_a_recording(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    for i in range(2):
        with Recorder(out, echo, append=True) as recorder:
            recorder.http_client("httpx").post("/x", json={"i": i})
    assert [e.request.body for e in read_cassette(out).exchanges] == [b'{"i":0}', b'{"i":1}']


def test_nothing_recorded_is_nothing_written(tmp_path: Path) -> None:
    with Recorder(tmp_path / "x.json", echo) as recorder:
        pass
    assert not recorder.written
    assert list(tmp_path.iterdir()) == []
    assert recorder.warnings("") == ("no request came here, so nothing was recorded",)
    assert recorder.warnings()[0].endswith("this recorder's client, transport or base URL?")


def test_a_provider_that_is_down_is_a_warning_not_a_recording(tmp_path: Path) -> None:
    def down(request: Request) -> None:
        raise UpstreamError("nobody there")

    import httpx

    with Recorder(tmp_path / "x.json", down) as recorder:
        with pytest.raises(httpx.ConnectError, match="nobody there"):
            recorder.http_client("httpx").post("/x", json={})
        with httpx.Client(trust_env=False) as client:
            assert client.post(recorder.base_url + "/x", json={}).status_code == 502
    assert recorder.warnings() == ("no request got an answer, so nothing was recorded: nobody there",)
    assert list(tmp_path.iterdir()) == []


def test_a_cut_stream_is_recorded_as_incomplete(tmp_path: Path) -> None:
    import httpx

    ask = {**ASK, "stream": True}
    with (
        FakeProvider(hello, faults={0: Fault(cut_after=150)}) as provider,
        Recorder(tmp_path / "x.json", provider.url) as recorder,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        recorder.http_client("httpx").post("/v1/messages", json=ask)
    (exchange,) = read_cassette(tmp_path / "x.json").exchanges
    assert exchange.response.incomplete
    assert len(exchange.response.body) == 150
    assert "1 answers stopped before their end" in recorder.warnings()[0]


def test_a_stream_is_passed_on_as_it_comes_and_kept_with_its_times(tmp_path: Path) -> None:
    import httpx

    more = threading.Event()

    class Waiting(Upstream):
        def open(self, request: Request) -> Reply:
            def chunks() -> Any:
                yield b"data: 1\n\n"
                assert more.wait(20)
                yield b"data: 2\n\n"

            return Reply(200, (("content-type", "text/event-stream"),), chunks())

    with (
        Recorder(tmp_path / "x.json", Waiting()) as recorder,
        httpx.Client(trust_env=False) as client,
        client.stream("POST", recorder.base_url + "/x") as answer,
    ):
        pieces = answer.iter_raw()
        assert next(pieces) == b"data: 1\n\n"
        more.set()
        assert b"".join(pieces) == b"data: 2\n\n"
    (exchange,) = read_cassette(tmp_path / "x.json").exchanges
    assert exchange.response.chunks is not None
    assert [chunk.data for chunk in exchange.response.chunks] == [b"data: 1\n\n", b"data: 2\n\n"]


def test_redaction_comes_before_the_disk(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    with Recorder(out, echo, redaction=Redaction(patterns=(r"\d{5}",))) as recorder:
        answer = recorder.http_client("httpx").post("/x", json=ASK)
        assert b"12345" in answer.content
        assert b"12345" not in Path(journal_path(out)).read_bytes()
    assert b"12345" not in out.read_bytes()
    assert b"12345" not in repr(recorder.cassette).encode()


def test_a_killed_recorder_loses_only_what_was_in_flight(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    code = (
        "import sys, time\n"
        "from afnb.io.record import Recorder\n"
        "with Recorder(sys.argv[1], lambda request: {'ok': True}) as recorder:\n"
        "    client = recorder.http_client('httpx')\n"
        "    for i in range(3): client.post('/x', json={'i': i})\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(out)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert not out.exists()
    assert [e.request.body for e in recover(out).exchanges] == [b'{"i":0}', b'{"i":1}', b'{"i":2}']
    with pytest.raises(ParameterError, match="journal"), Recorder(out, echo):
        pass
    with Recorder(out, echo, append=True) as recorder:
        recorder.http_client("httpx").post("/x", json={"i": 3})
    assert len(read_cassette(out).exchanges) == 4


def test_a_failing_run_keeps_its_recording(tmp_path: Path) -> None:
    def work() -> None:
        with Recorder(tmp_path / "x.json", echo) as recorder:
            recorder.http_client("httpx").post("/x", json={})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert len(read_cassette(tmp_path / "x.json").exchanges) == 1


def test_it_must_be_started(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "x.json", echo)
    for use in (lambda: recorder.session, lambda: recorder.base_url, lambda: recorder.cassette):
        with pytest.raises(ParameterError, match="has not been started"):
            use()


def test_late_requests_are_refused_and_written_nowhere(tmp_path: Path) -> None:
    import httpx

    with Recorder(tmp_path / "x.json", echo) as recorder:
        recorder.http_client("httpx").post("/x", json={"i": 0})
        late = httpx.Client(transport=recorder.transport("httpx"))
    before = (tmp_path / "x.json").read_bytes()
    assert late.post("http://any.invalid/x", json={"i": 1}).status_code >= 400
    assert (tmp_path / "x.json").read_bytes() == before
    assert recorder.report().late == 1
