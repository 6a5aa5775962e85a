"""Plain HTTP services and MCP over HTTP as tools, led through the proxy beside the model's provider."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.cassette import Request, Response
from afnb.core.steps import run_from_cassette
from afnb.errors import ParameterError
from afnb.io.answers import Call
from afnb.io.conversation import Conversation
from afnb.io.simulated import SimulatedUpstream
from afnb.io.upstream import HttpTool, RoutedUpstream

AGENT = """
import json, os, urllib.request
def ask(url, value=None):
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return {"error": json.load(error)["error"]["message"]}
messages = [{"role": "user", "content": "refund order 7"}]
tools = [{"type": "function", "function": {"name": n, "parameters": {}}} for n in ("look", "pay")]
while True:
    body = {"model": "m", "messages": messages, "tools": tools}
    message = ask(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        break
    call = message["tool_calls"][0]
    if os.environ.get("MCP"):
        params = {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
        rpc = {"jsonrpc": "2.0", "id": len(messages), "method": "tools/call", "params": params}
        found = ask(os.environ["CRM_URL"] + "/mcp", rpc)
        found = json.loads(found["result"]["content"][0]["text"]) if "result" in found else found
    elif call["function"]["name"] == "look":
        found = ask(os.environ["CRM_URL"] + "/orders/7")
    else:
        found = ask(os.environ["CRM_URL"] + "/refunds", {"order": 7})
    messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(found)})
print(message["content"])
"""


def policy(talk: Conversation, rng: random.Random) -> Any:
    if not talk.called("look"):
        return Call("look", {"order": 7})
    if talk.result_of("look").get("state") == "lost" and not talk.called("pay"):
        return Call("pay", {"order": 7})
    return f"Paid: {talk.result_of('pay')}" if talk.called("pay") else "No refund is due."


def declines(talk: Conversation, rng: random.Random) -> Any:
    return policy(talk, rng) if not talk.called("look") else "No refund is due."


class Crm:
    """A service that notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: Request) -> Response:
        found: Any = {"order": 7, "state": "lost"}
        if request.path == "/mcp":
            message = json.loads(request.body)
            name = message["params"]["name"]
            self.asked.append(name)
            found = found if name == "look" else {"status": "paid"}
            text = {"content": [{"type": "text", "text": json.dumps(found)}]}
            found = {"jsonrpc": "2.0", "id": message["id"], "result": text}
        else:
            self.asked.append(f"{request.method} {request.path}")
            found = found if request.method == "GET" else {"status": "paid"}
        return Response(200, (("content-type", "application/json"),), json.dumps(found).encode())


def agent(mcp: bool) -> afnb.Command:
    names = {"OPENAI_BASE_URL": "model", "CRM_URL": "crm"}
    env = {"MCP": "1"} if mcp else {}
    return afnb.Command([sys.executable, "-c", AGENT], base_url_env=names, env=env, timeout_s=60)


@pytest.mark.parametrize("mcp", [False, True])
def test_the_whole_way(tmp_path: Path, mcp: bool) -> None:
    crm = Crm()
    upstream = {"model": SimulatedUpstream(declines), "crm": HttpTool(crm)}
    done = afnb.record(agent(mcp), upstream, tmp_path / "bad.json")
    assert done.agent.stdout == "No refund is due.\n", done.agent
    assert crm.asked == (["look"] if mcp else ["GET /orders/7"])
    steps = run_from_cassette(done.cassette).steps
    name, place = ("look", 1) if mcp else ("crm", 2)
    assert (steps[place].kind, steps[place].name, steps[place].exchange) == ("tool", name, 1), steps
    assert steps[place].outputs == {"order": 7, "state": "lost"}
    crm.asked.clear()
    assert afnb.replay(done.path, agent=agent(mcp)).faithful
    assert crm.asked == []
    options: dict[str, Any] = {
        "agent": agent(mcp),
        "upstream": {**upstream, "model": SimulatedUpstream(policy)},
        "oracle": lambda run: "'status': 'paid'" in run.stdout,
        "n_jobs": 2,
        "progress": False,
    }
    allowed = ["look", "pay"] if not mcp else ["pay"]
    changed = afnb.what_if(
        done.cassette,
        afnb.Edit(place, {"order": 7, "state": "back"}),
        allow_tools=[*allowed, "crm"],
        **options,
    )
    assert (changed.verdict, changed.label) == ("not_recovered", "verified"), changed.to_text()
    assert set(crm.asked) == ({"pay"} if mcp else {"POST /refunds"}), "what was looked up is on the tape"
    crm.asked.clear()
    if mcp:
        return
    held = afnb.what_if(
        done.cassette,
        afnb.Resample(steps[-1].idx),
        allow_tools=allowed,
        consensus=afnb.MajorityConsensus(1),
        **options,
    )
    assert {r.reason for r in held.results if r.role == "patch"} == {"write_refused"}
    assert "--allow-tools crm" in str(held.results[0].detail)
    assert crm.asked == []


def test_only_one_of_several_upstreams_can_be_a_tool() -> None:
    both = RoutedUpstream({"model": ["a"], "crm": HttpTool(["b"], "read")})
    assert both.tools == {"crm": "read"}
    assert both.for_replay(0, "patch", 1).tools == {"crm": "read"}
    with pytest.raises(ParameterError, match="expected one of read"):
        HttpTool(["b"], "reads")
