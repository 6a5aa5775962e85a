"""One connection to the loopback server: HTTP/1.1 read from a socket, turns of the session written back."""

from __future__ import annotations

import base64
import hmac
import re
import select
import socket
import time
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, cast
from urllib.parse import urlsplit

from afnb.core.cassette import Chunk, Headers, Request, Response
from afnb.errors import UpstreamError
from afnb.io.live import end_to_end
from afnb.io.relay import Relay, delays, named, pieces, readable
from afnb.io.reply import Upstream
from afnb.io.serve import Forward, Serve, Session
from afnb.io.serve_answers import error_answer
from afnb.io.serve_tools import told
from afnb.io.tools import CONTROL
from afnb.io.upstream import RoutedUpstream

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT")
NO_BODY = frozenset({204, 304})
MAX_LINE = 1 << 16
TWICE = re.compile(r"^(/v\d+(?:beta)?)\1/")
VERSION = re.compile(r"^/v\d+(?:beta)?/")
ENDPOINTS = frozenset({"/chat/completions", "/responses", "/messages", "/completions", "/embeddings"})


class BadRequest(Exception):
    """The bytes on the connection are no HTTP request that can be answered."""


class Handler(BaseHTTPRequestHandler):
    """Reads requests, asks the session, writes what it says. Prints nothing."""

    protocol_version = "HTTP/1.1"
    server_version = "afnb"
    sys_version = ""
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed: a replay's standard error belongs to the agent."""

    def answer(self) -> None:
        """One request, start to end."""
        place = self._place()
        if place is None and self._through_proxy():
            return self._outside()
        if place is None:
            return self._whole(error_answer(404, "afnb_no_such_place", "this address serves one run only"))
        name, path = place
        try:
            body = self._body()
        except BadRequest as error:
            self.close_connection = True
            return self._whole(error_answer(400, "afnb_bad_request", str(error)))
        if path.startswith(CONTROL):
            return self._whole(told(self._session.tools, path.removeprefix(CONTROL), body))
        headers: Headers = tuple((k.lower(), v) for k, v in self.headers.items())
        asked = readable(Request(self.command, path, headers, body))
        if "websocket" in (self.headers.get("upgrade") or "").lower():
            return self._whole(self._session.turn_away(asked, "websocket", WEBSOCKET).response)
        wrong = self._misrouted(path)
        if wrong is not None:
            return self._whole(self._session.turn_away(asked, "misrouted", wrong).response)
        try:
            turn = self._session.decide(asked, name)
        except Exception as error:  # noqa: BLE001 - such as a user's normaliser that fails: the report names it
            kind = f"fault: {type(error).__name__}: {error}"
            return self._whole(self._session.turn_away(asked, kind, str(error)).response)
        if isinstance(turn, Forward):
            return self._ask(turn)
        if isinstance(turn, Serve):
            self._wait(turn.head_ms * self._pace / 1000)
            return self._recorded(turn.response)
        return self._whole(turn.response)

    def _through_proxy(self) -> bool:
        """Whether the agent took this server for a proxy, as ``blocking_proxy`` tells it to."""
        scheme, _, said = (self.headers.get("proxy-authorization") or "").partition(" ")
        expected = base64.b64encode(f"afnb:{self.server.token}".encode())  # type: ignore[attr-defined]
        return scheme.lower() == "basic" and hmac.compare_digest(said.strip().encode(), expected)

    def _outside(self) -> None:
        """Refuse a request that was to leave this machine, and count it."""
        self.close_connection = True
        where = self.path if self.command == "CONNECT" else urlsplit(self.path).netloc
        asked = Request(self.command, where)
        self._whole(self._session.turn_away(asked, "network", f"{where} {OUTSIDE}").response)

    @property
    def _session(self) -> Session:
        return cast(Session, self.server.session)  # type: ignore[attr-defined]

    @property
    def _upstream(self) -> Upstream:
        return cast(Upstream, self.server.upstream)  # type: ignore[attr-defined]

    @property
    def _pace(self) -> float:
        return cast(float, self.server.pace)  # type: ignore[attr-defined]

    def _place(self) -> tuple[str | None, str] | None:
        """The upstream named in the URL, if any, and the path the agent asked; None without the token."""
        target = self.path
        if not target.startswith("/"):
            parts = urlsplit(target)
            target = parts.path + (f"?{parts.query}" if parts.query else "")
        first, slash, rest = target[1:].partition("/")
        token, mark, query = first.partition("?")
        expected = str(self.server.token)  # type: ignore[attr-defined]
        if not hmac.compare_digest(token.encode("latin-1", "replace"), expected.encode()):
            return None
        path = slash + rest if slash else "/" + mark + query
        if path.startswith(CONTROL):
            return None, path
        name, path = named(path, self._upstream)
        if (
            name is not None
            and isinstance(self._upstream, RoutedUpstream)
            and name not in self._upstream.routes
        ):
            return None
        return name, path

    def _misrouted(self, path: str) -> str | None:
        """What to set, where the base URL was given with a ``/v1`` too many or too few."""
        plain = path.partition("?")[0]
        doubled = TWICE.match(plain)
        if doubled is not None:
            return (
                f"the agent asked {plain}: its SDK adds {doubled[1]} by itself; "
                f"set the base URL without {doubled[1]} at its end"
            )
        tape = self._session.tape
        if plain in ENDPOINTS and tape is not None and len(tape.cassette):
            recorded = [exchange.request.path for exchange in tape.cassette.exchanges]
            if all(VERSION.match(p) for p in recorded):
                version = recorded[0].split("/")[1]
                return (
                    f"the agent asked {plain}, the recording has {recorded[0].partition('?')[0]}; "
                    f"set the base URL with /{version} at its end"
                )
        return None

    def _body(self) -> bytes:
        if "chunked" in (self.headers.get("transfer-encoding") or "").lower():
            return self._chunked_body()
        length = self.headers.get("content-length")
        if length is None:
            return b""
        if not length.strip().isdecimal():
            raise BadRequest(f"content-length is {length!r}; it must be a number")
        return self._exactly(int(length))

    def _exactly(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise ConnectionResetError("the request ended before its body did")
        return data

    def _chunked_body(self) -> bytes:
        parts: list[bytes] = []
        while True:
            line = self.rfile.readline(MAX_LINE)
            if not line:
                raise ConnectionResetError("the request ended before its body did")
            size = line.partition(b";")[0].strip()
            if not re.fullmatch(rb"[0-9a-fA-F]{1,15}", size):
                raise BadRequest("a chunk of the request's body has no size")
            if int(size, 16) == 0:
                break
            parts.append(self._exactly(int(size, 16)))
            if self._exactly(2) != b"\r\n":
                raise BadRequest("a chunk of the request's body is longer than it says")
        while self.rfile.readline(MAX_LINE).strip():
            pass  # trailers: nothing that could matter to a recording
        return b"".join(parts)

    def _ask(self, forward: Forward) -> None:
        session, upstream = self._session, self._upstream
        try:
            if isinstance(upstream, RoutedUpstream):
                upstream = upstream.route(forward.upstream, forward.request)
            reply = upstream.open(forward.request)
        except Exception as error:  # noqa: BLE001 - whatever an upstream raises, the agent gets an answer
            return self._whole(session.fail(forward, error))
        relay = Relay(session, forward, reply)
        try:
            if reply.is_stream and self.command != "HEAD":
                self._stream(reply.status, reply.headers, relay)
            else:
                self._recorded(relay.collect())
        except UpstreamError:
            self._cut()
        finally:
            relay.close()

    def _recorded(self, response: Response) -> None:
        """Write an answer that is all there; a stream in its chunks, one that was cut up to its cut."""
        chunks = pieces(response)
        if self.command == "HEAD" or (chunks is None and not response.incomplete):
            self._whole(response)
        elif chunks is None:
            self.wfile.write(self._head(response, len(response.body) + 1) + response.body)
            self._cut()
        else:
            self._stream(
                response.status, response.headers, self._paced(chunks), whole=not response.incomplete
            )

    def _paced(self, chunks: tuple[Chunk, ...]) -> Iterable[bytes]:
        start = time.perf_counter()
        for due, data in delays(chunks, self._pace):
            self._wait(due - (time.perf_counter() - start))
            yield data

    def _whole(self, response: Response) -> None:
        bare = self.command == "HEAD" or response.status in NO_BODY or response.status < 200
        head = self._head(response, None if bare and not response.body else len(response.body))
        self.wfile.write(head if bare else head + response.body)

    def _stream(self, status: int, headers: Headers, body: Iterable[bytes], *, whole: bool = True) -> None:
        """Write chunks as they come. HTTP/1.0 knows none: there the end of the connection is the end."""
        chunked = self.request_version != "HTTP/1.0"
        if not chunked:
            self.close_connection = True
        self.wfile.write(self._head(Response(status, headers), None, chunked=chunked))
        for data in body:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
        if not whole:
            self._cut()
        elif chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _head(self, response: Response, length: int | None, *, chunked: bool = False) -> bytes:
        try:
            phrase = HTTPStatus(response.status).phrase
        except ValueError:
            phrase = ""
        lines = [f"{self.protocol_version} {response.status} {phrase}"]
        lines += [
            f"{k}: {_one_line(v)}" for k, v in end_to_end(response.headers) if k.lower() != "content-encoding"
        ]
        if chunked:
            lines.append("transfer-encoding: chunked")
        elif length is not None:
            lines.append(f"content-length: {length}")
        if self.close_connection:
            lines.append("connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")

    def _wait(self, seconds: float) -> None:
        """Wait, but not for an agent that has gone."""
        if seconds <= 0:
            return
        readable_now, _, _ = select.select([self.connection], [], [], seconds)
        if readable_now:
            if not self.connection.recv(1, socket.MSG_PEEK):
                raise BrokenPipeError("the agent closed the connection")
            time.sleep(seconds)

    def _cut(self) -> None:
        """End the connection in the middle of an answer, as the provider's ended."""
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


WEBSOCKET = (
    "websockets are not recorded or replayed; tell the SDK to use plain HTTP (for the OpenAI SDK: do not use "
    "the realtime client or the websocket mode of responses)"
)


OUTSIDE = (
    "was asked directly, and the network is blocked for this run; lead the agent here by its base URL "
    "(--base-url-env names the variable it reads)"
)


def _one_line(value: str) -> str:
    return value.replace("\r", " ").replace("\n", " ")


for _method in METHODS:
    setattr(Handler, f"do_{_method}", Handler.answer)
