"""The loopback server: HTTP as clients of any language speak it, one run to a server."""

from __future__ import annotations

import gzip
import http.client
import json
import pickle
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from afnb.core.canon import Matching
from afnb.core.cassette import Cassette, Chunk, Exchange, Request, Response
from afnb.core.tape import Tape
from afnb.errors import ParameterError, UpstreamError
from afnb.io.reply import Reply, Upstream
from afnb.io.serve import Refuse, Session
from afnb.io.server import LoopbackServer

from .talks import chat, said

SSE = (("content-type", "text/event-stream"),)
TEXT = (("content-type", "text/plain"),)
EVENTS = (b'data: "a\xe2\x80\xa8b"\n\n', b'data: "\xe4\xb8\x96"\n\n', b"data: [DONE]\n\n")


def echo(request: Request) -> Response:
    """What came in, as JSON."""
    headers = dict(request.headers)
    what = {"method": request.method, "path": request.path, "size": len(request.body), "headers": headers}
    return Response(200, (("content-type", "application/json"),), json.dumps(what).encode())


class Streams(Upstream):
    """A stream that goes on only when it is told to."""

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)
        self.ended = threading.Event()

    def open(self, request: Request) -> Reply:
        return Reply(200, SSE, self._body(), self.ended.set)

    def _body(self) -> Iterator[bytes]:
        for part in EVENTS:
            assert self.go.acquire(timeout=10)
            yield part


