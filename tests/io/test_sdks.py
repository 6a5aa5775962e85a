"""The official SDKs on a session: through the transport and over loopback, plain and streamed."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from afnb.core.arm import AnswerPatch, Arm, ResultPatch
from afnb.core.cassette import Cassette, Exchange, Request, Response
from afnb.core.providers import conversation_key, tool_results, write_answer
from afnb.core.tape import Tape
from afnb.io.answers import Call, Say
from afnb.io.conversation import Conversation
from afnb.io.serve import Session
from afnb.io.server import LoopbackServer
from afnb.io.transport import async_client, client
from afnb.testing.provider import FakeProvider, Fault

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")
httpx2 = pytest.importorskip("httpx2")

WAYS = ("transport", "async transport", "server", "async server")
CASES = [(sdk, way, stream) for sdk in ("openai", "anthropic") for way in WAYS for stream in (False, True)]
ORDER = {"id": 7}
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


def policy(talk: Conversation, rng: Any) -> Any:
    """Look the order up, then say what the tool said."""
    if not talk.called("look"):
        return Say("one moment", (Call("look", ORDER),))
    return f"the order is {talk.result_of('look')}\u2028\U0001f600"


def openai_agent(base_url: str, **options: Any) -> Callable[[bool], str]:
    """An agent with one tool, on the synchronous SDK."""
    sdk = openai.OpenAI(api_key="SECRET", base_url=base_url + "/v1", **options)
    tools = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]

    def run(stream: bool) -> str:
        messages: list[Any] = [{"role": "user", "content": "where is order 7?"}]
        while True:
            if stream:
                with sdk.chat.completions.stream(model="m", messages=messages, tools=tools) as events:
                    message = events.get_final_completion().choices[0].message
            else:
                done = sdk.chat.completions.create(model="m", messages=messages, tools=tools)
                message = done.choices[0].message
            if not message.tool_calls:
                return str(message.content)
            messages.append(plain_message(message))
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": looked()} for call in message.tool_calls
            ]

    return run


def async_openai_agent(base_url: str, **options: Any) -> Callable[[bool], Any]:
    sdk = openai.AsyncOpenAI(api_key="SECRET", base_url=base_url + "/v1", **options)
    tools = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]

    async def run(stream: bool) -> str:
        messages: list[Any] = [{"role": "user", "content": "where is order 7?"}]
        async with sdk:
            while True:
                if stream:
                    async with sdk.chat.completions.stream(
                        model="m", messages=messages, tools=tools
                    ) as events:
                        message = (await events.get_final_completion()).choices[0].message
                else:
                    done = await sdk.chat.completions.create(model="m", messages=messages, tools=tools)
                    message = done.choices[0].message
                if not message.tool_calls:
                    return str(message.content)
                messages.append(plain_message(message))
                messages += [
                    {"role": "tool", "tool_call_id": call.id, "content": looked()}
                    for call in message.tool_calls
                ]

    return run


def plain_message(message: Any) -> dict[str, Any]:
    calls = [
        {
            "id": c.id,
            "type": "function",
            "function": {"name": c.function.name, "arguments": c.function.arguments},
        }
        for c in message.tool_calls
    ]
    return {"role": "assistant", "content": message.content, "tool_calls": calls}


def anthropic_agent(base_url: str, **options: Any) -> Callable[[bool], str]:
    sdk = anthropic.Anthropic(api_key="SECRET", base_url=base_url, **options)
    fixed: dict[str, Any] = {
        "model": "m",
        "max_tokens": 99,
        "tools": [{"name": "look", "input_schema": SCHEMA}],
    }

    def run(stream: bool) -> str:
        messages: list[Any] = [{"role": "user", "content": "where is order 7?"}]
        while True:
            if stream:
                with sdk.messages.stream(messages=messages, **fixed) as events:
                    message = events.get_final_message()
            else:
                message = sdk.messages.create(messages=messages, **fixed)
            if message.stop_reason != "tool_use":
                return "".join(block.text for block in message.content if block.type == "text")
            messages += answered(message)

    return run


def async_anthropic_agent(base_url: str, **options: Any) -> Callable[[bool], Any]:
    sdk = anthropic.AsyncAnthropic(api_key="SECRET", base_url=base_url, **options)
    fixed: dict[str, Any] = {
        "model": "m",
        "max_tokens": 99,
        "tools": [{"name": "look", "input_schema": SCHEMA}],
    }

    async def run(stream: bool) -> str:
        messages: list[Any] = [{"role": "user", "content": "where is order 7?"}]
        async with sdk:
            while True:
                if stream:
                    async with sdk.messages.stream(messages=messages, **fixed) as events:
                        message = await events.get_final_message()
                else:
                    message = await sdk.messages.create(messages=messages, **fixed)
                if message.stop_reason != "tool_use":
                    return "".join(block.text for block in message.content if block.type == "text")
                messages += answered(message)

    return run


def answered(message: Any) -> list[dict[str, Any]]:
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": looked()}
        for block in message.content
        if block.type == "tool_use"
    ]
    content = [block.model_dump(exclude_none=True) for block in message.content]
    return [{"role": "assistant", "content": content}, {"role": "user", "content": results}]


def looked() -> str:
    return json.dumps({"state": "sent"})


AGENTS = {
    ("openai", False): openai_agent,
    ("openai", True): async_openai_agent,
    ("anthropic", False): anthropic_agent,
    ("anthropic", True): async_anthropic_agent,
}


def run(sdk: str, way: str, stream: bool, session: Session, upstream: Any = None) -> str:
    """One run of the agent; its answer."""
    asynchronous = way.startswith("async")
    make = AGENTS[sdk, asynchronous]
    if way.endswith("server"):
        with LoopbackServer(session, upstream) as server:
            if asynchronous:
                return str(asyncio.run(make(server.base_url)(stream)))
            with httpx2.Client() as http:
                return str(make(server.base_url, http_client=http)(stream))
    base = "http://provider.invalid"
    if not asynchronous:
        with client(session, upstream, module="httpx2") as http:
            return str(make(base, http_client=http)(stream))

    async def inside() -> str:
        return str(await make(base, http_client=async_client(session, upstream, module="httpx2"))(stream))

    return asyncio.run(inside())


@pytest.mark.parametrize(("sdk", "way", "stream"), CASES)
def test_record_replay_and_branch(sdk: str, way: str, stream: bool) -> None:
    session = Session(id="rec")
    with FakeProvider(policy, encoding="gzip") as provider:
        answer = run(sdk, way, stream, session, provider.url)
        assert len(provider.requests) == 2
        assert any("SECRET" in value for _, value in provider.requests[0].headers)
    assert answer == "the order is {'state': 'sent'}\u2028\U0001f600"
    cassette = session.cassette()
    report = session.report()
    assert b"SECRET" not in pickle.dumps(cassette)
    assert (report.live, report.incomplete, report.abandoned) == (2, 0, 0)
    assert report.tokens.unknown == (2 if stream and sdk == "openai" else 0), (
        "a chat stream has usage if asked"
    )
    assert [e.response.chunks is not None for e in cassette.exchanges] == [stream, stream]

    tape = Tape(cassette)
    replay = Session(tape, live=False)
    assert run(sdk, way, stream, replay) == answer
    assert (replay.report().served, replay.report().missed, replay.report().incomplete) == (2, 0, 0)

    last = cassette.exchanges[1]
    key = conversation_key(last.request)
    patched = write_answer(last.request, last.response, {"text": "patched \u2028 text"})
    branch = Session(tape, Arm("patch", (AnswerPatch(2, 1, 1, key, patched),), 1))
    assert run(sdk, way, stream, branch) == "patched \u2028 text"
    assert (branch.report().live, branch.report().patches_applied) == (0, (2,))

    call_id = tool_results(last.request)[0][0]
    arm = Arm("result", (ResultPatch(1, 0, call_id, 0, "look", {"state": "lost"}),), 0)
    branch = Session(tape, arm)
    with FakeProvider(policy) as provider:
        assert run(sdk, way, stream, branch, provider.url) == "the order is {'state': 'lost'}\u2028\U0001f600"
        assert len(provider.requests) == 1, "up to the branch point the provider sees nothing"
    assert branch.report().patches_applied == (1,)


@pytest.mark.parametrize(("sdk", "way"), [(sdk, way) for sdk in ("openai", "anthropic") for way in WAYS])
def test_a_miss_is_asked_once_and_says_what_differed(sdk: str, way: str) -> None:
    session = Session()
    with FakeProvider(policy) as provider:
        run(sdk, way, False, session, provider.url)
    first = session.cassette().exchanges[0]
    other = Request(
        first.request.method, first.request.path, (), first.request.body.replace(b"order 7", b"order 8")
    )
    tape = Tape(Cassette("c", (Exchange(0, other, first.response),)))
    replay = Session(tape, live=False)
    error = {"openai": openai, "anthropic": anthropic}[sdk].APIStatusError
    with pytest.raises(error) as caught:
        run(sdk, way, False, replay)
    assert "messages[0].content" in str(caught.value)
    assert (replay.report().requests, replay.report().missed) == (1, 1)


@pytest.mark.parametrize(("sdk", "way"), [(sdk, way) for sdk in ("openai", "anthropic") for way in WAYS])
def test_a_retry_is_recorded_and_replays_without_its_delay(
    sdk: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session()
    busy = Fault(status=429, headers=(("retry-after-ms", "1"),))
    with FakeProvider(policy, faults={0: busy}) as provider:
        answer = run(sdk, way, False, session, provider.url)
    assert [e.response.status for e in session.cassette().exchanges] == [429, 200, 200]
    assert session.cassette().exchanges[1].attempt_of == 0
    late = Response(429, (("content-type", "application/json"), ("retry-after", "30")), b"{}")
    tape = Tape(session.cassette().with_response(0, late))
    waited: list[float] = []

    async def waits(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setattr("anyio.sleep", waits)
    replay = Session(tape, live=False)
    assert run(sdk, way, False, replay) == answer
    assert replay.report().served == 3
    assert [seconds < 1 for seconds in waited] == [True]
