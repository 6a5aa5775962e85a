"""pydantic-ai over OpenAI's two shapes."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from pydantic_ai import Agent
from task import SYSTEM, TASK, pack, weather


def run(model: Any, stream: bool = False) -> str:
    return asyncio.run(arun(model, stream))


async def arun(model: Any, stream: bool = False) -> str:
    agent = Agent(model, instructions=SYSTEM, tools=[weather, pack])
    return str((await agent.run(TASK, event_stream_handler=drain if stream else None)).output)


async def drain(_context: Any, events: Any) -> None:
    """With a handler of its events, every answer is asked for as a stream."""
    async for _event in events:
        pass


if __name__ == "__main__":
    shape = "openai-chat:gpt-test" if "chat" in sys.argv else "openai:gpt-test"
    print(run(shape, "stream" in sys.argv))
