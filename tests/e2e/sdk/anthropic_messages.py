"""anthropic, messages."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from anthropic import Anthropic, AsyncAnthropic
from task import SCHEMAS, SYSTEM, TASK, TOOLS

OFFERED = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]


def asked(messages: list[Any]) -> dict[str, Any]:
    ask = {"model": "claude-test", "max_tokens": 500, "system": SYSTEM}
    return {**ask, "messages": messages, "tools": OFFERED}


def go_on(messages: list[Any], said: Any) -> str | None:
    calls = [block for block in said.content if block.type == "tool_use"]
    if not calls:
        return "".join(block.text for block in said.content)
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": TOOLS[call.name](**call.input)}
        for call in calls
    ]
    messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": results}]
    return None


def run(client: Any, stream: bool = False) -> str:
    messages: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        if stream:
            with client.messages.stream(**asked(messages)) as events:
                said = events.get_final_message()
        else:
            said = client.messages.create(**asked(messages))
        answer = go_on(messages, said)
        if answer is not None:
            return answer


async def arun(client: Any, stream: bool = False) -> str:
    messages: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        if stream:
            async with client.messages.stream(**asked(messages)) as events:
                said = await events.get_final_message()
        else:
            said = await client.messages.create(**asked(messages))
        answer = go_on(messages, said)
        if answer is not None:
            return answer


if __name__ == "__main__":
    stream = "stream" in sys.argv
    print(asyncio.run(arun(AsyncAnthropic(), stream)) if "async" in sys.argv else run(Anthropic(), stream))
