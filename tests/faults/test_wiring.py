"""Traffic goes past the recording: to a proxy, to the live provider, to another address, or twice."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.cassette import Cassette, Exchange, Request, Response
from afnb.core.tape import Tape
from afnb.io.environment import agent_environment
from afnb.io.formats.cassette import read_cassette, write_cassette
from afnb.io.serve import Refuse, Session
from afnb.io.server import LoopbackServer
from afnb.io.transport import client
from afnb.testing.provider import FakeProvider

from .made import CHAT, CLAUDE, JSON, ask, asking, recording, said

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
AGENT = """
import httpx, json, os, sys
url = sys.argv[1] if len(sys.argv) > 1 else os.environ["OPENAI_BASE_URL"] + "/chat/completions"
body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
answer = httpx.post(url, content=json.dumps(body), headers={"content-type": "application/json"}, timeout=5)
print(answer.status_code, answer.json()["choices"][0]["message"]["content"])
"""


def run_afnb(place: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "afnb", *args],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=place,
        env={**os.environ, **env},
        check=False,
    )


@pytest.mark.parametrize("no_proxy", ["", "localhost", "127.0.0.0/8"])
def test_a_proxy_of_the_environment_gets_no_loopback_traffic(no_proxy: str, tmp_path: Path) -> None:
    env = dict.fromkeys(PROXIES, "http://127.0.0.1:9") | {"NO_PROXY": no_proxy, "no_proxy": no_proxy}
    with FakeProvider(lambda talk, rng: "ok") as provider:
        options = ["--out", "x.json", "--upstream", provider.url, "--", "python", "-c", AGENT]
        done = run_afnb(tmp_path, "record", *options, **env)
    assert (done.returncode, done.stdout) == (0, "200 ok\n"), done.stderr
    kept = agent_environment(env, base_url="http://127.0.0.1:1", names="OPENAI_BASE_URL")
    assert {"127.0.0.1", "localhost", "::1"} <= set(kept["NO_PROXY"].split(","))


def test_traffic_that_a_proxy_would_take_is_said_to_a_function_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "localhost")
    monkeypatch.setenv("no_proxy", "localhost")
    with pytest.warns(RuntimeWarning, match="127.0.0.1"):
        afnb.Function(lambda ctx: ctx.base_url).run(Session(), None, seed=0, workdir=".")


def test_live_calls_of_a_transport_still_go_through_the_companys_proxy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with FakeProvider(afnb_function) as proxy:
        for name in PROXIES:
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        with afnb.Recorder(tmp_path / "x.json", "http://provider.invalid") as recorder:
            assert recorder.http_client("httpx").post(CHAT, content=ask("hi").body).status_code == 200
        assert [request.path for request in proxy.requests] == [f"http://provider.invalid{CHAT}"]
    assert read_cassette(tmp_path / "x.json").exchanges[0].request.path == CHAT


class _Through(afnb.Upstream):
    def answer(self, request: Request) -> Response:
        return said("through the proxy")


afnb_function = _Through()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/v1/messages", "set the base URL without /v1 at its end"),
        ("/chat/completions", "set the base URL with /v1 at its end"),
    ],
)
def test_a_base_url_with_a_version_too_many_or_too_few_is_answered_in_one_sentence(
    path: str, words: str
) -> None:
    made = recording((Request("POST", CLAUDE if "messages" in path else CHAT, JSON, b"{}"), said("x")))
    session = Session(Tape(made), live=False)
    with LoopbackServer(session) as server, client_of(server) as http_client:
        answer = http_client.post(path, content=b"{}")
    assert (answer.status_code, words in answer.json()["error"]["message"]) == (424, True)
    assert dict(session.report().refused) == {"misrouted": 1}


def test_a_version_too_few_is_said_of_a_recording_that_only_got_404(tmp_path: Path) -> None:
    missing = Response(404, JSON, b'{"error": {"message": "no such place"}}')
    with afnb.Recorder(tmp_path / "x.json", lambda request: missing) as recorder:
        recorder.http_client("httpx").post("/chat/completions", content=ask("hi").body)
    assert "base URL with /v1 at its end" in " ".join(recorder.warnings())


def test_an_empty_base_url_is_taken_for_not_set() -> None:
    env = agent_environment({"OPENAI_BASE_URL": "", "ANTHROPIC_BASE_URL": "", "PATH": ""})
    assert env == {"PATH": ""}


def client_of(server: LoopbackServer) -> Any:
    import httpx

    return httpx.Client(base_url=server.base_url, trust_env=False)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    write_cassette(recording((ask("hi"), said("from the tape"))), tmp_path / "x.json")
    return tmp_path


def test_an_agent_that_ignores_its_base_url_is_an_error_and_not_a_quiet_live_run(made: Path) -> None:
    with FakeProvider(lambda talk, rng: "live") as provider:
        agent = ["--", "python", "-c", AGENT, provider.url + CHAT]
        done = run_afnb(made, "replay", "x.json", *agent)
        assert done.returncode == 2
        assert "nothing of x.json was served" in done.stderr
        assert "does the agent read OPENAI_BASE_URL?" in done.stderr
        with pytest.raises(afnb.AgentError, match="it asked afnb nothing"):
            afnb.what_if(
                str(made / "x.json"),
                afnb.Edit(0, {"text": "other", "tool_calls": []}),
                agent=["python", "-c", AGENT, provider.url + CHAT],
                upstream=provider.url,
                oracle=lambda run: True,
                progress=False,
            )


def test_a_blocked_network_names_who_was_asked_past_the_recording(made: Path) -> None:
    for url in ("http://provider.invalid" + CHAT, "https://provider.invalid" + CHAT):
        done = run_afnb(
            made, "replay", "x.json", "--block-network", "--json", "--", "python", "-c", AGENT, url
        )
        assert done.returncode == 2
        assert json.loads(done.stdout)["refused"] == {"network": 1}
    kept = run_afnb(made, "replay", "x.json", "--block-network", "--check", "--", "python", "-c", AGENT)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    session = Session(Tape(read_cassette(made / "x.json")), live=False)
    with LoopbackServer(session) as server, socket.create_connection(("127.0.0.1", server.port), 5) as line:
        line.sendall(b"CONNECT provider.invalid:443 HTTP/1.1\r\nhost: provider.invalid:443\r\n\r\n")
        assert line.recv(99).startswith(b"HTTP/1.1 404")  # without the token nobody is told or counted
    assert session.report().requests == 0


@pytest.mark.parametrize("way", ["session", "replay", "command line"])
def test_without_an_upstream_nothing_leaves_this_machine(
    way: str, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One entry of the recording is gone; its request misses, and no socket goes elsewhere."""
    reached: list[Any] = []
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
            reached.append(address)
            raise OSError("blocked")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    path = made / "x.json"
    if way == "session":
        turn = Session(Tape(read_cassette(path)), live=False).decide(ask("gone"))
        assert isinstance(turn, Refuse)
    elif way == "replay":
        found = afnb.replay(str(path), agent=asking([ask("gone")]))
        assert (found.report.missed, found.report.live) == (1, 0)
    else:
        code = AGENT.replace('"hi"', '"gone"')
        done = run_afnb(made, "replay", "x.json", "--json", "--", "python", "-c", code)
        assert (done.returncode, json.loads(done.stdout)["missed"]) == (2, 1)
    assert reached == []


