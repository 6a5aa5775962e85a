"""Chat completions as an event stream: put together, and written anew with other text or calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from afnb.core import sse
from afnb.core.cassette import Response
from afnb.core.jsonvalue import Json, dumps
from afnb.core.providers.base import (
    Answer,
    Ask,
    New,
    ToolCall,
    Usage,
    error_text,
    json_value,
    obj,
    objs,
    parsed_or_text,
    pieces,
    restream,
    text_or_none,
    usage_of,
)
from afnb.core.providers.changes import arguments_text, fresh_id
from afnb.core.run import Warn


def first_choice(body: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The choice with index 0; the only one agents read."""
    choices = objs(body.get("choices")) if body else []
    return next((c for c in choices if c.get("index", 0) in (0, None)), None)


def call_id(ask: Ask, new: New, index: int) -> str:
    """The recorded id of the call at this position, or a fresh one."""
    return new.calls[index].id or fresh_id(ask, index, "call_")


def finish_word(recorded: str | None, new: New, legacy: bool) -> str:
    """A finish reason that fits: calls are ``tool_calls``, text alone is ``stop``.

    A recorded reason stays where it still holds; one that says the answer was cut does not.
    """
    if bool(new.calls) == bool(new.recorded_calls) and recorded not in (None, "length", "content_filter"):
        return recorded
    if not new.calls:
        return "stop"
    return "function_call" if legacy and len(new.calls) == 1 else "tool_calls"


_USAGE = ("prompt_tokens", "completion_tokens")


