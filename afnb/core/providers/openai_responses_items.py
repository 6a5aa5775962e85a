"""The items of a responses answer: read, and written anew with other text or calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afnb.core.jsonvalue import Json
from afnb.core.providers.base import (
    Answer,
    Ask,
    New,
    ToolCall,
    error_text,
    obj,
    objs,
    parsed_or_text,
    text_or_none,
    usage_of,
)
from afnb.core.providers.changes import Kind, Put, arguments_text, fresh_id, plan

CALL_FIELDS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
"""Items that ask the agent to run something, and where they say what."""

_HOSTED = (
    "mcp_call",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
)


def call_of(item: Mapping[str, Any]) -> ToolCall:
    """A call item; kinds without a name of their own are called after the kind."""
    kind = str(item.get("type"))
    arguments = item.get(CALL_FIELDS[kind])
    return ToolCall(
        text_or_none(item.get("call_id")) or text_or_none(item.get("id")) or "",
        text_or_none(item.get("name")) or kind.removesuffix("_call"),
        parsed_or_text(arguments) if kind == "function_call" else arguments,
    )


def message_text(item: Mapping[str, Any]) -> str:
    """The visible text of a message item; a refusal where there is nothing else."""
    parts = objs(item.get("content"))
    text = "".join(p["text"] for p in parts if isinstance(p.get("text"), str))
    return text or "".join(p["refusal"] for p in parts if isinstance(p.get("refusal"), str))


def kind_of(item: Json) -> Kind:
    """What an item is to a new answer: text, a call of the agent, or a part that stays."""
    kind = text_or_none(obj(item).get("type"))
    return "text" if kind == "message" else "call" if kind in CALL_FIELDS else "keep"


def answer_of(body: Mapping[str, Any], complete: bool) -> Answer:
    """The answer in a response object."""
    items = objs(body.get("output"))
    reason = text_or_none(obj(body.get("incomplete_details")).get("reason"))
    error = error_text(body.get("error"))
    return Answer(
        text="".join(message_text(item) for item in items if kind_of(item) == "text"),
        tool_calls=tuple(call_of(item) for item in items if kind_of(item) == "call"),
        finish=reason or text_or_none(body.get("status")),
        usage=usage_of(body.get("usage"), "input_tokens", "output_tokens"),
        model=text_or_none(body.get("model")),
        role_name=None,
        complete=complete and error is None,
        server_calls=tuple(_hosted(item) for item in items if item.get("type") in _HOSTED),
        error=error,
    )


def _hosted(item: dict[str, Any]) -> ToolCall:
    arguments = next((item[k] for k in ("arguments", "action", "queries", "code") if k in item), None)
    return ToolCall(
        text_or_none(item.get("id")) or "",
        text_or_none(item.get("name")) or str(item["type"]),
        parsed_or_text(arguments),
    )


def new_items(ask: Ask, items: Sequence[Json], new: New) -> list[tuple[Put, Json]]:
    """The items of the new answer, each with where it came from."""
    done: list[tuple[Put, Json]] = []
    for put in plan([kind_of(item) for item in items], new):
        old = obj(items[put.block]) if put.block >= 0 else {}
        if put.what == "text":
            done.append((put, _message(ask, old, new.text)))
        elif put.what == "call":
            done.append((put, _call(ask, old, new, put.call)))
        else:
            done.append((put, items[put.block]))
    return done


def _message(ask: Ask, old: dict[str, Any], text: str) -> dict[str, Any]:
    parts = [p for p in objs(old.get("content")) if isinstance(p.get("text"), str)]
    part: dict[str, Any] = {
        "type": "output_text",
        **(parts[0] if parts else {"annotations": []}),
        "text": text,
    }
    for key in ("annotations", "logprobs"):
        if part.get(key):
            part[key] = []
    base = {"id": fresh_id(ask, 0, "msg_", 48), "type": "message", "role": "assistant", **old}
    return {**base, "status": "completed", "content": [part]}


def _call(ask: Ask, old: dict[str, Any], new: New, index: int) -> dict[str, Any]:
    call = new.calls[index]
    call_id = call.id or fresh_id(ask, index, "call_")
    kind = text_or_none(old.get("type"))
    if kind == "custom_tool_call" and isinstance(call.arguments, str):
        return {**old, "call_id": call_id, "name": call.name, "input": call.arguments}
    has_own_kind = kind in CALL_FIELDS and kind not in ("function_call", "custom_tool_call")
    if has_own_kind and call.name == str(kind).removesuffix("_call"):
        return {**old, CALL_FIELDS[str(kind)]: call.arguments}
    if kind != "function_call":
        old = {"id": text_or_none(old.get("id")) or fresh_id(ask, index, "fc_", 48), "type": "function_call"}
    return {
        **old,
        "status": "completed",
        "call_id": call_id,
        "name": call.name,
        "arguments": arguments_text(call.arguments),
    }


def rewritten(ask: Ask, body: Mapping[str, Any], new: New) -> dict[str, Any]:
    """A response object with new text and calls; one that was cut or failed is complete."""
    items = body.get("output")
    output = [item for _, item in new_items(ask, items if isinstance(items, list) else [], new)]
    return finished(body, output, new.text)


def finished(body: Mapping[str, Any], output: list[Json], text: str) -> dict[str, Any]:
    """A response object that holds these items and has come to its end."""
    done = {**body, "output": output, "status": "completed"}
    for key in ("incomplete_details", "error"):
        if done.get(key) is not None:
            done[key] = None
    if isinstance(done.get("output_text"), str):
        done["output_text"] = text
    return done
