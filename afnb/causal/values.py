"""New values for recorded answers: what an ``Edit`` writes, in the form the recording has."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from afnb.causal.interventions import Edit, Intervention
from afnb.core.cassette import Exchange, Response
from afnb.core.jsonvalue import MISSING, Json, dumps, loads
from afnb.core.mcp import mcp_call, with_result
from afnb.core.providers import write_answer
from afnb.core.providers.base import without_length
from afnb.core.run import Step
from afnb.errors import InputError, ParameterError

_OUTPUT_KEYS = {"text", "tool_calls"}


def called(item: Intervention) -> str:
    """The intervention's name for a message: ``Edit(step=3)``."""
    return f"{type(item).__name__}(step={item.step})"


def edited_answer(item: Edit, step: Step, exchange: Exchange) -> Response:
    """The recorded answer of an llm or other step with the edit's value in it."""
    value = item.value
    if step.kind != "llm":
        if callable(value):
            value = changed_by(value, item, _body_value(exchange.response))
        return _with_body(exchange.response, value)
    if callable(value):
        value = changed_by(value, item, copy.deepcopy(step.outputs))
    return written(item, exchange, _outputs(item, value, step.outputs))


def edited_result(item: Edit, step: Step) -> Json:
    """The edit's value for a tool step; a function gets None where no result was recorded."""
    if not callable(item.value):
        return item.value
    return changed_by(item.value, item, None if step.outputs is MISSING else copy.deepcopy(step.outputs))


def tool_answer(item: Intervention, exchange: Exchange, value: Json) -> Response:
    """The recorded HTTP answer of a tool with another result: an MCP result, else the body itself."""
    call = mcp_call(exchange.request)
    if call is None:
        return _with_body(exchange.response, value)
    try:
        return with_result(call, exchange.response, value)
    except InputError as error:
        raise ParameterError(f"{called(item)}: {error.message}") from None


def written(item: Intervention, exchange: Exchange, outputs: Mapping[str, Json]) -> Response:
    """The recorded answer with new outputs, in the form it came in (JSON or stream)."""
    try:
        return write_answer(exchange.request, exchange.response, outputs)
    except ParameterError as error:
        raise ParameterError(f"{called(item)}: {error}") from None


def _outputs(item: Edit, value: Any, recorded: Any) -> Mapping[str, Json]:
    if isinstance(value, str):
        return {"text": value, "tool_calls": []}
    if isinstance(value, dict) and value and set(value) <= _OUTPUT_KEYS:
        return value
    if not _is_json_text(recorded.get("text") if isinstance(recorded, dict) else None):
        raise ParameterError(
            f"{called(item)}: step {item.step} is a model answer; its value is a text or an object with text "
            f"and tool_calls, got {dumps(value)[:60]}"
        )
    return {"text": dumps(value), "tool_calls": []}


def changed_by(function: Callable[[Any], Any], item: Edit, recorded: Any) -> Any:
    """What an edit's function makes of the recorded value; `ParameterError` if it raises or gives no JSON."""
    try:
        value = function(recorded)
    except Exception as error:
        raise ParameterError(
            f"{called(item)}: the function raised {type(error).__name__}: {error}"
        ) from error
    try:
        dumps(value)
    except (ValueError, TypeError) as error:
        raise ParameterError(f"{called(item)}: the function returned no JSON value: {error}") from None
    return value


def _is_json_text(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        return isinstance(loads(text), dict | list)
    except InputError:
        return False


def _body_value(response: Response) -> Json:
    text = response.body.decode("utf-8", "replace")
    try:
        return loads(text)
    except InputError:
        return text


def _with_body(response: Response, value: Json) -> Response:
    body = (value if isinstance(value, str) else dumps(value)).encode("utf-8", "backslashreplace")
    return replace(
        response, body=body, headers=without_length(response.headers), chunks=None, incomplete=False
    )
