"""Transcripts of MCP over stdio."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from afnb.core.cassette import Cassette
from afnb.core.steps import run_from_cassette
from afnb.errors import InputError
from afnb.io.load import load

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "arguments": {"q": 1}}}
DONE = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": '{"n": 1}'}]}}
LIST = {
    "jsonrpc": "2.0",
    "id": 0,
    "result": {"tools": [{"name": "look", "annotations": {"readOnlyHint": True}}]},
}


def written(path: Path, *lines: Any, tail: bytes = b"") -> Path:
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines) + tail)
    return path


def wrapped(message: Any, direction: str | None = None, **more: Any) -> dict[str, Any]:
    return {**({"direction": direction} if direction else {}), "message": message, **more}


@pytest.mark.parametrize(
    "wrap", [lambda m, d: m, lambda m, d: wrapped(m), lambda m, d: wrapped(m, d, ts="T")]
)
def test_calls_load_as_tool_exchanges(tmp_path: Path, wrap: Any) -> None:
    path = written(
        tmp_path / "talk.jsonl",
        wrap(LIST, "server->client"),
        wrap(CALL, "client->server"),
        wrap(DONE, "server->client"),
    )
    found = load(path)
    assert isinstance(found, Cassette)
    assert (found.id, len(found), found.warnings) == ("talk", 0, ())
    tool = found.tool_exchanges[0]
    assert (tool.name, tool.arguments, tool.output, tool.effect, tool.error) == (
        "look",
        {"q": 1},
        {"n": 1},
        "read",
        None,
    )
    assert found.attrs["tools"] == {"look": "read"}
    assert [(s.kind, s.name, s.outputs) for s in run_from_cassette(found).steps] == [
        ("tool", "look", {"n": 1})
    ]


def test_batches_ids_of_both_sides_and_what_is_never_answered(tmp_path: Path) -> None:
    asks = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}
    text = {**CALL, "id": "1", "params": {"name": "say"}}
    path = written(
        tmp_path / "talk.jsonl",
        wrapped([CALL, text], "client->server"),
        wrapped(asks, "server->client"),
        wrapped({"jsonrpc": "2.0", "id": 1, "result": {"role": "assistant"}}, "client->server"),
        wrapped(DONE, "server->client"),
        wrapped(DONE, "server->client"),
    )
    found = load(path)
    assert isinstance(found, Cassette)
    assert [(t.name, t.output) for t in found.tool_exchanges] == [("look", {"n": 1})]
    assert [w.message for w in found.warnings] == ["1 calls were never answered and are left out"]


def test_a_torn_last_line_is_a_warning_and_damage_inside_an_error(tmp_path: Path) -> None:
    torn = load(written(tmp_path / "torn.jsonl", CALL, DONE, tail=b'{"jsonrpc": "2.'))
    assert [w.code for w in torn.warnings] == ["torn_line"]
    path = tmp_path / "bad.jsonl"
    path.write_bytes(json.dumps(CALL).encode() + b"\n{oops\n" + json.dumps(DONE).encode() + b"\n")
    with pytest.raises(InputError, match=r"bad\.jsonl:2"):
        load(path)


def test_another_version_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="MCP over stdio"):
        load(written(tmp_path / "x.jsonl", {**CALL, "jsonrpc": "1.0"}))


def test_the_public_transcript_has_its_facts(shared: Path) -> None:
    found = load(shared / "public" / "mcp" / "gen__mcp_python_2.3.0_stdio_transcript.jsonl")
    assert isinstance(found, Cassette)
    assert [t.name for t in found.tool_exchanges] == ["get_order", "refund", "nope", "refund"]
    assert sum(t.error is not None for t in found.tool_exchanges) == 3
    assert all(t.t_start and t.t_end for t in found.tool_exchanges)


def test_the_public_http_traffic_joins_its_calls(shared: Path) -> None:
    name = "pydantic-pydantic-ai__pydantic_ai_deepwiki_mcp_http.yaml"
    found = load(shared / "public" / "mcp" / name)
    assert isinstance(found, Cassette)
    tools = [s for s in run_from_cassette(found).steps if s.kind == "tool"]
    assert [(s.name, s.exchange, s.attrs["call_exchange"], s.result_exchange) for s in tools] == [
        ("ask_question", 7, 3, 11)
    ]
