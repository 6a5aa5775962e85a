"""The self-check: whether a replay did what its recording says."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import afnb
from afnb.core.steps import run_from_cassette
from afnb.experiments.agents import Function
from afnb.io.conversation import Conversation
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream


async def talk(client: Any, who: str, turns: asyncio.Event, after: asyncio.Event | None) -> str:
    """One conversation of two answers; its second request waits for the other's end, if told so."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"I am {who}"}]
    text = ""
    for number in range(2):
        if number and after is not None:
            await after.wait()
        reply = await client.post("/v1/chat/completions", json={"model": "m", "messages": messages})
        text = reply.raise_for_status().json()["choices"][0]["message"]["content"]
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "go on"}]
    turns.set()
    return text


def parallel(first: str) -> Any:
    """An agent of two conversations at a time, of which ``first`` ends first."""

    async def agent(ctx: Any) -> str:
        ended = {"A": asyncio.Event(), "B": asyncio.Event()}
        async with ctx.async_http_client() as client:
            said = await asyncio.gather(
                *(talk(client, who, ended[who], None if who == first else ended[first]) for who in "AB")
            )
        return " ".join(said)

    return agent


def answer(conversation: Conversation, rng: random.Random) -> str:
    if conversation.turn == 0:
        return f"first of {conversation.user[-1]}"
    good = conversation.says("good")
    return f"{'right' if good else 'wrong'} {conversation.user[-1]} {rng.random()}"


@pytest.mark.parametrize("first", ["A", "B"])
def test_parallel_conversations_may_end_in_any_order(first: str) -> None:
    session = Session(id="parallel")
    done = Function(parallel("A")).run(session, SimulatedUpstream(answer), seed=0, workdir=".")
    session.close()
    assert done.status == "finished", done.error
    bad = session.cassette()
    found = afnb.replay(bad, agent=parallel(first))
    assert found.faithful, found.to_text()
    step = next(s.idx for s in run_from_cassette(bad).steps if s.outputs["text"] == "first of A")
    e = afnb.what_if(
        bad,
        afnb.Edit(step, "good"),
        agent=parallel(first),
        upstream=SimulatedUpstream(answer),
        oracle=lambda run: "right A" in run.answer,
        progress=False,
    )
    assert (e.verdict, e.label) == ("recovered", "verified"), e.to_text()
