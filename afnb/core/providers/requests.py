"""What a request says, whatever its wire shape: model, tools, conversation, tool results, transcript."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from afnb.core.cassette import Request
from afnb.core.jsonvalue import Json, dumps
from afnb.core.providers.base import ToolResult, Turn
from afnb.core.providers.changes import number_missing_ids
from afnb.core.providers.choose import must_open, opened


def provider_of(request: Request) -> str | None:
    """The wire shape of a model request, None for any other request.

    One of ``openai-chat``, ``anthropic``, ``openai-responses``, ``gemini``, ``ollama``, ``bedrock``,
    ``cohere`` and ``openai-text``.

    Examples
    --------
    >>> provider_of(Request("POST", "/v1/messages", body=b'{"messages": []}'))
    'anthropic'
    >>> provider_of(Request("GET", "/v1/models")) is None
    True
    """
    found = opened(request)
    return None if found is None else found[0].NAME


def is_model_request(request: Request) -> bool:
    """Whether a model is asked for an answer by this request."""
    return opened(request) is not None


def requested_model(request: Request) -> str | None:
    """The model a request asks, None if it names none or is no model request."""
    found = opened(request)
    return None if found is None else found[0].model(found[1])


def with_model(request: Request, model: str) -> Request:
    """The same request to another model; ``ParameterError`` if it is no model request.

    Examples
    --------
    >>> with_model(Request("POST", "/v1/messages", body=b'{"model": "a", "messages": []}'), "b").body
    b'{"model":"b","messages":[]}'
    """
    provider, ask = must_open(request)
    return provider.replace_model(ask, model)


def offered_tools(request: Request) -> tuple[str, ...]:
    """Names of the tools the request offers to the model, in order."""
    found = opened(request)
    return () if found is None else found[0].tools(found[1])


def read_turns(request: Request) -> list[Turn]:
    """The request's messages as turns: role, text, tool calls and results; empty if no model request."""
    found = opened(request)
    return [] if found is None else number_missing_ids(found[0].turns(found[1]))


def conversation_key(request: Request) -> str:
    """Which conversation (branch of a parallel run) a request belongs to.

    A digest of the system prompt and the first user message. Cache hints and the form of the content
    (text, or a list with one text part) do not count. Empty for what is no model request.

    Examples
    --------
    >>> a = Request("POST", "/v1/messages", body=b'{"messages": [{"role": "user", "content": "hi"}]}')
    >>> b = Request("POST", "/v1/messages", body=b'''{"messages": [{"role": "user", "content":
    ...     [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]},
    ...     {"role": "assistant", "content": "hello"}, {"role": "user", "content": "bye"}]}''')
    >>> conversation_key(a) == conversation_key(b)
    True
    """
    found = opened(request)
    if found is None:
        return ""
    system: list[str] = []
    for turn in found[0].turns(found[1]):
        if turn.role == "system":
            system.append(turn.text)
        elif turn.role == "user" and turn.text:
            return _digest([system, turn.text])
    return _digest([system, ""])


def _digest(value: Json) -> str:
    return hashlib.sha256(dumps(value).encode()).hexdigest()[:16]


def read_tool_results(request: Request) -> list[ToolResult]:
    """The tool results a request carries, in order, with their error marks."""
    return [result for turn in read_turns(request) for result in turn.results]


def tool_results(request: Request) -> list[tuple[str, Json]]:
    """The tool results a request carries: call id and value (JSON where the text parses, else text).

    Examples
    --------
    >>> ask = b'{"messages": [{"role": "tool", "tool_call_id": "c1", "content": "{\\\\"total\\\\": 3}"}]}'
    >>> tool_results(Request("POST", "/v1/chat/completions", body=ask))
    [('c1', {'total': 3})]
    """
    return [(result.call_id, result.value) for result in read_tool_results(request)]


def replace_tool_result(
    request: Request, call_id: str, value: Json, occurrence: int | None = None
) -> Request | None:
    """The request with a tool call's result replaced; None if it does not carry that result.

    Parameters
    ----------
    request
        A model request.
    call_id
        The call whose result it is.
    value
        The new value; written the way the recorded one was (text or content parts; JSON style).
    occurrence
        Which result under that id, where a server uses ids again: 0 is the first; None replaces all.

    Examples
    --------
    >>> ask = b'{"messages":[{"role":"tool","tool_call_id":"c1","content":"{\\\\"total\\\\": 3}"}]}'
    >>> replace_tool_result(Request("POST", "/v1/chat/completions", body=ask), "c1", {"total": 4}).body
    b'{"messages":[{"role":"tool","tool_call_id":"c1","content":"{\\\\"total\\\\": 4}"}]}'
    """
    places = [i for i, result in enumerate(read_tool_results(request)) if result.call_id == call_id]
    if occurrence is not None:
        places = places[occurrence : occurrence + 1]
    if not places:
        return None
    for place in places:
        provider, ask = must_open(request)
        request = provider.replace_result(ask, place, value)
    return request


def request_text(request: Request) -> str:
    """The whole request as a readable transcript.

    Examples
    --------
    >>> print(request_text(Request("POST", "/v1/messages", body=b'''{"system": "Be brief.", "messages": [
    ...     {"role": "user", "content": "hi"}]}''')))
    system: Be brief.
    user: hi
    """
    return turns_text(read_turns(request))


def turns_text(turns: Iterable[Turn], start: int = 0) -> str:
    """Turns from ``start`` on as a readable transcript: who, what was said, calls as ``name(arguments)``.

    Ids are left out; a result is named by its call, which may stand before ``start``.
    """
    lines: list[str] = []
    names: dict[str, str] = {}
    for i, turn in enumerate(turns):
        names.update((call.id, call.name) for call in turn.calls)
        if i < start:
            continue
        if turn.text:
            lines.append(f"{turn.name or turn.role}: {turn.text}")
        for call in turn.calls:
            lines.append(f"{turn.name or turn.role} calls {call.name}({_shown(call.arguments)})")
        for result in turn.results:
            name = result.name or names.get(result.call_id, "tool")
            lines.append(f"{name} {'failed' if result.is_error else 'returned'}: {_shown(result.value)}")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)