class CallPieces:
    """Tells which call a streamed piece belongs to; servers that leave the index out are understood."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self._by_index: dict[int, int] = {}

    def add(self, piece: dict[str, Any]) -> int:
        """Take one piece; the position of its call among the calls."""
        index, call_id, function = piece.get("index"), piece.get("id"), obj(piece.get("function"))
        position = self._by_index.get(index) if type(index) is int else None
        if position is None and type(index) is not int and self.calls and not call_id:
            position = len(self.calls) - 1
        if position is not None and call_id and self.calls[position]["id"] not in ("", call_id):
            position = None  # another call under the same index
        if position is None:
            position = len(self.calls)
            self.calls.append({"id": "", "name": "", "arguments": "", "pieces": 0})
        if type(index) is int:
            self._by_index[index] = position
        call = self.calls[position]
        call["id"] = call["id"] or text_or_none(call_id) or ""
        name = text_or_none(function.get("name")) or ""
        call["name"] += name if name != call["name"] else ""
        arguments = function.get("arguments")
        if isinstance(arguments, str) and isinstance(call["arguments"], str):
            call["arguments"] += arguments
        elif arguments is not None:
            call["arguments"] = arguments
        call["pieces"] += 1
        return position


def read_stream(response: Response) -> Answer | None:
    """The first choice of a stream; None if no chunk holds one."""
    text: list[str] = []
    refusal: list[str] = []
    tool, legacy = CallPieces(), CallPieces()
    finish: str | None = None
    usage: Usage | None = None
    model: str | None = None
    error: str | None = None
    done = seen = False
    for event in sse.parse(response.body):
        if _is_done(event):
            done = True
            continue
        chunk = json_value(event.data)
        if not isinstance(chunk, dict):
            continue
        if chunk.get("error"):
            error = error_text(chunk) or "an error without a message"
            continue
        model = model or text_or_none(chunk.get("model")) or None
        for holder in (obj(chunk.get("x_groq")), chunk):
            usage = usage_of(holder.get("usage"), *_USAGE) or usage
        choice = first_choice(chunk)
        if choice is None:
            continue
        seen = True
        delta = obj(choice.get("delta"))
        text.append(_delta_text(delta.get("content")))
        refusal.append(text_or_none(delta.get("refusal")) or "")
        for piece in objs(delta.get("tool_calls")):
            tool.add(piece)
        if isinstance(delta.get("function_call"), dict):
            legacy.add({"index": 0, "function": delta["function_call"]})
        finish = text_or_none(choice.get("finish_reason")) or finish
    if not seen:
        return None
    complete = error is None and not response.incomplete and (finish is not None or done)
    calls = [ToolCall(c["id"], c["name"], parsed_or_text(c["arguments"])) for c in tool.calls + legacy.calls]
    return Answer(
        text="".join(text) or "".join(refusal),
        tool_calls=tuple(calls),
        finish=finish,
        usage=usage,
        model=model,
        role_name=None,
        complete=complete,
        error=error,
        notes=(Warn("no_end_marker", "the stream has no [DONE]"),) if complete and not done else (),
    )


def _delta_text(content: Json) -> str:
    if isinstance(content, list):
        return "".join(p["text"] for p in objs(content) if isinstance(p.get("text"), str))
    return text_or_none(content) or ""


# --- writing ------------------------------------------------------------------------------------


class _Writer:
    """Goes through a recorded stream, takes out what changes and puts the new parts in its place."""

    def __init__(self, ask: Ask, new: New, template: dict[str, Any], recorded: CallPieces) -> None:
        self.new = new
        self.out: list[sse.Event] = []
        self._ask = ask
        self._template = template
        self._recorded = recorded
        self._legacy = False
        self._seen = CallPieces()
        self._text_pieces = 0
        self._text_due = new.text_changed and bool(new.text)
        self._calls_due = [i for i, call in enumerate(new.calls) if not call.same]
        self.finished = False

    def count_text(self, chunks: Iterable[dict[str, Any]]) -> None:
        """Remember in how many pieces the recorded text came."""
        self._text_pieces = sum(
            1 for c in chunks if _delta_text(obj(obj(first_choice(c)).get("delta")).get("content"))
        )
        self._legacy = any(
            isinstance(obj(obj(first_choice(c)).get("delta")).get("function_call"), dict) for c in chunks
        )

    def take(self, event: sse.Event, chunk: dict[str, Any]) -> None:
        """One recorded chunk: kept as it was, or rewritten."""
        choice = first_choice(chunk)
        if choice is None:
            self.out.append(event)
            return
        delta = dict(obj(choice.get("delta")))
        text_gone = self._strip_text(delta)
        calls_gone = self._strip_calls(delta)
        finish = text_or_none(choice.get("finish_reason"))
        if finish is None:
            if not text_gone and not calls_gone:
                self.out.append(event)
                return
            if _says_something(delta) or len(chunk["choices"]) > 1:
                self.out.append(self._event(event, chunk, choice, delta, None))
            if text_gone:
                self._put_text()
            for index in calls_gone:
                self._put_call(index)
            return
        word = finish_word(finish, self.new, self._legacy)
        role_first = bool(delta.get("role")) and (self._text_due or bool(self._calls_due))
        if role_first:
            self.out.append(self.made({"role": delta.pop("role"), "content": None}))
        self.put_due()
        self.finished = True
        if text_gone or calls_gone or role_first or word != finish:
            event = self._event(event, chunk, choice, delta, word)
        self.out.append(event)

    def _strip_text(self, delta: dict[str, Any]) -> bool:
        if not self.new.text_changed:
            return False
        gone = bool(_delta_text(delta.get("content")) or delta.get("refusal"))
        if gone:
            delta.pop("refusal", None)
            delta.pop("content", None)
        return gone

    def _strip_calls(self, delta: dict[str, Any]) -> list[int]:
        """Take the pieces of changed calls out; which calls they belonged to."""
        if isinstance(delta.get("function_call"), dict):
            if not self.new.calls_changed:
                return []
            delta.pop("function_call")
            return [0]
        gone: list[int] = []
        kept: list[dict[str, Any]] = []
        for piece in objs(delta.get("tool_calls")):
            index = self._seen.add(piece)
            if index < len(self.new.calls) and self.new.calls[index].same:
                kept.append(piece)
            else:
                gone.append(index)
        if gone:
            delta.pop("tool_calls")
            if kept:
                delta["tool_calls"] = kept
        return gone

    def _event(
        self,
        event: sse.Event,
        chunk: dict[str, Any],
        choice: dict[str, Any],
        delta: dict[str, Any],
        finish: str | None,
    ) -> sse.Event:
        changed = {**choice, "delta": delta}
        if "finish_reason" in choice or finish:
            changed["finish_reason"] = finish
        if self.new.text_changed and choice.get("logprobs") is not None:
            changed["logprobs"] = None
        choices = [changed if c is choice else c for c in chunk["choices"]]
        return sse.Event(dumps({**chunk, "choices": choices}), event.event, event.id)

    def made(self, delta: dict[str, Any], finish: str | None = None) -> sse.Event:
        """A chunk of our own, in the recorded envelope."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return sse.Event(dumps({**self._template, "choices": [choice]}))

    def put_due(self) -> None:
        """Everything new that has found no place yet."""
        self._put_text()
        for index in list(self._calls_due):
            self._put_call(index)

    def _put_text(self) -> None:
        if self._text_due:
            self._text_due = False
            self.out.extend(self.made({"content": p}) for p in pieces(self.new.text, self._text_pieces))

    def _put_call(self, index: int) -> None:
        if index not in self._calls_due:
            return
        self._calls_due.remove(index)
        call = self.new.calls[index]
        arguments = arguments_text(call.arguments)
        if self._legacy and len(self.new.calls) == 1:
            self.out.append(self.made({"function_call": {"name": call.name, "arguments": arguments}}))
            return
        known = self._recorded.calls
        count = known[min(index, len(known) - 1)]["pieces"] if known else 1  # in one: all SDKs take it
        head = {"index": index, "id": call_id(self._ask, self.new, index), "type": "function"}
        if count <= 1:
            parts = [{**head, "function": {"name": call.name, "arguments": arguments}}]
        else:
            parts = [{**head, "function": {"name": call.name, "arguments": ""}}]
            parts += [
                {"index": index, "function": {"arguments": piece}} for piece in pieces(arguments, count - 1)
            ]
        self.out.extend(self.made({"tool_calls": [part]}) for part in parts)


