"""Small recorded answers of each provider, as their servers frame them."""

from __future__ import annotations

import json
from typing import Any

from afnb.core.cassette import Chunk, Request, Response

JSON = (("content-type", "application/json"),)
SSE = (("content-type", "text/event-stream; charset=utf-8"),)
LINES = (("content-type", "application/x-ndjson"),)


def post(path: str, body: Any) -> Request:
    return Request("POST", path, JSON, json.dumps(body).encode())


def answer(body: Any, status: int = 200) -> Response:
    return Response(status, JSON, json.dumps(body).encode())


def stream(*values: Any, named: bool = False, done: bool = False, timed: bool = False) -> Response:
    """An SSE answer; ``named`` writes event lines from each value's type, ``done`` ends with [DONE]."""
    parts = [
        (f"event: {v['type']}\n" if named else "") + f"data: {json.dumps(v, ensure_ascii=False)}\n\n"
        for v in values
    ]
    if done:
        parts.append("data: [DONE]\n\n")
    body = "".join(parts).encode()
    chunks = tuple(Chunk(10.0 * i, p.encode()) for i, p in enumerate(parts)) if timed else None
    return Response(200, SSE, body, chunks)


def chat_request(messages: list[Any] | None = None, **more: Any) -> Request:
    messages = messages or [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    return post("/v1/chat/completions", {"model": "gpt-x", "messages": messages, **more})


def chat_answer(message: dict[str, Any], finish: str = "stop", **more: Any) -> Response:
    choice = {
        "index": 0,
        "message": {"role": "assistant", **message},
        "logprobs": None,
        "finish_reason": finish,
    }
    usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
    return answer(
        {"id": "cmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-x-1", "choices": [choice],
         "usage": usage, **more}
    )  # fmt: skip


def chat_chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = (
        [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    )
    return {"id": "cmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x-1",
            "service_tier": "default", "choices": choices, **more}  # fmt: skip


def chat_call_chunk(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": more.pop("name")} if "name" in more else {})}
    return chat_chunk({"tool_calls": [{"index": index, **more, "function": function}]})


USAGE_CHUNK = chat_chunk(None, usage={"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16})


def chat_text_stream(**kind: Any) -> Response:
    return stream(
        chat_chunk({"role": "assistant", "content": "", "refusal": None}),
        chat_chunk({"content": "Hel"}),
        chat_chunk({"content": "lo \u2028 wörld"}),
        chat_chunk({}, "stop"),
        USAGE_CHUNK,
        done=True,
        **kind,
    )


def chat_calls_stream(**kind: Any) -> Response:
    return stream(
        chat_chunk({"role": "assistant", "content": None}),
        chat_call_chunk(0, "", id="call_a", type="function", name="get_order"),
        chat_call_chunk(0, '{"id"'),
        chat_call_chunk(0, ": 7}"),
        chat_call_chunk(1, "", id="call_b", type="function", name="get_user"),
        chat_call_chunk(1, '{"name": "Zoë"}'),
        chat_chunk({}, "tool_calls"),
        USAGE_CHUNK,
        done=True,
        **kind,
    )


def chat_calls_answer() -> Response:
    calls = [
        {"id": "call_a", "type": "function", "function": {"name": "get_order", "arguments": '{"id": 7}'}},
        {
            "id": "call_b",
            "type": "function",
            "function": {"name": "get_user", "arguments": '{"name": "Zoë"}'},
        },
    ]
    return chat_answer({"content": None, "tool_calls": calls}, "tool_calls")


def claude_request(messages: list[Any] | None = None, **more: Any) -> Request:
    body = {"model": "claude-x", "max_tokens": 100, "system": "Be brief.",
            "messages": messages or [{"role": "user", "content": "hi"}], **more}  # fmt: skip
    return post("/v1/messages", body)


def claude_answer(content: list[Any], stop: str = "end_turn") -> Response:
    return answer(
        {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x-1", "content": content,
         "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 12, "output_tokens": 6}}
    )  # fmt: skip


THINKING = {"type": "thinking", "thinking": "let me see", "signature": "sig=="}
ORDER_CALL = {"type": "tool_use", "id": "toolu_a", "name": "get_order", "input": {"id": 7}}
USER_CALL = {"type": "tool_use", "id": "toolu_b", "name": "get_user", "input": {"name": "Zoë"}}


def claude_calls_answer() -> Response:
    return claude_answer([THINKING, {"type": "text", "text": "Looking."}, ORDER_CALL, USER_CALL], "tool_use")


def claude_start() -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x-1", "content": [],
               "stop_reason": None, "stop_sequence": None,
               "usage": {"input_tokens": 12, "output_tokens": 1}}  # fmt: skip
    return {"type": "message_start", "message": message}


def claude_block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": d} for d in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def claude_end(stop: str) -> list[dict[str, Any]]:
    delta = {"stop_reason": stop, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 6}},
        {"type": "message_stop"},
    ]


def _text_delta(text: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": text}


def _json_delta(text: str) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": text}


def claude_text_stream(**kind: Any) -> Response:
    return stream(
        claude_start(),
        *claude_block(0, {"type": "text", "text": ""}, _text_delta("Hel"), _text_delta("lo \u2028 wörld")),
        *claude_end("end_turn"),
        named=True,
        **kind,
    )


def claude_calls_stream(**kind: Any) -> Response:
    thinking = [
        {"type": "thinking_delta", "thinking": "let me see"},
        {"type": "signature_delta", "signature": "s=="},
    ]
    return stream(
        claude_start(),
        *claude_block(0, {"type": "thinking", "thinking": "", "signature": ""}, *thinking),
        {"type": "ping"},
        *claude_block(1, {"type": "text", "text": ""}, _text_delta("Looking.")),
        *claude_block(
            2, {**ORDER_CALL, "input": {}}, _json_delta(""), _json_delta('{"id"'), _json_delta(": 7}")
        ),
        *claude_block(3, {**USER_CALL, "input": {}}, _json_delta('{"name": "Zoë"}')),
        *claude_end("tool_use"),
        named=True,
        **kind,
    )


CALLS = [
    {"name": "get_order", "arguments": {"id": 7}},
    {"name": "get_user", "arguments": {"name": "Zoë"}},
]
