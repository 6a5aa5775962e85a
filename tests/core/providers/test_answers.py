"""Reading and rewriting answers: chat completions and messages, plain and streamed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core import sse
from afnb.core.cassette import Chunk, Request, Response
from afnb.core.jsonvalue import equal, loads
from afnb.core.providers import (
    Answer,
    Usage,
    outputs_of,
    provider_error,
    provider_of,
    read_answer,
    succeeded,
    write_answer,
)
from afnb.errors import ParameterError

from .wire import (
    CALLS,
    JSON,
    ORDER_CALL,
    SSE,
    THINKING,
    USAGE_CHUNK,
    answer,
    chat_answer,
    chat_call_chunk,
    chat_calls_answer,
    chat_calls_stream,
    chat_chunk,
    chat_request,
    chat_text_stream,
    claude_answer,
    claude_block,
    claude_calls_answer,
    claude_calls_stream,
    claude_end,
    claude_request,
    claude_start,
    claude_text_stream,
    post,
    stream,
)

CHAT, CLAUDE = chat_request(), claude_request()
TEXT = "Hello \u2028 wörld"

RECORDED: dict[str, tuple[Request, Response]] = {
    "chat json text": (CHAT, chat_answer({"content": TEXT})),
    "chat json calls": (CHAT, chat_calls_answer()),
    "chat sse text": (CHAT, chat_text_stream(timed=True)),
    "chat sse calls": (CHAT, chat_calls_stream()),
    "claude json text": (CLAUDE, claude_answer([{"type": "text", "text": TEXT}])),
    "claude json calls": (CLAUDE, claude_calls_answer()),
    "claude sse text": (CLAUDE, claude_text_stream()),
    "claude sse calls": (CLAUDE, claude_calls_stream(timed=True)),
}


def read(request: Request, response: Response) -> Answer:
    answer = read_answer(request, response)
    assert answer is not None
    return answer


@pytest.mark.parametrize("name", RECORDED)
def test_reads_text_or_calls_usage_model_and_finish(name: str) -> None:
    request, response = RECORDED[name]
    got = read(request, response)
    calls = "calls" in name
    text = ("Looking." if "claude" in name else "") if calls else TEXT
    assert outputs_of(got) == {"text": text, "tool_calls": CALLS if calls else []}
    assert got.usage == (Usage(12, 6) if "claude" in name else Usage(11, 5))
    assert got.model == ("claude-x-1" if "claude" in name else "gpt-x-1")
    words = ("tool_use", "end_turn") if "claude" in name else ("tool_calls", "stop")
    assert got.finish == words[0 if calls else 1]
    assert got.complete
    assert got.error is None
    assert got.notes == ()
    assert succeeded(request, response)


@pytest.mark.parametrize("name", RECORDED)
def test_writing_what_was_recorded_gives_the_very_same_response(name: str) -> None:
    request, response = RECORDED[name]
    assert write_answer(request, response, outputs_of(read(request, response))) is response
    assert write_answer(request, response, {}) is response


_names = st.sampled_from(["get_order", "get_user", "search"])
_text = st.text(max_size=30) | st.sampled_from(
    ["", "a\u2028b", "data: x\n\ndata: y", "\r\n", "😀", TEXT, "Looking."]
)
_scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text
)
_values = st.recursive(
    _scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(_text, v, max_size=3), max_leaves=6
)
_arguments = st.dictionaries(_text, _values, max_size=3) | st.sampled_from([c["arguments"] for c in CALLS])
_calls = st.lists(st.fixed_dictionaries({"name": _names, "arguments": _arguments}), max_size=4)
_outputs = st.fixed_dictionaries({"text": _text, "tool_calls": _calls})


@settings(max_examples=60, deadline=None)
@given(outputs=_outputs, name=st.sampled_from(sorted(RECORDED)))
def test_what_is_written_is_read_back(outputs: dict[str, Any], name: str) -> None:
    request, response = RECORDED[name]
    old = read(request, response)
    written = write_answer(request, response, outputs)
    got = read(request, written)
    assert equal(outputs_of(got), outputs)
    assert (got.usage, got.model, got.complete, got.error) == (old.usage, old.model, True, None)
    ids = [call.id for call in got.tool_calls]
    assert len(set(ids)) == len(ids)
    shared = min(len(ids), len(old.tool_calls))
    assert ids[:shared] == [call.id for call in old.tool_calls][:shared]
    assert all(i.startswith(("call_", "toolu_")) for i in ids)
    assert got.finish in (("tool_calls", "tool_use") if ids else ("stop", "end_turn"))
    assert write_answer(request, response, outputs) == written
    assert written.headers == response.headers
    if response.chunks is not None:
        assert written.chunks is not None
        assert b"".join(c.data for c in written.chunks) == written.body
        times = [c.ms for c in written.chunks]
        assert times == sorted(times)
        assert set(times) <= {c.ms for c in response.chunks}


@settings(max_examples=40, deadline=None)
@given(arguments=_text, name=st.sampled_from(sorted(RECORDED)))
def test_arguments_that_are_text_stay_text_unless_they_hold_an_object(arguments: str, name: str) -> None:
    request, response = RECORDED[name]
    written = write_answer(request, response, {"tool_calls": [{"name": "f", "arguments": arguments}]})
    assert read(request, written).tool_calls[0].arguments == arguments
    written = write_answer(request, response, {"tool_calls": [{"name": "f", "arguments": '{"a": "ä"}'}]})
    assert read(request, written).tool_calls[0].arguments == {"a": "ä"}


@pytest.mark.parametrize("name", [n for n in RECORDED if "sse" in n])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 4096])
def test_the_answer_does_not_depend_on_where_chunks_end(name: str, size: int) -> None:
    request, response = RECORDED[name]
    for body in (response.body, write_answer(request, response, {"text": "日本 😀"}).body):
        decoder = sse.Decoder()
        pieces = [body[i : i + size] for i in range(0, len(body), size)]
        events = [e for piece in pieces for e in decoder.feed(piece)] + decoder.close()
        assert events == sse.parse(body)
        whole = replace(response, body=body, chunks=tuple(Chunk(0.0, p) for p in pieces))
        assert read(request, whole) == read(request, replace(response, body=body))


def test_json_keeps_every_other_part() -> None:
    recorded = chat_answer(
        {"content": "a", "reasoning_content": "r", "annotations": []}, system_fingerprint="fp"
    )
    before, after = loads(recorded.body), loads(write_answer(CHAT, recorded, {"text": "b"}).body)
    before["choices"][0]["message"]["content"] = "b"
    assert equal(before, after)
    recorded = claude_calls_answer()
    before, after = loads(recorded.body), loads(write_answer(CLAUDE, recorded, {"text": "b"}).body)
    before["content"][1]["text"] = "b"
    assert equal(before, after)


def test_events_that_do_not_change_keep_their_bytes() -> None:
    recorded = claude_calls_stream()
    before = [e.raw for e in sse.parse(recorded.body)]
    outputs = {"tool_calls": [CALLS[0], {"name": "get_user", "arguments": {"name": "Bob"}}]}
    after = [e.raw for e in sse.parse(write_answer(CLAUDE, recorded, outputs).body)]
    changed = [i for i, raw in enumerate(before) if raw not in after]
    # the second call's input alone
    assert changed == [i for i, raw in enumerate(before) if "Zoë".encode() in raw]

    recorded = chat_calls_stream()
    before = [e.raw for e in sse.parse(recorded.body)]
    after = [e.raw for e in sse.parse(write_answer(CHAT, recorded, {**outputs, "text": "Well."}).body)]
    assert [raw for raw in before if raw in after] == [raw for raw in before if b'"index": 1' not in raw]


def test_comments_odd_line_ends_and_a_byte_order_mark_do_no_harm() -> None:
    body = chat_text_stream().body
    odd = b"\xef\xbb\xbf: keep-alive\r\n\r\n" + body.replace(b"\n", b"\r\n")
    assert read(CHAT, Response(200, SSE, odd)) == read(CHAT, Response(200, SSE, body))
    written = write_answer(CHAT, Response(200, SSE, odd), {"text": "x"})
    assert written.body.startswith(b"\xef\xbb\xbf: keep-alive\r\n\r\n")
    assert read(CHAT, written).text == "x"


def test_a_stream_is_known_by_its_bytes_where_the_type_is_missing() -> None:
    response = replace(chat_text_stream(), headers=())
    assert read(CHAT, response).text == TEXT


# --- streams that break off ---


def cut(*values: Any, **kind: Any) -> Response:
    return stream(*values, **kind)


HALF_CLAUDE = [
    claude_start(),
    *claude_block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "par"})[:-1],
]
HALF_CHAT = [chat_chunk({"role": "assistant", "content": "par"}), chat_chunk({"content": "tial"})]


@pytest.mark.parametrize(
    ("request_", "response", "text"),
    [(CLAUDE, stream(*HALF_CLAUDE, named=True), "par"), (CHAT, stream(*HALF_CHAT), "partial")],
)
def test_a_stream_without_its_end_is_an_incomplete_answer(
    request_: Request, response: Response, text: str
) -> None:
    got = read(request_, response)
    assert (got.text, got.complete, got.error) == (text, False, None)
    assert [n.code for n in got.notes] == ["incomplete"]
    assert write_answer(request_, response, {"text": text}) is response
    whole = read(request_, write_answer(request_, response, {"text": "all of it"}))
    assert (whole.text, whole.complete, whole.notes) == ("all of it", True, ())


@pytest.mark.parametrize("cut_at", range(1, 40, 3))
def test_any_cut_is_noticed(cut_at: int) -> None:
    for request, response in (RECORDED["chat sse calls"], RECORDED["claude sse calls"]):
        # the bytes that make an answer whole: up to the finish reason, or to the last event
        end = (
            response.body.find(b'"finish_reason": "tool_calls"')
            if request is CHAT
            else len(response.body) - 6
        )
        body = response.body[: end * cut_at // 40]
        got = read_answer(request, Response(200, SSE, body))
        assert got is None or not got.complete


def test_a_response_marked_incomplete_is_never_complete() -> None:
    for request, response in RECORDED.values():
        assert not read(request, replace(response, incomplete=True)).complete


@pytest.mark.parametrize(
    ("request_", "values", "said"),
    [
        (CHAT, [*HALF_CHAT, {"error": {"message": "upstream died", "type": "server_error"}}], "partial"),
        (
            CLAUDE,
            [*HALF_CLAUDE, {"type": "error", "error": {"type": "server_error", "message": "upstream died"}}],
            "par",
        ),
    ],
)
def test_an_error_in_mid_stream_is_told(request_: Request, values: list[Any], said: str) -> None:
    response = stream(*values)
    got = read(request_, response)
    assert (got.text, got.complete, got.error) == (said, False, "server_error: upstream died")
    assert [n.code for n in got.notes] == ["provider_error"]
    assert provider_error(request_, response) == "server_error: upstream died"
    written = write_answer(request_, response, {"text": "fine"})
    assert b"upstream died" not in written.body
    assert read(request_, written).error is None


def test_an_overload_reported_inside_a_success_is_no_answer() -> None:
    response = stream(
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, named=True
    )
    assert read_answer(CLAUDE, response) is None
    assert provider_error(CLAUDE, response) == "overloaded_error: Overloaded"
    assert not succeeded(CLAUDE, response)
    response = answer({"error": {"message": "no quota", "code": 402}})
    assert read_answer(CHAT, response) is None
    assert provider_error(CHAT, response) == "no quota"


def test_an_error_status_is_no_answer() -> None:
    response = answer({"error": {"message": "slow down", "type": "rate_limit"}}, 429)
    assert read_answer(CHAT, response) is None
    assert provider_error(CHAT, response) == "rate_limit: slow down"
    assert provider_error(CHAT, Response(502, body=b"<html>")) == "HTTP status 502"
    with pytest.raises(ParameterError, match="status 429 and holds no model answer"):
        write_answer(CHAT, response, {"text": "x"})


def test_a_missing_end_marker_is_told_and_not_added() -> None:
    response = stream(*HALF_CHAT, chat_chunk({}, "stop"))
    got = read(CHAT, response)
    assert got.complete
    assert [n.code for n in got.notes] == ["no_end_marker"]
    assert b"[DONE]" not in write_answer(CHAT, response, {"text": "x"}).body


def test_a_last_event_without_its_blank_line_is_read() -> None:
    body = chat_text_stream().body.rstrip(b"\n")
    got = read(CHAT, Response(200, SSE, body))
    assert (got.text, got.complete, got.notes) == (TEXT, True, ())
    written = write_answer(CHAT, Response(200, SSE, body), {"text": "x"})
    assert written.body.endswith(b"data: [DONE]\n\n")


# --- oddities of servers ---


def test_a_usage_chunk_without_choices_and_late_argument_pieces() -> None:
    pieces = [chat_call_chunk(0, p) for p in ('{"a', '": ', "1}")]
    response = stream(
        chat_chunk({"role": "assistant", "content": None}, usage=None),
        chat_call_chunk(0, "", id="c1", type="function", name="f"),
        *pieces,
        chat_chunk({}, "tool_calls"),
        USAGE_CHUNK,
        done=True,
    )
    got = read(CHAT, response)
    assert got.tool_calls[0].arguments == {"a": 1}
    assert got.usage == Usage(11, 5)
    written = write_answer(CHAT, response, {"tool_calls": [{"name": "f", "arguments": {"a": 2}}]})
    kinds = [e.data[:20] for e in sse.parse(written.body)[-2:]]
    assert b'"choices": [], "usage": {"prompt_tokens": 11' in sse.parse(written.body)[-2].raw
    assert kinds[-1] == "[DONE]"


def test_reasoning_and_text_in_one_chunk() -> None:
    response = stream(
        chat_chunk({"role": "assistant", "reasoning_content": "r", "content": "c"}),
        chat_chunk({}, "stop"),
        done=True,
    )
    assert read(CHAT, response).text == "c"
    written = write_answer(CHAT, response, {"text": "d"})
    assert read(CHAT, written).text == "d"
    deltas = [loads(e.data)["choices"][0]["delta"] for e in sse.parse(written.body)[:2]]
    assert deltas == [{"role": "assistant", "reasoning_content": "r"}, {"content": "d"}]


def test_everything_in_one_chunk() -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    response = stream(
        chat_chunk({"role": "assistant", "content": "x", "tool_calls": [call]}, "tool_calls"), done=True
    )
    assert outputs_of(read(CHAT, response)) == {"text": "x", "tool_calls": [{"name": "f", "arguments": {}}]}
    written = write_answer(
        CHAT, response, {"text": "y", "tool_calls": [{"name": "g", "arguments": {"b": 1}}]}
    )
    got = read(CHAT, written)
    assert outputs_of(got) == {"text": "y", "tool_calls": [{"name": "g", "arguments": {"b": 1}}]}
    assert got.tool_calls[0].id == "c1"
    assert loads(sse.parse(written.body)[0].data)["choices"][0]["delta"]["role"] == "assistant"


def test_calls_without_an_index_or_all_under_index_0() -> None:
    def piece(**more: Any) -> dict[str, Any]:
        return chat_chunk({"tool_calls": [more]})

    no_index = stream(
        piece(id="a", function={"name": "f", "arguments": '{"x":'}),
        piece(function={"arguments": "1}"}),
        piece(id="b", function={"name": "g", "arguments": "{}"}),
        chat_chunk({}, "tool_calls"),
    )
    same_index = stream(
        piece(index=0, id="a", function={"name": "f", "arguments": '{"x":1}'}),
        piece(index=0, id="b", function={"name": "g", "arguments": "{}"}),
        chat_chunk({}, "tool_calls"),
    )
    for response in (no_index, same_index):
        got = read(CHAT, response)
        assert [(c.id, c.name, c.arguments) for c in got.tool_calls] == [("a", "f", {"x": 1}), ("b", "g", {})]


def test_calls_without_ids_are_numbered_through_the_conversation() -> None:
    history = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "name": "f", "content": "1"},
    ]
    request = chat_request(history)
    response = chat_answer(
        {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}] * 2}
    )
    assert [c.id for c in read(request, response).tool_calls] == ["f#1", "f#2"]


def test_the_old_function_call_shape() -> None:
    response = chat_answer(
        {"content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}}, "function_call"
    )
    got = read(CHAT, response)
    assert (got.tool_calls[0].name, got.tool_calls[0].arguments, got.tool_calls[0].id) == (
        "f",
        {"a": 1},
        "f#0",
    )
    written = write_answer(CHAT, response, {"tool_calls": [{"name": "f", "arguments": {"a": 2}}]})
    choice = loads(written.body)["choices"][0]
    assert choice["message"]["function_call"] == {"name": "f", "arguments": '{"a":2}'}
    assert choice["finish_reason"] == "function_call"
    streamed = stream(
        chat_chunk({"role": "assistant", "function_call": {"name": "f", "arguments": ""}}),
        chat_chunk({"function_call": {"arguments": '{"a": 1}'}}),
        chat_chunk({}, "function_call"),
        done=True,
    )
    written = write_answer(CHAT, streamed, {"tool_calls": [{"name": "g", "arguments": {"a": 2}}]})
    assert outputs_of(read(CHAT, written))["tool_calls"] == [{"name": "g", "arguments": {"a": 2}}]
    assert b"tool_calls" not in written.body


def test_a_refusal_is_text_and_new_text_is_none() -> None:
    response = chat_answer({"content": None, "refusal": "I can't."})
    assert read(CHAT, response).text == "I can't."
    message = loads(write_answer(CHAT, response, {"text": "Sure."}).body)["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == ("Sure.", None)


def test_token_probabilities_of_replaced_text_are_gone() -> None:
    body = loads(chat_answer({"content": "a"}).body)
    body["choices"][0]["logprobs"] = {"content": [{"token": "a", "logprob": -0.1}]}
    assert loads(write_answer(CHAT, answer(body), {"text": "b"}).body)["choices"][0]["logprobs"] is None


def test_other_choices_stay() -> None:
    body = loads(chat_answer({"content": "a"}).body)
    second = {"index": 1, "message": {"role": "assistant", "content": "other"}, "finish_reason": "length"}
    body["choices"].insert(0, second)
    assert read(CHAT, answer(body)).text == "a"
    written = loads(write_answer(CHAT, answer(body), {"text": "b"}).body)
    assert written["choices"][0] == second
    assert written["choices"][1]["message"]["content"] == "b"


def test_content_in_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
    ]
    response = chat_answer({"content": parts})
    assert read(CHAT, response).text == "a"
    message = loads(write_answer(CHAT, response, {"text": "b"}).body)["choices"][0]["message"]
    assert message["content"] == [parts[0], {"type": "text", "text": "b"}]


@pytest.mark.parametrize(
    ("recorded", "outputs", "finish"),
    [
        ("length", {"text": "whole"}, "stop"),
        ("content_filter", {"text": "whole"}, "stop"),
        ("eos", {"text": "whole"}, "eos"),
        ("stop", {"tool_calls": [CALLS[0]]}, "tool_calls"),
    ],
)
def test_the_finish_reason_fits(recorded: str, outputs: dict[str, Any], finish: str) -> None:
    assert read(CHAT, write_answer(CHAT, chat_answer({"content": "a"}, recorded), outputs)).finish == finish


def test_a_stop_sequence_stays_with_text_and_goes_with_calls() -> None:
    body = loads(claude_answer([{"type": "text", "text": "a"}], "stop_sequence").body)
    body["stop_sequence"] = "END"
    written = loads(write_answer(CLAUDE, answer(body), {"text": "b"}).body)
    assert (written["stop_reason"], written["stop_sequence"]) == ("stop_sequence", "END")
    written = loads(write_answer(CLAUDE, answer(body), {"tool_calls": [CALLS[0]]}).body)
    assert (written["stop_reason"], written["stop_sequence"]) == ("tool_use", None)


def test_a_repeated_message_start_and_pings_are_tolerated() -> None:
    values = [claude_start(), claude_start(), {"type": "ping"},
              *claude_block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "hi"}),
              {"type": "something_new"}, *claude_end("end_turn")]  # fmt: skip
    response = stream(*values, named=True)
    assert outputs_of(read(CLAUDE, response)) == {"text": "hi", "tool_calls": []}
    assert read(CLAUDE, write_answer(CLAUDE, response, {"text": "ho"})).text == "ho"


def test_tools_that_the_provider_runs_are_no_calls_of_the_agent() -> None:
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    content = [
        {"type": "text", "text": "Searching. "},
        search,
        found,
        {"type": "text", "text": "It is 3.", "citations": [{}]},
    ]
    response = claude_answer(content)
    got = read(CLAUDE, response)
    assert got.tool_calls == ()
    assert [c.name for c in got.server_calls] == ["web_search"]
    assert got.text == "Searching. It is 3."
    written = loads(write_answer(CLAUDE, response, {"text": "It is 4."}).body)
    assert written["content"] == [search, found, {"type": "text", "text": "It is 4.", "citations": None}]


def test_blocks_are_renumbered_and_a_cut_block_is_closed() -> None:
    text = claude_block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "a"})
    thinking = claude_block(
        1, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "b"}
    )
    values = [claude_start(), *text, *thinking[:-1]]
    written = write_answer(CLAUDE, stream(*values, named=True), {"text": "", "tool_calls": [CALLS[0]]})
    events = [loads(e.data) for e in sse.parse(written.body)]
    assert [(e["type"], e.get("index")) for e in events] == [
        ("message_start", None),
        ("content_block_start", 0),
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("message_delta", None),
        ("message_stop", None),
    ]
    assert events[1]["content_block"]["type"] == "thinking"


def test_no_text_leaves_no_text_block() -> None:
    written = loads(write_answer(CLAUDE, claude_calls_answer(), {"text": ""}).body)
    assert [b["type"] for b in written["content"]] == ["thinking", "tool_use", "tool_use"]
    written = loads(write_answer(CLAUDE, claude_answer([THINKING, ORDER_CALL]), {"text": "new"}).body)
    assert [b["type"] for b in written["content"]] == ["thinking", "text", "tool_use"]


def test_a_call_may_bring_its_own_id() -> None:
    for name in ("chat json calls", "chat sse calls", "claude json calls", "claude sse calls"):
        request, response = RECORDED[name]
        written = write_answer(request, response, {"tool_calls": [{"id": "mine", **CALLS[0]}, CALLS[1]]})
        assert read(request, written).tool_calls[0].id == "mine"


def test_a_recorded_length_does_not_stay() -> None:
    response = replace(chat_answer({"content": "a"}), headers=(*JSON, ("content-length", "9"), ("x", "y")))
    assert write_answer(CHAT, response, {"text": "bbb"}).headers == (*JSON, ("x", "y"))


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        ({"content": "x"}, "no key 'content'"),
        ({"text": 3}, "'text' is a JSON integer"),
        ({"tool_calls": "f"}, "'tool_calls' is a JSON string"),
        ({"tool_calls": [{"arguments": {}}]}, r"tool_calls\[0\] has no name"),
        ({"tool_calls": [{"name": "f", "arguments": {1, 2}}]}, "not JSON: a set"),
        ({"tool_calls": [{"name": "f", "id": 3}]}, r"tool_calls\[0\] has an id that is no text"),
    ],
)
def test_outputs_of_another_shape_are_refused(outputs: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        write_answer(CHAT, chat_answer({"content": "a"}), outputs)


def test_what_is_no_model_request_is_refused() -> None:
    with pytest.raises(ParameterError, match="GET /v1/models is not a request to a model"):
        write_answer(Request("GET", "/v1/models"), Response(200), {"text": "x"})


@settings(max_examples=80, deadline=None)
@given(body=st.binary(max_size=60), kind=st.sampled_from([JSON, SSE, ()]))
def test_no_bytes_of_an_answer_raise(body: bytes, kind: Any) -> None:
    for request in (CHAT, CLAUDE):
        response = Response(200, kind, body)
        got = read_answer(request, response)
        assert got is None or isinstance(got, Answer)
        provider_error(request, response)


_KEYS = [
    "choices",
    "message",
    "content",
    "delta",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
    "index",
]
_KEYS += ["type", "text", "usage", "error", "role", "content_block", "finish_reason", "stop_reason", "input"]
_odd = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "text", "tool_use", "[DONE]"]),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), v, max_size=4),
    max_leaves=25,
)


@settings(max_examples=200, deadline=None)
@given(values=st.lists(_odd, min_size=1, max_size=4), streamed=st.booleans())
def test_no_shape_of_json_raises(values: list[Any], streamed: bool) -> None:
    response = Response(200, SSE, b"".join(b"data: %s\n\n" % json.dumps(v).encode() for v in values))
    if not streamed:
        response = answer(values[0])
    for request in (CHAT, CLAUDE):
        got = read_answer(request, response)
        provider_error(request, response)
        if got is not None:
            written = write_answer(request, response, {"text": "new", "tool_calls": [CALLS[0]]})
            assert outputs_of(read(request, written)) == {"text": "new", "tool_calls": [CALLS[0]]}


def test_paths_that_ask_a_model() -> None:
    messages = {"messages": [{"role": "user", "content": "x"}]}
    chat = [
        "/v1/chat/completions",
        "/openai/deployments/d/chat/completions?api-version=1",
        "/openai/v1/chat/completions/",
    ]
    assert [provider_of(post(p, messages)) for p in chat] == ["openai-chat"] * 3
    assert [provider_of(post(p, messages)) for p in ("/v1/messages", "/v1/messages?beta=true")] == [
        "anthropic"
    ] * 2
    for path in ("/v1/messages/count_tokens", "/v1/messages/batches", "/v1/embeddings", "/search"):
        assert provider_of(post(path, messages)) is None
    assert provider_of(post("/v1/threads/t1/messages", {"role": "user", "content": "x"})) is None
    assert provider_of(Request("GET", "/v1/chat/completions")) is None
    assert provider_of(Request("POST", "/v1/chat/completions", body=b"\xff")) is None
