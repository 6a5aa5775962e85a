"""Anthropic messages as an event stream: put together, and written anew with other text or calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from afnb.core import sse
from afnb.core.cassette import Response
from afnb.core.jsonvalue import Json, dumps, equal
from afnb.core.providers.base import (
    Ask,
    New,
    error_text,
    json_value,
    obj,
    parsed_or_text,
    pieces,
    restream,
    text_or_none,
)
from afnb.core.providers.changes import Kind, fresh_id, plan

FINISH = "stop_reason"
SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
_CUT = (None, "max_tokens", "refusal", "model_context_window_exceeded")


@dataclass(slots=True)
class Block:
    """One content block of a stream: its start, its pieces and the events it came in."""

    index: int
    start: dict[str, Any]
    events: list[tuple[sse.Event, dict[str, Any]]] = field(default_factory=list)
    text: str = ""
    partial_json: str = ""
    text_pieces: int = 0
    json_pieces: int = 0
    closed: bool = False

    def add(self, delta: dict[str, Any]) -> None:
        """Take one delta."""
        text, partial = delta.get("text"), delta.get("partial_json")
        if isinstance(text, str):
            self.text += text
            self.text_pieces += 1
        elif isinstance(partial, str):
            self.partial_json += partial
            self.json_pieces += 1

    def whole(self) -> dict[str, Any]:
        """The block as a plain answer would hold it (text and input; other deltas are left out)."""
        block = dict(self.start)
        if block.get("type") == "text":
            block["text"] = (text_or_none(block.get("text")) or "") + self.text
        elif self.partial_json:
            block["input"] = parsed_or_text(self.partial_json)
        return block


@dataclass(slots=True)
class Stream:
    """A whole stream, taken apart: what stands before the blocks, the blocks, what follows."""

    head: list[sse.Event] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    tail: list[tuple[sse.Event, dict[str, Any]]] = field(default_factory=list)
    message: dict[str, Any] | None = None
    error: str | None = None
    stopped: bool = False


def take_apart(events: Sequence[sse.Event]) -> Stream:
    """Take the events of one answer apart. Repeated starts, pings and unknown events are tolerated."""
    stream = Stream()
    current: Block | None = None
    for event in events:
        value = json_value(event.data)
        if not isinstance(value, dict):
            continue
        kind = value.get("type")
        index = value.get("index")
        if kind == "message_start":
            stream.message = stream.message or dict(obj(value.get("message")))
            stream.head.append(event)
        elif kind == "error" or (kind is None and value.get("error")):
            stream.error = error_text(value) or "an error without a message"
        elif kind == "content_block_start":
            current = Block(
                index if type(index) is int else len(stream.blocks), obj(value.get("content_block"))
            )
            current.events.append((event, value))
            stream.blocks.append(current)
        elif kind in ("content_block_delta", "content_block_stop"):
            block = next((b for b in stream.blocks if b.index == index), current)
            if block is None:
                continue
            block.events.append((event, value))
            block.add(obj(value.get("delta")))
            block.closed = block.closed or kind == "content_block_stop"
        elif kind in ("message_delta", "message_stop"):
            stream.tail.append((event, value))
            stream.stopped = stream.stopped or kind == "message_stop"
            _take_delta(stream, value)
        elif current is not None and not stream.tail:
            current.events.append((event, value))
        elif stream.tail:
            stream.tail.append((event, value))
        else:
            stream.head.append(event)
    return stream


def _take_delta(stream: Stream, value: dict[str, Any]) -> None:
    """A message_delta's stop reason and usage; its counts are totals and replace earlier ones."""
    message = dict(stream.message or {})
    message.update({k: v for k, v in obj(value.get("delta")).items() if v is not None})
    counts = {k: v for k, v in obj(value.get("usage")).items() if v is not None}
    message["usage"] = {**obj(message.get("usage")), **counts}
    stream.message = message


def ended(stream: Stream) -> bool:
    """Whether the stream came to its end, without an error."""
    return stream.stopped and stream.error is None


# --- writing ------------------------------------------------------------------------------------


def kind_of(block: Json) -> Kind:
    """What a content block is to a new answer: text, a call of the agent, or a part that stays."""
    kind = obj(block).get("type")
    return "text" if kind == "text" else "call" if kind == "tool_use" else "keep"


