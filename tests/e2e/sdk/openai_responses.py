"""openai, responses."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from openai import AsyncOpenAI, OpenAI
from task import SCHEMAS, SYSTEM, TASK, TOOLS

OFFERED = [
    {"type": "function", "name": name, "parameters": schema, "strict": False}
    for name, schema in SCHEMAS.items()
]


def go_on(items: list[Any], said: Any) -> str | None:
    calls = [item for item in said.output if item.type == "function_call"]
    items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in said.output]
    for call in calls:
        result = TOOLS[call.name](**json.loads(call.arguments))
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
    return None if calls else str(said.output_text)


def run(client: Any, stream: bool = False) -> str:
    items: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        ask: dict[str, Any] = {"model": "gpt-test", "instructions": SYSTEM, "input": items, "tools": OFFERED}
        if stream:
            with client.responses.stream(**ask) as events:
                said = events.get_final_response()
        else:
            said = client.responses.create(**ask)
        answer = go_on(items, said)
        if answer is not None:
            return answer


async def arun(client: Any, stream: bool = False) -> str:
    items: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        ask: dict[str, Any] = {"model": "gpt-test", "instructions": SYSTEM, "input": items, "tools": OFFERED}
        if stream:
            async with client.responses.stream(**ask) as events:
                said = await events.get_final_response()
        else:
            said = await client.responses.create(**ask)
        answer = go_on(items, said)
        if answer is not None:
            return answer


if __name__ == "__main__":
    stream = "stream" in sys.argv
    print(asyncio.run(arun(AsyncOpenAI(), stream)) if "async" in sys.argv else run(OpenAI(), stream))
