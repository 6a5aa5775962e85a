"""smolagents: its tool-calling agent, whose last call is ``final_answer``."""

from __future__ import annotations

import os
import sys
from typing import Any

from smolagents import LogLevel, OpenAIModel, ToolCallingAgent, tool
from task import TASK, pack, weather


def run(model: Any, stream: bool = False) -> str:
    agent = ToolCallingAgent(
        [tool(weather), tool(pack)], model, stream_outputs=stream, verbosity_level=LogLevel.OFF
    )
    return str(agent.run(TASK))


if __name__ == "__main__":
    print(run(OpenAIModel("gpt-test", api_key=os.environ["OPENAI_API_KEY"]), "stream" in sys.argv))
