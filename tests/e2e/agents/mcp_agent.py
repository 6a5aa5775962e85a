"""An agent whose tools are those of an MCP server over stdio, started through ``afnb mcp``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from wrapped_tools import over_http

SERVER = str(Path(__file__).parent / "mcp_server.py")
RELAY = [sys.executable, "-m", "afnb", "mcp", "--", sys.executable, SERVER]


class Client:
    """As much of an MCP client as it takes."""

    def __init__(self) -> None:
        self.server = subprocess.Popen(RELAY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.count = 0
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t"})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = self.ask("tools/list")["result"]["tools"]

    def send(self, message: dict[str, Any]) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(message) + "\n")
        self.server.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.count += 1
        self.send({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params})
        assert self.server.stdout is not None
        found: dict[str, Any] = json.loads(self.server.stdout.readline())
        assert found["id"] == self.count
        return found

    def call(self, name: str, arguments: Any) -> str:
        said = self.ask("tools/call", name=name, arguments=arguments)
        if "error" in said:
            return f"error: {said['error']['message']}"
        return str(said["result"]["content"][0]["text"])

    def close(self) -> int:
        assert self.server.stdin is not None
        self.server.stdin.close()
        return self.server.wait(timeout=30)


def main() -> int:
    client = Client()
    tools = [
        {
            "type": "function",
            "function": {"name": f"orders__{tool['name']}", "parameters": tool["inputSchema"]},
        }
        for tool in client.tools
    ]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Dana wants her money back for order 8841."}
    ]
    for _ in range(6):
        body = json.dumps({"model": "m", "messages": messages, "tools": tools}).encode()
        message = over_http(body)["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            print(message["content"])
            break
        for call in message["tool_calls"]:
            function = call["function"]
            name = function["name"].removeprefix("orders__")
            found = client.call(name, json.loads(function["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": found})
    return client.close()


if __name__ == "__main__":
    os.environ.setdefault("WORLD", os.devnull)
    sys.exit(main())