def fails(call: Any) -> Any:
    """The status that an SDK raises."""
    with pytest.raises(Exception, match="afnb:") as caught:
        call()
    return getattr(caught.value, "status_code", None)


def test_a_miss_is_asked_once_by_the_official_sdks_and_is_one_row() -> None:
    openai = pytest.importorskip("openai")
    anthropic = pytest.importorskip("anthropic")
    session = Session(Tape(recording((ask("hi"), said("x")))), live=False)
    asked = [{"role": "user", "content": "other"}]
    with client(session, base_url="https://api.openai.com/v1") as http_client:
        sdk = openai.OpenAI(api_key="k", http_client=http_client)
        assert fails(lambda: sdk.chat.completions.create(model="m", messages=asked)) == 424
    with client(session, base_url="https://api.anthropic.com") as http_client:
        claude = anthropic.Anthropic(api_key="k", http_client=http_client)
        assert fails(lambda: claude.messages.create(model="m", max_tokens=9, messages=asked)) == 424
    assert (session.report().requests, len(session.report().misses)) == (2, 2)


def test_replayed_limits_do_not_make_a_client_wait_and_their_delay_is_kept(tmp_path: Path) -> None:
    openai = pytest.importorskip("openai")
    delays = (*JSON, ("retry-after", "20"), ("retry-after-ms", "20000"))
    answers = iter([Response(429, delays, b'{"error": {"message": "slow"}}'), said("ok")])
    with afnb.Recorder(tmp_path / "x.json", lambda request: next(answers)) as recorder:
        for _ in range(2):
            recorder.http_client("httpx").post(CHAT, content=ask("hi").body)
    found = read_cassette(tmp_path / "x.json")
    assert afnb.exchanges(found)["delay"].to_pylist() == ["20000", None]
    slept: list[float] = []
    session = Session(Tape(found), live=False)
    with client(session, base_url="https://api.openai.com/v1") as http_client:
        sdk = openai.OpenAI(api_key="k", http_client=http_client, max_retries=2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("time.sleep", slept.append)
            made = sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert made.choices[0].message.content == "ok"
    assert sum(slept) < 0.1
    kept = Session(Tape(found), live=False, keep_delays=True).decide(ask("hi"))
    assert dict(kept.response.headers)["retry-after"] == "20"  # type: ignore[union-attr]


def test_a_retry_is_told_apart_in_the_table() -> None:
    busy = Response(529, JSON, b'{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}')
    made = Cassette(
        "x", (Exchange(0, ask("hi"), busy), Exchange(1, ask("hi"), busy), Exchange(2, ask("hi"), said("ok")))
    )
    assert afnb.exchanges(made)["attempt_of"].to_pylist() == [2, 2, None]
