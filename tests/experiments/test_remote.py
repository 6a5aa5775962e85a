"""Replays in worker processes: the same verdicts, recordings sent once, one budget, deaths are losses."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.errors import ParameterError
from afnb.experiments.budget import Budget
from afnb.experiments.remote import Missing, Remote, RemoteTask, _settings
from afnb.experiments.replay import Job
from afnb.experiments.results import Experiment

sys.path.insert(0, str(Path(__file__).parent))
from many import AGENT, TOOLS, Case, paid, pair, upstream


def attribution(**options: Any) -> afnb.Attribution:
    bad, good = pair(Case(0, right=0.9, wrong=0.1))
    settings: dict[str, Any] = {
        "agent": AGENT,
        "upstream": upstream(),
        "oracle": paid,
        "allow_tools": list(TOOLS),
        "progress": False,
        "n_jobs": 2,
        **options,
    }
    return afnb.attribute(bad, good, **settings)


def used(e: Experiment) -> list[Any]:
    drop = ("wall_s", "worker")
    return [{k: v for k, v in row.items() if k not in drop} for row in e.replay_rows() if row["used"]]


def test_processes_give_the_same_replays_as_threads() -> None:
    threads, processes = attribution(), attribution(backend="loky")
    assert threads.row()["origination"] == processes.row()["origination"] == [4]
    assert [used(e) for e in threads.experiments_run] == [used(e) for e in processes.experiments_run]


def test_one_budget_over_all_processes() -> None:
    found = attribution(backend="loky", budget=Budget(live_calls=7), n_jobs=3)
    assert found.label == "Unverified"
    assert "budget of 7 live calls spent" in found.reason
    assert found.live_calls_spent <= 7


class Deadly:
    """The usual agent, but one of its replays kills the process it runs in: always, or the first time."""

    def __init__(self, seed: int, once: Path | None = None) -> None:
        self.parent = os.getpid()
        self.seed = seed
        self.once = once

    def __call__(self, ctx: Any) -> str:
        if ctx.seed == self.seed and os.getpid() != self.parent and not (self.once and self.once.exists()):
            if self.once:
                self.once.touch()
            os._exit(9)
        return AGENT(ctx)


def test_a_replay_that_kills_its_worker_is_one_lost_replay() -> None:
    target = next(r for r in attribution().experiments_run[0].results if r.role == "patch" and r.index == 1)
    found = attribution(backend="loky", agent=Deadly(target.seed))
    lost = [r for e in found.experiments_run for r in e.results if r.reason == "worker_died"]
    assert {(r.role, r.index, r.lost, r.seed) for r in lost} == {("patch", 1, "after", target.seed)}
    assert found.experiments_run[0].patch.lost == 1
    assert sum(r.reason is None for r in found.experiments_run[0].results) >= 5


def test_a_worker_that_dies_of_something_else_costs_nothing(tmp_path: Path) -> None:
    threads = attribution()
    target = threads.experiments_run[0].results[1].seed
    found = attribution(backend="loky", agent=Deadly(target, tmp_path / "died"))
    assert (tmp_path / "died").exists()
    assert [used(e) for e in found.experiments_run] == [used(e) for e in threads.experiments_run]


class Provider(Exception):
    """As SDKs have them: it cannot be unpickled."""

    def __init__(self, message: str, *, response: object) -> None:
        super().__init__(message)
        self.response = response


def raising(ctx: Any) -> str:
    text = AGENT(ctx)
    if ctx.seed % 3 == 0 and text.startswith("Paid"):
        raise Provider("529 overloaded", response=object())
    return text


def test_an_exception_that_cannot_be_sent_is_plain_data() -> None:
    threads, processes = attribution(agent=raising), attribution(agent=raising, backend="loky")
    assert [used(e) for e in threads.experiments_run] == [used(e) for e in processes.experiments_run]
    assert processes.experiments_run[0].results


def test_what_does_not_pickle_is_named() -> None:
    import threading

    lock = threading.Lock()

    def agent(ctx: Any) -> str:
        with lock:
            return AGENT(ctx)

    with pytest.raises(ParameterError, match=r"closed-over variable 'lock' \(lock\)"):
        attribution(agent=agent, backend="loky")


class Setting:
    """Says which process it is, and is large."""

    recording_id = "r"

    def __init__(self) -> None:
        self.ballast = os.urandom(1 << 20)

    def run(self, job: Job, gate: Any, stop: Any) -> Any:
        return gate(None)


def test_a_setting_is_sent_once_and_known_by_its_content(tmp_path: Path) -> None:
    remote = Remote(Setting(), "loky")  # type: ignore[arg-type]
    try:
        purse = str(tmp_path / "purse")
        task = RemoteTask(remote.digest, str(remote.path), purse, Budget(live_calls=1), None)
        assert len(pickle.dumps(task)) < 2000 < len(remote.content)
        job = Job(None, "patch", 0, 1)
        _settings.clear()
        assert task(job) is None
        assert task(job) == "budget: budget of 1 live calls spent"
        remote.path.unlink()
        assert RemoteTask(remote.digest, str(remote.path), purse, Budget(), None).setting() is not None
        _settings.clear()
        assert isinstance(RemoteTask(remote.digest, str(remote.path), purse, Budget(), None)(job), Missing)
        whole = RemoteTask(remote.digest, "nowhere", str(tmp_path / "none" / "p"), Budget(), remote.content)
        assert whole(job) is None
    finally:
        remote.close()
        _settings.clear()
    assert not remote.folder.exists()


def test_a_changed_file_is_not_trusted(tmp_path: Path) -> None:
    remote = Remote(Setting(), "loky")  # type: ignore[arg-type]
    remote.path.write_bytes(pickle.dumps("something else"))
    task = RemoteTask(remote.digest, str(remote.path), str(tmp_path / "purse"), Budget(), None)
    assert task.setting() is None
    remote.close()
