"""A responses answer as an event stream: put together, and written anew with other text or calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from afnb.core import sse
from afnb.core.cassette import Response
from afnb.core.jsonvalue import Json, dumps
from afnb.core.providers.base import Answer, Ask, New, error_text, json_object, obj, objs, pieces, restream
from afnb.core.providers.openai_responses_items import answer_of, finished, message_text, new_items
from afnb.core.run import Warn

_ENDS = ("response.completed", "response.incomplete", "response.failed")
_STARTS = ("response.created", "response.queued", "response.in_progress")
_PIECES = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}


@dataclass(slots=True)
class _Item:
    """One output item of a stream: what it is and the events it came in."""

    index: int
    item: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[sse.Event, dict[str, Any]]] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)
    pieces: int = 0
    done: bool = False

    def whole(self) -> dict[str, Any]:
        """The item, as far as it came."""
        if self.done:
            return self.item
        if self.item.get("type") == "message":
            texts = [{"type": "output_text", "text": self.said["text"]}] if "text" in self.said else []
            refusals = (
                [{"type": "refusal", "refusal": self.said["refusal"]}] if "refusal" in self.said else []
            )
            return {**self.item, "content": [*texts, *refusals]}
        said = {k: v for k, v in self.said.items() if k in ("arguments", "input")}
        return {**self.item, **said}


@dataclass(slots=True)
class _Stream:
    """A whole stream, taken apart."""

    head: list[tuple[sse.Event, dict[str, Any]]] = field(default_factory=list)
    items: list[_Item] = field(default_factory=list)
    tail: list[tuple[sse.Event, dict[str, Any]]] = field(default_factory=list)
    response: dict[str, Any] | None = None
    end: str | None = None
    error: str | None = None

    def output(self) -> list[Json]:
        """The items: as the last event gives them, else as they came."""
        output = obj(self.response).get("output")
        if self.end is not None and isinstance(output, list) and output:
            return output
        return [item.whole() for item in self.items]


def _take_apart(events: Iterable[sse.Event]) -> _Stream:
    stream = _Stream()
    for event in events:
        value = json_object(event.data)
        if value is None:
            continue
        kind, index = value.get("type"), value.get("output_index")
        if kind == "error" or (kind is None and value.get("error")):
            stream.error = error_text(value) or "an error without a message"
        elif kind in _ENDS:
            stream.end = str(kind)
            stream.response = obj(value.get("response"))
            stream.error = error_text(stream.response.get("error")) or stream.error
            stream.tail.append((event, value))
        elif type(index) is int:
            _take_item(stream, index, event, value)
        else:
            if kind in _STARTS:
                stream.response = stream.response or obj(value.get("response"))
            (stream.tail if stream.end else stream.head).append((event, value))
    return stream


def _take_item(stream: _Stream, index: int, event: sse.Event, value: dict[str, Any]) -> None:
    item = next((i for i in stream.items if i.index == index), None)
    if item is None:
        item = _Item(index)
        stream.items.append(item)
    item.events.append((event, value))
    kind = value.get("type")
    if kind in ("response.output_item.added", "response.output_item.done") and not item.done:
        item.item = obj(value.get("item")) or item.item
        item.done = kind == "response.output_item.done"
    part, delta = _PIECES.get(str(kind)), value.get("delta")
    if part is not None and isinstance(delta, str):
        item.said[part] = item.said.get(part, "") + delta
        item.pieces += 1


def read_stream(response: Response) -> Answer | None:
    """The answer of a stream; None if nothing but an error or a promise is in it."""
    stream = _take_apart(sse.parse(response.body))
    if not stream.items and (stream.end is None or stream.end == "response.failed" or stream.error):
        return None
    body = {**(stream.response or {}), "output": stream.output()}
    whole = stream.end is not None and stream.end != "response.failed" and stream.error is None
    answer = answer_of(body, complete=whole and not response.incomplete)
    if stream.end is None:
        answer = replace(answer, finish=None)
    notes = (Warn("text_differs", "the stream's pieces of text are not the text of its last event"),)
    differs = whole and _said_otherwise(stream)
    return replace(
        answer,
        error=stream.error,
        complete=answer.complete and stream.error is None,
        notes=notes if differs else (),
    )


def _said_otherwise(stream: _Stream) -> bool:
    """Whether the pieces of any message differ from the message that the last event gives."""
    final = {item.get("id"): item for item in objs(stream.output())}
    return any(
        item.said["text"] != message_text(final.get(item.item.get("id"), item.item))
        for item in stream.items
        if "text" in item.said
    )


# --- writing ------------------------------------------------------------------------------------


class _Out:
    """The new stream's events, numbered on; an event whose numbers stand keeps its bytes."""

    def __init__(self) -> None:
        self.events: list[sse.Event] = []
        self._number: int | None = None

    def put(self, value: dict[str, Any], event: sse.Event | None = None, **changes: Any) -> None:
        """One event: recorded (``event``) with changes, or our own."""
        number = value.get("sequence_number")
        if self._number is None:
            self._number = number if type(number) is int else 0
        changes = {k: v for k, v in changes.items() if k in value and value[k] != v}
        if event is None or number is not None:
            if number != self._number:
                changes["sequence_number"] = self._number
            self._number += 1
        if event is not None and not changes:
            self.events.append(event)
            return
        name = event.event if event is not None else value["type"]
        self.events.append(sse.Event(dumps({**value, **changes}), name))


