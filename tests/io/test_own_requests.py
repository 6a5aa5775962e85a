"""A recording answers its own requests, in any order and with fresh ids of calls, byte for byte."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from afnb.core import awsstream
from afnb.core.cassette import Cassette, Chunk, Exchange, Request, Response
from afnb.core.providers import is_model_request, read_answer
from afnb.core.tape import Tape
from afnb.io.formats.cassette import read_cassette, write_cassette
from afnb.io.load import load
from afnb.io.serve import Serve, Session
from afnb.io.transport import client

JSON = (("content-type", "application/json"),)


def fresh(cassette: Cassette) -> list[Request]:
    """The recording's requests as another run would send them: its ids of calls are others."""
    ids = {
        call.id
        for exchange in cassette.exchanges
        if is_model_request(exchange.request)
        and (answer := read_answer(exchange.request, exchange.response)) is not None
        for call in answer.tool_calls
        if call.id and "#" not in call.id
    }
    if not ids:
        return [exchange.request for exchange in cassette.exchanges]
    known = re.compile("|".join(sorted((re.escape(json.dumps(one)) for one in ids), key=len, reverse=True)))

    def other(match: re.Match[str]) -> str:
        return json.dumps(f"fresh_{sorted(ids).index(json.loads(match[0]))}")

    made = []
    for exchange in cassette.exchanges:
        try:
            text = exchange.request.body.decode()
        except UnicodeDecodeError:
            made.append(exchange.request)
            continue
        made.append(replace(exchange.request, body=known.sub(other, text).encode()))
    return made


def check(cassette: Cassette, seed: int) -> int:
    """Ask everything twice over, shuffled; gives how many requests had fresh ids."""
    tape = Tape(cassette)
    changed = 0
    for requests in ([e.request for e in cassette.exchanges], fresh(cassette)):
        order = list(range(len(cassette)))
        random.Random(seed).shuffle(order)
        waiting: dict[str, Iterator[bytes]] = {}
        groups: dict[str, list[bytes]] = defaultdict(list)
        for key, exchange in zip(tape.keys, cassette.exchanges, strict=True):
            groups[key.digest].append(exchange.response.body)
        session = Session(tape, live=False)
        with client(session, module="httpx") as http_client:
            for i in order:
                request, digest = requests[i], tape.keys[i].digest
                expected = next(waiting.setdefault(digest, iter(groups[digest])))
                if request.path.startswith("/"):
                    got = http_client.request(
                        request.method, request.path, content=request.body, headers=request.headers
                    ).content
                else:  # its address was masked when it was recorded: no client can ask for it
                    turn = session.decide(request)
                    assert isinstance(turn, Serve)
                    got = turn.response.body
                assert got == expected, (cassette.id, i)
                changed += request.body != cassette.exchanges[i].request.body
        report = session.report()
        assert (report.served, report.missed, report.beyond_recording) == (len(cassette), 0, 0), cassette.id
    return changed


def own() -> Cassette:
    """Every awkwardness of recordings in one: repeats, limits, streams, cuts, bytes, uploads, JSON-RPC."""
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    later = [*asked["messages"], {"role": "assistant", "tool_calls": [call]}]  # type: ignore[list-item]
    later.append({"role": "tool", "tool_call_id": "call_1", "content": "größer \u2028"})
    claude = {"model": "c", "messages": [{"role": "user", "content": "hi"}]}
    sse = b'data: {"choices":[{"index":0,"delta":{"content":"a\xe2\x80\xa8b"}}]}\n\ndata: [DONE]\n\n'
    frame = awsstream.make("contentBlockDelta", b"{}")
    upload = b'--b1\r\ncontent-disposition: form-data; name="f"\r\n\r\n\xff\x00\r\n--b1--\r\n'
    form = (("content-type", "multipart/form-data; boundary=b1"),)
    answer = {"choices": [{"index": 0, "message": {"content": "", "tool_calls": [call]}}]}
    pairs: list[tuple[Request, Response]] = [
        (post("/v1/chat/completions", asked), Response(429, JSON, b'{"error": {}}')),
        (post("/v1/chat/completions", asked), Response(200, JSON, json.dumps(answer, indent=1).encode())),
        (
            post("/v1/chat/completions", {**asked, "messages": later, "stream": True}),
            Response(200, kind("text/event-stream"), sse, (Chunk(0, sse[:31]), Chunk(1, sse[31:]))),
        ),
        (post("/v1/messages", claude), Response(200, kind("application/x-ndjson"), b'{"a":1}\n{}\n')),
        (
            post("/model/m/converse-stream", claude),
            Response(200, kind("application/vnd.amazon.eventstream"), frame * 3),
        ),
        (Request("POST", "/v1/files", form, upload), Response(200, JSON, b'{"id": "file_1"}')),
        (Request("GET", "/v1/files/file_1/content"), Response(200, (), b"\xff\xfe\x00\xe9")),
        (Request("GET", "/v1/poll"), Response(200, JSON, b'{"status":"queued"}')),
        (Request("GET", "/v1/poll"), Response(200, JSON, b'{"status":"done"}')),
        (Request("DELETE", "/v1/files/file_1"), Response(204)),
        (
            post("/mcp", {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "f"}}),
            Response(200, JSON, b'{"jsonrpc":"2.0","id":7,"result":{"content":[]}}'),
        ),
    ]  # fmt: skip
    return Cassette(
        "own", tuple(Exchange(i, request, response) for i, (request, response) in enumerate(pairs))
    )


def kind(value: str) -> tuple[tuple[str, str], ...]:
    return (("content-type", value),)


def post(path: str, body: Any) -> Request:
    return Request("POST", path, JSON, json.dumps(body).encode())


@pytest.mark.parametrize("seed", range(4))
def test_own_requests_get_own_answers(seed: int, tmp_path: Path) -> None:
    made = own()
    assert check(made, seed) == 1
    write_cassette(made, tmp_path / "x.json")
    assert check(read_cassette(tmp_path / "x.json"), seed) == 1


def test_public_recordings_answer_themselves(shared: Path) -> None:
    public = shared / "public"
    files = sorted(
        [*public.glob("vcr-*/*"), *public.glob("mcp/*.yaml"), *public.glob("amberfork/*cassette.json")]
    )
    changed = 0
    for path in files:
        if "websocket" in path.name:
            continue
        found = load(path)
        assert isinstance(found, Cassette)
        assert len(found)
        changed += check(found, 7)
    assert changed > 20
