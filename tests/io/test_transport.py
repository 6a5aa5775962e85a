"""Transports for httpx and httpx2, sync and async: the same turns, the same recording."""

from __future__ import annotations

import asyncio
import gzip
import json
import pickle
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zstandard

from afnb.core.arm import AnswerPatch, Arm, ResultPatch
from afnb.core.cassette import Cassette, Chunk, Exchange, Request, Response
from afnb.core.providers import conversation_key
from afnb.core.tape import Tape
from afnb.errors import ParameterError, UpstreamError
from afnb.io.reply import Reply, Upstream
from afnb.io.serve import Session
from afnb.io.server import LoopbackServer
from afnb.io.transport import async_client, async_transport, client, http_module, transport
from afnb.testing.provider import FakeProvider, Fault

from .talks import chat, said

MODULES = ("httpx", "httpx2")
SSE = (("content-type", "text/event-stream"),)
EVENTS = (
    b'data: {"choices":[{"delta":{"content":"a\xe2\x80\xa8b"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"\xe4\xb8\x96"},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
)

Fetch = Callable[..., Any]
KINDS = [(module, kind) for module in MODULES for kind in ("sync", "async")]


class Streams(Upstream):
    """An upstream whose stream goes on only when it is told to."""

    def __init__(self, parts: tuple[bytes, ...] = EVENTS, error: str | None = None) -> None:
        self.parts = parts
        self.error = error
        self.go = threading.Semaphore(0)
        self.sent = 0
        self.closed = threading.Event()

    def open(self, request: Request) -> Reply:
        return Reply(200, SSE, self._body(), self.closed.set)

    def _body(self) -> Iterator[bytes]:
        for part in self.parts:
            assert self.go.acquire(timeout=10)
            self.sent += 1
            yield part
        if self.error is not None:
            raise UpstreamError(self.error)


def post(
    module: str, kind: str, session: Session, upstream: Any = None, request: Request | None = None
) -> Any:
    """One whole request through a client of either kind; its response, read to the end."""
    asked = request or chat("u")
    options = {"content": asked.body, "headers": dict(asked.headers)}
    if kind == "sync":
        with client(session, upstream, module=module) as http:
            return http.request(asked.method, asked.path, **options)

    async def one() -> Any:
        async with async_client(session, upstream, module=module) as http:
            return await http.request(asked.method, asked.path, **options)

    return asyncio.run(one())


def recorded(*responses: Response, request: Request | None = None) -> Tape:
    asked = request or chat("u")
    return Tape(Cassette("c", tuple(Exchange(i, asked, r) for i, r in enumerate(responses))))


@pytest.mark.parametrize(("module", "kind"), KINDS)
def test_record_and_replay(module: str, kind: str) -> None:
    session = Session()
    with FakeProvider(lambda talk, rng: "hello", encoding="gzip") as provider:
        answer = post(module, kind, session, provider.url)
        assert type(answer).__module__.partition(".")[0] == module
        seen = provider.requests[0]
    assert dict(seen.headers)["authorization"] == "Bearer SECRET", "the agent's credential is passed on"
    assert b"SECRET" not in pickle.dumps(session.cassette())
    assert answer.json()["choices"][0]["message"]["content"] == "hello"
    assert session.cassette().exchanges[0].response.body == answer.content
    replay = Session(Tape(session.cassette()), live=False)
    again = post(module, kind, replay)
    assert (again.status_code, again.content) == (200, answer.content)
    assert replay.report().served == 1


@pytest.mark.parametrize(("module", "kind"), KINDS)
def test_without_an_upstream_the_clients_own_host_is_asked(module: str, kind: str) -> None:
    session = Session()
    with FakeProvider(lambda talk, rng: "hello") as provider:
        asked = chat("u")
        asked = Request(asked.method, provider.url + asked.path, asked.headers, asked.body)
        assert post(module, kind, session, None, asked).status_code == 200
    assert session.cassette().exchanges[0].request.path == "/v1/chat/completions"


