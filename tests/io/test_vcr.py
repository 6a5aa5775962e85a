"""VCR cassettes: every layout and every awkwardness of a body, a header and a file."""

from __future__ import annotations

import base64
import builtins
import contextlib
import gzip
import json
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core import sse
from afnb.core.canon import Matching, canonical_key
from afnb.core.cassette import Cassette, Response
from afnb.core.jsonvalue import equal
from afnb.core.tape import Hit, Tape
from afnb.errors import InputError, MissingDependency
from afnb.io.decode import decode_body
from afnb.io.formats import yamlread
from afnb.io.formats.cassette import read_cassette, text_of
from afnb.io.formats.source import Source
from afnb.io.formats.vcr import load as load_vcr
from afnb.io.formats.yamlread import read_yaml
from afnb.io.load import load


def read(text: str | bytes, name: str = "x.yaml") -> Cassette:
    return load_vcr(Source(text if isinstance(text, bytes) else text.encode(), name))


def interaction(
    request: dict[str, Any] | None = None, response: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "request": {
            "method": "POST",
            "uri": "https://api.example.com/v1/x?a=1",
            "body": None,
            "headers": {},
            **(request or {}),
        },
        "response": {
            "status": {"code": 200, "message": "OK"},
            "headers": {},
            "body": {"string": ""},
            **(response or {}),
        },
        **more,
    }


def cassette(*interactions: dict[str, Any]) -> Cassette:
    return read(yaml.safe_dump({"interactions": list(interactions), "version": 1}, allow_unicode=True))


def answer(response: dict[str, Any]) -> Response:
    return cassette(interaction(None, response)).exchanges[0].response


def codes(found: Cassette) -> dict[str, str]:
    return {warning.code: warning.message for warning in found.warnings}


# Layouts.


def test_vcrpys_own_layout() -> None:
    found = read(
        """
interactions:
- request:
    body: '{"model": "m", "messages": []}'
    headers:
      Accept: ['*/*']
      Content-Type:
      - application/json
      authorization: [secret]
    method: post
    uri: https://user:pw@api.openai.com:8443/v1/chat/completions?key=secret&x=1#frag
  response:
    body:
      string: "{\\n  \\"id\\": \\"1\\"\\n}"
    headers:
      Content-Type: [application/json]
      Date: ['Mon, 11 Nov 2024 23:43:55 GMT']
      set-cookie: [secret]
    status: {code: 200, message: OK}
version: 1
"""
    )
    [one] = found.exchanges
    assert (one.request.method, one.request.path) == ("POST", "/v1/chat/completions?key=MASKED&x=1")
    assert one.request.headers == (("accept", "*/*"), ("content-type", "application/json"))
    assert one.request.body == b'{"model": "m", "messages": []}'
    assert (one.response.status, one.response.body) == (200, b'{\n  "id": "1"\n}')
    assert one.response.headers == (("content-type", "application/json"),)
    assert one.upstream == "https://api.openai.com:8443"
    assert (one.t_start, one.t_end) == (None, "2024-11-11T23:43:55Z")
    assert (found.id, found.outcome, found.warnings) == ("x", None, ())
    assert "secret" not in text_of(found)


def test_requests_beside_responses_with_masked_headers() -> None:
    sse_body = base64.b64encode(b'event: ping\ndata: {"type": "ping"}\n\n').decode()
    text = f"""
requests:
- body: !!binary eyJhIjoxfQ==
  headers: {{Accept: ['**REDACTED**'], Content-Type: ['**REDACTED**']}}
  method: POST
  uri: '**REDACTED**'
responses:
- body: {{string: !!binary {sse_body}}}
  headers: {{Date: '**REDACTED**', content-type: '**REDACTED**'}}
  status: {{code: 200, message: OK}}
"""
    found = read(gzip.decompress(gzip.compress(text.encode())), "x.yaml.gz")
    [one] = found.exchanges
    assert (one.request.path, one.request.body, one.request.headers) == ("**REDACTED**", b'{"a":1}', ())
    assert one.response.headers == (("content-type", "text/event-stream"),)
    assert (one.t_end, one.upstream) == (None, None)
    assert set(codes(found)) == {"content_type_guessed", "uri_masked"}
    with pytest.raises(InputError, match="1 requests and 2 responses"):
        read("requests: [1]\nresponses: [1, 2]\n")


