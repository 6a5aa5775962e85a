"""A session's turns: recording, replaying, and every arm's serving, patching and going live."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from afnb.core.arm import AnswerPatch, Arm, AskAgain, ResultPatch
from afnb.core.cassette import Cassette, Exchange, Request, Response
from afnb.core.providers import conversation_key, read_answer, tool_results
from afnb.core.tape import Tape
from afnb.errors import ParameterError
from afnb.io.serve import Forward, Refuse, Serve, Session
from afnb.io.serve_answers import REFUSED_STATUS

JSON_HEADERS = (("content-type", "application/json"), ("authorization", "Bearer SECRET"))
RETRIED_BY_SDKS = {408, 409, 429, *range(500, 600)}


def chat(user: str, history: Sequence[dict[str, Any]] = (), model: str = "m") -> Request:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": user}, *history]
    body = json.dumps({"model": model, "messages": messages}).encode()
    return Request("POST", "/v1/chat/completions", JSON_HEADERS, body)


def said(text: str = "", *calls: tuple[str, str, dict[str, Any]], tokens: int = 10) -> Response:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
            for i, n, a in calls
        ]
    usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    body = json.dumps({"id": "x", "choices": [choice], "usage": usage}).encode()
    return Response(200, (("content-type", "application/json"), ("set-cookie", "SECRET")), body)


BUSY = Response(429, (("content-type", "application/json"), ("retry-after", "20")), b'{"error":{}}')


@dataclass
class Talk:
    """One conversation of an agent: what it says, and the tools it runs by itself."""

    session: Session
    live: Callable[[Request], Response]
    user: str = "u"
    history: list[dict[str, Any]] = field(default_factory=list)
    tool: Callable[[str, Any], Any] = lambda name, arguments: {"ran": name, **arguments}
    last: Any = None

    def ask(self) -> Any:
        """Ask the model with what there is; its answer is appended and its tools run."""
        request = chat(self.user, self.history)
        turn = self.session.decide(request)
        self.last = turn
        if isinstance(turn, Refuse):
            return turn
        if isinstance(turn, Forward):
            response = self.live(turn.request)
            self.session.complete(turn, response)
        else:
            response = turn.response
        if response.status != 200:
            return response
        message = json.loads(response.body)["choices"][0]["message"]
        self.history.append(message)
        for call in message.get("tool_calls", ()):
            arguments = json.loads(call["function"]["arguments"])
            value = self.tool(call["function"]["name"], arguments)
            self.history.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(value)})
        return message

    def run(self, most: int = 10) -> str | None:
        """Until the model answers without a tool call; its text, None if refused."""
        for _ in range(most):
            message = self.ask()
            if not isinstance(message, dict):
                return None
            if "tool_calls" not in message:
                return str(message["content"])
        return None


def record(answers: Sequence[Response], user: str = "u") -> Cassette:
    """Record a talk with scripted answers."""
    session = Session(id="rec")
    script = iter(answers)
    Talk(session, lambda _: next(script), user).run()
    return session.cassette()


THREE = (said("", ("c0", "look", {"n": 0})), said("", ("c1", "look", {"n": 1})), said("done"))


@pytest.fixture
def tape() -> Tape:
    return Tape(record(THREE))


def nobody(request: Request) -> Response:
    raise AssertionError(f"a live call was made: {request.body!r}")


@dataclass
class Live:
    """A provider that counts; its answers are numbered and end after ``turns`` tool calls."""

    turns: int = 1
    seen: list[Request] = field(default_factory=list)

    def __call__(self, request: Request) -> Response:
        self.seen.append(request)
        n = len(self.seen)
        if n <= self.turns:
            return said("", (f"live{n}", "look", {"live": n}))
        return said(f"live end {n}")


def patch(tape: Tape, exchange: int, response: Response, *, recorded: bool = False) -> AnswerPatch:
    request = tape.cassette.exchanges[exchange].request
    return AnswerPatch(2 * exchange, exchange, exchange, conversation_key(request), response, recorded)


def again(tape: Tape, exchange: int, model: str | None = None) -> AskAgain:
    request = tape.cassette.exchanges[exchange].request
    return AskAgain(2 * exchange, exchange, exchange, conversation_key(request), model)


def result(exchange: int, value: Any, *, recorded: bool = False, index: int = 0) -> ResultPatch:
    return ResultPatch(2 * exchange + 1, exchange, f"c{exchange}", index, "look", value, recorded)


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
    assert "SECRET" not in repr(cassette)
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


# --- one intervention -----------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", [False, True])
def test_a_patched_answer_and_its_control_differ_in_the_answer_alone(tape: Tape, recorded: bool) -> None:
    answer = THREE[1] if recorded else said("", ("c1", "look", {"n": 99}))
    arm = Arm("control" if recorded else "patch", (patch(tape, 1, answer, recorded=recorded),), 1)
    session = Session(tape, arm)
    live = Live(turns=1)
    assert Talk(session, live).run() == "live end 2"
    report = session.report()
    assert report.patches_applied == (2,)
    assert report.patches_missing == ()
    assert report.branch_reached
    assert (report.served, report.served_patched, report.live, report.missed) == (2, 1, 2, 0)
    assert report.live_before_branch == 0
    assert report.tokens_live.input == 20
    assert session.cassette().attrs["sources"] == ["tape:0", "patch:1", "live", "live"]
    assert session.cassette().exchanges[1].response.body == answer.body
    if not recorded:
        assert b"99" in live.seen[0].body


def test_after_the_branch_point_a_request_that_is_on_the_tape_goes_live(tape: Tape) -> None:
    """The control arm's next request equals the recorded one, and is asked live all the same."""
    session = Session(tape, Arm("control", (patch(tape, 1, THREE[1], recorded=True),), 1))
    live = Live(turns=0)
    Talk(session, live).run()
    assert live.seen[0].body == tape.cassette.exchanges[2].request.body
    assert session.report().live == 1


