"""The tape: lookup by key, repeats in order, how far it answers, and misses that explain themselves."""

from __future__ import annotations

import json
import pickle
import random
import threading
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core.canon import DEFAULT, Matching, canonical_key
from afnb.core.cassette import Cassette, Chunk, Exchange, Request, Response
from afnb.core.redaction import Redaction, matching_for
from afnb.core.tape import Hit, Miss, Play, Tape
from afnb.errors import ParameterError

from .requests import PATHS, SHAPES, Call, Ids, Talk, openai_chat, request, shuffled, talks


def cassette(*requests: Request, statuses: tuple[int, ...] = ()) -> Cassette:
    answers = [
        Response(statuses[i] if statuses else 200, (), f"answer {i}".encode()) for i in range(len(requests))
    ]
    return Cassette(
        "c", tuple(Exchange(i, r, a) for i, (r, a) in enumerate(zip(requests, answers, strict=True)))
    )


def ask(n: Any, path: str = "/v1/x") -> Request:
    return request({"n": n}, path)


def bodies(play: Play, *asked: Request, through: int | None = None) -> list[str | None]:
    taken = [play.take(one, through) for one in asked]
    return [hit.exchange.response.body.decode() if isinstance(hit, Hit) else None for hit in taken]


def hit(found: Hit | Miss) -> Hit:
    assert isinstance(found, Hit), found.reason
    return found


def miss(found: Hit | Miss) -> Miss:
    assert isinstance(found, Miss)
    return found


# Repeats.


def test_the_kth_ask_gets_the_kth_answer_and_the_last_repeats() -> None:
    play = Tape(cassette(ask(1), ask(1), ask(1))).play()
    found = [hit(play.take(ask(1))) for _ in range(5)]
    assert [one.exchange.idx for one in found] == [0, 1, 2, 2, 2]
    assert [one.beyond_recording for one in found] == [False, False, False, True, True]
    assert [one.occurrence for one in found] == [0, 1, 2, 3, 4]


def test_repeat_first_serves_the_first_always() -> None:
    play = Tape(cassette(ask(1), ask(1)), repeat="first").play()
    found = [hit(play.take(ask(1))) for _ in range(3)]
    assert [(one.exchange.idx, one.beyond_recording) for one in found] == [(0, False), (0, False), (0, True)]


@pytest.mark.parametrize(
    ("recorded", "said"), [(1, "recorded once, asked twice"), (2, "recorded twice, asked 3 times")]
)
def test_repeat_error_says_how_often(recorded: int, said: str) -> None:
    play = Tape(cassette(*[ask(1)] * recorded), repeat="error").play()
    for i in range(recorded):
        assert hit(play.take(ask(1))).exchange.idx == i
    found = miss(play.take(ask(1)))
    assert found.kind == "used_up"
    assert said in found.reason
    assert found.nearest == recorded - 1


def test_a_retry_after_429_replays_as_it_was() -> None:
    play = Tape(cassette(ask(1), ask(1), ask(2), statuses=(429, 200, 200))).play()
    found = [hit(play.take(ask(n))) for n in (1, 1, 2)]
    assert [one.exchange.response.status for one in found] == [429, 200, 200]


def test_every_play_starts_anew() -> None:
    tape = Tape(cassette(ask(1), ask(1)))
    first = tape.play()
    assert bodies(first, ask(1), ask(1)) == ["answer 0", "answer 1"]
    assert bodies(tape.play(), ask(1)) == ["answer 0"]
    assert first.asked(ask(1)) == 2


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ParameterError, match="repeat='often'"):
        Tape(cassette(), repeat="often")  # type: ignore[arg-type]


# How far the tape answers.


def test_through_is_inclusive_and_minus_one_serves_nothing() -> None:
    tape = Tape(cassette(ask(1), ask(2), ask(3)))
    assert bodies(tape.play(), ask(1), ask(2), ask(3), through=1) == ["answer 0", "answer 1", None]
    assert bodies(tape.play(), ask(1), through=-1) == [None]
    assert bodies(tape.play(), ask(3), through=None) == ["answer 2"]
    found = miss(tape.play().take(ask(3), 1))
    assert (found.kind, found.nearest) == ("not_served", 2)
    assert "exchange 2" in found.reason
    assert "through exchange 1" in found.reason
    assert "nothing is answered" in miss(tape.play().take(ask(3), -1)).reason


def test_a_repeat_recorded_later_is_not_served_before_it_is_due() -> None:
    play = Tape(cassette(ask(1), ask(2), ask(1))).play()
    assert bodies(play, ask(1), ask(1), through=1) == ["answer 0", None]
    assert play.asked(ask(1)) == 1
    assert bodies(play, ask(1), through=2) == ["answer 2"]