@pytest.fixture(autouse=True)
def _nothing_printed_and_no_thread_left(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    left = [t.name for t in threading.enumerate() if t.name.startswith(("afnb-server", "afnb-connection"))]
    assert left == []
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


class Line:
    """One raw connection to a server."""

    def __init__(self, server: LoopbackServer) -> None:
        self.token = server.token
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        self.file = self.socket.makefile("rb")

    def send(self, text: str, body: bytes = b"") -> None:
        self.socket.sendall(text.replace("TOKEN", self.token).replace("\n", "\r\n").encode() + b"\r\n" + body)

    def head(self) -> tuple[int, dict[str, str]]:
        version, status_text = self.file.readline().split()[:2]
        assert version == b"HTTP/1.1"
        status = int(status_text)
        headers: dict[str, str] = {}
        while (line := self.file.readline().strip()) != b"":
            name, _, value = line.decode().partition(": ")
            headers[name] = value
        return status, headers

    def chunk(self) -> bytes:
        size = self.file.readline()
        if not size:
            raise EOFError
        data = self.file.read(int(size, 16))
        assert self.file.read(2) == b"\r\n"
        return data

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def ask(
    server: LoopbackServer, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(
            method, f"/{server.token}{path}", body, {k.replace("_", "-"): v for k, v in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def tape_of(*responses: Response) -> Tape:
    return Tape(Cassette("c", tuple(Exchange(i, chat("u"), r) for i, r in enumerate(responses))))


# --- who may ask, and where ------------------------------------------------------------------------


def test_only_who_knows_the_token_is_answered() -> None:
    session = Session()
    with LoopbackServer(session, echo) as server:
        for path in ("/", "/v1/models", f"/{server.token[:-1]}/v1/models", f"/x{server.token}/v1", "/%00"):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            connection.request("GET", path)
            assert connection.getresponse().status == 404
            connection.close()
        assert ask(server, "GET", "/v1/models")[0] == 200
    assert session.report().requests == 1


def test_it_listens_on_this_machine_alone() -> None:
    with LoopbackServer(Session(), echo) as server, LoopbackServer(Session(), echo) as other:
        assert server.base_url == f"http://127.0.0.1:{server.port}/{server.token}"
        assert (server.port, server.token) != (other.port, other.token)
        for port in (server.port, other.port):
            with socket.socket() as elsewhere:  # the same port of another loopback address is still free
                elsewhere.bind(("127.0.0.2", port))


def test_a_server_has_no_url_before_it_is_entered() -> None:
    with pytest.raises(ParameterError, match="with LoopbackServer"):
        _ = LoopbackServer(Session()).base_url


@pytest.mark.parametrize("target", ["/TOKEN/v1/models?a=b", "http://127.0.0.1/TOKEN/v1/models?a=b"])
def test_the_path_reaches_the_provider_without_the_token(target: str) -> None:
    session = Session()
    with LoopbackServer(session, echo) as server:
        line = Line(server)
        line.send(f"GET {target} HTTP/1.1\nhost: x\n")
        _, headers = line.head()
        assert json.loads(line.file.read(int(headers["content-length"])))["path"] == "/v1/models?a=b"
        line.close()
        assert server.token.encode() not in pickle.dumps(session.cassette())


def test_several_upstreams_by_name() -> None:
    session = Session()
    both = {"one": lambda r: {"from": 1, "path": r.path}, "two": lambda r: {"from": 2, "path": r.path}}
    with LoopbackServer(session, both) as server:
        assert server.url_of("two") == server.base_url + "/@two"
        assert json.loads(ask(server, "POST", "/@two/v1/x", b"{}")[1]) == {"from": 2, "path": "/v1/x"}
        assert json.loads(ask(server, "POST", "/@one/v1/x", b"{}")[1]) == {"from": 1, "path": "/v1/x"}
        assert json.loads(ask(server, "POST", "/v1/x", b"{}")[1]) == {"from": 1, "path": "/v1/x"}
        assert ask(server, "POST", "/@three/v1/x", b"{}")[0] == 404
        with pytest.raises(ParameterError, match="one, two"):
            server.url_of("three")
    assert [e.upstream for e in session.cassette().exchanges] == ["two", "one", None]
    assert {e.request.path for e in session.cassette().exchanges} == {"/v1/x"}


@pytest.mark.parametrize(
    ("path", "kind", "word"),
    [
        ("/v1/v1/messages", "misrouted", "without /v1"),
        ("/chat/completions", "misrouted", "with /v1 at its end"),
        ("/v1/chat/completions", None, ""),
    ],
)
def test_a_base_url_with_a_version_too_many_or_too_few(path: str, kind: str | None, word: str) -> None:
    session = Session(tape_of(said("x")), live=False)
    with LoopbackServer(session) as server:
        status, body = ask(server, "POST", path, chat("u").body)
    if kind is None:
        assert status == 200
    else:
        assert status == 424
        assert word in json.loads(body)["error"]["message"]
        assert session.report().refused == ((kind, 1),)


def test_websockets_are_refused_in_words() -> None:
    session = Session()
    with LoopbackServer(session, echo) as server:
        status, body = ask(server, "GET", "/v1/realtime", Connection="Upgrade", Upgrade="websocket")
        assert status == 424
        assert "websockets are not recorded" in json.loads(body)["error"]["message"]
        assert ask(server, "GET", "/v1/models", Connection="Upgrade", Upgrade="h2c")[0] == 200
    assert session.report().refused == (("websocket", 1),)


def test_without_an_upstream_a_live_call_fails_in_words() -> None:
    session = Session()
    with LoopbackServer(session) as server:
        status, body = ask(server, "GET", "/v1/models")
    assert status == 502
    assert "no upstream was given" in json.loads(body)["error"]["message"]


# --- requests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_methods_pass(method: str) -> None:
    with LoopbackServer(Session(), echo) as server:
        status, body = ask(server, method, "/v1/files/7", b"" if method == "GET" else b"abc")
    assert status == 200
    assert json.loads(body)["method"] == method


def test_head_and_empty_answers_keep_the_connection_in_step() -> None:
    answers = iter([Response(200, TEXT, b"abc"), Response(204), Response(200, TEXT, b"end")])
    with LoopbackServer(Session(), lambda request: next(answers)) as server:
        line = Line(server)
        for method, expected in (("HEAD", 200), ("DELETE", 204), ("GET", 200)):
            line.send(f"{method} /TOKEN/v1/x HTTP/1.1\nhost: x\n")
            status, headers = line.head()
            assert status == expected
            assert headers.get("content-length") == {"HEAD": "3", "DELETE": None, "GET": "3"}[method]
        assert line.file.read(int(headers["content-length"])) == b"end"
        line.close()


def test_chunked_large_encoded_and_binary_bodies() -> None:
    session = Session()
    big = bytes(range(256)) * 32768
    with LoopbackServer(session, echo) as server:
        for body, headers in (
            (iter([b"abc", b"x" * 70000, b"d"]), {}),
            (big, {}),
            (gzip.compress(b"abc" * 1000), {"Content_Encoding": "gzip"}),
            (b"\xff\xfe\x00", {"Content_Type": "application/octet-stream"}),
        ):
            assert ask(server, "POST", "/v1/files", body, **headers)[0] == 200
    bodies = [e.request.body for e in session.cassette().exchanges]
    assert bodies == [b"abc" + b"x" * 70000 + b"d", big, b"abc" * 1000, b"\xff\xfe\x00"]


def test_trailers_of_a_chunked_body_are_read_past() -> None:
    with LoopbackServer(Session(), echo) as server:
        line = Line(server)
        for _ in range(2):
            body = b"3;ext=1\r\nabc\r\n0\r\nx-trailer: 1\r\nx-other: 2\r\n\r\n"
            line.send("POST /TOKEN/v1/x HTTP/1.1\nhost: x\ntransfer-encoding: chunked\n", body)
            status, headers = line.head()
            assert status == 200
            assert json.loads(line.file.read(int(headers["content-length"])))["size"] == 3
        line.close()


def test_expect_100_continue() -> None:
    with LoopbackServer(Session(), echo) as server:
        line = Line(server)
        line.send("POST /TOKEN/v1/x HTTP/1.1\nhost: x\nexpect: 100-continue\ncontent-length: 3\n")
        assert line.head()[0] == 100
        line.socket.sendall(b"abc")
        assert line.head()[0] == 200
        line.close()


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("transfer-encoding: chunked", b"zz\r\nabc\r\n0\r\n\r\n"),
        ("transfer-encoding: chunked", b"2\r\nabcd\r\n0\r\n\r\n"),
        ("content-length: three", b"abc"),
        ("content-length: -3", b"abc"),
    ],
)
def test_a_request_that_is_none(head: str, body: bytes) -> None:
    session = Session()
    with LoopbackServer(session, echo) as server:
        line = Line(server)
        line.send(f"POST /TOKEN/v1/x HTTP/1.1\nhost: x\n{head}\n", body)
        status, headers = line.head()
        assert (status, headers["connection"]) == (400, "close")
        line.close()
    assert session.report().requests == 0


def test_a_request_that_breaks_off_is_dropped() -> None:
    session = Session()
    with LoopbackServer(session, echo) as server:
        for text in ("content-length: 10\n", "transfer-encoding: chunked\n"):
            line = Line(server)
            line.send(f"POST /TOKEN/v1/x HTTP/1.1\nhost: x\n{text}", b"5\r\nabc")
            line.socket.shutdown(socket.SHUT_WR)
            assert line.file.read() == b""
            line.close()
        assert ask(server, "GET", "/v1/x")[0] == 200
    assert session.report().requests == 1


def test_headers_reach_the_provider_and_no_hop_by_hop_one_comes_back() -> None:
    hop = (
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("transfer-encoding", "chunked"),
        ("content-length", "999"),
    )
    sent = (*TEXT, ("x-request-id", "7"), ("x-odd", "a\r\nb"), *hop, ("content-encoding", "gzip"))

    class Odd(Upstream):
        def open(self, request: Request) -> Reply:
            assert dict(request.headers)["authorization"] == "Bearer SECRET"
            return Reply(200, sent, [b"ok"])

    session = Session()
    with LoopbackServer(session, Odd()) as server:
        line = Line(server)
        line.send("GET /TOKEN/v1/x HTTP/1.1\nhost: x\nAuthorization: Bearer SECRET\n")
        status, headers = line.head()
        line.close()
    assert status == 200
    assert headers == {
        "content-type": "text/plain",
        "x-request-id": "7",
        "x-odd": "a  b",
        "content-length": "2",
    }
    assert b"SECRET" not in pickle.dumps(session.cassette())


# --- streams --------------------------------------------------------------------------------------------


def test_a_live_stream_passes_through_as_it_arrives() -> None:
    upstream, session = Streams(), Session()
    with LoopbackServer(session, upstream) as server:
        line = Line(server)
        line.send("POST /TOKEN/v1/x HTTP/1.1\nhost: x\ncontent-length: 0\n")
        status, headers = line.head()
        assert (status, headers["transfer-encoding"], "content-length" in headers) == (200, "chunked", False)
        for event in EVENTS:
            upstream.go.release()
            assert line.chunk() == event
        assert line.chunk() == b""
        line.close()
    chunks = session.cassette().exchanges[0].response.chunks
    assert chunks is not None
    assert tuple(chunk.data for chunk in chunks) == EVENTS


@pytest.mark.parametrize("size", [1, 3, 4096, None])
def test_a_recorded_stream_is_sent_in_its_chunks_and_then_ends(size: int | None) -> None:
    """Without recorded chunks it is cut after each event; without an end mark it still ends."""
    body = b"".join(EVENTS[:2])
    pieces = EVENTS[:2] if size is None else [body[i : i + size] for i in range(0, len(body), size)]
    chunks = None if size is None else tuple(Chunk(9e9, piece) for piece in pieces)
    with LoopbackServer(Session(tape_of(Response(200, SSE, body, chunks)), live=False)) as server:
        line = Line(server)
        asked = chat("u").body
        line.send(f"POST /TOKEN/v1/chat/completions HTTP/1.1\nhost: x\ncontent-length: {len(asked)}\n", asked)
        line.head()
        assert [line.chunk() for _ in pieces] == list(pieces)
        assert line.chunk() == b""
        line.close()


def test_an_http_1_0_client_gets_a_stream_that_ends_with_its_connection() -> None:
    body = b"".join(EVENTS)
    with LoopbackServer(Session(tape_of(Response(200, SSE, body)), live=False)) as server:
        line = Line(server)
        asked = chat("u").body
        line.send(f"POST /TOKEN/v1/chat/completions HTTP/1.0\ncontent-length: {len(asked)}\n", asked)
        _, headers = line.head()
        assert headers["connection"] == "close"
        assert line.file.read() == body
        line.close()


@pytest.mark.parametrize(
    "response",
    [
        Response(200, SSE, EVENTS[0], (Chunk(0, EVENTS[0]),), incomplete=True),
        Response(200, TEXT, b"abc", incomplete=True),
    ],
)
@pytest.mark.parametrize("live", [True, False])
def test_an_answer_that_was_cut_is_passed_on_cut(response: Response, live: bool) -> None:
    session = Session() if live else Session(tape_of(response))
    with (
        LoopbackServer(session, (lambda request: response) if live else None) as server,
        pytest.raises(http.client.IncompleteRead) as caught,
    ):
        ask(server, "POST", "/v1/chat/completions", chat("u").body)
    assert caught.value.partial == response.body
    assert session.report().incomplete == 1
    assert session.cassette().exchanges[0].response.incomplete


def test_an_agent_that_goes_away_in_the_middle_of_a_live_stream() -> None:
    upstream, session = Streams(), Session()
    with LoopbackServer(session, upstream) as server:
        line = Line(server)
        line.send("POST /TOKEN/v1/x HTTP/1.1\nhost: x\ncontent-length: 0\n")
        line.head()
        upstream.go.release()
        assert line.chunk() == EVENTS[0]
        line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        line.close()
        upstream.go.release()
        upstream.go.release()
        assert upstream.ended.wait(10)
        upstream.go.release(3)
        assert ask(server, "POST", "/v1/y")[1] == b"".join(EVENTS)
    report = session.report()
    assert (report.abandoned, report.incomplete, report.in_flight) == (1, 0, 0)
    left, whole = session.cassette().exchanges
    assert left.response.incomplete
    assert left.response.body.startswith(EVENTS[0])
    assert whole.response.body == b"".join(EVENTS)


def test_an_agent_that_goes_away_does_not_hold_a_paced_replay() -> None:
    """The second event is due in an hour; the server notices at once that nobody waits for it."""
    chunks = (Chunk(0, EVENTS[0]), Chunk(3.6e6, EVENTS[1]))
    session = Session(tape_of(Response(200, SSE, EVENTS[0] + EVENTS[1], chunks)))
    with LoopbackServer(session, pace="as recorded") as server:
        line = Line(server)
        asked = chat("u").body
        line.send(f"POST /TOKEN/v1/chat/completions HTTP/1.1\nhost: x\ncontent-length: {len(asked)}\n", asked)
        line.head()
        assert line.chunk() == EVENTS[0]
        line.close()


# --- ends and faults -----------------------------------------------------------------------------------


def test_closing_ends_open_connections_and_refuses_what_comes_late() -> None:
    session = Session()
    with LoopbackServer(session, echo) as server:
        idle, port = Line(server), server.port
        idle.send("GET /TOKEN/v1/x HTTP/1.1\nhost: x\n")
        idle.file.read(1)
    assert len(idle.file.read()) > 0
    idle.close()
    assert isinstance(session.decide(Request("GET", "/v1/x")), Refuse)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)
    server.close()


def test_a_server_of_a_closed_session_answers_in_words() -> None:
    session = Session()
    with LoopbackServer(session, echo) as server:
        session.close()
        status, body = ask(server, "GET", "/v1/x")
    assert status == 424
    assert "this run is over" in json.loads(body)["error"]["message"]
    assert session.report().late == 1


def test_a_late_request_is_the_affair_of_its_own_run() -> None:
    """Run 1's connection is still open while run 2 is under way; what it sends does not reach run 2."""
    tape = tape_of(said("a"), said("b"))
    first, second = Session(tape, live=False), Session(tape, live=False)
    with LoopbackServer(first) as one, LoopbackServer(second) as two:
        first.close()
        ask(one, "POST", "/v1/chat/completions", chat("u").body)
        assert b'"a"' in ask(two, "POST", "/v1/chat/completions", chat("u").body)[1]
    assert (first.report().served, first.report().late) == (0, 1)
    assert (second.report().served, second.report().late) == (1, 0)


def test_an_upstream_that_fails_is_an_answer_to_the_agent() -> None:
    def fails(request: Request) -> Response:
        raise UpstreamError("nobody there")

    session = Session()
    with LoopbackServer(session, fails) as server:
        assert ask(server, "GET", "/v1/x")[0] == 502
        assert ask(server, "GET", "/v1/x")[0] == 502
    assert session.report().upstream_errors == ("nobody there", "nobody there")


def test_a_normaliser_that_fails_is_named_in_the_report() -> None:
    def normalise(request: Request) -> Request:
        if b"boom" in request.body:
            raise ZeroDivisionError("boom")
        return request

    session = Session(Tape(tape_of(said("x")).cassette, Matching(normalise=normalise)), live=False)
    with LoopbackServer(session) as server:
        status, body = ask(server, "POST", "/v1/chat/completions", chat("boom").body)
    assert status == 424
    assert "boom" in json.loads(body)["error"]["message"]
    ((kind, count),) = session.report().refused
    assert kind.startswith("fault: ")
    assert count == 1


def test_parallel_clients_of_one_server_get_their_own_answers() -> None:
    session = Session()
    with LoopbackServer(session, echo) as server:

        def client(i: int) -> bool:
            line = Line(server)
            try:
                for n in range(5):
                    line.send(f"GET /TOKEN/v1/{i}/{n} HTTP/1.1\nhost: x\n")
                    _, headers = line.head()
                    body = json.loads(line.file.read(int(headers["content-length"])))
                    if body["path"] != f"/v1/{i}/{n}":
                        return False
                return True
            finally:
                line.close()

        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(client, range(32)))
    assert len(session.cassette()) == 160
    assert all(json.loads(e.response.body)["path"] == e.request.path for e in session.cassette().exchanges)


