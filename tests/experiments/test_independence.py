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
    """The planted agent with a cache of its own, from the question ``first`` on."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.kept: dict[str, str] = {}

    def __call__(self, ctx: Any) -> str:
        text = ""
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
    found = [experiment(0.5, 0.5, seed, recording=bad, agent=Remembering(1)) for seed in range(8)]
    assert {(e.verdict, e.label) for e in found} == {("unverified", "Unverified")}
    assert {e.decision.verdict for e in found} == {"recovered", "not_recovered"}
    assert all("keep answers between its runs" in e.reason for e in found)


def test_a_control_arm_that_never_asks_gets_no_verdict() -> None:
    """The self-check has filled the cache with the recorded tail, and no patch asks for that again."""
    e = experiment(1.0, 0.0, agent=Remembering(1))
    controls = [r for r in e.results if r.role == "control"]
    assert {r.report.live for r in controls} == {0}
    assert e.label == "Unverified"


def test_an_agent_that_keeps_everything_reaches_no_branch_point() -> None:
    e = experiment(1.0, 0.0, agent=Remembering(0))
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