def finish_word(recorded: str | None, new: New) -> str:
    """A stop reason that fits: calls are ``tool_use``, text alone is ``end_turn``.

    A recorded reason stays where it still holds; one that says the answer was cut does not.
    """
    if bool(new.calls) == bool(new.recorded_calls) and recorded is not None and recorded not in _CUT:
        return recorded
    return "tool_use" if new.calls else "end_turn"


def new_call_id(ask: Ask, new: New, index: int) -> str:
    """The recorded id of the call at this position, or a fresh one."""
    return new.calls[index].id or fresh_id(ask, index, "toolu_")


def rewrite(ask: Ask, response: Response, new: New) -> Response:
    """The recorded stream with new text and calls; untouched events keep their bytes."""
    return restream(response, rewrite_events(ask, sse.parse(response.body), new))


def rewrite_events(ask: Ask, events: Sequence[sse.Event], new: New) -> list[sse.Event]:
    """The events of the new answer."""
    stream = take_apart(events)
    out = list(stream.head)
    for index, put in enumerate(plan([kind_of(b.start) for b in stream.blocks], new)):
        block = stream.blocks[put.block] if put.block >= 0 else None
        if put.what == "keep" and block is not None:
            out.extend(_kept(block, index))
        elif put.what == "text":
            start = {"type": "text", **(block.start if block else {}), "text": ""}
            if start.get("citations"):
                start["citations"] = None
            deltas = pieces(new.text, block.text_pieces if block else 1)
            out.extend(_made(index, start, [{"type": "text_delta", "text": d} for d in deltas], block))
        else:
            call = new.calls[put.call]
            start = {"type": "tool_use", **(block.start if block else {})}
            start.update({"id": new_call_id(ask, new, put.call), "name": call.name, "input": {}})
            deltas = pieces(dumps(call.arguments), block.json_pieces if block else 1)
            out.extend(
                _made(index, start, [{"type": "input_json_delta", "partial_json": d} for d in deltas], block)
            )
    return out + _tail(stream, new)


def _event(value: dict[str, Any]) -> sse.Event:
    return sse.Event(dumps(value), event=value["type"])


def _kept(block: Block, index: int) -> list[sse.Event]:
    """A recorded block's events, renumbered if need be and closed if the stream was cut inside it."""
    events = [
        event if block.index == index or "index" not in value
        else sse.Event(dumps({**value, "index": index}), event.event, event.id)
        for event, value in block.events
    ]  # fmt: skip
    return events if block.closed else [*events, _event({"type": "content_block_stop", "index": index})]


def _made(
    index: int, start: dict[str, Any], deltas: Sequence[dict[str, Any]], block: Block | None
) -> list[sse.Event]:
    """A block's events with new deltas; its start and stop as recorded where nothing changes in them."""
    first = _event({"type": "content_block_start", "index": index, "content_block": start})
    last = _event({"type": "content_block_stop", "index": index})
    if block is not None and block.index == index:
        if equal(start, block.start):
            first = block.events[0][0]
        last = next((e for e, value in block.events if value.get("type") == "content_block_stop"), last)
    middle = [_event({"type": "content_block_delta", "index": index, "delta": d}) for d in deltas]
    return [first, *middle, last]


def _tail(stream: Stream, new: New) -> list[sse.Event]:
    """The end of the stream: a stop reason that fits, the recorded usage, and the stop."""
    message = stream.message or {}
    recorded = text_or_none(message.get(FINISH))
    word = finish_word(recorded, new)
    out: list[sse.Event] = []
    said = False
    for event, value in stream.tail:
        delta = obj(value.get("delta"))
        if value.get("type") == "message_delta" and FINISH in delta:
            said = True
            if delta[FINISH] != word:
                delta = {**delta, FINISH: word}
                if delta.get("stop_sequence") is not None:
                    delta["stop_sequence"] = None
                event = sse.Event(dumps({**value, "delta": delta}), event.event, event.id)
        if value.get("type") == "message_stop" and not said:
            out.append(_end(message, word))
            said = True
        out.append(event)
    if not said:
        out.append(_end(message, word))
    if not stream.stopped:
        out.append(_event({"type": "message_stop"}))
    return out


def _end(message: dict[str, Any], word: str) -> sse.Event:
    usage = {"output_tokens": obj(message.get("usage")).get("output_tokens", 0)}
    delta = {FINISH: word, "stop_sequence": None}
    return _event({"type": "message_delta", "delta": delta, "usage": usage})
