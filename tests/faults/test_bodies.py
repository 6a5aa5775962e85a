"""Recorded bytes are altered, or framed wrongly."""

from __future__ import annotations

import asyncio
import base64
import gzip
import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.arm import AnswerPatch, Arm
from afnb.core.cassette import Cassette, Chunk, Request, Response
from afnb.core.providers import conversation_key, write_answer
from afnb.core.tape import Tape
from afnb.io.formats.cassette import read_cassette, write_cassette
from afnb.io.serve import Session
from afnb.io.server import LoopbackServer
from afnb.io.transport import async_client, client
from afnb.testing.provider import FakeProvider

from .made import CHAT, JSON, SSE, ask, recording, said, text_of

ENCODED = (*JSON, ("content-encoding", "gzip"))


def written(folder: Path, body: Any, *, base: bool, status: int = 200) -> Path:
    """A cassette as another tool may have written it: an encoding's header beside the body."""
    response: dict[str, Any] = {"status": status, "headers": [list(pair) for pair in ENCODED]}
    response |= {"body": None, "body_base64": base64.b64encode(body).decode()} if base else {"body": body}
    request = {"method": "POST", "path": CHAT, "headers": [], "body": {"messages": []}}
    path = folder / "x.json"
    one = {"idx": 0, "request": request, "response": response}
    path.write_text(json.dumps({"cassette_version": "0.1", "id": "x", "exchanges": [one]}))
    return path


def plain(response: Response) -> None:
    assert "content-encoding" not in dict(response.headers)


@pytest.mark.parametrize("base", [True, False])
def test_a_stored_body_and_its_encoding_header_are_made_to_agree_once(base: bool, tmp_path: Path) -> None:
    text = said("hello").body
    path = written(tmp_path, gzip.compress(text) if base else json.loads(text), base=base)
    found = afnb.load(path)
    assert isinstance(found, Cassette)
    response = found.exchanges[0].response
    assert json.loads(response.body) == json.loads(text)
    plain(response)
    assert [one.code for one in found.warnings] == ["decoded_body" if base else "body_was_plain"]
    session = Session(Tape(found), live=False)
    with LoopbackServer(session) as server, client_of(server) as http_client:
        assert http_client.post(CHAT, json={"messages": []}).json() == json.loads(text)


def client_of(server: LoopbackServer) -> Any:
    import httpx

    return httpx.Client(base_url=server.base_url, trust_env=False)


@pytest.mark.parametrize("status", [204, 304, 200])
def test_an_empty_body_is_empty_whatever_encoding_its_header_names(status: int, tmp_path: Path) -> None:
    found = afnb.load(written(tmp_path, "", base=False, status=status))
    assert isinstance(found, Cassette)
    assert found.exchanges[0].response.body == b""


def test_bytes_that_are_no_text_come_back_the_same(tmp_path: Path) -> None:
    odd = b"\xff\xfe\x00\xe9"
    made = recording((Request("GET", "/v1/files/7"), Response(200, (("content-type", "image/png"),), odd)))
    write_cassette(made, tmp_path / "x.json")
    found = read_cassette(tmp_path / "x.json")
    assert found.exchanges[0].response.body == odd
    assert afnb.exchanges(found)["response_body"].to_pylist() == [odd]
    with client(Session(Tape(found), live=False), module="httpx") as http_client:
        assert http_client.get("/v1/files/7").content == odd


def test_a_patched_answer_has_its_own_length_and_no_old_encoding() -> None:
    stale = (*JSON, ("content-length", "120"), ("content-encoding", "br"), ("transfer-encoding", "chunked"))
    long = said("x" * 400)
    made = recording((ask("hi"), Response(200, stale, long.body)))
    request = made.exchanges[0].request
    short = write_answer(request, made.exchanges[0].response, {"text": "short"})
    patch = AnswerPatch(0, 0, 0, conversation_key(request), short)
    for arm, text in ((None, "x" * 400), (Arm("patch", (patch,), 0), "short")):
        session = Session(Tape(made), arm, live=False)
        with LoopbackServer(session) as server:
            line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            line.request("POST", f"/{server.token}{CHAT}", request.body)
            answer = line.getresponse()
            body = answer.read()
            assert int(answer.headers["content-length"]) == len(body)
            assert answer.headers["content-encoding"] is None
            assert text_of(Response(200, (), body)) == text
            line.close()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", None])
def test_a_compressed_answer_reaches_the_client_decoded_once(encoding: str | None, tmp_path: Path) -> None:
    """Brotli and zstd go the same way in the tests of the whole wire."""
    with FakeProvider(lambda talk, rng: "größer " * 99, encoding=encoding) as provider:
        with afnb.Recorder(tmp_path / "x.json", provider.url) as recorder, client_of(recorder) as http_client:
            answer = http_client.post(
                CHAT, content=ask("hi").body, headers={"accept-encoding": "gzip, deflate"}
            )
        assert "content-encoding" not in answer.headers
        assert answer.json()["choices"][0]["message"]["content"] == "größer " * 99
    assert text_of(read_cassette(tmp_path / "x.json").exchanges[0].response) == "größer " * 99


def test_one_recorded_stream_feeds_eight_threads_at_once() -> None:
    parts = tuple(Chunk(0, f"data: {n}\n\n".encode()) for n in range(50))
    body = b"".join(chunk.data for chunk in parts)
    tape = Tape(recording((ask("hi"), Response(200, SSE, body, parts))))
    together = threading.Barrier(8)

    def run(_: int) -> list[bytes]:
        with client(Session(tape, live=False), module="httpx") as http_client:
            together.wait(10)
            with http_client.stream("POST", CHAT, content=ask("hi").body) as answer:
                return list(answer.iter_bytes())

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(8))) == [[chunk.data for chunk in parts]] * 8


def test_raw_answers_of_the_sdk_work_as_with_the_provider() -> None:
    openai = pytest.importorskip("openai")
    session = Session(Tape(recording((ask("hi"), said("hello")))), live=False)
    asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with client(session, base_url="https://api.openai.com/v1") as http_client:
        sdk = openai.OpenAI(api_key="k", http_client=http_client)
        raw = sdk.chat.completions.with_raw_response.create(**asked)
        assert "hello" in raw.text
        assert raw.headers["content-type"] == "application/json"
        assert raw.parse().choices[0].message.content == "hello"
        assert raw.content == said("hello").body


def test_a_body_that_is_an_async_stream_is_read_matched_and_sent_on() -> None:
    import httpx

    seen: list[bytes] = []

    def provider(request: Request) -> Response:
        seen.append(request.body)
        return said("live")

    async def body() -> Any:
        data = ask("hi").body
        for i in range(0, len(data), 7):
            yield data[i : i + 7]

    async def twice(session: Session) -> list[str]:
        texts = []
        async with async_client(session, provider, module="httpx") as http_client:
            for _ in range(2):
                request = httpx.Request("POST", "https://api.openai.com" + CHAT, content=body())
                texts.append(text_of(Response(200, (), (await http_client.send(request)).content)))
        return texts

    recorded = Session()
    assert asyncio.run(twice(recorded)) == ["live", "live"]
    assert seen == [ask("hi").body] * 2
    again = Session(Tape(recorded.cassette()), live=False)
    assert asyncio.run(twice(again)) == ["live", "live"]
    assert (again.report().served, len(seen)) == (2, 2)
