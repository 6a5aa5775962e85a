"""Cassette JSON: every byte survives, every fault is named, and the original's schema holds."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afnb.core.cassette import Cassette, Chunk, Exchange, Request, Response, ToolExchange
from afnb.errors import InputError, ParameterError
from afnb.io.formats.cassette import from_json, read_cassette, schema, text_of, to_json, write_cassette

# What the original writes and reads: the fields it names, and nothing said of others.
ORIGINAL: dict[str, Any] = {
    "type": "object",
    "required": ["cassette_version", "id", "exchanges"],
    "properties": {
        "cassette_version": {"const": "0.1"},
        "id": {"type": "string"},
        "exchanges": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["idx", "request", "response"],
                "properties": {
                    "idx": {"type": "integer", "minimum": 0},
                    "request": {"$ref": "#/$defs/request"},
                    "response": {"$ref": "#/$defs/response"},
                },
            },
        },
    },
    "$defs": {
        "headers": {
            "type": "array",
            "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "string"}},
        },
        "request": {
            "type": "object",
            "required": ["method", "path", "body"],
            "properties": {
                "method": {"type": "string"},
                "path": {"type": "string"},
                "headers": {"$ref": "#/$defs/headers"},
            },
        },
        "response": {
            "type": "object",
            "required": ["status", "body"],
            "properties": {
                "status": {"type": "integer", "minimum": 0, "maximum": 65535},
                "headers": {"$ref": "#/$defs/headers"},
            },
        },
    },
}

AS_ORIGINAL = jsonschema.Draft202012Validator(ORIGINAL)
OURS = jsonschema.Draft202012Validator(schema())

json_bodies = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
bodies = st.one_of(
    st.binary(max_size=24),
    st.text(max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")),
    json_bodies.map(lambda value: json.dumps(value).encode()),
    json_bodies.map(
        lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    ),
    st.sampled_from(
        [
            b"null",
            b'"text"',
            b"12",
            b"1.0",
            b"1e5",
            b"NaN",
            b"1e400",
            b'{"a":1,"a":2}',
            b" {}",
            b"data: {}\n\n",
        ]
    ),
)
texts = st.text(max_size=6)
names = st.sampled_from(["content-type", "accept"])


def chunked(body: bytes, cuts: list[int]) -> tuple[Chunk, ...]:
    at = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    return tuple(Chunk(float(i), body[a:b]) for i, (a, b) in enumerate(pairwise(at)))


responses = st.builds(
    lambda status, body, cuts, incomplete: Response(
        status, (), body, None if cuts is None else chunked(body, cuts), incomplete
    ),
    st.integers(100, 599),
    bodies,
    st.none() | st.lists(st.integers(0, 50), max_size=3),
    st.booleans(),
)
requests = st.builds(
    Request,
    st.sampled_from(["GET", "POST"]),
    texts.map("/".__add__),
    st.lists(st.tuples(names, texts)).map(tuple),
    bodies,
)
exchanges = st.builds(
    Exchange,
    st.just(0),
    requests,
    responses,
    st.none() | st.just("2026-01-01T00:00:00Z"),
    st.none() | texts,
    st.none(),
    st.none() | texts,
    st.none() | requests,
)
tools = st.builds(
    ToolExchange, texts, json_bodies, json_bodies, st.sampled_from(["read", "write"]), st.none() | texts
)
cassettes = st.builds(
    lambda ident, several, tools, outcome: Cassette(
        ident, tuple(replace(one, idx=i) for i, one in enumerate(several)), tuple(tools), None, outcome
    ),
    texts,
    st.lists(exchanges, max_size=3),
    st.lists(tools, max_size=2),
    st.sampled_from([None, "pass", "fail", "unknown"]),
)


@settings(max_examples=80, deadline=None)
@given(cassettes)
def test_everything_survives_and_conforms(cassette: Cassette) -> None:
    text = text_of(cassette)
    again = read_cassette(text.encode())
    assert again == replace(cassette, exchanges=again.exchanges)
    for ours, theirs in zip(cassette.exchanges, again.exchanges, strict=True):
        assert theirs.response == ours.response
        assert theirs.request.body == ours.request.body
        assert (theirs.t_start, theirs.t_end, theirs.upstream) == (ours.t_start, ours.t_end, ours.upstream)
    document = json.loads(text)
    AS_ORIGINAL.validate(document)
    OURS.validate(document)
    assert text_of(again) == text
    plain = text_of(cassette, plain=True)
    assert read_cassette(plain.encode()) == again, "bodies left as text come back as they were"
    OURS.validate(json.loads(plain))


def test_the_schema_refuses_what_the_reader_refuses() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    for change in ({"status": "200"}, {"status": 99}, {"chunks": [[-1, "x"]]}, {"incomplete": "no"}):
        document = to_json(Cassette("c", (Exchange(0, Request("GET", "/"), Response(200)),)))
        document["exchanges"][0]["response"].update(change)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, schema())
        with pytest.raises(InputError):
            from_json(document)


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        (b"", {"body": None}),
        (b'{"a":1}', {"body": {"a": 1}}),
        (b'{"a": 1}', {"body": {"a": 1}, "body_base64": "eyJhIjogMX0="}),
        (b"plain", {"body": "plain"}),
        (b"null", {"body": None, "body_base64": "bnVsbA=="}),
        (b'"t"', {"body": "t", "body_base64": "InQi"}),
        (b"12", {"body": 12}),
        (b"\xff\xfe\x00\xe9", {"body": None, "body_base64": "//4A6Q=="}),
        (b'{"a":NaN}', {"body": '{"a":NaN}'}),
        (b'{"a":1e400}', {"body": '{"a":1e400}'}),
        (b'{"n":123456789012345678901234567890}', {"body": {"n": 123456789012345678901234567890}}),
    ],
)
def test_how_a_body_is_stored(body: bytes, stored: dict[str, Any]) -> None:
    document = to_json(Cassette("c", (Exchange(0, Request("POST", "/", (), body), Response(200)),)))
    request = document["exchanges"][0]["request"]
    assert {key: value for key, value in request.items() if key.startswith("body")} == stored
    assert from_json(json.loads(json.dumps(document))).exchanges[0].request.body == body


def test_a_deep_body_can_be_read_again() -> None:
    for depth in (150, 300, 900, 3000):
        body = b"[" * depth + b"]" * depth
        cassette = Cassette("c", (Exchange(0, Request("POST", "/", (), body), Response(200, (), body)),))
        assert read_cassette(text_of(cassette).encode()).exchanges == cassette.exchanges


def test_the_originals_form_loads(tmp_path: Path) -> None:
    path = tmp_path / "bad.cassette.json"
    path.write_text(
        """{"cassette_version": "0.1", "id": "refund", "exchanges": [{"idx": 0,
        "request": {"method": "POST", "path": "/v1/messages", "body": {"model": "m", "messages": []}},
        "response": {"status": 200, "body": {"role": "assistant", "stop_reason": "end_turn"}}}]}"""
    )
    cassette = read_cassette(path)
    assert (cassette.id, len(cassette), cassette.source) == ("refund", 1, str(path))
    assert cassette.exchanges[0].request == Request(
        "POST", "/v1/messages", (), b'{"model":"m","messages":[]}'
    )
    assert cassette.outcome is None


def test_the_originals_own_files_load(shared: Path) -> None:
    for name in ("bad", "good"):
        path = shared / "public" / "amberfork" / f"melvin0070-amberfork__{name}.cassette.json"
        cassette = read_cassette(path)
        assert len(cassette) == 5
        assert [one.response.status for one in cassette.exchanges] == [200] * 5
        document = json.loads(path.read_text())
        assert [json.loads(one.request.body) for one in cassette.exchanges] == [
            one["request"]["body"] for one in document["exchanges"]
        ]
        jsonschema.validate(document, ORIGINAL)
        jsonschema.validate(json.loads(text_of(cassette)), ORIGINAL)


def test_unknown_fields_survive_at_every_level() -> None:
    document = {
        "cassette_version": "0.1", "id": "c", "made_by": {"x": 1},
        "exchanges": [{
            "idx": 0, "cost": 3,
            "request": {"method": "GET", "path": "/", "headers": [], "body": None, "tls": True},
            "response": {"status": 200, "headers": [], "body": None, "region": "eu"},
            "forwarded": {"method": "GET", "path": "/", "headers": [], "body": None, "via": 1},
        }],
        "tool_exchanges": [
            {"name": "t", "arguments": {}, "output": None, "effect": "read", "after_exchange": 0, "host": "h"}
        ],
    }  # fmt: skip
    assert to_json(from_json(document)) == document


def test_idx_that_does_not_count_is_numbered_again() -> None:
    def one(idx: int, attempt_of: int | None = None) -> dict[str, Any]:
        fields = {"idx": idx, "request": {"method": "GET", "path": "/"}, "response": {"status": 200}}
        return fields if attempt_of is None else {**fields, "attempt_of": attempt_of}

    cassette = from_json({"cassette_version": "0.1", "id": "c", "exchanges": [one(4), one(7, 4)]})
    assert [(x.idx, x.attempt_of) for x in cassette.exchanges] == [(0, None), (1, 0)]
    assert [warning.code for warning in cassette.warnings] == ["idx_renumbered"]
    with pytest.raises(InputError, match=r"exchanges\[0\].attempt_of: found 9"):
        from_json({"cassette_version": "0.1", "id": "c", "exchanges": [one(0, 9)]})


def _top(**fields: Any) -> str:
    return json.dumps({"cassette_version": "0.1", "id": "c", **fields})


def _document(**response: Any) -> str:
    exchange = {"idx": 0, "request": {"method": "GET", "path": "/"}, "response": {"status": 200, **response}}
    return json.dumps({"cassette_version": "0.1", "id": "c", "exchanges": [exchange]})


B64 = base64.b64encode(b'{"a":1}').decode()
FAULTS: list[tuple[str | bytes, str]] = [
    ("", "the file is empty"),
    ("  \n", "the file is empty"),
    ("[]", "found an array, expected an object"),
    ("{}", "no cassette_version"),
    ('{"cassette_version":"0.2"}', "found \"0.2\" \\(string\\), and this afnb reads '0.1' only"),
    ('{"cassette_version":"0.1","exchanges":[]}', "id: found nothing, expected text"),
    ('{"cassette_version":"0.1","id":"c"}', "exchanges: found nothing, expected an array"),
    (_top(exchanges=[3]), r"exchanges\[0\]: found 3 \(integer\), expected an object"),
    (_top(exchanges=[{"idx": True}]), r"exchanges\[0\].idx: found true"),
    (_top(exchanges=[{"idx": 0}]), r"exchanges\[0\].request: found nothing"),
    (_top(exchanges=[], outcome="bad"), "outcome: found \"bad\""),
    (_top(exchanges=[], redaction=7), "redaction: found 7"),
    ('{"cassette_version":"0.1","id":"c","exch', "it was cut off"),
    ('{"cassette_version":"0.1","id":"c"', "it was cut off"),
    ('{"cassette_version":"0.1" "id"}', "Expecting ',' delimiter at line 1 column 27"),
    (_top(exchanges=[float("nan")]), r"NaN is not a JSON number.*\(at exchanges\[0\]\)"),
    ('{"cassette_version":"0.1","id":"c","n":1e400}', r"1e400 is too large.*\(at n\)"),
    ("\ufeff{}", "byte order mark"),
    (b'{"cassette_version":"0.1",\n"id":"\xe9"}', "not UTF-8: byte 0xe9 at offset 33"),
    (_document(status="200"), r'exchanges\[0\].response.status: found "200" \(string\), expected an integer'),
    (_document(status=1000), "expected an integer from 100 to 999"),
    (_document(status=20), "found 20"),
    (_document(headers={"a": "b"}), "response.headers: found an object, expected an array"),
    (_document(headers=[["a"]]), r"response.headers\[0\]: found an array, expected a pair"),
    (_document(incomplete=1), "incomplete: found 1"),
    (_document(body_base64="!"), "expected base64"),
    (_document(body={"a": 2}, body_base64=B64), "not what body_base64 holds"),
    (_document(body="ab", chunks=[[0, "a"]]), "the chunks joined are not the body"),
    (_document(body="ab", chunks=[[-1, "ab"]]), r"chunks\[0\]\[0\]: found -1"),
    (_document(body="ab", chunks=[[0, 1]]), r"chunks\[0\]\[1\]"),
    (_document(body="ab", chunks=["ab"]), r"chunks\[0\]: found \"ab\""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), FAULTS)
def test_a_fault_is_named_with_its_file_and_place(text: str | bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=said) as caught:
        read_cassette(path)
    assert str(caught.value).startswith(str(path))


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_cassette(tmp_path / "none.json")
    with pytest.raises(InputError, match="it is a folder"):
        read_cassette(tmp_path)


def _damage(data: st.DataObject) -> None:
    text = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text) - 1))
        stop = data.draw(st.integers(start, min(start + 20, len(text))))
        text[start:stop] = data.draw(st.binary(max_size=4) | st.sampled_from(SPLINTERS))
    with contextlib.suppress(InputError):
        read_cassette(bytes(text))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_damage_gives_a_value_or_an_input_error(data: st.DataObject) -> None:
    _damage(data)


@pytest.mark.soak
@settings(max_examples=10_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_damage_gives_a_value_or_an_input_error_soak(data: st.DataObject) -> None:
    _damage(data)


SPLINTERS = [b"null", b"[]", b"{}", b"-1", b'"', b"1e999", b"NaN", b"true", b"\xff", b"9" * 5000]
GOOD = text_of(
    Cassette(
        "c",
        (
            Exchange(
                0,
                Request("POST", "/v1/x", (("accept", "*/*"),), b'{"n": 1}'),
                Response(
                    200, (), b"data: 1\n\n\xff", (Chunk(0.0, b"data: 1\n\n"), Chunk(1.5, b"\xff")), True
                ),
                attempt_of=None,
            ),
            Exchange(1, Request("POST", "/v1/x"), Response(500), attempt_of=0),
        ),
        (ToolExchange("t", {"a": 1}, "o"),),
    )
).encode()


def test_nothing_secret_reaches_a_file(tmp_path: Path) -> None:
    secrets = {
        "authorization": "Bearer s1",
        "x-api-key": "s2",
        "x-goog-api-key": "s3",
        "cookie": "s4",
        "x-made-up": "s5",
    }
    headers = (("Content-Type", "application/json"), *secrets.items())
    request = Request("POST", "/v1/m?key=s6&alt=sse", headers, b"{}")
    exchange = Exchange(
        0, request, Response(200, (("set-cookie", "s7"), ("content-type", "a/b")), b"{}"), forwarded=request
    )
    write_cassette(Cassette("c", (exchange,)), tmp_path / "x.json")
    written = (tmp_path / "x.json").read_text()
    for secret in ("s1", "s2", "s3", "s4", "s5", "s6", "s7", "x-made-up", "authorization"):
        assert secret not in written
    kept = read_cassette(tmp_path / "x.json").exchanges[0]
    assert kept.request.headers == (("content-type", "application/json"),)
    assert kept.response.headers == (("content-type", "a/b"),)
    assert kept.request.path == "/v1/m?key=MASKED&alt=sse"


def test_files_are_never_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_cassette(Cassette("first"), path)
    with pytest.raises(ParameterError, match="exists already"):
        write_cassette(Cassette("second"), path)
    assert read_cassette(path).id == "first"
    write_cassette(Cassette("second"), path, overwrite=True)
    assert read_cassette(path).id == "second"
    assert os.listdir(tmp_path) == ["x.json"]
    with pytest.raises(ParameterError, match="no folder"):
        write_cassette(Cassette("c"), tmp_path / "none" / "x.json")


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    write_cassette(Cassette("first"), path)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_cassette(Cassette("second"), path, overwrite=True)
    monkeypatch.undo()
    assert read_cassette(path).id == "first"
    assert os.listdir(tmp_path) == ["x.json"]


def test_an_unreadable_recording_is_no_absent_one(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(GOOD.replace(b"/v1/x", b"/v1/\xe9", 1))
    before = path.read_bytes()
    with pytest.raises(InputError, match="byte 0xe9"):
        read_cassette(path)
    assert path.read_bytes() == before


def test_chunk_times_are_numbers() -> None:
    exchange = Exchange(0, Request("GET", "/"), Response(200, (), b"ab", (Chunk(0.5, b"a"), Chunk(2, b"b"))))
    again = read_cassette(text_of(Cassette("c", (exchange,))).encode()).exchanges[0].response.chunks
    assert again is not None
    assert [chunk.ms for chunk in again] == [0.5, 2]
    assert all(math.isfinite(chunk.ms) for chunk in again)