# Lookup.


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(talks, st.sampled_from(SHAPES), st.integers(0, 3)), max_size=8),
    st.randoms(use_true_random=False),
)
def test_the_index_equals_a_linear_scan(recorded: list[Any], rng: random.Random) -> None:
    requests = [request(shape(talk, Ids(seed)), PATHS[shape]) for talk, shape, seed in recorded]
    tape = Tape(cassette(*requests))
    asked = [
        request(shuffled(shape(talk, Ids(seed + 50)), rng), PATHS[shape]) for talk, shape, seed in recorded
    ]
    for one in [*requests, *asked, ask("nowhere")]:
        key = canonical_key(one)
        scanned = tuple(i for i, other in enumerate(requests) if canonical_key(other) == key)
        assert tape.places(one) == scanned


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=8), st.randoms(use_true_random=False), st.booleans())
def test_own_requests_in_any_order_get_own_answers(kinds: list[int], rng: random.Random, fresh: bool) -> None:
    def body(kind: int, seed: int) -> Request:
        return request(openai_chat(Talk(f"q{kind}", ((Call("look", {}, "r"),),)), Ids(seed)))

    recorded = cassette(*(body(kind, 7) for kind in kinds))
    play = Tape(recorded).play()
    order = list(range(len(kinds)))
    rng.shuffle(order)
    got: dict[int, list[int]] = defaultdict(list)
    for i in order:
        got[kinds[i]].append(hit(play.take(body(kinds[i], 8 if fresh else 7))).exchange.idx)
    for kind, served in got.items():
        assert served == [i for i, other in enumerate(kinds) if other == kind]


def test_order_of_independent_requests_does_not_matter_and_is_counted() -> None:
    play = Tape(cassette(ask("b"), ask("a"))).play()
    assert bodies(play, ask("a"), ask("b")) == ["answer 1", "answer 0"]
    assert play.out_of_order == 1


def test_equal_bytes_need_no_rule_and_other_matches_name_theirs() -> None:
    talk = Talk("q", ((Call("look", {"a": 1}, "r"),),))
    tape = Tape(cassette(request(openai_chat(talk, Ids(1)))))
    assert hit(tape.play().take(request(openai_chat(talk, Ids(1))))).rules == ()
    moved = hit(tape.play().take(request(shuffled(openai_chat(talk, Ids(1)), random.Random(2)))))
    assert (moved.rules, moved.normalised) == (("key_order",), False)
    fresh = hit(tape.play().take(request(openai_chat(talk, Ids(2)))))
    assert (fresh.rules, fresh.normalised) == (("tool_call_ids",), True)


def test_a_rule_that_is_off_makes_it_a_miss() -> None:
    talk = Talk("q", ((Call("look", {"a": 1}, "r"),),))
    tape = Tape(cassette(request(openai_chat(talk, Ids(1)))), DEFAULT.off("tool_call_ids"))
    found = miss(tape.play().take(request(openai_chat(talk, Ids(2)))))
    assert found.path == "messages[2].tool_calls[0].id"


