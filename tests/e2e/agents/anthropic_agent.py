"""A real agent on the anthropic SDK: a tool loop over streamed messages."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from anthropic import Anthropic
from tools import TASK, TOOLS


def run(client: Any) -> str:
    messages: list[Any] = [{"role": "user", "content": TASK}]
    tools = [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in TOOLS]
    for _ in range(10):
        with client.messages.stream(
            model="claude-test",
            max_tokens=500,
            system="You are a support agent.",
            messages=messages,
            tools=tools,
        ) as stream:
            answer = stream.get_final_message()
        blocks = [
            {"type": "text", "text": block.text}
            if block.type == "text"
            else {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
            for block in answer.content
        ]
        messages.append({"role": "assistant", "content": blocks})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in answer.content if block.type == "text")
        results = [
            {"type": "tool_result", "tool_use_id": c.id, "content": json.dumps(TOOLS[c.name](**c.input))}
            for c in calls
        ]
        messages.append({"role": "user", "content": results})
    return "gave up"


if __name__ == "__main__":
    print(run(Anthropic(api_key=os.environ.get("ANTHROPIC_API_KEY", "sk-ant-test"), max_retries=0)))
