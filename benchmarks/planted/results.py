"""Rows of finished measurements into tables that are kept: Parquet, and what they were measured with."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from afnb.core.jsonvalue import dumps
from benchmarks.planted import measure, run
from benchmarks.planted.measure import Row
from benchmarks.planted.scenarios import scenarios

RESULTS = Path(__file__).resolve().parent / "results"
COMMAND = "python -m benchmarks.planted all"
PACKAGES = ("afnb", "httpx", "httpx2", "openai", "anthropic", "numpy", "pyarrow", "joblib")
TABLES = ("cells", "attributions", "experiments", "what_if", "policy", "locate", "sdk", "scenarios", "truth")


def collect(rows: Path, out: Path = RESULTS) -> None:
    """Write every table anew."""
    out.mkdir(parents=True, exist_ok=True)
    revisions: set[str] = set()
    tables: dict[str, list[Row]] = {}
    for part in run.PARTS:
        tables[part] = []
        once = {str(line["key"]): line for line in run.lines(rows, part)}
        for _key, line in sorted(once.items()):
            revisions.add(line["revision"])
            tables[part].extend(line["rows"])
    for row in tables["policy"]:
        if isinstance(row["planted"], int):  # of locate, which names one turn
            row["planted"] = [[row["planted"]]]
    for row in tables["attributions"]:
        row.update(asked_first(row))
    tables["experiments"] = [
        {"scenario": row["scenario"], "rule": row["rule"], "seed": row["seed"], **experiment}
        for row in tables["attributions"]
        for experiment in row.pop("experiments")
    ]
    tables["attributions"] += [
        guess
        for scenario in scenarios()
        for seed in range(run.seeds_of(scenario, "sequential"))
        for guess in measure.guesses(scenario, seed)
    ]
    tables["scenarios"], tables["truth"] = designed()
    for name, found in tables.items():
        write_table(found, out / f"{name}.parquet")
    about = {
        "command": COMMAND,
        "revisions": sorted(revisions),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "packages": {name: version(name) for name in PACKAGES},
        "rows": {name: len(found) for name, found in sorted(tables.items())},
    }
    (out / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def asked_first(row: Row) -> Row:
    """What is true of an attribution's first question, all candidates grafted: whether it may be refuted."""
    first = (
        row["experiments"][0] if row["experiments"] else {"effect": 0.0, "can_be_false_not_recovered": False}
    )
    large = first["can_be_false_not_recovered"]
    return {
        "all_effect": first["effect"],
        "can_be_false_not_recovered": large,
        "false_not_recovered": large and row["claim"] == "not_recovered",
    }


def designed() -> tuple[list[Row], list[Row]]:
    """What was planted: a row a scenario, and the exact effect of every candidate alone."""
    plans, truths = [], []
    for scenario in scenarios():
        plans.append(
            {
                "scenario": scenario.name,
                "family": scenario.family,
                "place": scenario.place,
                "plan": dumps(asdict(scenario.plan)),
                "candidates": list(scenario.candidates),
                "planted": [list(turns) for turns in scenario.planted],
                "patch_rate": scenario.all_effect.patch,
                "control_rate": scenario.all_effect.control,
                "effect": scenario.all_effect.effect,
            }
        )
        for turn, effect in scenario.effects.items():
            last = turn == len(scenario.plan.turns)
            truths.append(
                {
                    "scenario": scenario.name,
                    "turn": turn,
                    "step": scenario.plan.step_of(turn),
                    "kind": "closing" if last else scenario.plan.turns[turn].kind,
                    "patch_rate": effect.patch,
                    "control_rate": effect.control,
                    "effect": effect.effect,
                    "computed": "exactly",
                }
            )
    return plans, truths


def write_table(rows: list[Row], path: Path) -> None:
    """One table as Parquet; the same rows give the same bytes."""
    table = pa.Table.from_pylist(rows) if rows else pa.table({"empty": pa.array([], pa.bool_())})
    pq.write_table(table, path, compression="zstd", compression_level=9)


def read(name: str, folder: Path = RESULTS) -> list[Row]:
    """The rows of a kept table."""
    found: list[dict[str, Any]] = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return found


def about(folder: Path = RESULTS) -> dict[str, Any]:
    """What the tables were measured with."""
    found: dict[str, Any] = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    return found


def version(package: str) -> str | None:
    """The installed version."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
