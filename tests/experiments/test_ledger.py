"""The ledger: a killed attribution goes on where it stopped, and nothing changed ever meets an old line."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.errors import InputError, ParameterError
from afnb.experiments.ledger import Ledger
from afnb.io.simulated import SimulatedUpstream
from afnb.tables.schemas import schema

sys.path.insert(0, str(Path(__file__).parent))
import killed
from planted import agent, experiment, policy, recording, right

SCRIPT = Path(killed.__file__)


@pytest.fixture(scope="module")
def bad() -> afnb.Cassette:
    return recording()


def lines(folder: Path) -> list[bytes]:
    return [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()]


def rows(e: afnb.Experiment) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in ("wall_s", "worker")} for row in e.replay_rows()]


# --- killed and resumed ----------------------------------------------------------------------------


def finished(folder: Path) -> set[tuple[int, str, int]]:
    """Seed, arm and index of every replay that the ledger holds."""
    return {(r["seed"], r["arm"], r["index"]) for r in Ledger(folder / "ledger").table.to_pylist()}


def noted(folder: Path) -> list[list[Any]]:
    """The live calls that were answered, whoever died then; a last line may have broken off."""
    path = folder / "calls"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


@dataclass(frozen=True)
class Killed:
    """One attribution that was killed again and again, and ended at last."""

    held: list[int]
    """Replays that were finished at each kill."""
    torn: int
    """Kills that hit while a replay was under way: some of its calls were answered, and it is not kept."""
    after: int
    """Live calls after the last kill."""
    told: dict[str, Any]


def kill_and_go_on(folder: Path, kills: int, seed: int, calls: int, hard: bool = True) -> Killed:
    """Kill the attribution at random moments, let it end, and check that nothing finished was repeated.

    A moment is a number of further live calls, so that the kills spread over ``calls``, and a few
    milliseconds.
    """
    dice = random.Random(seed)
    starts: list[tuple[int, set[tuple[int, str, int]]]] = []
    held, torn = [], 0
    argv = [sys.executable, str(SCRIPT), str(folder), str(seed), "0.004", "1" if hard else "0"]
    while True:
        begun = len(noted(folder))
        starts.append((begun, finished(folder)))
        process = subprocess.Popen(argv)
        try:
            if len(held) < kills:
                target = begun + dice.randint(1, max(1, 2 * calls // (kills + 1) - 1))
                while process.poll() is None and len(noted(folder)) < target:
                    time.sleep(0.002)
                time.sleep(dice.uniform(0.0, 0.02))
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                    assert process.wait() == -signal.SIGKILL
                    assert not (folder / "told.json").exists()
                    done = finished(folder)
                    held.append(len(done))
                    torn += any((s, arm, index) not in done for s, arm, index, _ in noted(folder)[begun:])
                    continue
            assert process.wait() == 0
            break
        finally:
            process.kill()
            process.wait()
    every = noted(folder)
    for start, done in starts:
        again = {(s, arm, index) for s, arm, index, _ in every[start:]}
        assert again & done == set(), "a finished live call was repeated"
    return Killed(held, torn, len(every) - starts[-1][0], json.loads((folder / "told.json").read_text()))


def unbroken(folder: Path, seed: int, hard: bool = True) -> tuple[dict[str, Any], int]:
    """What the same attribution comes to if nobody kills it, and its live calls."""
    killed.HARD = hard
    try:
        alone = killed.attribution(folder, None, folder / "other-calls", seed)
    finally:
        killed.HARD = False
    calls = len((folder / "other-calls").read_text().splitlines())
    return dict(json.loads(json.dumps(killed.told(alone)))), calls


def test_an_attribution_of_two_hundred_replays_killed_three_times_ends_as_an_unbroken_one(
    tmp_path: Path,
) -> None:
    whole, calls = unbroken(tmp_path, 3)
    assert len({(row["seed"], row["arm"]) for row in whole["used"]}) >= 200
    assert whole["verdict"][0] == "recovered"
    found = kill_and_go_on(tmp_path, 3, 3, calls)
    assert found.told == whole
    assert len(found.held) == 3
    assert 0 < found.held[-1] < len(whole["used"]), "killed before the first replay, or after the last"
    assert found.after > 0, "nothing was left to do after the last kill"


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_an_attribution_of_two_hundred_replays_killed_a_hundred_times(tmp_path: Path) -> None:
    found: list[Killed] = []
    seed = 0
    while sum(len(one.held) for one in found) < 100:
        folder = tmp_path / str(seed)
        folder.mkdir()
        whole, calls = unbroken(folder, seed)
        if len(whole["used"]) >= 200:
            one = kill_and_go_on(folder, 10, seed, calls)
            assert one.told == whole, seed
            found.append(one)
        seed += 1
    assert sum(one.torn for one in found) >= 25, "the kills hit between replays"
    assert sum(one.after > 0 for one in found) >= len(found) / 2
    moments = [held for one in found for held in one.held]
    assert len(set(moments)) >= 30, "the kills did not spread over the attributions"


def test_what_was_finished_is_taken_from_the_ledger(tmp_path: Path, bad: afnb.Cassette) -> None:
    first = experiment(0.8, 0.2, 3, recording=bad, ledger=tmp_path / "l")
    held = lines(tmp_path / "l")
    assert len(held) == first.replays_spent
    again = experiment(0.8, 0.2, 3, recording=bad, ledger=tmp_path / "l", n_jobs=4)
    assert lines(tmp_path / "l")[: len(held)] == held
    used = [row for row in rows(again) if row["used"]]
    assert used == [row for row in rows(first) if row["used"]]
    assert (again.verdict, again.label, again.reason) == (first.verdict, first.label, first.reason)
    assert again.replays_reused >= first.decision.replays
    assert (first.replays_reused, "from the ledger" in first.to_text()) == (0, False)
    assert "came from the ledger" in again.to_text()
    assert again.live_calls_spent >= first.live_calls_used
    for one, other in zip(first.results, again.results, strict=False):
        assert one.recording == replace(other.recording, source=None)
        assert one.run == other.run


def test_an_event_log_s_replays_are_kept_too(tmp_path: Path) -> None:
    from test_log_attribution import logged, model, options, recorded

    log = recorded("accessories")
    change = afnb.Edit(0, "certainly electronics")
    first = afnb.what_if(log, change, **options(ledger=tmp_path))
    calls: list[Any] = []

    def counted(talk: Any, rng: Any) -> Any:
        calls.append(talk)
        return model()(talk, rng)

    assert first.replays_reused == 0
    again = afnb.what_if(log, change, **options(ledger=tmp_path))
    assert again.replays_reused == again.replays_spent
    assert [r.run.answer for r in first.results] == [r.run.answer for r in again.results]
    assert [list(r.recording) for r in first.results] == [list(r.recording) for r in again.results]
    other = logged(model=None)
    assert other.hash == logged().hash
    assert calls == []


def test_locate_goes_on_too(tmp_path: Path) -> None:
    import chain
    from chain import settings

    tape = chain.recording(5, 3)
    more = settings(5, 3, 0.9, 0.1)
    cut = afnb.locate(tape, ledger=tmp_path, **{**more, "budget": afnb.Budget(live_calls=20)})
    assert cut.label == "Unverified"
    done = afnb.locate(tape, ledger=tmp_path, **more)
    assert done.replays_reused > 0
    fresh = afnb.locate(tape, **more)
    assert (done.kind, done.step, done.credible, done.replays_used) == (
        fresh.kind,
        fresh.step,
        fresh.credible,
        fresh.replays_used,
    )


def test_a_larger_budget_goes_on_where_the_smaller_one_ended(tmp_path: Path, bad: afnb.Cassette) -> None:
    short = experiment(0.6, 0.3, recording=bad, ledger=tmp_path, budget=afnb.Budget(live_calls=5))
    assert short.label == "Unverified"
    kept = len(lines(tmp_path))
    same = experiment(0.6, 0.3, recording=bad, ledger=tmp_path, budget=afnb.Budget(live_calls=5))
    assert "5 live calls spent" in same.reason
    assert len(lines(tmp_path)) == kept, "the limit holds over both sessions together"
    more = experiment(0.6, 0.3, recording=bad, ledger=tmp_path)
    assert more.replays_reused == kept
    assert more.verdict == experiment(0.6, 0.3, recording=bad).verdict


def test_a_replay_cut_short_by_the_budget_is_no_finished_one(tmp_path: Path) -> None:
    import chain

    cut = afnb.what_if(
        chain.recording(8, 2),
        afnb.Edit(2, "chose well"),
        **chain.settings(8, 2, 0.9, 0.1, budget=afnb.Budget(live_calls=7)),
        ledger=tmp_path,
    )
    assert any(result.reason == "budget" for result in cut.results)
    assert len(lines(tmp_path)) == sum(result.reason != "budget" for result in cut.results)


# --- nothing that changed is reused ----------------------------------------------------------------


def other_agent(ctx: Any) -> str:
    """The same requests, another program."""
    return str(agent(ctx))


def wrong(run: afnb.Run) -> bool:
    return not right(run)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"agent": other_agent},
        {"agent": afnb.Function(agent, timeout_s=30)},
        {"oracle": wrong},
        {"upstream": SimulatedUpstream(policy(0.9, 0.1))},
        {"upstream": SimulatedUpstream(policy(0.9, 0.2), seed=1)},
        {"matching": afnb.Matching().off("numbers")},
        {"allow_tools": ["lookup"]},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_changed_setting_never_reuses(tmp_path: Path, bad: afnb.Cassette, change: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"seed": 0, "recording": bad, "ledger": tmp_path}
    experiment(0.9, 0.2, **settings)
    changed = experiment(0.9, 0.2, **{**settings, **change})
    assert changed.replays_reused == 0
    assert experiment(0.9, 0.2, **settings).replays_reused > 0


def test_a_changed_recording_or_intervention_never_reuses(tmp_path: Path, bad: afnb.Cassette) -> None:
    experiment(1.0, 0.0, recording=bad, ledger=tmp_path)
    renamed = replace(bad, id="another")
    assert experiment(1.0, 0.0, recording=renamed, ledger=tmp_path).replays_reused == 0
    other = afnb.what_if(
        bad,
        afnb.Edit(0, "good beginning indeed"),
        agent=agent,
        upstream=SimulatedUpstream(policy(1.0, 0.0)),
        oracle=right,
        progress=False,
        ledger=tmp_path,
    )
    assert {r.role for r in other.results if r.role == "patch"} == {"patch"}
    assert other.replays_reused == other.control.conclusive, "the control arm is the same one"


def test_an_agent_whose_helper_changed_is_another_agent() -> None:
    def made(word: str) -> Any:
        module: dict[str, Any] = {"__name__": "notebook"}
        exec(f"def helper():\n    return {word!r}\ndef agent(ctx):\n    return helper()", module)
        return afnb.Function(module["agent"])

    assert made("a").fingerprint() == made("a").fingerprint() != made("b").fingerprint()


def test_a_command_whose_neighbour_changed_is_another_agent(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("import helper")
    (tmp_path / "helper.py").write_text("x = 1")
    for argv in (["python", "agent.py"], ["python", "-m", "agent"]):
        command = afnb.Command(argv, cwd=tmp_path)
        before = command.fingerprint()
        (tmp_path / "helper.py").write_text(f"x = {argv!r}")
        assert command.fingerprint() != before


# --- the file ---------------------------------------------------------------------------------------


def test_a_torn_last_line_is_dropped_and_cut_off(tmp_path: Path, bad: afnb.Cassette) -> None:
    experiment(1.0, 0.0, recording=bad, ledger=tmp_path)
    (path,) = tmp_path.glob("*.jsonl")
    whole = path.read_bytes()
    for cut in (1, 40, len(whole.splitlines()[-1]) + 1):
        path.write_bytes(whole[:-cut])
        again = experiment(1.0, 0.0, recording=bad, ledger=tmp_path)
        assert again.replays_reused == again.replays_spent - 1
        assert len(lines(tmp_path)) == len(whole.splitlines())
        assert all(json.loads(line) for line in lines(tmp_path))


@pytest.mark.parametrize("damage", [b"{}\n", b"not json\n", b'{"v":99}\n', b"\xff\xfe\n", b'{"v":1}\n'])
def test_any_other_damage_is_an_error_that_names_the_line(
    tmp_path: Path, bad: afnb.Cassette, damage: bytes
) -> None:
    experiment(1.0, 0.0, recording=bad, ledger=tmp_path)
    (path,) = tmp_path.glob("*.jsonl")
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + damage + b"".join(rest))
    with pytest.raises(InputError, match=r"jsonl:2: .*ledger"):
        experiment(1.0, 0.0, recording=bad, ledger=tmp_path)
    assert path.read_bytes() == first + damage + b"".join(rest), "nothing is written over"


def test_a_missing_or_changed_recording_is_an_error(tmp_path: Path, bad: afnb.Cassette) -> None:
    experiment(1.0, 0.0, recording=bad, ledger=tmp_path)
    kept = sorted((tmp_path / "recordings").iterdir())
    content = kept[0].read_bytes()
    kept[0].write_bytes(content + b" ")
    with pytest.raises(InputError, match="changed since"):
        experiment(1.0, 0.0, recording=bad, ledger=tmp_path)
    kept[0].unlink()
    with pytest.raises(InputError, match="not there"):
        experiment(1.0, 0.0, recording=bad, ledger=tmp_path)


def test_recordings_are_named_by_what_they_hold_and_can_be_loaded(tmp_path: Path, bad: afnb.Cassette) -> None:
    e = experiment(1.0, 0.0, recording=bad, ledger=tmp_path)
    kept = {row["kept"] for row in Ledger(tmp_path).table.to_pylist()}
    assert kept == {path.name for path in (tmp_path / "recordings").iterdir()}
    ids = {afnb.load(tmp_path / "recordings" / name).id for name in kept}
    assert ids == {result.recording.id for result in e.results}


def test_it_is_a_table(tmp_path: Path, bad: afnb.Cassette) -> None:
    e = experiment(0.7, 0.3, recording=bad, ledger=tmp_path)
    table = afnb.Ledger(tmp_path).table
    assert table.schema.equals(schema("ledger"))
    assert table.num_rows == e.replays_spent
    assert set(table.column("recovery").to_pylist()) <= {"recovered", "not_recovered"}
    assert sum(table.column("live").to_pylist()) == e.live_calls_spent
    assert (
        sum(table.column("input_tokens").to_pylist()) + sum(table.column("output_tokens").to_pylist())
        == e.tokens_spent
    )
    assert len(set(table.column("recording_hash").to_pylist())) == 1
    assert table.to_pandas().shape[0] == table.num_rows


def test_several_threads_and_experiments_share_one(tmp_path: Path, bad: afnb.Cassette) -> None:
    book = Ledger(tmp_path)
    found: dict[int, afnb.Experiment] = {}

    def work(seed: int) -> None:
        found[seed] = experiment(0.8, 0.2, seed, recording=bad, ledger=book, n_jobs=2)

    threads = [threading.Thread(target=work, args=(seed % 3,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = [json.dumps(json.loads(line)["key"]) for line in lines(tmp_path)]
    assert len(held) == len(set(held)), "each replay stands there once"
    for seed, e in found.items():
        assert e.verdict == experiment(0.8, 0.2, seed, recording=bad).verdict


def test_a_process_backend_writes_it_down_as_well(tmp_path: Path, bad: afnb.Cassette) -> None:
    e = experiment(1.0, 0.0, recording=bad, ledger=tmp_path, backend="loky", n_jobs=2)
    assert e.verdict == "recovered"
    assert len(lines(tmp_path)) == e.replays_spent


def test_a_full_disk_is_one_sentence(
    tmp_path: Path, bad: afnb.Cassette, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("afnb.experiments.ledger._append", full)
    with pytest.raises(InputError, match="No space left on device; make room"):
        experiment(1.0, 0.0, recording=bad, ledger=tmp_path, n_jobs=4)


@pytest.mark.parametrize("value", [3, True, ["a"]])
def test_a_ledger_is_a_folder(value: Any) -> None:
    with pytest.raises(ParameterError, match="ledger="):
        experiment(1.0, 0.0, ledger=value)


def test_a_file_is_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ParameterError, match="is a file"):
        experiment(1.0, 0.0, ledger=tmp_path / "file")
    shutil.rmtree(tmp_path)
    assert Ledger(tmp_path).table.num_rows == 0
