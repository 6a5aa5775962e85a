"""Interventions become arms, and a session carries them out as the words say."""

from __future__ import annotations

import dataclasses
import json

import pytest

from afnb.align.diff import diff
from afnb.align.fork import Fork
from afnb.align.moves import Move
from afnb.causal.compile import arm_fingerprint, compile_arms
from afnb.causal.interventions import Edit, Graft, Resample, as_interventions
from afnb.core.arm import AnswerPatch, AskAgain, ResultPatch
from afnb.core.cassette import Cassette, Exchange, Request, Response
from afnb.core.jsonvalue import MISSING
from afnb.core.providers import outputs_of, read_answer
from afnb.core.steps import run_from_cassette
from afnb.core.tape import Tape
from afnb.errors import ParameterError
from afnb.io.serve import Session

from .recordings import JSON, chat, drive, record, said

# steps: 0 llm, 1 tool look, 2 llm, 3 tool policy, 4 llm
LOOK = ("look", {"n": 7})
BAD = record("bad", said("", ("c0", *LOOK)), said("", ("c1", "policy", {"kind": "old"})), said("declined"))
GOOD = record(
    "good",
    said("", ("g0", *LOOK)),
    said("ask what holds this week", ("g1", "policy", {"region": "north", "limits": "weekly"})),
    said("refunded now"),
)
ALIGNED = diff(BAD, GOOD)


def outputs(response, request=BAD.exchanges[0].request):
    return outputs_of(read_answer(request, response))


def nobody(request):
    raise AssertionError(f"a live call was made: {request.body!r}")


def scripted(*answers):
    rest = list(answers)
    return lambda request: rest.pop(0)


def report_of(arm, live, bad=BAD):
    session = Session(Tape(bad), arm)
    history = drive(session, live)
    return session.report(), history


def test_do_llm_step():
    arms = compile_arms(Edit(2, "declined early"), BAD)
    (patch,) = arms.patch.patches
    assert isinstance(patch, AnswerPatch)
    assert (patch.step, patch.exchange, patch.ordinal, patch.as_recorded) == (2, 1, 1, False)
    assert outputs(patch.response) == {"text": "declined early", "tool_calls": []}
    (kept,) = arms.control.patches
    assert kept.response == BAD.exchanges[1].response
    assert kept.as_recorded
    assert arms.patch.serve_through == arms.control.serve_through == 1
    assert (arms.patch.name, arms.control.name) == ("patch", "control")
    report, history = report_of(arms.patch, nobody)
    assert history[-1]["content"] == "declined early"
    assert (report.served, report.live, report.patches_applied, report.branch_reached) == (2, 0, (2,), True)
    report, history = report_of(arms.control, scripted(said("asked live")))
    assert history[-1]["content"] == "asked live"
    assert (report.served, report.live, report.patches_applied) == (2, 1, (2,))


def test_do_tool_step():
    arms = compile_arms(Edit(3, {"window": 30}), BAD)
    (patch,), (kept,) = arms.patch.patches, arms.control.patches
    assert isinstance(patch, ResultPatch)
    assert (patch.step, patch.exchange, patch.call_id, patch.call_index, patch.tool) == (
        3,
        1,
        "c1",
        0,
        "policy",
    )
    assert patch.value == {"window": 30}
    assert kept.value == {"ran": "policy", "kind": "old"}
    assert (patch.as_recorded, kept.as_recorded) == (False, True)
    assert arms.patch.serve_through == arms.control.serve_through == 1
    seen = []
    report, _ = report_of(arms.patch, lambda request: seen.append(request) or said("fine"))
    assert report.patches_applied == (3,)
    assert json.loads(json.loads(seen[0].body)["messages"][-1]["content"]) == {"window": 30}
    report, _ = report_of(arms.control, lambda request: seen.append(request) or said("fine"))
    assert report.patches_applied == (3,)
    assert json.loads(json.loads(seen[1].body)["messages"][-1]["content"]) == {"ran": "policy", "kind": "old"}


