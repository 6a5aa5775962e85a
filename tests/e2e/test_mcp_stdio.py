"""An MCP server over stdio behind ``afnb mcp``: recorded, replayed, changed at the source, held back."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.steps import run_from_cassette
from afnb.core.tape import Tape
from afnb.io.answers import Call
from afnb.io.conversation import Conversation
from afnb.io.mcprelay import McpRelay, run_relay
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream

AGENT = Path(__file__).parent / "agents" / "mcp_agent.py"
SERVER = Path(__file__).parent / "agents" / "mcp_server.py"


def policy(talk: Conversation, rng: random.Random) -> Any:
    if not talk.called("orders__look_up"):
        return Call("orders__look_up", {"order": "8841"})
    found = talk.result_of("orders__look_up")
    if isinstance(found, dict) and found.get("state") == "lost" and not talk.called("orders__refund"):
        return Call("orders__refund", {"order": "8841"})
    refund = talk.result_of("orders__refund")
    return f"Refund: {refund['status']}." if isinstance(refund, dict) else f"Nothing was done: {refund}"


def declines(talk: Conversation, rng: random.Random) -> Any:
    return policy(talk, rng) if not talk.called("orders__look_up") else "No refund is due."


def agent(world: Path) -> afnb.Command:
    return afnb.Command([sys.executable, str(AGENT)], env={"WORLD": str(world)}, timeout_s=60)


def test_the_whole_way(tmp_path: Path) -> None:
    world = tmp_path / "world.txt"
    done = afnb.record(agent(world), SimulatedUpstream(declines), tmp_path / "bad.json")
    assert (done.agent.status, done.agent.stdout) == ("finished", "No refund is due.\n"), done.agent
    assert world.read_text() == "look_up 8841\n"
    kept = done.cassette.tool_exchanges
    assert [(t.name, t.arguments, t.effect, t.attrs["over"]) for t in kept] == [
        ("look_up", {"order": "8841"}, "read", "mcp")
    ]
    steps = run_from_cassette(done.cassette).steps
    assert [(s.kind, s.name) for s in steps] == [("llm", "llm"), ("tool", "orders__look_up"), ("llm", "llm")]
    world.unlink()
    again = afnb.replay(done.path, agent=agent(world))
    assert (again.faithful, again.report.tools_served) == (True, 1), again.to_text()
    options: dict[str, Any] = {
        "agent": agent(world),
        "upstream": SimulatedUpstream(policy),
        "oracle": lambda run: "Refund: " in run.stdout,
        "allow_tools": ["orders__refund"],
        "n_jobs": 2,
        "progress": False,
    }
    changed = afnb.what_if(done.cassette, afnb.Edit(1, {"order": "8841", "state": "back"}), **options)
    assert (changed.verdict, changed.label) == ("not_recovered", "verified"), changed.to_text()
    assert set(world.read_text().split("\n")) == {"refund 8841", ""}, (
        "the control arm alone refunds; nobody looks up"
    )
    world.unlink()
    refused = afnb.what_if(
        done.cassette,
        afnb.Resample(2),
        consensus=afnb.MajorityConsensus(1),
        **{**options, "allow_tools": OFFERED},
    )
    assert {r.reason for r in refused.results if r.role == "patch"} == {"write_refused"}
    assert not world.exists()


OFFERED = ["orders__look_up"]


def relayed(session: Session, server: Any, **options: Any) -> tuple[McpRelay, list[Any]]:
    """A relay to a server that is a function of one message."""
    seen: list[Any] = []

    def to_server(line: bytes) -> None:
        for answer in server(json.loads(line)):
            relay.from_server(json.dumps(answer).encode())

    relay = McpRelay(session.tools, lambda line: seen.append(json.loads(line)), to_server, **options)
    return relay, seen


def call(name: str, ident: Any = 1, **arguments: Any) -> bytes:
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params}).encode()


def failing(message: dict[str, Any]) -> list[Any]:
    return [{"jsonrpc": "2.0", "id": message["id"], "error": {"code": -7, "message": "no such tool"}}]


def fine(message: dict[str, Any]) -> list[Any]:
    result = {"content": [{"type": "image", "data": "aGk="}], "isError": False, "_meta": {"x": 1}}
    return [{"jsonrpc": "2.0", "id": message["id"], "result": result}]


@pytest.mark.parametrize("server", [fine, failing])
def test_every_answer_comes_back_as_it_was(server: Any) -> None:
    session = Session()
    relay, seen = relayed(session, server)
    relay.from_client(call("look", 3, q=1))
    replay, again = relayed(Session(Tape(session.cassette()), live=False), server=lambda m: [m])
    replay.from_client(call("look", "other", q=1))
    assert again[0] == {**seen[0], "id": "other"}


def test_a_refusal_is_an_error_of_the_call() -> None:
    session = Session()
    relay, _ = relayed(session, fine)
    relay.from_client(call("look", q=1))
    replay, seen = relayed(Session(Tape(session.cassette()), live=False), server=lambda m: [m])
    replay.from_client(call("look", q=2))
    assert "called otherwise than recorded" in seen[0]["error"]["message"]


def test_batches_and_lines_that_are_no_json_pass_through() -> None:
    session = Session()
    passed: list[bytes] = []
    relay = McpRelay(session.tools, lambda line: None, passed.append)
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    relay.from_client(b"[" + call("look", 1) + b"," + json.dumps(note).encode() + b"]")
    relay.from_client(b"no json")
    assert [json.loads(line) for line in passed[:2]] == [json.loads(call("look", 1)), note]
    assert passed[2] == b"no json"
    assert session.report().tools_live == 1


def test_effects_are_given_hinted_or_write() -> None:
    for options, listed, effect in (
        ({"effects": {"look": "idempotent"}}, True, "idempotent"),
        ({}, True, "read"),
        ({}, False, "write"),
    ):
        session = Session()
        relay, _ = relayed(session, fine, **options)
        if listed:
            hints = {"tools": [{"name": "look", "annotations": {"readOnlyHint": True}}]}
            relay.from_server(json.dumps({"jsonrpc": "2.0", "id": 0, "result": hints}).encode())
        relay.from_client(call("look", q=1))
        assert session.cassette().tool_exchanges[0].effect == effect
    assert wrapped_names(Session(), {"a": "read"}) == {"a": "read"}


def wrapped_names(session: Session, effects: dict[str, str]) -> dict[str, str]:
    McpRelay(session.tools, lambda line: None, lambda line: None, effects=effects)
    return session.tools.wrapped


def test_without_a_run_everything_passes_and_the_transcript_loads(tmp_path: Path) -> None:
    asked = b"".join(line + b"\n" for line in (call("look_up", 1, order="7"), call("nope", 2, order="7")))
    out, log = io.BytesIO(), tmp_path / "talk.jsonl"
    with pytest.MonkeyPatch.context() as patch, log.open("wb") as file:
        patch.setenv("WORLD", str(tmp_path / "world.txt"))
        patch.setenv("SERVER_STATUS", "3")
        status = run_relay([sys.executable, str(SERVER)], io.BytesIO(asked), out, None, log=file)
    assert status == 3
    assert [json.loads(line)["id"] for line in out.getvalue().splitlines()] == [1, 2]
    transcript = afnb.load(log)
    assert isinstance(transcript, afnb.Cassette)
    assert [(t.name, t.error) for t in transcript.tool_exchanges] == [
        ("look_up", None),
        ("nope", "no tool nope"),
    ]


def test_the_command_line(tmp_path: Path) -> None:
    def run(*args: str) -> subprocess.CompletedProcess[bytes]:
        argv = [sys.executable, "-m", "afnb", "mcp", *args]
        return subprocess.run(argv, input=b"", capture_output=True, timeout=60, cwd=tmp_path, check=False)

    assert run("--", sys.executable, "-c", "import sys; sys.exit(4)").returncode == 4
    for args, said in (
        (("--effect", "look=reed", "--", "x"), b"TOOL=EFFECT"),
        (("--", "no-such-server-here"), b"was not found"),
        ((), b"command"),
    ):
        done = run(*args)
        assert (done.returncode, done.stderr.count(b"\n"), said in done.stderr) == (2, 1, True), done.stderr
