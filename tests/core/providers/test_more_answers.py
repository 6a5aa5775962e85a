"""Reading and rewriting answers of the other wire shapes."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core import awsstream, sse
from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import equal, loads
from afnb.core.providers import (
    Answer,
    Usage,
    is_model_request,
    outputs_of,
    provider_error,
    provider_of,
    read_answer,
    write_answer,
)
from afnb.errors import ParameterError

from .test_answers import _arguments, _names, _text
from .wire import CALLS, SSE, answer, post, stream
from .wire_more import (
    AWS,
    CONVERSE,
    GEMINI,
    GEMINI_ARRAY,
    GEMINI_SSE,
    INVOKE,
    ORDER,
    ORDER_ITEM,
    ORDER_PART,
    ORDER_USE,
    REASON_BLOCK,
    REASONING,
    THOUGHT,
    USER,
    USER_ITEM,
    USER_PART,
    USER_USE,
    bedrock_request,
    converse_answer,
    converse_frames,
    frames,
    gemini_call_chunks,
    gemini_chunk,
    gemini_request,
    gemini_text_chunks,
    invoke_frames,
    invoke_request,
    invoke_stream,
    lines,
    message_item,
    ollama_call,
    ollama_line,
    ollama_request,
    responses_body,
    responses_events,
    responses_request,
    responses_stream,
    use_block,
)

TEXT = "Hello \u2028 wörld"
OLLAMA_CALLS = [ollama_call("get_order", ORDER), ollama_call("get_user", USER)]
COHERE_CALLS = [
    {"id": "call_a", "type": "function", "function": {"name": "get_order", "arguments": '{"id": 7}'}},
    {"id": "call_b", "type": "function", "function": {"name": "get_user", "arguments": '{"name": "Zoë"}'}},
]


def cohere_answer(message: dict[str, Any], finish: str) -> Response:
    usage = {"billed_units": {"input_tokens": 1}, "tokens": {"input_tokens": 11, "output_tokens": 5}}
    return answer(
        {"id": "x", "message": {"role": "assistant", **message}, "finish_reason": finish, "usage": usage}
    )


R, COHERE = (
    responses_request(),
    post("/v2/chat", {"model": "c", "messages": [{"role": "user", "content": "hi"}]}),
)
WORDS = [{"type": "text", "text": TEXT}]
TEXT_BLOCK: list[Any] = [None, {"text": "Hello "}, {"text": "\u2028 wörld"}]
REASON_DELTAS: list[Any] = [None, {"reasoningContent": {"text": "hm"}}]
CALL_BLOCKS = [
    use_block("tooluse_a", "get_order", '{"id"', ": 7}"),
    use_block("tooluse_b", "get_user", '{"name": "Zoë"}'),
]

RECORDED: dict[str, tuple[Request, Response]] = {
    "responses json text": (R, answer(responses_body([REASONING, message_item(TEXT)]))),
    "responses json calls": (R, answer(responses_body([REASONING, ORDER_ITEM, USER_ITEM]))),
    "responses sse text": (R, responses_stream([REASONING, message_item(TEXT)], timed=True)),
    "responses sse calls": (R, responses_stream([REASONING, ORDER_ITEM, USER_ITEM])),
    "gemini json text": (
        gemini_request(),
        answer(gemini_chunk(THOUGHT, {"text": TEXT}, finish="STOP", usage=True)),
    ),
    "gemini json calls": (
        gemini_request(),
        answer(gemini_chunk(ORDER_PART, USER_PART, finish="STOP", usage=True)),
    ),
    "gemini sse text": (gemini_request(GEMINI_SSE), stream(*gemini_text_chunks(TEXT), timed=True)),
    "gemini sse calls": (gemini_request(GEMINI_SSE), stream(*gemini_call_chunks())),
    "gemini array text": (gemini_request(GEMINI_ARRAY), answer(gemini_text_chunks(TEXT))),
    "gemini array calls": (gemini_request(GEMINI_ARRAY), answer(gemini_call_chunks())),
    "ollama json text": (ollama_request(stream=False), answer(ollama_line({"content": TEXT}, done=True))),
    "ollama json calls": (ollama_request(), answer(ollama_line({"tool_calls": OLLAMA_CALLS}, done=True))),
    "ollama lines text": (
        ollama_request(),
        lines(*[ollama_line({"content": t}) for t in ("Hello ", "\u2028 wörld")], ollama_line({}, done=True)),
    ),
    "ollama lines calls": (
        ollama_request(),
        lines(
            ollama_line({"thinking": "hm"}),
            ollama_line({"tool_calls": OLLAMA_CALLS}),
            ollama_line({}, done=True),
        ),
    ),
    "bedrock json text": (bedrock_request(), converse_answer([REASON_BLOCK, {"text": TEXT}], "end_turn")),
    "bedrock json calls": (
        bedrock_request(),
        converse_answer([REASON_BLOCK, ORDER_USE, USER_USE], "tool_use"),
    ),
    "bedrock frames text": (
        bedrock_request(CONVERSE + "-stream"),
        frames(*converse_frames(REASON_DELTAS, TEXT_BLOCK, stop="end_turn")),
    ),
    "bedrock frames calls": (
        bedrock_request(CONVERSE + "-stream"),
        frames(*converse_frames(REASON_DELTAS, *CALL_BLOCKS, stop="tool_use")),
    ),
    "bedrock invoke text": (invoke_request(INVOKE + "-with-response-stream"), invoke_stream(TEXT)),
    "bedrock invoke calls": (
        invoke_request(INVOKE + "-with-response-stream"),
        invoke_stream("", ("toolu_a", "get_order", ORDER), ("toolu_b", "get_user", USER)),
    ),
    "cohere json text": (COHERE, cohere_answer({"content": WORDS}, "COMPLETE")),
    "cohere json calls": (COHERE, cohere_answer({"tool_plan": "p", "tool_calls": COHERE_CALLS}, "TOOL_CALL")),
}

FINISH = {
    "responses": ("completed", "completed"),
    "gemini": ("STOP", "STOP"),
    "ollama": ("stop", "stop"),
    "bedrock": ("tool_use", "end_turn"),
    "cohere": ("TOOL_CALL", "COMPLETE"),
}
PROVIDERS = {"responses": "openai-responses"}


def read(request: Request, response: Response) -> Answer:
    got = read_answer(request, response)
    assert got is not None
    return got


@pytest.mark.parametrize("name", RECORDED)
def test_reads_text_or_calls_usage_and_finish(name: str) -> None:
    request, response = RECORDED[name]
    kind, calls = name.split()[0], "calls" in name
    got = read(request, response)
    assert provider_of(request) == PROVIDERS.get(kind, kind)
    assert outputs_of(got) == {"text": "" if calls else TEXT, "tool_calls": CALLS if calls else []}
    assert got.usage == (Usage(12, 6) if kind in ("gemini", "bedrock") else Usage(11, 5))
    assert got.finish == FINISH[kind][0 if calls else 1]
    assert (got.complete, got.error, got.notes) == (True, None, ())
    assert write_answer(request, response, outputs_of(got)) is response
    assert not read(request, replace(response, incomplete=True)).complete


_calls = st.lists(st.fixed_dictionaries({"name": _names, "arguments": _arguments}), max_size=4)


@settings(max_examples=150, deadline=None)
@given(
    outputs=st.fixed_dictionaries({"text": _text, "tool_calls": _calls}),
    name=st.sampled_from(sorted(RECORDED)),
)
def test_what_is_written_is_read_back(outputs: dict[str, Any], name: str) -> None:
    request, response = RECORDED[name]
    old = read(request, response)
    written = write_answer(request, response, outputs)
    got = read(request, written)
    assert equal(outputs_of(got), outputs)
    assert (got.usage, got.model, got.complete, got.error, got.notes) == (
        old.usage,
        old.model,
        True,
        None,
        (),
    )
    ids = [call.id for call in got.tool_calls]
    assert len(set(ids)) == len(ids)
    if "#" not in "".join(c.id for c in old.tool_calls):  # these wire shapes give ids
        shared = min(len(ids), len(old.tool_calls))
        assert ids[:shared] == [call.id for call in old.tool_calls][:shared]
    assert got.finish == FINISH[name.split()[0]][0 if ids else 1]
    assert write_answer(request, response, outputs) == written
    if response.chunks is not None:
        assert written.chunks is not None
        assert b"".join(c.data for c in written.chunks) == written.body


KEPT = {
    "responses sse text": [b"response.created", b"response.in_progress", b"rs_1"],
    "responses sse calls": [b"response.created", b"rs_1", b'"item_id": "fc_a"', b'"item": {"id": "fc_a"'],
    "gemini sse text": [b"let me see"],
    "gemini sse calls": [b"let me see", b"STOP"],
    "ollama lines text": [b'"done": true'],
    "ollama lines calls": [b"thinking", b'"done": true'],
    "bedrock frames text": [b"messageStart", b'"contentBlockIndex": 0', b"messageStop", b"metadata"],
    "bedrock frames calls": [
        b"messageStart",
        b'"contentBlockIndex": 0',
        b'"contentBlockIndex": 1',
        b"metadata",
    ],
}


@pytest.mark.parametrize("name", KEPT)
def test_parts_that_do_not_change_keep_their_bytes(name: str) -> None:
    request, response = RECORDED[name]

    def split(body: bytes) -> list[bytes]:
        if response.headers == AWS:
            return [frame.raw for frame in awsstream.parse(body)[0]]
        return [e.raw for e in (sse.parse_lines(body) if "lines" in name else sse.parse(body))]

    outputs: dict[str, Any] = {"text": "x"}
    if "calls" in name:
        outputs = {"tool_calls": [CALLS[0], {"name": "get_user", "arguments": {"name": "Bob"}}]}
    before, after = split(response.body), split(write_answer(request, response, outputs).body)
    for mark in KEPT[name]:
        marked = [part for part in before if mark in part and b"response.completed" not in part]
        assert marked
        assert [part for part in after if part in marked] == marked


@pytest.mark.parametrize("name", [n for n in RECORDED if "json" not in n])
@pytest.mark.parametrize("part", [0.3, 0.5, 0.7])
def test_a_cut_is_noticed_and_a_new_answer_is_whole(name: str, part: float) -> None:
    request, response = RECORDED[name]
    cut = replace(response, body=response.body[: int(len(response.body) * part)], chunks=None)
    got = read_answer(request, cut)
    if got is None:
        return
    assert not got.complete
    outputs = {"text": "new", "tool_calls": [CALLS[0]]}
    whole = read(request, write_answer(request, cut, outputs))
    assert outputs_of(whole) == outputs
    assert whole.complete


# --- responses ---


def test_an_answer_still_being_made_is_none() -> None:
    for status in ("queued", "in_progress"):
        assert read_answer(R, answer(responses_body([], status))) is None
    later = Request("GET", "/v1/responses/resp_1?stream=false")
    assert is_model_request(later)
    assert read(later, answer(responses_body([ORDER_ITEM]))).tool_calls[0].id == "call_a"
    assert not is_model_request(Request("GET", "/v1/responses/resp_1/input_items"))
    assert not is_model_request(Request("DELETE", "/v1/responses/resp_1"))


def test_an_answer_cut_by_its_limit_says_so_and_a_new_one_does_not() -> None:
    body = responses_body(
        [message_item("par")], "incomplete", incomplete_details={"reason": "max_output_tokens"}
    )
    assert read(R, answer(body)).finish == "max_output_tokens"
    written = loads(write_answer(R, answer(body), {"text": "whole"}).body)
    assert (written["status"], written["incomplete_details"]) == ("completed", None)


def test_a_failed_response_is_no_answer_unless_it_had_begun() -> None:
    failed = responses_body([], "failed", error={"code": "server_error", "message": "busy"})
    begun = responses_events([message_item("par")], ends=False)
    for response in (answer(failed), stream({"type": "response.failed", "response": failed}, named=True)):
        assert read_answer(R, response) is None
        assert provider_error(R, response) == "server_error: busy"
    got = read(R, stream(*begun, {"type": "response.failed", "response": failed}))
    assert (got.text, got.complete, got.error) == ("par", False, "server_error: busy")
    got = read(R, stream(*begun, {"type": "error", "code": "x", "message": "boom"}))
    assert (got.text, got.complete, got.error) == ("par", False, "x: boom")


def test_text_that_differs_from_the_last_event_is_told() -> None:
    events = responses_events([message_item("final")])
    for event in events:
        if event["type"] == "response.output_text.delta":
            event["delta"] = "?"
    got = read(R, stream(*events))
    assert got.text == "final"
    assert [n.code for n in got.notes] == ["text_differs"]


def test_hosted_tools_are_no_calls_and_stay() -> None:
    search = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"query": "x"}}
    body = responses_body([search, message_item("found")], output_text="found")
    got = read(R, answer(body))
    assert (got.tool_calls, [c.name for c in got.server_calls]) == ((), ["web_search_call"])
    written = loads(write_answer(R, answer(body), {"text": "new", "tool_calls": [CALLS[0]]}).body)
    assert [i["type"] for i in written["output"]] == ["web_search_call", "message", "function_call"]
    assert written["output"][0] == search
    assert written["output_text"] == "new"


def test_other_kinds_of_calls() -> None:
    custom = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select 1"}
    shell = {
        "id": "sh_1",
        "type": "local_shell_call",
        "call_id": "c2",
        "action": {"command": ["ls"]},
        "status": "completed",
    }
    response = answer(responses_body([custom, shell]))
    assert [(c.id, c.name, c.arguments) for c in read(R, response).tool_calls] == [
        ("c1", "sql", "select 1"), ("c2", "local_shell", {"command": ["ls"]})
    ]  # fmt: skip
    calls = [
        {"name": "sql", "arguments": "select 2"},
        {"name": "local_shell", "arguments": {"command": ["pwd"]}},
    ]
    written = loads(write_answer(R, response, {"tool_calls": calls}).body)["output"]
    assert written == [{**custom, "input": "select 2"}, {**shell, "action": {"command": ["pwd"]}}]
    written = loads(write_answer(R, response, {"tool_calls": [CALLS[0], calls[1]]}).body)["output"]
    assert written[0]["type"] == "function_call"
    assert (written[0]["id"], written[0]["call_id"], written[1]) == (
        "ctc_1",
        "c1",
        {**shell, "action": {"command": ["pwd"]}},
    )


def test_a_refusal_is_text() -> None:
    item = {**message_item(""), "content": [{"type": "refusal", "refusal": "No."}]}
    assert read(R, answer(responses_body([item]))).text == "No."
    written = write_answer(R, answer(responses_body([item])), {"text": "Yes."})
    assert loads(written.body)["output"][0]["content"] == [
        {"type": "output_text", "annotations": [], "text": "Yes."}
    ]


# --- gemini ---


def test_a_blocked_prompt_is_an_empty_answer() -> None:
    response = answer({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}})
    got = read(gemini_request(), response)
    assert (got.text, got.finish, got.complete) == ("", "SAFETY", True)
    written = write_answer(gemini_request(), response, {"text": "fine"})
    assert (read(gemini_request(), written).text, read(gemini_request(), written).finish) == ("fine", "STOP")


def test_an_array_that_breaks_off() -> None:
    body = json.dumps(gemini_text_chunks('a "}]{[ \\ b')).encode()
    request = gemini_request(GEMINI_ARRAY)
    cut = body[: body.rindex(b'"index"')]
    got = read(request, Response(200, body=cut))
    assert not got.complete
    assert got.text == 'a "}]'
    assert read(request, Response(200, body=body)).text == 'a "}]{[ \\ b'


def test_calls_without_ids_are_numbered_by_name() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [ORDER_PART]},
        {"role": "user", "parts": [{"functionResponse": {"name": "get_order", "response": {"result": 1}}}]},
    ]
    got = read(gemini_request(contents=contents), answer(gemini_chunk(ORDER_PART, USER_PART, finish="STOP")))
    assert [c.id for c in got.tool_calls] == ["get_order#1", "get_user#0"]
    with_id = {"functionCall": {"id": "x1", "name": "get_order", "args": {}}}
    got = read(gemini_request(), answer(gemini_chunk(with_id, finish="STOP")))
    assert [c.id for c in got.tool_calls] == ["x1"]


# --- ollama, text completions ---


def test_generated_text() -> None:
    request = post("/api/generate", {"model": "m", "prompt": "hi", "system": "S"})
    parts = [{"model": "m", "response": t, "done": False} for t in ("a", "b")]
    end = {
        "model": "m",
        "response": "",
        "done": True,
        "done_reason": "length",
        "prompt_eval_count": 3,
        "eval_count": 2,
    }
    response = lines(*parts, end)
    assert (read(request, response).text, read(request, response).usage) == ("ab", Usage(3, 2))
    written = write_answer(request, response, {"text": "new"})
    assert (read(request, written).text, read(request, written).finish) == ("new", "stop")
    with pytest.raises(ParameterError, match="give text alone"):
        write_answer(request, response, {"tool_calls": CALLS})


def test_an_error_line() -> None:
    response = lines(ollama_line({"content": "par"}), {"error": "model crashed"})
    got = read(ollama_request(), response)
    assert (got.text, got.complete, got.error) == ("par", False, "model crashed")
    assert read_answer(ollama_request(), lines({"error": "no model"})) is None
    assert provider_error(ollama_request(), lines({"error": "no model"})) == "no model"


@pytest.mark.parametrize("streamed", [False, True])
def test_text_completions(streamed: bool) -> None:
    request = post("/v1/completions", {"model": "m", "prompt": "Once"})

    def chunk(text: str, finish: str | None) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "finish_reason": finish, "logprobs": None}
        usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
        return {"id": "c", "object": "text_completion", "model": "m-1", "choices": [choice], "usage": usage}

    response = answer(chunk(TEXT, "length"))
    if streamed:
        response = stream(chunk(TEXT[:4], None), chunk(TEXT[4:], None), chunk("", "length"), done=True)
    got = read(request, response)
    assert (got.text, got.finish, got.usage, got.model) == (TEXT, "length", Usage(1, 2), "m-1")
    written = read(request, write_answer(request, response, {"text": "new\u2028"}))
    assert (written.text, written.finish, written.complete) == ("new\u2028", "stop", True)
    with pytest.raises(ParameterError, match="give text alone"):
        write_answer(request, response, {"tool_calls": CALLS})


def test_a_text_stream_that_breaks_off_is_made_whole() -> None:
    request = post("/v1/completions", {"model": "m", "prompt": "Once"})
    response = stream({"choices": [{"index": 0, "text": "par", "finish_reason": None}]})
    assert not read(request, response).complete
    whole = read(request, write_answer(request, response, {"text": "all"}))
    assert (whole.text, whole.complete) == ("all", True)


# --- bedrock ---


def test_an_exception_frame_is_an_error() -> None:
    headers = ((":exception-type", "throttlingException"), (":content-type", "application/json"))
    bad = awsstream.make("x", b'{"message": "slow down"}', headers).replace(b"\x05event", b"\x05error")
    assert awsstream.parse(bad) == ([], bad)  # the checksum does not fit any more
    body = bad[:-4] + struct.pack(">I", zlib.crc32(bad[:-4]))
    request = bedrock_request(CONVERSE + "-stream")
    assert read_answer(request, Response(200, AWS, body)) is None
    assert provider_error(request, Response(200, AWS, body)) == "throttlingException: slow down"
    begun = frames(*converse_frames(TEXT_BLOCK, stop=None)).body
    got = read(request, Response(200, AWS, begun + body))
    assert (got.text, got.complete, got.error) == (TEXT, False, "throttlingException: slow down")
    invoke = invoke_request(INVOKE + "-with-response-stream")
    assert read_answer(invoke, Response(200, AWS, body)) is None


def test_invoke_without_a_stream_is_an_anthropic_answer() -> None:
    request = invoke_request()
    response = answer(
        {"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}
    )
    assert read(request, response).text == "a"
    assert read(request, write_answer(request, response, {"text": "b"})).text == "b"
    assert provider_of(post(INVOKE, {"messages": [], "inferenceConfig": {}})) is None
    assert invoke_frames() == Response(200, AWS, b"")


# --- cohere ---


def test_a_streamed_cohere_answer_is_read() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": ""}}
    more = {"tool_calls": {"function": {"arguments": '{"id": 7}'}}}
    tokens = {"tokens": {"input_tokens": 11, "output_tokens": 5}}
    events: list[dict[str, Any]] = [
        {"type": "message-start", "delta": {"message": {"role": "assistant"}}},
        {"type": "content-delta", "delta": {"message": {"content": {"text": "a"}}}},
        {"type": "tool-call-start", "delta": {"message": {"tool_calls": call}}},
        {"type": "tool-call-delta", "delta": {"message": more}},
        {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": tokens}},
    ]
    got = read(COHERE, stream(*events))
    assert outputs_of(got) == {"text": "a", "tool_calls": [CALLS[0]]}
    assert (got.usage, got.complete) == (Usage(11, 5), True)
    assert not read(COHERE, stream(*events[:-1])).complete
    with pytest.raises(ParameterError, match="cannot be rewritten"):
        write_answer(COHERE, stream(*events), {"text": "b"})


# --- all ---

_KEYS = [
    "output",
    "content",
    "message",
    "text",
    "type",
    "candidates",
    "parts",
    "functionCall",
    "name",
    "args",
]
_KEYS += [
    "response",
    "done",
    "toolUse",
    "input",
    "delta",
    "contentBlockIndex",
    "start",
    "output_index",
    "item",
    "error",
]
_odd = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1)
    | st.sampled_from(["", "a", "message", "function_call", "response.completed", "output_text"]),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), v, max_size=4),
    max_leaves=20,
)  # fmt: skip
_REQUESTS = [R, gemini_request(), gemini_request(GEMINI_SSE), ollama_request(), bedrock_request(), COHERE]
_REQUESTS += [
    post("/v1/completions", {"prompt": "x"}),
    post("/api/generate", {"prompt": "x"}),
    invoke_request(),
]


@settings(max_examples=150, deadline=None)
@given(values=st.lists(_odd, min_size=1, max_size=3), form=st.sampled_from(["json", "sse", "lines", "aws"]))
def test_no_shape_of_json_raises(values: list[Any], form: str) -> None:
    response = answer(values[0])
    if form == "sse":
        response = Response(200, SSE, b"".join(b"data: %s\n\n" % json.dumps(v).encode() for v in values))
    elif form == "lines":
        response = lines(*values)
    elif form == "aws":
        response = frames(*[("contentBlockDelta", v) for v in values])
    for request in _REQUESTS:
        got = read_answer(request, response)
        provider_error(request, response)
        if got is not None and not (request is COHERE and form == "sse"):
            whole = read(request, write_answer(request, response, {"text": "new", "tool_calls": []}))
            assert outputs_of(whole) == {"text": "new", "tool_calls": []}


@settings(max_examples=100, deadline=None)
@given(body=st.binary(max_size=60), kind=st.sampled_from([SSE, AWS, ()]))
def test_no_bytes_raise(body: bytes, kind: Any) -> None:
    for request in _REQUESTS:
        read_answer(request, Response(200, kind, body))
        provider_error(request, Response(200, kind, body))


def test_a_masked_url_is_told_by_the_body() -> None:
    assert provider_of(post("**REDACTED**", {"model": "m", "input": "x"})) == "openai-responses"
    assert provider_of(post("**REDACTED**", {"model": "m", "system": "s", "messages": []})) == "anthropic"
    assert provider_of(post("**REDACTED**", {"model": "m", "messages": []})) == "openai-chat"
    assert provider_of(post("**REDACTED**", {"x": 1})) is None
    assert provider_of(post("/v1/agents/completions", {"agent_id": "a", "messages": []})) == "openai-chat"
    assert provider_of(post(GEMINI, {"contents": []})) == "gemini"
