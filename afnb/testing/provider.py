"""``FakeProvider``: a made-up provider on a real loopback socket, with faults on demand.

For end-to-end tests of agents and recorders: the official SDKs talk to it as they would to OpenAI or
Anthropic. It keeps every request it saw, headers included, so that a test can tell what was sent.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast

from afnb.core.cassette import Headers, Request, header
from afnb.errors import ParameterError, UpstreamError
from afnb.io.answers import error
from afnb.io.reply import Reply
from afnb.io.simulated import Policy, SimulatedUpstream
from afnb.io.upstream import Upstream, as_upstream


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one request; several may be combined.

    Parameters
    ----------
    status, message, headers
        Answer with this HTTP error (429, 503, 529, ...) instead, with these headers added.
    drop
        Close the connection without an answer.
    cut_after
        Close it after this many bytes of the body.
    delay_s
        Wait this long before answering.
    """

    status: int | None = None
    message: str = "made-up fault"
    headers: Headers = ()
    drop: bool = False
    cut_after: int | None = None
    delay_s: float = 0.0


Faults = Mapping[int, Fault] | Callable[[int, Request], Fault | None]


class FakeProvider:
    """A loopback HTTP server that answers model requests from a policy.

    Parameters
    ----------
    source
        A policy (see ``SimulatedUpstream``), or an upstream.
    seed
        For the policy's randomness and the ids.
    faults
        By number of the request (0-based, in order of arrival), or a function of number and request.
    encoding
        Compress bodies (``gzip`` or ``deflate``) for clients that accept it.
    pace_s
        Seconds between two events of a stream.
    extra_headers
        Added to every answer.

    Examples
    --------
    >>> import urllib.request
    >>> with FakeProvider(lambda talk, rng: "hello") as provider:
    ...     ask = urllib.request.Request(provider.url + "/v1/messages", b'{"messages": []}')
    ...     b"hello" in urllib.request.urlopen(ask).read(), len(provider.requests)
    (True, 1)
    """

    def __init__(
        self,
        source: Policy | Upstream,
        *,
        seed: int = 0,
        faults: Faults | None = None,
        encoding: str | None = None,
        pace_s: float = 0.0,
        extra_headers: Headers = (),
    ) -> None:
        if encoding not in (None, "gzip", "deflate"):
            raise ParameterError(f"encoding is {encoding!r}; expected 'gzip', 'deflate' or None")
        if isinstance(source, Upstream) or not callable(source):
            self._upstream = as_upstream(source)
        else:
            self._upstream = SimulatedUpstream(source, seed=seed, pace_s=pace_s)
        self._faults = faults or {}
        self._encoding = encoding
        self._extra = extra_headers
        self._seen: list[Request] = []
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Origin of the server, such as ``http://127.0.0.1:40123``."""
        if self._server is None:
            raise ParameterError("this FakeProvider is not running; use it in a with statement")
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[Request]:
        """Every request so far, headers included."""
        with self._lock:
            return list(self._seen)

    def __enter__(self) -> Self:
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="afnb-provider", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        server, self._server = self._server, None
        if server is None or self._thread is None:
            return
        server.shutdown()
        self._thread.join()
        with self._lock:
            left = list(self._sockets)
        for connection in left:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        server.server_close()

    def _opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._sockets.add(connection)

    def _ended(self, connection: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(connection)

    def _take(self, request: Request) -> Fault:
        with self._lock:
            number = len(self._seen)
            self._seen.append(request)
        found = self._faults(number, request) if callable(self._faults) else self._faults.get(number)
        return found or Fault()

    def _reply(self, request: Request, fault: Fault) -> Reply:
        if fault.status is not None:
            return Reply.of(error(request, fault.status, fault.message, fault.headers))
        try:
            return self._upstream.open(request)
        except UpstreamError as problem:
            return Reply.of(error(request, 500, str(problem)))


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for them
    request_queue_size = 128

    def __init__(self, owner: FakeProvider) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection before its thread starts, so that closing finds it."""
        self.owner._opened(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection."""
        self.owner._ended(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def _provider(self) -> FakeProvider:
        return cast(_Server, self.server).owner

    def log_message(self, format: str, *args: Any) -> None:
        return

    def _any(self) -> None:
        headers = tuple((k.lower(), v) for k, v in self.headers.items())
        request = Request(self.command, self.path, headers, self._body())
        fault = self._provider._take(request)
        time.sleep(fault.delay_s)
        if fault.drop:
            self._hang_up()
            return
        with self._provider._reply(request, fault) as reply:
            self._answer(request, reply, fault)

    do_GET = do_POST = do_PUT = do_DELETE = _any

    def _body(self) -> bytes:
        if (self.headers.get("transfer-encoding") or "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def _answer(self, request: Request, reply: Reply, fault: Fault) -> None:
        coding = self._provider._encoding
        if coding and coding not in (header(request.headers, "accept-encoding") or ""):
            coding = None
        self.send_response(reply.status)
        for name, value in (*reply.headers, *self._provider._extra):
            self.send_header(name, value)
        if coding:
            self.send_header("content-encoding", coding)
        pieces: Iterator[bytes] = _encoded(reply, coding)
        if not reply.is_stream:
            whole = b"".join(pieces)
            self.send_header("content-length", str(len(whole)))
            self.end_headers()
            self._send(iter([whole]), fault, chunked=False)
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._send(pieces, fault, chunked=True)

    def _send(self, pieces: Iterator[bytes], fault: Fault, *, chunked: bool) -> None:
        left = fault.cut_after
        for piece in pieces:
            data = piece if left is None else piece[:left]
            if data:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
                self.wfile.flush()
            if left is not None:
                left -= len(data)
                if left <= 0:
                    self._hang_up()
                    return
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _encoded(pieces: Reply, coding: str | None) -> Iterator[bytes]:
    if coding is None:
        yield from pieces
        return
    wbits = 16 + zlib.MAX_WBITS if coding == "gzip" else zlib.MAX_WBITS
    press = zlib.compressobj(wbits=wbits)
    for piece in pieces:
        yield press.compress(piece) + press.flush(zlib.Z_SYNC_FLUSH)
    yield press.flush()
