"""Changes to what a model is asked: its system prompt, a message left out, a message put in.

A change is pure data. It is made for one recorded request and holds for the later ones of the same
conversation as well, since an agent sends its whole history again each time. A message is known by what it
says: it is looked for at its own place first, then anywhere; cache hints do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from afnb.core.cassette import Request
from afnb.core.jsonvalue import Json, dumps, equal, loads
from afnb.core.providers import provider_of
from afnb.errors import InputError, ParameterError

SHAPES = ("openai-chat", "anthropic")
SYSTEM_ROLES = ("system", "developer")
_CALLS = ("tool_calls", "function_call")
_TOOL_BLOCKS = ("tool_use", "tool_result")


@dataclass(frozen=True, slots=True)
class RequestChange:
    """One change: ``system`` (another system prompt), ``drop`` (no such message), ``insert`` (one more).

    Parameters
    ----------
    kind
        Which.
    text
        The new system prompt; of the others the message as JSON text.
    at
        Place among the request's messages.
    after
        For ``insert``: the message before it, as JSON text; None at the beginning.
    """

    kind: Literal["system", "drop", "insert"]
    text: str
    at: int = 0
    after: str | None = None

    def to_json(self) -> dict[str, Json]:
        """As a JSON object.

        Examples
        --------
        >>> RequestChange.from_json(RequestChange("system", "Be brief.").to_json()).text
        'Be brief.'
        """
        return {"kind": self.kind, "text": self.text, "at": self.at, "after": self.after}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RequestChange:
        """What ``to_json`` wrote."""
        return cls(value["kind"], value["text"], value["at"], value["after"])


def reshape(request: Request, change: RequestChange) -> Request | None:
    """The request with the change made; None if it does not hold what the change is about.

    Examples
    --------
    >>> ask = Request("POST", "/v1/chat/completions", body=b'{"messages":[{"role":"user","content":"hi"}]}')
    >>> reshape(ask, RequestChange("system", "Be brief.")).body
    b'{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}]}'
    """
    shape = provider_of(request)
    body = _body(request)
    if shape not in SHAPES or body is None:
        return None
    changed = _with_system(body, shape, change.text) if change.kind == "system" else _moved(body, change)
    if changed is None:
        return None
    data = dumps(changed).encode("utf-8", "surrogatepass")
    headers = tuple((k, v) for k, v in request.headers if k.lower() != "content-length")
    return Request(request.method, request.path, headers, data)


def messages_of(request: Request) -> list[Json]:
    """The messages of a request whose shape can be changed.

    Raises
    ------
    ParameterError
        It is of another shape.
    """
    shape, body = provider_of(request), _body(request)
    if shape not in SHAPES or body is None:
        raise ParameterError(
            f"messages can be changed in requests of {' and '.join(SHAPES)}; this one is "
            f"{shape or 'no model request'}"
        )
    found = body.get("messages")
    return list(found) if isinstance(found, list) else []


def system_of(request: Request) -> Json:
    """The system prompt as the request holds it; None without one."""
    body = _body(request) or {}
    if provider_of(request) == "anthropic":
        return body.get("system")
    for message in messages_of(request):
        if isinstance(message, dict) and message.get("role") in SYSTEM_ROLES:
            content: Json = message.get("content")
            return content
    return None


def holds_tools(message: Json) -> bool:
    """Whether a message makes tool calls or brings a tool's result.

    Examples
    --------
    >>> holds_tools({"role": "tool", "content": "3"}), holds_tools({"role": "user", "content": "hi"})
    (True, False)
    """
    if not isinstance(message, dict):
        return False
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return (
        message.get("role") in ("tool", "function")
        or any(message.get(key) for key in _CALLS)
        or any(isinstance(block, dict) and block.get("type") in _TOOL_BLOCKS for block in blocks)
    )


def _body(request: Request) -> dict[str, Any] | None:
    try:
        value = loads(request.body)
    except InputError:
        return None
    return value if isinstance(value, dict) else None


def _with_system(body: dict[str, Any], shape: str, text: str) -> dict[str, Any]:
    if shape == "anthropic":
        rest = {key: value for key, value in body.items() if key != "system"}
        return {**rest, "system": text} if text else rest
    messages = list(body.get("messages") or [])
    at = next(
        (i for i, m in enumerate(messages) if isinstance(m, dict) and m.get("role") in SYSTEM_ROLES), -1
    )
    if at >= 0 and text:
        messages[at] = {**messages[at], "content": text}
    elif at >= 0:
        del messages[at]
    elif text:
        messages.insert(0, {"role": "system", "content": text})
    return {**body, "messages": messages}


def _moved(body: dict[str, Any], change: RequestChange) -> dict[str, Any] | None:
    messages = list(body.get("messages") or [])
    wanted = loads(change.text)
    if change.kind == "drop":
        at = _place(messages, wanted, change.at)
        if at is None:
            return None
        del messages[at]
    elif change.after is None:
        messages.insert(0, wanted)
    else:
        at = _place(messages, loads(change.after), change.at - 1)
        if at is None:
            return None
        messages.insert(at + 1, wanted)
    return {**body, "messages": messages}


def _place(messages: list[Json], message: Json, at: int) -> int | None:
    """Where a message stands: at its own place, else the first that says the same; None if none does."""
    plain = _plain(message)
    places = [at, *range(len(messages))]
    return next((i for i in places if 0 <= i < len(messages) and equal(_plain(messages[i]), plain)), None)


def _plain(value: Json) -> Json:
    """Without cache hints."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key != "cache_control"}
    return [_plain(item) for item in value] if isinstance(value, list) else value
