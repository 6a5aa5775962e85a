"""Killed, interrupted and resumed: the same tables, nothing finished asked twice, nothing left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.errors import InputError, ParameterError
from afnb.experiments.batch_folder import BatchFolder
from afnb.experiments.budget import Budget

sys.path.insert(0, str(Path(__file__).parent))
from many import Case, batch, folder
from test_batch import same_tables, states

PROGRAM = Path(__file__).with_name("batch_program.py")
CASES = [
    Case(0, right=0.8, wrong=0.3),
    Case(1, "skip", right=0.8, wrong=0.2),
    Case(2, "style", right=0.0),
    Case(3, turns=6, right=0.9, wrong=0.2),
    Case(4, "same"),
]


def start(place: Path, out: Path, calls: Path, *options: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(place), str(out), str(calls), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str], timeout: float = 120) -> dict[str, Any]:
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("cases"), CASES)


@pytest.fixture(scope="module")
def whole(place: Path, tmp_path_factory: pytest.TempPathFactory) -> afnb.Batch:
    """The batch as it comes out where nothing disturbs it."""
    root = tmp_path_factory.mktemp("whole")
    ended(start(place, root / "out", root / "calls"))
    return afnb.read_batch(root / "out")


def asked(calls: Path) -> Counter[tuple[Any, ...]]:
    """How often the provider was asked each call: (seed, arm, index, call)."""
    lines = calls.read_text().splitlines() if calls.exists() else []
    return Counter(tuple(json.loads(line)) for line in lines)


def in_ledger(out: Path) -> set[tuple[Any, ...]]:
    """(seed, arm, index) of the finished replays that are on disk."""
    table = afnb.Ledger(out / "replays").table
    columns = (table.column(name).to_pylist() for name in ("seed", "arm", "index"))
    return set(zip(*columns, strict=True))


def killed_and_resumed(place: Path, root: Path, moments: list[float], *options: str) -> afnb.Batch:
    out, calls = root / "out", root / "calls"
    finished: dict[tuple[Any, ...], int] = {}
    for moment in moments:
        process = start(place, out, calls, "--latency", "0.02", *options)
        time.sleep(moment)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        done, counts = in_ledger(out), asked(calls)
        finished |= {
            call: count for call, count in counts.items() if call[:3] in done and call not in finished
        }
    ended(start(place, out, calls, *options))
    counts = asked(calls)
    assert {call: counts[call] for call in finished} == finished
    assert not list(out.glob("**/*.part"))
    return afnb.read_batch(out)


def test_killed_at_any_moment_it_goes_on(place: Path, whole: afnb.Batch, tmp_path: Path) -> None:
    draw = random.Random(5)
    found = killed_and_resumed(place, tmp_path, [draw.uniform(0.6, 2.5) for _ in range(3)])
    same_tables(whole, found)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_twenty_moments(place: Path, whole: afnb.Batch, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    backend = ("--backend", "loky") if seed % 2 else ()
    found = killed_and_resumed(place, tmp_path, [draw.uniform(0.3, 4.0) for _ in range(5)], *backend)
    same_tables(whole, found)


def test_processes_come_to_the_same(place: Path, whole: afnb.Batch, tmp_path: Path) -> None:
    ended(start(place, tmp_path / "out", tmp_path / "calls", "--backend", "loky"))
    same_tables(whole, afnb.read_batch(tmp_path / "out"))


def interrupted(place: Path, tmp_path: Path, presses: int, *options: str) -> dict[str, Any]:
    process = start(place, tmp_path / "out", tmp_path / "calls", "--latency", "0.05", *options)
    deadline = time.monotonic() + 60
    while not (tmp_path / "calls").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    for press in range(presses):
        time.sleep(0.3 if press else 0.1)
        process.send_signal(signal.SIGINT)
    return ended(process)


@pytest.mark.parametrize("n_jobs", ["1", "3"])
def test_ctrl_c_once_keeps_what_finishes(place: Path, whole: afnb.Batch, tmp_path: Path, n_jobs: str) -> None:
    told = interrupted(place, tmp_path, 1, "--n-jobs", n_jobs)
    assert told["stopped"] == "interrupted"
    assert "open" in told["states"].values()
    first = afnb.read_batch(tmp_path / "out")
    assert first.stopped == "interrupted"
    assert "no finished live call is repeated" in first.to_text().replace("\n", " ")
    ended(start(place, tmp_path / "out", tmp_path / "calls"))
    same_tables(whole, afnb.read_batch(tmp_path / "out"))


def test_ctrl_c_twice_ends_what_runs(place: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    told = interrupted(place, tmp_path, 2, "--hang", "--n-jobs", "2")
    assert told["stopped"] == "interrupted"
    assert time.monotonic() - began < 50


def test_a_second_run_costs_nothing(place: Path, whole: afnb.Batch, tmp_path: Path) -> None:
    ended(start(place, tmp_path / "out", tmp_path / "calls"))
    calls = (tmp_path / "calls").read_text()
    ended(start(place, tmp_path / "out", tmp_path / "calls"))
    assert (tmp_path / "calls").read_text() == calls
    same_tables(whole, afnb.read_batch(tmp_path / "out"))


def test_a_broken_pair_is_tried_again_once_it_is_mended(tmp_path: Path) -> None:
    place = folder(tmp_path / "cases", [Case(0), Case(1)])
    torn = place / "case-1" / "bad.json"
    text = torn.read_text()
    torn.write_text("{")
    assert states(batch(place, ledger=tmp_path / "out")) == {"case-0": "repair", "case-1": "error"}
    torn.write_text(text)
    assert states(batch(place, ledger=tmp_path / "out")) == {"case-0": "repair", "case-1": "repair"}


def test_pairs_may_be_added_and_not_be_lost(tmp_path: Path) -> None:
    place = folder(tmp_path / "cases", [Case(0)])
    batch(place, ledger=tmp_path / "out")
    folder(place, [Case(1)])
    assert states(batch(place, ledger=tmp_path / "out")) == {"case-0": "repair", "case-1": "repair"}
    with pytest.raises(ParameterError, match="1 pairs that are not among those given, such as 'case-1'"):
        batch([{"name": "case-0", "bad": place / "case-0/bad.json"}], ledger=tmp_path / "out")


def test_a_folder_holds_one_batch(tmp_path: Path) -> None:
    place = folder(tmp_path / "cases", [Case(0)])
    batch(place, ledger=tmp_path / "out")
    with pytest.raises(ParameterError, match=r"another seed \(0, now 1\)"):
        batch(place, ledger=tmp_path / "out", seed=1)
    with pytest.raises(ParameterError, match="another oracle"):
        batch(place, ledger=tmp_path / "out", oracle=afnb.AnswerEquals("x"))
    with pytest.raises(ParameterError, match="another rule"):
        batch(place, ledger=tmp_path / "out", consensus=afnb.SequentialConsensus(alpha=0.01))
    batch(place, ledger=tmp_path / "out", n_jobs=1, budget=Budget(live_calls=7))


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    held = BatchFolder(tmp_path)
    held.hold()
    with pytest.raises(InputError, match="another process is working on this batch"):
        batch([], ledger=tmp_path)
    held.release()
    assert batch([], ledger=tmp_path).pairs.num_rows == 0


def test_a_changed_recording_is_attributed_anew(tmp_path: Path) -> None:
    place = folder(tmp_path / "cases", [Case(0)])
    first = batch(place, ledger=tmp_path / "out")
    other = folder(tmp_path / "others", [Case(0, "skip")])
    for name in ("bad.json", "good.json"):
        (other / "case-0" / name).replace(place / "case-0" / name)
    second = batch(place, ledger=tmp_path / "out")
    assert first.rows()[0]["deed"] != second.rows()[0]["deed"]
    assert second.pairs.num_rows == 1
    assert set(second.replays.column("pair").to_pylist()) == {"case-0"}


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile
    import threading

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    before = threading.active_count()
    batch(folder(tmp_path / "cases", [Case(0)]))
    assert list(scratch.iterdir()) == []
    assert threading.active_count() <= before
