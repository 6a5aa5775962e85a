"""The official clients accept rewritten answers and put them together to what was asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from afnb.core.cassette import Request, Response
from afnb.core.providers import read_answer, write_answer

from .wire import (
    CALLS,
    answer,
    chat_answer,
    chat_calls_answer,
    chat_calls_stream,
    chat_chunk,
    chat_request,
    chat_text_stream,
    claude_answer,
    claude_block,
    claude_calls_answer,
    claude_calls_stream,
    claude_request,
    claude_start,
    claude_text_stream,
    stream,
)
from .wire_more import (
    ORDER_ITEM,
    REASONING,
    USER_ITEM,
    message_item,
    responses_body,
    responses_events,
    responses_request,
    responses_stream,
)

httpx2 = pytest.importorskip("httpx2")

TEXT_ONLY = {"text": "Alles \u2028 gut 😀", "tool_calls": []}
CALLS_ONLY = {
    "text": "",
    "tool_calls": [CALLS[1], {"name": "search", "arguments": {"q": ["ä", 1.5, None]}}, CALLS[0]],
}
BOTH = {"text": "Let me look.", "tool_calls": [{"name": "get_order", "arguments": {}}]}
OUTPUTS = [TEXT_ONLY, CALLS_ONLY, BOTH]

CHAT_STREAMS = {
    "text": chat_text_stream(),
    "calls": chat_calls_stream(timed=True),
    "cut": stream(chat_chunk({"role": "assistant", "content": "par"})),
    "one chunk": stream(chat_chunk({"role": "assistant", "content": "all"}, "stop"), done=True),
}
CLAUDE_STREAMS = {
    "text": claude_text_stream(),
    "calls": claude_calls_stream(timed=True),
    "cut": stream(claude_start(), *claude_block(0, {"type": "text", "text": ""})[:-1], named=True),
}


RESPONSES_STREAMS = {
    "text": responses_stream([REASONING, message_item("a\u2028b")]),
    "calls": responses_stream([ORDER_ITEM, USER_ITEM], timed=True),
    "cut": stream(*responses_events([REASONING, message_item("abc")], ends=False)[:-3], named=True),
}


def transport(response: Response) -> Any:
    """A transport that answers every request with this response, in its pieces."""

    def answer(_: Any) -> Any:
        pieces = [c.data for c in response.chunks] if response.chunks else [response.body]
        return httpx2.Response(response.status, headers=list(response.headers), content=iter(pieces))

    return httpx2.MockTransport(answer)


def openai_client(response: Response) -> Any:
    openai = pytest.importorskip("openai")
    client = httpx2.Client(transport=transport(response))
    return openai.OpenAI(
        api_key="none", base_url="http://provider.test/v1", http_client=client, max_retries=0
    )


def anthropic_client(response: Response) -> Any:
    anthropic = pytest.importorskip("anthropic")
    client = httpx2.Client(transport=transport(response))
    return anthropic.Anthropic(
        api_key="none", base_url="http://provider.test", http_client=client, max_retries=0
    )


def ids(request: Request, response: Response) -> list[str]:
    answer = read_answer(request, response)
    assert answer is not None
    return [call.id for call in answer.tool_calls]


def check_chat(message: Any, finish: str | None, outputs: dict[str, Any], expected_ids: list[str]) -> None:
    calls = message.tool_calls or []
    assert (message.content or "") == outputs["text"]
    assert [(c.function.name, json.loads(c.function.arguments)) for c in calls] == [
        (c["name"], c["arguments"]) for c in outputs["tool_calls"]
    ]
    assert [c.id for c in calls] == expected_ids
    assert all(c.type == "function" for c in calls)
    assert finish == ("tool_calls" if calls else "stop")


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("recorded", [chat_answer({"content": "a"}), chat_calls_answer()])
def test_openai_plain(recorded: Response, outputs: dict[str, Any]) -> None:
    request = chat_request()
    written = write_answer(request, recorded, outputs)
    with openai_client(written) as client:
        got = client.chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "hi"}])
    check_chat(got.choices[0].message, got.choices[0].finish_reason, outputs, ids(request, written))
    assert got.usage.total_tokens == 16


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("name", CHAT_STREAMS)
def test_openai_streamed(name: str, outputs: dict[str, Any]) -> None:
    request = chat_request()
    written = write_answer(request, CHAT_STREAMS[name], outputs)
    messages: Any = [{"role": "user", "content": "hi"}]
    with (
        openai_client(written) as client,
        client.chat.completions.stream(model="gpt-x", messages=messages) as events,
    ):
        kinds = [event.type for event in events]
        got = events.get_final_completion()
    check_chat(got.choices[0].message, got.choices[0].finish_reason, outputs, ids(request, written))
    assert kinds.count("content.done") == bool(outputs["text"])
    assert kinds.count("tool_calls.function.arguments.done") == len(outputs["tool_calls"])
    if name in ("text", "calls"):
        assert got.usage.total_tokens == 16
    with openai_client(written) as client:
        chunks = list(client.chat.completions.create(model="gpt-x", messages=messages, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == outputs["text"]
    assert {c.id for c in chunks} == {"cmpl-1"}


def check_claude(message: Any, outputs: dict[str, Any], expected_ids: list[str]) -> None:
    calls = [b for b in message.content if b.type == "tool_use"]
    assert "".join(b.text for b in message.content if b.type == "text") == outputs["text"]
    assert [(c.name, c.input) for c in calls] == [(c["name"], c["arguments"]) for c in outputs["tool_calls"]]
    assert [c.id for c in calls] == expected_ids
    assert message.stop_reason == ("tool_use" if calls else "end_turn")


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("recorded", [claude_answer([{"type": "text", "text": "a"}]), claude_calls_answer()])
def test_anthropic_plain(recorded: Response, outputs: dict[str, Any]) -> None:
    request = claude_request()
    written = write_answer(request, recorded, outputs)
    messages: Any = [{"role": "user", "content": "hi"}]
    with anthropic_client(written) as client:
        got = client.messages.create(model="claude-x", max_tokens=9, messages=messages)
    check_claude(got, outputs, ids(request, written))
    assert (got.usage.input_tokens, got.usage.output_tokens) == (12, 6)


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("name", CLAUDE_STREAMS)
def test_anthropic_streamed(name: str, outputs: dict[str, Any]) -> None:
    request = claude_request()
    written = write_answer(request, CLAUDE_STREAMS[name], outputs)
    messages: Any = [{"role": "user", "content": "hi"}]
    with (
        anthropic_client(written) as client,
        client.messages.stream(model="claude-x", max_tokens=9, messages=messages) as events,
    ):
        text = "".join(events.text_stream)
        got = events.get_final_message()
    assert text == outputs["text"]
    check_claude(got, outputs, ids(request, written))
    if name == "calls":
        assert got.content[0].type == "thinking"
        assert (got.content[0].thinking, got.content[0].signature) == ("let me see", "s==")
    if name != "cut":
        assert (got.usage.input_tokens, got.usage.output_tokens) == (12, 6)
    with anthropic_client(written) as client:
        kinds = [
            e.type
            for e in client.messages.create(model="claude-x", max_tokens=9, messages=messages, stream=True)
        ]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop")


def check_responses(got: Any, outputs: dict[str, Any], expected_ids: list[str]) -> None:
    calls = [item for item in got.output if item.type == "function_call"]
    assert got.output_text == outputs["text"]
    assert [(c.name, json.loads(c.arguments)) for c in calls] == [
        (c["name"], c["arguments"]) for c in outputs["tool_calls"]
    ]
    assert [c.call_id for c in calls] == expected_ids
    assert got.status == "completed"


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("items", [[message_item("a")], [REASONING, ORDER_ITEM, USER_ITEM]])
def test_openai_responses_plain(items: list[Any], outputs: dict[str, Any]) -> None:
    request = responses_request()
    written = write_answer(request, answer(responses_body(items)), outputs)
    with openai_client(written) as client:
        got = client.responses.create(model="gpt-x", input="hi")
    check_responses(got, outputs, ids(request, written))
    assert got.usage.total_tokens == 16


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("name", RESPONSES_STREAMS)
def test_openai_responses_streamed(name: str, outputs: dict[str, Any]) -> None:
    request = responses_request()
    written = write_answer(request, RESPONSES_STREAMS[name], outputs)
    with openai_client(written) as client, client.responses.stream(model="gpt-x", input="hi") as events:
        seen = list(events)
        got = events.get_final_response()
    check_responses(got, outputs, ids(request, written))
    said = "".join(e.delta for e in seen if e.type == "response.output_text.delta")
    assert said == outputs["text"]
    numbers = [e.sequence_number for e in seen]
    assert numbers == list(range(len(numbers)))
    if name != "cut":
        assert got.usage.total_tokens == 16
