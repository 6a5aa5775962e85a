"""litellm: httpx for calls, aiohttp for async ones; OpenAI's and Anthropic's shapes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches its price list
import litellm
from task import SCHEMAS, SYSTEM, TASK, TOOLS

litellm.suppress_debug_info = True
OFFERED = [
    {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()
]


def start() -> list[Any]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]


def go_on(messages: list[Any], said: Any) -> str | None:
    messages.append(said.model_dump(exclude_none=True))
    for call in said.tool_calls or []:
        result = TOOLS[call.function.name](**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return None if said.tool_calls else str(said.content)


def run(client: Any = None, stream: bool = False, model: str = "openai/gpt-test") -> str:
    messages = start()
    while True:
        said = litellm.completion(model, messages, tools=OFFERED, stream=stream, client=client)
        if stream:
            said = litellm.stream_chunk_builder(list(said), messages=messages)
        answer = go_on(messages, said.choices[0].message)
        if answer is not None:
            return answer


async def arun(client: Any = None, stream: bool = False, model: str = "openai/gpt-test") -> str:
    messages = start()
    while True:
        said = await litellm.acompletion(model, messages, tools=OFFERED, stream=stream, client=client)
        if stream:
            said = litellm.stream_chunk_builder([chunk async for chunk in said], messages=messages)
        answer = go_on(messages, said.choices[0].message)
        if answer is not None:
            return answer


if __name__ == "__main__":
    stream = "stream" in sys.argv
    name = "anthropic/claude-test" if "anthropic" in sys.argv else "openai/gpt-test"
    if "async" in sys.argv:
        print(asyncio.run(arun(None, stream, name)))
    else:
        print(run(None, stream, name))