def test_the_first_step_can_be_patched(tape: Tape) -> None:
    session = Session(tape, Arm("patch", (patch(tape, 0, said("at once")),), 0))
    assert Talk(session, nobody).run() == "at once"
    assert session.report().patches_applied == (0,)


def test_leaving_the_tape_before_the_intervention_spends_nothing(tape: Tape) -> None:
    session = Session(tape, Arm("patch", (patch(tape, 1, said("x")),), 1))
    talk = Talk(session, nobody, tool=lambda name, arguments: {"ran": "otherwise"})
    assert talk.run() is None
    report = session.report()
    assert report.prefix_diverged is not None
    assert report.prefix_diverged.where == "messages[3].content"
    assert report.prefix_diverged.nearest == 1
    assert report.refused == (("prefix_diverged", 1),)
    assert (report.live, report.patches_applied, report.branch_reached) == (0, (), False)
    assert isinstance(talk.last, Refuse)
    assert talk.last.response.status == REFUSED_STATUS
    assert isinstance(session.decide(chat("u")), Refuse), "a replay that left the tape is over"


def test_asking_again_goes_live_at_that_exchange_alone(tape: Tape) -> None:
    session = Session(tape, Arm("resample", (again(tape, 1, model="bigger"),), 0))
    live = Live(turns=0)
    assert Talk(session, live).run() == "live end 1"
    report = session.report()
    assert (report.served, report.live, report.patches_applied) == (1, 1, (2,))
    assert report.live_before_branch == 0
    assert json.loads(live.seen[0].body)["model"] == "bigger"
    exchange = session.cassette().exchanges[1]
    assert json.loads(exchange.request.body)["model"] == "m"
    assert exchange.forwarded is not None
    assert json.loads(exchange.forwarded.body)["model"] == "bigger"
    assert "SECRET" not in repr(exchange)


def test_asking_again_survives_a_busy_provider(tape: Tape) -> None:
    """The SDK's retry of a 429 is asked live too, never answered from the tape."""
    session = Session(tape, Arm("resample", (again(tape, 1),), 0))
    answers = iter([BUSY, said("fresh")])
    talk = Talk(session, lambda _: next(answers))
    talk.ask()
    assert talk.ask().status == 429
    assert talk.run() == "fresh"
    assert session.report().live == 2


