"""What is taken out before anything reaches disk, in every form that a body has there."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core.cassette import Cassette, Chunk, Exchange, Request, Response, ToolExchange
from afnb.core.redaction import Redaction
from afnb.core.tape import Hit, Tape
from afnb.errors import InputError, ParameterError
from afnb.io.formats.cassette import read_cassette, text_of, write_cassette
from afnb.io.redact import allowed_headers, safe_exchange

SECRET = "sk-ant-0123"
HIDE = Redaction(paths=("user", "messages[*].content", "choices[*].delta.content"), patterns=(r"sk-ant-\w+",))


def response(body: bytes, *cuts: int) -> Response:
    at = [0, *cuts, len(body)]
    return Response(
        200,
        (),
        body,
        tuple(Chunk(float(i), body[a:b]) for i, (a, b) in enumerate(pairwise(at))),
    )


def test_paths_and_patterns_in_json() -> None:
    body = {
        "user": {"name": "ann"},
        "messages": [{"role": "user", "content": "hi"}],
        "note": f"<{SECRET}>",
        SECRET: 1,
    }
    out = HIDE(Request("POST", f"/v1?q={SECRET}&key=k", (), json.dumps(body).encode()))
    assert json.loads(out.body) == {
        "user": "REDACTED",
        "messages": [{"role": "user", "content": "REDACTED"}],
        "note": "<REDACTED>",
        "REDACTED": 1,
    }
    assert out.path == "/v1?q=REDACTED&key=MASKED"


def test_a_secret_behind_json_escapes_is_found() -> None:
    hide = Redaction(patterns=("né", r"\d{16}"))
    assert hide(Request("POST", "/", (), b'{"t":"n\\u00e9","card":4111111111111111}')).body == (
        b'{"t":"REDACTED","card":"REDACTED"}'
    )


def test_nothing_found_leaves_every_byte() -> None:
    body = b'{ "x" : 1.0 }\r\n'
    request = Request("POST", "/", (), body)
    assert HIDE(request) == request
    answer = response(b"data: {}\n\n", 3)
    assert HIDE.response(answer) is answer


def test_streams_are_redacted_event_by_event_and_keep_their_cuts() -> None:
    event = b'data: {"choices":[{"delta":{"content":"private"}}]}\r\n\r\n'
    plain = b'data: {"x":1}\n\n'
    body = plain + event + plain + b": sk-ant-9\n\ndata: [DONE]\n\n"
    out = HIDE.response(response(body, len(plain), len(plain) + 20, len(plain + event) + 3))
    assert b"private" not in out.body
    assert b"sk-ant" not in out.body
    assert out.body.count(b'{"choices":[{"delta":{"content":"REDACTED"}}]}\r\n\r\n') == 1
    assert out.chunks is not None
    assert b"".join(chunk.data for chunk in out.chunks) == out.body
    assert out.chunks[0].data == plain
    assert [chunk.ms for chunk in out.chunks] == [0.0, 1.0, 2.0, 3.0]


def test_json_lines_text_and_bytes() -> None:
    lines = HIDE(Request("POST", "/", (), b'{"user":"ann"}\n{"user":"bob"}\n')).body
    assert lines == b'{"user":"REDACTED"}\n{"user":"REDACTED"}\n'
    assert HIDE(Request("POST", "/", (), f"a\n{SECRET}\nb".encode())).body == b"a\nREDACTED\nb"
    assert HIDE(Request("POST", "/", (), b"\xff" + SECRET.encode() + b"\xfe")).body == b"\xffREDACTED\xfe"
    key = Redaction(patterns=("(?s)-----BEGIN.*?END-----",))
    assert key(Request("POST", "/", (), b"x -----BEGIN\nabc\nEND----- y")).body == b"x REDACTED y"


def test_nothing_of_it_is_left_in_the_file() -> None:
    body = json.dumps(
        {"user": "private", "messages": [{"content": "private"}], "k": SECRET}, indent=1
    ).encode()
    exchange = Exchange(
        0,
        Request("POST", f"/{SECRET}", (), body),
        response(b"\xff" + SECRET.encode() + b"\n", 4),
        forwarded=Request("POST", "/", (), body),
    )
    tool = ToolExchange("t", {"user": "private"}, [SECRET], error=f"bad {SECRET}")
    text = text_of(HIDE.cassette(Cassette("c", (exchange,), (tool,), task=f"use {SECRET}")))
    assert "private" not in text
    assert "sk-ant-0" not in text
    again = read_cassette(text.encode())
    assert Redaction.from_json(again.attrs["redaction"]) == HIDE
    for one in (again.exchanges[0].request.body, again.exchanges[0].response.body):
        assert b"private" not in one
        assert SECRET.encode() not in one


PIECES = ["data: ", '{"user":', '"ann"', "}", "\n", "\r\n", SECRET, "é", "[", "]", "x"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=20), st.lists(st.integers(0, 99), max_size=4))
def test_redacting_twice_changes_nothing_more(pieces: list[str], cuts: list[int]) -> None:
    body = "".join(pieces).encode()
    once = HIDE.response(response(body, *sorted({cut % (len(body) + 1) for cut in cuts})))
    assert HIDE.response(once) == once
    assert SECRET.encode() not in once.body
    assert once.chunks is not None
    assert b"".join(chunk.data for chunk in once.chunks) == once.body


def test_settings_are_checked() -> None:
    with pytest.raises(ParameterError, match="no regular expression"):
        Redaction(patterns=("(",))
    with pytest.raises(ParameterError, match="no JSON path"):
        Redaction(paths=("a..b",))
    with pytest.raises(ParameterError, match="matches its own replacement"):
        Redaction(patterns=("RED",))
    with pytest.raises(InputError, match="redaction"):
        Redaction.from_json({"paths": "x"})
    with pytest.raises(InputError, match="regular expression"):
        Redaction.from_json({"patterns": ["("]})


def test_redactions_add_up() -> None:
    first = Redaction(paths=("a",)).cassette(Cassette("c"))
    second = Redaction(patterns=("b+",)).cassette(first)
    assert Redaction.from_json(second.attrs["redaction"]) == Redaction(("a",), ("b+",))


def test_headers_are_kept_by_allowlist() -> None:
    headers = (("Content-Type", "a/b"), ("ACCEPT", "*/*"), ("Authorization", "x"), ("X-New-Secret", "y"))
    assert allowed_headers(headers) == (("content-type", "a/b"), ("accept", "*/*"))
    assert allowed_headers(headers, response=True) == (("content-type", "a/b"),)
    exchange = safe_exchange(Exchange(0, Request("GET", "/?token=t", headers), Response(200, headers)))
    assert (exchange.request.path, exchange.response.headers) == (
        "/?token=MASKED",
        (("content-type", "a/b"),),
    )


SECRETS = {
    "sk-proj-abcdefghijklmnop1234": "in a text",
    "AIzaSyA1234567890abcdefghijklmnopqrstuvw": "of Google",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789": "of GitHub",
    "xoxb-1234567890-abcdef": "of Slack",
    "AKIAIOSFODNN7EXAMPLE": "of AWS",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.abcdefghijklmnop": "a JWT",
    "Bearer abcdefghijklmnop.qrstuvwx": "of a header that is quoted",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----": "a key file",
}


@pytest.mark.parametrize("secret", SECRETS)
def test_usual_forms_of_keys_are_taken_out_of_every_body(secret: str) -> None:
    hide = Redaction.secrets()
    body = json.dumps({"messages": [{"role": "user", "content": f"use {secret} now"}], "n": 1}).encode()
    found = hide(Request("POST", "/v1/x", body=body)).body
    assert json.loads(found)["messages"][0]["content"] == "use REDACTED now"
    assert hide(Request("POST", "/v1/x", body=found)).body == found
    plain = hide(Request("POST", "/v1/x", body=f"log: {secret}, x".encode())).body
    assert plain == b"log: REDACTED, x"


def test_fields_of_credentials_are_found_at_any_depth_and_inside_arguments() -> None:
    hide = Redaction.secrets()
    arguments = json.dumps({"url": "u", "auth": [{"api_key": "k1"}], "password": 7})
    value = {
        "tools": [{"parameters": {"properties": {"api_key": {"type": "string"}, "password": {}}}}],
        "messages": [{"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}],
        "client_secret": "k2",
        "secret": None,
        "token_count": 5,
        "logprobs": [{"token": "a"}],
    }
    found = json.loads(hide(Request("POST", "/v1/x", body=json.dumps(value).encode())).body)
    inside = json.loads(found["messages"][0]["tool_calls"][0]["function"]["arguments"])
    assert inside == {"url": "u", "auth": [{"api_key": "REDACTED"}], "password": "REDACTED"}
    assert found["client_secret"] == "REDACTED"
    untouched = {key: found[key] for key in ("tools", "secret", "token_count", "logprobs")}
    assert untouched == {key: value[key] for key in untouched}


def test_words_that_look_a_little_like_keys_stay() -> None:
    hide = Redaction.secrets()
    for words in (
        "task-force-of-the-ministry",
        "risk-averse-investors-today",
        "sk-short",
        "AKIA",
        "bearer of news",
    ):
        body = json.dumps({"messages": [{"content": words}]}).encode()
        assert hide(Request("POST", "/v1/x", body=body)).body == body


def test_a_recording_without_its_secrets_replays_with_others(tmp_path: Path) -> None:
    hide = Redaction.secrets()
    body = json.dumps(
        {"messages": [{"role": "user", "content": "key sk-aaaaaaaaaaaaaaaaaaaa"}], "api_key": "one"}
    )
    one = Exchange(0, Request("POST", "/v1/x", body=body.encode()), Response(200, body=b'{"password": "p"}'))
    path = tmp_path / "x.json"
    write_cassette(hide.cassette(Cassette("c", (one,))), path)
    for secret in (b"sk-aaaa", b'"one"', b'"p"'):
        assert secret not in path.read_bytes()
    other = body.replace("aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbb").replace('"one"', '"two"')
    hit = Tape(read_cassette(path)).play().take(Request("POST", "/v1/x", body=other.encode()))
    assert isinstance(hit, Hit)
    assert hit.rules == ("redaction",)
