"""From an intervention on what a model is asked to the change that is made to its requests."""

from __future__ import annotations

from typing import Any

from afnb.causal.interventions import DropMessage, InsertMessage, RequestIntervention, SystemPrompt
from afnb.causal.values import called
from afnb.core.cassette import Request
from afnb.core.jsonvalue import MISSING, Json, dumps
from afnb.core.logsteps import answer_request
from afnb.core.reshape import RequestChange, holds_tools, messages_of, reshape, system_of
from afnb.errors import ParameterError


def change_of(item: RequestIntervention, request: Request) -> RequestChange:
    """The change that an intervention makes to the step's recorded request, and to those after it.

    Raises
    ------
    ParameterError
        The request is of a shape whose messages cannot be changed, has no such message, or the message
        holds tool calls or results; a prompt's function raises or gives no text.
    """
    try:
        messages = messages_of(request)
    except ParameterError as error:
        raise ParameterError(f"{called(item)}: {error}") from None
    if isinstance(item, SystemPrompt):
        change = RequestChange("system", _prompt(item, system_of(request)))
    elif isinstance(item, DropMessage):
        at = _place(item, item.message, len(messages))
        if holds_tools(messages[at]):
            raise ParameterError(
                f"{called(item)}: message {item.message} makes tool calls or brings a result, and providers "
                "take the one only with the other; Edit the answer or the tool's result instead"
            )
        change = RequestChange("drop", dumps(messages[at]), at)
    else:
        change = _inserted(item, messages)
    if reshape(request, change) is None:
        raise ParameterError(f"{called(item)}: the recorded request cannot be changed so")
    return change


def _inserted(item: InsertMessage, messages: list[Json]) -> RequestChange:
    at = _place(item, item.message, len(messages) + 1)
    if at and holds_tools(messages[at - 1]) and at < len(messages) and holds_tools(messages[at]):
        raise ParameterError(
            f"{called(item)}: place {item.message} lies between a tool call and its result; take a later one"
        )
    after = dumps(messages[at - 1]) if at else None
    return RequestChange("insert", dumps({"role": item.role, "content": item.text}), at, after)


def _place(item: RequestIntervention, message: int, size: int) -> int:
    at = message + size if message < 0 else message
    if not 0 <= at < size:
        raise ParameterError(f"{called(item)}: message {message} is none of 0 to {size - 1}")
    return at


def _prompt(item: SystemPrompt, recorded: Json) -> str:
    if not callable(item.value):
        return str(item.value)
    try:
        made = item.value(recorded)
    except Exception as error:
        raise ParameterError(
            f"{called(item)}: the function raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, str):
        raise ParameterError(f"{called(item)}: the function gave {type(made).__name__}, not a text")
    return made


def recorded_request(item: RequestIntervention, body: Any, response: Json) -> Request:
    """The request of a logged model call, whose path the log does not keep.

    Raises
    ------
    ParameterError
        The log holds no request bodies, or the call is of no known shape.
    """
    if body is MISSING or not isinstance(body, dict):
        raise ParameterError(
            f"{called(item)}: the log keeps no body of this request, so it holds no message to change"
        )
    found = answer_request(body, response)
    if found is None:
        raise ParameterError(f"{called(item)}: this call is of no shape whose messages can be changed")
    return found[0]
