"""Agents that keep answers between their runs: no verdict; agents that are only fickle: a verdict."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import afnb
from afnb.experiments.agents import Function
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream

sys.path.insert(0, str(Path(__file__).parent))
from planted import experiment, policy, recording


class Remembering:
    """The planted agent with a cache of its own, from the question ``first`` on and after ``spares`` runs."""

    def __init__(self, first: int, spares: int = 0) -> None:
        self.first = first
        self.spares = spares
        self.runs = 0
        self.kept: dict[str, str] = {}

    def __call__(self, ctx: Any) -> Any:
        text = ""
        self.runs += 1
        if self.runs <= self.spares:
            self.kept.clear()
        messages: list[dict[str, Any]] = [{"role": "user", "content": "start"}]
        with ctx.http_client() as client:
            for number, question in enumerate(("first", "second")):
                messages.append({"role": "user", "content": question})
                text = self.kept.get(str(messages), "") if number >= self.first else ""
                if not text:
                    reply = client.post("/v1/chat/completions", json={"model": "m", "messages": messages})
                    text = reply.raise_for_status().json()["choices"][0]["message"]["content"]
                    self.kept[str(messages)] = text
                messages.append({"role": "assistant", "content": text})
        return text


def test_an_agent_that_keeps_its_tail_gets_no_verdict() -> None:
    """One provider answer for a whole arm would call every other step without any effect recovered."""
    bad = recording()
    found = [experiment(0.5, 0.5, seed, recording=bad, agent=Remembering(1, spares=2)) for seed in range(8)]
    assert {(e.verdict, e.label) for e in found} == {("unverified", "Unverified")}
    assert {e.decision.verdict for e in found} == {"recovered", "not_recovered"}
    assert all("keep answers between its runs" in e.reason for e in found)


def test_a_silent_agent_that_keeps_its_tail_gets_no_verdict() -> None:
    """It returns nothing, so that nothing of its own tells a cached replay from one that asked."""

    class Silent(Remembering):
        said = ""

        def __call__(self, ctx: Any) -> Any:
            self.said = super().__call__(ctx)

    for seed in range(4):
        quiet = Silent(1, spares=2)
        e = experiment(1.0, 0.0, seed, agent=quiet, oracle=lambda run, a=quiet: a.said.startswith("right"))
        assert e.decision.verdict == "recovered"
        assert (e.verdict, e.label) == ("unverified", "Unverified")


def test_the_second_self_check_finds_a_cache_before_anything_is_spent() -> None:
    for first in (0, 1):
        e = experiment(1.0, 0.0, agent=Remembering(first))
        assert (e.label, e.live_calls_spent, len(e.results)) == ("Unverified", 0, 0)
        assert "replayed a second time, the agent asked for" in e.reason
        assert "keep answers between its runs" in e.reason


def test_a_control_arm_that_never_asks_gets_no_verdict() -> None:
    """The second self-check has filled the cache with the recorded tail, and no patch asks for that again."""
    e = experiment(1.0, 0.0, agent=Remembering(1, spares=2))
    controls = [r for r in e.results if r.role == "control"]
    assert {r.report.live for r in controls} == {0}
    assert e.label == "Unverified"


def test_an_agent_that_keeps_everything_reaches_no_branch_point() -> None:
    e = experiment(1.0, 0.0, agent=Remembering(0, spares=2))
    assert e.label == "Unverified"
    assert {r.reason for r in e.results} == {"nothing_served"}


def fickle(ctx: Any) -> str:
    """Stops after its first answer in one run of four, with that answer as its own."""
    with ctx.http_client() as client:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "start"}]
        text = ""
        for number, question in enumerate(("first", "second")):
            if number and ctx.workdir != Path() and random.Random(ctx.seed).random() < 0.25:
                return text
            messages.append({"role": "user", "content": question})
            reply = client.post("/v1/chat/completions", json={"model": "m", "messages": messages})
            text = reply.raise_for_status().json()["choices"][0]["message"]["content"]
            messages.append({"role": "assistant", "content": text})
        return text


def test_an_agent_that_sometimes_stops_early_is_no_cache() -> None:
    session = Session(id="fickle")
    done = Function(fickle).run(session, SimulatedUpstream(policy(0, 0), seed=1), seed=0, workdir="")
    session.close()
    assert done.status == "finished", done.error
    found = [experiment(1.0, 0.0, seed, recording=session.cassette(), agent=fickle) for seed in range(12)]
    checked = [e for e in found if e.fidelity[0].ok]
    stopped = [r for e in checked for r in e.results if r.report.live == 0]
    assert stopped, "no replay stopped early, so nothing was tested"
    assert {(e.verdict, e.label) for e in checked} == {("recovered", "verified")}


def test_the_last_answer_needs_no_live_call() -> None:
    """Nothing is asked after a run's last answer, in either arm, and nothing is missing."""
    bad = recording()
    e = afnb.what_if(
        bad,
        afnb.Edit(1, "right"),
        agent=Remembering(9),
        upstream=SimulatedUpstream(policy(0, 0)),
        oracle=lambda run: run.answer == "right",
        progress=False,
    )
    assert (e.verdict, e.label) == ("recovered", "verified")
    assert e.live_calls_spent == 0