def test_parallel_servers_of_one_tape_do_not_cross() -> None:
    tape = tape_of(*(said(x) for x in "abc"))

    def run(_: int) -> list[str]:
        session = Session(tape, live=False)
        with LoopbackServer(session) as server:
            bodies = [ask(server, "POST", "/v1/chat/completions", chat("u").body)[1] for _ in range(3)]
        assert session.report().served == 3
        return [json.loads(body)["choices"][0]["message"]["content"] for body in bodies]

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(run, range(50))) == [["a", "b", "c"]] * 50


@pytest.mark.soak
def test_ten_thousand_requests_with_cut_connections_and_slow_readers() -> None:
    """Every twentieth client goes away in the middle; what the others get and what is recorded is right."""
    session = Session()

    def upstream(request: Request) -> Response:
        n = request.path.rpartition("/")[2]
        body = b"".join(b"data: %b %d\n\n" % (n.encode(), i) for i in range(20))
        cuts = [m + 2 for m in range(len(body)) if body[m : m + 2] == b"\n\n"]
        chunks = tuple(Chunk(0, body[a:b]) for a, b in zip([0, *cuts], cuts, strict=False))
        return Response(200, SSE, body, chunks)

    with LoopbackServer(session, upstream) as server:

        def client(n: int) -> bool:
            line = Line(server)
            try:
                line.send(f"GET /TOKEN/v1/{n} HTTP/1.1\nhost: x\n")
                if n % 20 == 0:
                    return True
                line.head()
                got = b""
                while piece := line.chunk():
                    got += piece
                    if n % 20 == 1:
                        threading.Event().wait(0.001)
                return got == upstream(Request("GET", f"/v1/{n}")).body
            finally:
                line.close()

        with ThreadPoolExecutor(32) as pool:
            assert all(pool.map(client, range(10_000)))
    for exchange in session.cassette().exchanges:
        expected = upstream(exchange.request).body
        assert exchange.response.body == expected if not exchange.response.incomplete else True
        assert expected.startswith(exchange.response.body)
    complete = {e.request.path for e in session.cassette().exchanges if not e.response.incomplete}
    assert complete >= {f"/v1/{n}" for n in range(10_000) if n % 20}
    assert session.report().in_flight == 0
