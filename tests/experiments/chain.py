"""A planted agent of any length: one turn decides, and every later answer follows from it."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import afnb
from afnb.core.cassette import Cassette
from afnb.experiments.agents import Function
from afnb.io.conversation import Conversation
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream


def agent(ctx: Any, turns: int) -> str:
    """Asks so often; each request holds all earlier answers."""
    with ctx.http_client() as client:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "start"}]
        text = ""
        for turn in range(turns):
            messages.append({"role": "user", "content": f"question {turn}"})
            answer = client.post("/v1/chat/completions", json={"model": "m", "messages": messages})
            text = answer.raise_for_status().json()["choices"][0]["message"]["content"]
            messages.append({"role": "assistant", "content": text})
        return text


def of_length(turns: int) -> Function:
    return Function(functools.partial(agent, turns=turns))


def policy(
    turns: int, cause: int, before: float, after: float
) -> Callable[[Conversation, random.Random], Any]:
    """Turn ``cause`` (from 0) goes well at rate ``before``; without that the run recovers at ``after``."""

    def model(talk: Conversation, rng: random.Random) -> str:
        if talk.turn == cause:
            return f"chose well {rng.random()}" if rng.random() < before else f"chose badly {rng.random()}"
        if talk.turn < turns - 1:
            return f"step {rng.random()}"
        luck = rng.random() < after
        return f"right {rng.random()}" if talk.says("chose well") or luck else f"wrong {rng.random()}"

    return model


def recording(turns: int, cause: int) -> Cassette:
    """A failing run."""
    session = Session(id=f"chain-{turns}-{cause}")
    upstream = SimulatedUpstream(policy(turns, cause, 0.0, 0.0), seed=1)
    done = of_length(turns).run(session, upstream, seed=0, workdir=".")
    assert done.status == "finished", done
    session.close()
    return session.cassette()


def right(run: afnb.Run) -> bool:
    return str(run.answer).startswith("right")


def settings(turns: int, cause: int, before: float, after: float, **options: Any) -> dict[str, Any]:
    return {
        "agent": of_length(turns),
        "upstream": SimulatedUpstream(policy(turns, cause, before, after)),
        "oracle": right,
        "budget": afnb.Budget(live_calls=None),
        "n_jobs": 1,
        "progress": False,
        **options,
    }
