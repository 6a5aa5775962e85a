"""P6 counts replays per verdict from rows: a small example by hand, and what is kept."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def p6(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("p6", root / "benchmarks" / "speed" / "p6_verdicts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(rule: str, verdict: str, replays: int, effect: float) -> dict[str, Any]:
    return {"rule": rule, "verdict": verdict, "replays": replays, "effect": effect}


def test_replays_of_experiments_without_a_verdict_count_as_well(p6: ModuleType) -> None:
    rows = [
        row("sequential", "recovered", 6, 0.6),
        row("sequential", "unverified", 40, 0.6),
        row("sequential", "not_recovered", 5, 0.0),
        *(row("fisher", "recovered", 46, 0.6) for _ in range(3)),
    ]
    cells = [{"patch": 1.0, "control": 0.0, "replays": n} for n in (6, 6, 8)]
    found = p6.measured(rows, cells)
    assert found["mix"]["sequential"]["replays_per_verdict"] == 25.5
    assert found["mix"]["sequential"]["power_at_min_effect_or_more"] == 0.5
    assert found["ratio_per_verdict"] == round(25.5 / 46, 3)
    assert found["clean_cause_median"] == 6
    assert found["fisher_replays_at_equal_power"] < 46
    assert found["ratio_at_equal_power"] > found["ratio_per_verdict"]


def test_what_is_kept_is_what_it_prints(p6: ModuleType, root: Path) -> None:
    kept = json.loads((root / "benchmarks" / "speed" / "results" / "p6.json").read_text(encoding="utf-8"))
    found = p6.measured(p6.results.read("what_if"), p6.results.read("cells"))
    assert {name: kept[name] for name in found} == json.loads(json.dumps(found))
    assert found["clean_cause_median"] <= p6.TARGETS["clean_cause_median"]
    assert found["ratio_at_equal_power"] <= p6.TARGETS["ratio_at_equal_power"]