def _says_something(delta: Mapping[str, Any]) -> bool:
    return any(value not in (None, "", []) for value in delta.values())


def rewrite(ask: Ask, response: Response, new: New) -> Response:
    """The recorded stream with new text and calls; untouched events keep their bytes."""
    events = sse.parse(response.body)
    chunks = [json_value(event.data) for event in events]
    answering = [c for c in chunks if isinstance(c, dict) and first_choice(c) is not None]
    recorded = CallPieces()
    for chunk in answering:
        for piece in objs(obj(obj(first_choice(chunk)).get("delta")).get("tool_calls")):
            recorded.add(piece)
    template = {k: v for k, v in answering[0].items() if k not in ("choices", "obfuscation")}
    if template.get("usage") is not None:
        del template["usage"]
    writer = _Writer(ask, new, template, recorded)
    writer.count_text(answering)
    last = max(i for i, c in enumerate(chunks) if isinstance(c, dict) and first_choice(c) is not None)
    for i, (event, chunk) in enumerate(zip(events, chunks, strict=True)):
        if isinstance(chunk, dict):
            if not chunk.get("error"):
                writer.take(event, chunk)
        elif event.terminated or _is_done(event):
            writer.out.append(event)
        if i == last and not writer.finished:  # the recording was cut; the new answer is whole
            writer.put_due()
            writer.out.append(writer.made({}, finish_word(None, new, legacy=False)))
            if not any(map(_is_done, events)):
                return restream(response, [*writer.out, *_usage_only(events[i + 1 :]), sse.Event("[DONE]")])
    return restream(response, writer.out)


def _is_done(event: sse.Event) -> bool:
    return event.data.strip() == "[DONE]"


def _usage_only(events: Iterable[sse.Event]) -> list[sse.Event]:
    """Of what follows a cut answer, the chunks that report usage."""
    return [event for event in events if usage_of(obj(json_value(event.data)).get("usage"), *_USAGE)]
