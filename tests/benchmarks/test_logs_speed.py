"""The benchmarks of reading and checking logs in their smallest form: that they run and compare fairly."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import afnb


@pytest.fixture(scope="module")
def speed(root: Path) -> Iterator[Path]:
    folder = root / "benchmarks" / "speed"
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


def loaded(folder: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_made_log_is_the_same_for_a_seed_and_mostly_well_formed(speed: Path) -> None:
    made = loaded(speed, "made_logs")
    lines = list(made.lines(1_000_000))
    assert lines == list(made.lines(1_000_000))
    assert lines != list(made.lines(1_000_000, seed=1))
    assert 900 < sum(map(len, lines)) / len(lines) < 1500


def test_a_made_log_reads_without_problems_and_has_broken_runs(speed: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    events = loaded(speed, "made_logs").make(path, 8_000_000)
    table = afnb.read_events(path)
    report = afnb.validate(table)
    assert (table.num_rows, report.errors) == (events, 0)
    assert 0 < report.violations.num_rows < report.runs / 20


def test_all_readers_of_the_loading_benchmark_find_all_events(speed: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    events = loaded(speed, "made_logs").make(path, 300_000)
    found = loaded(speed, "p1_load").measure(path, events, rounds=1)
    assert found["events"] == events
    assert set(found["cpu_s"]) == {"read_events", "json_list", "json_table", "pandas"}


def test_the_loop_of_the_validation_benchmark_finds_what_the_validator_finds(speed: Path) -> None:
    p2 = loaded(speed, "p2_validate")
    table = p2.table_of(20_000)
    for layout, events in (("interleaved", table), ("run after run", p2.run_after_run(table))):
        found = p2.measure(events, layout, rounds=1)  # raises where they differ
        assert (found["events"], found["broken_runs"] > 0) == (20_000, True)
