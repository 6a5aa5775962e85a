"""A tiny planted agent for tests: one answer to change, then a live answer with known rates."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import afnb
from afnb.core.cassette import Cassette
from afnb.experiments.agents import Function
from afnb.io.conversation import Conversation
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream


def agent(ctx: Any) -> str:
    """Asks twice; the second request holds the first answer."""
    with ctx.http_client() as client:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "start"}]
        text = ""
        for question in ("first", "second"):
            messages.append({"role": "user", "content": question})
            body = {"model": "m", "messages": messages}
            answer = client.post("/v1/chat/completions", json=body).raise_for_status().json()
            text = answer["choices"][0]["message"]["content"]
            messages.append({"role": "assistant", "content": text})
        return text


def policy(patched: float, control: float) -> Callable[[Conversation, random.Random], Any]:
    """Second answer right with the given rate, by what the first answer was."""

    def model(talk: Conversation, rng: random.Random) -> str:
        if talk.turn == 0:
            return "bad beginning"
        rate = patched if talk.says("good beginning") else control
        return f"right {rng.random()}" if rng.random() < rate else f"wrong {rng.random()}"

    return model


def recording() -> Cassette:
    """A failing run of the agent."""
    session = Session(id="planted-bad")
    done = Function(agent).run(session, SimulatedUpstream(policy(0, 0), seed=1), seed=0, workdir=".")
    assert done.status == "finished", done
    session.close()
    return session.cassette()


def right(run: afnb.Run) -> bool:
    return str(run.answer).startswith("right")


def experiment(patched: float, control: float, seed: int = 0, **options: Any) -> afnb.Experiment:
    """Change the first answer; the patch arm recovers at rate ``patched``, the control arm at ``control``."""
    settings: dict[str, Any] = {
        "agent": agent,
        "upstream": SimulatedUpstream(policy(patched, control)),
        "oracle": right,
        "budget": afnb.Budget(live_calls=None),
        "n_jobs": 1,
        "progress": False,
        **options,
    }
    bad = settings.pop("recording", None)
    bad = recording() if bad is None else bad
    return afnb.what_if(bad, afnb.Edit(0, "good beginning"), seed=seed, **settings)