def rewrite(ask: Ask, response: Response, new: New) -> Response:
    """The recorded stream with new text and calls; what does not change keeps its bytes."""
    stream = _take_apart(sse.parse(response.body))
    recorded = stream.output()
    out = _Out()
    for event, value in stream.head:
        out.put(value, event)
    items: list[Json] = []
    for index, (put, item) in enumerate(new_items(ask, recorded, new)):
        items.append(item)
        old = _events_of(stream, put.block, recorded)
        if put.what == "keep" and old is not None and old.done:
            for event, value in old.events:
                out.put(value, event, output_index=index)
        else:
            _put_item(out, index, obj(item), old.pieces if old else 1)
    end = finished({**(stream.response or {}), "object": "response"}, items, new.text)
    said = False
    for event, value in stream.tail:
        if value.get("type") in _ENDS:
            said = True
            out.put({**value, "type": "response.completed", "response": end})
        else:
            out.put(value, event)
    if not said:
        out.put({"type": "response.completed", "response": end})
    return restream(response, out.events)


def _events_of(stream: _Stream, block: int, recorded: Sequence[Json]) -> _Item | None:
    """The streamed item that is the ``block``-th of the output."""
    if block < 0:
        return None
    item_id = obj(recorded[block]).get("id")
    by_id = next((i for i in stream.items if item_id is not None and i.item.get("id") == item_id), None)
    return by_id or next((i for i in stream.items if i.index == block), None)


def _put_item(out: _Out, index: int, item: dict[str, Any], count: int) -> None:
    """The events that stream one whole item."""
    where = {"output_index": index, "item_id": item.get("id")}
    parts, arguments = objs(item.get("content")), item.get("arguments")
    is_text = item.get("type") == "message" and len(parts) == 1 and parts[0].get("type") == "output_text"
    is_call = item.get("type") == "function_call" and isinstance(arguments, str)
    empty: dict[str, Any] = {"content": []} if is_text else {"arguments": ""} if is_call else {}
    added = {**item, **empty, **({"status": "in_progress"} if empty else {})}
    out.put({"type": "response.output_item.added", "output_index": index, "item": added})
    if is_text:
        place, text = {**where, "content_index": 0}, message_text(item)
        out.put({"type": "response.content_part.added", **place, "part": {**parts[0], "text": ""}})
        for piece in pieces(text, count):
            out.put({"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []})
        out.put({"type": "response.output_text.done", **place, "text": text, "logprobs": []})
        out.put({"type": "response.content_part.done", **place, "part": parts[0]})
    elif is_call:
        for piece in pieces(str(arguments), count):
            out.put({"type": "response.function_call_arguments.delta", **where, "delta": piece})
        done = {"type": "response.function_call_arguments.done", **where}
        out.put({**done, "name": item.get("name"), "arguments": arguments})
    out.put({"type": "response.output_item.done", "output_index": index, "item": item})
