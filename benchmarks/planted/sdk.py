"""Planted agents as subprocesses on the official SDKs: recorded through the proxy, then attributed."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import afnb
from afnb.core.cassette import Cassette
from afnb.core.jsonvalue import dumps
from afnb.io.simulated import SimulatedUpstream
from afnb.testing.planted import Plan, PlantedModel, Turn, succeeded
from benchmarks.planted.measure import Row, now, timed

HERE = Path(__file__).resolve().parent / "agents"
TURNS = (Turn(), Turn("style"), Turn("cause", 0.9), Turn("echo"))


@dataclass(frozen=True)
class Sdk:
    """One SDK: its script, the variable its base URL is read from, the shape it speaks."""

    script: str
    base_url_env: str
    shape: str

    @property
    def plan(self) -> Plan:
        """A clean cause among three differences."""
        return Plan(TURNS, clean=1.0, faulty=0.0, shape=self.shape, paraphrase=True)

    @property
    def agent(self) -> afnb.Command:
        """The command."""
        plan = dumps(asdict(self.plan))
        return afnb.Command(
            ["python", str(HERE / self.script)], base_url_env=self.base_url_env, env={"PLAN": plan}
        )

    def record(self, script: str, folder: Path) -> Cassette:
        """Record one run that says what the script says, through the proxy."""
        model = SimulatedUpstream(PlantedModel(self.plan, script), seed=len(script))
        done = afnb.record(self.agent, model, folder / f"{script}.json")
        if done.agent.status != "finished":
            raise RuntimeError(f"{self.script}: {done.agent.error}")
        return done.cassette


AGENTS = {
    "openai": Sdk("openai_agent.py", "OPENAI_BASE_URL", "openai.chat"),
    "anthropic": Sdk("anthropic_agent.py", "ANTHROPIC_BASE_URL", "anthropic.messages"),
}


def rows(name: str, *, n_jobs: int = 2) -> list[Row]:
    """Record both runs, ask ``what_if`` about the cause, attribute the failing one."""
    sdk = AGENTS[name]
    with tempfile.TemporaryDirectory() as folder:
        bad, good = (
            sdk.record(script, Path(folder)) for script in (sdk.plan.bad_script, sdk.plan.good_script)
        )
    options = {
        "agent": sdk.agent,
        "upstream": SimulatedUpstream(PlantedModel(sdk.plan), seed=7),
        "oracle": succeeded,
        "n_jobs": n_jobs,
        "progress": False,
    }
    clock = now()
    asked = afnb.what_if(bad, afnb.Graft(2), good=good, **options)
    found = afnb.attribute(bad, good, **options)
    return [
        {
            "sdk": name,
            "what_if": asked.verdict,
            "label": asked.label,
            "attribute": found.verdict,
            "attribute_label": found.label,
            "named": list(found.origination),
            "planted": [2],
            "exact": found.origination == (2,),
            "replays": asked.decision.replays + found.replays_used,
            "live_calls": asked.live_calls_used + found.live_calls_used,
            **timed(clock),
        }
    ]
