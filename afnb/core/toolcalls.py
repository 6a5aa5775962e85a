"""Tools that a recording saw over HTTP: calls of MCP servers, and services declared to be tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afnb.core.cassette import Cassette, Exchange, ToolExchange
from afnb.core.jsonvalue import Json, loads
from afnb.core.mcp import mcp_call, mcp_effects, mcp_result, same_tool
from afnb.errors import InputError


def wrapped_tools(cassette: Cassette) -> dict[str, str]:
    """The tools that were wrapped when a recording was made, with their effects, called or not.

    Examples
    --------
    >>> wrapped_tools(Cassette("c", tool_exchanges=(ToolExchange("look", {}, 1, "read"),)))
    {'look': 'read'}
    """
    said = cassette.attrs.get("tools")
    known = said if isinstance(said, dict) else {}
    found = {name: effect for name, effect in known.items() if isinstance(effect, str)}
    return {**found, **{tool.name: tool.effect for tool in cassette.tool_exchanges}}


def http_tools(cassette: Cassette) -> dict[str, str | None]:
    """The upstreams of a recording that are tools, each with its declared effect (None: by the method)."""
    found = cassette.attrs.get("http_tools")
    known = found if isinstance(found, dict) else {}
    return {name: effect if isinstance(effect, str) else None for name, effect in known.items()}


def tool_over_http(exchange: Exchange, tools: Mapping[str, str | None]) -> ToolExchange | None:
    """The tool call that an HTTP exchange is, None if it is none.

    Examples
    --------
    >>> from afnb.core.cassette import Request, Response
    >>> ask, answer = Request("GET", "/orders/7"), Response(200, body=b'{"state":"sent"}')
    >>> tool_over_http(Exchange(0, ask, answer, upstream="crm"), {"crm": None})
    ToolExchange(name='crm', arguments={'method': 'GET', 'path': '/orders/7'}, output={'state': 'sent'}, ...)
    """
    request, response = exchange.request, exchange.response
    call = mcp_call(request)
    times = (exchange.idx - 1, exchange.t_start, exchange.t_end)
    if call is not None:
        result = mcp_result(call, response)
        error = None if result is None else result.error
        if result is None:
            error = f"HTTP {response.status} without a result"
        value = None if result is None else result.value
        return ToolExchange(call.name, call.arguments, value, "write", error, *times, {"over": "mcp"})
    if exchange.upstream not in tools or exchange.upstream is None:
        return None
    if b'"jsonrpc"' in request.body:
        return None  # what an MCP client says beside its calls
    arguments: dict[str, Any] = {"method": request.method, "path": request.path}
    if request.body:
        arguments["body"] = body_value(request.body)
    error = f"HTTP {response.status}" if response.status >= 400 else None
    effect = tools[exchange.upstream] or "write"
    output = body_value(response.body)
    return ToolExchange(exchange.upstream, arguments, output, effect, error, *times, {"over": "http"})


def body_value(body: bytes) -> Json:
    """A body as JSON where it is JSON, else as text."""
    text = body.decode("utf-8", "replace")
    try:
        return loads(text)
    except InputError:
        return text


def seen_tools(cassette: Cassette) -> dict[str, str]:
    """Every tool of a recording that afnb can hold back, with its effect: wrapped, over MCP, over HTTP."""
    over_http = {name: effect or "by method" for name, effect in http_tools(cassette).items()}
    return {**mcp_effects(cassette), **over_http, **wrapped_tools(cassette)}


def effect_of(name: str, tools: Mapping[str, str]) -> str | None:
    """The effect of a tool by the name that the model knows it by."""
    if name in tools:
        return tools[name]
    return next((effect for known, effect in tools.items() if same_tool(name, known)), None)
