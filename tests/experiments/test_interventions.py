"""More interventions: prompts, messages, other models, several at once, branches of branches."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.cassette import Cassette
from afnb.core.jsonvalue import loads
from afnb.errors import ParameterError
from afnb.experiments.agents import Function
from afnb.io.answers import Call
from afnb.io.conversation import Conversation
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream

sys.path.insert(0, str(Path(__file__).parent))
import chain

SYSTEM = "Answer fast."
HINT = "The order is of last year."


def talker(ctx: Any, turns: int = 3, model: str = "small") -> str:
    """Asks so often, with a system prompt; each request holds all earlier answers."""
    with ctx.http_client() as client:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": "start"},
        ]
        text = ""
        for turn in range(turns):
            messages.append({"role": "user", "content": f"question {turn}"})
            answer = client.post("/v1/chat/completions", json={"model": model, "messages": messages})
            text = answer.raise_for_status().json()["choices"][0]["message"]["content"]
            messages.append({"role": "assistant", "content": text})
        return text


def recorded(agent: Any, policy: Any) -> Cassette:
    session = Session(id="bad")
    done = Function(agent).run(session, SimulatedUpstream(policy), seed=0, workdir=".")
    assert done.status == "finished", done
    session.close()
    return session.cassette()


def right(run: afnb.Run) -> bool:
    return str(run.answer).startswith("right")


def run(bad: Any, change: Any, policy: Any, agent: Any = talker, **options: Any) -> afnb.Experiment:
    return afnb.what_if(
        bad,
        change,
        **{
            "agent": agent,
            "upstream": SimulatedUpstream(policy),
            "oracle": right,
            "progress": False,
            "n_jobs": 2,
            "budget": afnb.Budget(live_calls=None),
            **options,
        },
    )


def body(talk: Conversation) -> dict[str, Any]:
    return dict(talk.body)


def holding(mark: Any) -> Any:
    """A policy whose last answer is right where ``mark(body)`` holds for its request."""

    def policy(talk: Conversation, rng: random.Random) -> str:
        if talk.turn < 2:
            return f"step {talk.turn} {rng.random()}"
        return f"{'right' if mark(body(talk)) else 'wrong'} {rng.random()}"

    return policy


def texts(request: dict[str, Any]) -> list[Any]:
    return [message["content"] for message in request["messages"]]


def lost(talk: Conversation, rng: random.Random) -> str:
    return f"wrong {rng.random()}" if talk.turn == 2 else f"step {talk.turn} {rng.random()}"


@pytest.mark.parametrize(
    ("change", "mark"),
    [
        (afnb.SystemPrompt(1, "Think first."), lambda b: texts(b)[0] == "Think first."),
        (afnb.SystemPrompt(1, lambda old: old + " Or not."), lambda b: texts(b)[0] == "Answer fast. Or not."),
        (afnb.SystemPrompt(0, ""), lambda b: b["messages"][0]["role"] == "user"),
        (afnb.InsertMessage(1, 2, HINT), lambda b: texts(b)[2] == HINT),
        (afnb.DropMessage(1, 1), lambda b: "start" not in texts(b)),
        (afnb.Resample(1, model="large"), lambda b: b["model"] == "large"),
    ],
    ids=["prompt", "prompt function", "no prompt", "insert", "drop", "model"],
)
def test_a_change_of_the_request_holds_from_its_step_on(change: Any, mark: Any) -> None:
    bad = recorded(talker, lost)
    e = run(bad, change, holding(mark))
    assert (e.verdict, e.label) == ("recovered", "verified"), e.to_text()
    assert "from there on" in e.sentence()
    assert "changing this answer" not in e.sentence()
    for result in e.results:
        sent = [
            loads((x.forwarded or x.request).body)
            for x, source in zip(result.recording.exchanges, result.recording.attrs["sources"], strict=True)
            if source == "live"
        ]
        assert {mark(one) for one in sent} == {result.role == "patch"}, "every live request, or none"
        asked = [loads(x.request.body) for x in result.recording.exchanges]
        assert [one["model"] for one in asked] == ["small"] * 3, "the agent's own requests are kept"


def test_both_arms_ask_the_step_again_where_a_request_is_changed() -> None:
    bad = recorded(talker, lost)
    e = run(bad, afnb.SystemPrompt(1, "x"), holding(lambda b: texts(b)[0] == "x"))
    assert {(r.role, r.report.served, r.report.live) for r in e.results} == {
        ("patch", 1, 2),
        ("control", 1, 2),
    }
    other = run(bad, afnb.Resample(1, model="large"), holding(lambda b: b["model"] == "large"))
    assert {(r.role, r.report.served, r.report.live) for r in other.results} == {
        ("patch", 1, 2),
        ("control", 2, 1),
    }


def test_another_model_is_asked_only_in_place_of_the_one_that_was() -> None:
    """A helper of the agent's that asks a third model is left alone."""

    def agent(ctx: Any) -> str:
        with ctx.http_client() as client:

            def ask(model: str, said: list[str]) -> str:
                messages = [
                    {"role": "user" if i % 2 == 0 else "assistant", "content": t} for i, t in enumerate(said)
                ]
                answer = client.post("/v1/chat/completions", json={"model": model, "messages": messages})
                return str(answer.raise_for_status().json()["choices"][0]["message"]["content"])

            plan = ask("small", ["main"])
            helped = ask("tiny", [f"helper of {plan.split()[0]}"])
            return ask("small", ["main", plan, helped])

    def policy(talk: Conversation, rng: random.Random) -> str:
        model = body(talk)["model"]
        if talk.user.startswith("helper"):
            return f"helped by {model} {rng.random()}"
        return f"{'right' if model == 'large' else 'wrong'} {rng.random()}"

    e = run(recorded(agent, policy), afnb.Resample(0, model="large"), policy, agent=agent)
    assert (e.verdict, e.label) == ("recovered", "verified"), e.to_text()
    for result in (r for r in e.results if r.role == "patch"):
        sent = [loads((x.forwarded or x.request).body)["model"] for x in result.recording.exchanges]
        assert sent == ["large", "tiny", "large"]


