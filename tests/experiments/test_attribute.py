"""attribute: the bundled pairs, runs that cannot be compared or do not part, one-sided forks, origins."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

import afnb
from afnb.core.cassette import Cassette
from afnb.core.steps import run_from_cassette
from afnb.errors import ParameterError
from afnb.experiments.agents import Function
from afnb.experiments.bundled import ToolLoop, lookup_order, refund_policy
from afnb.experiments.demo import Bundled, bundled
from afnb.io.answers import Call, Say
from afnb.io.conversation import Conversation
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream
from afnb.tables.schemas import schema


def attribute(pair: Bundled, **changes: Any) -> afnb.Attribution:
    options: dict[str, Any] = {
        "agent": pair.agent,
        "upstream": pair.upstream(),
        "oracle": pair.oracle,
        "allow_tools": pair.tools,
        "n_jobs": 1,
        "seed": 1,
        "progress": False,
        **changes,
    }
    bad, good = options.pop("bad", pair.bad), options.pop("good", pair.good)
    return afnb.attribute(bad, good, **options)


def test_one_cause() -> None:
    a = attribute(bundled("refund"))
    assert (a.verdict, a.label, a.kind, a.origination) == ("recovered", "verified", "repair", (4,))
    assert a.propagation == (5, 6)
    assert [e.purpose for e in a.experiments_run][-1] == "confirmation"
    assert a.fork_step == 4


def test_two_causes_are_both_named_and_each_is_confirmed_at_half_the_error() -> None:
    a = attribute(bundled("trip"))
    assert (a.verdict, a.label, a.origination) == ("recovered", "verified", (2, 4))
    assert [e.steps for e in a.confirmations] == [(2,), (4,)]
    assert [e.also for e in a.confirmations] == [(4,), (2,)]
    assert {e.decision.rule.error for e in a.confirmations} == {0.025}
    searched = {r.seed for e in a.experiments_run if e.purpose != "confirmation" for r in e.results}
    confirmed = {r.seed for e in a.confirmations for r in e.results}
    assert not searched & confirmed  # fresh replays


def test_a_divergence_that_causes_nothing_is_verified_not_recovered() -> None:
    a = attribute(bundled("report"))
    assert (a.verdict, a.label, a.kind, a.origination) == ("not_recovered", "verified", "no_cause", ())


def test_the_number_of_workers_changes_nothing_but_volatile_columns() -> None:
    one, many = attribute(bundled("trip")), attribute(bundled("trip"), n_jobs=8)
    assert (one.verdict, one.origination, one.reason) == (many.verdict, many.origination, many.reason)

    def used(a: afnb.Attribution) -> list[tuple[Any, ...]]:
        rows = a.replays.to_pylist()
        return [(r["experiment"], r["arm"], r["index"], r["recovery"], r["seed"]) for r in rows if r["used"]]

    assert used(one) == used(many)


def test_an_origin_needs_a_drop_of_the_rate() -> None:
    refund = attribute(bundled("refund"), origin=True)
    assert refund.kind == "origin"  # asked again, the model mostly gets it right
    trip = attribute(bundled("trip"), origin=True)
    assert (trip.verdict, trip.kind) == (
        "recovered",
        "repair",
    )  # asked again, it gets the currency wrong again
    assert "A repair is not proof of an origin" in trip.sentence()


def test_a_spent_budget_ends_it_unverified() -> None:
    a = attribute(bundled("trip"), budget=afnb.Budget(live_calls=20))
    assert (a.verdict, a.label) == ("unverified", "Unverified")
    assert "20 live calls" in a.reason
    assert a.live_calls_spent <= 20
    assert a.origination == ()


def test_runs_with_nothing_in_common_are_not_compared() -> None:
    pair, other = bundled("refund"), bundled("trip")
    a = attribute(pair, good=other.good)
    assert (a.label, a.kind, a.experiments_run) == ("Unverified", "not_comparable", ())
    assert a.live_calls_spent == 0
    assert a.reason in a.to_text().replace("\n", " ") or a.reason[:40] in a.to_text()


def test_a_run_against_itself_has_no_candidates() -> None:
    pair = bundled("refund")
    a = attribute(pair, good=replace(pair.bad, id="again", outcome="pass"))
    assert (a.label, a.kind) == ("Unverified", "no_candidates")
    assert a.live_calls_spent == 0


def ends_early(talk: Conversation, rng: random.Random) -> Any:
    """Sometimes stops before it has looked anything up; never wrong otherwise."""
    if not talk.called("lookup_order"):
        return Say("Look at the order.", (Call("lookup_order", {"order": "8841"}),))
    if not talk.called("refund_policy"):
        return Say("Look at the policy.", (Call("refund_policy", {"category": "electronics"}),))
    return "Refund of $129.00 issued."


def recorded(policy: Any, name: str) -> tuple[Cassette, ToolLoop]:
    loop = ToolLoop(
        "Refund order 8841?", "Be brief.", {"lookup_order": lookup_order, "refund_policy": refund_policy}
    )
    session = Session(id=name)
    Function(loop).run(session, SimulatedUpstream(policy, seed=3), seed=0, workdir=".")
    session.close()
    return session.cassette(), loop


def test_a_one_sided_fork_asks_again_instead_of_grafting() -> None:
    """The bad run has an extra detour that the good run lacks, and ends there."""

    def detour(talk: Conversation, rng: random.Random) -> Any:
        if talk.called("refund_policy") and not talk.says("detour"):
            return Say("detour into archives nobody asked about", (Call("lookup_order", {"order": "1"}),))
        if talk.says("detour"):
            return "Refund of $129.00 issued. Or perhaps declined: unknown order."
        return ends_early(talk, rng)

    def lately(talk: Conversation, rng: random.Random) -> Any:
        return detour(talk, rng) if talk.says("detour") else ends_early(talk, rng)

    bad, loop = recorded(detour, "detour")
    good, _ = recorded(ends_early, "straight")
    d = afnb.diff(bad, good)
    assert d.fork is not None
    assert not d.fork.two_sided
    a = afnb.attribute(
        bad,
        good,
        agent=loop,
        upstream=SimulatedUpstream(lately),
        oracle=lambda run: "declined" not in str(run.answer),
        allow_tools=["lookup_order", "refund_policy"],
        progress=False,
    )
    assert (a.verdict, a.label, a.kind, a.origination) == ("recovered", "verified", "origin", (4,)), (
        a.to_text()
    )
    assert "asked again instead of grafted" in " ".join(a.warnings)


def test_the_majority_rule_verifies_nothing() -> None:
    a = attribute(bundled("refund"), consensus=afnb.MajorityConsensus(3))
    assert (a.verdict, a.label) == ("unverified", "Unverified")


def test_tools_stop_it_before_anything_runs() -> None:
    started: list[int] = []

    def agent(ctx: Any) -> str:
        started.append(1)
        return ""

    with pytest.raises(ParameterError, match="customer_history") as caught:
        attribute(bundled("refund"), agent=agent, allow_tools=["lookup_order"])
    assert "allow_tools" in str(caught.value)
    assert "--allow-tools" in str(caught.value)
    assert "lookup_order," not in str(caught.value)
    assert started == []


def test_converges_is_the_default_oracle() -> None:
    a = attribute(bundled("refund"), oracle=None)
    assert "converges with the good run" in a.experiments_run[0].oracle
    assert all(check.converges for check in a.fidelity[1:])


def test_tables_json_and_card() -> None:
    a = attribute(bundled("refund"))
    assert a.replays.schema.equals(schema("replays"))
    assert a.experiments.schema.equals(schema("experiments"))
    assert a.attributions.schema.equals(schema("attributions"))
    assert a.attributions.num_rows == 1
    told = json.loads(json.dumps(a.to_json()))
    assert (told["afnb"], told["verdict"], told["origination"]) == ("attribution", "recovered", [4])
    assert set(told["hashes"]) == {"bad", "good", "agent", "oracle"}
    html = a._repr_html_()
    assert "verified: recovered" in html
    assert "<script" not in html
    assert len(repr(a).splitlines()) <= 6


def test_a_path_is_as_good_as_a_recording(root: Any) -> None:
    folder = root / "data" / "refund"
    a = attribute(bundled("refund"), bad=folder / "bad.json", good=str(folder / "good.json"))
    assert a.origination == (4,)
    assert run_from_cassette(bundled("refund").bad).outcome == "fail"


def test_one_word_of_an_argument_is_found_though_the_steps_look_alike() -> None:
    """The calls differ in one word, the texts not at all: the alignment takes them for alike."""

    def play(right: float) -> Any:
        def model(talk: Conversation, rng: random.Random) -> Any:
            if not talk.called("lookup_order"):
                return Say("Look at the order.", (Call("lookup_order", {"order": "8841"}),))
            policy = talk.result_of("refund_policy")
            if policy is None:
                category = "electronics" if rng.random() < right else "accessories"
                return Say(
                    "Now the policy that applies to it.", (Call("refund_policy", {"category": category}),)
                )
            due = policy["return_window_days"] >= 12
            return "Refund of $129.00 issued." if due else "Declined, it came back too late."

        return model

    bad, loop = recorded(play(0.0), "one-word-bad")
    good, _ = recorded(play(1.0), "one-word-good")
    d = afnb.diff(bad, good)
    assert d.fork_step_observed != 2
    a = afnb.attribute(
        bad,
        good,
        agent=loop,
        upstream=SimulatedUpstream(play(0.5)),
        oracle=lambda run: "issued" in str(run.answer),
        allow_tools=["lookup_order", "refund_policy"],
        seed=1,
        progress=False,
    )
    assert (a.verdict, a.label, a.origination) == ("recovered", "verified", (2,)), a.to_text()
    assert any("step 2" in warning and "differs" in warning for warning in a.warnings)


def test_asking_again_in_vain_says_which_step_was_asked() -> None:
    def detour(talk: Conversation, rng: random.Random) -> Any:
        if talk.called("refund_policy") and not talk.says("detour"):
            return Say("detour into archives nobody asked about", (Call("lookup_order", {"order": "1"}),))
        return "Declined." if talk.says("detour") else ends_early(talk, rng)

    bad, loop = recorded(detour, "detour")
    good, _ = recorded(ends_early, "straight")
    a = afnb.attribute(
        bad,
        good,
        agent=loop,
        upstream=SimulatedUpstream(detour),
        oracle=lambda run: "issued" in str(run.answer),
        allow_tools=["lookup_order", "refund_policy"],
        progress=False,
    )
    assert (a.verdict, a.label, a.kind) == ("not_recovered", "verified", "asked_again")
    assert "Asking for step 4 (llm) again" in a.sentence()
    assert "all candidate steps" not in a.to_text()


def test_a_search_is_never_labelled_verified() -> None:
    a = attribute(bundled("trip"))
    labels = {(e.purpose, e.label) for e in a.experiments_run}
    assert ("search", "Unverified") in labels
    assert ("search", "verified") not in labels
    assert ("confirmation", "verified") in labels


def test_grafting_the_last_answer_is_said_to_carry_the_result() -> None:
    pair = bundled("refund")
    e = afnb.what_if(
        pair.bad,
        afnb.Edit(6, "Refund of $129.00 issued for order 8841."),
        agent=pair.agent,
        upstream=pair.upstream(),
        oracle=pair.oracle,
        allow_tools=pair.tools,
        progress=False,
    )
    assert e.verdict == "recovered"
    assert any("may carry the result itself" in warning for warning in e.warnings)
