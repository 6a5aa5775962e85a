"""Small recorded answers of the other wire shapes."""

from __future__ import annotations

import base64
import json
from typing import Any

from afnb.core import awsstream
from afnb.core.cassette import Request, Response

from .wire import LINES, answer, claude_block, claude_end, claude_start, post, stream

AWS = (("content-type", "application/vnd.amazon.eventstream"),)
ORDER: dict[str, Any] = {"id": 7}
USER: dict[str, Any] = {"name": "Zoë"}

# --- OpenAI responses ---


def responses_request(items: Any = "hi", **more: Any) -> Request:
    return post("/v1/responses", {"model": "gpt-x", "instructions": "Be brief.", "input": items, **more})


REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "xx"}
ORDER_ITEM = {"id": "fc_a", "type": "function_call", "status": "completed", "call_id": "call_a",
              "name": "get_order", "arguments": '{"id": 7}'}  # fmt: skip
USER_ITEM = {"id": "fc_b", "type": "function_call", "status": "completed", "call_id": "call_b",
             "name": "get_user", "arguments": '{"name": "Zoë"}'}  # fmt: skip


def message_item(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    return {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def responses_body(output: list[Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16}
    return {"id": "resp_1", "object": "response", "created_at": 1, "status": status, "error": None,
            "incomplete_details": None, "model": "gpt-x-1", "output": output, "parallel_tool_calls": True,
            "tool_choice": "auto", "tools": [], "usage": usage, **more}  # fmt: skip


def responses_events(output: list[Any], ends: bool = True) -> list[dict[str, Any]]:
    start = responses_body([], "in_progress", usage=None)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": start},
        {"type": "response.in_progress", "response": start},
    ]
    for i, item in enumerate(output):
        where = {"output_index": i, "item_id": item["id"]}
        if item["type"] == "message":
            text, part = item["content"][0]["text"], item["content"][0]
            half, place = len(text) // 2, {**where, "content_index": 0}
            added = {**item, "status": "in_progress", "content": []}
            events += [
                {"type": "response.output_item.added", "output_index": i, "item": added},
                {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
                {"type": "response.output_text.delta", **place, "delta": text[:half], "logprobs": []},
                {"type": "response.output_text.delta", **place, "delta": text[half:], "logprobs": []},
                {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
                {"type": "response.content_part.done", **place, "part": part},
            ]
        elif item["type"] == "function_call":
            added = {**item, "status": "in_progress", "arguments": ""}
            arguments = item["arguments"]
            events += [
                {"type": "response.output_item.added", "output_index": i, "item": added},
                {"type": "response.function_call_arguments.delta", **where, "delta": arguments},
                {"type": "response.function_call_arguments.done", **where, "arguments": arguments},
            ]
        else:
            events.append({"type": "response.output_item.added", "output_index": i, "item": item})
        events.append({"type": "response.output_item.done", "output_index": i, "item": item})
    if ends:
        events.append({"type": "response.completed", "response": responses_body(output)})
    return [{**event, "sequence_number": n} for n, event in enumerate(events)]


def responses_stream(output: list[Any], ends: bool = True, **kind: Any) -> Response:
    return stream(*responses_events(output, ends), named=True, **kind)


# --- Gemini ---

GEMINI = "/v1beta/models/gemini-x:generateContent"
GEMINI_SSE = "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"
GEMINI_ARRAY = "/v1beta/models/gemini-x:streamGenerateContent"


def gemini_request(path: str = GEMINI, contents: Any = None, **more: Any) -> Request:
    contents = contents or [{"role": "user", "parts": [{"text": "hi"}]}]
    return post(path, {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": contents, **more})


def gemini_chunk(*parts: Any, finish: str | None = None, usage: bool = False) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    counts = {"promptTokenCount": 12, "candidatesTokenCount": 6, "totalTokenCount": 18}
    return {"candidates": [candidate], "modelVersion": "gemini-x-1", "responseId": "r1",
            **({"usageMetadata": counts} if usage else {})}  # fmt: skip


THOUGHT = {"text": "let me see", "thought": True}
ORDER_PART = {"functionCall": {"name": "get_order", "args": ORDER}, "thoughtSignature": "sig=="}
USER_PART = {"functionCall": {"name": "get_user", "args": USER}}


def gemini_text_chunks(text: str) -> list[dict[str, Any]]:
    half = len(text) // 2
    return [
        gemini_chunk(THOUGHT),
        gemini_chunk({"text": text[:half]}),
        gemini_chunk({"text": text[half:]}, finish="STOP", usage=True),
    ]


def gemini_call_chunks() -> list[dict[str, Any]]:
    return [
        gemini_chunk(THOUGHT),
        gemini_chunk(ORDER_PART, USER_PART),
        gemini_chunk({"text": ""}, finish="STOP", usage=True),
    ]


# --- Ollama ---


def ollama_request(messages: Any = None, **more: Any) -> Request:
    messages = messages or [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    return post("/api/chat", {"model": "llama", "messages": messages, **more})


def ollama_line(message: dict[str, Any], done: bool = False, **more: Any) -> dict[str, Any]:
    end = {"done_reason": "stop", "prompt_eval_count": 11, "eval_count": 5} if done else {}
    message = {"role": "assistant", "content": "", **message}
    return {
        "model": "llama-1",
        "created_at": "2026-01-01T00:00:00Z",
        "message": message,
        "done": done,
        **end,
        **more,
    }


def ollama_call(name: str, arguments: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


def lines(*values: Any) -> Response:
    return Response(200, LINES, b"".join(json.dumps(v, ensure_ascii=False).encode() + b"\n" for v in values))


# --- Bedrock ---

CONVERSE = "/model/amazon.nova-micro-v1%3A0/converse"
INVOKE = "/model/anthropic.claude-x/invoke"


def bedrock_request(path: str = CONVERSE, messages: Any = None, **more: Any) -> Request:
    messages = messages or [{"role": "user", "content": [{"text": "hi"}]}]
    return post(path, {"system": [{"text": "Be brief."}], "messages": messages, **more})


def invoke_request(path: str = INVOKE) -> Request:
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "system": "Be brief.",
            "messages": [{"role": "user", "content": "hi"}]}  # fmt: skip
    return post(path, body)


def converse_answer(content: list[Any], stop: str) -> Response:
    usage = {"inputTokens": 12, "outputTokens": 6, "totalTokens": 18}
    message = {"role": "assistant", "content": content}
    return answer(
        {"output": {"message": message}, "stopReason": stop, "usage": usage, "metrics": {"latencyMs": 1}}
    )


ORDER_USE = {"toolUse": {"toolUseId": "tooluse_a", "name": "get_order", "input": ORDER}}
USER_USE = {"toolUse": {"toolUseId": "tooluse_b", "name": "get_user", "input": USER}}
REASON_BLOCK = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}


def frames(*values: tuple[str, Any]) -> Response:
    return Response(200, AWS, b"".join(awsstream.make(kind, json.dumps(v).encode()) for kind, v in values))


def converse_frames(*blocks: list[dict[str, Any]], stop: str | None) -> list[tuple[str, Any]]:
    """Frames of blocks given as lists of start (``{"toolUse": ...}`` or None) and deltas."""
    found: list[tuple[str, Any]] = [("messageStart", {"role": "assistant", "p": "ab"})]
    for i, (start, *deltas) in enumerate(blocks):
        place = {"contentBlockIndex": i}
        if start:
            found.append(("contentBlockStart", {**place, "start": start}))
        found += [("contentBlockDelta", {**place, "delta": d, "p": "abc"}) for d in deltas]
        found.append(("contentBlockStop", place))
    if stop:
        found.append(("messageStop", {"stopReason": stop}))
        usage = {"inputTokens": 12, "outputTokens": 6, "totalTokens": 18}
        found.append(("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}))
    return found


def use_block(call_id: str, name: str, *said: str) -> list[dict[str, Any]]:
    return [{"toolUse": {"toolUseId": call_id, "name": name}}, *({"toolUse": {"input": s}} for s in said)]


def invoke_frames(*events: Any) -> Response:
    return frames(
        *[("chunk", {"bytes": base64.b64encode(json.dumps(e).encode()).decode(), "p": "ab"}) for e in events]
    )


def invoke_stream(text: str, *calls: tuple[str, str, Any]) -> Response:
    blocks = (
        claude_block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": text}) if text else []
    )
    for call_id, name, arguments in calls:
        start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        blocks += claude_block(len([b for b in blocks if b["type"] == "content_block_stop"]), start, delta)
    return invoke_frames(claude_start(), *blocks, *claude_end("tool_use" if calls else "end_turn"))