@pytest.mark.parametrize("recorded", [False, True])
def test_a_tool_result_is_replaced_in_every_later_request(tape: Tape, recorded: bool) -> None:
    arm = Arm("arm", (result(0, {"ran": "patched"}, recorded=recorded),), 0)
    session = Session(tape, arm)
    live = Live(turns=1)
    assert Talk(session, live).run() == "live end 2"
    values = [dict(tool_results(request))["c0"] for request in live.seen]
    assert values == [{"ran": "look", "n": 0} if recorded else {"ran": "patched"}] * 2
    report = session.report()
    assert report.patches_applied == (1,)
    assert (report.served, report.live, report.live_before_branch) == (1, 2, 0)
    for exchange in session.cassette().exchanges[1:]:
        assert dict(tool_results(exchange.request))["c0"] == {"ran": "look", "n": 0}
        assert (exchange.forwarded is None) == recorded


def test_a_result_that_never_comes_back_did_not_take_effect(tape: Tape) -> None:
    session = Session(tape, Arm("arm", (result(0, 1),), 0))
    Talk(session, nobody).ask()
    report = session.report()
    assert (report.patches_applied, report.patches_missing, report.branch_reached) == ((), (1,), False)


def test_one_of_several_calls_is_meant_by_its_index() -> None:
    first = said("", ("a", "look", {"n": 0}), ("b", "look", {"n": 1}))
    tape = Tape(record((first, said("done"))))
    session = Session(tape, Arm("arm", (ResultPatch(2, 0, "b", 1, "look", "new"),), 0))
    live = Live(turns=0)
    Talk(session, live).run()
    assert dict(tool_results(live.seen[0])) == {"a": {"ran": "look", "n": 0}, "b": "new"}


def test_an_id_that_is_used_again_means_the_call_it_was_made_for() -> None:
    tape = Tape(record((said("", ("c", "look", {"n": 0})), said("", ("c", "look", {"n": 1})), said("done"))))
    session = Session(tape, Arm("arm", (ResultPatch(3, 1, "c", 0, "look", "new"),), 1))
    live = Live(turns=0)
    Talk(session, live).run()
    assert tool_results(live.seen[0]) == [("c", {"ran": "look", "n": 0}), ("c", "new")]


# --- an arm without interventions ------------------------------------------------------------------


def test_the_tape_answers_through_an_exchange_and_everything_after_it_is_live(tape: Tape) -> None:
    for through in (-1, 0, 1, 2):
        session = Session(tape, Arm("q", (), through))
        live = Live(turns=0)
        Talk(session, live).run()
        report = session.report()
        assert report.served == through + 1
        assert report.live == (through < 2)
        assert report.branch_reached
        assert report.live_before_branch == 0


def test_a_replay_that_stops_before_the_branch_point_says_so(tape: Tape) -> None:
    session = Session(tape, Arm("q", (), 1))
    Talk(session, nobody).ask()
    assert not session.report().branch_reached


# --- several interventions -------------------------------------------------------------------------


def test_a_later_intervention_acts_by_position_whatever_the_request_says(tape: Tape) -> None:
    changed = said("", ("c0", "look", {"n": 7}))
    arm = Arm("both", (patch(tape, 0, changed), patch(tape, 1, said("", ("p", "look", {"n": 8})))), 1)
    session = Session(tape, arm)
    live = Live(turns=0)
    assert Talk(session, live).run() == "live end 1"
    report = session.report()
    assert report.patches_applied == (0, 2)
    assert (report.served_patched, report.live, report.live_before_branch) == (2, 1, 0)
    assert session.cassette().attrs["sources"] == ["patch:0", "patch:1", "live"]


