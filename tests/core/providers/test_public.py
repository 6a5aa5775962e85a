"""Real traffic: what is read from it agrees with facts counted by another program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from afnb.core.cassette import Cassette, Response
from afnb.core.jsonvalue import MISSING, equal
from afnb.core.providers import (
    Usage,
    offered_tools,
    outputs_of,
    provider_error,
    read_answer,
    write_answer,
)
from afnb.core.steps import attempts, model_positions, run_from_cassette
from afnb.errors import InputError, ParameterError
from afnb.io.load import load

from .wire import CALLS, JSON, chat_request, claude_request, stream
from .wire_more import gemini_request, responses_request

# facts counted differently there: an in-between answer has no finish for us, generated text has no counts
_UNFINISHED = ("queued", "in_progress")
_NO_USAGE_COUNTED = "ollama_ndjson"


def _facts(shared: Path) -> list[dict[str, Any]]:
    facts = json.loads((shared / "public" / "facts.json").read_text("utf-8"))
    return [f for f in facts if f["kind"] == "vcr" and "detail" in f["facts"]]


def _recordings(shared: Path) -> list[tuple[dict[str, Any], Cassette]]:
    found: list[tuple[dict[str, Any], Cassette]] = []
    for facts in _facts(shared):
        cassette = load(shared / "public" / facts["file"])
        assert isinstance(cassette, Cassette)
        found.append((facts, cassette))
    assert len(found) > 25
    return found


@pytest.fixture(scope="module")
def recordings(shared: Path) -> list[tuple[dict[str, Any], Cassette]]:
    return _recordings(shared)


def test_answers_agree_with_the_facts(recordings: list[tuple[dict[str, Any], Cassette]]) -> None:
    wrong: list[Any] = []
    for facts, cassette in recordings:
        for exchange, fact in zip(cassette.exchanges, facts["facts"]["detail"], strict=True):
            got = read_answer(exchange.request, exchange.response)
            calls = [c.name for c in (*got.tool_calls, *got.server_calls)] if got else []
            usage = [got.usage.input_tokens, got.usage.output_tokens] if got and got.usage else None
            finish = fact.get("finish")
            ours = (calls, usage, got.finish if got else None)
            theirs = (
                [name.strip("<>") for name in fact.get("tool_calls", [])],
                fact.get("usage"),
                None if finish in _UNFINISHED else finish,
            )
            if _NO_USAGE_COUNTED in facts["file"]:
                ours, theirs = (calls, None, None), (theirs[0], None, None)
            offered = [name for name in fact.get("tools_offered", []) if not name.startswith("<")]
            is_model = got is not None or provider_error(exchange.request, exchange.response) is not None
            if ours != theirs or (is_model and list(offered_tools(exchange.request)) != offered):
                wrong.append((facts["file"], exchange.idx, ours, theirs))
            if exchange.response.status >= 400 and "model" in fact:
                assert provider_error(exchange.request, exchange.response) is not None
    assert wrong == []


def test_every_recorded_answer_can_be_rewritten(recordings: list[tuple[dict[str, Any], Cassette]]) -> None:
    count = 0
    for facts, cassette in recordings:
        for exchange in cassette.exchanges:
            old = read_answer(exchange.request, exchange.response)
            if old is None:
                continue
            count += 1
            assert write_answer(exchange.request, exchange.response, outputs_of(old)) is exchange.response
            for outputs in (
                {"text": "new\u2028"},
                {"tool_calls": [*CALLS, CALLS[0]]},
                {"text": "x", "tool_calls": []},
            ):
                try:
                    written = write_answer(exchange.request, exchange.response, outputs)
                except ParameterError:
                    assert _NO_USAGE_COUNTED in facts["file"]
                    continue
                got = read_answer(exchange.request, written)
                assert got is not None
                assert equal(outputs_of(got), outputs_of(old) | outputs)
                assert (got.complete, got.usage, got.model) == (True, old.usage, old.model)
    assert count > 90


def test_runs_of_recordings(recordings: list[tuple[dict[str, Any], Cassette]]) -> None:
    for facts, cassette in recordings:
        run = run_from_cassette(cassette)
        llm = [step.exchange for step in run.steps if step.kind == "llm"]
        assert llm == list(model_positions(cassette))
        others = [step.exchange for step in run.steps if step.kind == "other"]
        seen = [step.exchange for step in run.steps if step.kind == "tool" and step.exchange is not None]
        assert sorted([*llm, *others, *seen, *attempts(cassette)]) == list(range(len(cassette.exchanges)))
        calls = [
            c for e in cassette.exchanges if (a := read_answer(e.request, e.response)) for c in a.tool_calls
        ]
        tools = [step for step in run.steps if step.kind == "tool"]
        assert [step.name for step in tools] == [call.name for call in calls]
        # one hand-off retells its call in words; every other result came back
        lost = [step.name for step in tools if step.outputs is MISSING]
        assert lost == (["transfer_to_agent"] if "adk_multi_agent" in facts["file"] else [])


def test_websocket_frames_are_not_exchanges(shared: Path) -> None:
    path = shared / "public" / "vcr-other" / "pydantic-pydantic-ai__pydantic_ai_websocket_xai.yaml"
    with pytest.raises(InputError):
        load(path)


# --- streams as they came from the provider: one event's JSON a line ---


def _events(shared: Path, name: str) -> Response:
    text = (shared / "public" / "provider-stream-raw" / name).read_text("utf-8")
    return stream(*[json.loads(line) for line in text.split("\n") if line], named=True)


def test_a_code_execution_stream(shared: Path) -> None:
    got = read_answer(claude_request(), _events(shared, "vercel-ai__anthropic_code_execution.chunks.txt"))
    assert got is not None
    assert (got.tool_calls, got.complete, got.finish) == ((), True, "end_turn")
    assert [c.name for c in got.server_calls] == ["text_editor_code_execution", "bash_code_execution"]
    assert got.usage == Usage(8050, 771)
    assert "Fibonacci" in got.text
    response = _events(shared, "vercel-ai__anthropic_code_execution.chunks.txt")
    written = write_answer(claude_request(), response, {"text": "55", "tool_calls": [CALLS[0]]})
    again = read_answer(claude_request(), written)
    assert again is not None
    assert again.server_calls == got.server_calls
    assert outputs_of(again) == {"text": "55", "tool_calls": [CALLS[0]]}


def test_a_repeated_message_start(shared: Path) -> None:
    got = read_answer(
        claude_request(), _events(shared, "vercel-ai__anthropic_duplicate_message_start.chunks.txt")
    )
    assert got is not None
    assert (got.text, got.complete) == ("Hello, World!", True)
    assert got.usage is not None
    assert (got.usage.input_tokens, got.usage.output_tokens) == (17, 227)


def test_a_hosted_tool_that_waits_for_approval(shared: Path) -> None:
    response = _events(shared, "vercel-ai__openai_mcp_tool_approval.1.chunks.txt")
    got = read_answer(responses_request(), response)
    assert got is not None
    assert (got.tool_calls, got.complete, got.finish) == ((), True, "completed")
    written = write_answer(responses_request(), response, {"text": "new"})
    again = read_answer(responses_request(), written)
    assert again is not None
    assert again.text == "new"
    assert b"mcp_approval_request" in written.body


def test_a_quota_error(shared: Path) -> None:
    body = (shared / "public" / "provider-stream-raw" / "vercel-ai__google_429_retry_info.json").read_bytes()
    response = Response(429, JSON, body)
    assert read_answer(gemini_request(), response) is None
    sentence = provider_error(gemini_request(), response)
    assert sentence == "RESOURCE_EXHAUSTED: You exceeded your current quota, please check your plan."
    assert read_answer(chat_request(), response) is None
