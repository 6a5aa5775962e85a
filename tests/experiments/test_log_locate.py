"""locate over event logs: models' and tools' completed calls are the places."""

from __future__ import annotations

import random
from typing import Any

import pytest

import afnb
from afnb.causal.places import places_of
from afnb.core.eventlog import EventLog
from afnb.core.logsteps import run_from_log
from afnb.experiments.locate import locate
from afnb.io.conversation import Conversation
from afnb.io.executors import Tool
from afnb.io.logged import LoggedAgent
from afnb.io.simulated import SimulatedUpstream

STALE = {"rate": 0.0}
COIN = random.Random(1)


def quote(_item: Any) -> dict[str, Any]:
    """A read that is sometimes stale."""
    return {"price": 9 if COIN.random() < STALE["rate"] else 10}


def order(_item: Any) -> dict[str, Any]:
    return {"ordered": True}


def agent(ctx: Any) -> str:
    """Asks, looks a price up, asks twice more, and answers."""
    ctx.now()
    talk: list[dict[str, Any]] = [{"role": "user", "content": "order one"}]

    def ask() -> str:
        said = ctx.model_call({"model": "m", "messages": list(talk)})
        text = str(said.response["choices"][0]["message"]["content"])
        talk.extend([{"role": "assistant", "content": text}, {"role": "user", "content": "go on"}])
        return text

    ask()
    found = ctx.tool_call("quote", "one")
    talk.append({"role": "user", "content": f"price {found['price']}"})
    ask()
    return ask()


def model(talk: Conversation, rng: random.Random) -> str:
    if talk.turn == 1:
        return f"careful {rng.random()}" if rng.random() < 0.95 else f"hasty {rng.random()}"
    if talk.turn < 2:
        return f"thinking {rng.random()}"
    return f"right {rng.random()}" if talk.says("price 10") and talk.says("careful") else "wrong"


def logged(upstream: Any = None) -> LoggedAgent:
    tools = (Tool(quote, "read"), Tool(order, "write"))
    return LoggedAgent(agent, model=upstream, tools=tools, definition="buyer-1")


def recorded(policy: Any, stale: float) -> EventLog:
    STALE["rate"] = stale
    run = logged(SimulatedUpstream(policy)).run(
        EventLog(None), input="x", run_id="00000000-0000-4000-8000-000000000001"
    )
    assert str(run.output).startswith("wrong")
    STALE["rate"] = 0.0
    return run.log


def hasty(talk: Conversation, rng: random.Random) -> str:
    return "hasty 0" if talk.turn == 1 else model(talk, rng)


def find(log: EventLog, **options: Any) -> afnb.Location:
    return locate(
        log,
        **{
            "agent": logged(),
            "upstream": SimulatedUpstream(model),
            "oracle": lambda run: str(run.answer).startswith("right"),
            "progress": False,
            "n_jobs": 1,
            "budget": afnb.Budget(live_calls=None),
            **options,
        },
    )


def test_places_are_the_completed_calls() -> None:
    log = recorded(hasty, 0.0)
    places = places_of(log)
    assert [(p.step, p.kind, p.name) for p in places.answers] == [
        (0, "llm", "llm"),
        (1, "tool", "quote"),
        (2, "llm", "llm"),
        (3, "llm", "llm"),
    ]
    assert [p.seq for p in places.answers] == [s.seq for s in run_from_log(log).steps]
    assert places_of(log.prefix(len(log) - 2)).answers == places.answers[:3]


@pytest.mark.parametrize("mode", ["bisect", "curve"])
def test_a_model_s_answer_is_found(mode: Any) -> None:
    loc = find(recorded(hasty, 0.0), mode=mode, replays=60 if mode == "bisect" else 6)
    assert (loc.label, loc.kind, loc.decisive_step) == ("verified", "drop", 2), loc.to_text()


def test_a_tool_s_result_is_found_and_asked_again() -> None:
    loc = find(recorded(model, 1.0), seed=1)
    assert (loc.label, loc.kind, loc.decisive_step) == ("verified", "drop", 1), loc.to_text()
    assert loc.step_name(1) == "step 1 (quote)"
    confirmed = loc.confirmation
    assert confirmed is not None
    for result in confirmed.results:
        assert result.report.patches_applied == (1,)
        again = run_from_log(result.recording)
        price = again.steps[1].outputs["price"]
        assert price == (10 if result.role == "patch" else 9)


def test_the_workers_do_not_matter() -> None:
    log = recorded(hasty, 0.0)
    found = [find(log, n_jobs=n, seed=3) for n in (1, 6)]
    assert (
        len({(loc.kind, loc.step, loc.credible, loc.search_replays, loc.replays_used) for loc in found}) == 1
    )
