"""openai, chat completions."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from openai import AsyncOpenAI, OpenAI
from task import SCHEMAS, SYSTEM, TASK, TOOLS

OFFERED = [
    {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()
]


def start() -> list[Any]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]


def go_on(messages: list[Any], said: Any) -> str | None:
    messages.append(
        said.model_dump(exclude_none=True, exclude={"parsed"}) if hasattr(said, "model_dump") else said
    )
    for call in said.tool_calls or []:
        result = TOOLS[call.function.name](**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return None if said.tool_calls else str(said.content)


def run(client: Any, stream: bool = False) -> str:
    messages = start()
    while True:
        ask: dict[str, Any] = {"model": "gpt-test", "messages": messages, "tools": OFFERED}
        if stream:
            with client.chat.completions.stream(**ask) as events:
                said = events.get_final_completion().choices[0].message
        else:
            said = client.chat.completions.create(**ask).choices[0].message
        answer = go_on(messages, said)
        if answer is not None:
            return answer


async def arun(client: Any, stream: bool = False) -> str:
    messages = start()
    while True:
        ask: dict[str, Any] = {"model": "gpt-test", "messages": messages, "tools": OFFERED}
        if stream:
            async with client.chat.completions.stream(**ask) as events:
                said = (await events.get_final_completion()).choices[0].message
        else:
            said = (await client.chat.completions.create(**ask)).choices[0].message
        answer = go_on(messages, said)
        if answer is not None:
            return answer


if __name__ == "__main__":
    stream = "stream" in sys.argv
    print(asyncio.run(arun(AsyncOpenAI(), stream)) if "async" in sys.argv else run(OpenAI(), stream))