def test_a_parsed_body_is_written_again_at_its_recorded_length() -> None:
    body = {"b": 1, "a": [True, None, "é"], "t": "12:30:45"}
    for text in (
        json.dumps(body, separators=(",", ":"), ensure_ascii=False),
        json.dumps(body),
        json.dumps(body, ensure_ascii=False),
    ):
        length = str(len(text.encode()))
        found = cassette(
            interaction(
                {"parsed_body": body, "headers": {"content-length": [length]}},
                {"parsed_body": body, "body": None},
            )
        )
        assert json.loads(found.exchanges[0].request.body) == body
        assert len(found.exchanges[0].request.body) == int(length)
        assert json.loads(found.exchanges[0].response.body) == body
        assert codes(found)["rebuilt_body"].startswith("2 times")


def test_unquoted_values_keep_their_type() -> None:
    found = read(
        """
interactions:
- request: {method: GET, uri: 'https://h/x', headers: {}, parsed_body: {at: 2026-06-30T22:58:50Z,
     t: 12:30:45, no: no, n: 1, f: 1.5, e: 1.0e+3, s: 1e5, b: true, z: ~,
     big: 123456789012345678901234567890, oct: 017, '<<': 3}}
  response: {status: 204, headers: null, body: null}
"""
    )
    assert json.loads(found.exchanges[0].request.body) == {
        "at": "2026-06-30T22:58:50Z", "t": "12:30:45", "no": "no", "n": 1, "f": 1.5,
        "e": 1000.0, "s": "1e5", "b": True, "z": None,
        "big": 123456789012345678901234567890, "oct": "017", "<<": 3,
    }  # fmt: skip


def test_the_layout_of_ruby() -> None:
    found = read(
        """
http_interactions:
- request: {method: get, uri: 'http://h/x', body: {encoding: UTF-8, string: ''}, headers: {Accept: ['*/*']}}
  response:
    status: {code: 200, message: OK}
    headers: {Content-Type: [text/plain]}
    body: {encoding: ASCII-8BIT, base64_string: 'aGkK'}
  recorded_at: '2020-01-01T10:00:00Z'
recorded_with: VCR 6.0.0
"""
    )
    [one] = found.exchanges
    assert (one.request.body, one.response.body, one.t_end) == (b"", b"hi\n", "2020-01-01T10:00:00Z")


def test_json_serialised_cassettes(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"version": 1, "interactions": [interaction()]}))
    assert len(load(path)) == 1


def test_the_older_httpx_layout() -> None:
    one = {"request": {"method": "GET", "uri": "https://h/x", "body": "", "headers": {}}}
    found = cassette(
        {**one, "response": {"content": "hi", "http_version": "HTTP/1.1", "status_code": 201, "headers": {}}}
    )
    assert (found.exchanges[0].response.status, found.exchanges[0].response.body) == (201, b"hi")


# Bodies.


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", gzip.compress(b'{"a":1}', mtime=0)),
        ("deflate", zlib.compress(b'{"a":1}')),
        ("deflate", zlib.compress(b'{"a":1}')[2:-4]),
        ("zstd", zstandard.ZstdCompressor().compress(b'{"a":1}')),
        ("gzip, zstd", zstandard.ZstdCompressor().compress(gzip.compress(b'{"a":1}', mtime=0))),
        ("**REDACTED**", gzip.compress(b'{"a":1}', mtime=0)),
    ],
)
def test_compressed_bodies_are_decoded_once(encoding: str, data: bytes) -> None:
    found = cassette(
        interaction(None, {"headers": {"Content-Encoding": [encoding]}, "body": {"string": data}})
    )
    assert found.exchanges[0].response.body == b'{"a":1}'
    assert found.exchanges[0].response.headers == (("content-type", "application/json"),)
    assert codes(found)["decoded_body"].startswith("1 times")


def test_brotli_is_decoded_where_it_can_be() -> None:
    brotli = pytest.importorskip("brotli")
    data = brotli.compress(b'{"a":1}' * 50)
    assert decode_body(data, "br") == (b'{"a":1}' * 50, "decoded_body")


