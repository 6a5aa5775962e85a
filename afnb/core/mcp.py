"""MCP (the Model Context Protocol): which HTTP exchanges and transcript lines are calls of a tool.

A client asks ``tools/call`` by JSON-RPC; over HTTP the answer is JSON or an event stream. A tool's own
failure is a result with ``isError``, not a JSON-RPC error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from afnb.core.cassette import Cassette, Request, Response
from afnb.core.edits import Edit, apply_edits, cut_again
from afnb.core.jsonvalue import MISSING, Json, JsonOrMissing, dumps, loads
from afnb.errors import InputError

_DATA_LINE = re.compile(rb"^data: ?(\{[^\r\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class McpCall:
    """One ``tools/call``: its JSON-RPC id, the tool and its arguments."""

    id: Any
    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class McpResult:
    """What a call gave: ``value`` (its text, parsed where it is JSON) or ``error``; ``raw`` is the result."""

    value: Json
    error: str | None
    raw: Json


def mcp_call(request: Request) -> McpCall | None:
    """The call that an HTTP request makes, None if it makes none.

    Examples
    --------
    >>> body = b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"look","arguments":{"n":1}}}'
    >>> mcp_call(Request("POST", "/mcp", body=body))
    McpCall(id=3, name='look', arguments={'n': 1})
    """
    if request.method.upper() != "POST" or b"tools/call" not in request.body:
        return None
    return call_in(_value(request.body))


def call_in(message: Json) -> McpCall | None:
    """The call that a JSON-RPC message makes, None if it makes none."""
    if not isinstance(message, dict) or "jsonrpc" not in message or message.get("method") != "tools/call":
        return None
    params = message.get("params")
    if not isinstance(params, dict) or not isinstance(params.get("name"), str):
        return None
    return McpCall(message.get("id"), params["name"], params.get("arguments", {}))


def mcp_result(call: McpCall, response: Response) -> McpResult | None:
    """The result of a call in the response to it, None if it is not there."""
    for message in messages_in(response):
        if isinstance(message, dict) and message.get("id") == call.id and "method" not in message:
            return result_in(message)
    return None


def result_in(message: Json) -> McpResult | None:
    """The result that a JSON-RPC response to a call carries, None if it carries none.

    Examples
    --------
    >>> result_in({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "[1]"}]}}).value
    [1]
    >>> result_in({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no such tool"}}).error
    'no such tool'
    """
    if not isinstance(message, dict):
        return None
    error = message.get("error")
    if isinstance(error, dict):
        return McpResult(None, str(error.get("message", "an error without a message")), error)
    if "result" not in message:
        return None
    result = message["result"]
    text = _text_of(result)
    failed = isinstance(result, dict) and result.get("isError") is True
    return McpResult(_parsed(text, result), text or "an error without a text" if failed else None, result)


def result_of_value(value: Json, recorded: Json = None) -> dict[str, Any]:
    """A result that gives ``value``: a whole result as it is, else its text, in the recorded result's form.

    Examples
    --------
    >>> result_of_value({"state": "paid"})
    {'content': [{'type': 'text', 'text': '{"state":"paid"}'}], 'isError': False}
    """
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        return value
    text = value if isinstance(value, str) else dumps(value)
    kept = recorded if isinstance(recorded, dict) else {}
    made: dict[str, Any] = {**kept, "content": [{"type": "text", "text": text}], "isError": False}
    if "structuredContent" in kept:
        made["structuredContent"] = value if isinstance(value, dict) else {"result": value}
    return made


def with_result(call: McpCall, response: Response, value: Json) -> Response:
    """The response with another result of the call, JSON or an event stream as it was.

    Raises
    ------
    InputError
        The response holds no result of the call.
    """
    body = response.body
    edits: list[Edit] = []
    spans = [(m.start(1), m.end(1)) for m in _DATA_LINE.finditer(body)] or [(0, len(body))]
    for start, end in spans:
        message = _value(body[start:end])
        if isinstance(message, dict) and message.get("id") == call.id and "method" not in message:
            found = result_in(message)
            fresh = {key: item for key, item in message.items() if key != "error"}
            fresh["result"] = result_of_value(
                value, None if found is None or "error" in message else found.raw
            )
            edits.append((start, end, dumps(fresh).encode()))
    if not edits:
        raise InputError(f"the recorded answer holds no result of the call of {call.name!r}")
    chunks = None if response.chunks is None else cut_again(response.chunks, edits)
    return replace(response, body=apply_edits(body, edits), chunks=chunks)


def messages_in(response: Response) -> list[Json]:
    """The JSON-RPC messages of a response."""
    lines = [match[1] for match in _DATA_LINE.finditer(response.body)]
    found = [_value(line) for line in lines or [response.body]]
    return [one for item in found for one in (item if isinstance(item, list) else [item]) if one is not None]


def declared_effects(messages: Iterable[Json]) -> dict[str, str]:
    """The effects of tools by the hints of ``tools/list`` results; a tool without a hint has none.

    Examples
    --------
    >>> listed = [{"name": "a", "annotations": {"readOnlyHint": True}}, {"name": "b"}]
    >>> declared_effects([{"jsonrpc": "2.0", "id": 1, "result": {"tools": listed}}])
    {'a': 'read'}
    """
    found: dict[str, str] = {}
    for message in messages:
        result = message.get("result") if isinstance(message, dict) else None
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            hints = tool.get("annotations") if isinstance(tool, dict) else None
            if not isinstance(hints, dict) or not isinstance(tool.get("name"), str):
                continue
            if hints.get("readOnlyHint") is True:
                found[tool["name"]] = "read"
            elif hints.get("idempotentHint") is True:
                found[tool["name"]] = "idempotent"
    return found


def mcp_effects(cassette: Cassette) -> dict[str, str]:
    """The effects of the MCP tools that a recording calls over HTTP; without a hint it is ``write``."""
    called: dict[str, str] = {}
    listed: list[Json] = []
    for exchange in cassette.exchanges:
        if b"jsonrpc" not in exchange.request.body:
            continue
        call = mcp_call(exchange.request)
        if call is not None:
            called[call.name] = "write"
        elif b"tools/list" in exchange.request.body:
            listed += messages_in(exchange.response)
    hints = declared_effects(listed)
    return {name: hints.get(name, effect) for name, effect in called.items()}


def same_tool(called: str, name: str) -> bool:
    """Whether a model's name for a tool means this MCP tool: clients put the server's name before it.

    Examples
    --------
    >>> same_tool("mcp__crm__look", "look"), same_tool("crm.look", "look"), same_tool("outlook", "look")
    (True, True, False)
    """
    if called == name:
        return True
    return called.endswith(name) and not called[-len(name) - 1 : -len(name)].isalnum()


def _text_of(result: Json) -> str | None:
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return None
    texts = [one.get("text") for one in content if isinstance(one, dict) and one.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str)) if len(texts) == len(content) else None


def _parsed(text: str | None, result: Json) -> Json:
    if text is None:
        return result
    found = _value(text.encode("utf-8", "surrogatepass"), MISSING)
    return text if found is MISSING or not isinstance(found, dict | list) else found


def _value(data: bytes, otherwise: JsonOrMissing = None) -> Any:
    try:
        return loads(data)
    except InputError:
        return otherwise
