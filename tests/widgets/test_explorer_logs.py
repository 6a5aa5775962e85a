"""The explorer over event logs: looked at, changed by clicking, exported as code."""

from __future__ import annotations

import random
from typing import Any

import pytest

import afnb
from afnb.core.eventlog import EventLog
from afnb.io.conversation import Conversation
from afnb.tables.schemas import volatile

WAIT_S = 60


def window_of(category: Any) -> dict[str, Any]:
    return {"days": 30 if category == "electronics" else 7}


def agent(ctx: Any) -> str:
    """Asks for a category, looks its window up, asks for a decision."""
    talk = [{"role": "user", "content": "order 8841"}]
    category = said(ctx.model_call({"model": "m", "messages": talk}))
    talk.append({"role": "assistant", "content": category})
    talk.append({"role": "user", "content": f"window: {ctx.tool_call('window_of', category)['days']} days"})
    return said(ctx.model_call({"model": "m", "messages": talk}))


def said(reply: Any) -> str:
    return str(reply.response["choices"][0]["message"]["content"])


def model(talk: Conversation, rng: random.Random) -> str:
    if talk.turn == 0:
        return "electronics" if rng.random() < 0.5 else "accessories"
    return "pay" if "window: 30" in talk.messages[-1].text else f"decline {rng.random():.3f}"


def logged() -> afnb.LoggedAgent:
    return afnb.LoggedAgent(agent, tools=(afnb.Tool(window_of, "read"),), definition="window-1")


def recorded(category: str) -> EventLog:
    for seed in range(50):
        upstream = afnb.SimulatedUpstream(model, seed=seed)
        recorder = afnb.LoggedAgent(
            agent, tools=(afnb.Tool(window_of, "read"),), definition="window-1", model=upstream
        )
        run_id = f"00000000-0000-4000-8000-{seed:012d}"
        run = recorder.run(EventLog(None), input="8841", run_id=run_id)
        if category in str(run.log.to_bytes()):
            return run.log
    raise AssertionError(category)


def paid(run: afnb.Run) -> bool:
    return str(run.answer) == "pay"


@pytest.fixture(scope="module")
def logs() -> tuple[EventLog, EventLog]:
    return recorded("accessories"), recorded("electronics")


def test_a_log_is_changed_by_clicking_as_its_code_does(logs: tuple[EventLog, EventLog]) -> None:
    bad, good = logs
    given: dict[str, Any] = {
        "agent": logged(),
        "upstream": afnb.SimulatedUpstream(model),
        "oracle": paid,
    }
    x = afnb.explore(bad, good, **given)
    f = x.view.forms
    x.view.canvas.selected = next(
        row for row in range(len(x.bench.subject)) if x.bench.subject.steps_at(row)[0] == 0
    )
    assert "seq" in f.detail.value
    f.plan.click()
    assert f.message.value == ""
    f.run.click()
    assert x.bench.trials[0].join(WAIT_S)
    experiment = x.experiments[0]
    assert (experiment.verdict, experiment.label) == ("recovered", "verified")
    names = {**given, "bad": bad, "good": good}
    exec(x.code(), names)
    columns = list(volatile("replays"))
    again = names["e"].replays.to_pandas().drop(columns=columns)
    assert again.equals(experiment.replays.to_pandas().drop(columns=columns))


def test_a_single_log_and_a_table_of_one_are_looked_at(
    logs: tuple[EventLog, EventLog], tmp_path: Any
) -> None:
    (tmp_path / "one.jsonl").write_bytes(logs[0].to_bytes())
    table = afnb.read_events(tmp_path / "one.jsonl")
    for x in (afnb.explore(logs[0]), afnb.explore(table), afnb.explore(tmp_path / "one.jsonl")):
        assert len(x.bench.subject) == 3
        assert x.view.canvas.data["lanes"] == ["bad"]
        assert "give" in x.widget.children[1].children[0].value or "which agent" in str(
            x.widget.children[1].children[0].value
        )