def test_brotli_bytes_without_brotli_name_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    _hide(monkeypatch, "brotli")
    with pytest.raises(MissingDependency, match="pip install brotli"):
        decode_body(b"\x8b\x00\x80\xff\x03", "br")
    assert decode_body(b'{"a":1}', "br") == (b'{"a":1}', "body_was_plain")


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd"])
def test_a_plain_body_under_an_encoding_header_is_kept(encoding: str) -> None:
    found = cassette(
        interaction(None, {"headers": {"content-encoding": [encoding]}, "body": {"string": '{"a": 1}'}})
    )
    assert found.exchanges[0].response.body == b'{"a": 1}'
    assert set(codes(found)) == {"body_was_plain", "content_type_guessed"}


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", ""])
def test_an_empty_body_is_empty_whatever_its_header(encoding: str) -> None:
    assert answer({"status": {"code": 204}, "headers": {"content-encoding": [encoding]}}).body == b""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (None, b""),
        ({}, b""),
        ({"string": None}, b""),
        ({"string": "é\n"}, "é\n".encode()),
        ({"string": b"\xff\xfe\x00\xe9"}, b"\xff\xfe\x00\xe9"),
        ("text", b"text"),
        (b"\xff", b"\xff"),
        ({"error": {"code": 1}}, b'{"error":{"code":1}}'),
        ([1], b"[1]"),
    ],
)
def test_bodies_in_every_form(body: Any, expected: bytes) -> None:
    assert answer({"body": body}).body == expected
    assert cassette(interaction({"body": body})).exchanges[0].request.body == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("data: {}\n\n", "text/event-stream"),
        ("event: x\ndata: {}\n\n", "text/event-stream"),
        ('{"a": 1}', "application/json"),
        ('{"a":1}\n{"a":2}\n', "application/x-ndjson"),
        ("hello", None),
        (b"\x00\x01", None),
    ],
)
def test_a_missing_content_type_is_told_from_the_body(body: str | bytes, expected: str | None) -> None:
    assert dict(answer({"body": {"string": body}}).headers).get("content-type") == expected


def test_what_is_loaded_can_be_written_and_read_again() -> None:
    found = cassette(interaction({"body": b"\xff"}), interaction(None, {"body": {"string": b"\x00\xff"}}))
    assert read_cassette(text_of(found).encode()).exchanges == found.exchanges


def test_identical_requests_keep_their_answers_in_order() -> None:
    found = cassette(*(interaction(None, {"status": {"code": code}}) for code in (429, 429, 200)))
    play = Tape(found).play()
    taken = [play.take(found.exchanges[0].request) for _ in range(3)]
    assert [one.exchange.response.status for one in taken if isinstance(one, Hit)] == [429, 429, 200]


# Faults.

LAUGHS = b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 10)) for i in range(8)
)
NAN = b"interactions: [{request: {method: GET, uri: /x, parsed_body: {a: .nan}}, response: {status: 200}}]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"interactions:\n- request: \xe9\n", r"x.yaml:2: not UTF-8: byte 0xe9 at offset 25"),
        (b"interactions: [\n", "not YAML that can be read"),
        (b"interactions: {a: !!python/object/apply:os.system [ls]}\n", "could not determine a constructor"),
        (b"interactions: 5\n", "interactions: found a YAML or JSON integer, expected a list"),
        (b"interactions: [5]\n", "position 0: found a YAML or JSON integer"),
        (b"interactions: [{request: {}}]\n", "position 0: the interaction has no response"),
        (b"interactions: [{kind: message, direction: sent, data: {}}]\n", "WebSocket frames"),
        (b"interactions: [{request: {method: GET}, response: {}}]\n", "no method or no uri"),
        (b"interactions: [{request: {method: GET, uri: /x}, response: {status: ok}}]\n", "status: found"),
        (b"interactions: [{request: 1, response: {}}]\n", "request: found a YAML or JSON integer"),
        (b"- 1\n", "expected a VCR cassette"),
        (b"interactions: &a [*a]\n", "contains itself"),
        (b"interactions: !!set {a}\n", "found a YAML set"),
        (b"interactions: " + b"[" * 5000, "not YAML that can be read"),
        (LAUGHS, "aliases unfold"),
        (NAN, r"request.parsed_body.a: found nan"),
    ],
)
def test_a_fault_is_named(text: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(text)


def test_no_yaml_package_names_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    yamlread._loader.cache_clear()
    _hide(monkeypatch, "yaml")
    with pytest.raises(MissingDependency, match=r"pip install 'afnb\[vcr\]'"):
        read("interactions: []\n")
    monkeypatch.undo()
    yamlread._loader.cache_clear()
    assert len(read("interactions: []\n")) == 0


def _hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    real = builtins.__import__

    def hidden(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == package:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", hidden)


SAMPLE = yaml.safe_dump(
    {"interactions": [interaction({"body": "{}"}), interaction({"parsed_body": {"a": [1]}})], "version": 1}
).encode()
SPLINTERS = [
    b"\n",
    b"  ",
    b"- ",
    b": ",
    b"[",
    b"{",
    b"!!binary ",
    b"&a ",
    b"*a",
    b"'",
    b'"',
    b"\xff",
    b"\x00",
    b"~",
]


def _damage(data: st.DataObject) -> None:
    text = bytearray(SAMPLE)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text) - 1))
        stop = data.draw(st.integers(start, min(start + 12, len(text))))
        text[start:stop] = data.draw(st.sampled_from(SPLINTERS) | st.binary(max_size=4))
    with contextlib.suppress(InputError):
        read(bytes(text))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_damage_gives_a_value_or_an_input_error(data: st.DataObject) -> None:
    _damage(data)