def test_resample():
    arms = compile_arms(Resample(2, model="bigger"), BAD)
    (patch,), (kept,) = arms.patch.patches, arms.control.patches
    assert patch == AskAgain(2, 1, 1, patch.branch, "bigger")
    assert isinstance(kept, AnswerPatch)
    assert (arms.patch.serve_through, arms.control.serve_through) == (0, 1)
    seen = []
    report, _ = report_of(arms.patch, lambda request: seen.append(request) or said("fresh"))
    assert (report.served, report.live, report.patches_applied) == (1, 1, (2,))
    assert json.loads(seen[0].body)["model"] == "bigger"
    first = compile_arms(Resample(0), BAD)
    assert (first.patch.serve_through, first.control.serve_through) == (-1, 0)


def test_graft_takes_the_good_answer():
    arms = compile_arms(Graft(2), BAD, GOOD, ALIGNED)
    (patch,) = arms.patch.patches
    assert patch.response == GOOD.exchanges[1].response
    assert arms.unchanged == ()
    assert compile_arms(Graft(0), BAD, BAD, diff(BAD, BAD)).unchanged == (0,)
    fork = compile_arms(Graft(), BAD, GOOD, ALIGNED)
    assert fork.interventions == (Graft(ALIGNED.fork.bad_step),)


def test_graft_of_a_tool_step_takes_its_result():
    bad = record(
        "bad", said("", ("c0", "look", {"n": 7})), said("no"), results={"c0": {"status": "lost", "of": "7"}}
    )
    good = record(
        "good", said("", ("g9", "look", {"n": 7})), said("yes"), results={"g9": {"status": "paid", "of": "7"}}
    )
    (patch,) = compile_arms(Graft(1), bad, good, diff(bad, good)).patch.patches
    assert (patch.call_id, patch.value) == ("c0", {"status": "paid", "of": "7"})


def test_graft_between_forms_is_written_in_the_recorded_one():
    good = record("good", *(said("", ("g0", "look", {"n": 7})), said("refunded now")), stream=False)
    streamed = record(
        "bad", said("", ("c0", "look", {"n": 7}), stream=True), said("declined", stream=True), stream=True
    )
    (patch,) = compile_arms(Graft(2), streamed, good, diff(streamed, good)).patch.patches
    assert patch.response.headers == streamed.exchanges[1].response.headers
    assert outputs(patch.response, streamed.exchanges[1].request)["text"] == "refunded now"


def test_several_at_once_act_in_run_order_and_by_position():
    chosen = [Edit(4, "final"), Edit(0, {"tool_calls": [{"name": "look", "arguments": {"n": 8}}]})]
    arms = compile_arms(chosen, BAD)
    assert arms.steps == (0, 4)
    assert arms.patch.serve_through == arms.control.serve_through == 2
    assert [patch.step for patch in arms.control.patches] == [4]
    report, history = report_of(arms.patch, scripted(said("", ("n1", "policy", {"kind": "new"}))))
    assert history[-1]["content"] == "final"
    assert report.patches_applied == (0, 4)
    assert report.live_before_branch == 1
    report, history = report_of(arms.control, nobody)
    assert history[-1]["content"] == "declined"
    assert report.patches_applied == (4,)


def test_confirming_one_step_of_a_set():
    arms = compile_arms(
        [Edit(0, {"tool_calls": [{"name": "look", "arguments": {"n": 8}}]}), Edit(4, "final")], BAD
    )
    without_last = arms.without(4)
    assert [(p.step, p.as_recorded) for p in without_last.patches] == [(0, False), (4, True)]
    assert without_last.serve_through == arms.patch.serve_through == 2
    report, history = report_of(without_last, scripted(said("", ("n1", "policy", {"kind": "new"}))))
    assert history[-1]["content"] == "declined"
    assert report.patches_applied == (0, 4)
    without_first = arms.without(0)
    assert [(p.step, p.as_recorded) for p in without_first.patches] == [(0, True), (4, False)]
    report, history = report_of(without_first, nobody)
    assert (history[-1]["content"], report.live) == ("final", 0)
    single = compile_arms(Edit(4, "final"), BAD)
    assert arm_fingerprint(single.without(4)) == arm_fingerprint(single.control)
    with pytest.raises(ParameterError, match=r"without\(3\)"):
        arms.without(3)


