"""``replay``: the fidelity gate, its misses as rows, and what may be set."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.cassette import Cassette, Chunk, Exchange, Request, Response
from afnb.core.matching import Matching, Pattern
from afnb.core.redaction import Redaction, matching_for, with_matching
from afnb.core.tape import Tape
from afnb.errors import InputError, ParameterError
from afnb.experiments.replaying import replay
from afnb.io.formats.cassette import read_cassette, write_cassette
from afnb.tables.schemas import schema

PATH = "/v1/chat/completions"


def ask(words: str, **more: Any) -> Request:
    body = {"model": "m", "messages": [{"role": "user", "content": words}], **more}
    return Request("POST", PATH, (("content-type", "application/json"),), json.dumps(body).encode())


def said(words: str) -> Response:
    message = {"role": "assistant", "content": words}
    body = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return Response(200, (("content-type", "application/json"),), json.dumps(body).encode())


def recording(*pairs: tuple[str, str], **attrs: Any) -> Cassette:
    exchanges = tuple(Exchange(i, ask(a), said(b)) for i, (a, b) in enumerate(pairs))
    return Cassette("rec", exchanges, attrs=attrs)


def asking(*words: str, **more: Any) -> Any:
    """An agent that asks these one after the other, whatever it is answered."""

    def agent(ctx: Any) -> str:
        with ctx.http_client("httpx") as http:
            for one in words:
                answer = http.post(PATH, content=ask(one, **more).body)
        return str(answer.json().get("error") or answer.json()["choices"][0]["message"]["content"])

    return agent


TWO = recording(("first, on 2026-03-30", "a"), ("second", "b"))


def test_faithful_is_everything_served_and_the_same_answer() -> None:
    found = replay(TWO, agent=asking("first, on 2026-03-30", "second"))
    assert (found.faithful, found.fidelity.reason) == (True, None)
    assert (found.report.served, found.report.missed, found.report.live) == (2, 0, 0)
    assert found.misses.num_rows == 0
    assert found.misses.schema.equals(schema("misses"))
    assert "faithful" in found.to_text()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("first, on 2026-03-30",), "asked for 1 of 2 recorded exchanges (not for 1)"),
        (("second", "second"), "asked for 1 of 2 recorded exchanges (not for 0)"),
        (("second", "first, on 2026-03-30"), "answer is not the recorded one"),
        (("first, on 2026-03-31", "second"), "messages[0].content"),
    ],
)
def test_what_is_not_faithful_says_why(words: tuple[str, ...], reason: str) -> None:
    found = replay(TWO, agent=asking(*words))
    assert not found.faithful
    assert reason in str(found.fidelity.reason)
    assert reason in found.to_text(200)
    assert found.to_json()["reason"] == found.fidelity.reason


def test_every_miss_is_a_row_that_names_the_nearest_request_and_the_difference() -> None:
    found = replay(TWO, agent=asking("first, on 2026-03-31", "third", "second"))
    rows = found.misses.to_pylist()
    assert [(r["request"], r["nearest"], r["where"]) for r in rows] == [
        (0, 0, "messages[0].content"),
        (1, 0, "messages[0].content"),
    ]
    assert (rows[0]["recorded"], rows[0]["asked"]) == ("first, on 2026-03-30", "first, on 2026-03-31")
    assert json.loads(rows[0]["suggestions"]) == ["dates"]
    text = found.to_text(200)
    assert "--match dates" in text
    assert "third" in text
    assert len(found.to_json()["misses"]) == 2


def test_rules_are_given_by_value_or_kept_in_the_recording(tmp_path: Path) -> None:
    agent = asking("first, on 2026-03-31", "second")
    rules = Matching().replacing("dates")
    assert not replay(TWO, agent=agent).faithful
    given = replay(TWO, agent=agent, matching=rules)
    assert (given.faithful, given.report.rules) == (True, (("pattern:dates", 1),))
    write_cassette(with_matching(TWO, rules), tmp_path / "x.json")
    kept = replay(tmp_path / "x.json", agent=agent)
    assert (kept.faithful, kept.report.rules) == (True, (("pattern:dates", 1),))
    assert not replay(tmp_path / "x.json", agent=agent, matching=Matching()).faithful


def test_a_recordings_own_rules_and_its_redaction_go_together() -> None:
    hidden = Redaction(patterns=("sk-[0-9]+",)).cassette(recording(("run 7 with sk-123", "a")))
    kept = with_matching(hidden, Matching(patterns=(Pattern("run", r"run \d+"),)))
    found = replay(kept, agent=asking("run 8 with sk-456"))
    assert (found.faithful, dict(found.report.rules)) == (True, {"pattern:run": 1, "redaction": 1})
    assert b"sk-456" not in found.recording.exchanges[0].request.body


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "expected an object"),
        ({"rules": "numbers"}, "lists of text"),
        ({"rules": ["no_such_rule"]}, "no_such_rule"),
        ({"ignore": ["[[["]}, "no JSON path"),
        ({"patterns": [{"name": "x"}]}, "a pattern is an object"),
        ({"patterns": [{"name": "x", "regex": "("}]}, "no regular expression"),
        ({"normalise": "mine"}, "cannot be kept in a file"),
    ],
)
def test_kept_rules_that_cannot_be_read_are_named(value: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        matching_for(recording(matching=value))
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"cassette_version": "0.1", "id": "x", "matching": value, "exchanges": []}))
    with pytest.raises(InputError, match=r"x\.json"):
        read_cassette(path)


def test_a_function_cannot_be_kept() -> None:
    with pytest.raises(ParameterError, match="give it to each replay"):
        with_matching(TWO, Matching(normalise=lambda request: request))


def test_serve_through_answers_the_beginning_and_goes_live_after_it() -> None:
    asked: list[bytes] = []

    def live(request: Request) -> Response:
        asked.append(request.body)
        return said("live")

    agent = asking("first, on 2026-03-30", "second")
    found = replay(TWO, agent=agent, upstream=live, serve_through=0)
    assert (found.report.served, found.report.live, found.run.answer) == (1, 1, "live")
    assert asked == [ask("second").body]
    assert "served through 0, live after it" in found.to_text()
    nothing = replay(TWO, agent=agent, upstream=live, serve_through=-1)
    assert (nothing.report.served, nothing.report.live) == (0, 2)
    unpatched = replay(TWO, agent=agent, upstream=live)
    assert (unpatched.report.served, unpatched.report.live) == (2, 0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"serve_through": 0}, "give upstream="),
        ({"serve_through": 2, "upstream": ["x"]}, "2 exchanges, 0 to 1"),
        ({"serve_through": -2, "upstream": ["x"]}, "-1 for none"),
        ({"repeat": "never"}, "'in_order'"),
        ({"pace": "slowly"}, "'as recorded'"),
    ],
)
def test_wrong_settings_start_nothing(settings: dict[str, Any], said: str) -> None:
    def agent(ctx: Any) -> None:
        raise AssertionError("started")

    with pytest.raises(ParameterError, match=said):
        replay(TWO, agent=agent, **settings)


def test_repeats() -> None:
    thrice = recording(("again", "a"), ("again", "b"), ("again", "c"))
    agent = asking("again", "again", "again", "again")
    in_order = replay(thrice, agent=agent)
    assert (in_order.run.answer, in_order.report.beyond_recording, in_order.faithful) == ("c", 1, True)
    first = replay(thrice, agent=agent, repeat="first")
    assert (first.run.answer, first.fidelity.served) == ("a", 3)
    error = replay(thrice, agent=agent, repeat="error")
    assert "recorded 3 times, asked 4 times" in error.misses.to_pylist()[0]["reason"]


def test_another_order_is_counted_and_harmless() -> None:
    three = recording(("x", "a"), ("y", "b"), ("z", "c"))
    found = replay(three, agent=asking("y", "x", "z"))
    assert (found.faithful, found.report.out_of_order) == (True, 1)
    assert "in another order" in found.to_text()


def test_recorded_times_are_kept_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    events = (("content-type", "text/event-stream"),)
    chunks = (Chunk(0.0, b"data: 1\n\n"), Chunk(800.0, b"data: [DONE]\n\n"))
    stream = Response(200, events, b"".join(c.data for c in chunks), chunks)
    tape = Cassette("s", (Exchange(0, ask("x", stream=True), stream),))

    def agent(ctx: Any) -> str:
        with ctx.http_client("httpx") as http:
            return http.post(PATH, content=ask("x", stream=True).body).text

    assert replay(tape, agent=agent).report.served == 1
    assert slept == []
    replay(tape, agent=agent, pace="as recorded")
    assert slept
    assert 0.7 < max(slept) <= 0.8
    replay(tape, agent=agent, pace=0.5)
    assert max(slept[1:]) <= 0.4


def test_experiments_take_the_rules_for_both_recordings() -> None:
    good = recording(("start on 2026-03-29", "go on"), ("what of it?", "closed; Dana has her money"))
    bad = recording(("start on 2026-03-30", "go on"), ("what of it?", "no refund is due for order 8841"))
    agent = asking("start on 2026-12-24", "what of it?")
    rules = Matching().replacing("dates")
    options: dict[str, Any] = {
        "agent": agent,
        "upstream": ["unused"],
        "oracle": lambda run: "closed" in str(run.answer),
        "matching": rules,
        "progress": False,
    }
    one = afnb.what_if(bad, afnb.Edit(1, "closed"), good=good, **options)
    assert (one.verdict, one.label) == ("recovered", "verified"), one.to_text()
    assert [dict(check.rules) for check in one.fidelity] == [{"pattern:dates": 1}] * 2
    assert "1 matched by pattern:dates" in one.to_text()
    assert one.replays.column("normalised").to_pylist()[0] == 1
    both = afnb.attribute(bad, good, **options)
    assert (both.verdict, both.origination) == ("recovered", (1,)), both.to_text()
    assert [dict(check.rules) for check in both.fidelity] == [{"pattern:dates": 1}] * 2


def test_matching_is_for_http_recordings_alone() -> None:
    from afnb.core.eventlog import EventLog
    from afnb.io.logged import LoggedAgent

    log = LoggedAgent(lambda ctx: ctx.model_call({"q": 1}).response, model=lambda request: {"a": 1}).run(
        EventLog(None)
    )
    with pytest.raises(ParameterError, match="event log's calls are compared exactly"):
        afnb.what_if(
            log.log,
            afnb.Resample(0),
            agent=LoggedAgent(lambda ctx: None, model=lambda request: {"a": 1}),
            oracle=lambda run: True,
            matching=Matching(),
            progress=False,
        )


def test_a_tape_made_without_rules_has_the_default_ones() -> None:
    assert Tape(TWO).matching == Matching()
