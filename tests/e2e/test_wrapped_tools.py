"""Wrapped tools the whole way: a command and a function, recorded, replayed, changed and held back."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.steps import run_from_cassette
from afnb.io.answers import Call
from afnb.io.conversation import Conversation
from afnb.io.simulated import SimulatedUpstream
from afnb.testing.provider import FakeProvider

SCRIPT = Path(__file__).parent / "agents" / "wrapped_tools.py"


def policy(talk: Conversation, rng: random.Random) -> Any:
    """Refund what is lost; say what came of it."""
    if not talk.called("look_up"):
        return Call("look_up", {"order": "8841"})
    if talk.called("refund"):
        return f"Refund: {talk.result_of('refund')['status']}."
    if talk.result_of("look_up")["state"] == "lost" and not talk.says("No refund"):
        return Call("refund", {"order": "8841", "amount": 129})
    return "No refund is due."


def model(talk: Conversation, rng: random.Random) -> Any:
    """The model of the recorded run, which declined without a reason."""
    return policy(talk, rng) if not talk.called("look_up") else "No refund is due."


class Kind:
    """An agent of one kind, and the file in which its tools leave what they did."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.world = folder / "world.txt"

    def agent(self, **env: str) -> Any:
        env["WORLD"] = str(self.world)
        if self.kind == "command":
            return afnb.Command([sys.executable, str(SCRIPT)], env=env, timeout_s=60)
        spec = importlib.util.spec_from_file_location("wrapped_tools_of_a_test", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            spec.loader.exec_module(module)

        def agent(ctx: Any) -> str:
            with ctx.http_client("httpx") as http:
                return str(module.run(lambda body: http.post("/v1/chat/completions", content=body).json()))

        return agent

    def done(self) -> list[str]:
        return self.world.read_text().splitlines() if self.world.exists() else []


@pytest.fixture(params=["command", "function"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    return Kind(request.param, tmp_path)


@pytest.fixture
def declined(kind: Kind, tmp_path: Path) -> afnb.Cassette:
    """A run that declined; its world is as if nothing had happened yet."""
    done = afnb.record(kind.agent(), SimulatedUpstream(model), tmp_path / "bad.json")
    assert done.agent.status == "finished", done.agent
    kind.world.unlink()
    loaded = afnb.load(tmp_path / "bad.json")
    assert isinstance(loaded, afnb.Cassette)
    return loaded


def paid(run: afnb.Run) -> bool:
    return "Refund: " in f"{run.answer} {run.stdout or ''}"


def options(kind: Kind, **more: Any) -> dict[str, Any]:
    return {
        "agent": kind.agent(),
        "upstream": SimulatedUpstream(policy),
        "oracle": paid,
        "n_jobs": 2,
        "progress": False,
        **more,
    }


def test_calls_are_recorded_and_replayed_without_being_made(kind: Kind, tmp_path: Path) -> None:
    with FakeProvider(policy) as provider:
        done = afnb.record(kind.agent(), provider.url, tmp_path / "good.json")
    assert kind.done() == ["look_up 8841", "refund 8841 129"]
    assert done.cassette.attrs["tools"].items() >= {"look_up": "read", "refund": "write"}.items()
    kept = [(t.name, t.arguments, t.output, t.effect, t.after_exchange) for t in done.cassette.tool_exchanges]
    assert kept == [
        ("look_up", {"order": "8841"}, {"order": "8841", "paid": 129, "state": "lost"}, "read", 0),
        ("refund", {"order": "8841", "amount": 129}, {"status": "paid", "amount": 129}, "write", 1),
    ]
    found = afnb.replay(tmp_path / "good.json", agent=kind.agent())
    assert found.faithful, found.to_text()
    assert (found.report.tools_served, found.report.tools_live) == (2, 0)
    assert "2 calls served, 0 run" in found.to_text()
    assert len(kind.done()) == 2, "nothing was done again"
    steps = run_from_cassette(found.recording).steps
    assert [(s.kind, s.name) for s in steps] == [
        ("llm", "llm"),
        ("tool", "look_up"),
        ("llm", "llm"),
        ("tool", "refund"),
        ("llm", "llm"),
    ]


def test_a_tools_result_is_changed_at_its_source(kind: Kind, declined: afnb.Cassette) -> None:
    e = afnb.what_if(declined, afnb.Edit(1, {"order": "8841", "state": "returned"}), **options(kind))
    assert (e.verdict, e.label) == ("not_recovered", "verified"), e.to_text()
    assert kind.done() == [], "the recording and the intervention answered every call"
    for result in e.results:
        assert isinstance(result.recording, afnb.Cassette)
        source = result.recording.tool_exchanges[0]
        assert source.attrs["source"] == "patch:1"
        state = "returned" if result.role == "patch" else "lost"
        assert source.output["state"] == state
        last = json.loads(result.recording.exchanges[-1].request.body)["messages"][-1]
        assert json.loads(last["content"])["state"] == state
        assert all(exchange.forwarded is None for exchange in result.recording.exchanges)
    assert e.replays.column("tools_served").to_pylist() == [1] * len(e.results)


def test_a_write_past_the_branch_point_is_refused_and_the_replay_says_nothing(
    kind: Kind, declined: afnb.Cassette
) -> None:
    e = afnb.what_if(declined, afnb.Resample(2), **options(kind))
    assert (e.verdict, e.label) == ("unverified", "Unverified"), e.to_text()
    reasons = {result.reason for result in e.results if result.role == "patch"}
    assert reasons == {"write_refused"}
    assert "--allow-tools refund" in str(e.results[0].detail)
    assert kind.done() == []


@pytest.mark.parametrize("way", ["allowed", "stubbed"])
def test_a_write_that_is_allowed_or_has_a_stand_in(kind: Kind, declined: afnb.Cassette, way: str) -> None:
    more: dict[str, Any] = {"allow_tools": ["refund"]}
    if way == "stubbed":
        more = {"agent": kind.agent(STUB="1")}
    e = afnb.what_if(declined, afnb.Resample(2), **options(kind, **more))
    assert (e.verdict, e.label) == ("recovered", "verified"), e.to_text()
    patched = [result for result in e.results if result.role == "patch"]
    if way == "allowed":
        assert kind.done() == ["refund 8841 129"] * len(patched)
        assert [result.report.tools_live for result in patched] == [1] * len(patched)
    else:
        assert kind.done() == []
        assert all(
            "pretended" in str(r.run and (r.run.answer or "")) + str(r.run and r.run.stdout) for r in patched
        )


def test_the_pre_flight_knows_wrapped_tools(declined: afnb.Cassette, kind: Kind) -> None:
    with FakeProvider(policy) as provider:
        good = afnb.record(kind.agent(), provider.url, Path(kind.world.parent) / "good.json").cassette
    kind.world.unlink()
    found = afnb.attribute(declined, good, **options(kind, allow_tools=["refund"]))
    assert (found.verdict, found.label, found.origination) == ("recovered", "verified", (2,)), found.to_text()
    fates = {tool.name: tool.fate for tool in found.preflight.tools}
    assert fates == {
        "look_up": "served up to the branch point, runs after it (read)",
        "refund": "served up to the branch point, runs after it (write)",
    }
    assert set(kind.done()) == {"refund 8841 129"}, "what was read before the branch point was not read again"