def test_a_resampled_last_step_is_served_as_recorded_when_it_is_the_one_confirmed():
    arms = compile_arms([Edit(0, "x"), Resample(4)], BAD)
    assert arms.patch.serve_through == 1
    assert arms.without(4).serve_through == 2
    assert arms.without(0).serve_through == 1


def test_controls_of_the_same_branch_point_may_be_shared():
    one = compile_arms([Edit(0, "x"), Edit(4, "y")], BAD)
    two = compile_arms(Edit(4, "z"), BAD)
    other = compile_arms(Edit(2, "z"), BAD)
    assert arm_fingerprint(one.control) == arm_fingerprint(two.control)
    assert len({arm_fingerprint(arm) for arm in (one.patch, two.patch, two.control, other.control)}) == 4
    screen = compile_arms(Edit(4, "z"), BAD, tail="tape")
    assert arm_fingerprint(screen.patch) != arm_fingerprint(two.patch)


# -- what an Edit may say ----------------------------------------------------------------------------


def edited(value, step=0, bad=BAD):
    (patch,) = compile_arms(Edit(step, value), bad).patch.patches
    exchange = bad.exchanges[patch.exchange]
    return outputs_of(read_answer(exchange.request, patch.response))


def test_edits_of_a_model_answer():
    call = {"name": "look", "arguments": {"n": 7}}
    assert edited("just text") == {"text": "just text", "tool_calls": []}
    assert edited({"text": "thinking"}) == {"text": "thinking", "tool_calls": [call]}
    assert edited({"tool_calls": []}) == {"text": "", "tool_calls": []}
    assert edited(lambda old: {**old, "text": "new"}) == {"text": "new", "tool_calls": [call]}
    assert edited(lambda old: old["tool_calls"][0]["name"]) == {"text": "look", "tool_calls": []}


def test_edits_of_a_json_answer():
    bad = record("bad", said('{"status": "open"}'))
    assert edited({"status": "paid"}, bad=bad)["text"] == '{"status":"paid"}'
    assert edited({"text": "plain"}, bad=bad)["text"] == "plain"
    with pytest.raises(ParameterError, match="step 0 is a model answer"):
        edited({"status": "paid"})


def test_an_edit_cannot_change_the_recording():
    run = run_from_cassette(BAD)
    before = repr(run)

    def spoil(old):
        old["tool_calls"][0]["arguments"]["n"] = 9
        return old

    arms = compile_arms(Edit(0, spoil), BAD, bad_run=run)
    assert repr(run) == before
    assert outputs(arms.patch.patches[0].response)["tool_calls"][0]["arguments"] == {"n": 9}
    assert arms.unchanged == ()
    assert compile_arms(Edit(0, lambda old: old), BAD).unchanged == (0,)
    assert compile_arms(Edit(1, lambda old: old), BAD).unchanged == (1,)


def test_edits_of_a_tool_result():
    def value(edit):
        return compile_arms(Edit(1, edit), BAD).patch.patches[0].value

    assert value("gone") == "gone"
    assert value(None) is None
    assert value(lambda old: old["ran"]) == "look"
    lost = Cassette("cut", BAD.exchanges[:1])
    arms = compile_arms(Edit(1, lambda old: [old]), lost)
    assert arms.patch.patches[0].value == [None]
    assert arms.control.patches[0].value is MISSING
    assert arm_fingerprint(arms.control)


