"""Streams are torn, cut, taken for whole, or sent in one piece."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core import sse
from afnb.core.cassette import Chunk, Response
from afnb.core.providers import outputs_of, read_answer
from afnb.core.tape import Tape
from afnb.io.serve import Session
from afnb.io.server import LoopbackServer
from afnb.io.transport import client

from .made import CHAT, CLAUDE, SSE, ask, chunk, events, post, recording, said

CLAUDE_ASK = post({"model": "c", "messages": [{"role": "user", "content": "hi"}]}, CLAUDE)
START = {
    "type": "message_start",
    "message": {"model": "c", "role": "assistant", "usage": {"input_tokens": 1}},
}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}


def delta(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def streamed(body: bytes, *, incomplete: bool = False) -> Response:
    return Response(200, SSE, body, None, incomplete)


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x0c", "\x1c"])
def test_only_cr_and_lf_end_a_line_in_streams_and_in_logs(odd: str, tmp_path: Path) -> None:
    (event,) = sse.parse(f'data: {{"t":"a{odd}b"}}\n\n'.encode())
    assert event.data == f'{{"t":"a{odd}b"}}'
    envelope = {
        "run_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
        "seq": 0,
        "recorded_at": "2026-01-01T00:00:00Z",
        "schema_version": 1,
        "event": {
            "kind": "RunStarted",
            "payload": {"agent_def_hash": "h", "input": f"a{odd}b"},
        },
    }
    shown = odd if odd not in "\x0c\x1c" else json.dumps(odd)[1:-1]  # control characters must be escaped
    path = tmp_path / "x.jsonl"
    line = json.dumps(envelope, ensure_ascii=False)
    assert shown in line
    path.write_bytes(line.encode() + b"\n")
    table = afnb.read_events(str(path))
    assert [json.loads(text)["input"] for text in table["payload"].to_pylist()] == [f"a{odd}b"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 4096])
def test_the_text_does_not_depend_on_where_pieces_end(size: int) -> None:
    body = events([chunk("größer 世界 "), chunk("🙂🙃"), chunk(finish="stop")], end=b"data: [DONE]\n\n")
    pieces = tuple(Chunk(0, body[i : i + size]) for i in range(0, len(body), size))
    tape = Tape(recording((ask("hi"), Response(200, SSE, body, pieces))))
    with (
        client(Session(tape, live=False), module="httpx") as http_client,
        http_client.stream("POST", CHAT, content=ask("hi").body) as answer,
    ):
        got = list(answer.iter_raw())
    assert got == [piece.data for piece in pieces]
    parser, found = sse.Decoder(), []
    for piece in got:
        found += parser.feed(piece)
    texts = [
        json.loads(e.data)["choices"][0]["delta"].get("content", "") for e in found if e.data != "[DONE]"
    ]
    assert "".join(texts) == "größer 世界 🙂🙃"


CUT = {
    "messages": (CLAUDE_ASK, streamed(events([START, BLOCK, delta("a"), delta("b")], named=True))),
    "chat": (ask("hi"), streamed(events([chunk("a"), chunk("b")]))),
    "error": (
        CLAUDE_ASK,
        streamed(
            events(
                [START, BLOCK, delta("a"), {"type": "error", "error": {"type": "api_error", "message": "x"}}],
                named=True,
            )
        ),
    ),
}


@pytest.mark.parametrize("kind", sorted(CUT))
def test_a_stream_that_stops_early_is_never_taken_for_a_success(kind: str) -> None:
    request, response = CUT[kind]
    made = recording((request, response))
    (row,) = afnb.exchanges(made).to_pylist()
    assert (row["incomplete"], row["result"]) == (True, "provider_error" if kind == "error" else "answer")
    words = "the provider broke the answer off" if kind == "error" else "stopped before its end"
    assert words in made.to_text()
    session = Session(Tape(made), live=False)
    with client(session, module="httpx") as http_client:
        sent = http_client.request(request.method, request.path, content=request.body).content
    assert (sent, session.report().incomplete) == (response.body, 1)


def test_a_cut_live_answer_never_makes_a_passing_control() -> None:
    """Both arms get answers that stop early: nothing may be said of the patch."""

    def agent(ctx: Any) -> str:
        text = ""
        with ctx.http_client("httpx") as http_client:
            for turn in ("one", "two"):
                answer = http_client.post(CHAT, content=ask(turn, stream=True).body)
                text += "".join(
                    json.loads(event.data)["choices"][0]["delta"].get("content", "")
                    for event in sse.parse(answer.content)
                    if event.data != "[DONE]"
                )
        return text

    whole = events([chunk("bad"), chunk(finish="stop")], end=b"data: [DONE]\n\n")
    made = recording(*((ask(turn, stream=True), streamed(whole)) for turn in ("one", "two")), id="bad")
    e = afnb.what_if(
        made,
        afnb.Edit(0, {"text": "good", "tool_calls": []}),
        agent=agent,
        upstream=lambda request: streamed(events([chunk("good")])),
        oracle=lambda run: "good" in str(run.answer),
        progress=False,
        n_jobs=1,
    )
    assert e.label == "Unverified"
    assert {row["reason"] for row in e.replay_rows()} == {"incomplete_stream"}


def test_an_overload_inside_a_success_is_an_error_of_the_provider() -> None:
    failed = {"type": "response.failed", "response": {"error": {"code": "overloaded", "message": "busy"}}}
    for first in (failed, {"type": "error", "code": "overloaded", "message": "busy"}):
        request = post({"model": "m", "input": "hi"}, "/v1/responses")
        made = recording((request, streamed(events([first], named=True))))
        (row,) = afnb.exchanges(made).to_pylist()
        assert (row["status"], row["result"], row["error"]) == (200, "provider_error", "overloaded: busy")
        assert [step["kind"] for step in afnb.steps(made).to_pylist()] == ["other"]


def test_late_arguments_and_a_last_event_without_choices_are_one_whole_answer() -> None:
    def piece(**function: str) -> dict[str, Any]:
        return chunk(tool_calls=[{"index": 0, "id": "c", "type": "function", "function": function}])

    usage = {
        "id": "x",
        "choices": [],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    }
    body = events(
        [chunk(role="assistant"), piece(name="f", arguments=""), piece(arguments='{"a"'),
         piece(arguments=": 1}"), chunk(finish="tool_calls"), usage],
        end=b"data: [DONE]\n\n",
    )  # fmt: skip
    answer = read_answer(ask("hi"), streamed(body))
    assert answer is not None
    assert outputs_of(answer) == {"text": "", "tool_calls": [{"name": "f", "arguments": {"a": 1}}]}
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.complete) == (9, 4, True)
    with client(
        Session(Tape(recording((ask("hi"), streamed(body)))), live=False), module="httpx"
    ) as http_client:
        assert http_client.post(CHAT, content=ask("hi").body).content == body


def test_a_recording_without_an_end_mark_ends_for_everybody_and_is_flagged() -> None:
    openai = pytest.importorskip("openai")
    made = recording((ask("hi", stream=True), streamed(events([chunk("a"), chunk("b", "stop")]))))
    (row,) = afnb.exchanges(made).to_pylist()
    assert (row["notes"], row["incomplete"]) == ('["no_end_marker"]', False)
    assert "the stream has no [DONE]" in made.to_text()
    with LoopbackServer(Session(Tape(made, repeat="first"), live=False)) as server:
        sdk = openai.OpenAI(api_key="k", base_url=server.base_url + "/v1", timeout=5, max_retries=0)
        asked = sdk.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        assert "".join(c.choices[0].delta.content or "" for c in asked) == "ab"
        sdk.close()
        with socket.create_connection(("127.0.0.1", server.port), 5) as line:
            body = ask("hi", stream=True).body
            head = f"POST /{server.token}{CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
            line.sendall(head.encode() + b"connection: close\r\n\r\n" + body)
            got = b""
            while data := line.recv(65536):
                got += data
    assert got.endswith(b"0\r\n\r\n")


def test_text_beside_reasoning_is_kept_and_a_final_event_that_differs_is_said() -> None:
    both = [chunk(reasoning_content="r", content="c"), chunk(finish="stop")]
    answer = read_answer(ask("hi"), streamed(events(both, end=b"data: [DONE]\n\n")))
    assert answer is not None
    assert answer.text == "c"
    request = post({"model": "m", "input": "hi"}, "/v1/responses")
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}

    def final(text: str) -> bytes:
        whole = {**item, "content": [{"type": "output_text", "text": text}]}
        return events(
            [
                {"type": "response.output_item.added", "output_index": 0, "item": item},
                {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "c"},
                {"type": "response.completed", "response": {"status": "completed", "output": [whole]}},
            ],
            named=True,
        )

    same, other = (read_answer(request, streamed(final(text))) for text in ("c", "d"))
    assert same is not None
    assert other is not None
    assert ([n.code for n in same.notes], [n.code for n in other.notes]) == ([], ["text_differs"])


def test_events_are_sent_one_by_one_and_an_agent_may_leave(capfd: pytest.CaptureFixture[str]) -> None:
    body = events([chunk(f"{n} " * 200) for n in range(50)])
    session = Session(Tape(recording((ask("hi"), streamed(body)), (ask("on"), said("next")))), live=False)
    with LoopbackServer(session) as server:
        line = socket.create_connection(("127.0.0.1", server.port), 5)
        asked = ask("hi").body
        head = f"POST /{server.token}{CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(asked)}\r\n\r\n"
        line.sendall(head.encode() + asked)
        file = line.makefile("rb")
        headers = b"".join(itertools.takewhile(lambda text: text != b"\r\n", file)).lower()
        assert (b"transfer-encoding: chunked" in headers, b"content-length" in headers) == (True, False)
        first = file.read(int(file.readline(), 16))
        assert first == body[: body.index(b"\n\n") + 2]
        threading.Event().wait(0.05)
        file.close()
        line.close()
        with client_of(server) as http_client:
            assert http_client.post(CHAT, content=ask("on").body).status_code == 200
    assert capfd.readouterr() == ("", "")


def client_of(server: LoopbackServer) -> Any:
    import httpx

    return httpx.Client(base_url=server.base_url, trust_env=False)
