"""``LoopbackServer``: a session on a port of this machine, for agents in any language.

Bound to 127.0.0.1 on a port the system chooses. Its base URL holds a token made for this run, so that
another local process can neither read the tape nor spend money through it.
"""

from __future__ import annotations

import secrets
import selectors
import socket
import socketserver
import threading
import time
from http.server import ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from afnb.core.cassette import Request
from afnb.errors import ParameterError, UpstreamError
from afnb.io.handler import Handler
from afnb.io.relay import pace_of
from afnb.io.reply import Reply, Upstream
from afnb.io.serve import Session
from afnb.io.upstream import RoutedUpstream, as_upstream

HOST = "127.0.0.1"
JOIN_S = 2.0


class LoopbackServer:
    """Serve a session over HTTP on 127.0.0.1 while the ``with`` block runs.

    Parameters
    ----------
    session
        The recording or replay. One server serves one session.
    upstream
        Who is asked live; whatever ``as_upstream`` takes. With a mapping of names the base URL of each is
        ``url_of(name)``; through the plain base URL the request's path decides. None: nobody, so that a live
        call fails (a replay that needs none is still fine).
    pace
        ``"at once"``, ``"as recorded"`` or a factor on the recorded times; None: as the session says.

    Raises
    ------
    ParameterError
        See ``as_upstream`` and ``pace_of``.

    Examples
    --------
    >>> import urllib.request
    >>> with LoopbackServer(Session(), [{"ok": True}]) as server:
    ...     urllib.request.urlopen(server.base_url + "/v1/models").read()
    b'{"ok":true}'
    """

    def __init__(self, session: Session, upstream: Any = None, *, pace: float | str | None = None) -> None:
        self.session = session
        self.upstream: Upstream = Nobody() if upstream is None else as_upstream(upstream)
        self.pace = pace_of(session.pace if pace is None else pace)
        self.token = secrets.token_urlsafe(16)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._wake: socket.socket | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """The port, once the server has been started."""
        if not self._port:
            raise ParameterError(
                "the server has no port yet; enter it with `with LoopbackServer(...) as server:`"
            )
        return self._port

    @property
    def base_url(self) -> str:
        """What the agent uses in place of the provider's origin: without ``/v1`` or a final slash."""
        return f"http://{HOST}:{self.port}/{self.token}"

    @property
    def blocking_proxy(self) -> str:
        """A proxy that lets nothing through and counts who was to be reached (``refused``: ``network``)."""
        return f"http://afnb:{self.token}@{HOST}:{self.port}"

    def url_of(self, name: str) -> str:
        """The base URL of one of several upstreams."""
        names = list(self.upstream.routes) if isinstance(self.upstream, RoutedUpstream) else []
        if name not in names:
            raise ParameterError(
                f"no upstream is called {name!r}; there are {', '.join(names) or 'no names'}"
            )
        return f"{self.base_url}/@{name}"

    def start(self) -> Self:
        """Begin to accept connections; ``with`` does this."""
        if self._server is not None:
            return self
        self._server = _Server(self)
        self._port = self._server.server_address[1]
        self.session.address = f"/{self.token}"
        self._wake, waker = socket.socketpair()
        self._thread = threading.Thread(
            target=self._server.serve_until, args=(waker,), name=f"afnb-server-{self._port}", daemon=True
        )
        self._thread.start()
        return self

    def close(self) -> None:
        """Close the session and every connection, and wait for the threads. Closing twice does nothing.

        A thread that waits for a provider cannot be interrupted: it is left behind after two seconds, and
        what it still brings is counted by the session, which takes no new requests.
        """
        server, self._server = self._server, None
        if server is None or self._wake is None or self._thread is None:
            return
        self.session.close()
        self._wake.close()
        self._thread.join()
        server.server_close()
        server.end_connections(JOIN_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Nobody(Upstream):
    """The upstream of a server that was given none."""

    def open(self, request: Request) -> Reply:
        """Nobody is there to ask."""
        raise UpstreamError(
            f"{request.method} {request.path.partition('?')[0]} would go live, and no upstream was given; "
            "give the provider's origin as the upstream"
        )


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    allow_reuse_address = False

    def __init__(self, owner: LoopbackServer) -> None:
        self.session = owner.session
        self.upstream = owner.upstream
        self.pace = owner.pace
        self.token = owner.token
        self._open: set[socket.socket] = set()
        self._serving: list[threading.Thread] = []
        self._lock = threading.Lock()
        super().__init__((HOST, 0), Handler)

    def server_bind(self) -> None:
        """Bind without looking up this machine's name, which can take seconds and is not needed."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def serve_until(self, waker: socket.socket) -> None:
        """Accept connections until the other end of ``waker`` is closed."""
        with selectors.DefaultSelector() as selector, waker:
            selector.register(self.socket, selectors.EVENT_READ)
            selector.register(waker, selectors.EVENT_READ)
            while all(key.fileobj is not waker for key, _ in selector.select()):
                try:
                    connection, address = self.get_request()
                except OSError:
                    continue
                self.process_request(connection, address)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread of its own, and remember both."""
        thread = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="afnb-connection",
            daemon=True,
        )
        with self._lock:
            self._open.add(request)
            self._serving = [*(other for other in self._serving if other.is_alive()), thread]
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that has ended."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def end_connections(self, seconds: float) -> None:
        """Cut what is still open and wait for its threads, at most ``seconds`` in all."""
        with self._lock:
            connections, threads = list(self._open), self._serving
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        limit = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, limit - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is the client's affair: nothing is printed."""
