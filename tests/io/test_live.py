from __future__ import annotations

import pickle
import socket
import threading

import pytest

from afnb.core.cassette import Request, Response
from afnb.errors import ParameterError, UpstreamError
from afnb.io.answers import Say
from afnb.io.live import LiveUpstream, check_origin, end_to_end, is_loopback
from afnb.io.ratelimit import RateLimit
from afnb.io.upstream import FunctionUpstream
from afnb.testing.provider import FakeProvider, Fault

BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
STREAM = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
ASK = Request("POST", "/v1/messages", (("content-type", "application/json"),), BODY)


def hello(talk: object, rng: object) -> str:
    return "hello there, this is a longer answer with ünïcödé and 世界"


def header_of(request: Request, name: str) -> list[str]:
    return [value for key, value in request.headers if key == name]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ("https://api.openai.com", "https://api.openai.com"),
        (" HTTPS://api.openai.com/ ", "https://api.openai.com"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_origins(given: str, origin: str) -> None:
    assert check_origin(given) == origin
    assert LiveUpstream(given).origin == origin


@pytest.mark.parametrize(
    "given",
    [
        "",
        "api.openai.com",
        "ftp://x",
        "https://",
        "https://x:99999",
        "https://x?key=1",
        "https://x#y",
        "https://[x",
    ],
)
def test_a_bad_url_says_what_is_expected(given: str) -> None:
    with pytest.raises(
        ParameterError, match=r"expected the provider's origin, such as https://api.openai.com"
    ):
        LiveUpstream(given)


def test_credentials_in_a_url_are_refused_and_not_shown() -> None:
    with pytest.raises(ParameterError) as caught:
        LiveUpstream("https://user:hunter2@api.openai.com")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("options", [{"timeout_s": 0}, {"timeout_s": -1}, {"retries": -1}])
def test_settings_are_checked(options: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        LiveUpstream("https://x", **options)  # type: ignore[arg-type]


def test_loopback_hosts() -> None:
    assert all(is_loopback(h) for h in ("127.0.0.1", "127.8.9.1", "localhost", "LOCALHOST.", "::1", "[::1]"))
    assert not any(is_loopback(h) for h in ("10.0.0.1", "example.org", "localhost.example.org", ""))


def test_connection_headers_stay_behind() -> None:
    headers = (
        ("Connection", "keep-alive, X-Hop"),
        ("x-hop", "1"),
        ("TE", "trailers"),
        ("transfer-encoding", "chunked"),
        ("host", "h"),
        ("x-kept", "1"),
    )
    assert end_to_end(headers) == (("x-kept", "1"),)


def test_the_agents_own_headers_go_on_and_nothing_is_added() -> None:
    sent = (
        ("authorization", "Bearer k"),
        ("x-made-up", "ümlaut"),
        ("cookie", "a=b"),
        ("connection", "close"),
        ("accept-encoding", "br;q=1.0, nonsense"),
        ("user-agent", "theirs"),
    )
    with FakeProvider(hello) as provider:
        LiveUpstream(provider.url).answer(Request("POST", "/v1/messages?beta=true", sent, BODY))
        (seen,) = provider.requests
    assert seen.path == "/v1/messages?beta=true"
    assert seen.body == BODY
    names = sorted(name for name, _ in seen.headers)
    assert names == sorted(
        ["accept-encoding", "authorization", "content-length", "cookie", "host", "user-agent", "x-made-up"]
    )
    assert header_of(seen, "authorization") == ["Bearer k"]
    assert header_of(seen, "user-agent") == ["theirs"]
    assert "nonsense" not in header_of(seen, "accept-encoding")[0]


@pytest.mark.parametrize("encoding", [None, "gzip", "deflate"])
@pytest.mark.parametrize("body", [BODY, STREAM])
def test_the_body_is_decoded_and_its_encoding_header_gone(encoding: str | None, body: bytes) -> None:
    with FakeProvider(hello, encoding=encoding) as provider:
        answer = LiveUpstream(provider.url).answer(Request("POST", "/v1/messages", (), body))
    assert answer.status == 200
    names = {name for name, _ in answer.headers}
    assert not names & {"content-encoding", "content-length", "transfer-encoding", "connection"}
    assert "ünïcödé".encode() in answer.body
    assert (answer.chunks is not None) == (body is STREAM)
    assert not answer.incomplete


def test_an_encoding_nobody_asked_for_is_an_error_not_noise() -> None:
    def odd(request: Request) -> Response:
        return Response(200, (("content-type", "application/json"), ("content-encoding", "snappy")), b"\0\1")

    with FakeProvider(FunctionUpstream(odd)) as provider, pytest.raises(UpstreamError, match="snappy"):
        LiveUpstream(provider.url).answer(ASK)


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503, 529])
def test_error_statuses_are_answers_and_asked_once(status: int) -> None:
    with FakeProvider(hello, faults={0: Fault(status=status, headers=(("retry-after", "7"),))}) as provider:
        answer = LiveUpstream(provider.url).answer(ASK)
        assert len(provider.requests) == 1
    assert answer.status == status
    assert ("retry-after", "7") in answer.headers


def test_a_dropped_connection_of_a_call_that_may_have_been_processed_is_not_asked_again() -> None:
    with FakeProvider(hello, faults={0: Fault(drop=True)}) as provider:
        with pytest.raises(UpstreamError, match="got no answer"):
            LiveUpstream(provider.url).answer(ASK)
        assert len(provider.requests) == 1


def test_a_dropped_connection_of_a_read_is_asked_again() -> None:
    with FakeProvider(FunctionUpstream(lambda r: {"ok": 1}), faults={0: Fault(drop=True)}) as provider:
        assert LiveUpstream(provider.url).answer(Request("GET", "/v1/models")).body == b'{"ok":1}'
        assert len(provider.requests) == 2


