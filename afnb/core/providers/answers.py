"""What a model answered, whatever the wire shape: read, judged and written anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from afnb.core import awsstream, sse
from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import Json
from afnb.core.providers.base import Answer, Ask, Turn, error_text, framing, json_object, obj
from afnb.core.providers.bedrock_stream import frame_error
from afnb.core.providers.changes import new_answer, number_calls, number_missing_ids
from afnb.core.providers.choose import must_open, opened
from afnb.core.providers.requests import is_model_request
from afnb.core.run import Warn
from afnb.errors import ParameterError

if TYPE_CHECKING:
    from afnb.core.providers.base import Provider


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
    found = opened(request)
    if found is None or not 200 <= response.status < 300:
        return None
    provider, ask = found
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
    """The agent's name: a key of the request's metadata, or the name on a system message it opens with.

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
        if turn.role in ("assistant", "tool"):
            return None  # what opens the conversation is over
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
    if kind == "aws":
        return next((e for frame in awsstream.parse(response.body)[0] if (e := frame_error(frame))), None)
    body = json_object(response.body)
    return error_text(obj(body).get("error") or obj(body).get("message"))


def outputs_of(answer: Answer) -> dict[str, Json]:
    """An llm step's outputs: ``{"text", "tool_calls": [{"name", "arguments"}]}``, ids left out.

    Examples
    --------
    >>> from afnb.core.providers.base import ToolCall
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
    provider, ask = must_open(request)
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
