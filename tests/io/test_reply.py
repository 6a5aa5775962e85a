from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from afnb.core.cassette import Chunk, Request, Response
from afnb.errors import UpstreamError
from afnb.io.reply import Reply, Upstream, derive_seed, in_thread, is_stream

SSE = (("content-type", "text/event-stream"),)
JSON = (("content-type", "application/json"),)
ASK = Request("POST", "/v1/messages")


def cut() -> Iterator[bytes]:
    yield b"one"
    raise UpstreamError("gone")


def test_a_reply_is_what_was_given() -> None:
    given = Response(200, JSON, b'{"a":1}')
    assert Reply.of(given).collect() == given


def test_a_stream_keeps_its_chunks_with_times_that_never_go_back() -> None:
    got = Reply(200, SSE, iter([b"a", b"", b"b"])).collect()
    assert got.body == b"ab"
    assert got.chunks is not None
    assert [chunk.data for chunk in got.chunks] == [b"a", b"b"]
    assert 0 <= got.chunks[0].ms <= got.chunks[1].ms
    assert not got.incomplete


def test_an_empty_stream_has_no_chunks_and_is_complete() -> None:
    assert Reply(200, SSE, []).collect() == Response(200, SSE, b"", (), False)


@pytest.mark.parametrize("headers", [SSE, JSON])
def test_a_cut_body_is_kept_and_marked(headers: tuple[tuple[str, str], ...]) -> None:
    reply = Reply(200, headers, cut())
    with pytest.raises(UpstreamError):
        list(reply)
    assert reply.response().body == b"one"
    assert reply.response().incomplete
    assert Reply(200, headers, cut()).collect().incomplete


def test_a_given_cut_is_given_again() -> None:
    given = Response(200, SSE, b"ab", (Chunk(0.0, b"a"), Chunk(1.0, b"b")), True)
    got = Reply.of(given).collect()
    assert got.incomplete
    assert got.body == b"ab"


def test_a_reply_left_early_is_closed_once_and_incomplete() -> None:
    closed: list[int] = []
    reply = Reply(200, SSE, iter([b"a", b"b"]), lambda: closed.append(1))
    for _ in reply:
        break
    reply.close()
    reply.close()
    assert closed == [1]
    assert reply.response().body == b"a"
    assert reply.response().incomplete


@pytest.mark.parametrize(
    ("kind", "stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("application/x-ndjson", True),
        ("application/vnd.amazon.eventstream", True),
        ("application/json", False),
        ("", False),
    ],
)
def test_which_content_types_are_streams(kind: str, stream: bool) -> None:
    assert is_stream((("content-type", kind),)) is stream


def test_derived_seeds_depend_on_every_part_and_on_no_process() -> None:
    seeds = {derive_seed(s, arm, i) for s in range(5) for arm in ("patch", "control") for i in range(5)}
    assert len(seeds) == 50
    code = "from afnb.io.reply import derive_seed; print(derive_seed(7, 'patch', 3))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(out) == derive_seed(7, "patch", 3)


class Slow(Upstream):
    def open(self, request: Request) -> Reply:
        def chunks() -> Iterator[bytes]:
            for i in range(3):
                time.sleep(0.01)
                yield b"%d" % i

        return Reply(200, SSE, chunks())


def test_async_counterparts_leave_the_loop_free() -> None:
    async def main() -> tuple[Response, list[bytes], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        whole = await Slow().answer_async(ASK)
        reply = await Slow().open_async(ASK)
        pieces = [piece async for piece in reply]
        assert reply.response().body == b"012"
        ticking.cancel()
        return whole, pieces, ticks

    whole, pieces, ticks = asyncio.run(main())
    assert whole.body == b"012"
    assert pieces == [b"0", b"1", b"2"]
    assert ticks > 3


def test_an_async_reader_gets_the_cut_too() -> None:
    class Cut(Upstream):
        def open(self, request: Request) -> Reply:
            return Reply(200, SSE, cut())

    got: list[bytes] = []

    async def main() -> None:
        async for piece in await Cut().open_async(ASK):
            got.append(piece)

    with pytest.raises(UpstreamError):
        asyncio.run(main())
    assert got == [b"one"]


def test_an_async_reader_that_leaves_gives_the_connection_back() -> None:
    closed = threading.Event()

    class Endless(Upstream):
        def open(self, request: Request) -> Reply:
            def chunks() -> Iterator[bytes]:
                while True:
                    time.sleep(0.001)
                    yield b"x"

            return Reply(200, SSE, chunks(), closed.set)

    async def main() -> None:
        reply = await Endless().open_async(ASK)
        async for _ in reply:
            break
        await reply.aclose()

    asyncio.run(main())
    assert closed.wait(5)


def test_an_unread_async_reply_can_be_closed() -> None:
    closed = threading.Event()

    class Idle(Upstream):
        def open(self, request: Request) -> Reply:
            return Reply(200, SSE, iter([b"x"]), closed.set)

    async def main() -> None:
        await (await Idle().open_async(ASK)).aclose()

    asyncio.run(main())
    assert closed.is_set()


def test_many_slow_calls_do_not_queue_behind_each_other() -> None:
    everyone = threading.Barrier(40, timeout=20)

    async def main() -> None:
        await asyncio.gather(*(in_thread(everyone.wait) for _ in range(40)))

    asyncio.run(main())


def test_errors_cross_from_the_thread() -> None:
    def fail() -> None:
        raise UpstreamError("no")

    async def main() -> None:
        await in_thread(fail)

    with pytest.raises(UpstreamError, match="no"):
        asyncio.run(main())


def test_an_upstream_needs_only_one_of_the_two() -> None:
    class Plain(Upstream):
        def answer(self, request: Request) -> Response:
            return Response(200, JSON, b"{}")

    assert Plain().open(ASK).collect().body == b"{}"
    assert Plain().for_replay(0, "patch", 1).answer(ASK).status == 200
    assert Slow().answer(ASK).body == b"012"
