"""Every arm: what is served, patched, asked live, and what counts as having taken effect."""

from __future__ import annotations

import json

import pytest

from afnb.core.arm import AnswerPatch, Arm, ResultPatch
from afnb.core.canon import Matching
from afnb.core.cassette import Cassette, Exchange, Request, Response
from afnb.core.providers import conversation_key, tool_results
from afnb.core.redaction import Redaction
from afnb.core.tape import Tape
from afnb.io.serve import Forward, Refuse, Serve, Session
from afnb.io.serve_answers import REFUSED_STATUS

from .talks import BUSY, THREE, Live, Talk, again, chat, nobody, patch, record, result, said


@pytest.fixture
def tape() -> Tape:
    return Tape(record(THREE))


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


def test_two_calls_of_one_answer_under_one_id_are_told_apart() -> None:
    first = said("", ("c", "look", {"n": 0}), ("c", "look", {"n": 1}))
    tape = Tape(record((first, said("done"))))
    for index, changed in ((0, ["new", {"ran": "look", "n": 1}]), (1, [{"ran": "look", "n": 0}, "new"])):
        session = Session(tape, Arm("arm", (ResultPatch(1 + index, 0, "c", index, "look", "new"),), 0))
        live = Live(turns=0)
        Talk(session, live).run()
        assert [value for _, value in tool_results(live.seen[0])] == changed


def test_the_same_id_in_another_conversation_is_another_call() -> None:
    """Servers number the calls of each conversation anew, so that parallel ones share their ids."""
    session = Session(id="two")
    for user in "ab":
        script = iter((said("", ("call_0", "look", {"n": 0})), said("done")))
        Talk(session, lambda _, script=script: next(script), user).run()
    session = Session(
        Tape(session.cassette()), Arm("arm", (ResultPatch(1, 0, "call_0", 0, "look", "new"),), 0)
    )
    lives = {user: Live(turns=0) for user in "ab"}
    scripts = {"a": lives["a"], "b": lambda request: asked_b(request)}

    def asked_b(request: Request) -> Response:
        lives["b"].seen.append(request)
        return said("", ("call_0", "look", {"n": 0})) if len(lives["b"].seen) == 1 else said("end")

    for user in "ab":
        Talk(session, scripts[user], user).run()
    assert tool_results(lives["a"].seen[0]) == [("call_0", "new")]
    assert tool_results(lives["b"].seen[1]) == [("call_0", {"ran": "look", "n": 0})]


def test_another_conversation_that_holds_the_call_gets_the_new_result() -> None:
    """A hand-off, or a summary: another system prompt over the same messages."""
    tape = Tape(record((said("", ("c", "look", {"n": 0})), said("done"))))
    session = Session(tape, Arm("arm", (ResultPatch(1, 0, "c", 0, "look", "new"),), 0))
    talk, live = Talk(session, Live(turns=0)), Live(turns=0)
    talk.run()
    Talk(session, live, user="sum up", history=talk.history).run()
    assert dict(tool_results(live.seen[0])) == {"c": "new"}


def test_a_retry_of_a_patched_error_goes_live(tape: Tape) -> None:
    """The patched answer is an error that the agent's SDK asks again: that is after the branch point."""
    session = Session(tape, Arm("patch", (patch(tape, 1, BUSY),), 1))
    talk = Talk(session, Live(turns=0))
    talk.ask()
    assert talk.ask().status == 429
    assert talk.run() == "live end 1"
    assert session.report().served == 2


def test_a_control_s_result_counts_only_where_a_request_holds_it(tape: Tape) -> None:
    session = Session(tape, Arm("control", (result(0, None, recorded=True),), 0))
    talk = Talk(session, nobody)
    talk.ask()
    talk.history = [{"role": "assistant", "content": "never mind"}]
    assert isinstance(talk.ask(), Refuse)
    assert session.report().patches_missing == (1,)
    assert session.report().prefix_diverged is not None


def test_a_poll_after_the_branch_point_goes_live() -> None:
    """A request that is no model's: served as recorded before the branch point, asked live after it."""
    poll, state = Request("GET", "/v1/jobs/1"), Response(200, (), b"waiting")
    exchanges = (Exchange(0, poll, state), Exchange(1, chat("u"), said("done")))
    tape = Tape(Cassette("c", exchanges))
    arm = Arm("control", (AnswerPatch(0, 1, 0, conversation_key(chat("u")), said("done"), True),), 1)
    session = Session(tape, arm)
    assert isinstance(session.decide(poll), Serve)
    assert isinstance(session.decide(poll), Serve)
    assert isinstance(session.decide(chat("u")), Serve)
    assert isinstance(session.decide(poll), Forward)
    assert session.report().beyond_recording == 1


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


