"""Secrets that reach a file, and runs that reach each other's answers."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.cassette import Request, Response
from afnb.core.tape import Tape
from afnb.io.formats.cassette import read_cassette
from afnb.io.serve import Serve, Session
from afnb.io.server import LoopbackServer
from afnb.io.transport import client
from afnb.testing.provider import FakeProvider

from .made import CHAT, JSON, ask, asking, recording, said, text_of


def test_no_secret_of_a_run_is_in_its_files_cards_or_reports(tmp_path: Path) -> None:
    secrets = {
        "Api-Key": "SECRET-1",
        "X-Goog-Api-Key": "SECRET-2",
        "Cookie": "session=SECRET-3",
        "Authorization": "Bearer SECRET-4",
    }
    set_cookie = (("set-cookie", "SECRET-5=1"), ("x-amzn-token", "SECRET-6"))
    body = {**json.loads(ask("hi").body), "api_key": "SECRET-7", "tool_config": {"password": "SECRET-8"}}
    seen: list[bytes] = []

    def look(recorder: afnb.Recorder) -> None:
        seen.extend(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    with FakeProvider(lambda talk, rng: "fine", extra_headers=set_cookie) as provider:
        with afnb.Recorder(tmp_path / "x.json", provider.url, redaction=afnb.Redaction.secrets()) as recorder:
            answer = recorder.http_client("httpx").post(f"{CHAT}?key=SECRET-9", json=body, headers=secrets)
            look(recorder)  # the journal, while the run goes on
        assert answer.headers["x-amzn-token"] == "SECRET-6"
        sent = dict(provider.requests[0].headers)
        assert (sent["api-key"], sent["authorization"]) == ("SECRET-1", "Bearer SECRET-4")
        assert b"SECRET-7" in provider.requests[0].body
        assert provider.requests[0].path.endswith("?key=SECRET-9")
    look(recorder)
    found = read_cassette(tmp_path / "x.json")
    afnb.convert(str(tmp_path / "x.json"), str(tmp_path / "x.yaml"))
    look(recorder)
    again = afnb.replay(
        found, agent=asking([Request("POST", f"{CHAT}?key=OTHER", JSON, json.dumps(body).encode())])
    )
    assert (again.report.served, again.faithful) == (1, True)
    shown = [
        found.to_text(),
        found._repr_html_(),
        again.to_text(),
        again._repr_html_(),
        json.dumps(again.to_json()),
    ]
    table = afnb.exchanges(found)
    shown += [str(row) for row in table.to_pylist()]
    assert [text for text in (*map(str, seen), *shown) if "SECRET" in text] == []


def test_thirty_two_threads_are_thirty_two_exchanges(tmp_path: Path) -> None:
    with (
        FakeProvider(lambda talk, rng: f"<{talk.user}>") as provider,
        afnb.Recorder(tmp_path / "x.json", provider.url) as recorder,
        ThreadPoolExecutor(32) as pool,
    ):

        def one(i: int) -> str:
            answer = recorder.http_client("httpx").post(CHAT, content=ask(str(i)).body)
            return text_of(Response(200, (), answer.content))

        assert list(pool.map(one, range(32))) == [f"<{i}>" for i in range(32)]
    found = read_cassette(tmp_path / "x.json")
    assert len(found) == 32
    for exchange in found.exchanges:
        user = json.loads(exchange.request.body)["messages"][0]["content"]
        assert text_of(exchange.response) == f"<{user}>"


def test_a_late_request_of_one_run_is_its_own_affair() -> None:
    """A thread of run 1 asks again after run 1 has ended, over the connection that it kept."""
    import httpx

    tape = Tape(recording(*((ask("x"), said(text)) for text in "abc")))
    ended, asked = threading.Event(), threading.Event()
    late: list[Any] = []

    def left_over(base_url: str) -> None:
        with httpx.Client(base_url=base_url, trust_env=False) as http_client:
            http_client.post(CHAT, content=ask("x").body)
            asked.set()
            ended.wait(10)
            try:
                late.append(http_client.post(CHAT, content=ask("x").body).status_code)
            except httpx.HTTPError as error:
                late.append(type(error).__name__)

    one, two = Session(tape, live=False), Session(tape, live=False)
    with LoopbackServer(one) as first:
        thread = threading.Thread(target=left_over, args=(first.base_url,), daemon=True)
        thread.start()
        asked.wait(10)
    with (
        LoopbackServer(two) as second,
        httpx.Client(base_url=second.base_url, trust_env=False) as http_client,
    ):
        ended.set()
        thread.join(10)
        texts = [
            text_of(Response(200, (), http_client.post(CHAT, content=ask("x").body).content)) for _ in "abc"
        ]
    assert late == [424] or late[0] in ("ConnectError", "RemoteProtocolError", "ReadError")
    assert texts == ["a", "b", "c"]
    assert (one.report().served, two.report().served, two.report().requests) == (1, 3, 3)


@pytest.mark.parametrize("way", ["transport", "server"])
def test_parallel_replays_of_one_recording_each_see_all_of_it_in_order(way: str) -> None:
    tape = Tape(recording(*((ask("x"), said(text)) for text in "abc")))
    together = threading.Barrier(32)

    def run(_: int) -> list[str]:
        import httpx

        session = Session(tape, live=False)
        together.wait(20)
        if way == "transport":
            with client(session, module="httpx") as http_client:
                answers = [http_client.post(CHAT, content=ask("x").body).content for _ in "abc"]
        else:
            with (
                LoopbackServer(session) as server,
                httpx.Client(base_url=server.base_url, trust_env=False) as http_client,
            ):
                answers = [http_client.post(CHAT, content=ask("x").body).content for _ in "abc"]
        return [text_of(Response(200, (), answer)) for answer in answers]

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(run, range(32))) == [["a", "b", "c"]] * 32


def test_a_replay_never_changes_its_recording() -> None:
    made = recording((ask("x"), said("a")))
    before = [e.response.body for e in made.exchanges]
    turn = Session(Tape(made), live=False).decide(ask("x"))
    assert isinstance(turn, Serve)
    assert [e.response.body for e in made.exchanges] == before
