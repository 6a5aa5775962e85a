"""The fake provider and the answers it gives, as the official SDKs see them."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest

from afnb.errors import ParameterError
from afnb.io.answers import Call, Say
from afnb.io.conversation import Conversation
from afnb.testing.provider import FakeProvider, Fault

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

TEXT = 'Two lines:\nünïcödé 世界 \u2028 "quoted" \\ end '
ARGUMENTS = {"id": 7, "note": TEXT, "deep": {"list": [1, 2.5, None, True]}}
USER: list[Any] = [{"role": "user", "content": "hi"}]
CHAT_TOOLS: list[Any] = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
TOOLS: list[Any] = [{"name": "look", "input_schema": {"type": "object"}}]


def policy(talk: Conversation, rng: random.Random) -> Any:
    if talk.results:
        return "the result was " + talk.results[-1].text
    if talk.tools:
        return Say(TEXT, (Call("look", ARGUMENTS), Call("look", {})))
    return TEXT


def chat(provider: FakeProvider, **options: Any) -> Any:
    return openai.OpenAI(api_key="k", base_url=provider.url + "/v1", max_retries=0, **options)


def claude(provider: FakeProvider, **options: Any) -> Any:
    return anthropic.Anthropic(api_key="k", base_url=provider.url, max_retries=0, **options)


def test_openai_takes_text_and_tools() -> None:
    with FakeProvider(policy) as provider, chat(provider) as client:
        plain = client.chat.completions.create(model="m", messages=USER)
        assert plain.choices[0].message.content == TEXT
        assert plain.choices[0].finish_reason == "stop"
        assert plain.usage.total_tokens == plain.usage.prompt_tokens + plain.usage.completion_tokens
        tools = client.chat.completions.create(model="m", messages=USER, tools=CHAT_TOOLS)
        message = tools.choices[0].message
        assert tools.choices[0].finish_reason == "tool_calls"
        assert [call.function.name for call in message.tool_calls] == ["look", "look"]
        assert len({call.id for call in message.tool_calls}) == 2
        answers = [
            {"role": "tool", "tool_call_id": call.id, "content": f"r{i}"}
            for i, call in enumerate(message.tool_calls)
        ]
        last = client.chat.completions.create(
            model="m", messages=[*USER, message, *answers], tools=CHAT_TOOLS
        )
        assert last.choices[0].message.content == "the result was r1"


def test_openai_streams_the_same() -> None:
    with FakeProvider(policy) as provider, chat(provider) as client:
        with client.chat.completions.stream(
            model="m", messages=USER, tools=CHAT_TOOLS, stream_options={"include_usage": True}
        ) as stream:
            final = stream.get_final_completion()
        message = final.choices[0].message
        assert message.content == TEXT
        assert final.choices[0].finish_reason == "tool_calls"
        assert final.usage.total_tokens > 0
        import json

        assert json.loads(message.tool_calls[0].function.arguments) == ARGUMENTS
        assert json.loads(message.tool_calls[1].function.arguments) == {}


def test_anthropic_takes_text_and_tools() -> None:
    with FakeProvider(policy) as provider, claude(provider) as client:
        plain = client.messages.create(model="m", max_tokens=9, messages=USER)
        assert plain.content[0].text == TEXT
        assert plain.stop_reason == "end_turn"
        assert plain.usage.output_tokens > 0
        tools = client.messages.create(model="m", max_tokens=9, messages=USER, tools=TOOLS)
        assert [block.type for block in tools.content] == ["text", "tool_use", "tool_use"]
        assert tools.content[1].input == ARGUMENTS
        assert tools.stop_reason == "tool_use"
        result = [{"type": "tool_result", "tool_use_id": tools.content[1].id, "content": "r"}]
        turn = [{"role": "assistant", "content": tools.content}, {"role": "user", "content": result}]
        last = client.messages.create(model="m", max_tokens=9, messages=[*USER, *turn], tools=TOOLS)
        assert last.content[0].text == "the result was r"


def test_anthropic_streams_the_same() -> None:
    with FakeProvider(policy) as provider, claude(provider) as client:
        with client.messages.stream(model="m", max_tokens=9, messages=USER, tools=TOOLS) as stream:
            final = stream.get_final_message()
        assert final.content[0].text == TEXT
        assert final.content[1].input == ARGUMENTS
        assert final.content[2].input == {}
        assert final.stop_reason == "tool_use"


def test_async_clients() -> None:
    async def main(provider: FakeProvider) -> tuple[str, str]:
        async with openai.AsyncOpenAI(api_key="k", base_url=provider.url + "/v1") as client:
            one = await client.chat.completions.create(model="m", messages=USER)
        async with anthropic.AsyncAnthropic(api_key="k", base_url=provider.url) as other:
            two = await other.messages.create(model="m", max_tokens=9, messages=USER)
        return one.choices[0].message.content, two.content[0].text

    with FakeProvider(policy) as provider:
        assert asyncio.run(main(provider)) == (TEXT, TEXT)


@pytest.mark.parametrize(
    ("status", "name"), [(401, "AuthenticationError"), (429, "RateLimitError"), (503, "")]
)
def test_error_answers_raise_the_sdks_own_errors(status: int, name: str) -> None:
    with FakeProvider(policy, faults=lambda n, request: Fault(status=status)) as provider:
        with chat(provider) as client, pytest.raises(openai.APIStatusError, match="made-up fault") as caught:
            client.chat.completions.create(model="m", messages=USER)
        assert type(caught.value).__name__ == (name or "InternalServerError")
        with (
            claude(provider) as other,
            pytest.raises(anthropic.APIStatusError, match="made-up fault") as seen,
        ):
            other.messages.create(model="m", max_tokens=9, messages=USER)
        assert not name or type(seen.value).__name__ == name


def test_an_overload_is_529() -> None:
    with FakeProvider(policy, faults={0: Fault(status=529)}) as provider, claude(provider) as client:
        with pytest.raises(anthropic.APIStatusError) as caught:
            client.messages.create(model="m", max_tokens=9, messages=USER)
        assert caught.value.status_code == 529
        assert caught.value.body["error"]["type"] == "overloaded_error"


def test_dropped_and_cut_connections() -> None:
    with FakeProvider(policy, faults={0: Fault(drop=True), 1: Fault(cut_after=20)}) as provider:
        with chat(provider) as client:
            for _ in range(2):
                with pytest.raises(openai.APIConnectionError):
                    client.chat.completions.create(model="m", messages=USER)
            assert client.chat.completions.create(model="m", messages=USER).choices[0].message.content == TEXT
        assert len(provider.requests) == 3


def test_it_keeps_what_it_saw_and_ends_without_a_trace() -> None:
    before = set(threading.enumerate())
    with FakeProvider(policy) as provider, chat(provider) as client:
        client.chat.completions.create(model="m", messages=USER, extra_headers={"x-secret": "s"})
        (seen,) = provider.requests
        assert seen.path == "/v1/chat/completions"
        assert ("authorization", "Bearer k") in seen.headers
        assert ("x-secret", "s") in seen.headers
    assert {t for t in threading.enumerate() if t.name != "AnyIO worker thread"} <= before
    with pytest.raises(ParameterError, match="not running"):
        _ = provider.url


def test_settings_are_checked() -> None:
    with pytest.raises(ParameterError, match="br"):
        FakeProvider(policy, encoding="br")
