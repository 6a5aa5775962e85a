"""locate: the drop of q(k) is found and confirmed, or it is said in words that there is none."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import afnb
from afnb.causal.places import places_of
from afnb.errors import AgentError, ParameterError
from afnb.experiments.locate import locate
from afnb.io.simulated import SimulatedUpstream
from afnb.plot.curves import recoverability, recoverability_data
from afnb.tables.schemas import schema, volatile

sys.path.insert(0, str(Path(__file__).parent))
from chain import of_length, policy, recording, right, settings


def stable(table: pa.Table, name: str) -> pa.Table:
    return table.select([column for column in table.column_names if column not in volatile(name)])


def find(turns: int, cause: int, before: float, after: float, **options: Any) -> afnb.Location:
    more = {name: options.pop(name) for name in ("mode", "replays", "ledger") if name in options}
    bad = options.pop("recording", None) or recording(turns, cause)
    return locate(bad, **settings(turns, cause, before, after, **options), **more)


def tally(
    n: int, seeds: int, before: float, after: float, cause: int | None = None
) -> tuple[int, int, int, float]:
    """(within 1, exact and verified, wrong and verified, mean replays) over so many seeds."""
    rng, near, exact, wrong, used = random.Random(5), 0, 0, 0, []
    for seed in range(seeds):
        at = rng.randrange(n) if cause is None else cause
        loc = find(n, at, before, after, seed=seed)
        near += loc.step is not None and abs(loc.step - at) <= 1
        exact += loc.decisive_step == at
        wrong += loc.decisive_step not in (at, None)
        used.append(loc.replays_used)
    return near, exact, wrong, sum(used) / seeds


def test_the_planted_step_is_found_and_verified() -> None:
    loc = find(8, 5, 0.95, 0.05)
    assert (loc.verdict, loc.label, loc.kind, loc.decisive_step) == ("recovered", "verified", "drop", 5)
    assert loc.credible is not None
    assert loc.credible[0] <= 5 <= loc.credible[1]
    assert "Serving the recorded answer of step 5 lowers the recovery rate" in loc.sentence()
    assert "verified: drop at step 5" in loc.to_text()
    assert loc.replays_used == loc.search_replays + loc.confirmation.decision.replays
    assert loc.replays_spent >= loc.replays_used
    assert 0 < loc.live_calls_used <= loc.live_calls_spent


def test_named_reduced_within_one_in_most_searches_at_a_bounded_cost() -> None:
    """Reduced form of: within 1 in at least 0.9 of searches at n = 200, mean replays at most 35."""
    near, exact, wrong, mean = tally(10, 10, 0.9, 0.1)
    assert near >= 9
    assert exact >= 8
    assert wrong == 0
    assert mean <= 35


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_within_one_at_two_hundred_answers() -> None:
    near, _, wrong, mean = tally(200, 40, 0.9, 0.1)
    assert near >= 36
    assert wrong <= 2
    assert mean <= 35


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("before", "after"), [(0.5, 0.0), (0.9, 0.1), (0.9, 0.0)])
def test_a_choice_at_step_twelve_of_twenty(before: float, after: float) -> None:
    _, exact, wrong, _ = tally(20, 20, before, after, cause=12)
    assert exact >= 14
    assert wrong <= 1


def test_the_curve_measures_every_place_and_gives_intervals() -> None:
    loc = find(5, 2, 1.0, 0.0, mode="curve", replays=4)
    assert (loc.kind, loc.decisive_step, loc.mode) == ("drop", 2, "curve")
    rows = loc.curve.to_pylist()
    assert [row["step"] for row in rows] == [-1, 0, 1, 2, 3, 4]
    assert [row["served"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert [row["rate"] for row in rows] == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert all(row["total"] == 4 and row["low"] <= row["rate"] <= row["high"] for row in rows)
    assert sum(row["drop"] for row in rows[1:]) == pytest.approx(1.0, abs=0.05)
    assert loc.search_replays == 24
    served = {r.report.served for s, r in loc.search_results if s == 3}
    assert served == {3}, "the tape answers through step 2, everything after it is live"
    assert {r.report.live for s, r in loc.search_results if s == 3} == {2}


def test_nothing_to_locate_and_no_drop_are_said_in_words() -> None:
    nothing = find(4, 1, 0.0, 0.0)
    assert (nothing.label, nothing.kind, nothing.step, nothing.credible) == (
        "Unverified",
        "nothing_to_locate",
        None,
        None,
    )
    assert "does not recover even from the start: nothing to locate" in nothing.to_text()
    assert nothing.replays_used <= 12
    low = find(6, 3, 0.2, 0.2, seed=4)
    assert low.label == "Unverified"
    assert low.decisive_step is None


def test_an_agent_that_tosses_its_own_coin_has_no_drop() -> None:
    def tossing(ctx: Any) -> str:
        of_length(4).f(ctx)
        return "right" if random.Random(ctx.seed).random() < 0.5 else "wrong"

    bad = recording(4, 1)
    for seed in range(20):
        loc = find(4, 1, 0.5, 0.5, recording=bad, agent=tossing, seed=seed)
        if loc.kind != "not_failing":
            break
    assert (loc.kind, loc.label, loc.step) == ("no_drop", "Unverified", None), loc.to_text()
    assert "No drop of the recovery rate was found anywhere" in loc.to_text()


def test_a_low_base_rate_is_no_obstacle() -> None:
    loc = find(8, 4, 0.6, 0.0, seed=2)
    assert (loc.label, loc.decisive_step) == ("verified", 4)


def test_a_recording_that_recovers_by_itself_spends_nothing() -> None:
    loc = find(3, 1, 1.0, 0.0, oracle=lambda run: True)
    assert (loc.kind, loc.label, loc.replays_spent) == ("not_failing", "Unverified", 0)
    assert "no failure to locate" in loc.sentence()


@pytest.mark.parametrize("mode", ["bisect", "curve"])
def test_any_number_of_workers_gives_the_same_answer(mode: Any) -> None:
    bad = recording(6, 3)
    more = {} if mode == "bisect" else {"replays": 4}
    found = [find(6, 3, 0.8, 0.1, recording=bad, seed=11, n_jobs=n, mode=mode, **more) for n in (1, 4, 8)]
    first = found[0]
    for loc in found[1:]:
        assert (loc.verdict, loc.kind, loc.step, loc.credible, loc.reason) == (
            first.verdict,
            first.kind,
            first.step,
            first.credible,
            first.reason,
        )
        assert stable(loc.curve, "curve").equals(stable(first.curve, "curve"))
        assert stable(loc.locations, "locations").equals(stable(first.locations, "locations"))
        used, other = (stable(one.replays, "replays") for one in (first, loc))
        assert used.filter(used["used"]).equals(other.filter(other["used"]))


def test_a_spent_budget_is_a_reason_and_keeps_what_was_found() -> None:
    loc = find(8, 5, 0.9, 0.1, budget=afnb.Budget(live_calls=20))
    assert (loc.verdict, loc.label) == ("unverified", "Unverified")
    assert "20 live calls" in loc.reason
    assert loc.live_calls_spent <= 20
    assert loc.search_results


def test_an_interrupt_keeps_what_finished() -> None:
    import _thread

    seen: list[str] = []

    def watch(result: Any, _title: str) -> None:
        seen.append(result.role)
        if len(seen) == 3:
            _thread.interrupt_main()

    loc = find(8, 5, 0.6, 0.3, on_replay=watch)
    assert (loc.label, loc.reason) == ("Unverified", "interrupted")
    assert len(loc.search_results) >= 3


def test_tables_json_and_card() -> None:
    loc = find(4, 2, 1.0, 0.0)
    for name in ("curve", "replays", "experiments", "locations"):
        assert getattr(loc, name).schema.equals(schema(name))
    assert loc.replays.num_rows == loc.replays_spent
    assert loc.replays.filter(loc.replays["used"]).num_rows == loc.replays_used
    told = json.loads(json.dumps(loc.to_json()))
    assert (told["afnb"], told["kind"], told["decisive_step"]) == ("location", "drop", 2)
    assert len(told["curve"]) == 5
    assert "<script" not in loc._repr_html_()
    assert "tape ends before step 2" in loc.to_text()


def test_it_can_be_drawn() -> None:
    loc = find(4, 2, 1.0, 0.0)
    data = recoverability_data(loc)
    assert (data.decisive, data.credible) == (2, loc.credible)
    assert sum(point.total for point in data.points) == loc.search_replays
    ax = recoverability(loc)
    assert ax.get_title(loc="left") == "recoverability"
    low, high = ax.get_xlim()
    assert low < -1
    assert high > 3, "the places that were not asked are there as well"


def test_two_conversations_at_once_are_branched_in_capture_order() -> None:
    """A sub-agent's answers are places as well; each arm serves what was captured before its place."""

    def agent(ctx: Any) -> str:
        with ctx.http_client() as client:

            def ask(first: str, history: list[Any]) -> str:
                messages = [{"role": "user", "content": first}, *history]
                answer = client.post("/v1/chat/completions", json={"model": "m", "messages": messages})
                return str(answer.raise_for_status().json()["choices"][0]["message"]["content"])

            plan = ask("main", [])
            helped = ask(f"helper of {plan.split()[0]}", [])
            history = [{"role": "assistant", "content": plan}, {"role": "user", "content": helped}]
            return ask("main", history)

    def model(talk: Any, rng: random.Random) -> str:
        if talk.user.startswith("helper"):
            return f"good {rng.random()}" if rng.random() < 0.95 else f"poor {rng.random()}"
        if talk.turn == 0:
            return f"plan {rng.random()}"
        return f"right {rng.random()}" if talk.says("good") else f"wrong {rng.random()}"

    from afnb.experiments.agents import Function
    from afnb.io.serve import Session

    def lost(talk: Any, rng: random.Random) -> str:
        return "poor 1" if talk.user.startswith("helper") else model(talk, rng)

    session = Session(id="helped")
    Function(agent).run(session, SimulatedUpstream(lost), seed=0, workdir=".")
    session.close()
    bad = session.cassette()
    assert len(places_of(bad)) == 3
    loc = locate(bad, agent=agent, upstream=SimulatedUpstream(model), oracle=right, progress=False, n_jobs=1)
    assert (loc.kind, loc.decisive_step) == ("drop", 1), loc.to_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"oracle": None}, "locate needs an oracle"),
        ({"upstream": None}, "upstream"),
        ({"mode": "guess"}, "bisect or curve"),
        ({"replays": 0}, "replays=0"),
        ({"replays": 0, "mode": "curve"}, "replays=0"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"ledger": 3}, "ledger=3"),
    ],
)
def test_wrong_arguments_are_one_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        find(2, 1, 1.0, 0.0, **change)


def test_a_recording_without_answers_has_no_places() -> None:
    with pytest.raises(ParameterError, match="no place to branch"):
        locate(afnb.Cassette("empty"), agent=of_length(1), upstream=lambda r: "x", oracle=right)


def test_an_agent_that_asks_something_else_ends_it_with_one_sentence() -> None:
    def other(ctx: Any) -> str:
        with ctx.http_client() as client:
            client.post("/v1/chat/completions", json={"model": "other", "messages": []})
        return "done"

    with pytest.raises(AgentError, match="not on the tape"):
        find(2, 1, 1.0, 0.0, agent=other)


def test_a_failed_self_check_spends_nothing() -> None:
    longer = of_length(3)
    loc = find(2, 1, 1.0, 0.0, agent=longer, upstream=SimulatedUpstream(policy(3, 1, 1.0, 0.0)))
    assert (loc.kind, loc.label, loc.replays_spent) == ("unverified", "Unverified", 0)
    assert "self-check failed" in loc.reason
