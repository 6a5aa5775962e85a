"""Every form of bytes through the command line's proxy and back: what the agent gets is always the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from afnb.core.cassette import Cassette, Exchange
from afnb.io.formats.cassette import read_cassette
from afnb.io.record import Recorder

from .raw_provider import AGENT, BINARY, EVENTS, FRAMES, LINES, TEXT, raw_provider

CHUNKS = {"sse": EVENTS, "ndjson": LINES, "aws": FRAMES}


def run(place: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *argv],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=place,
        env={**os.environ, "PYTHONUTF8": "1", **env},
        check=False,
    )


def exchange(cassette: Cassette, path: str) -> Exchange:
    return next(e for e in cassette.exchanges if e.request.path == f"/v1/{path}")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], Cassette]:
    """The agent asked the provider directly, then through the recorder; here is what it saw at first."""
    place = tmp_path_factory.mktemp("forms")
    (place / "agent.py").write_text(AGENT, encoding="utf-8")
    with raw_provider() as url:
        direct = run(place, "agent.py", RAW_URL=url)
        assert direct.returncode == 0, direct.stderr
        options = ["--out", "x.json", "--upstream", url, "--base-url-env", "RAW_URL"]
        through = run(place, "-m", "afnb", "record", *options, "--", sys.executable, "agent.py")
    assert through.returncode == 0, through.stderr
    said: dict[str, Any] = json.loads(direct.stdout)
    assert json.loads(through.stdout) == said
    return place, said, read_cassette(place / "x.json")


def test_the_agent_asked_for_every_form(recorded: tuple[Path, dict[str, Any], Cassette]) -> None:
    _, said, cassette = recorded
    assert said["cut"][4] is True
    assert [said[form][0] for form in ("404", "500", "429", "empty")] == [404, 500, 429, 204]
    assert {said[form][3] for form in ("gzip", "deflate", "zstd", "br")} == {said["chunked"][3]}
    assert said["binary"][2] == len(BINARY)
    assert len(cassette) == len(said) == 19


def test_bodies_are_recorded_as_they_were_meant(recorded: tuple[Path, dict[str, Any], Cassette]) -> None:
    _, _, cassette = recorded
    for form in ("gzip", "deflate", "zstd", "br", "chunked"):
        assert exchange(cassette, form).response.body == TEXT, form
    assert exchange(cassette, "binary").response.body == BINARY
    assert exchange(cassette, "packed").request.body == b'{"a": 1}'
    assert exchange(cassette, "pieces").request.body == b"x" * 70000 + b"y"
    assert exchange(cassette, "large").request.body == b"\x00\xff" * 2_000_000
    assert exchange(cassette, "empty").response.body == b""


@pytest.mark.parametrize("form", sorted(CHUNKS))
def test_streams_keep_their_chunks_and_times(
    recorded: tuple[Path, dict[str, Any], Cassette], form: str
) -> None:
    response = exchange(recorded[2], form).response
    assert response.chunks is not None
    assert [chunk.data for chunk in response.chunks] == CHUNKS[form]
    times = [chunk.ms for chunk in response.chunks]
    assert times == sorted(times)
    assert not response.incomplete


def test_a_cut_stream_is_marked(recorded: tuple[Path, dict[str, Any], Cassette]) -> None:
    response = exchange(recorded[2], "cut").response
    assert (response.incomplete, response.body) == (True, b"".join(EVENTS[:2]))


@pytest.mark.parametrize("pace", ["at once", "as recorded", "0.5"])
def test_a_replay_gives_the_agent_the_same_without_the_provider(
    recorded: tuple[Path, dict[str, Any], Cassette], pace: str
) -> None:
    place, said, cassette = recorded
    options = ["--base-url-env", "RAW_URL", "--pace", pace, "--json"]
    again = run(place, "-m", "afnb", "replay", "x.json", *options, "--", sys.executable, "agent.py")
    assert again.returncode == 0, again.stderr
    machine = json.loads(again.stdout)
    assert (machine["served"], machine["missed"], machine["live"]) == (len(cassette), 0, 0), machine
    assert machine["rules"] == {"multipart": 1}
    assert json.loads(again.stderr.splitlines()[0]) == said


def test_a_websocket_is_refused_in_words(
    recorded: tuple[Path, dict[str, Any], Cassette], tmp_path: Path
) -> None:
    place, _, _ = recorded
    options = ["--out", str(tmp_path / "w.json"), "--base-url-env", "RAW_URL"]
    with raw_provider() as url:
        done = run(
            place, "-m", "afnb", "record", *options, "--upstream", url, "--", sys.executable, "agent.py", "-w"
        )
    assert json.loads(done.stdout)["socket"] == [424, "application/json"]
    assert "1 requests were refused: websocket" in done.stderr


@pytest.mark.parametrize("module", ["httpx", "httpx2"])
def test_a_transport_records_the_same(
    recorded: tuple[Path, dict[str, Any], Cassette], module: str, tmp_path: Path
) -> None:
    http = pytest.importorskip(module)
    with raw_provider() as url, Recorder(tmp_path / "t.json", url) as recorder:
        client = recorder.http_client(module)
        for one in recorded[2].exchanges:
            try:
                client.request(
                    one.request.method,
                    one.request.path,
                    content=one.request.body,
                    headers=one.request.headers,
                )
            except http.RemoteProtocolError:
                assert one.response.incomplete
    kept = read_cassette(tmp_path / "t.json")
    assert len(kept) == len(recorded[2])
    for one, other in zip(recorded[2].exchanges, kept.exchanges, strict=True):
        a, b = one.response, other.response
        assert (a.status, a.headers, a.body, a.incomplete) == (b.status, b.headers, b.body, b.incomplete)
        assert (a.chunks is None) is (b.chunks is None)
        assert (one.request.method, one.request.path, one.request.body) == (
            other.request.method,
            other.request.path,
            other.request.body,
        )
