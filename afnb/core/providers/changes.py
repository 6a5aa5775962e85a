"""Tool-call ids, and what an intervention asks to write into a recorded answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from afnb.core.jsonvalue import Json, dumps, equal, loads, type_name
from afnb.core.providers.base import Answer, Ask, New, NewCall, ToolCall, Turn, parsed_or_text
from afnb.errors import InputError, ParameterError


def arguments_text(arguments: Json) -> str:
    """Arguments as a provider's text field: JSON, or text that is no JSON as it is."""
    if not isinstance(arguments, str):
        return dumps(arguments)
    try:
        loads(arguments)
    except InputError:
        return arguments
    return dumps(arguments)


def _tidy_arguments(arguments: Json) -> Json:
    """Text that is a JSON object is that object; everything else stays."""
    if isinstance(arguments, str):
        value = parsed_or_text(arguments)
        return value if isinstance(value, dict) else arguments
    return arguments


def fresh_id(ask: Ask, index: int, prefix: str, length: int = 24) -> str:
    """An id for a call that the recording has none for: the same for the same request and position."""
    digest = hashlib.sha256(f"{index}\n".encode() + ask.request.body).hexdigest()
    return f"{prefix}{digest[:length]}"


def number_missing_ids(turns: Iterable[Turn]) -> list[Turn]:
    """Turns whose calls and results without an id get one from the tool's name and their number."""
    calls: dict[str, int] = {}
    results: dict[str, int] = {}
    done: list[Turn] = []
    for turn in turns:
        if all(c.id for c in turn.calls) and all(r.call_id for r in turn.results):
            done.append(turn)
            continue
        turn_calls = tuple(c if c.id else replace(c, id=_number(c.name, calls)) for c in turn.calls)
        turn_results = tuple(
            r if r.call_id else replace(r, call_id=_number(r.name or "", results)) for r in turn.results
        )
        done.append(replace(turn, calls=turn_calls, results=turn_results))
    return done


def number_calls(calls: Sequence[ToolCall], history: Iterable[Turn]) -> tuple[ToolCall, ...]:
    """An answer's calls, those without an id numbered on from the history's."""
    seen: dict[str, int] = {}
    for turn in history:
        for call in turn.calls:
            if call.id == f"{call.name}#{seen.get(call.name, 0)}":
                seen[call.name] = seen.get(call.name, 0) + 1
    return tuple(c if c.id else replace(c, id=_number(c.name, seen)) for c in calls)


def _number(name: str, seen: dict[str, int]) -> str:
    number = seen.get(name, 0)
    seen[name] = number + 1
    return f"{name}#{number}"


def new_answer(outputs: Mapping[str, Json], answer: Answer) -> New:
    """What ``outputs`` asks to change in ``answer``; ``ParameterError`` if it is no such object."""
    unknown = [k for k in outputs if k not in ("text", "tool_calls")]
    if unknown:
        raise ParameterError(
            f"an answer's outputs have no key {unknown[0]!r}; expected 'text' and 'tool_calls'"
        )
    text = outputs.get("text", answer.text)
    if text is None:
        text = ""
    if not isinstance(text, str):
        raise ParameterError(f"an answer's 'text' is a JSON {type_name(text)}; expected text")
    if "tool_calls" not in outputs:
        wanted = [{"name": c.name, "arguments": c.arguments} for c in answer.tool_calls]
    else:
        wanted = _checked_calls(outputs["tool_calls"])
    calls = []
    for i, call in enumerate(wanted):
        old = answer.tool_calls[i] if i < len(answer.tool_calls) else None
        arguments = _tidy_arguments(call["arguments"])
        call_id = call.get("id") or (old.id if old else "")
        same = (
            old is not None
            and call_id == old.id
            and call["name"] == old.name
            and equal(arguments, old.arguments)
        )
        calls.append(NewCall(call_id, call["name"], arguments, same))
    return New(text, text != answer.text, tuple(calls), len(answer.tool_calls))


def _checked_calls(value: Json) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise ParameterError(f"an answer's 'tool_calls' is a JSON {type_name(value)}; expected a list")
    for i, call in enumerate(value):
        if not isinstance(call, Mapping) or not isinstance(call.get("name"), str) or not call["name"]:
            raise ParameterError(
                f"tool_calls[{i}] has no name; expected {{'name': text, 'arguments': JSON value}}"
            )
        if not isinstance(call.get("id"), str | None):
            raise ParameterError(
                f"tool_calls[{i}] has an id that is no text; leave it out to keep the recorded"
            )
        dumps(call.get("arguments"))
    return [{**call, "arguments": call.get("arguments", {})} for call in value]


Kind = Literal["keep", "text", "call"]


@dataclass(frozen=True, slots=True)
class Put:
    """One block of the new answer: a recorded ``block`` kept, new text, or the ``call``-th new call."""

    what: Kind
    block: int = -1
    call: int = -1


def plan(kinds: Sequence[Kind], new: New) -> list[Put]:
    """Which recorded blocks stay and where new ones stand.

    New text takes the place of the last recorded text block (text after a server tool's result is
    the conclusion), the others go; new calls take the recorded calls' places, more follow.
    """
    text_at = max((i for i, kind in enumerate(kinds) if kind == "text"), default=-1)
    first_call = next((i for i, kind in enumerate(kinds) if kind == "call"), len(kinds))
    put: list[Put] = []
    call = 0
    text_due = new.text_changed and bool(new.text) and text_at < 0
    for i, kind in enumerate(kinds):
        if i == first_call and text_due:
            put.append(Put("text"))
            text_due = False
        if kind == "text" and new.text_changed:
            if i == text_at and new.text:
                put.append(Put("text", i))
        elif kind == "call":
            if call < len(new.calls):
                put.append(Put("keep" if new.calls[call].same else "call", i, call))
            call += 1
        else:
            put.append(Put("keep", i))
    if text_due:
        put.append(Put("text"))
    put.extend(Put("call", -1, i) for i in range(call, len(new.calls)))
    return put
