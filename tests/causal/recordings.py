"""Small recordings of an agent with a tool, and that agent, driven through a session."""

from __future__ import annotations

import json
from typing import Any

from afnb.core.cassette import Cassette, Exchange, Request, Response
from afnb.core.providers import read_answer
from afnb.io.serve import Forward, Refuse, Session

JSON = (("content-type", "application/json"),)
SSE = (("content-type", "text/event-stream"),)


def chat(history: list[dict[str, Any]], **more: Any) -> Request:
    body = {"model": "m", "messages": [{"role": "user", "content": "refund order 7"}, *history], **more}
    return Request("POST", "/v1/chat/completions", JSON, json.dumps(body).encode())


def said(text: str = "", *calls: tuple[str, str, Any], stream: bool = False) -> Response:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"index": n, "id": i, "type": "function", "function": {"name": name, "arguments": json.dumps(a)}}
            for n, (i, name, a) in enumerate(calls)
        ]
    finish = "tool_calls" if calls else "stop"
    if not stream:
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return Response(200, JSON, json.dumps({"id": "x", "choices": [choice]}).encode())
    parts = [{"delta": message, "finish_reason": None}, {"delta": {}, "finish_reason": finish}]
    events = [json.dumps({"id": "x", "choices": [{"index": 0, **part}]}) for part in parts]
    return Response(200, SSE, "".join(f"data: {e}\n\n" for e in [*events, "[DONE]"]).encode())


def message_of(request: Request, response: Response) -> dict[str, Any]:
    """An answer as the history keeps it."""
    answer = read_answer(request, response)
    assert answer is not None
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in answer.tool_calls
        ]
    return message


def tool(name: str, arguments: Any) -> Any:
    """What the agent's tools say."""
    return {"ran": name, **arguments}


def record(
    name: str, *answers: Response, stream: bool = False, results: dict[str, Any] | None = None
) -> Cassette:
    """The recording of the agent with these answers; ``results`` overrides a tool's result by call id."""
    history: list[dict[str, Any]] = []
    exchanges = []
    for idx, answer in enumerate(answers):
        request = chat(history, **({"stream": True} if stream else {}))
        exchanges.append(Exchange(idx, request, answer))
        message = message_of(request, answer)
        history = [*history, message]
        for call in message.get("tool_calls", ()):
            value = tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            value = (results or {}).get(call["id"], value)
            history.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(value)})
    return Cassette(name, tuple(exchanges))


def drive(session: Session, live: Any, most: int = 12) -> list[dict[str, Any]]:
    """Run the agent through a session; ``live`` answers what is forwarded. Returns the history."""
    history: list[dict[str, Any]] = []
    for _ in range(most):
        request = chat(history)
        turn = session.decide(request)
        if isinstance(turn, Refuse):
            break
        if isinstance(turn, Forward):
            response = live(turn.request)
            session.complete(turn, response)
        else:
            response = turn.response
        message = message_of(request, response)
        history.append(message)
        if "tool_calls" not in message:
            break
        for call in message["tool_calls"]:
            value = tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            history.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(value)})
    return history