# --- several at once --------------------------------------------------------------------------------


def needs_both(talk: Conversation, rng: random.Random) -> str:
    if talk.turn < 3:
        return f"plain {talk.turn}"
    both = talk.says("first key") and talk.says("second key")
    return f"{'right' if both else 'wrong'} {rng.random()}"


def test_two_steps_that_repair_only_together() -> None:
    agent = chain.of_length(4)
    bad = recorded(agent.f, needs_both)
    one, two = afnb.Edit(0, "first key"), afnb.Edit(2, "second key")
    options = {"agent": agent, "oracle": right}
    both = run(bad, [two, one], needs_both, **options)
    assert (both.verdict, both.label, both.steps) == ("recovered", "verified", (0, 2)), both.to_text()
    assert {r.report.patches_applied for r in both.results if r.role == "patch"} == {(0, 2)}
    for alone in (one, two):
        e = run(bad, alone, needs_both, **options)
        assert (e.verdict, e.label) == ("not_recovered", "verified"), e.to_text()


def test_an_edit_and_a_request_change_together() -> None:
    def policy(talk: Conversation, rng: random.Random) -> str:
        if talk.turn < 2:
            return f"step {talk.turn} {rng.random()}"
        good = talk.says("key") and texts(body(talk))[0] == "Think first."
        return f"{'right' if good else 'wrong'} {rng.random()}"

    bad = recorded(talker, lost)
    changes = [afnb.Edit(0, "the key"), afnb.SystemPrompt(1, "Think first.")]
    e = run(bad, changes, policy)
    assert (e.verdict, e.label) == ("recovered", "verified"), e.to_text()
    assert "changed answers and another system prompt from there on (steps 0 and 1)" in e.sentence()
    late = [afnb.SystemPrompt(0, "Think first."), afnb.Edit(1, "the key")]
    again = run(bad, late, policy)
    assert (again.verdict, again.label) == ("recovered", "verified"), again.to_text()
    assert {r.report.patches_applied for r in again.results if r.role == "patch"} == {(0, 1)}