@pytest.mark.parametrize("module", MODULES)
def test_a_live_stream_passes_through_as_it_arrives(module: str) -> None:
    upstream = Streams()
    session = Session()
    with (
        client(session, upstream, module=module) as http,
        http.stream("POST", "/v1/chat/completions") as answer,
    ):
        pieces = answer.iter_raw()
        for n in range(3):
            assert upstream.sent == n
            upstream.go.release()
            assert next(pieces) == EVENTS[n]
        assert next(pieces, None) is None
    response = session.cassette().exchanges[0].response
    assert response.chunks is not None
    assert tuple(chunk.data for chunk in response.chunks) == EVENTS
    assert response.body == b"".join(EVENTS)
    assert not response.incomplete


@pytest.mark.parametrize("module", MODULES)
def test_an_async_live_stream_passes_through_as_it_arrives(module: str) -> None:
    upstream = Streams()
    session = Session()

    async def agent() -> None:
        async with (
            async_client(session, upstream, module=module) as http,
            http.stream("POST", "/v1/chat/completions") as answer,
        ):
            n = 0
            upstream.go.release()
            async for piece in answer.aiter_raw():
                assert (piece, upstream.sent) == (EVENTS[n], n + 1)
                n += 1
                upstream.go.release()

    asyncio.run(agent())
    response = session.cassette().exchanges[0].response
    assert response.chunks is not None
    assert tuple(chunk.data for chunk in response.chunks) == EVENTS


@pytest.mark.parametrize(("module", "kind"), KINDS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 4096])
def test_recorded_chunks_are_replayed_as_they_were(module: str, kind: str, size: int) -> None:
    body = b"".join(EVENTS)
    chunks = tuple(Chunk(0.0, body[i : i + size]) for i in range(0, len(body), size))
    tape = recorded(Response(200, SSE, body, chunks))
    got: list[bytes] = []
    if kind == "sync":
        with client(Session(tape), module=module) as http:
            asked = chat("u")
            with http.stream("POST", asked.path, content=asked.body) as answer:
                got.extend(answer.iter_raw())
    else:

        async def agent() -> None:
            async with async_client(Session(tape), module=module) as http:
                asked = chat("u")
                async with http.stream("POST", asked.path, content=asked.body) as answer:
                    assert "content-length" not in answer.headers
                    got.extend([piece async for piece in answer.aiter_raw()])

        asyncio.run(agent())
    assert got == [chunk.data for chunk in chunks]


@pytest.mark.parametrize(("module", "kind"), KINDS)
@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_that_was_cut_is_replayed_cut(module: str, kind: str, streamed: bool) -> None:
    response = Response(200, SSE, EVENTS[0], (Chunk(0.0, EVENTS[0]),), incomplete=True)
    if not streamed:
        response = Response(200, (("content-type", "application/json"),), b'{"cho', incomplete=True)
    session = Session(recorded(response))
    with pytest.raises(http_module(module).RemoteProtocolError, match="stops here"):
        post(module, kind, session)
    assert session.report().incomplete == 1
    assert session.cassette().exchanges[0].response.incomplete