@pytest.mark.soak
@settings(max_examples=10_000, deadline=None)
@given(st.data())
def test_any_damage_gives_a_value_or_an_input_error_soak(data: st.DataObject) -> None:
    _damage(data)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8)
    | st.from_regex(r"[-+.0-9eExobn:_]{1,8}", fullmatch=True),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(json_values, st.booleans())
def test_what_pyyaml_writes_is_read_as_it_was(value: Any, flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow)
    assert equal(read_yaml(text.encode("utf-8", "surrogatepass")), value), text


# Real files, where they are.


def _facts(shared: Path) -> list[dict[str, Any]]:
    found = json.loads((shared / "public" / "facts.json").read_text())
    return [one for one in found if one["kind"] == "vcr"]


def test_public_recordings_load_with_their_facts(shared: Path) -> None:
    files = _facts(shared)
    assert len(files) == 29
    for one in files:
        facts = one["facts"]
        path = shared / "public" / one["file"]
        if "kinds" in facts:
            with pytest.raises(InputError, match="WebSocket"):
                load(path)
            continue
        found = load(path)
        assert isinstance(found, Cassette)
        assert len(found) == facts["exchanges"], path
        assert Counter(str(x.response.status) for x in found.exchanges) == facts["statuses"], path
        assert sorted({(x.upstream or "").partition("://")[2] for x in found.exchanges}) == facts["hosts"], (
            path
        )
        strict = Matching(rules=frozenset({"key_order"}))
        same = Counter((x.upstream, canonical_key(x.request, strict)) for x in found.exchanges)
        assert sum(n - 1 for n in same.values()) == facts["identical_requests"], path
        for exchange, said in zip(found.exchanges, facts["detail"], strict=True):
            _check_exchange(exchange, said)


def _check_exchange(exchange: Any, said: dict[str, Any]) -> None:
    assert (exchange.request.method, exchange.response.status) == (said["m"], said["status"])
    assert exchange.request.path[: len(said["path"])] == said["path"]
    assert exchange.request.path == said["path"] or len(said["path"]) >= 80
    body = exchange.response.body
    if "model" in said:
        assert json.loads(exchange.request.body)["model"] == said["model"]
    if "tools_offered" in said and "tools" in (asked := json.loads(exchange.request.body)):
        assert len(asked["tools"]) <= len(said["tools_offered"])
    if "sse_data_events" in said:
        assert sum(1 for event in sse.parse(body) if event.data) == said["sse_data_events"]
    if "ndjson_lines" in said:
        assert len([json.loads(line) for line in body.split(b"\n") if line.strip()]) == said["ndjson_lines"]
    if "resp_nonjson_bytes" in said:
        assert len(body) == said["resp_nonjson_bytes"]
    is_date = "date" in said and "REDACTED" not in said["date"]
    assert (exchange.t_end is not None) == is_date


def test_public_recordings_answer_their_own_requests_in_any_order(shared: Path) -> None:
    for one in _facts(shared):
        if "kinds" in one["facts"]:
            continue
        found = load(shared / "public" / one["file"])
        assert isinstance(found, Cassette)
        tape = Tape(found)
        for order in (range(len(found)), reversed(range(len(found)))):
            play = tape.play()
            got: dict[str, list[int]] = {}
            for i in order:
                taken = play.take(found.exchanges[i].request)
                assert isinstance(taken, Hit)
                assert not taken.beyond_recording
                got.setdefault(tape.keys[i].digest, []).append(taken.exchange.idx)
            for digest, served in got.items():
                assert served == [i for i, key in enumerate(tape.keys) if key.digest == digest]
