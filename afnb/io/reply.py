"""``Upstream``: whoever answers a request that the tape does not, and the ``Reply`` it gives.

A reply is an answer whose body may still be arriving: status and headers are there, the chunks are
iterated. ``answer`` is ``open`` read to its end. Both exist for asynchronous callers, by default in
a thread of their own, so that an upstream only has to know one of ``answer`` and ``open``.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from afnb.core.cassette import Chunk, Headers, Request, Response, header
from afnb.errors import UpstreamError

T = TypeVar("T")

STREAM_TYPES = (
    "text/event-stream",
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/stream+json",
    "application/vnd.amazon.eventstream",
)


def is_stream(headers: Headers) -> bool:
    """True if the content type is one whose arrival times matter (SSE, NDJSON, AWS event stream).

    Examples
    --------
    >>> is_stream((("content-type", "text/event-stream; charset=utf-8"),))
    True
    """
    kind = (header(headers, "content-type") or "").partition(";")[0].strip().lower()
    return kind in STREAM_TYPES


def derive_seed(*parts: object) -> int:
    """A 63-bit number that depends on every part and on nothing else, the same in every process.

    Examples
    --------
    >>> derive_seed(0, "patch", 3) == derive_seed(0, "patch", 3) != derive_seed(0, "control", 3)
    True
    """
    digest = hashlib.blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class Reply:
    """An answer whose body is still arriving: iterate it for its chunks, then ask ``response()``.

    Parameters
    ----------
    status, headers
        The head; hop-by-hop and content-encoding headers are already gone.
    chunks
        The decoded body as it arrives. Raises ``UpstreamError`` where the body stops before its end.
    close
        Called once, when the reply is closed, to give the connection back.
    """

    def __init__(
        self,
        status: int,
        headers: Headers,
        chunks: Iterable[bytes],
        close: Callable[[], None] | None = None,
    ) -> None:
        self.status = status
        self.headers = headers
        self.is_stream = is_stream(headers)
        self.incomplete = False
        self._chunks = iter(chunks)
        self._close = close
        self._start = time.perf_counter()
        self._seen: list[Chunk] = []
        self._ended = False

    @classmethod
    def of(cls, response: Response) -> Reply:
        """A reply that gives a finished ``response``, chunk by chunk, and stops where it stops."""
        return cls(response.status, response.headers, _pieces(response))

    def __iter__(self) -> Iterator[bytes]:
        try:
            for data in self._chunks:
                if data:
                    self._seen.append(Chunk(round((time.perf_counter() - self._start) * 1000, 3), data))
                    yield data
            self._ended = True
        except UpstreamError:
            self.incomplete = True
            self._ended = True
            raise
        finally:
            self.close()

    def response(self) -> Response:
        """What has been read so far as a value; ``incomplete`` unless the body was read to its end."""
        body = b"".join(chunk.data for chunk in self._seen)
        chunks = tuple(self._seen) if self.is_stream else None
        return Response(self.status, self.headers, body, chunks, self.incomplete or not self._ended)

    def collect(self) -> Response:
        """Read to the end; a body that stops early gives what came, marked ``incomplete``."""
        try:
            for _ in self:
                pass
        except UpstreamError:
            pass
        return self.response()

    def close(self) -> None:
        """Give the connection back. Closing twice does nothing."""
        close, self._close = self._close, None
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _pieces(response: Response) -> Iterator[bytes]:
    if response.chunks is None:
        yield response.body
    else:
        for chunk in response.chunks:
            yield chunk.data
    if response.incomplete:
        raise UpstreamError("the body stops before its end, as it was given")


class AsyncReply:
    """A ``Reply`` for an event loop: ``async for chunk in reply``; the reading is done in a thread."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._stopped = threading.Event()
        self._started = False
        self.status = reply.status
        self.headers = reply.headers
        self.is_stream = reply.is_stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._started = True
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue()

        def put(item: bytes | BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, item)
            except RuntimeError:  # the loop has been closed: nobody reads any more
                self._stopped.set()

        def pump() -> None:
            try:
                for data in self._reply:
                    put(data)
                    if self._stopped.is_set():
                        break
                put(None)
            except BaseException as error:  # noqa: BLE001 - carried over to the reader, who raises it
                put(error)
            finally:
                self._reply.close()

        threading.Thread(target=pump, name="afnb-reply", daemon=True).start()
        try:
            while True:
                item = await queue.get()
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self._stopped.set()

    def response(self) -> Response:
        """What has been read so far; see ``Reply.response``."""
        return self._reply.response()

    async def aclose(self) -> None:
        """Stop reading; the thread gives the connection back after the chunk it is waiting for."""
        self._stopped.set()
        if not self._started:
            await in_thread(self._reply.close)


async def in_thread(call: Callable[..., T], *args: Any) -> T:
    """Run a blocking ``call`` in a thread of its own and wait for it without blocking the loop.

    Unlike the loop's default executor there is no small common limit: thirty agents that wait for a
    slow provider do not queue behind each other. A cancelled wait leaves the call to end by itself.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)  # type: ignore[arg-type]

    def work() -> None:
        value: T | None = None
        caught: BaseException | None = None
        try:
            value = call(*args)
        except BaseException as error:  # noqa: BLE001 - carried over to the awaiting side
            caught = error
        try:
            loop.call_soon_threadsafe(settle, value, caught)
        except RuntimeError:  # the loop has been closed: nobody waits any more
            return

    threading.Thread(target=work, name="afnb-call", daemon=True).start()
    return await done


class Upstream:
    """Who answers a request that the tape does not. Subclasses define ``answer`` or ``open``.

    An HTTP error status is an answer. ``UpstreamError`` is raised only where there is none: the
    provider cannot be reached. One upstream may be asked by many threads at once.
    """

    __slots__ = ()

    @property
    def origin(self) -> str:
        """Who this is, in one word for reports: an origin such as ``https://api.openai.com``."""
        return type(self).__name__

    @property
    def tools(self) -> dict[str, str | None]:
        """Of several upstreams those that are tools, each with its declared effect."""
        return {}

    def answer(self, request: Request) -> Response:
        """The whole answer. A streamed body has its chunks with their arrival times."""
        return self.open(request).collect()

    def open(self, request: Request) -> Reply:
        """The answer as it arrives."""
        return Reply.of(self.answer(request))

    async def answer_async(self, request: Request) -> Response:
        """``answer`` without blocking the event loop."""
        return await in_thread(self.answer, request)

    async def open_async(self, request: Request) -> AsyncReply:
        """``open`` without blocking the event loop."""
        return AsyncReply(await in_thread(self.open, request))

    def route(self, name: str | None, request: Request) -> Upstream:
        """Who answers this request where there are several upstreams; ``name`` is the one asked for."""
        return self

    def for_replay(self, seed: int, arm: str, index: int) -> Upstream:
        """The view one replay gets: fresh counters and its own randomness. A live provider is itself."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.origin!r})"
