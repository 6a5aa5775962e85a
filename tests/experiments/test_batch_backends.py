"""The same batch on every backend, and what breaks around one: rows with reasons, or one sentence."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.errors import InputError, ParameterError, UpstreamError
from afnb.experiments import batch_folder
from afnb.io.answers import error

sys.path.insert(0, str(Path(__file__).parent))
from many import AGENT, Case, batch, folder, pair
from test_batch import same_tables, states

CASES = [Case(0), Case(1, "skip"), Case(2, "same")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("cases"), CASES)


@pytest.fixture
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    here = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with here, distributed.Client(here) as client:
        yield client


def test_dask_gives_the_same_tables(place: Path, cluster: Any, tmp_path: Path) -> None:
    same_tables(batch(place), batch(place, backend="dask", ledger=tmp_path / "out"))


@pytest.mark.skipif(not os.environ.get("AFNB_TEST_RAY"), reason="set AFNB_TEST_RAY=1 where ray is installed")
def test_ray_gives_the_same_tables(place: Path, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        same_tables(batch(place), batch(place, backend="ray", ledger=tmp_path / "out"))
    finally:
        ray.shutdown()


def test_recordings_in_memory_reach_processes_as_files(tmp_path: Path) -> None:
    given = [{"name": f"p{i}", "bad": bad, "good": good} for i, (bad, good) in enumerate(map(pair, CASES))]
    threads = batch(given)
    same_tables(threads, batch(given, backend="loky", ledger=tmp_path / "out"))
    assert len(list((tmp_path / "out" / "recordings").iterdir())) == 6


def test_what_cannot_be_sent_is_named_before_anything_is_spent(place: Path) -> None:
    import threading

    lock = threading.Lock()

    def agent(ctx: Any) -> str:
        with lock:
            return AGENT(ctx)

    with pytest.raises(ParameterError, match="closed-over variable 'lock'"):
        batch(place, agent=agent, backend="loky")


def test_a_full_disk_ends_it_with_one_sentence_and_loses_nothing(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = batch_folder.write_table, []

    def full(table: Any, path: Path) -> None:
        if len(written) >= 5:
            raise OSError(28, "No space left on device")
        written.append(path)
        real(table, path)

    monkeypatch.setattr(batch_folder, "write_table", full)
    with pytest.raises(InputError, match="No space left on device; what was finished is kept"):
        batch(place, ledger=tmp_path / "out", n_jobs=1)
    monkeypatch.undo()
    assert not list((tmp_path / "out").glob("**/*.part"))
    same_tables(batch(place), batch(place, ledger=tmp_path / "out"))


def test_a_torn_part_is_removed(place: Path, tmp_path: Path) -> None:
    batch(place, ledger=tmp_path / "out")
    torn = tmp_path / "out" / "parts" / "x.pairs.parquet.part"
    torn.write_bytes(b"PAR1 half")
    batch(place, ledger=tmp_path / "out")
    assert not torn.exists()


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pair that no graft of the last answer can decide: every replay of it asks the provider."""
    return folder(tmp_path_factory.mktemp("lively"), [Case(0, "style", right=0.0)])


def test_a_provider_that_refuses_gives_rows_with_the_reason(lively: Path) -> None:
    found = batch(lively, upstream=lambda request: error(request, 429, "slow down"))
    assert states(found) == {"case-0": "unverified"}
    assert "provider_error" in found.reasons["case-0"]
    assert set(found.replays.column("reason").to_pylist()) == {"provider_error"}


def test_a_provider_that_is_down_gives_rows_with_the_reason(lively: Path) -> None:
    def down(_request: Any) -> str:
        raise UpstreamError("connection refused")

    found = batch(lively, upstream=down)
    assert states(found) == {"case-0": "unverified"}
    assert "provider_unreachable" in found.reasons["case-0"]


def test_a_hanging_agent_is_a_reason(lively: Path) -> None:
    def hanging(ctx: Any) -> str:
        text = AGENT(ctx)
        if text.startswith("Live"):
            time.sleep(5)
        return text

    rule = afnb.SequentialConsensus(max_replays=4)
    agent = afnb.Function(hanging, timeout_s=0.6)
    found = batch(lively, agent=agent, upstream=lambda request: "Live.", consensus=rule, n_jobs=4)
    assert states(found) == {"case-0": "unverified"}
    assert set(found.replays.column("reason").to_pylist()) == {"timeout"}


def test_lost_replays_are_counted_apart(lively: Path) -> None:
    """Rates stand beside what was lost; a provider's fault is no failure of the agent."""
    calls = {"n": 0}

    def flaky(request: Any) -> Any:
        calls["n"] += 1
        return error(request, 529, "overloaded") if calls["n"] % 2 else "Paid: done."

    found = batch(lively, upstream=flaky, n_jobs=1)
    row = found.rows()[0]
    assert row["patch_lost"] + row["control_lost"] > 0
    used = found.replays.to_pylist()
    lost = [replay for replay in used if replay["recovery"] == "inconclusive"]
    assert len(lost) == row["patch_lost"] + row["control_lost"]
    assert all(replay["reason"] for replay in lost)
    assert row["patch_total"] + row["control_total"] + len(lost) == len(used)
    assert row["state"] != "repair"


def test_output_of_parallel_replays_is_kept_apart(tmp_path: Path) -> None:
    """What a command prints belongs to its own replay: nothing interleaved."""
    from afnb.experiments.ledger import Ledger
    from afnb.testing.provider import FakeProvider

    program = tmp_path / "agent.py"
    program.write_text(
        "import json, os, urllib.request\n"
        "base = os.environ['OPENAI_BASE_URL']\n"
        "messages = []\n"
        "for ask in ('first', 'second'):\n"
        "    messages.append({'role': 'user', 'content': ask})\n"
        "    body = json.dumps({'model': 'm', 'messages': messages}).encode()\n"
        "    head = {'content-type': 'application/json'}\n"
        "    asked = urllib.request.Request(base + '/chat/completions', body, head)\n"
        "    messages.append(json.load(urllib.request.urlopen(asked))['choices'][0]['message'])\n"
        "    for _ in range(20):\n"
        "        print(os.environ['AFNB_SEED'], flush=True)\n"
        "print(messages[-1]['content'])\n",
        encoding="utf-8",
    )
    agent = afnb.Command([sys.executable, program])
    for name, word in (("bad", "a wrong turn into the woods"), ("good", "straight along the main road")):

        def say(talk: Any, _rng: Any, word: str = word) -> str:
            return word if talk.turn == 0 else f"arrived by {word}"

        with FakeProvider(say) as provider:
            afnb.record(agent, provider.url, tmp_path / f"{name}.json")

    def live(talk: Any, _rng: Any) -> str:
        return "arrived by main road" if talk.says("main road") else "lost in the woods"

    with FakeProvider(live) as provider:
        found = batch(
            [(str(tmp_path / "bad.json"), str(tmp_path / "good.json"))],
            agent=agent,
            upstream=provider.url,
            oracle=lambda run: "main road" in str(run.answer),
            ledger=tmp_path / "out",
            n_jobs=4,
        )
    assert found.tally.repair == 1
    ledger = Ledger(tmp_path / "out" / "replays")
    import json

    lines = [
        json.loads(line) for path in ledger.folder.glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    assert len(lines) >= 6
    for line in lines:
        printed = line["said"]["stdout"].split()[:40]
        assert set(printed) == {str(line["key"]["seed"])}