def test_a_tape_is_shared_by_threads_that_do_not_cross() -> None:
    tape = Tape(cassette(*(ask(n % 5) for n in range(40))))
    wrong: list[Any] = []

    def one_replay(seed: int) -> None:
        play = tape.play()
        order = [n % 5 for n in range(40)]
        random.Random(seed).shuffle(order)
        count: dict[int, int] = defaultdict(int)
        for n in order:
            found = play.take(ask(float(n)) if seed % 2 else ask(n))
            expected = n + 5 * count[n]
            count[n] += 1
            if not isinstance(found, Hit) or found.exchange.idx != expected:
                wrong.append((seed, n))

    threads = [threading.Thread(target=one_replay, args=(seed,)) for seed in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_one_play_under_threads_serves_every_answer_once() -> None:
    play = Tape(cassette(*[ask(1)] * 64)).play()
    served: list[int] = []

    def take() -> None:
        for _ in range(8):
            served.append(hit(play.take(ask(1))).exchange.idx)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(served) == list(range(64))


def test_a_tape_and_a_miss_can_be_sent_to_a_worker() -> None:
    tape = Tape(cassette(ask(1)), DEFAULT.on("url_ids"), "error")
    again = pickle.loads(pickle.dumps(tape))
    assert (again.cassette, again.matching, again.repeat) == (tape.cassette, tape.matching, "error")
    found = miss(tape.play().take(ask(2)))
    copied = pickle.loads(pickle.dumps(found))
    assert copied == found
    assert copied.reason == found.reason


def test_a_redacted_recording_still_replays() -> None:
    hide = Redaction(paths=("messages[0].content",), patterns=(r"sk-\w+",))
    body = {"messages": [{"content": "private"}, {"content": "key sk-abc"}]}
    recorded = hide.cassette(cassette(request(body, "/v1/x?q=sk-abc")))
    assert b"private" not in recorded.exchanges[0].request.body
    tape = Tape(recorded)
    assert hit(tape.play().take(request(body, "/v1/x?q=sk-abc"))).rules == ("redaction",)
    body["messages"][1]["content"] = "key sk-other"
    assert isinstance(tape.play().take(request(body, "/v1/x?q=sk-abc")), Hit)
    body["messages"][1]["content"] = "another key"
    assert isinstance(tape.play().take(request(body, "/v1/x?q=sk-abc")), Miss)
    assert matching_for(recorded, tape.matching) == tape.matching


def test_a_json_rpc_answer_comes_back_under_the_id_that_was_asked() -> None:
    def call(ident: Any) -> Request:
        return request(
            {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": {"name": "n"}}, "/mcp"
        )

    def served(body: bytes, ident: Any) -> Response:
        chunks = (Chunk(0.0, body[:5]), Chunk(1.0, body[5:]))
        recorded = Cassette("c", (Exchange(0, call(1), Response(200, (), body, chunks)),))
        response = hit(Tape(recorded).play().take(call(ident))).exchange.response
        assert response.chunks is not None
        assert b"".join(chunk.data for chunk in response.chunks) == response.body
        return response

    answer = b'{"jsonrpc": "2.0", "id": 1, "result": {"id": 1}}'
    assert served(answer, 1).body == answer
    assert served(answer, "x").body == b'{"jsonrpc":"2.0","id":"x","result":{"id":1}}'
    note = b'data: {"jsonrpc":"2.0","method":"ping","id":1}\r\n\r\n'
    stream = note + b"event: message\r\ndata: " + answer + b"\r\n\r\n"
    assert served(stream, 5).body == note + (
        b'event: message\r\ndata: {"jsonrpc":"2.0","id":5,"result":{"id":1}}\r\n\r\n'
    )
    assert served(b"no json", 5).body == b"no json"
    assert served(b'{"jsonrpc":"2.0","id":1.0}', 5).body == b'{"jsonrpc":"2.0","id":1.0}'


# Misses.


def test_one_word_that_changed_is_a_miss_that_names_it() -> None:
    first, second = "the order 8841 was delivered late", "the order 7003 was never sent"
    tape = Tape(
        cassette(request({"messages": [{"content": first}]}), request({"messages": [{"content": second}]}))
    )
    found = miss(tape.play().take(request({"messages": [{"content": first.replace("late", "twice")}]})))
    assert (found.kind, found.nearest, found.path) == ("different", 0, "messages[0].content")
    assert (found.recorded, found.asked) == (first, first.replace("late", "twice"))
    assert "nearest is exchange 0" in found.reason
    assert "messages[0].content" in found.reason
    assert len(str(found.key)) == 12
    other = miss(tape.play().take(request({"messages": [{"content": second.replace("never", "late")}]})))
    assert other.nearest == 1


def test_a_long_body_is_never_dumped() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": f"{i} " + "abcdefghi " * 500}]}
        for i in range(200)
    ]
    tape = Tape(cassette(*(request({"messages": messages[: n + 1]}) for n in (50, 136, 199))))
    changed = json.loads(json.dumps(messages))
    text = changed[137]["content"][0]["text"]
    changed[137]["content"][0]["text"] = text[:4012] + "#" + text[4013:]
    found = miss(tape.play().take(request({"messages": changed})))
    assert (found.nearest, found.path) == (2, "messages[137].content[0].text")
    assert found.explanation.offset == 4012
    assert found.recorded is not None
    assert found.asked is not None
    assert found.asked == f"…{text[3972:4012]}#{text[4013:4052]}…"
    assert found.recorded == f"…{text[3972:4052]}…"
    assert len(found.reason) < 500


def test_same_elements_in_another_order() -> None:
    tape = Tape(cassette(request({"tools": ["a", "b", "c"], "model": "m"})))
    found = miss(tape.play().take(request({"tools": ["c", "a", "b"], "model": "m"})))
    assert "same elements, other order" in found.reason
    assert "at tools" in found.reason
    nested = Tape(cassette(request({"tools": [{"e": [{"x": 1}, {"y": 2}]}]})))
    assert (
        "at tools[0].e the same elements, other order"
        in miss(nested.play().take(request({"tools": [{"e": [{"y": 2}, {"x": 1}]}]}))).reason
    )
    assert (
        "other order" not in miss(tape.play().take(request({"tools": ["c", "a", "a"], "model": "m"}))).reason
    )


def test_patterns_that_would_help_are_named() -> None:
    system = "Today is 2026-03-30. cwd=/srv/ann/x"
    tape = Tape(cassette(request({"system": system})))
    asked = request({"system": "Today is 2026-03-31. cwd=/tmp/y"})
    found = miss(tape.play().take(asked))
    assert found.suggestions == ("dates", "paths")
    assert "dates, paths would forgive it" in found.reason
    helped = Tape(tape.cassette, DEFAULT.replacing(*found.suggestions))
    assert hit(helped.play().take(asked)).rules == ("pattern:dates", "pattern:paths")
    assert miss(tape.play().take(request({"system": "Tomorrow"}))).suggestions == ()


def test_a_missing_or_added_value_is_shown_as_such() -> None:
    tape = Tape(cassette(request({"model": "m", "seed": 1})))
    gone = miss(tape.play().take(request({"model": "m"})))
    assert (gone.path, gone.recorded, gone.asked) == ("seed", "1", "(absent)")
    new = miss(tape.play().take(request({"model": "m", "seed": 1, "top_p": 0.5})))
    assert (new.path, new.recorded, new.asked) == ("top_p", "(absent)", "0.5")


def test_crossed_results_are_explained_by_their_tokens() -> None:
    talk = Talk("q", ((Call("look", {"a": 1}, "A"), Call("look", {"a": 2}, "B")),))
    tape = Tape(cassette(request(openai_chat(talk, Ids(1)))))
    found = miss(tape.play().take(request(openai_chat(talk, Ids(2, crossed=True)))))
    assert found.path == "messages[3].tool_call_id"
    assert (found.recorded, found.asked) == ("tool call 0", "tool call 1")


def test_other_methods_paths_and_kinds_of_body() -> None:
    tape = Tape(cassette(ask(1, "/v1/chat"), Request("POST", "/v1/upload", (), b"bytes")))
    other = miss(tape.play().take(ask(1, "/v1/chats")))
    assert (other.nearest, other.path) == (0, "(path)")
    assert miss(tape.play().take(Request("DELETE", "/v1/chat", (), b""))).path == "(method)"
    form = miss(tape.play().take(ask(1, "/v1/upload")))
    assert (form.nearest, form.path) == (1, "(body)")
    assert "is text, the one asked is JSON" in form.reason
    empty = miss(Tape(cassette()).play().take(ask(1)))
    assert (empty.nearest, empty.path) == (None, None)
    assert "no exchange" in empty.reason


def test_a_body_with_nan_never_matches_null_and_says_why() -> None:
    tape = Tape(cassette(request(b'{"logit_bias":null}')))
    found = miss(tape.play().take(request(b'{"logit_bias":NaN}')))
    assert "NaN is not a JSON number" in found.reason


@settings(max_examples=40, deadline=None)
@given(st.lists(talks, min_size=1, max_size=5), talks, st.sampled_from(SHAPES))
def test_every_miss_can_be_explained(recorded: list[Talk], asked: Talk, shape: Any) -> None:
    tape = Tape(cassette(*(request(shape(talk, Ids(1))) for talk in recorded)))
    found = tape.play().take(request(shape(asked, Ids(2))))
    if isinstance(found, Miss):
        assert found.nearest is not None
        assert 0 <= found.nearest < len(recorded)
        assert found.path
        assert found.reason.startswith("nothing recorded matches")
        again = miss(tape.play().take(request(shape(asked, Ids(2)))))
        assert again.explanation == found.explanation


def test_the_key_of_a_request_is_remembered_under_the_users_own_rule_too() -> None:
    calls: list[str] = []

    def own(asked: Request) -> Request:
        calls.append(asked.path)
        kind = next((value for name, value in asked.headers if name == "x-kind"), "")
        return Request(asked.method, asked.path + kind, (), asked.body)

    tape = Tape(cassette(Request("POST", "/a", (("x-kind", "1"),), b"{}")), Matching(normalise=own))
    assert isinstance(tape.play().take(Request("POST", "/a", (("x-kind", "2"),), b"{}")), Miss)
    assert isinstance(tape.play().take(Request("POST", "/a", (("x-kind", "1"),), b"{}")), Hit)
    before = len(calls)
    tape.key(Request("POST", "/a", (("x-kind", "2"),), b"{}"))
    assert len(calls) == before
