"""Damaged streams, journals, transcripts and answers: a value, or an InputError that names the place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core import awsstream, sse
from afnb.core.cassette import Request, Response
from afnb.core.providers import provider_error, read_answer, write_answer
from afnb.errors import InputError, ParameterError
from afnb.io.formats.source import Source
from afnb.io.load import find_format

PATHS = (
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses",
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    "/api/chat",
    "/model/m/converse-stream",
)
KINDS = (
    "text/event-stream",
    "application/x-ndjson",
    "application/json",
    "application/vnd.amazon.eventstream",
    "",
)
VALUES: tuple[Any, ...] = (
    {"choices": [{"index": 0, "delta": {"content": "a\u2028", "tool_calls": [{"index": 0, "id": "c"}]}}]},
    {"type": "message_start", "message": {"model": "c", "usage": {"input_tokens": 1}}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a'}},
    {"type": "response.completed", "response": {"status": "completed", "output": [{"type": "message"}]}},
    {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}, "finishReason": "STOP"}]},
    {"model": "l", "message": {"role": "assistant", "content": "x"}, "done": True},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f", "arguments": {}}},
    {"afnb_journal": "0.1", "cassette_version": "0.1", "id": "x"},
    {"exchange": {"idx": 0, "request": {"method": "GET", "path": "/"}, "response": {"status": 200}}},
    {"error": {"code": 429, "message": "m", "status": "S"}},
)
ODD = (
    b"\xff",
    b"\r",
    b"\n\n",
    b"data:",
    b"event: error\n",
    b"null",
    b"[]",
    b'"',
    b"{",
    b"1e999",
    b"\x00\x00\x00\x10",
)


def framed(value: Any, frame: int) -> bytes:
    text = json.dumps(value).encode()
    name = str(value.get("type", "x")).encode()
    return (
        b"data: " + text + b"\n\n",
        b"event: " + name + b"\ndata: " + text + b"\n\n",
        text + b"\n",
        text,
        awsstream.make("contentBlockDelta", text),
    )[frame]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Pieces of real streams in any framing, with bytes put in, taken out and changed."""
    frame = draw(st.integers(0, 4))
    parts = [framed(draw(st.sampled_from(VALUES)), frame) for _ in range(draw(st.integers(0, 4)))]
    data = bytearray(b"".join(parts))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        to = draw(st.integers(at, min(len(data), at + 12)))
        data[at:to] = draw(st.sampled_from(ODD) | st.binary(max_size=3))
    return bytes(data)


def check(data: bytes, path: str, kind: str) -> None:
    for parse in (sse.parse, sse.parse_lines):
        events = parse(data)
        assert all(isinstance(event.data, str) for event in events)
    request = Request("POST", path, (), b'{"model": "m", "messages": [], "input": [], "contents": []}')
    response = Response(200, (("content-type", kind),) if kind else (), data)
    answer = read_answer(request, response)
    provider_error(request, response)
    if answer is not None:
        try:
            written = write_answer(request, response, {"text": "new", "tool_calls": []})
        except ParameterError:
            return  # it says that an answer of this form cannot be changed
        again = read_answer(request, written)
        assert again is not None
        assert again.text == "new"


def check_file(data: bytes) -> None:
    source, said = Source(data, "x.jsonl"), "x.jsonl"
    try:
        chosen = find_format(source)
        _ = chosen.load(source, None) if chosen.several else chosen.load(source)
    except InputError as error:
        said = str(error)
    assert "x.jsonl" in said


INPUTS = {"data": damaged(), "path": st.sampled_from(PATHS), "kind": st.sampled_from(KINDS)}


@settings(max_examples=300, deadline=None)
@given(**INPUTS)
def test_a_damaged_answer_is_read_or_is_none(data: bytes, path: str, kind: str) -> None:
    check(data, path, kind)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@settings(max_examples=10_000, deadline=None)
@given(**INPUTS)
def test_a_damaged_answer_is_read_or_is_none_soak(data: bytes, path: str, kind: str) -> None:
    check(data, path, kind)


@settings(max_examples=200, deadline=None)
@given(data=damaged())
def test_a_damaged_file_is_a_value_or_an_error_with_its_name(data: bytes) -> None:
    check_file(data)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@settings(max_examples=10_000, deadline=None)
@given(data=damaged())
def test_a_damaged_file_is_a_value_or_an_error_with_its_name_soak(data: bytes) -> None:
    check_file(data)
