"""Answers in the shapes of OpenAI responses and of Gemini, plain and streamed; see ``answers``."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

from afnb.core.cassette import Request
from afnb.core.jsonvalue import dumps

_Written = tuple[dict[str, Any], Callable[[], list[str]]]
_GEMINI_MODEL = re.compile(r"/models/([^/:?]+):")
_LETTERS = "abcdef0123456789"


def _hex(rng: random.Random, count: int) -> str:
    return "".join(rng.choices(_LETTERS, k=count))


def gemini_model(request: Request) -> str:
    """The model that a Gemini request's path names.

    Examples
    --------
    >>> gemini_model(Request("POST", "/v1beta/models/gemini-2.5-pro:generateContent?key=k"))
    'gemini-2.5-pro'
    """
    found = _GEMINI_MODEL.search(request.path)
    return "simulated" if found is None else found[1]


def responses_answer(
    text: str,
    calls: list[tuple[str, str, Any]],
    pieces: Callable[[str], list[str]],
    model: str,
    counts: tuple[int, int],
    rng: random.Random,
    created: int,
) -> _Written:
    """An answer of OpenAI's responses: the JSON document, and the events that say the same.

    Parameters
    ----------
    text, calls
        What is said; each call as (call id, name, arguments).
    pieces
        Cuts a text into what one event brings.
    model, counts, rng, created
        The model's name, input and output tokens, the ids' randomness, and the time of creation.
    """
    output: list[dict[str, Any]] = []
    if text or not calls:
        content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
        message: dict[str, Any] = {"id": "msg_" + _hex(rng, 48), "type": "message", "status": "completed"}
        output.append({**message, "role": "assistant", "content": content})
    for call_id, name, arguments in calls:
        call = {"id": "fc_" + _hex(rng, 48), "type": "function_call", "status": "completed"}
        output.append({**call, "arguments": dumps(arguments), "call_id": call_id, "name": name})
    whole = _response("resp_" + _hex(rng, 48), model, created, output, counts)

    def events() -> list[str]:
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        out: list[dict[str, Any]] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for i, item in enumerate(output):
            out += _item_events(i, item, pieces)
        out.append({"type": "response.completed", "response": whole})
        numbered = [{**event, "sequence_number": n} for n, event in enumerate(out)]
        return [f"event: {event['type']}\ndata: {dumps(event)}\n\n" for event in numbered]

    return whole, events


def _response(
    ident: str, model: str, created: int, output: list[dict[str, Any]], counts: tuple[int, int]
) -> dict[str, Any]:
    usage = {
        "input_tokens": counts[0],
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": counts[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(counts),
    }
    return {
        "id": ident,
        "object": "response",
        "created_at": created,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": None,
        "metadata": {},
    }


def _item_events(i: int, item: dict[str, Any], pieces: Callable[[str], list[str]]) -> list[dict[str, Any]]:
    at = {"output_index": i, "item_id": item["id"]}
    if item["type"] == "function_call":
        empty = {**item, "status": "in_progress", "arguments": ""}
        kind = "response.function_call_arguments"
        deltas = [{"type": f"{kind}.delta", **at, "delta": piece} for piece in pieces(item["arguments"])]
        done = {"type": f"{kind}.done", **at, "arguments": item["arguments"], "name": item["name"]}
    else:
        empty = {**item, "status": "in_progress", "content": []}
        part, here = item["content"][0], {**at, "content_index": 0}
        begun = {"type": "response.content_part.added", **here, "part": {**part, "text": ""}}
        text = {"type": "response.output_text.delta", **here, "logprobs": []}
        deltas = [begun, *({**text, "delta": piece} for piece in pieces(part["text"]))]
        deltas.append({"type": "response.output_text.done", **here, "text": part["text"], "logprobs": []})
        done = {"type": "response.content_part.done", **here, "part": part}
    added = {"type": "response.output_item.added", "output_index": i, "item": empty}
    ended = {"type": "response.output_item.done", "output_index": i, "item": item}
    return [added, *deltas, done, ended]


def gemini_answer(
    text: str,
    calls: list[tuple[str, str, Any]],
    pieces: Callable[[str], list[str]],
    model: str,
    counts: tuple[int, int],
    rng: random.Random,
) -> _Written:
    """An answer of Gemini: the JSON document, and the events that say the same; see ``responses_answer``."""
    made = [{"functionCall": {"name": name, "args": arguments}} for _, name, arguments in calls]
    usage = {"promptTokenCount": counts[0], "candidatesTokenCount": counts[1], "totalTokenCount": sum(counts)}
    head = {"modelVersion": model, "responseId": _hex(rng, 24)}

    def document(parts: list[Any], finish: str | None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish is not None:
            candidate["finishReason"] = finish
        return {"candidates": [candidate], "usageMetadata": usage, **head}

    texts: list[Any] = [{"text": text}] if text or not calls else []

    def events() -> list[str]:
        said: list[list[Any]] = [[{"text": piece}] for piece in pieces(text)] if texts else []
        said += [[part] for part in made]
        documents = [document(parts, "STOP" if i == len(said) - 1 else None) for i, parts in enumerate(said)]
        return [f"data: {dumps(one)}\r\n\r\n" for one in documents or [document([{"text": ""}], "STOP")]]

    return document([*texts, *made], "STOP"), events
