"""A session's turns: recording, replaying, refusing, ending."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from afnb.core.arm import AnswerPatch, Arm
from afnb.core.cassette import Cassette, Exchange, Request, Response
from afnb.core.providers import read_answer, tool_results
from afnb.core.redaction import Redaction
from afnb.core.tape import Tape
from afnb.errors import ParameterError
from afnb.io.formats.cassette import read_cassette, write_cassette
from afnb.io.serve import Forward, Refuse, Serve, Session

from .talks import BUSY, RETRIED_BY_SDKS, THREE, Live, Talk, again, chat, nobody, patch, record, result, said


@pytest.fixture
def tape() -> Tape:
    return Tape(record(THREE))


# --- recording and plain replay -------------------------------------------------------------------


def test_recording_keeps_everything_but_credentials() -> None:
    session = Session(id="rec")
    script = iter(THREE)
    assert Talk(session, lambda _: next(script)).run() == "done"
    cassette = session.cassette()
    report = session.report()
    assert (report.mode, report.requests, report.live, report.served) == ("record", 3, 3, 0)
    assert (report.tokens.input, report.tokens.output, report.tokens.unknown) == (30, 3, 0)
    assert [e.idx for e in cassette.exchanges] == [0, 1, 2]
    assert [e.response.body for e in cassette.exchanges] == [r.body for r in THREE]
    assert all(
        e.t_start is not None and e.t_end is not None and e.t_start <= e.t_end for e in cassette.exchanges
    )
    assert b"SECRET" not in pickle.dumps(cassette)
    assert all(dict(e.request.headers) == {"content-type": "application/json"} for e in cassette.exchanges)


def test_a_credential_in_the_query_is_not_kept() -> None:
    session = Session()
    turn = session.decide(Request("GET", "/v1/models?key=SECRET&x=1"))
    assert isinstance(turn, Forward)
    assert turn.request.path == "/v1/models?key=SECRET&x=1"
    session.complete(turn, Response(200))
    assert session.cassette().exchanges[0].request.path == "/v1/models?key=MASKED&x=1"


def test_replay_serves_all_and_asks_nobody(tape: Tape) -> None:
    session = Session(tape)
    assert Talk(session, nobody).run() == "done"
    report = session.report()
    assert (report.mode, report.served, report.live, report.missed) == ("replay", 3, 0, 0)
    assert report.branch_reached
    assert report.tokens.input == 30
    assert report.tokens_live.total == 0
    replayed = session.cassette()
    assert [e.response for e in replayed.exchanges] == [e.response for e in tape.cassette.exchanges]
    assert replayed.attrs["sources"] == ["tape:0", "tape:1", "tape:2"]


def test_a_re_run_is_a_cassette_like_any_other(tape: Tape, tmp_path: Path) -> None:
    session = Session(Tape(replace(tape.cassette, task="look twice")))
    Talk(session, nobody).run()
    write_cassette(session.cassette(), tmp_path / "again.json")
    again = read_cassette(tmp_path / "again.json")
    assert again.task == "look twice"
    assert again.attrs["sources"] == ["tape:0", "tape:1", "tape:2"]
    replay = Session(Tape(again), live=False)
    assert Talk(replay, nobody).run() == "done"


def test_what_was_redacted_in_a_recording_stays_out_of_its_replays(tape: Tape) -> None:
    cassette = Redaction(patterns=("ssn-[0-9]+",)).cassette(
        record((said("your ssn-123"),), user="my ssn-456")
    )
    session = Session(Tape(cassette), Arm("live", (), -1))
    assert Talk(session, lambda _: said("it is ssn-789"), user="my ssn-456").run() == "it is ssn-789"
    kept = session.cassette()
    assert b"ssn-" not in kept.exchanges[0].request.body + kept.exchanges[0].response.body
    assert kept.attrs["redaction"] == cassette.attrs["redaction"]
    assert isinstance(Session(Tape(cassette), live=False).decide(chat("my ssn-456")), Serve)


def test_a_miss_goes_live_if_it_may(tape: Tape) -> None:
    session = Session(tape)
    live = Live(turns=0)
    assert Talk(session, live, user="other").run() == "live end 1"
    report = session.report()
    assert (report.served, report.live, report.missed) == (0, 1, 1)
    assert report.first_miss is not None
    assert report.first_miss.where == "messages[1].content"
    assert (report.first_miss.recorded, report.first_miss.asked) == ("u", "other")


def test_a_miss_is_refused_with_a_status_no_sdk_asks_again(tape: Tape) -> None:
    session = Session(tape, live=False)
    turn = session.decide(chat("other"))
    assert isinstance(turn, Refuse)
    assert turn.response.status not in RETRIED_BY_SDKS
    assert ("x-should-retry", "false") in turn.response.headers
    body = json.loads(turn.response.body)
    assert body["error"]["param"] == "messages[1].content"
    assert "messages[1].content" in body["error"]["message"]
    assert session.report().refused == (("missed", 1),)
    assert isinstance(session.decide(tape.cassette.exchanges[0].request), Serve), "the tape goes on answering"


def test_rules_that_matches_needed_are_counted(tape: Tape) -> None:
    session = Session(tape)
    body = json.loads(tape.cassette.exchanges[1].request.body)
    body["messages"][2]["tool_calls"][0]["id"] = body["messages"][3]["tool_call_id"] = "fresh"
    turn = session.decide(Request("POST", "/v1/chat/completions", (), json.dumps(body).encode()))
    assert isinstance(turn, Serve)
    assert ("tool_call_ids", 1) in session.report().rules


def test_retries_replay_as_they_were_and_without_their_delay() -> None:
    recorder = Session()
    for answer in (BUSY, said("done")):
        turn = recorder.decide(chat("u"))
        assert isinstance(turn, Forward)
        recorder.complete(turn, answer)
    cassette = recorder.cassette()
    assert [e.attempt_of for e in cassette.exchanges] == [None, 0]
    assert recorder.report().live_error_statuses == (429,)
    session = Session(Tape(cassette))
    first, second, third = (session.decide(chat("u")) for _ in range(3))
    assert isinstance(first, Serve)
    assert isinstance(second, Serve)
    assert isinstance(third, Serve)
    assert (first.response.status, second.response.status, third.response.status) == (429, 200, 200)
    assert ("retry-after-ms", "1") in first.response.headers
    assert ("retry-after-ms", "1") not in second.response.headers
    assert session.report().beyond_recording == 1


def test_delays_are_kept_if_asked() -> None:
    cassette = Cassette("c", (Exchange(0, chat("u"), BUSY),))
    turn = Session(Tape(cassette), keep_delays=True).decide(chat("u"))
    assert isinstance(turn, Serve)
    assert ("retry-after", "20") in turn.response.headers


def test_framing_headers_of_a_recording_are_not_served_again() -> None:
    answer = Response(200, (("content-encoding", "gzip"), ("content-length", "3"), ("x-a", "b")), b"abc")
    turn = Session(Tape(Cassette("c", (Exchange(0, chat("u"), answer),)))).decide(chat("u"))
    assert isinstance(turn, Serve)
    assert turn.response.headers == (("x-a", "b"),)


# --- gate, refusals, errors, ends --------------------------------------------------------------------


def test_the_gate_refuses_live_calls_with_its_reason(tape: Tape) -> None:
    said_no: list[Request] = []

    def gate(request: Request) -> str | None:
        said_no.append(request)
        return "the budget of 0 live calls is spent"

    session = Session(tape, Arm("control", (patch(tape, 1, THREE[1], recorded=True),), 1), gate=gate)
    talk = Talk(session, nobody)
    assert talk.run() is None
    assert len(said_no) == 1
    report = session.report()
    assert report.refused == (("gate: the budget of 0 live calls is spent", 1),)
    assert (report.served, report.live, report.patches_applied) == (2, 0, (2,))
    assert isinstance(talk.last, Refuse)
    assert b"budget of 0 live calls" in talk.last.response.body


def test_a_refused_question_did_not_take_effect(tape: Tape) -> None:
    session = Session(tape, Arm("resample", (again(tape, 1),), 0), gate=lambda _: "no")
    Talk(session, nobody).run()
    assert session.report().patches_missing == (2,)


def test_the_gate_may_look_at_the_report(tape: Tape) -> None:
    session = Session(tape, gate=lambda _: None if session.report().live < 1 else "one is enough")
    live = Live(turns=9)
    assert Talk(session, live, user="other").run() is None
    assert len(live.seen) == 1


def test_a_run_that_ends_at_the_gate_spends_nothing(tape: Tape) -> None:
    def gate(request: Request) -> None:
        session.close()

    session = Session(tape, gate=gate)
    assert isinstance(session.decide(chat("other")), Refuse)
    assert (session.report().live, session.report().late) == (0, 1)


def test_offline_arm(tape: Tape) -> None:
    session = Session(tape, Arm("control", (patch(tape, 1, THREE[1], recorded=True),), 1), live=False)
    Talk(session, nobody).run()
    assert session.report().refused == (("offline", 1),)


@pytest.mark.parametrize("mode", ["record", "replay"])
def test_a_provider_that_is_down(tape: Tape, mode: str) -> None:
    session = Session() if mode == "record" else Session(tape, Arm("q", (), -1))
    turn = session.decide(chat("u"))
    assert isinstance(turn, Forward)
    assert session.report().in_flight == 1
    response = session.fail(turn, ConnectionError("nobody there"))
    assert (response.status in RETRIED_BY_SDKS) == (mode == "record")
    report = session.report()
    assert report.upstream_errors == ("nobody there",)
    assert (report.live, report.in_flight, len(session.cassette())) == (1, 0, 0)
    with pytest.raises(ParameterError, match="has ended"):
        session.complete(turn, said("late"))


def test_an_answer_the_agent_gave_up_on_is_no_fault_of_the_provider() -> None:
    session = Session()
    turn = session.decide(chat("u"))
    assert isinstance(turn, Forward)
    session.fail(turn, "cancelled", abandoned=True)
    report = session.report()
    assert (report.abandoned, report.upstream_errors) == (1, ())


def test_a_closed_session_takes_no_requests(tape: Tape) -> None:
    session = Session(tape)
    session.close()
    assert isinstance(session.decide(tape.cassette.exchanges[0].request), Refuse)
    report = session.report()
    assert (report.late, report.served, report.refused) == (1, 0, (("closed", 1),))


def test_incomplete_streams_are_counted() -> None:
    cut = Response(
        200, (("content-type", "text/event-stream"),), b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    )
    session = Session()
    for answer in (cut, said("whole")):
        turn = session.decide(chat("u"))
        assert isinstance(turn, Forward)
        session.complete(turn, answer)
    assert session.report().incomplete == 1
    replay = Session(Tape(session.cassette()))
    replay.decide(chat("u"))
    assert replay.report().incomplete == 1


def test_a_position_counted_at_the_head_is_taken_back_when_nothing_came(tape: Tape) -> None:
    arm = Arm("both", (patch(tape, 0, said("", ("c0", "look", {"n": 5}))), patch(tape, 2, said("forced"))), 2)
    session = Session(tape, arm)
    talk = Talk(session, nobody)
    talk.ask()
    for ending in ("fails", "works"):
        turn = session.decide(chat("u", talk.history))
        assert isinstance(turn, Forward)
        session.observe(turn, Response(200, (("content-type", "text/event-stream"),)))
        session.complete(turn, Response(200, (), b"") if ending == "fails" else said("", ("l", "look", {})))
    turn = session.decide(chat("u", [*talk.history, {"role": "assistant", "content": "?"}]))
    assert isinstance(turn, Serve)
    assert turn.source == "patch"


def test_an_observed_call_is_known_before_the_stream_has_ended(tape: Tape) -> None:
    arm = Arm("both", (patch(tape, 0, said("", ("c0", "look", {"n": 5}))), result(1, "new")), 1)
    session = Session(tape, arm)
    talk = Talk(session, nobody)
    talk.ask()
    turn = session.decide(chat("u", talk.history))
    assert isinstance(turn, Forward)
    session.observe(turn, said("", ("z", "look", {})))
    later = [*talk.history, json.loads(said("", ("z", "look", {})).body)["choices"][0]["message"]]
    later.append({"role": "tool", "tool_call_id": "z", "content": "old"})
    following = session.decide(chat("u", later))
    assert isinstance(following, Forward)
    assert dict(tool_results(following.request))["z"] == "new"


def test_reports_and_turns_are_plain_data(tape: Tape) -> None:
    session = Session(tape, live=False)
    refused = session.decide(chat("other"))
    assert isinstance(refused, Refuse)
    for value in (session.report(), refused, session.cassette()):
        assert pickle.loads(pickle.dumps(value)) == value


def test_arms_that_cannot_be_carried_out(tape: Tape) -> None:
    with pytest.raises(ParameterError, match="needs the recording"):
        Session(arm=Arm("a"))
    with pytest.raises(ParameterError, match="good="):
        Session(tape, Arm("a", tail="good"))
    beyond = AnswerPatch(0, 3, 3, "b", said("x"))
    with pytest.raises(ParameterError, match="exchange 3"):
        Session(tape, Arm("a", (beyond,), 3))


# --- concurrency -------------------------------------------------------------------------------------


def test_sessions_over_one_tape_do_not_cross() -> None:
    """Each of 32 parallel replays gets a, b, c for one question asked three times."""
    answers = [said(x) for x in "abc"]
    tape = Tape(Cassette("poll", tuple(Exchange(i, chat("u"), a) for i, a in enumerate(answers))))

    def replay(_: int) -> list[str]:
        session = Session(tape)
        texts = []
        for _ in range(3):
            turn = session.decide(chat("u"))
            assert isinstance(turn, Serve)
            answer = read_answer(chat("u"), turn.response)
            assert answer is not None
            texts.append(answer.text)
        assert session.report().served == 3
        return texts

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(replay, range(64))) == [["a", "b", "c"]] * 64


def test_threads_of_one_recording_lose_nothing() -> None:
    session = Session()

    def one(i: int) -> None:
        turn = session.decide(chat(f"u{i}"))
        assert isinstance(turn, Forward)
        session.complete(turn, said(f"a{i}"))

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(one, range(200)))
    cassette = session.cassette()
    assert [e.idx for e in cassette.exchanges] == list(range(200))
    pairs = set()
    for exchange in cassette.exchanges:
        answer = read_answer(exchange.request, exchange.response)
        assert answer is not None
        pairs.add((json.loads(exchange.request.body)["messages"][1]["content"], answer.text))
    assert pairs == {(f"u{i}", f"a{i}") for i in range(200)}
    assert session.report().live == 200
