"""The bundled logs are what their script makes, and what they are said to be."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from afnb.core import events as ev
from afnb.core.cursor import ReplayCursor
from afnb.core.shape import first_violation
from afnb.io.events import read_events
from afnb.io.validate_files import validate_files
from afnb.tables.events import event_log, event_problems
from afnb.tables.folds import run_states
from afnb.tables.validate import validate


@pytest.fixture
def made(root: Path) -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("make_logs", root / "data" / "make_logs.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    contents: dict[str, str] = module.contents()
    return contents


def test_the_script_makes_the_same_files_again(made: dict[str, str], root: Path) -> None:
    for name, text in made.items():
        assert (root / "data" / "logs" / name).read_bytes() == text.encode()


def test_the_whole_log_is_well_formed_and_every_run_of_it_replays(root: Path) -> None:
    events = read_events(root / "data" / "logs" / "support.jsonl")
    report = validate(events)
    assert (report.ok, report.runs, report.problems.num_rows) == (True, 40, 0)
    states = run_states(events).to_pylist()
    assert len({row["status"] for row in states}) >= 5
    for row in states:
        log = event_log(events, row["run_id"])
        assert log.state.status == row["status"]
        assert first_violation(log) is None
        assert ReplayCursor(log.envelopes).run_id == row["run_id"]


def test_the_damaged_log_shows_each_kind_of_damage(root: Path) -> None:
    path = root / "data" / "logs" / "damaged.jsonl"
    events = read_events(path)
    report = validate(events)
    assert report.violations.equals(validate_files(path).violations)
    assert set(report.by_rule) == {"non_contiguous", "head_not_at_zero", "bad_envelope"}
    rules = event_problems(events).column("rule").to_pylist()
    assert rules.count("bad_envelope") == 2
    assert rules[-1] == "unfinished_tail"
    assert isinstance(event_log(events, events.column("run_id")[0].as_py()).envelopes[0].event, ev.RunStarted)