def test_between_interventions_what_matches_is_served_and_the_rest_goes_live() -> None:
    answers = [said("", (f"c{i}", "look", {"n": i})) for i in range(4)] + [said("done")]
    tape = Tape(record(answers))
    same = Arm(
        "control", (patch(tape, 0, answers[0], recorded=True), patch(tape, 3, answers[3], recorded=True)), 3
    )
    session = Session(tape, same)
    live = Live(turns=0)
    Talk(session, live).run()
    report = session.report()
    assert (report.served, report.served_patched, report.live) == (4, 2, 1)
    assert (report.live_before_branch, report.missed) == (0, 0)

    new = said("", ("c0", "look", {"n": 50}))
    differs = Arm("patch", (patch(tape, 0, new), patch(tape, 3, said("", ("p", "look", {"n": 60})))), 3)
    session = Session(tape, differs)
    live = Live(turns=2)
    assert Talk(session, live).run() == "live end 3"
    report = session.report()
    assert report.patches_applied == (0, 6)
    assert (report.live, report.live_before_branch, report.missed) == (3, 2, 2)
    assert session.cassette().attrs["sources"] == ["patch:0", "live", "live", "patch:3", "live"]


def test_an_intervention_the_run_never_comes_to_is_reported(tape: Tape) -> None:
    arm = Arm("both", (patch(tape, 0, said("stop here")), patch(tape, 2, said("x"))), 2)
    session = Session(tape, arm)
    assert Talk(session, nobody).run() == "stop here"
    report = session.report()
    assert (report.patches_applied, report.patches_missing, report.branch_reached) == ((0,), (4,), False)


def test_a_result_and_a_later_answer_both_take_effect(tape: Tape) -> None:
    """The tape's own answer to the unpatched result is not served to a run whose result was replaced."""
    arm = Arm("both", (result(0, {"ran": "patched"}), patch(tape, 2, said("forced"))), 2)
    session = Session(tape, arm)
    live = Live(turns=1)
    assert Talk(session, live).run() == "forced"
    report = session.report()
    assert report.patches_applied == (1, 4)
    assert (report.served, report.live, report.live_before_branch) == (2, 1, 1)
    control = Arm("control", (result(0, None, recorded=True), patch(tape, 2, THREE[2], recorded=True)), 2)
    session = Session(tape, control)
    assert Talk(session, nobody).run() == "done"
    report = session.report()
    assert (report.served, report.live, report.patches_applied) == (3, 0, (1, 4))


def test_a_later_result_is_found_by_position_whatever_its_id(tape: Tape) -> None:
    """After a first patched answer the second call is made by a live answer, with an id of its own."""
    arm = Arm("both", (patch(tape, 0, said("", ("c0", "look", {"n": 5}))), result(1, "new")), 1)
    session = Session(tape, arm)
    live = Live(turns=1)
    assert Talk(session, live).run() == "live end 2"
    assert dict(tool_results(live.seen[1]))["live1"] == "new"
    assert session.report().patches_applied == (0, 3)


def test_a_result_of_another_tool_at_that_position_is_left_alone(tape: Tape) -> None:
    arm = Arm("both", (patch(tape, 0, said("", ("c0", "look", {"n": 5}))), result(1, "new")), 1)
    session = Session(tape, arm)
    answers = iter([said("", ("z", "write", {})), said("end")])
    assert Talk(session, lambda _: next(answers)).run() == "end"
    assert session.report().patches_missing == (3,)


def test_asking_again_later_goes_by_position(tape: Tape) -> None:
    arm = Arm("both", (patch(tape, 0, said("", ("c0", "look", {"n": 5}))), again(tape, 1)), 0)
    session = Session(tape, arm)
    live = Live(turns=0)
    assert Talk(session, live).run() == "live end 1"
    report = session.report()
    assert report.patches_applied == (0, 2)
    assert report.live_before_branch == 0


# --- parallel branches -----------------------------------------------------------------------------


def interleaved() -> Tape:
    """Two conversations of three answers each: exchanges 0, 2, 4 are a's, 1, 3, 5 are b's."""
    session = Session(id="par")
    scripts = {
        u: iter(
            [said("", (f"{u}0", "look", {"n": 0})), said("", (f"{u}1", "look", {"n": 1})), said(f"{u} done")]
        )
        for u in "ab"
    }
    talks = [Talk(session, lambda _, u=u: next(scripts[u]), u) for u in "ab"]
    for _ in range(3):
        for talk in talks:
            talk.ask()
    return Tape(session.cassette())


