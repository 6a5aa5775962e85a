"""Every measurement as a job, one line of rows each; a killed run goes on where it stopped.

A job's line is appended and flushed before the next one starts. The rows of one benchmark belong to one
revision of the code: lines of another are refused unless that is asked for.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.planted import measure, places, sdk
from benchmarks.planted.measure import Row
from benchmarks.planted.scenarios import CELLS, POLICY, Scenario, scenarios

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("cells", "attributions", "what_if", "policy", "locate", "sdk")
SLOW = ("hang", "loopback")
SEEDS = {
    "cell": 600,
    "cell (0.9, 0.1)": 1000,
    "attribution": 5,
    "attribution, ten candidates": 12,
    "attribution, slow": 2,
    "attribution, majority": 1,
    "attribution, fisher": 1,
    "what_if": 1,
    "policy": 20,
}
"""How often each is measured."""


@dataclass(frozen=True)
class Job:
    """One measurement: its part, its key, and what makes its rows."""

    part: str
    key: str
    rows: Callable[[], list[Row]]


def jobs() -> Iterator[Job]:
    """All measurements, those that everything else rests on first."""
    for patch, control in CELLS:
        seeds = SEEDS["cell (0.9, 0.1)" if (patch, control) == (0.9, 0.1) else "cell"]
        for first in range(0, seeds, 50):
            yield Job("cells", f"{patch:g} {control:g} {first}", partial(cells, patch, control, first))
    for rule in ("sequential", "majority"):
        yield from attributions(rule)
    for scenario in scenarios():
        for turn in scenario.probes:
            for seed in range(SEEDS["what_if"]):
                key = f"{scenario.name} {turn} {seed}"
                yield Job("what_if", key, partial(asked, scenario, turn, seed))
    for wrong, repair in POLICY:
        for seed in range(SEEDS["policy"]):
            key = f"{wrong:g} {repair:g} {seed}"
            yield Job("policy", f"attribute {key}", partial(policy, wrong, repair, seed))
            yield Job("policy", f"locate {key}", partial(places.policy_rows, wrong, repair, seed))
    for case in places.CASES:
        for seed in range(case.seeds):
            yield Job("locate", f"{case.name} {seed}", partial(places.rows, case, seed))
    for name in sdk.AGENTS:
        yield Job("sdk", name, partial(sdk.rows, name))
    yield from attributions("fisher")


def attributions(rule: str) -> Iterator[Job]:
    """Every scenario, a seed at a time, so that a run cut short has all scenarios."""
    for seed in range(max(SEEDS.values())):
        for scenario in scenarios():
            if seed < seeds_of(scenario, rule):
                key = f"{rule} {scenario.name} {seed}"
                yield Job("attributions", key, partial(attributed, scenario, seed, rule))


def seeds_of(scenario: Scenario, rule: str) -> int:
    """How many attributions of a scenario."""
    if rule == "majority":
        return SEEDS["attribution, majority"]
    if rule == "fisher":
        return SEEDS["attribution, fisher"] if scenario.family not in SLOW else 0
    if scenario.family in SLOW:
        return SEEDS["attribution, slow"]
    return SEEDS["attribution, ten candidates" if scenario.family.startswith("ten-") else "attribution"]


def cells(patch: float, control: float, first: int) -> list[Row]:
    """Fifty experiments of one cell."""
    return [measure.cell_row(patch, control, seed) for seed in range(first, first + 50)]


def attributed(scenario: Scenario, seed: int, rule: str) -> list[Row]:
    """One attribution."""
    return [measure.attribution_row(scenario, seed, rule)]


def asked(scenario: Scenario, turn: int, seed: int) -> list[Row]:
    """One question to each rule, on the same replays."""
    return [measure.what_if_row(scenario, turn, seed, rule) for rule in measure.RULES]


def policy(wrong: float, repair: float, seed: int) -> list[Row]:
    """One attribution of the twenty-step policy."""
    return [measure.policy_row(wrong, repair, seed)]


def revision() -> str:
    """The commit that is checked out, and whether the code that is measured differs from it."""

    def git(*args: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "afnb", "benchmarks/planted/*.py")
    return (git("rev-parse", "HEAD") or "unknown") + (" with changes" if changed else "")


def lines(folder: Path, part: str) -> Iterator[dict[str, Any]]:
    """The finished jobs of a part; a line cut off by a kill is passed over."""
    path = folder / f"{part}.jsonl"
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").split("\n"):
        if not line:
            continue
        try:
            yield json.loads(line)
        except ValueError:
            continue


def run(
    folder: Path,
    *,
    parts: tuple[str, ...] = PARTS,
    seconds: float | None = None,
    mix: bool = False,
    only: str | None = None,
) -> int:
    """Run the jobs that are not finished, for at most so many seconds; returns how many are left."""
    folder.mkdir(parents=True, exist_ok=True)
    at, started, left = revision(), time.monotonic(), 0
    done: dict[str, set[str]] = {}
    for part in parts:
        found = list(lines(folder, part))
        others = {line["revision"] for line in found} - {at}
        if others and not mix:
            raise SystemExit(
                f"{folder / part}.jsonl holds rows of revision {', '.join(sorted(others))}, this is {at}; "
                "give another --rows folder, or --mix to go on with both"
            )
        done[part] = {line["key"] for line in found}
    for job in jobs():
        if job.part not in parts or job.key in done[job.part] or (only and only not in job.key):
            continue
        if seconds is not None and time.monotonic() - started > seconds:
            left += 1
            continue
        line = {"key": job.key, "revision": at, "rows": job.rows()}
        with (folder / f"{job.part}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return left