@pytest.mark.parametrize(("module", "kind"), KINDS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_provider_that_breaks_off_is_recorded_as_far_as_it_came(
    module: str, kind: str, stream: bool
) -> None:
    asked = chat("u")
    if stream:
        asked = Request(asked.method, asked.path, asked.headers, asked.body[:-1] + b',"stream":true}')
    session = Session()
    with (
        FakeProvider(lambda talk, rng: "hello " * 50, faults={0: Fault(cut_after=200)}) as provider,
        pytest.raises(http_module(module).RemoteProtocolError),
    ):
        post(module, kind, session, provider.url, asked)
    exchange = session.cassette().exchanges[0]
    assert exchange.response.incomplete
    assert 0 < len(exchange.response.body) <= 200
    assert session.report().incomplete == 1
    assert session.report().abandoned == 0


@pytest.mark.parametrize(("module", "kind"), KINDS)
def test_a_provider_that_is_down(module: str, kind: str) -> None:
    def down(request: Request) -> Response:
        raise UpstreamError("nobody there")

    session = Session()
    with pytest.raises(http_module(module).ConnectError, match="nobody there"):
        post(module, kind, session, down)
    assert session.report().upstream_errors == ("nobody there",)
    session = Session(recorded(said("x")), Arm("live", (), -1))
    answer = post(module, kind, session, down)
    assert answer.status_code == 424
    assert "nobody there" in answer.json()["error"]["message"]
    assert session.report().upstream_errors == ("nobody there",)


@pytest.mark.parametrize("module", MODULES)
def test_an_agent_that_stops_reading(module: str) -> None:
    upstream = Streams()
    session = Session()
    upstream.go.release()
    with (
        client(session, upstream, module=module) as http,
        http.stream("POST", "/v1/chat/completions") as answer,
    ):
        assert next(answer.iter_raw()) == EVENTS[0]
    report = session.report()
    assert (report.abandoned, report.incomplete, report.in_flight) == (1, 0, 0)
    assert session.cassette().exchanges[0].response.incomplete
    assert upstream.closed.is_set()


@pytest.mark.parametrize("module", MODULES)
def test_an_async_agent_that_stops_reading(module: str) -> None:
    upstream = Streams()
    session = Session()
    upstream.go.release()

    async def agent() -> None:
        async with (
            async_client(session, upstream, module=module) as http,
            http.stream("POST", "/v1/chat/completions") as answer,
        ):
            async for piece in answer.aiter_raw():
                assert piece == EVENTS[0]
                break

    asyncio.run(agent())
    report = session.report()
    assert (report.abandoned, report.incomplete, report.in_flight) == (1, 0, 0)
    for _ in EVENTS:
        upstream.go.release()
    assert upstream.closed.wait(10), "the provider's connection is given back"


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/unheard-of"])
def test_reading_to_the_end_mark_is_reading_to_the_end(module: str, path: str) -> None:
    session = Session()
    upstream = Streams()
    for _ in EVENTS:
        upstream.go.release()
    asked = chat("u")
    with (
        client(session, upstream, module=module) as http,
        http.stream("POST", path, content=asked.body) as answer,
    ):
        pieces = answer.iter_raw()
        for _ in EVENTS:
            next(pieces)
    assert session.report().abandoned == 0
    assert not session.cassette().exchanges[0].response.incomplete


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("live", [True, False])
def test_a_stream_may_be_drained_by_a_second_loop(module: str, live: bool) -> None:
    """The OpenAI SDK stops at the end mark and then loops over the response's stream once more."""
    upstream = Streams()
    for _ in EVENTS:
        upstream.go.release()
    asked = chat("u")
    body = b"".join(EVENTS)
    session = Session() if live else Session(recorded(Response(200, SSE, body)))
    got: list[bytes] = []

    async def agent() -> None:
        async with (
            async_client(session, upstream, module=module) as http,
            http.stream("POST", asked.path, content=asked.body) as answer,
        ):
            async for piece in answer.stream:
                got.append(piece)
                break
            async for piece in answer.stream:
                got.append(piece)

    asyncio.run(agent())
    assert got == list(EVENTS)
    assert session.cassette().exchanges[0].response.body == body
    assert not session.cassette().exchanges[0].response.incomplete


def test_async_calls_do_not_hold_up_the_loop() -> None:
    """All four calls have to be under way at once for any of them to be answered."""
    together = threading.Barrier(4, timeout=10)

    def slow(request: Request) -> Response:
        together.wait()
        return said("ok")

    session = Session()

    async def agent() -> list[Any]:
        async with async_client(session, slow, module="httpx2") as http:
            return await asyncio.gather(*(http.post("/v1/x") for _ in range(4)))

    answers = asyncio.run(agent())
    assert [answer.status_code for answer in answers] == [200] * 4


def test_a_cancelled_call_is_abandoned() -> None:
    begun, end = threading.Event(), threading.Event()

    def slow(request: Request) -> Response:
        begun.set()
        assert end.wait(10)
        return said("late")

    session = Session()

    async def agent() -> None:
        async with async_client(session, slow, module="httpx2") as http:
            task = asyncio.create_task(http.post("/v1/x"))
            while not begun.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(agent())
    end.set()
    report = session.report()
    assert (report.live, report.abandoned, report.in_flight, report.upstream_errors) == (1, 1, 0, ())
    assert len(session.cassette()) == 0


def test_many_async_replays_of_one_tape_do_not_cross() -> None:
    tape = recorded(*(said(x) for x in "abc"))
    asked = chat("u")

    async def replay() -> list[str]:
        async with async_client(Session(tape), module="httpx2") as http:
            return [
                (await http.post(asked.path, content=asked.body)).json()["choices"][0]["message"]["content"]
                for _ in range(3)
            ]

    async def all_of_them() -> list[list[str]]:
        return await asyncio.gather(*(replay() for _ in range(32)))

    assert asyncio.run(all_of_them()) == [["a", "b", "c"]] * 32


@pytest.mark.parametrize(
    ("coding", "encode"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("identity", bytes),
        ("zstd, gzip", lambda body: gzip.compress(zstandard.ZstdCompressor().compress(body))),
    ],
)
def test_an_encoded_request_is_compared_by_what_it_says(
    coding: str, encode: Callable[[bytes], bytes]
) -> None:
    asked = chat("u")
    sent = Request(
        asked.method, asked.path, (*asked.headers, ("content-encoding", coding)), encode(asked.body)
    )
    assert post("httpx2", "sync", Session(recorded(said("x")), live=False), None, sent).status_code == 200


def test_a_request_that_cannot_be_decoded_stays_as_it_is() -> None:
    sent = Request("POST", "/v1/x", (("content-encoding", "gzip"),), b"no gzip")
    session = Session()
    post("httpx2", "sync", session, [{}], sent)
    assert session.cassette().exchanges[0].request.body == b"no gzip"


def test_recorded_times_are_waited_for_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("afnb.io.transport.time.sleep", slept.append)
    body = b"".join(EVENTS)
    chunks = tuple(Chunk(1000.0 * (i + 1), part) for i, part in enumerate(EVENTS))
    times = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z")
    exchange = Exchange(0, chat("u"), Response(200, SSE, body, chunks), *times)
    tape = Tape(Cassette("c", (exchange,)))
    asked = chat("u")
    for pace, expected in (("at once", []), ("as recorded", [2, 1, 2, 3]), (0.5, [1, 0.5, 1, 1.5])):
        slept.clear()
        with client(Session(tape), module="httpx2", pace=pace) as http:
            assert http.post(asked.path, content=asked.body).content == body
        assert [round(s, 1) for s in slept] == expected


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for module in MODULES:
        assert post(module, "sync", Session(), [{"ok": True}]).json() == {"ok": True}


def test_several_upstreams_are_told_apart_by_path() -> None:
    session = Session()
    both = {"openai": ["from openai"], "anthropic": ["from anthropic"]}
    with client(session, both, module="httpx2") as http:
        body = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "u"}]})
        assert "from anthropic" in http.post("/v1/messages", content=body).text
        assert "from openai" in http.post("/v1/chat/completions", content=body).text


