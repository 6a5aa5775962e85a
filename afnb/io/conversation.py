"""``Conversation``: what a made-up model sees of a request, whichever provider's shape it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afnb.core.cassette import Request
from afnb.core.jsonvalue import dumps, loads
from afnb.core.providers import offered_tools, read_turns
from afnb.io.answers import Call, body_of, shape_of
from afnb.io.answers_more import gemini_model


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one tool call as the agent sent it back; ``name`` is the tool's, if the call is known."""

    name: str | None
    call_id: str
    text: str

    @property
    def value(self) -> Any:
        """The result as JSON where it is JSON, else its text."""
        try:
            return loads(self.text)
        except ValueError:
            return self.text


@dataclass(frozen=True, slots=True)
class Message:
    """One message: who, what text, which calls it makes and which results it carries."""

    role: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[ToolResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """One model request, read.

    Parameters
    ----------
    system
        System (or developer) text.
    messages
        The other messages, in order.
    tools
        Names of the tools on offer.
    model
        The model asked for.
    body
        The whole request body.
    occurrence
        How often this very request had been asked before, in this run.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...] = ()
    model: str = ""
    body: Mapping[str, Any] | None = None
    occurrence: int = 0

    @property
    def user(self) -> str:
        """Text of the first user message: the task."""
        return next((m.text for m in self.messages if m.role == "user" and m.text), "")

    @property
    def last(self) -> Message:
        """The last message (an empty one if there is none)."""
        return self.messages[-1] if self.messages else Message("user")

    @property
    def turn(self) -> int:
        """How many answers the model has given so far: 0 for the first request of a conversation."""
        return sum(1 for m in self.messages if m.role == "assistant")

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """All tool results so far, in order."""
        return tuple(result for m in self.messages for result in m.results)

    def result_of(self, tool: str) -> Any:
        """Latest result of the tool called ``tool`` (JSON where it is), or None."""
        return next((r.value for r in reversed(self.results) if r.name == tool), None)

    def called(self, tool: str) -> bool:
        """Whether the model has called ``tool``."""
        return any(call.name == tool for m in self.messages for call in m.calls)

    def says(self, text: str) -> bool:
        """Whether ``text`` occurs in any message or tool result."""
        return any(text in m.text or any(text in r.text for r in m.results) for m in self.messages)


def read_conversation(request: Request, occurrence: int = 0) -> Conversation | None:
    """Read a request of a shape that is simulated (see ``answers.shape_of``); None for any other.

    Examples
    --------
    >>> body = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
    >>> read_conversation(Request("POST", "/v1/messages", body=body)).user
    'hi'
    """
    shape, body = shape_of(request), body_of(request)
    if shape is None:
        return None
    if shape not in ("openai.chat", "anthropic.messages"):
        return _from_turns(request, body, occurrence)
    listed = [m for m in _list(body.get("messages")) if isinstance(m, dict)]
    chat = shape == "openai.chat"
    names: dict[str, str] = {}
    messages = [_chat_message(m, names) if chat else _anthropic_message(m, names) for m in listed]
    system = _text(body.get("system"))
    if chat:
        system = "\n".join(m.text for m in messages if m.role in ("system", "developer"))
        messages = [m for m in messages if m.role not in ("system", "developer")]
    tools = [t.get("function", t) if chat else t for t in _list(body.get("tools")) if isinstance(t, dict)]
    return Conversation(
        system,
        tuple(messages),
        tuple(str(t["name"]) for t in tools if isinstance(t, dict) and "name" in t),
        str(body.get("model", "")),
        body,
        occurrence,
    )


def _from_turns(request: Request, body: dict[str, Any], occurrence: int) -> Conversation:
    """A request of any shape that ``core.providers`` reads."""
    system: list[str] = []
    messages: list[Message] = []
    names: dict[str, str] = {}
    for turn in read_turns(request):
        if turn.role == "system":
            system.append(turn.text)
            continue
        names.update((call.id, call.name) for call in turn.calls)
        calls = tuple(Call(call.name, call.arguments, call.id) for call in turn.calls)
        results = tuple(
            ToolResult(
                one.name or names.get(one.call_id),
                one.call_id,
                one.value if isinstance(one.value, str) else dumps(one.value),
            )
            for one in turn.results
        )
        messages.append(Message(turn.role, turn.text, calls, results))
    model = body.get("model") or gemini_model(request)
    return Conversation(
        "\n".join(system), tuple(messages), offered_tools(request), str(model), body, occurrence
    )


def _chat_message(message: dict[str, Any], names: dict[str, str]) -> Message:
    role = str(message.get("role", ""))
    text = _text(message.get("content"))
    if role == "tool":
        call_id = str(message.get("tool_call_id", ""))
        return Message("tool", "", (), (ToolResult(names.get(call_id), call_id, text),))
    calls = []
    for item in _list(message.get("tool_calls")):
        function = item.get("function") if isinstance(item, dict) else None
        if isinstance(function, dict):
            call_id, name = str(item.get("id", "")), str(function.get("name", ""))
            names[call_id] = name
            calls.append(Call(name, _json(function.get("arguments")), call_id))
    return Message(role, text, tuple(calls))


def _anthropic_message(message: dict[str, Any], names: dict[str, str]) -> Message:
    content = message.get("content")
    texts, calls, results = [], [], []
    for block in [content] if isinstance(content, str) else _list(content):
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(block, str):
            texts.append(block)
        elif kind == "text":
            texts.append(str(block.get("text", "")))
        elif kind == "tool_use":
            names[str(block.get("id", ""))] = str(block.get("name", ""))
            calls.append(Call(str(block.get("name", "")), block.get("input"), str(block.get("id", ""))))
        elif kind == "tool_result":
            call_id = str(block.get("tool_use_id", ""))
            results.append(ToolResult(names.get(call_id), call_id, _text(block.get("content"))))
    return Message(str(message.get("role", "")), "".join(texts), tuple(calls), tuple(results))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [part.get("text", "") if isinstance(part, dict) else part for part in _list(content)]
    return "".join(part for part in parts if isinstance(part, str))


def _json(text: Any) -> Any:
    try:
        return loads(text) if isinstance(text, str) else text
    except ValueError:
        return text
