"""A real agent on the openai SDK: a tool loop; its provider is whatever OPENAI_BASE_URL says."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from openai import OpenAI
from tools import TASK, TOOLS


def run(client: Any, stream: bool = False) -> str:
    messages: list[Any] = [
        {"role": "system", "content": "You are a support agent."},
        {"role": "user", "content": TASK},
    ]
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        for name in TOOLS
    ]
    for _ in range(10):
        answer = client.chat.completions.create(model="gpt-test", messages=messages, tools=tools)
        said = answer.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        if not said.tool_calls:
            return said.content or ""
        for call in said.tool_calls:
            result = TOOLS[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
    return "gave up"


if __name__ == "__main__":
    print(run(OpenAI(api_key=os.environ.get("OPENAI_API_KEY", "sk-test"), max_retries=0)))
