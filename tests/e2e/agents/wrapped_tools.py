"""An agent of the standard library alone, with one tool that reads and one that writes, both wrapped."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable
from typing import Any

import afnb

WORLD = os.environ.get("WORLD", "")
"""A file in which the tools leave a line each time they really run."""


def note(words: str, world: str = "") -> None:
    with open(world or WORLD, "a", encoding="utf-8") as file:
        file.write(words + "\n")


@afnb.tool(effect="read")
def look_up(order: str) -> dict[str, Any]:
    note(f"look_up {order}")
    return {"order": order, "paid": 129, "state": "lost"}


@afnb.tool(effect="write", stub={"status": "pretended"} if os.environ.get("STUB") else None)
def refund(order: str, amount: int) -> dict[str, Any]:
    note(f"refund {order} {amount}")
    return {"status": "paid", "amount": amount}


TOOLS = {"look_up": look_up, "refund": refund}


def run(post: Callable[[bytes], dict[str, Any]]) -> str:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Dana wants her money back for order 8841."}
    ]
    tools = [{"type": "function", "function": {"name": n, "parameters": {"type": "object"}}} for n in TOOLS]
    for _ in range(6):
        answer = post(json.dumps({"model": "m", "messages": messages, "tools": tools}).encode())
        message = answer["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        for call in message["tool_calls"]:
            function = call["function"]
            try:
                found = TOOLS[function["name"]](**json.loads(function["arguments"]))
            except afnb.ToolRefused as refused:
                found = {"error": str(refused)}
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(found)})
    return "gave up"


def over_http(body: bytes) -> dict[str, Any]:
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


if __name__ == "__main__":
    print(run(over_http))
