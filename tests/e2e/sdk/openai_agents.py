"""openai-agents: responses by default, chat completions on request."""

from __future__ import annotations

import asyncio
import sys

from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled
from task import SYSTEM, TASK, pack, weather

set_tracing_disabled(True)  # else it sends its traces to OpenAI


def run(_client: object = None, stream: bool = False) -> str:
    return asyncio.run(arun(stream))


async def arun(stream: bool = False) -> str:
    tools = [function_tool(weather), function_tool(pack)]
    agent = Agent(name="packer", instructions=SYSTEM, model="gpt-test", tools=tools)
    if stream:
        streamed = Runner.run_streamed(agent, TASK)
        async for _event in streamed.stream_events():
            pass
        return str(streamed.final_output)
    return str((await Runner.run(agent, TASK)).final_output)


if __name__ == "__main__":
    set_default_openai_api("chat_completions" if "chat" in sys.argv else "responses")
    print(run(None, "stream" in sys.argv))