def test_edit_of_another_exchange():
    fetch = Exchange(
        0, Request("GET", "/orders/7"), Response(200, (*JSON, ("content-length", "9")), b'{"a": 1}')
    )
    bad = Cassette("bad", (fetch, Exchange(1, chat([]), said("done"))))
    arms = compile_arms(Edit(0, {"a": 2}), bad)
    (patch,) = arms.patch.patches
    assert (patch.response.body, patch.response.headers) == (b'{"a":2}', JSON)
    session = Session(Tape(bad), arms.patch)
    assert session.decide(Request("GET", "/orders/7")).response.body == b'{"a":2}'
    assert session.report().patches_applied == (0,)
    assert compile_arms(Edit(0, lambda old: old["a"]), bad).patch.patches[0].response.body == b"1"


# -- errors ------------------------------------------------------------------------------------------


def bad_function(old):
    raise ZeroDivisionError("no")


OTHER = record("other", said("entirely different words here"))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: compile_arms(Edit(9, "x"), BAD), r"Edit\(step=9\): the run bad has 5 steps, 0 to 4"),
        (lambda: compile_arms(Edit(0, "x"), Cassette("none")), "has 0 steps"),
        (lambda: compile_arms([Edit(2, "x"), Resample(2)], BAD), "two interventions on step 2"),
        (lambda: compile_arms(Resample(1), BAD), r"Resample\(step=1\): step 1 is the tool 'look'"),
        (lambda: compile_arms(Graft(1), BAD), r"Graft needs .* good=, a recording .*--graft GOOD"),
        (
            lambda: compile_arms(Graft(1), BAD, OTHER, diff(BAD, OTHER)),
            "no step of the good run other is aligned",
        ),
        (lambda: compile_arms(Graft(), BAD, BAD, diff(BAD, BAD)), "do not fork"),
        (lambda: compile_arms(Edit(0, bad_function), BAD), "raised ZeroDivisionError: no"),
        (lambda: compile_arms(Edit(0, lambda old: {1, 2}), BAD), "returned no JSON value"),
        (lambda: compile_arms(Edit(0, {"tool_calls": "look"}), BAD), r"Edit\(step=0\)"),
        (lambda: compile_arms(Edit(0, 3), BAD), "text or an object"),
        (lambda: Edit(-1, "x"), r"Edit\(step=-1\)"),
        (lambda: Edit(True, "x"), "step=True"),
        (lambda: Edit(0, {1}), "no JSON value"),
        (lambda: Graft("fork"), "step='fork'"),
        (lambda: Resample(0, model=""), "model=''"),
        (lambda: as_interventions([]), "at least one intervention"),
        (lambda: as_interventions("Graft"), "got str"),
    ],
)
def test_errors_are_one_clear_sentence(make, sentence):
    with pytest.raises(ParameterError, match=sentence):
        make()


def test_a_graft_between_kinds_is_refused():
    crossed = dataclasses.replace(ALIGNED, moves=(Move.sync(1, 0, 0.5), Move.sync(0, 1, 0.5)))
    for step in (0, 1):
        with pytest.raises(ParameterError, match="only steps of one kind"):
            compile_arms(Graft(step), BAD, GOOD, crossed)


@pytest.mark.parametrize(("fork", "side"), [(Fork(0, 1, None, 1.0), "good"), (Fork(0, None, 1, 1.0), "bad")])
def test_a_one_sided_fork_cannot_be_grafted(fork, side):
    one_sided = dataclasses.replace(ALIGNED, fork=fork)
    with pytest.raises(ParameterError, match=f"a step of the {side} run alone"):
        compile_arms(Graft(), BAD, GOOD, one_sided)


def test_interventions_describe_themselves():
    assert Edit(1, "x" * 100).describe().endswith("...")
    assert Edit(1, str.upper).describe() == "step 1 = str.upper(recorded)"
    assert Resample(1, "m2").describe() == "step 1 asked again of m2"
    assert Graft().describe() == "the fork = the good run's"
    assert as_interventions((Graft(1), Resample(2))) == (Graft(1), Resample(2))
