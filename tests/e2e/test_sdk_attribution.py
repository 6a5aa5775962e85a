"""The whole way with real SDK agents: record through the proxy, attribute by subprocess and by function."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.steps import run_from_cassette
from afnb.experiments.bundled import refund_model
from afnb.testing.provider import FakeProvider

AGENTS = Path(__file__).parent / "agents"
KEY = "sk-secret-0123456789-never-on-disk"


@dataclass(frozen=True)
class Sdk:
    name: str
    script: str
    base_url_env: str
    key_env: str

    def command(self) -> afnb.Command:
        argv = ["python", str(AGENTS / self.script)]
        return afnb.Command(argv, base_url_env=self.base_url_env, timeout_s=60, env={self.key_env: KEY})


SDKS = [
    Sdk("openai", "openai_agent.py", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    Sdk("anthropic", "anthropic_agent.py", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
]


def paid(run: afnb.Run) -> bool:
    said = f"{run.answer} {run.stdout or ''}"
    return "Refund of $129.00 issued" in said


@pytest.fixture(scope="module", params=SDKS, ids=lambda sdk: sdk.name)
def recorded(request: Any, tmp_path_factory: Any) -> Iterator[tuple[Sdk, Path, Path]]:
    """A bad and a good run of the SDK's agent, recorded through the proxy from a local provider."""
    sdk: Sdk = request.param
    pytest.importorskip(sdk.name)
    folder = tmp_path_factory.mktemp(sdk.name)
    bad = good = None
    for seed in range(60):
        with FakeProvider(refund_model, seed=seed) as provider:
            out = folder / f"{seed}.json"
            done = afnb.record(sdk.command(), provider.url, out)
        assert done.agent.status == "finished", done.agent
        steps = run_from_cassette(done.cassette).steps
        wrong = len(steps) == 7 and "small extras" in steps[4].outputs["text"]
        if wrong and bad is None:
            bad = out
        elif len(steps) == 9 and good is None:
            good = out
        if bad and good:
            yield sdk, bad, good
            return
    raise AssertionError("no seed gave both a bad and a good run")


def test_no_credential_reaches_disk(recorded: tuple[Sdk, Path, Path]) -> None:
    _sdk, bad, _good = recorded
    for path in bad.parent.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


def test_planted_step_is_verified_by_subprocess(recorded: tuple[Sdk, Path, Path]) -> None:
    sdk, bad, good = recorded
    with FakeProvider(refund_model, seed=1000) as provider:
        found = afnb.attribute(
            afnb.load(bad),
            afnb.load(good),
            agent=sdk.command(),
            upstream=provider.url,
            oracle=paid,
            allow_tools=["lookup_order", "customer_history", "refund_policy", "issue_refund"],
            n_jobs=2,
            progress=False,
        )
        live = list(provider.requests)
    assert (found.verdict, found.label, found.origination) == ("recovered", "verified", (4,)), found.to_text()
    assert all(check.ok for check in found.fidelity)
    # the provider is asked for nothing that was said before the branch point
    prefix = {exchange.request.body for exchange in afnb.load(bad).exchanges[:3]}
    assert live
    assert not [request for request in live if request.body in prefix]


def test_a_step_that_changed_nothing_is_not_recovered(recorded: tuple[Sdk, Path, Path]) -> None:
    sdk, bad, _good = recorded
    with FakeProvider(refund_model, seed=2000) as provider:
        e = afnb.what_if(
            afnb.load(bad),
            afnb.Edit(6, "Declined: order 8841 came back too late, no refund is due."),
            agent=sdk.command(),
            upstream=provider.url,
            oracle=paid,
            allow_tools=["lookup_order", "customer_history", "refund_policy", "issue_refund"],
            n_jobs=2,
            progress=False,
        )
    assert (e.verdict, e.label) == ("not_recovered", "verified"), e.to_text()


def test_the_same_agent_as_a_function(recorded: tuple[Sdk, Path, Path], monkeypatch: Any) -> None:
    sdk, bad, good = recorded
    monkeypatch.syspath_prepend(str(AGENTS))

    def agent(ctx: Any) -> str:
        module = __import__(sdk.script.removesuffix(".py"))
        with ctx.http_client("httpx2") as http:
            if sdk.name == "openai":
                client = module.OpenAI(api_key=KEY, http_client=http, max_retries=0)
            else:
                client = module.Anthropic(api_key=KEY, http_client=http, max_retries=0)
            return str(module.run(client))

    with FakeProvider(refund_model, seed=3000) as provider:
        found = afnb.attribute(
            afnb.load(bad),
            afnb.load(good),
            agent=agent,
            upstream=provider.url,
            oracle=paid,
            allow_tools=["lookup_order", "customer_history", "refund_policy", "issue_refund"],
            n_jobs=4,
            progress=False,
        )
    assert (found.verdict, found.label, found.origination) == ("recovered", "verified", (4,)), found.to_text()
    assert "openai" in sys.modules or "anthropic" in sys.modules
