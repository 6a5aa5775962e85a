"""Transports over a ``Session`` for agents that run in this process: sync and async, httpx and httpx2.

The SDKs of OpenAI, Anthropic, Google and Mistral are built on ``httpx2``, older ones and litellm on
``httpx``; the two share their shape and no class. Each is imported only when it is asked for.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from afnb.core.cassette import Chunk, Headers, Request, Response
from afnb.errors import MissingDependency, ParameterError, UpstreamError
from afnb.io.live import LiveUpstream, end_to_end
from afnb.io.patience import GaveUp, open_within, open_within_async, patience_of
from afnb.io.relay import Progress, Relay, delays, named, pace_of, pieces, readable
from afnb.io.reply import AsyncReply, Upstream
from afnb.io.serve import Forward, Serve, Session
from afnb.io.upstream import RoutedUpstream, as_upstream

MODULES = ("httpx2", "httpx")
BASE_URL = "http://afnb.invalid"
CUT = "the recorded answer stops here, before its end"


def http_module(module: str | ModuleType | None = None) -> Any:
    """``httpx2`` or ``httpx``: the one asked for, else the first that is installed.

    Raises
    ------
    MissingDependency
        It is not installed.
    ParameterError
        It is neither of the two.

    Examples
    --------
    >>> http_module("httpx").__name__
    'httpx'
    """
    name = module.__name__ if isinstance(module, ModuleType) else module
    if name is not None and name not in MODULES:
        raise ParameterError(f"module is {name!r}; it is 'httpx2' or 'httpx'")
    for candidate in MODULES if name is None else (name,):
        try:
            return importlib.import_module(candidate)
        except ImportError:
            continue
    raise MissingDependency(name or "httpx2", extra="sdk" if name != "httpx" else None)


class Connection:
    """What both transports know: the session, who answers live, and the pace of recorded times."""

    def __init__(self, session: Session, upstream: Any = None, pace: float | str | None = None) -> None:
        self.session = session
        self.upstream: Upstream | None = None if upstream is None else as_upstream(upstream)
        self.pace = pace_of(session.pace if pace is None else pace)
        self._origins: dict[str, Upstream] = {}
        self._lock = threading.Lock()

    def turn(self, request: Any, body: bytes) -> tuple[Any, Upstream | None]:
        """The session's decision, and who to ask if it is a ``Forward``."""
        headers: Headers = tuple(
            (k.decode("latin-1").lower(), v.decode("latin-1")) for k, v in request.headers.raw
        )
        path = request.url.raw_path.decode("latin-1")
        address = self.session.address
        if address is not None and path.startswith(address + "/"):
            path = path[len(address) :]
        name, path = named(path, self.upstream)
        turn = self.session.decide(readable(Request(request.method, path, headers, body)), name)
        return turn, self._who(request, turn) if isinstance(turn, Forward) else None

    def _who(self, request: Any, forward: Forward) -> Upstream:
        """The upstream given, or without one the host that the client itself would have asked."""
        if isinstance(self.upstream, RoutedUpstream):
            return self.upstream.route(forward.upstream, forward.request)
        if self.upstream is not None:
            return self.upstream
        url = urlsplit(str(request.url))
        origin = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
        with self._lock:
            if origin not in self._origins:
                self._origins[origin] = LiveUpstream(origin)
            return self._origins[origin]

    def unanswered(self, http: Any, forward: Forward, error: UpstreamError, request: Any) -> Response:
        """The answer to give where the provider gave none; while recording, the error the client expects."""
        response = self.session.fail(forward, error)
        if self.session.mode == "record":
            raise http.ConnectError(str(error), request=request) from error
        return response


def transport(
    session: Session,
    upstream: Any = None,
    *,
    module: str | ModuleType | None = None,
    pace: float | str | None = None,
) -> Any:
    """A transport for ``httpx2.Client`` or ``httpx.Client``.

    Parameters
    ----------
    session
        The recording or replay it serves.
    upstream
        Who is asked live; whatever ``as_upstream`` takes. None asks the host the client meant to ask.
    module
        ``"httpx2"`` or ``"httpx"``, or the module itself; None takes the first that is installed.
    pace
        ``"at once"``, ``"as recorded"`` or a factor on the recorded times; None: as the session says.

    Raises
    ------
    ParameterError, MissingDependency
        See ``as_upstream`` and ``http_module``.

    Examples
    --------
    >>> type(transport(Session(), [{"ok": True}], module="httpx")).__mro__[2].__name__
    'BaseTransport'
    """
    made = _classes(http_module(module).__name__)
    return made["sync"](Connection(session, upstream, pace))