def test_a_provider_that_is_down_is_one_sentence_without_the_query() -> None:
    upstream = LiveUpstream(f"http://127.0.0.1:{free_port()}", retries=1)
    with pytest.raises(UpstreamError, match="got no answer") as caught:
        upstream.answer(Request("POST", "/v1/messages?key=SECRET", (), BODY))
    assert "SECRET" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_provider_that_comes_up_late_is_reached_by_the_retry() -> None:
    port = free_port()
    upstream = LiveUpstream(f"http://127.0.0.1:{port}", retries=4)
    results: list[Response] = []
    asking = threading.Thread(target=lambda: results.append(upstream.answer(Request("GET", "/x"))))
    asking.start()
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(20)
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 204 No Content\r\ncontent-encoding: gzip\r\n\r\n")
            asking.join()
    assert results[0].status == 204
    assert results[0].body == b""


@pytest.mark.parametrize("body", [BODY, STREAM])
def test_a_cut_answer_is_incomplete_and_not_asked_again(body: bytes) -> None:
    with FakeProvider(hello, faults={0: Fault(cut_after=60)}) as provider:
        answer = LiveUpstream(provider.url).answer(Request("POST", "/v1/messages", (), body))
        assert len(provider.requests) == 1
    assert answer.incomplete
    assert len(answer.body) == 60


def test_silence_ends_the_call() -> None:
    slow = FakeProvider(hello, faults={0: Fault(delay_s=0.4)})
    with slow as provider, pytest.raises(UpstreamError, match="ReadTimeout"):
        LiveUpstream(provider.url, timeout_s=0.05).answer(ASK)


def test_chunks_come_as_they_are_sent() -> None:
    with FakeProvider(hello, pace_s=0.005) as provider:
        answer = LiveUpstream(provider.url).answer(Request("POST", "/v1/messages", (), STREAM))
    assert answer.chunks is not None
    assert len(answer.chunks) > 5
    times = [chunk.ms for chunk in answer.chunks]
    assert times == sorted(times)
    assert times[-1] > 20


def test_a_prefix_in_the_origin_is_not_doubled() -> None:
    with FakeProvider(hello) as provider:
        upstream = LiveUpstream(provider.url + "/v1")
        upstream.answer(ASK)
        upstream.answer(Request("POST", "/messages", (), BODY))
        assert [seen.path for seen in provider.requests] == ["/v1/messages", "/v1/messages"]


def test_redirects_on_the_same_host_are_followed_others_are_answers() -> None:
    def hop(request: Request) -> Response:
        if request.path == "/a":
            return Response(307, (("location", "/b"),))
        if request.path == "/c":
            return Response(307, (("location", "http://127.0.0.2:9/d"),))
        return Response(200, (), request.body)

    with FakeProvider(FunctionUpstream(hop)) as provider:
        upstream = LiveUpstream(provider.url)
        assert upstream.answer(Request("POST", "/a", (), b"x")).body == b"x"
        assert upstream.answer(Request("POST", "/c", (), b"x")).status == 307


def test_proxies_apply_to_real_hosts_and_never_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        FakeProvider(FunctionUpstream(lambda request: {"path": request.path})) as proxy,
        FakeProvider(hello) as real,
    ):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert LiveUpstream(real.url).answer(ASK).status == 200
        assert LiveUpstream(real.url.replace("127.0.0.1", "localhost")).answer(ASK).status == 200
        assert proxy.requests == []
        through = LiveUpstream("http://provider.invalid").answer(Request("GET", "/v1/models"))
        assert through.body == b'{"path":"http://provider.invalid/v1/models"}'
        with pytest.raises(UpstreamError):
            LiveUpstream("http://provider.invalid", trust_env=False, retries=0).answer(
                Request("GET", "/v1/models")
            )


def test_one_pool_serves_all_upstreams_of_a_process() -> None:
    from afnb.io.live import _client

    assert _client("http://127.0.0.1:1", True) is _client("http://localhost:2", False)


def test_an_upstream_can_be_sent_to_another_process() -> None:
    upstream = LiveUpstream("https://x/v1", timeout_s=3, retries=1, trust_env=False, limit=RateLimit(60))
    back = pickle.loads(pickle.dumps(upstream))
    assert (back.origin, back.timeout_s, back.retries, back.trust_env) == ("https://x/v1", 3, 1, False)
    assert back.limit.per_minute == 60
    assert back.for_replay(1, "patch", 2) is back


def test_threads_share_one_upstream() -> None:
    def echo(talk: object, rng: object) -> Say:
        return Say(str(getattr(talk, "user", "")))

    with FakeProvider(echo) as provider:
        upstream = LiveUpstream(provider.url)
        answers: dict[int, bytes] = {}

        def ask(i: int) -> None:
            body = BODY.replace(b'"hi"', b'"number-%d-"' % i)
            answers[i] = upstream.answer(Request("POST", "/v1/messages", (), body)).body

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(b"number-%d-" % i in answers[i] for i in range(32))


@pytest.mark.parametrize(
    "asked",
    [
        Request("POST", "/v1/messages?key=SECRET", (("authorization", "Bearer SECRET\nx"),), BODY),
        Request("POST", "/v1/\x00messages?key=SECRET", (), BODY),
        Request("SECR ET", "/v1/messages?key=SECRET", (("x", "\x00SECRET"),), BODY),
    ],
)
def test_no_error_quotes_a_credential(asked: Request) -> None:
    with FakeProvider(hello) as provider, pytest.raises(UpstreamError) as caught:
        LiveUpstream(provider.url).answer(asked)
    assert "SECRET" not in str(caught.value)