@pytest.mark.parametrize("order", ["abab", "aabb", "bbaa", "bbba"])
def test_other_branches_get_their_matches_up_to_the_branch_point(order: str) -> None:
    """serve_through=3 covers two answers of each branch, in whatever order the branches run."""
    tape = interleaved()
    key = conversation_key(chat("a"))
    arm = Arm("arm", (AnswerPatch(4, 2, 1, key, said("", ("n", "look", {"n": 9}))),), 3)
    session = Session(tape, arm)
    lives = {"a": Live(turns=0), "b": Live(turns=0)}
    talks = {u: Talk(session, lives[u], u) for u in "ab"}
    for u in order:
        talks[u].ask()
    report = session.report()
    ahead = order.count("b") - 2
    assert (report.served, report.live) == (4 - (order.count("a") == 1), max(0, ahead))
    assert report.live_before_branch == max(0, ahead)
    assert report.prefix_diverged is None
    if order.count("a") == 2:
        assert report.patches_applied == (4,)


def test_a_branch_that_runs_ahead_must_still_be_the_recorded_one() -> None:
    tape = interleaved()
    key = conversation_key(chat("a"))
    session = Session(tape, Arm("arm", (AnswerPatch(4, 2, 1, key, said("x")),), 3))
    talk = Talk(session, nobody, "b")
    talk.ask()
    talk.tool = lambda name, arguments: "otherwise"
    talk.ask()
    assert isinstance(talk.ask(), Refuse)
    assert session.report().prefix_diverged is not None


def test_positions_are_counted_per_branch() -> None:
    """The second intervention is on b; a's answers do not bring it forward."""
    tape = interleaved()
    a, b = conversation_key(chat("a")), conversation_key(chat("b"))
    arm = Arm(
        "arm",
        (AnswerPatch(0, 0, 0, a, said("", ("n", "look", {"n": 9}))), AnswerPatch(6, 3, 1, b, said("forced"))),
        3,
    )
    session = Session(tape, arm)
    live = Live(turns=5)
    ta, tb = Talk(session, live, "a"), Talk(session, live, "b")
    ta.ask()
    ta.ask()
    ta.ask()
    assert session.report().patches_applied == (0,)
    assert tb.run() == "forced"
    assert session.report().patches_applied == (0, 6)


# --- screens ---------------------------------------------------------------------------------------


def test_tail_tape_serves_what_still_matches(tape: Tape) -> None:
    arm = Arm("screen", (patch(tape, 0, THREE[0], recorded=True),), 0, tail="tape")
    session = Session(tape, arm)
    assert Talk(session, nobody).run() == "done"
    assert session.report().served == 3
    changed = Arm("screen", (patch(tape, 0, said("", ("c0", "look", {"n": 5}))),), 0, tail="tape")
    session = Session(tape, changed)
    assert Talk(session, Live(turns=0)).run() == "live end 1"
    assert (session.report().live, session.report().live_before_branch) == (1, 0)


def test_tail_good_serves_the_good_run(tape: Tape) -> None:
    good = Tape(record((said("", ("c0", "look", {"n": 5})), said("good end"))))
    arm = Arm("screen", (patch(tape, 0, said("", ("c0", "look", {"n": 5}))),), 0, tail="good")
    session = Session(tape, arm, good)
    assert Talk(session, nobody).run() == "good end"
    assert session.report().served_good == 1
    assert session.cassette().attrs["sources"] == ["patch:0", "good:1"]


def test_tail_good_with_a_grafted_result(tape: Tape) -> None:
    """The model would see the replaced result, so that is what is looked up in the good run."""
    recorder = Session()
    script = iter((THREE[0], said("good end")))
    Talk(recorder, lambda _: next(script), tool=lambda name, arguments: {"ran": "well"}).run()
    session = Session(
        tape, Arm("s", (result(0, {"ran": "well"}),), 0, tail="good"), Tape(recorder.cassette())
    )
    assert Talk(session, nobody).run() == "good end"
    assert session.report().patches_applied == (1,)


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