# --- a branch of a branch ---------------------------------------------------------------------------


def tool_agent(ctx: Any) -> str:
    """Looks a price up with a tool of its own, then asks twice more."""
    with ctx.http_client() as client:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "buy"}]
        for turn in range(4):
            answer = client.post("/v1/chat/completions", json={"model": "small", "messages": messages})
            said = answer.raise_for_status().json()["choices"][0]["message"]
            messages.append(said)
            if said.get("tool_calls"):
                messages += [
                    {"role": "tool", "tool_call_id": call["id"], "content": "9"}
                    for call in said["tool_calls"]
                ]
            elif turn == 3:
                return str(said["content"])
            else:
                messages.append({"role": "user", "content": "go on"})
        return ""


def shop(talk: Conversation, rng: random.Random) -> Any:
    if talk.turn == 0:
        return [Call("price", {})]
    if talk.turn == 1:
        return f"noted {rng.random()}"
    if talk.turn == 2:
        return f"careful {rng.random()}" if rng.random() < 0.2 else f"hasty {rng.random()}"
    ten = any(m.get("content") == "10" for m in body(talk)["messages"])
    return f"{'right' if ten and talk.says('careful') else 'wrong'} {rng.random()}"


def test_a_result_changed_in_a_branch_holds_in_a_branch_of_it() -> None:
    def hasty(talk: Conversation, rng: random.Random) -> Any:
        return "hasty" if talk.turn == 2 else shop(talk, rng)

    bad = recorded(tool_agent, hasty)
    tools = {"agent": tool_agent, "allow_tools": ["price"]}
    first = run(bad, afnb.Edit(1, "10"), hasty, **tools)
    assert (first.verdict, first.label) == ("not_recovered", "verified")
    branch = next(r for r in first.results if r.role == "patch").recording
    assert branch.attrs["carried"][0]["value"] == "10"
    second = run(branch, afnb.Edit(3, "careful"), shop, **tools)
    assert (second.verdict, second.label) == ("recovered", "verified"), second.to_text()
    kept = next(r for r in first.results if r.role == "control").recording
    third = run(kept, afnb.Edit(3, "careful"), shop, **tools)
    assert (third.verdict, third.label) == ("not_recovered", "verified"), third.to_text()


@pytest.mark.parametrize(
    ("change", "mark"),
    [
        (afnb.Resample(0, model="large"), lambda b: b["model"] == "large"),
        (afnb.SystemPrompt(0, "Think first."), lambda b: texts(b)[0] == "Think first."),
    ],
    ids=["model", "prompt"],
)
def test_a_model_or_prompt_of_a_branch_holds_in_a_branch_of_it(
    change: Any, mark: Any, tmp_path: Path
) -> None:
    def policy(talk: Conversation, rng: random.Random) -> str:
        if talk.turn < 2:
            return f"step {talk.turn} {rng.random()}"
        return f"{'right' if mark(body(talk)) and talk.says('key') else 'wrong'} {rng.random()}"

    first = run(recorded(talker, lost), change, policy)
    assert (first.verdict, first.label) == ("not_recovered", "verified"), first.to_text()
    branch = next(r for r in first.results if r.role == "patch").recording
    from afnb.io.formats.cassette import write_cassette

    write_cassette(branch, tmp_path / "branch.json")
    second = run(tmp_path / "branch.json", afnb.Edit(1, "the key"), policy)
    assert (second.verdict, second.label) == ("recovered", "verified"), second.to_text()
    deeper = next(r for r in second.results if r.role == "patch").recording
    assert deeper.attrs["carried"] == branch.attrs["carried"]
    before = run(branch, afnb.Resample(0), policy)
    assert before.verdict == "not_recovered"
    kept = next(r for r in first.results if r.role == "control").recording
    assert "carried" not in kept.attrs
    third = run(kept, afnb.Edit(1, "the key"), policy)
    assert (third.verdict, third.label) == ("not_recovered", "verified"), third.to_text()


