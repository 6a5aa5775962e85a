"""Bedrock answers as AWS event frames: put together, and written anew with other text or calls."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from afnb.core import awsstream, sse
from afnb.core.cassette import Response
from afnb.core.jsonvalue import Json, dumps
from afnb.core.providers.anthropic_stream import rewrite_events
from afnb.core.providers.base import (
    Ask,
    New,
    error_text,
    json_object,
    obj,
    parsed_or_text,
    pieces,
    text_or_none,
    with_parts,
)
from afnb.core.providers.changes import Kind, Put, fresh_id, plan

_CUT = (None, "max_tokens", "guardrail_intervened", "content_filtered", "model_context_window_exceeded")


def kind_of(block: Json) -> Kind:
    """What a content block is to a new answer: text, a call of the agent, or a part that stays."""
    if isinstance(obj(block).get("text"), str):
        return "text"
    return "call" if isinstance(obj(block).get("toolUse"), dict) else "keep"


def finish_word(recorded: str | None, new: New) -> str:
    """A stop reason that fits: calls are ``tool_use``, text alone is ``end_turn``."""
    if bool(new.calls) == bool(new.recorded_calls) and recorded is not None and recorded not in _CUT:
        return recorded
    return "tool_use" if new.calls else "end_turn"


def new_block(ask: Ask, blocks: Sequence[Json], put: Put, new: New) -> dict[str, Any]:
    """A block of the new answer in place of a recorded one (or of none)."""
    old = obj(blocks[put.block]) if put.block >= 0 else {}
    if put.what == "text":
        return {**old, "text": new.text}
    call = new.calls[put.call]
    call_id = call.id or fresh_id(ask, put.call, "tooluse_", 22)
    use = {**obj(old.get("toolUse")), "toolUseId": call_id, "name": call.name, "input": call.arguments}
    return {**old, "toolUse": use}


# --- converse-stream ----------------------------------------------------------------------------


@dataclass(slots=True)
class Block:
    """One content block of a stream and the frames it came in."""

    index: int
    start: dict[str, Any] = field(default_factory=dict)
    frames: list[tuple[awsstream.Frame, dict[str, Any]]] = field(default_factory=list)
    text: str | None = None
    input: str = ""
    pieces: int = 0
    closed: bool = False

    def whole(self) -> dict[str, Any]:
        """The block as a plain answer would hold it; reasoning is only named."""
        if isinstance(self.start.get("toolUse"), dict):
            return {
                "toolUse": {
                    **self.start["toolUse"],
                    "input": parsed_or_text(self.input) if self.input else {},
                }
            }
        return {"reasoningContent": {}} if self.text is None else {"text": self.text}


@dataclass(slots=True)
class Stream:
    """A whole stream, taken apart."""

    head: list[awsstream.Frame] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    tail: list[tuple[awsstream.Frame, dict[str, Any]]] = field(default_factory=list)
    stop_reason: str | None = None
    usage: Json = None
    stopped: bool = False
    error: str | None = None


def read_blocks(response: Response) -> Stream:
    """Take the frames of a converse stream apart."""
    stream = Stream()
    frames, _ = awsstream.parse(response.body)
    for frame in frames:
        value = json_object(frame.payload) or {}
        kind = frame.header(":event-type")
        if (error := frame_error(frame)) is not None:
            stream.error = error
        elif type(value.get("contentBlockIndex")) is int:
            _take(stream, str(kind), frame, value)
        elif kind in ("messageStop", "metadata"):
            stream.tail.append((frame, value))
            stream.stopped = stream.stopped or kind == "messageStop"
            stream.stop_reason = text_or_none(value.get("stopReason")) or stream.stop_reason
            stream.usage = value.get("usage") or stream.usage
        else:
            stream.head.append(frame)
    return stream


def frame_error(frame: awsstream.Frame) -> str | None:
    """The sentence of an exception frame, None for any other."""
    if frame.header(":message-type") not in ("exception", "error"):
        return None
    name = frame.header(":exception-type") or frame.header(":error-code") or "exception"
    return (
        f"{name}: {error_text(json_object(frame.payload)) or frame.header(':error-message') or 'no message'}"
    )


def _take(stream: Stream, kind: str, frame: awsstream.Frame, value: dict[str, Any]) -> None:
    index = value["contentBlockIndex"]
    block = next((b for b in stream.blocks if b.index == index), None)
    if block is None:
        block = Block(index)
        stream.blocks.append(block)
    block.frames.append((frame, value))
    block.start = block.start or obj(value.get("start"))
    delta = obj(value.get("delta"))
    if isinstance(delta.get("text"), str):
        block.text = (block.text or "") + delta["text"]
        block.pieces += 1
    said = obj(delta.get("toolUse")).get("input")
    if isinstance(said, str):
        block.input += said
        block.pieces += 1
    block.closed = block.closed or kind == "contentBlockStop"


def rewrite(ask: Ask, response: Response, new: New) -> Response:
    """The recorded converse stream with new text and calls; untouched frames keep their bytes."""
    stream = read_blocks(response)
    parts = [frame.raw for frame in stream.head]
    blocks: list[Json] = [block.whole() for block in stream.blocks]
    for index, put in enumerate(plan([kind_of(block) for block in blocks], new)):
        old = stream.blocks[put.block] if put.block >= 0 else None
        if put.what == "keep" and old is not None:
            parts += _kept(old, index)
        else:
            parts += _made(index, new_block(ask, blocks, put, new), old.pieces if old else 1)
    word = finish_word(stream.stop_reason, new)
    if not stream.stopped:
        parts.append(_frame("messageStop", {"stopReason": word}))
    for frame, value in stream.tail:
        changed = "stopReason" in value and value["stopReason"] != word
        parts.append(_frame("messageStop", {**value, "stopReason": word}) if changed else frame.raw)
    return with_parts(response, parts)


def _frame(kind: str, value: Json) -> bytes:
    return awsstream.make(kind, dumps(value).encode())


def _kept(block: Block, index: int) -> list[bytes]:
    parts = [
        frame.raw
        if block.index == index
        else _frame(frame.header(":event-type") or "", {**value, "contentBlockIndex": index})
        for frame, value in block.frames
    ]
    return parts if block.closed else [*parts, _frame("contentBlockStop", {"contentBlockIndex": index})]


def _made(index: int, block: dict[str, Any], count: int) -> list[bytes]:
    place = {"contentBlockIndex": index}
    use = block.get("toolUse")
    if use is None:
        deltas: list[Json] = [{"text": piece} for piece in pieces(block["text"], count)]
        start = []
    else:
        deltas = [{"toolUse": {"input": piece}} for piece in pieces(dumps(use["input"]), count)]
        rest = {k: v for k, v in use.items() if k != "input"}
        start = [_frame("contentBlockStart", {**place, "start": {"toolUse": rest}})]
    made = [_frame("contentBlockDelta", {**place, "delta": delta}) for delta in deltas]
    return [*start, *made, _frame("contentBlockStop", place)]


# --- invoke-with-response-stream ----------------------------------------------------------------


def invoke_events(response: Response) -> list[sse.Event]:
    """The Anthropic events that the frames of an invoke stream hold; an exception is an error event."""
    return [event for _, event in _invoke_pairs(response)]


def _invoke_pairs(response: Response) -> list[tuple[awsstream.Frame, sse.Event]]:
    pairs: list[tuple[awsstream.Frame, sse.Event]] = []
    frames, _ = awsstream.parse(response.body)
    for frame in frames:
        value = json_object(frame.payload) or {}
        if frame.header(":message-type") in ("exception", "error"):
            kind = frame.header(":exception-type") or "exception"
            error = {"type": kind, "message": value.get("message") or "no message"}
            pairs.append((frame, sse.Event(dumps({"type": "error", "error": error}))))
            continue
        try:
            data = base64.b64decode(value.get("bytes", ""), validate=True)
        except (binascii.Error, TypeError, ValueError):
            continue
        pairs.append((frame, sse.Event(data.decode("utf-8", "surrogateescape"))))
    return pairs


def rewrite_invoke(ask: Ask, response: Response, new: New) -> Response:
    """The recorded invoke stream with new text and calls; untouched frames keep their bytes."""
    pairs = _invoke_pairs(response)
    frame_of = {id(event): frame for frame, event in pairs}
    parts = [
        frame_of[id(event)].raw if id(event) in frame_of else _chunk(event)
        for event in rewrite_events(ask, [event for _, event in pairs], new)
    ]
    return with_parts(response, parts)


def _chunk(event: sse.Event) -> bytes:
    return _frame(
        "chunk", {"bytes": base64.b64encode(event.data.encode("utf-8", "surrogateescape")).decode()}
    )
