"""Small made-up recordings and agents for the faults that people meet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from afnb.core.cassette import Cassette, Exchange, Request, Response

JSON = (("content-type", "application/json"),)
SSE = (("content-type", "text/event-stream"),)
CHAT, CLAUDE = "/v1/chat/completions", "/v1/messages"


def post(body: Any, path: str = CHAT) -> Request:
    """A request with a JSON body."""
    return Request("POST", path, JSON, json.dumps(body).encode())


def ask(*messages: Any, **fields: Any) -> Request:
    """A chat request: texts are the user's."""
    listed = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
    return post({"model": "m", "messages": listed, **fields})


def said(text: str = "", *calls: tuple[str, str, Any], finish: str | None = None) -> Response:
    """A chat answer; calls are (id, name, arguments)."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
            for i, n, a in calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish or ("tool_calls" if calls else "stop")}
    return Response(200, JSON, json.dumps({"id": "x", "model": "m", "choices": [choice]}).encode())


def text_of(response: Response) -> str:
    """The text of a chat answer."""
    return str(json.loads(response.body)["choices"][0]["message"]["content"])


def recording(*pairs: tuple[Request, Response], id: str = "made") -> Cassette:
    """A recording of these exchanges."""
    return Cassette(id, tuple(Exchange(i, request, response) for i, (request, response) in enumerate(pairs)))


def events(values: Iterable[Any], *, named: bool = False, end: bytes = b"") -> bytes:
    """A stream of JSON events."""
    parts = []
    for value in values:
        name = f"event: {value['type']}\n" if named else ""
        parts.append(f"{name}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode())
    return b"".join(parts) + end


def chunk(content: str | None = None, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """One event of a chat stream."""
    more = {} if content is None else {"content": content}
    choice = {"index": 0, "delta": {**more, **delta}, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def asking(requests: Sequence[Request]) -> Any:
    """An agent that asks exactly these requests, and answers with the last answer's text."""

    def agent(ctx: Any) -> str:
        last = ""
        with ctx.http_client("httpx") as client:
            for request in requests:
                answer = client.request(
                    request.method, request.path, content=request.body, headers=request.headers
                )
                if answer.status_code < 400:
                    last = answer.json()["choices"][0]["message"]["content"]
        return last

    return agent
