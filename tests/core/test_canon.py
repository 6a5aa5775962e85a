"""Which requests match: equal under exactly the rules that are on, different under any other change."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from afnb.core.canon import DEFAULT, RULES, Matching, canonical, canonical_key, needed_rules, plain
from afnb.core.cassette import Request
from afnb.core.matching import READY_PATTERNS, Pattern, mask_query, parse_path
from afnb.errors import ParameterError

from .requests import (
    PATHS,
    SHAPES,
    Call,
    Ids,
    Talk,
    anthropic,
    bedrock,
    changed_at,
    gemini,
    leaves,
    openai_chat,
    request,
    responses,
    shuffled,
    talks,
)

TALK = Talk("q", ((Call("look", {"id": "a"}, "A"), Call("look", {"id": "b"}, "B")),))
shapes = st.sampled_from(SHAPES)


def same(a: Request, b: Request, matching: Matching = DEFAULT) -> bool:
    return canonical_key(a, matching) == canonical_key(b, matching)


# Every rule forgives its difference, alone and by name, and counts it again when it is off.


def _chat(**top: Any) -> dict[str, Any]:
    return {**openai_chat(TALK, Ids(1)), **top}


def _messages(change: Any) -> dict[str, Any]:
    body = _chat()
    for message in body["messages"]:
        change(message)
    return body


def _spaced_arguments(message: dict[str, Any]) -> None:
    for call in message.get("tool_calls", ()):
        arguments = json.loads(call["function"]["arguments"])
        call["function"]["arguments"] = json.dumps(arguments, indent=3)


def _multipart(boundary: str) -> Request:
    head = 'Content-Disposition: form-data; name="f"; filename="a.csv"'
    parts = f"--{boundary}\r\n{head}\r\n\r\n1,2\r\n--{boundary}--\r\n"
    return Request(
        "POST", "/v1/files", (("content-type", f"multipart/form-data; boundary={boundary}"),), parts.encode()
    )


PAIRS: dict[str, tuple[Request, Request]] = {
    "key_order": (request(_chat()), request(shuffled(_chat(), random.Random(3)))),
    "numbers": (request(b'{"temperature":1,"n":[0.5,100]}'), request(b'{"temperature":1.0,"n":[5e-1,1E2]}')),
    "tool_call_ids": (request(openai_chat(TALK, Ids(1))), request(openai_chat(TALK, Ids(2)))),
    "item_ids": (
        request({"input": [{"type": "message", "id": "msg_1", "role": "assistant", "content": "x"}]}),
        request({"input": [{"type": "message", "id": "msg_2", "role": "assistant", "content": "x"}]}),
    ),
    "opaque_echoes": (
        request({"contents": [{"parts": [{"text": "a", "thoughtSignature": "x"}]}]}),
        request({"contents": [{"parts": [{"text": "a", "thoughtSignature": "y"}]}]}),
    ),
    "arguments_json": (request(_chat()), request(_messages(_spaced_arguments))),
    "null_absent": (request(_chat()), request(_messages(lambda m: m.update(refusal=None)))),
    "cache_control": (
        request(_chat()),
        request(_messages(lambda m: m.update(cache_control={"type": "ephemeral"}))),
    ),
    "multipart": (_multipart("abc"), _multipart("0f0f0f")),
    "url_ids": (
        Request("GET", "/v1/responses/resp_0123456789abcdef?after=msg_00000000ff"),
        Request("GET", "/v1/responses/resp_fedcba9876543210?after=msg_00000000aa"),
    ),
    "stream_mode": (request(_chat()), request(_chat(stream=True, stream_options={"include_usage": True}))),
    "metadata": (request(_chat(user="a", metadata={"k": 1})), request(_chat(user="b", prompt_cache_key="c"))),
}


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_a_rule_forgives_its_difference_and_nothing_when_off(rule: str) -> None:
    a, b = PAIRS[rule]
    on = DEFAULT.on(rule)
    assert same(a, b, on)
    assert not same(a, b, on.off(rule))
    assert needed_rules(a, b, on) == (rule,)
    assert same(a, b) is next(r.default for r in RULES if r.name == rule)


def test_the_table_of_rules_is_the_one_that_is_documented() -> None:
    assert {rule.name: rule.default for rule in RULES} == {
        "key_order": True, "numbers": True, "tool_call_ids": True, "item_ids": True, "opaque_echoes": True,
        "arguments_json": True, "null_absent": True, "cache_control": True, "multipart": True,
        "url_ids": False, "stream_mode": False, "metadata": False,
    }  # fmt: skip


def test_only_the_rules_that_were_needed_are_named() -> None:
    body = openai_chat(TALK, Ids(2))
    body["messages"][0]["refusal"] = None
    body["temperature"] = 0.50
    assert needed_rules(request(openai_chat(TALK, Ids(1))), request(body)) == ("tool_call_ids", "null_absent")
    assert needed_rules(request(body), request(body)) == ()


def _refused(body: dict[str, Any]) -> None:
    body["messages"][1]["refusal"] = None


def _hinted(body: dict[str, Any]) -> None:
    body["messages"][0]["cache_control"] = {"type": "ephemeral"}


def _respaced(body: dict[str, Any]) -> None:
    for message in body["messages"]:
        _spaced_arguments(message)


CHANGES: dict[str, Any] = {
    "null_absent": _refused,
    "cache_control": _hinted,
    "arguments_json": _respaced,
    "numbers": lambda body: body.update(temperature=1.0),
    "metadata": lambda body: body.update(user="u2"),
    "stream_mode": lambda body: body.update(stream=True),
    "ignore:extra.run": lambda body: body["extra"].update(run=2),
    "pattern:dates": lambda body: body["messages"][0].update(content="on 2026-02-02"),
}


@settings(max_examples=80, deadline=None)
@given(
    st.sets(st.sampled_from(sorted(CHANGES))), st.booleans(), st.booleans(), st.randoms(use_true_random=False)
)
def test_the_rules_that_are_named_are_enough_and_none_too_many(
    chosen: set[str], ids: bool, order: bool, rng: random.Random
) -> None:
    def body(seed: int) -> dict[str, Any]:
        made = openai_chat(TALK, Ids(seed))
        made["messages"][0]["content"] = "on 2026-01-01"
        return {**made, "temperature": 1, "extra": {"run": 1}, "user": "u1"}

    matching = DEFAULT.on("metadata", "stream_mode").ignoring("extra.run").replacing("dates", "times")
    a, b = body(1), body(2 if ids else 1)
    for name in chosen:
        CHANGES[name](b)
    if order:
        b = shuffled(b, rng)
    expected = set(chosen) | ({"tool_call_ids"} if ids else set())
    needed = needed_rules(request(a), request(b), matching)
    assert set(needed) - {"key_order"} == expected
    assert order or "key_order" not in needed
    assert list(needed) == [name for name in matching.names() if name in needed]


# Properties over whole conversations in five wire formats.


@settings(max_examples=60, deadline=None)
@given(talks, shapes, st.integers(0, 99), st.randoms(use_true_random=False))
def test_fresh_ids_key_order_and_spaces_never_matter(
    talk: Talk, shape: Any, seed: int, rng: random.Random
) -> None:
    a, b = shape(talk, Ids(seed)), shuffled(shape(talk, Ids(seed + 1)), rng)
    one = request(a, PATHS[shape])
    other = request(json.dumps(b, indent=2, ensure_ascii=False).encode(), PATHS[shape])
    assert same(one, other)
    forgiving = {"key_order", "tool_call_ids", "item_ids", "opaque_echoes"}
    assert set(needed_rules(one, other)) <= forgiving
    if talk.calls():
        assert not same(one, other, DEFAULT.off("tool_call_ids"))


@settings(max_examples=60, deadline=None)
@given(talks, shapes, st.integers(0, 99))
def test_crossed_links_always_matter(talk: Talk, shape: Any, seed: int) -> None:
    crossing = [turn for turn in talk.turns if len(turn) > 1 and turn[0] != turn[1]]
    assume(crossing)
    straight, crossed = shape(talk, Ids(seed)), shape(talk, Ids(seed + 1, crossed=True))
    assert not same(request(straight), request(crossed))


ID_KEYS = {"id", "tool_call_id", "tool_use_id", "call_id", "toolUseId", "signature", "thoughtSignature"}
ID_KEYS |= {"encrypted_content"}
DATA_KEYS = {"arguments", "input", "args", "json", "response", "parameters", "input_schema"}


@settings(max_examples=120, deadline=None)
@given(talks, shapes, st.data())
def test_any_other_change_matters(talk: Talk, shape: Any, data: st.DataObject) -> None:
    body = shape(talk, Ids(1))

    def forgiven(path: tuple[str | int, ...]) -> bool:
        in_data = any(key in DATA_KEYS for key in path[1:-1])
        return path[-1] in ID_KEYS and not in_data

    places = [path for path in leaves(body) if path and not forgiven(path)]
    path = data.draw(st.sampled_from(places))
    assert not same(request(body, PATHS[shape]), request(changed_at(body, path), PATHS[shape])), path


@settings(max_examples=60, deadline=None)
@given(talks, shapes, st.data())
def test_a_lost_or_moved_message_matters(talk: Talk, shape: Any, data: st.DataObject) -> None:
    body = shape(talk, Ids(1))
    key = next(k for k in ("messages", "input", "contents") if k in body)
    items = body[key]
    i = data.draw(st.integers(0, len(items) - 1))
    assert not same(request(body), request({**body, key: items[:i] + items[i + 1 :]}))
    j = data.draw(st.integers(0, len(items) - 1))
    moved = list(items)
    moved[i], moved[j] = moved[j], moved[i]
    if not same(request({key: [items[i]]}), request({key: [items[j]]})):
        assert not same(request(body), request({**body, key: moved}))


@settings(max_examples=100, deadline=None)
@given(talks, shapes, st.sampled_from([rule.name for rule in RULES]), st.integers(0, 9))
def test_turning_a_rule_off_never_makes_more_requests_match(
    talk: Talk, shape: Any, rule: str, seed: int
) -> None:
    a, b = request(shape(talk, Ids(seed))), request(shape(talk, Ids(seed + 1)))
    if not same(a, b):
        assert not same(a, b, DEFAULT.off(rule))


# Numbers.


def _literal(digits: str, point: int, exponent: int) -> str:
    whole, fraction = digits[:point] or "0", digits[point:]
    whole = whole.lstrip("0") or "0"
    return f"{whole}{'.' + fraction if fraction else ''}{f'e{exponent}' if exponent else ''}"


literals = st.builds(
    _literal, st.text("0123456789", min_size=1, max_size=22), st.integers(0, 5), st.integers(-30, 30)
)


@settings(max_examples=300, deadline=None)
@given(literals, literals, st.booleans())
def test_numbers_match_exactly_if_they_are_equal_as_decimals(a: str, b: str, negative: bool) -> None:
    one, other = request(f"[{a}]".encode()), request(f"[{b}]".encode())
    assert same(one, other) is (Decimal(a) == Decimal(b))
    if negative:
        minus = request(f"[-{a}]".encode())
        assert same(one, minus) is (Decimal(a) == 0)


@settings(max_examples=100, deadline=None)
@given(literals, st.integers(0, 8))
def test_one_number_written_otherwise_is_the_same_number(a: str, zeros: int) -> None:
    exact = Decimal(a)
    _, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    number = "".join(map(str, digits)).lstrip("0") or "0"
    zeros = zeros if exact else 0
    again = f"{number}{'0' * zeros}e{exponent - zeros}"
    assert Decimal(again) == exact
    assert same(request(f"[{a}]".encode()), request(f"[{again}]".encode()))


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("1", "1.0", True),
        ("1", "1e0", True),
        ("0", "-0.0", True),
        ("-0", "0", True),
        ("1e16", "10000000000000000", True),
        ("1e22", "10000000000000000000000", True),
        ("0.1", "0.1000000000000000055511151231257827", False),
        ("9007199254740993.0", "9007199254740992", False),
        ("18446744073709551616", "18446744073709551617", False),
        ("123456789012345678901234567890", "123456789012345678901234567890.0", True),
        ("1e-400", "0", False),
        ("1e-400", "0.1e-399", True),
        ("1", "true", False),
        ("1", '"1"', False),
        ("0.5", '"5e-1"', False),
        ("9" * 5000, "9" * 5000, True),
        ("9" * 5000, "9" * 4999 + "8", False),
    ],
)
def test_number_cases(a: str, b: str, equal: bool) -> None:
    assert same(request(f"[{a}]".encode()), request(f"[{b}]".encode())) is equal


def test_escapes_do_not_matter() -> None:
    assert same(request(b'{"t":"\\u00e9\\n"}'), request('{"t":"é\\n"}'.encode()))


@pytest.mark.parametrize(("body", "said"), [(b'{"b":[NaN]}', "NaN"), (b'{"b":-Infinity}', "Infinity"),
                                            (b'{"b":1e400}', "1e400")])  # fmt: skip
def test_what_is_no_json_is_compared_byte_for_byte_and_named(body: bytes, said: str) -> None:
    key = canonical_key(request(body))
    assert key.form == "text"
    assert key.note is not None
    assert said in key.note
    assert not same(request(body), request(b'{"b":null}'))
    assert same(request(body), request(body))
    assert not same(request(body), request(body.replace(b":", b": ")))


# Where ids are ids, and where they are data.


@pytest.mark.parametrize("shape", [openai_chat, anthropic, responses, gemini, bedrock])
@pytest.mark.parametrize("key", ["id", "call_id", "tool_call_id", "signature", "cache_control", "type"])
def test_a_tools_own_arguments_are_data(shape: Any, key: str) -> None:
    def talk(value: str) -> Talk:
        return Talk(
            "q", ((Call("look", {key: value, "type": "function"} if key != "type" else {key: value}, "A"),),)
        )

    assert not same(request(shape(talk("x1"), Ids(1))), request(shape(talk("x2"), Ids(1))))


@pytest.mark.parametrize("kind", ["tool_use", "function", "server_tool_use", "mcp_tool_use"])
def test_id_is_a_call_id_only_in_an_object_of_a_call_type(kind: str) -> None:
    def body(ident: str, kind: str) -> Request:
        return request({"messages": [{"content": [{"type": kind, "id": ident, "name": "n"}]}]})

    assert same(body("a", kind), body("b", kind))
    assert not same(body("a", "document"), body("b", "document"))
    assert same(request({"outputs": [{"tool_call_id": "a"}]}), request({"outputs": [{"tool_call_id": "b"}]}))


def test_an_id_that_is_quoted_in_a_text_stays() -> None:
    def body(ident: str, quoted: str) -> Request:
        return request({"messages": [{"role": "tool", "tool_call_id": ident, "content": f"done {quoted}"}]})

    assert not same(body("call_a", "call_a"), body("call_b", "call_b"))
    assert same(body("call_a", "call_a"), body("call_b", "call_a"))


def test_items_are_told_by_type_and_references_are_kept() -> None:
    def body(first: str, reference: str, kind: str = "message") -> Request:
        items = [
            {"type": kind, "id": first, "role": "assistant"},
            {"type": "message", "id": "m9", "role": "user"},
        ]
        return request({"input": [*items, {"type": "item_reference", "id": reference}]})

    assert same(body("m1", "m1"), body("m2", "m2"))
    assert not same(body("m1", "m1"), body("m2", "m9"))
    assert not same(body("m1", "m9", "unheard_of"), body("m2", "m9", "unheard_of"))
    assert not same(request({"previous_response_id": "r1"}), request({"previous_response_id": "r2"}))


def test_json_rpc_ids_are_linkage() -> None:
    def body(ident: Any, **params: Any) -> Request:
        return request(
            {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": {"name": "n", **params}}, "/mcp"
        )

    assert same(body(3), body(4))
    assert same(body("a"), body("b"))
    assert not same(body(3, arguments={"id": 1}), body(3, arguments={"id": 2}))
    one = request({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}, "/mcp")
    two = request({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}, "/mcp")
    assert same(one, two)


def test_numbering_follows_sorted_keys_so_key_order_cannot_change_it() -> None:
    a = request(b'{"a":{"call_id":"x"},"b":{"call_id":"y"},"c":{"call_id":"x"}}')
    b = request(b'{"c":{"call_id":"p"},"b":{"call_id":"q"},"a":{"call_id":"p"}}')
    c = request(b'{"c":{"call_id":"q"},"b":{"call_id":"q"},"a":{"call_id":"p"}}')
    assert same(a, b)
    assert not same(a, c)


def test_null_is_absent_in_messages_only() -> None:
    assert not same(request({"model": "m", "seed": None}), request({"model": "m"}))
    call = {"type": "tool_use", "name": "n", "id": "i"}
    one = request({"messages": [{"content": [{**call, "input": {"x": None}}]}]})
    assert not same(one, request({"messages": [{"content": [{**call, "input": {}}]}]}))


def test_arguments_that_are_no_json_are_text() -> None:
    def body(arguments: str) -> Request:
        return request({"messages": [{"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}]})

    assert not same(body('{"a": 1'), body('{"a":1'))
    assert same(body('{"a": 1}'), body('{"a":1.0}'))
    as_object = request({"messages": [{"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}]})
    assert not same(body('{"a":1}'), as_object)


def test_malformed_shapes_are_compared_and_never_raise() -> None:
    for body in (
        b'{"type":{},"id":"x","input":"i"}',
        b'{"messages":{"id":5}}',
        b'{"input":[1,[2],"s",{"id":7}]}',
        b"[]",
        b"{}",
        b"[[[1]]]",
        b'{"jsonrpc":1,"id":true}',
        b'[{"jsonrpc":"2.0","id":1},3]',
        b'{"tool_calls":[{"id":null,"function":{"arguments":null,"name":3}}]}',
    ):
        assert canonical_key(request(body)).form == "json"


def test_deep_nesting_falls_back_to_bytes_the_same_way_everywhere() -> None:
    deep = b'{"a":' * 400 + b"1" + b"}" * 400
    key = canonical_key(request(deep))
    assert (key.form, key.note) == ("text", "JSON nested too deeply to be compared by value")

    def lower(n: int) -> Any:
        return canonical_key(request(deep)) if n == 0 else lower(n - 1)

    assert lower(300) == key
    assert canonical_key(request(b"[" * 100000)).form == "text"


# Method, path, bodies that are no JSON.


def test_method_and_path_count_and_headers_never_do() -> None:
    a = Request("POST", "/v1/x", (("x-trace", "1"),), b"{}")
    assert same(a, Request("post", "/v1/x", (), b"{}"))
    assert not same(a, Request("PUT", "/v1/x", (), b"{}"))
    assert not same(a, Request("POST", "/v1/x?a=1", (), b"{}"))
    assert not same(Request("POST", "/x"), Request("POST", "/x", (), b"{}"))


def test_credentials_in_the_query_are_masked_in_the_key() -> None:
    assert same(Request("GET", "/m?alt=sse&key=AIza1"), Request("GET", "/m?alt=sse&key=AIza2"))
    assert same(Request("GET", "/m?API%5FKEY=1"), Request("GET", "/m?API%5FKEY=2"))
    assert not same(Request("GET", "/m?alt=sse&key=1"), Request("GET", "/m?alt=json&key=1"))
    assert mask_query("/m?sig=a&x=1;access_token=b") == "/m?sig=MASKED&x=1;access_token=MASKED"
    assert mask_query("/m?q") == "/m?q"


def test_multipart_counts_names_types_and_bytes() -> None:
    def body(
        boundary: str, name: str = "a.csv", data: bytes = b"\x00\xff\r\n--x", head: bool = True
    ) -> Request:
        text = f'--{boundary}\r\nContent-Disposition: form-data; name="f"; filename="{name}"\r\n\r\n'.encode()
        data = text + data + f"\r\n--{boundary}--\r\n".encode()
        return Request(
            "POST",
            "/f",
            (("content-type", f'multipart/form-data; boundary="{boundary}"'),) if head else (),
            data,
        )

    assert same(body("b1"), body("b2"))
    assert same(body("b1"), body("b2", head=False))
    assert not same(body("b1"), body("b2", name="b.csv"))
    assert not same(body("b1"), body("b2", data=b"\x00\xfe\r\n--x"))
    assert canonical(body("b1")).form == "multipart"
    assert (
        canonical(
            Request("POST", "/f", (("content-type", "multipart/form-data; boundary=q"),), b"--q\r\n")
        ).form
        == "text"
    )


def test_other_bytes_compare_exactly() -> None:
    assert not same(Request("POST", "/x", (), b"\xff\x00"), Request("POST", "/x", (), b"\xff\x01"))
    assert not same(Request("POST", "/x", (), b"a=1&b=2"), Request("POST", "/x", (), b"b=2&a=1"))
    assert canonical_key(Request("POST", "/x", (), b"\xff")).form == "bytes"


# The user's own rules.


def test_ignored_paths() -> None:
    matching = DEFAULT.ignoring("metadata.run", "messages[*].name", "tags[0]")
    a = request({"metadata": {"run": 1, "k": 1}, "messages": [{"name": "x", "content": "c"}], "tags": [1, 2]})
    b = request({"metadata": {"k": 1}, "messages": [{"content": "c"}], "tags": [{"z": 1}, 2]})
    assert same(a, b, matching)
    assert not same(a, b)
    assert needed_rules(a, b, matching) == (
        "ignore:metadata.run",
        "ignore:messages[*].name",
        "ignore:tags[0]",
    )
    c = request({"metadata": {"k": 2}, "messages": [{"content": "c"}], "tags": [1, 2]})
    assert not same(a, c, matching)
    assert not same(a, request({"metadata": {"k": 1}, "messages": [{"content": "c"}], "tags": [2]}), matching)
    assert dict(canonical(a, matching).applied)["ignore:metadata.run"] == 1


def test_patterns_are_applied_to_both_sides_and_counted() -> None:
    matching = DEFAULT.replacing("dates", "paths")
    a = request({"system": "Today is 2026-03-30. cwd=/srv/ann/x", "n": "2026-03-30"})
    b = request({"system": "Today is 2026-03-31. cwd=/tmp/y", "n": "2026-03-31"})
    assert same(a, b, matching)
    assert not same(a, b)
    assert dict(canonical(b, matching).applied) == {"pattern:dates": 2, "pattern:paths": 1}
    assert needed_rules(a, b, matching) == ("pattern:dates", "pattern:paths")
    text = DEFAULT.replacing(Pattern("n", r"\d+", "#"))
    assert same(Request("POST", "/x", (), b"took 12"), Request("POST", "/x", (), b"took 7"), text)


def test_the_ready_patterns_cover_what_tracebacks_carry() -> None:
    matching = DEFAULT.replacing(*(p.name for p in READY_PATTERNS))
    a = 'File "/var/run_8f3/x.py", line 12 <obj at 0x7f00aa10>, took 0.31 s'
    b = 'File "/var/run_9c1/x.py", line 14 <obj at 0x7fe0bb20>, took 12 s'
    assert same(request({"t": a}), request({"t": b}), matching)
    assert not same(request({"t": a}), request({"t": b}))


def lower_case(asked: Request) -> Request:
    return Request(asked.method, asked.path, asked.headers, asked.body.lower())


def broken(asked: Request) -> Request:
    return Request(asked.method, asked.path, asked.headers, asked.body[:-1])


def raising(asked: Request) -> Request:
    raise KeyError("x")


def test_a_users_normaliser_sees_both_sides() -> None:
    matching = Matching(normalise=lower_case)
    assert same(request(b'{"a":"X"}'), request(b'{"a":"x"}'), matching)
    assert needed_rules(request(b'{"a":"X"}'), request(b'{"a":"x"}'), matching) == ("normaliser",)


@pytest.mark.parametrize(("function", "said"), [
    (broken, "turned a JSON body into one that is not JSON"),
    (raising, "raised KeyError"),
    (lambda asked: None, "returned a NoneType"),
])  # fmt: skip
def test_a_normaliser_that_fails_is_an_error(function: Any, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        canonical_key(request(b'{"a":1}'), Matching(normalise=function))


def test_settings_are_checked_when_they_are_made() -> None:
    with pytest.raises(ParameterError, match="no matching rule 'nope'"):
        Matching(rules=frozenset({"nope"}))
    with pytest.raises(ParameterError, match="no matching rule"):
        DEFAULT.off("nope")
    with pytest.raises(ParameterError, match="no JSON path"):
        DEFAULT.ignoring("a..b")
    with pytest.raises(ParameterError, match="no regular expression"):
        Pattern("p", "(")
    with pytest.raises(ParameterError, match="bad replacement"):
        Pattern("p", "a", r"\2")
    with pytest.raises(ParameterError, match="no ready-made pattern"):
        DEFAULT.replacing("nope")
    with pytest.raises(ParameterError, match="one name"):
        DEFAULT.replacing("dates", "dates")


def test_settings_are_values() -> None:
    assert Matching() == DEFAULT
    assert hash(DEFAULT.on("url_ids")) == hash(DEFAULT.on("url_ids"))
    assert DEFAULT.to_json()["rules"] == [rule.name for rule in RULES if rule.default]
    matching = DEFAULT.replacing("dates").ignoring("a")
    for name in matching.names():
        assert name not in matching.without(name).names()


@pytest.mark.parametrize(("text", "parts"), [
    ("a.b[0].c", ((False, "a"), (False, "b"), (True, 0), (False, "c"))),
    ("$.a[*]", ((False, "a"), (True, "*"))),
    ('["a b"].*', ((False, "a b"), (False, "*"))),
])  # fmt: skip
def test_paths_are_read(text: str, parts: Any) -> None:
    assert parse_path(text) == parts


@pytest.mark.parametrize("text", ["", "a[", "a]", "a[x]", ".", "a..b", "a."])
def test_bad_paths_are_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        parse_path(text)


def test_a_view_is_readable() -> None:
    view = plain(canonical(request(openai_chat(TALK, Ids(1)))).view)
    assert view["messages"][2]["tool_calls"][0]["id"] == "tool call 0"
    assert view["messages"][2]["tool_calls"][0]["function"]["arguments"] == {"id": "a"}
    assert plain(canonical(_multipart("b")).view)[0]["body"] == "1,2"


def test_a_cache_key_drawn_for_one_run_is_forgiven_and_one_that_was_chosen_is_not() -> None:
    drawn = [request(_chat(prompt_cache_key=f"agents-sdk:run:{n:032x}")) for n in (1, 2)]
    assert same(*drawn, DEFAULT)
    assert not same(*drawn, DEFAULT.off("cache_control"))
    chosen = [request(_chat(prompt_cache_key=f"agents-sdk:group:{n:032x}")) for n in (1, 2)]
    assert not same(*chosen, DEFAULT)
