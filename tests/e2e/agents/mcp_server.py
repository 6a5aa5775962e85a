"""A small MCP server over stdio, of the standard library alone: one tool that reads, one that writes."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

WORLD = os.environ.get("WORLD", "")
TOOLS = [
    {"name": "look_up", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "refund", "inputSchema": {"type": "object"}},
]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {"result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}}
    if method == "tools/list":
        return {"result": {"tools": TOOLS}}
    name, arguments = params["name"], params["arguments"]
    if name not in ("look_up", "refund"):
        return {"error": {"code": -32602, "message": f"no tool {name}"}}
    with open(WORLD, "a", encoding="utf-8") as file:
        file.write(f"{name} {arguments['order']}\n")
    found = {"order": arguments["order"], "state": "lost"} if name == "look_up" else {"status": "paid"}
    return {"result": {"content": [{"type": "text", "text": json.dumps(found)}], "isError": False}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        said = answer(message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
sys.exit(int(os.environ.get("SERVER_STATUS", "0")))
