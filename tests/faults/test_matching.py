"""The wrong recorded answer is served, or none."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

import afnb
from afnb.core.canon import canonical_key
from afnb.core.cassette import Request, Response
from afnb.core.matching import Matching, Pattern
from afnb.core.tape import Hit, Miss, Tape
from afnb.errors import ParameterError
from afnb.io.serve import Refuse, Serve, Session

from .made import CLAUDE, JSON, ask, asking, post, recording, said, text_of


def served(session: Session, request: Request) -> str:
    turn = session.decide(request)
    assert isinstance(turn, Serve), turn
    return text_of(turn.response)


def test_an_edited_prompt_is_a_miss_and_another_order_is_none() -> None:
    """A key that is too loose is worse than a miss: it answers a question that was not asked."""
    one, two = ask("Book a table in Lyon."), ask("Book a table in Nice.")
    tape = Tape(recording((one, said("Lyon")), (two, said("Nice"))))
    changed = Session(tape, live=False)
    refused = changed.decide(ask("Book a table in Bern."))
    assert isinstance(refused, Refuse)
    missed = changed.report().first_miss
    assert missed is not None
    assert (missed.where, missed.nearest) == ("messages[0].content", 0)
    assert missed.key == str(canonical_key(ask("Book a table in Bern."), tape.matching))
    assert missed.nearest_key == str(tape.keys[0])
    told = json.loads(refused.response.body)["error"]["afnb"]
    assert (told["key"], told["nearest_key"], told["path"]) == (
        missed.key,
        missed.nearest_key,
        "messages[0].content",
    )
    turned = Session(tape, live=False)
    assert [served(turned, two), served(turned, one)] == ["Nice", "Lyon"]


SHAPES: dict[str, Any] = {
    "chat": lambda a, b, first, second: ask(
        {
            "role": "assistant",
            "tool_calls": [
                {"id": i, "type": "function", "function": {"name": n, "arguments": "{}"}}
                for i, n in ((a, "x"), (b, "y"))
            ],
        },
        {"role": "tool", "tool_call_id": first, "content": "1"},
        {"role": "tool", "tool_call_id": second, "content": "2"},
    ),
    "responses": lambda a, b, first, second: post(
        {
            "input": [
                {"type": "function_call", "call_id": a, "name": "x", "arguments": "{}"},
                {"type": "function_call", "call_id": b, "name": "y", "arguments": "{}"},
                {"type": "function_call_output", "call_id": first, "output": "1"},
                {"type": "function_call_output", "call_id": second, "output": "2"},
            ]
        },
        "/v1/responses",
    ),
    "messages": lambda a, b, first, second: post(
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": a, "name": "x", "input": {}},
                        {"type": "tool_use", "id": b, "name": "y", "input": {}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": first, "content": "1"},
                        {"type": "tool_result", "tool_use_id": second, "content": "2"},
                    ],
                },
            ]
        },
        CLAUDE,
    ),
}


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_fresh_call_ids_match_and_crossed_ones_do_not(shape: str) -> None:
    make, matching = SHAPES[shape], Matching()
    key = canonical_key(make("call_A", "call_B", "call_A", "call_B"), matching)
    assert canonical_key(make("call_C", "call_D", "call_C", "call_D"), matching) == key
    assert canonical_key(make("call_C", "call_D", "call_D", "call_C"), matching) != key


def test_a_cache_hint_is_ignored_and_said_and_a_normaliser_may_not_break_json() -> None:
    block = {"type": "text", "text": "hello"}
    hinted = {**block, "cache_control": {"type": "ephemeral"}}
    made = recording((ask({"role": "user", "content": [block]}), said("yes")))
    session = Session(Tape(made), live=False)
    assert served(session, ask({"role": "user", "content": [hinted]})) == "yes"
    assert dict(session.report().rules)["cache_control"] == 1

    def breaks(request: Request) -> Request:
        return replace(request, body=request.body[:-1])

    with pytest.raises(ParameterError, match="JSON"):
        Tape(made, Matching(normalise=breaks))


def test_yesterdays_date_is_a_miss_that_shows_it_and_a_rule_for_both_sides_forgives_it() -> None:
    then = ask({"role": "system", "content": "Today is 2026-03-30. cwd=/srv/ann/x"}, "go")
    now = ask({"role": "system", "content": "Today is 2026-03-31. cwd=/tmp/y"}, "go")
    made = recording((then, said("ok")))
    found = afnb.replay(made, agent=asking([now]))
    missed = found.report.first_miss
    assert missed is not None
    assert ("2026-03-30" in str(missed.recorded), "2026-03-31" in str(missed.asked)) == (True, True)
    assert set(missed.suggestions) == {"dates", "paths"}
    forgiving = Matching().replacing("dates", Pattern("cwd", r"cwd=\S+"))
    again = afnb.replay(made, agent=asking([now]), matching=forgiving)
    assert again.report.served == 1
    counted = dict(again.report.rules)
    assert (counted["pattern:dates"], counted["pattern:cwd"]) == (1, 1)
    wide = afnb.replay(made, agent=asking([now]), matching=Matching().replacing(Pattern("all", "(?s).+")))
    assert dict(wide.report.rules)["pattern:all"] == 1


def test_identical_requests_get_their_answers_in_recorded_order_in_every_run() -> None:
    tape = Tape(recording(*((ask("x"), said(text)) for text in "abc")))
    for _ in range(2):
        session = Session(tape, live=False)
        assert [served(session, ask("x")) for _ in range(3)] == ["a", "b", "c"]


def test_a_limit_and_then_a_success_replay_as_they_were_and_only_the_success_is_a_step() -> None:
    busy = Response(429, (*JSON, ("retry-after", "20")), b'{"error": {"message": "slow down"}}')
    made = recording((ask("x"), busy), (ask("x"), said("ok")))
    session = Session(Tape(made), live=False)
    turns = [session.decide(ask("x")) for _ in range(2)]
    assert [turn.response.status for turn in turns if isinstance(turn, Serve)] == [429, 200]
    table = afnb.exchanges(made).to_pydict()
    assert (table["status"], table["attempt_of"]) == ([429, 200], [1, None])
    assert [step["exchange"] for step in afnb.steps(made).to_pylist()] == [1]


def test_a_miss_says_what_was_used_up_or_the_exact_place_and_never_dumps_a_body() -> None:
    used = Tape(recording((ask("x"), said("a"))), repeat="error").play()
    assert isinstance(used.take(ask("x")), Hit)
    again = used.take(ask("x"))
    assert isinstance(again, Miss)
    assert "recorded once, asked twice" in again.reason

    def long(change: str) -> Request:
        messages = [
            {"role": "user", "content": [{"type": "text", "text": f"{n} " * 2500}]} for n in range(200)
        ]
        text = messages[137]["content"][0]["text"]  # type: ignore[index]
        messages[137]["content"][0]["text"] = text[:4012] + change + text[4013:]  # type: ignore[index]
        return ask(*messages)

    miss = Tape(recording((long("A"), said("a")))).play().take(long("B"))
    assert isinstance(miss, Miss)
    assert (miss.path, miss.explanation.offset) == ("messages[137].content[0].text", 4012)
    assert [len(str(text).strip("…")) for text in (miss.recorded, miss.asked)] == [80, 80]
    assert (str(miss.recorded)[41], str(miss.asked)[41]) == ("A", "B")
    assert len(miss.reason) < 500


def test_key_order_does_not_count_and_the_order_of_an_array_does() -> None:
    tape = Tape(recording((post({"model": "m", "messages": [], "tools": ["a", "b", "c"]}), said("x"))))
    assert isinstance(tape.play().take(post({"tools": ["a", "b", "c"], "messages": [], "model": "m"})), Hit)
    miss = tape.play().take(post({"model": "m", "messages": [], "tools": ["c", "a", "b"]}))
    assert isinstance(miss, Miss)
    assert "same elements, other order" in miss.reason


def upload(boundary: str, data: bytes = b"0123456789") -> Request:
    head = 'content-disposition: form-data; name="file"; filename="a.wav"\r\ncontent-type: audio/wav'
    body = f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + f"\r\n--{boundary}--\r\n".encode()
    return Request(
        "POST", "/v1/files", (("content-type", f"multipart/form-data; boundary={boundary}"),), body
    )


def test_an_upload_matches_by_part_whatever_its_boundary() -> None:
    tape = Tape(recording((upload("aaa1"), said("x"))))
    hit = tape.play().take(upload("zz99"))
    assert isinstance(hit, Hit)
    assert hit.rules == ("multipart",)
    assert isinstance(tape.play().take(upload("zz99", b"0123456780")), Miss)


def test_numbers_are_equal_as_decimals_and_overflow_is_named() -> None:
    def key(number: str) -> Any:
        return canonical_key(Request("POST", "/v1/x", JSON, b'{"t": %b}' % number.encode()), Matching())

    assert key("1") == key("1.0") == key("1e0")
    assert key("-0.0") == key("0")
    assert key("123456789012345678901234567890") != key("123456789012345678901234567891")
    one, other = (
        Request("POST", "/v1/x", JSON, text) for text in (b'{"t": "\\u00e9"}', '{"t": "é"}'.encode())
    )
    assert canonical_key(one, Matching()) == canonical_key(other, Matching())
    assert re.search("1e400", str(key("1e400").note))
    assert key("1e400") != key("1e401")


def test_nan_is_named_with_its_place_and_never_matches_null() -> None:
    bad = Request("POST", "/v1/x", JSON, b'{"logit_bias": {"7": NaN}}')
    good = Request("POST", "/v1/x", JSON, b'{"logit_bias": {"7": null}}')
    key = canonical_key(bad, Matching())
    assert key != canonical_key(good, Matching())
    assert "NaN" in str(key.note)
    miss = Tape(recording((good, said("x")))).play().take(bad)
    assert isinstance(miss, Miss)
    assert "NaN" in miss.reason


def test_another_order_is_counted_and_another_sequence_is_a_miss() -> None:
    made = recording((ask("B"), said("b")), (ask("A"), said("a")), (ask("A and B"), said("end")))
    same = afnb.replay(made, agent=asking([ask("A"), ask("B"), ask("A and B")]))
    assert (same.report.out_of_order, same.faithful) == (1, True)
    assert "in another order 1 (harmless)" in " ".join(same.to_text().split())
    other = afnb.replay(made, agent=asking([ask("A"), ask("B"), ask("only A")]))
    assert (other.report.out_of_order, other.report.missed, other.faithful) == (1, 1, False)
