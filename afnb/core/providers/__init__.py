"""What afnb knows of model providers' wire shapes. Pure: bytes in, values or bytes out.

One module a shape, all with the same names; this package picks one by path and body::

    openai_chat   chat completions (OpenAI, Azure, Mistral, Groq, vLLM, llama.cpp, ...)
    anthropic     messages

Everything else is derived here from a request's turns: which conversation it belongs to, which tool
results it carries, what to show of it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from afnb.core import sse
from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import Json, dumps
from afnb.core.providers import anthropic, openai_chat
from afnb.core.providers.base import (
    Answer,
    Ask,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    error_text,
    framing,
    json_object,
    obj,
)
from afnb.core.providers.changes import new_answer, number_calls, number_missing_ids
from afnb.core.run import Warn
from afnb.errors import ParameterError

if TYPE_CHECKING:
    from afnb.core.providers.base import Provider

__all__ = [
    "Answer",
    "ToolCall",
    "ToolResult",
    "Turn",
    "Usage",
    "conversation_key",
    "is_model_request",
    "offered_tools",
    "outputs_of",
    "provider_error",
    "provider_of",
    "read_answer",
    "read_tool_results",
    "read_turns",
    "replace_tool_result",
    "request_text",
    "requested_model",
    "succeeded",
    "tool_results",
    "turns_text",
    "with_model",
    "write_answer",
]

_MODULES: tuple[ModuleType, ...] = (openai_chat, anthropic)
_CACHED_BYTES = 1_000_000  # larger bodies are parsed each time rather than kept


def _parse(request: Request) -> tuple[Provider, Ask] | None:
    path, _, query = request.path.partition("?")
    path = path.rstrip("/")
    body = json_object(request.body) if request.body else None
    for module in _MODULES:
        provider = cast("Provider", module)
        if provider.matches(request.method.upper(), path, body):
            return provider, Ask(request, path, query, body or {})
    return None


_parse_cached = functools.lru_cache(maxsize=16)(_parse)


def _opened(request: Request) -> tuple[Provider, Ask] | None:
    """The provider and the parsed request; several questions about one request parse it once."""
    return _parse(request) if len(request.body) > _CACHED_BYTES else _parse_cached(request)


def _must_open(request: Request) -> tuple[Provider, Ask]:
    opened = _opened(request)
    if opened is None:
        raise ParameterError(
            f"{request.method} {request.path} is not a request to a model that afnb can read"
        )
    return opened


def provider_of(request: Request) -> str | None:
    """The wire shape of a model request, None for any other request.

    Examples
    --------
    >>> provider_of(Request("POST", "/v1/messages", body=b'{"messages": []}'))
    'anthropic'
    >>> provider_of(Request("GET", "/v1/models")) is None
    True
    """
    opened = _opened(request)
    return None if opened is None else opened[0].NAME


def is_model_request(request: Request) -> bool:
    """Whether a model is asked for an answer by this request."""
    return _opened(request) is not None


def requested_model(request: Request) -> str | None:
    """The model a request asks, None if it names none or is no model request."""
    opened = _opened(request)
    return None if opened is None else opened[0].model(opened[1])


def with_model(request: Request, model: str) -> Request:
    """The same request to another model; ``ParameterError`` if it is no model request.

    Examples
    --------
    >>> with_model(Request("POST", "/v1/messages", body=b'{"model": "a", "messages": []}'), "b").body
    b'{"model":"b","messages":[]}'
    """
    provider, ask = _must_open(request)
    return provider.replace_model(ask, model)


def offered_tools(request: Request) -> tuple[str, ...]:
    """Names of the tools the request offers to the model, in order."""
    opened = _opened(request)
    return () if opened is None else opened[0].tools(opened[1])


def read_turns(request: Request) -> list[Turn]:
    """The request's messages as turns: role, text, tool calls and results; empty if no model request."""
    opened = _opened(request)
    return [] if opened is None else number_missing_ids(opened[0].turns(opened[1]))


# --- answers ------------------------------------------------------------------------------------


def read_answer(request: Request, response: Response) -> Answer | None:
    """What the model answered; None if the exchange is no model request or holds no answer.

    An error status, an error in place of an answer, and bytes that cannot be read give None. A stream
    that broke off after the answer had begun gives what there was, with ``complete`` False.

    Examples
    --------
    >>> ask = Request("POST", "/v1/chat/completions", body=b'{"messages": []}')
    >>> said = b'{"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}'
    >>> read_answer(ask, Response(200, body=said)).text
    'hello'
    >>> read_answer(ask, Response(429, body=b"{}")) is None
    True
    """
    opened = _opened(request)
    if opened is None or not 200 <= response.status < 300:
        return None
    provider, ask = opened
    answer = provider.read(ask, response)
    if answer is None:
        return None
    turns: list[Turn] = []
    if not all(call.id for call in answer.tool_calls):
        turns = number_missing_ids(provider.turns(ask))
    return replace(
        answer,
        tool_calls=number_calls(answer.tool_calls, turns),
        role_name=_role_name(provider, ask),
        notes=(*answer.notes, *_notes(answer)),
    )