def async_transport(
    session: Session,
    upstream: Any = None,
    *,
    module: str | ModuleType | None = None,
    pace: float | str | None = None,
) -> Any:
    """A transport for ``httpx2.AsyncClient`` or ``httpx.AsyncClient``; see ``transport``.

    Live calls are made in threads of their own, so that they do not hold up the event loop.
    """
    made = _classes(http_module(module).__name__)
    return made["async"](Connection(session, upstream, pace))


def client(
    session: Session,
    upstream: Any = None,
    *,
    module: str | ModuleType | None = None,
    pace: float | str | None = None,
    base_url: str = BASE_URL,
    **options: Any,
) -> Any:
    """An ``httpx2`` or ``httpx`` client whose every request goes through the session; see ``transport``.

    No proxy or other setting of the environment applies to it. ``options`` go to the client, which waits
    for ever unless they hold a ``timeout``.

    Examples
    --------
    >>> with client(Session(), [{"ok": True}], module="httpx") as http:
    ...     http.get("/v1/models").json()
    {'ok': True}
    """
    http = http_module(module)
    made = transport(session, upstream, module=http, pace=pace)
    options = {"timeout": None, **options}
    return http.Client(transport=made, base_url=base_url, trust_env=False, **options)


def async_client(
    session: Session,
    upstream: Any = None,
    *,
    module: str | ModuleType | None = None,
    pace: float | str | None = None,
    base_url: str = BASE_URL,
    **options: Any,
) -> Any:
    """The asynchronous ``client``."""
    http = http_module(module)
    made = async_transport(session, upstream, module=http, pace=pace)
    options = {"timeout": None, **options}
    return http.AsyncClient(transport=made, base_url=base_url, trust_env=False, **options)


class _Sync:
    """One request, start to end, for a synchronous client. ``http`` is set by the class made for a module."""

    http: Any
    stream: Any

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def handle_request(self, request: Any) -> Any:
        connection = self.connection
        turn, upstream = connection.turn(request, request.read())
        if upstream is not None:
            return self._ask(request, turn, upstream)
        wait = turn.head_ms * connection.pace / 1000 if isinstance(turn, Serve) else 0.0
        if wait:
            time.sleep(wait)
        return self._give(turn.response, connection.pace)

    def _ask(self, request: Any, forward: Forward, upstream: Upstream) -> Any:
        session = self.connection.session
        try:
            reply = open_within(upstream, forward.request, patience_of(request))
        except GaveUp as error:
            session.fail(forward, error, abandoned=True)
            raise self.http.ReadTimeout(str(error), request=request) from error
        except UpstreamError as error:
            return self._give(self.connection.unanswered(self.http, forward, error, request), 0.0)
        except BaseException as error:
            session.fail(forward, error, abandoned=not isinstance(error, Exception))
            raise
        relay = Relay(session, forward, reply)
        if reply.is_stream:
            return self._head(reply.status, reply.headers, iter(relay), relay.close)
        return self._give(relay.collect(), 0.0)

    def _give(self, response: Response, pace: float) -> Any:
        chunks = pieces(response)
        if chunks is None and not response.incomplete:
            return self.http.Response(
                response.status, headers=end_to_end(response.headers), content=response.body
            )
        return self._head(response.status, response.headers, _play(response, pace))

    def _head(
        self, status: int, headers: Headers, body: Iterator[bytes], close: Callable[[], None] | None = None
    ) -> Any:
        return self.http.Response(status, headers=end_to_end(headers), stream=self.stream(body, close))