# --- event logs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "mark"),
    [
        (afnb.InsertMessage(2, 1, HINT), lambda b: HINT in texts(b)),
        (afnb.SystemPrompt(2, "Think."), lambda b: texts(b)[0] == "Think."),
        (afnb.DropMessage(2, 0), lambda b: "order one" not in texts(b)),
        (afnb.Resample(2, model="large"), lambda b: b["model"] == "large"),
        ([afnb.Edit(0, "x"), afnb.SystemPrompt(2, "Think.")], lambda b: texts(b)[0] == "Think."),
    ],
    ids=["insert", "prompt", "drop", "model", "with an edit"],
)
def test_event_logs_take_them_too(change: Any, mark: Any) -> None:
    from test_log_locate import hasty, logged
    from test_log_locate import recorded as logged_run

    def policy(talk: Conversation, rng: random.Random) -> str:
        if talk.turn < 2:
            return f"thinking {rng.random()}"
        return f"{'right' if mark(body(talk)) else 'wrong'} {rng.random()}"

    log = logged_run(hasty, 0.0)
    e = run(log, change, policy, agent=logged())
    assert (e.verdict, e.label) == ("recovered", "verified"), e.to_text()
    assert {r.role: r.report.live for r in e.results}["patch"] == 2


@pytest.mark.parametrize("alone", [True, False], ids=["one", "both"])
def test_two_steps_of_an_event_log_that_repair_only_together(alone: bool) -> None:
    from test_log_locate import hasty, logged
    from test_log_locate import recorded as logged_run

    def policy(talk: Conversation, rng: random.Random) -> str:
        if talk.turn < 2:
            return f"hasty {rng.random()}"
        both = talk.says("price 7") and talk.says("careful")
        return f"{'right' if both else 'wrong'} {rng.random()}"

    log = logged_run(hasty, 0.0)
    price, answer = afnb.Edit(1, {"price": 7}), afnb.Edit(2, "careful")
    e = run(log, price if alone else [price, answer], policy, agent=logged())
    wanted = ("not_recovered" if alone else "recovered", "verified")
    assert (e.verdict, e.label) == wanted, e.to_text()


# --- refused beforehand -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: afnb.DropMessage(0, 9), "none of 0 to 2"),
        (lambda: afnb.InsertMessage(0, 5, "x"), "none of 0 to 3"),
        (lambda: afnb.InsertMessage(0, 1, ""), "it is a text"),
        (lambda: afnb.DropMessage(0, True), "whole number"),
        (lambda: afnb.SystemPrompt(0, 3), "a text or a function"),
        (lambda: afnb.SystemPrompt(0, lambda old: 3), "not a text"),
        (lambda: afnb.SystemPrompt(0, lambda old: old.nope), "raised AttributeError"),
        (lambda: afnb.SystemPrompt(9, "x"), "has 3 steps"),
        (lambda: [afnb.SystemPrompt(1, "x"), afnb.Edit(1, "y")], "two interventions on step 1"),
        (lambda: "x", "an intervention is"),
    ],
)
def test_wrong_changes_are_one_sentence(change: Any, words: str) -> None:
    bad = recorded(talker, lost)
    with pytest.raises(ParameterError, match=words):
        run(bad, change(), lost)


def test_tool_calls_and_results_are_not_torn_apart() -> None:
    bad = recorded(tool_agent, shop)
    tools = {"agent": tool_agent, "allow_tools": ["price"]}
    with pytest.raises(ParameterError, match="only with the other"):
        run(bad, afnb.DropMessage(2, 1), shop, **tools)
    with pytest.raises(ParameterError, match="between a tool call and its result"):
        run(bad, afnb.InsertMessage(2, 2, "x"), shop, **tools)
    with pytest.raises(ParameterError, match="is the tool"):
        run(bad, afnb.SystemPrompt(1, "x"), shop, **tools)