def _notes(answer: Answer) -> Iterable[Warn]:
    if answer.error is not None:
        yield Warn("provider_error", f"the provider broke the answer off: {answer.error}")
    elif not answer.complete:
        yield Warn("incomplete", "the answer's stream stopped before its end")


_ROLE_KEYS = ("agent_name", "agent", "gen_ai.agent.name")


def _role_name(provider: Provider, ask: Ask) -> str | None:
    """The agent's name: a key of the request's metadata, or the name on its system message.

    Names on user and assistant messages are those of other participants or of earlier turns: taking
    them would give one agent several names in the course of a run.
    """
    metadata = obj(ask.body.get("metadata"))
    for key in _ROLE_KEYS:
        if isinstance(metadata.get(key), str) and metadata[key]:
            return str(metadata[key])
    if b'"name"' not in ask.request.body:
        return None
    for turn in provider.turns(ask):
        if turn.role == "system" and turn.name:
            return turn.name
    return None


def succeeded(request: Request, response: Response) -> bool:
    """Whether the exchange is a successful model exchange: the model was asked and answered.

    These are the exchanges that become llm steps and that positions count. A broken-off answer
    counts (it is one, if a short one); an error in place of an answer does not, whatever its status.
    """
    return read_answer(request, response) is not None


def provider_error(request: Request, response: Response) -> str | None:
    """The provider's error sentence, whatever the HTTP status; None if a model request went well.

    Examples
    --------
    >>> ask = Request("POST", "/v1/messages", body=b'{"messages": []}')
    >>> provider_error(ask, Response(200, (("content-type", "text/event-stream"),),
    ...     b'data: {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}\\n\\n'))
    'overloaded_error: busy'
    """
    if not is_model_request(request):
        return None
    answer = read_answer(request, response)
    if answer is not None:
        return answer.error
    return _error_in(response) or (f"HTTP status {response.status}" if response.status >= 400 else None)


def _error_in(response: Response) -> str | None:
    kind = framing(response)
    if kind in ("sse", "lines"):
        events = sse.parse(response.body) if kind == "sse" else sse.parse_lines(response.body)
        for event in events:
            value = json_object(event.data)
            failure = obj(obj(value).get("response")).get("error") or obj(value).get("error")
            if failure or obj(value).get("type") == "error":
                return error_text(failure or value)
        return None
    body = json_object(response.body)
    return error_text(obj(body).get("error") or obj(body).get("message"))


def outputs_of(answer: Answer) -> dict[str, Json]:
    """An llm step's outputs: ``{"text", "tool_calls": [{"name", "arguments"}]}``, ids left out.

    Examples
    --------
    >>> call = ToolCall("call_1", "get_order", {"id": 7})
    >>> outputs_of(Answer("", (call,), "tool_calls", None, None, None, True))
    {'text': '', 'tool_calls': [{'name': 'get_order', 'arguments': {'id': 7}}]}
    """
    return {
        "text": answer.text,
        "tool_calls": [{"name": call.name, "arguments": call.arguments} for call in answer.tool_calls],
    }


def write_answer(request: Request, response: Response, outputs: Mapping[str, Json]) -> Response:
    """The recorded answer with new text or tool calls, in the form (JSON or stream) it came in.

    Parameters
    ----------
    request, response
        The recorded exchange; its answer must be readable.
    outputs
        ``{"text": str, "tool_calls": [{"name", "arguments"}]}``; a key left out keeps what was
        recorded. A call may give its own ``id``; else the call recorded at its position lends its
        id, and further calls get fresh ones that depend on the request alone. Arguments that are text
        holding a JSON object mean that object.

    Returns
    -------
    Response
        Ids, usage, reasoning and all other parts stay, as bytes where the answer is a stream; the
        finish reason fits the new content; token probabilities of replaced text are null. The very
        same response where nothing changes. An answer that was cut is written whole.

    Raises
    ------
    ParameterError
        The exchange holds no model answer, or ``outputs`` has another shape.

    Examples
    --------
    >>> ask = Request("POST", "/v1/chat/completions", body=b'{"messages": []}')
    >>> said = Response(200, body=b'{"choices": [{"message": {"content": "no"}, "finish_reason": "stop"}]}')
    >>> write_answer(ask, said, {"text": "yes"}).body
    b'{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}'
    """
    provider, ask = _must_open(request)
    answer = read_answer(request, response)
    if answer is None:
        raise ParameterError(
            f"{request.method} {request.path} was answered with status {response.status} and holds no model "
            "answer that could be rewritten; choose a step of kind llm"
        )
    new = new_answer(outputs, answer)
    if not new.text_changed and not new.calls_changed:
        return response
    return provider.write(ask, response, new)


# --- conversations and tool results -------------------------------------------------------------


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
    turns = read_turns(request)
    if not turns:
        return "" if not is_model_request(request) else _digest([[], ""])
    system: list[str] = []
    for turn in turns:
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
        provider, ask = _must_open(request)
        request = provider.replace_result(ask, place, value)
    return request


# --- display ------------------------------------------------------------------------------------


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
