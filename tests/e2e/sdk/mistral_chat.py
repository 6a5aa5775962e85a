"""mistralai: reads no variable by itself, so the base URL is handed over."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from mistralai.client import Mistral
from task import SCHEMAS, SYSTEM, TASK, TOOLS

OFFERED = [
    {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()
]


def asked(messages: list[Any]) -> dict[str, Any]:
    return {"model": "mistral-test", "messages": messages, "tools": OFFERED}


def start() -> list[Any]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]


def go_on(messages: list[Any], text: str, calls: list[Any]) -> str | None:
    if not calls:
        return text
    messages.append({"role": "assistant", "content": text, "tool_calls": [c.model_dump() for c in calls]})
    for call in calls:
        given = call.function.arguments
        result = TOOLS[call.function.name](**(json.loads(given) if isinstance(given, str) else given))
        messages.append(
            {"role": "tool", "name": call.function.name, "tool_call_id": call.id, "content": result}
        )
    return None


def joined(chunks: list[Any]) -> tuple[str, list[Any]]:
    text, calls = "", {}
    for chunk in chunks:
        delta = chunk.data.choices[0].delta if chunk.data.choices else None
        text += (delta.content or "") if delta else ""
        for call in (delta.tool_calls or []) if delta else []:
            if call.index in calls:
                calls[call.index].function.arguments += call.function.arguments
            else:
                calls[call.index] = call
    return text, list(calls.values())


def run(client: Any, stream: bool = False) -> str:
    messages = start()
    while True:
        if stream:
            with client.chat.stream(**asked(messages)) as events:
                text, calls = joined(list(events))
        else:
            said = client.chat.complete(**asked(messages)).choices[0].message
            text, calls = said.content or "", said.tool_calls or []
        answer = go_on(messages, text, calls)
        if answer is not None:
            return answer


async def arun(client: Any, stream: bool = False) -> str:
    messages = start()
    while True:
        if stream:
            async with await client.chat.stream_async(**asked(messages)) as events:
                text, calls = joined([event async for event in events])
        else:
            said = (await client.chat.complete_async(**asked(messages))).choices[0].message
            text, calls = said.content or "", said.tool_calls or []
        answer = go_on(messages, text, calls)
        if answer is not None:
            return answer


if __name__ == "__main__":
    made = Mistral(api_key=os.environ["MISTRAL_API_KEY"], server_url=os.environ["MISTRAL_BASE_URL"])
    stream = "stream" in sys.argv
    print(asyncio.run(arun(made, stream)) if "async" in sys.argv else run(made, stream))