class _Async:
    """One request, start to end, for an asynchronous client."""

    http: Any
    stream: Any

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def handle_async_request(self, request: Any) -> Any:
        connection = self.connection
        turn, upstream = connection.turn(request, await request.aread())
        if upstream is not None:
            return await self._ask(request, turn, upstream)
        wait = turn.head_ms * connection.pace / 1000 if isinstance(turn, Serve) else 0.0
        if wait:
            await asyncio.sleep(wait)
        return self._give(turn.response, connection.pace)

    async def _ask(self, request: Any, forward: Forward, upstream: Upstream) -> Any:
        session = self.connection.session
        try:
            reply = await open_within_async(upstream, forward.request, patience_of(request))
        except GaveUp as error:
            session.fail(forward, error, abandoned=True)
            raise self.http.ReadTimeout(str(error), request=request) from error
        except UpstreamError as error:
            return self._give(self.connection.unanswered(self.http, forward, error, request), 0.0)
        except BaseException as error:
            session.fail(forward, error, abandoned=not isinstance(error, Exception))
            raise
        body = _AsyncRelay(session, forward, reply)
        if reply.is_stream:
            return self._head(reply.status, reply.headers, body)
        return self._give(await body.collect(), 0.0)

    def _give(self, response: Response, pace: float) -> Any:
        chunks = pieces(response)
        if chunks is None and not response.incomplete:
            return self.http.Response(
                response.status, headers=end_to_end(response.headers), content=response.body
            )
        return self._head(response.status, response.headers, _AsyncPlay(response, pace))

    def _head(self, status: int, headers: Headers, body: Any) -> Any:
        return self.http.Response(status, headers=end_to_end(headers), stream=self.stream(body))


class _AsyncRelay:
    """``Relay`` for an event loop."""

    def __init__(self, session: Session, forward: Forward, reply: AsyncReply) -> None:
        self._reply = reply
        self._progress = Progress(session, forward, reply)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        whole = False
        try:
            async for data in self._reply:
                self._progress.before(data)
                yield data
            whole = True
        except Exception:
            whole = True
            raise
        finally:
            self._progress.end(abandoned=not whole)

    async def collect(self) -> Response:
        try:
            async for _ in self:
                pass
        except UpstreamError:
            pass
        return self._progress.end()

    async def aclose(self) -> None:
        await self._reply.aclose()
        self._progress.end(abandoned=True)


class _AsyncPlay:
    """A recorded answer in its pieces, at its pace."""

    def __init__(self, response: Response, pace: float) -> None:
        self._response = response
        self._pace = pace

    async def __aiter__(self) -> AsyncIterator[bytes]:
        start = time.perf_counter()
        for due, data in delays(pieces(self._response) or _one(self._response), self._pace):
            left = due - (time.perf_counter() - start)
            if left > 0:
                await asyncio.sleep(left)
            yield data
        if self._response.incomplete:
            raise UpstreamError(CUT)

    async def aclose(self) -> None:
        return None


def _play(response: Response, pace: float) -> Iterator[bytes]:
    start = time.perf_counter()
    for due, data in delays(pieces(response) or _one(response), pace):
        left = due - (time.perf_counter() - start)
        if left > 0:
            time.sleep(left)
        yield data
    if response.incomplete:
        raise UpstreamError(CUT)


def _one(response: Response) -> tuple[Chunk, ...]:
    return (Chunk(0.0, response.body),) if response.body else ()


@functools.cache
def _classes(name: str) -> dict[str, Any]:
    """The transport and stream classes for one of the two modules: their bases have to be that module's."""
    http = importlib.import_module(name)

    class Stream(http.SyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, body: Iterator[bytes], close: Callable[[], None] | None) -> None:
            self._body = body
            self._close = close

        def __iter__(self) -> Iterator[bytes]:
            try:
                yield from self._body
            except UpstreamError as error:
                raise http.RemoteProtocolError(str(error)) from error

        def close(self) -> None:
            if self._close is not None:
                self._close()

    class AsyncStream(http.AsyncByteStream):  # type: ignore[misc, name-defined]
        """Begun once: a second loop over it, as SDKs drain a stream with, goes on where the first one was."""

        def __init__(self, body: Any) -> None:
            self._body = body
            self._items = body.__aiter__()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for data in self._items:
                    yield data
            except UpstreamError as error:
                raise http.RemoteProtocolError(str(error)) from error

        async def aclose(self) -> None:
            await self._body.aclose()

    def make(bases: tuple[Any, ...], stream: Any, title: str) -> Any:
        return type(title, bases, {"http": http, "stream": stream, "__module__": __name__})

    return {
        "sync": make((_Sync, http.BaseTransport), Stream, "SessionTransport"),
        "async": make((_Async, http.AsyncBaseTransport), AsyncStream, "AsyncSessionTransport"),
    }