def test_the_server_s_base_url_may_be_given_to_a_client_of_the_transport() -> None:
    """An agent that is given both uses both; its path is the same either way."""
    session = Session(recorded(said("x"), said("y")), live=False)
    asked = chat("u")
    with (
        LoopbackServer(session) as server,
        client(session, module="httpx2", base_url=server.base_url) as http,
    ):
        assert http.post(asked.path, content=asked.body).json()["choices"][0]["message"]["content"] == "x"
        other = http_module("httpx2").post(server.base_url + asked.path, content=asked.body, trust_env=False)
        assert other.json()["choices"][0]["message"]["content"] == "y"
    assert {exchange.request.path for exchange in session.cassette().exchanges} == {asked.path}


def test_an_upstream_s_name_in_the_base_url_of_a_client() -> None:
    session = Session()
    both = {"one": [{"from": 1}], "two": [{"from": 2}]}
    with client(session, both, module="httpx2", base_url="http://x.invalid/@two/v1") as http:
        assert http.get("models").json() == {"from": 2}
    exchange = session.cassette().exchanges[0]
    assert (exchange.upstream, exchange.request.path) == ("two", "/v1/models")


def test_the_call_made_by_a_stream_is_known_before_the_stream_has_ended() -> None:
    """An agent runs its tool on the last event and asks on, while the provider still holds the stream."""
    call = b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"z","type":"function","function":{"name":"look","arguments":"{}"}}]}}]}\n\n'  # noqa: E501
    finish = b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\n'
    seen: list[Request] = []

    class Slow(Streams):
        def open(self, request: Request) -> Reply:
            seen.append(request)
            return super().open(request) if len(seen) == 1 else Reply.of(said("end"))

    first = said("", ("c0", "look", {"n": 0}))
    second = said("", ("c1", "look", {"n": 1}))
    history = [
        json.loads(first.body)["choices"][0]["message"],
        {"role": "tool", "tool_call_id": "c0", "content": "0"},
    ]
    tape = Tape(Cassette("c", (Exchange(0, chat("u"), first), Exchange(1, chat("u", history), second))))
    key = conversation_key(chat("u"))
    patched = said("", ("c0", "look", {"n": 9}))
    arm = Arm("both", (AnswerPatch(0, 0, 0, key, patched), ResultPatch(3, 1, "c1", 0, "look", "new")), 1)
    upstream = Slow((call, finish, b"data: [DONE]\n\n"))
    upstream.go.release()
    upstream.go.release()
    session = Session(tape, arm)
    with client(session, upstream, module="httpx2") as http:
        http.post("/v1/chat/completions", content=chat("u").body)
        history[0] = json.loads(patched.body)["choices"][0]["message"]
        asked = chat("u", history)
        with http.stream("POST", asked.path, content=asked.body) as answer:
            pieces = answer.iter_raw()
            assert [next(pieces), next(pieces)] == [call, finish]
            told = {
                "role": "assistant",
                "tool_calls": [
                    {"id": "z", "type": "function", "function": {"name": "look", "arguments": "{}"}}
                ],
            }
            history += [told, {"role": "tool", "tool_call_id": "z", "content": "old"}]
            http.post("/v1/chat/completions", content=chat("u", history).body)
    assert b'"new"' in seen[1].body
    assert session.report().patches_applied == (0, 3)


