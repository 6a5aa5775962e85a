"""Single answers of providers: fixtures and excerpts that hold no request."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from afnb.core import sse
from afnb.core.cassette import Cassette
from afnb.core.providers import provider_error, provider_of, read_answer
from afnb.core.steps import run_from_cassette
from afnb.errors import InputError
from afnb.io.load import load

CLAUDE: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"model": "c", "role": "assistant", "usage": {"input_tokens": 7}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a\u2028b"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]
CHAT = {"object": "chat.completion", "model": "g", "choices": [{"message": {"content": "hi"}}]}
CHUNK = {
    "object": "chat.completion.chunk",
    "model": "g",
    "choices": [{"index": 0, "delta": {"content": "hi"}}],
}
LAST_CHUNK = {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
GEMINI = {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}
OLLAMA = {"model": "l", "message": {"role": "assistant", "content": "hi"}, "done": True}
RESPONSE = {
    "object": "response",
    "model": "g",
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}],
}


def lines(*values: Any) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


@pytest.mark.parametrize(
    ("text", "provider", "said"),
    [
        (lines(*CLAUDE), "anthropic", "a\u2028b"),
        ("".join(f"data: {json.dumps(e)}\n\n" for e in CLAUDE), "anthropic", "a\u2028b"),
        (json.dumps(CHAT, indent=1), "openai-chat", "hi"),
        (lines(CHUNK, LAST_CHUNK), "openai-chat", "hi"),
        (json.dumps(RESPONSE), "openai-responses", "hi"),
        (json.dumps(GEMINI), "gemini", "hi"),
        (lines(GEMINI, GEMINI), "gemini", "hihi"),
        (lines({**OLLAMA, "done": False}, OLLAMA), "ollama", "hihi"),
    ],
)  # fmt: skip
def test_every_shape_is_read(text: str, provider: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text, encoding="utf-8")
    found = load(path)
    assert isinstance(found, Cassette)
    (exchange,) = found.exchanges
    assert provider_of(exchange.request) == provider
    assert run_from_cassette(found).answer == said
    assert [one.code for one in found.warnings] == ["request_unknown"]


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        ({"error": {"code": 429, "message": "quota", "status": "EXHAUSTED"}}, 429, "EXHAUSTED: quota"),
        ({"type": "error", "error": {"type": "overloaded", "message": "x"}}, 400, "overloaded: x"),
        ({"error": {"type": "invalid", "message": "y", "code": None}}, 400, "invalid: y"),
    ],
)
def test_an_error_is_an_answer_with_its_status(error: Any, status: int, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(error))
    found = load(path)
    assert isinstance(found, Cassette)
    (exchange,) = found.exchanges
    assert exchange.response.status == status
    assert provider_error(exchange.request, exchange.response) == said


def test_a_torn_last_line_is_a_warning_and_damage_inside_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(lines(*CLAUDE)[:-5])
    assert [one.code for one in load(path).warnings] == ["request_unknown", "torn_line"]
    path.write_text(lines(CLAUDE[0]) + "{nope\n" + lines(CLAUDE[-1]))
    with pytest.raises(InputError, match=r"x\.jsonl, line 2|x\.jsonl:2"):
        load(path)


def test_other_json_is_not_taken_for_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for value in (
        {"error": {"message": "x"}, "more": 1},
        {"error": "x"},
        {"type": "message"},
        {"message": {}},
    ):
        path.write_text(json.dumps(value))
        with pytest.raises(InputError, match="no known format"):
            load(path)


def test_public_answers_load_with_their_facts(shared: Path) -> None:
    facts = json.loads((shared / "public" / "facts.json").read_text("utf-8"))
    mine = [one for one in facts if one["format"] == "provider-stream-raw"]
    assert len(mine) == 4
    for one in mine:
        found, said = load(shared / "public" / one["file"]), one["facts"]
        assert isinstance(found, Cassette)
        (exchange,) = found.exchanges
        answer = read_answer(exchange.request, exchange.response)
        if said["error"] is not None:
            assert (answer, exchange.response.status) == (None, said["error"])
            continue
        assert answer is not None
        events = sse.parse(exchange.response.body)
        assert Counter(event.event for event in events) == said["event_types"]
        assert len(events) == said["lines"]
        calls = [call.name for call in (*answer.tool_calls, *answer.server_calls)]
        assert (calls, answer.finish) == (said["tool_calls"], said["finish"])
        assert answer.usage is not None
        assert [answer.usage.input_tokens, answer.usage.output_tokens] == said["usage"]
