"""Budgets are charged as answers come, under the model that gave them, and are never exceeded."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.errors import ParameterError
from afnb.experiments.budget import Budget, Meter, Use, dollars_of, price_of
from afnb.io.ratelimit import RateLimit
from afnb.io.simulated import SimulatedUpstream
from afnb.io.upstream import LiveUpstream
from afnb.testing.provider import FakeProvider, Fault

sys.path.insert(0, str(Path(__file__).parent))
from planted import experiment, policy, recording

PRICES = {"m": (10.0, 100.0), "other": (1.0, 1.0)}


def tokens(e: afnb.Experiment) -> tuple[int, int]:
    read = sum(r.report.tokens_live.input for r in e.results)
    return read, sum(r.report.tokens_live.output for r in e.results)


def test_tokens_and_dollars_are_charged_under_the_model_s_name() -> None:
    e = experiment(1.0, 0.0, budget=Budget(live_calls=None, dollars=100.0, prices=PRICES))
    read, written = tokens(e)
    assert read > 0
    assert e.tokens_spent == read + written
    assert {use.model for r in e.results for use in r.uses} == {"m"}
    assert e.dollars_spent == pytest.approx((10 * read + 100 * written) / 1e6)
    assert "$" in e.to_text()


@pytest.mark.parametrize("limit", [{"tokens": 200}, {"dollars": 0.003, "prices": PRICES}])
def test_a_spent_token_or_dollar_budget_is_a_reason(limit: dict[str, Any]) -> None:
    e = experiment(0.6, 0.4, budget=Budget(live_calls=None, **limit))
    assert (e.verdict, e.label) == ("unverified", "Unverified")
    assert "spent" in e.reason
    one = max(use.tokens for r in e.results for use in r.uses)
    if "tokens" in limit:
        assert limit["tokens"] <= e.tokens_spent < limit["tokens"] + one + 1


def test_a_running_replay_stops_at_the_limit_too() -> None:
    def long_agent(ctx: Any) -> str:
        with ctx.http_client() as client:
            for turn in range(12):
                body = {"model": "m", "messages": [{"role": "user", "content": f"turn {turn}"}]}
                client.post("/v1/chat/completions", json=body)
        return "done"

    from afnb.experiments.agents import Function
    from afnb.io.serve import Session

    session = Session(id="long")
    Function(long_agent).run(session, SimulatedUpstream(lambda talk, rng: "x"), seed=0, workdir=".")
    session.close()
    e = afnb.what_if(
        session.cassette(),
        afnb.Edit(0, "y"),
        agent=long_agent,
        upstream=SimulatedUpstream(lambda talk, rng: "x"),
        oracle=lambda run: True,
        budget=Budget(tokens=60),
        n_jobs=1,
        progress=False,
    )
    assert e.verdict == "unverified"
    assert e.results[-1].reason == "budget"
    assert e.results[-1].report.live < 11


@pytest.mark.parametrize("n_jobs", [4, 16])
def test_no_number_of_workers_exceeds_a_budget_of_calls(n_jobs: int) -> None:
    slow = SimulatedUpstream(policy(0.6, 0.3), latency_s=0.002)
    e = experiment(0.6, 0.3, upstream=slow, n_jobs=n_jobs, budget=Budget(live_calls=7))
    assert e.live_calls_spent <= 7
    assert sum(r.report.live for r in e.results) <= 7


def test_answers_without_a_count_are_estimated_and_said() -> None:
    def unpriced(request: Any) -> Any:
        return 200, {"choices": [{"message": {"role": "assistant", "content": "right " + "x" * 394}}]}

    e = experiment(1.0, 0.0, upstream=unpriced, budget=Budget(live_calls=None, tokens=10_000))
    uses = [use for r in e.results for use in r.uses]
    assert {use.estimated for use in uses} == {1}
    assert {use.output_tokens for use in uses} == {100}
    assert e.tokens_spent == sum(use.tokens for use in uses)
    assert any("no token count" in warning for warning in e.warnings)


def test_prices() -> None:
    prices = {"gpt-4o": (2.5, 10.0), "gpt-4o-mini": (0.15, 0.6)}
    assert price_of("gpt-4o-mini-2024-07-18", prices) == (0.15, 0.6)
    assert price_of("gpt-4o-audio", prices) is None
    assert price_of(None, prices) is None
    dearest = dollars_of(Use("unknown", 1, 1000, 1000), prices)
    assert dearest == pytest.approx(0.0125)
    assert dollars_of(Use("gpt-4o", 1, 10, 10), None) == 0.0


@pytest.mark.parametrize("price", [1.0, (1.0,), (1.0, -1.0), ("a", 2.0), (float("nan"), 1.0)])
def test_a_price_is_checked(price: Any) -> None:
    with pytest.raises(ParameterError, match="per million"):
        Budget(dollars=1.0, prices={"m": price})


def test_what_is_left_is_a_budget() -> None:
    meter = Meter(Budget(live_calls=5, tokens=100, dollars=1.0, prices=PRICES))
    assert meter.take() is None
    meter.charge(Use("m", 1, 30, 10))
    meter.recall(2, [Use("other", 2, 10, 10)])
    left = meter.left()
    assert (left.live_calls, left.tokens) == (2, 40)
    assert left.dollars == pytest.approx(1.0 - 0.0013 - 0.00002)
    assert [meter.take(), meter.take()] == [None, None]
    assert "5 live calls" in str(meter.take())


def test_every_worker_waits_as_long_as_the_provider_asks() -> None:
    """One 429 with Retry-After: no worker starts a call before that time, and the verdict is the same."""
    asked: list[float] = []
    stopped: list[float] = []

    def fault(number: int, _request: Any) -> Fault | None:
        now = time.monotonic()
        if number == 3:
            stopped.append(now)
            return Fault(status=429, headers=(("retry-after", "0.4"),))
        asked.append(now)
        return None

    def patient(ctx: Any) -> str:
        with ctx.http_client() as client:
            messages: list[dict[str, Any]] = [{"role": "user", "content": "start"}]
            text = ""
            for question in ("first", "second"):
                messages.append({"role": "user", "content": question})
                for _ in range(3):
                    answer = client.post("/v1/chat/completions", json={"model": "m", "messages": messages})
                    if answer.status_code != 429:
                        break
                text = answer.json()["choices"][0]["message"]["content"]
                messages.append({"role": "assistant", "content": text})
            return text

    with FakeProvider(policy(1.0, 0.0), faults=fault) as provider:
        e = experiment(1.0, 0.0, upstream=provider.url, agent=patient, n_jobs=8)
    assert e.verdict == "recovered"
    assert len(stopped) == 1
    early = [t for t in asked if stopped[0] + 0.05 < t < stopped[0] + 0.35]
    assert early == []
    assert any(t >= stopped[0] + 0.35 for t in asked)


def test_a_limiter_that_was_given_is_kept() -> None:
    from afnb.experiments.pacing import under_one_limit

    mine = RateLimit(per_minute=60)
    one = LiveUpstream("http://127.0.0.1:9", limit=mine)
    assert under_one_limit(one) is one
    routed = under_one_limit(afnb.experiments.recordings.as_upstream({"a": "http://127.0.0.1:9", "b": one}))
    assert routed.routes["b"].limit is mine  # type: ignore[attr-defined]
    assert routed.routes["a"].limit is not None  # type: ignore[attr-defined]


def test_recording_is_not_touched() -> None:
    bad = recording()
    before = repr(bad.exchanges)
    experiment(1.0, 0.0, recording=bad)
    assert repr(bad.exchanges) == before


# --- nothing is started in vain --------------------------------------------------------------------


@pytest.mark.parametrize("rates", [(1.0, 0.0), (0.7, 0.4), (0.0, 0.0), (1.0, 1.0)])
def test_one_worker_starts_no_replay_that_the_rule_does_not_use(rates: tuple[float, float]) -> None:
    bad = recording()
    for seed in range(6):
        e = experiment(*rates, seed, recording=bad)
        assert e.replays_spent == e.decision.replays
        assert e.live_calls_spent == e.live_calls_used
        if rates == (0.0, 0.0):
            assert {r.role for r in e.results} == {"patch"}, "no control while no patch has recovered"


def test_many_workers_start_fewer_in_vain_than_there_are_workers() -> None:
    bad = recording()
    for seed in range(6):
        e = experiment(0.7, 0.4, seed, recording=bad, n_jobs=8)
        assert e.replays_spent - e.decision.replays < 8


def planted_attribution() -> afnb.Attribution:
    """Six candidates of which two repair the run together; one worker."""
    from afnb.experiments.replay import derive_seed
    from afnb.testing.planted import Plan, PlantedAgent, PlantedModel, Turn, record_pair, succeeded

    kinds = ("style", "cause", "style", "cause", "style", "style")
    plan = Plan(tuple(Turn(kind, 0.95) if kind == "cause" else Turn(kind) for kind in kinds), 1.0, 0.0)
    bad, good = record_pair(plan, 3)
    return afnb.attribute(
        bad,
        good,
        agent=afnb.Function(PlantedAgent(plan)),
        upstream=SimulatedUpstream(PlantedModel(plan), seed=derive_seed(0, "cost")),
        oracle=succeeded,
        budget=Budget(live_calls=None),
        n_jobs=1,
        progress=False,
    )


def test_controls_are_shared_within_a_stage_where_the_branch_is_the_same() -> None:
    a = planted_attribution()
    assert (a.label, a.origination) == ("verified", (1, 3))
    users: dict[tuple[str, int], set[str]] = {}
    places: dict[tuple[str, int], set[tuple[str, int]]] = {}
    used = 0
    for e in a.experiments_run:
        stage = "confirmation" if e.purpose == "confirmation" else "search"
        consumed = {(one.arm, one.index) for one in e.decision.consumed}
        used += len(consumed)
        for r in e.results:
            if (r.role, r.index) in consumed:
                users.setdefault((r.role, r.seed), set()).add(e.id)
                places.setdefault((r.role, r.seed), set()).add((stage, max((*e.steps, *e.also))))
    shared = [key for key, names in users.items() if len(names) > 1]
    assert {role for role, _ in shared} >= {"control"}, "no control replay was shared, so nothing was tested"
    assert all(len(found) == 1 for found in places.values()), "shared over stages or branch points"
    assert a.replays_used == len(users) < used
    assert a.replays_spent == a.replays_used


def test_no_replay_starts_after_the_time_is_spent() -> None:
    started: list[float] = []

    def slow(request: Any) -> str:
        started.append(time.monotonic())
        time.sleep(0.1)
        return "wrong"

    begun = time.monotonic()
    e = experiment(0.5, 0.5, upstream=slow, n_jobs=1, budget=Budget(live_calls=None, seconds=0.25))
    assert (e.verdict, e.label) == ("unverified", "Unverified")
    assert "0.25 s" in e.reason
    assert started
    assert len(started) <= 1 + (started[-1] - begun) / 0.1
    assert started[-1] - begun < 0.25 + 0.2