def test_an_agent_that_asks_on_while_an_answer_streams_is_one_position_further() -> None:
    """It leaves a stream open that it wants no more of; its next request is the branch's next step."""
    first, second = said("", ("c0", "look", {"n": 0})), said("", ("c1", "look", {"n": 1}))
    history = [{"role": "assistant", "content": "x"}]
    exchanges = tuple(Exchange(i, chat("u", history * i), second) for i in range(3))
    tape = Tape(Cassette("c", exchanges))
    key = conversation_key(chat("u"))
    arm = Arm("both", (AnswerPatch(0, 0, 0, key, first), AnswerPatch(4, 2, 2, key, said("forced"))), 2)
    upstream = Streams()
    upstream.go.release()
    session = Session(tape, arm)
    with client(session, upstream, module="httpx2") as http:
        http.post("/v1/chat/completions", content=chat("u").body)
        asked = chat("u", [{"role": "assistant", "content": "otherwise"}])
        with http.stream("POST", asked.path, content=asked.body) as answer:
            pieces = answer.iter_raw()
            next(pieces)
            asked = chat("u", [{"role": "assistant", "content": "otherwise"}] * 2)
            forced = http.post(asked.path, content=asked.body)
            assert session.report().in_flight == 1
    assert forced.json()["choices"][0]["message"]["content"] == "forced"
    assert session.report().patches_applied == (0, 4)


def test_what_is_no_module_or_pace() -> None:
    with pytest.raises(ParameterError, match="'requests'"):
        http_module("requests")
    with pytest.raises(ParameterError, match="pace"):
        transport(Session(), pace="slowly")
    with pytest.raises(ParameterError, match="pace"):
        async_transport(Session(), pace=-1)