class Partly:
    """Asks, then two questions that do not build on each other; keeps the answer to the first of these."""

    def __init__(self, spares: int) -> None:
        self.spares = spares
        self.runs = 0
        self.kept: dict[str, str] = {}

    def __call__(self, ctx: Any) -> str:
        self.runs += 1
        if self.runs <= self.spares:
            self.kept.clear()
        with ctx.http_client() as client:

            def ask(*texts: str) -> str:
                messages = [{"role": "user", "content": text} for text in texts]
                body = {"model": "m", "messages": messages}
                reply = client.post("/v1/chat/completions", json=body).raise_for_status().json()
                return str(reply["choices"][0]["message"]["content"])

            begun = ask("start")
            cached = self.kept.get(begun) or ask(begun, "weigh")
            self.kept[begun] = cached
            ask(begun, "close")
        return cached


def answers(talk: Any, rng: random.Random) -> str:
    if talk.user[-1] == "start":
        return "bad beginning"
    if talk.user[-1] == "close":
        return f"closed {rng.random()}"
    return f"right {rng.random()}" if rng.random() < 0.5 else f"wrong {rng.random()}"


def partly(agent: Any, upstream: Any, seed: int = 0) -> afnb.Experiment:
    session = Session(id="partly")
    Function(Partly(9)).run(session, SimulatedUpstream(answers, seed=1), seed=0, workdir=".")
    session.close()
    return afnb.what_if(
        session.cassette(),
        afnb.Edit(0, "good beginning"),
        agent=agent,
        upstream=upstream,
        oracle=lambda run: str(run.answer).startswith("right"),
        seed=seed,
        n_jobs=1,
        progress=False,
    )


def test_an_agent_that_keeps_some_of_its_tail_gets_no_verdict() -> None:
    """One kept answer decides a whole arm, although every replay asks the provider something."""
    found = [partly(Partly(2), SimulatedUpstream(answers), seed) for seed in range(6)]
    assert {(e.verdict, e.label) for e in found} == {("unverified", "Unverified")}
    assert any(e.decision.verdict != "unverified" for e in found)
    assert all(r.report.live for e in found for r in e.results)
    assert all("left out a request" in e.reason for e in found if e.decision.verdict != "unverified")
    honest = [partly(Partly(99), SimulatedUpstream(answers), seed) for seed in range(6)]
    assert not any("left out" in e.reason for e in honest)


def test_a_provider_behind_a_cache_gets_no_verdict() -> None:
    """The same answer, with the same id, for all replays of an arm."""
    kept: dict[bytes, Any] = {}
    inner = SimulatedUpstream(policy(0.5, 0.5))

    def cached(request: Any) -> Any:
        if request.body not in kept:
            kept[request.body] = inner.answer(request)
        return kept[request.body]

    e = experiment(0.5, 0.5, upstream=cached)
    assert e.decision.verdict != "unverified"
    assert (e.verdict, e.label) == ("unverified", "Unverified")
    assert "with the same id" in e.reason