def test_asking_again_first_keeps_a_retry_off_the_tape(tape: Tape) -> None:
    """The first of two interventions asks live and gets a 429: its retry is asked live as well."""
    arm = Arm("both", (again(tape, 1), patch(tape, 2, said("forced"))), 2)
    session = Session(tape, arm)
    answers = iter([BUSY, said("", ("n", "look", {"n": 1}))])
    talk = Talk(session, lambda _: next(answers))
    talk.ask()
    assert talk.ask().status == 429
    assert talk.run() == "forced"
    report = session.report()
    assert (report.live, report.served, report.patches_applied) == (2, 2, (2, 4))
    assert report.live_before_branch == 0, "asking again is the intervention, not a detour before it"


def test_a_retry_of_a_question_asked_again_goes_to_the_same_model(tape: Tape) -> None:
    arm = Arm("both", (patch(tape, 0, said("", ("c0", "look", {"n": 5}))), again(tape, 1, model="bigger")), 0)
    session = Session(tape, arm)
    answers, models = iter([BUSY, said("end")]), []

    def live(request: Request) -> Response:
        models.append(json.loads(request.body)["model"])
        return next(answers)

    talk = Talk(session, live)
    talk.ask()
    assert talk.ask().status == 429
    assert talk.run() == "end"
    assert models == ["bigger", "bigger"]


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


def test_a_branch_at_the_end_of_its_prefix_is_not_served_again() -> None:
    """Once b's recorded answers are used up its requests go live, even one that is on the tape."""
    tape = interleaved()
    a, b = conversation_key(chat("a")), chat("b")
    session = Session(tape, Arm("arm", (AnswerPatch(0, 0, 0, a, said("x")),), 1))
    Talk(session, nobody, "a").ask()
    assert isinstance(session.decide(b), Serve)
    assert isinstance(session.decide(b), Forward)


def test_a_branch_that_has_run_ahead_may_go_on() -> None:
    """Its live answers lead it away from the recording, and that is no reason to stop."""
    tape = interleaved()
    session = Session(tape, Arm("arm", (AnswerPatch(4, 2, 1, conversation_key(chat("a")), said("x")),), 3))
    assert Talk(session, Live(turns=3), "b").run() == "live end 4"
    report = session.report()
    assert (report.served, report.live, report.live_before_branch, report.missed) == (2, 4, 4, 0)


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


@pytest.mark.parametrize("control", [True, False])
def test_what_matching_forgives_does_not_make_another_conversation(control: bool) -> None:
    """The first message holds a date, which matching is told to forgive; the re-run has another one."""
    tape = Tape(record(THREE, user="today is 2026-01-01"), Matching().replacing("dates"))
    first = tape.cassette.exchanges[0].request
    key = conversation_key(first)
    answer = THREE[0] if control else said("", ("c0", "look", {"n": 9}))
    arm = Arm(
        "both", (AnswerPatch(0, 0, 0, key, answer, control), AnswerPatch(4, 2, 2, key, said("forced"))), 2
    )
    session = Session(tape, arm)
    live = Live(turns=9)
    assert Talk(session, live, user="today is 2026-12-24").run() == "forced"
    report = session.report()
    assert report.patches_applied == (0, 4)
    assert report.live == (0 if control else 1)


def test_a_redacted_recording_branches_like_any_other() -> None:
    cassette = Redaction(patterns=("ssn-[0-9]+",)).cassette(record(THREE, user="my ssn-456"))
    tape = Tape(cassette)
    key = conversation_key(cassette.exchanges[0].request)
    arm = Arm("patch", (AnswerPatch(2, 1, 1, key, said("", ("c1", "look", {"n": 9}))),), 1)
    session = Session(tape, arm)
    assert Talk(session, Live(turns=0), user="my ssn-456").run() == "live end 1"
    assert (session.report().served, session.report().live) == (2, 1)


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


def test_tail_tape_serves_the_patched_answer_again(tape: Tape) -> None:
    session = Session(tape, Arm("screen", (patch(tape, 0, said("new")),), 0, tail="tape"))
    for _ in range(2):
        turn = session.decide(tape.cassette.exchanges[0].request)
        assert isinstance(turn, Serve)
        assert turn.source == "patch"


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
