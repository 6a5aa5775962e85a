"""A night of failing runs: wall time of a batch against its live calls, memory, folder and report.

Made-up pairs of 40 exchanges each, whose deciding steps are known, against a simulated provider that
takes 50 ms for an answer. The ideal is the time that the live calls made would take if ``n_jobs`` of them
were under way at every moment and nothing else took any time.

``python benchmarks/speed/p_batch.py --pairs 300 --n-jobs 4 --out benchmarks/speed/results/p_batch.json``
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "experiments"))
from many import AGENT, TOOLS, Case, folder, paid, upstream

import afnb

TURNS = 40
LATENCY_S = 0.05


def cases(count: int, seed: int = 0) -> list[Case]:
    """Half of the pairs fail by another lookup, a quarter by a step left out, a quarter for no cause."""
    draw = random.Random(seed)
    kinds = ["policy", "policy", "skip", "style"]
    made = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        right = 0.0 if kind == "style" else draw.choice([1.0, 0.95, 0.9])
        wrong = 0.0 if kind == "style" else draw.choice([0.0, 0.05, 0.1])
        made.append(Case(number, kind, TURNS, draw.randrange(2, TURNS - 3), right, wrong))
    return made


def size_of(place: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def spent_cpu() -> float:
    """Processor seconds of this process and of those it waited for."""
    return sum(os.times()[:4])


def measured(place: Path, out: Path, n_jobs: int, backend: str, latency_s: float) -> dict[str, Any]:
    """One batch and its report."""
    began, cpu = time.perf_counter(), spent_cpu()
    found = afnb.attribute_many(
        place,
        agent=AGENT,
        upstream=upstream(latency_s),
        oracle=paid,
        allow_tools=list(TOOLS),
        ledger=out,
        n_jobs=n_jobs,
        backend=backend,
        progress=False,
        budget=afnb.Budget(live_calls=None),
    )
    wall, cpu = time.perf_counter() - began, spent_cpu() - cpu
    calls = sum(row["live_calls_spent"] for row in found.rows())
    replays = sum(row["replays_spent"] for row in found.rows())
    ideal = calls * latency_s / n_jobs
    folder_bytes = size_of(out)
    began = time.perf_counter()
    report = found.report(out / "report.html")
    report_s = time.perf_counter() - began
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "pairs": found.pairs.num_rows,
        "states": dict(Counter(row["state"] for row in found.rows())),
        "n_jobs": n_jobs,
        "backend": backend,
        "latency_s": latency_s,
        "replays": replays,
        "live_calls": calls,
        "wall_s": round(wall, 2),
        "ideal_s": round(ideal, 2),
        "wall_over_ideal": round(wall / ideal, 3) if ideal else None,
        "cpu_s": round(cpu, 2),
        "cpu_ms_per_live_call": round(1000 * cpu / max(1, calls), 2),
        "peak_mb": round(peak / 1024, 1),
        "folder_mb": round(folder_bytes / 1e6, 2),
        "report_s": round(report_s, 2),
        "report_mb": round(Path(report).stat().st_size / 1e6, 3),
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    """Measure and print, and write down where asked to."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pairs", type=int, default=20)
    options.add_argument("--n-jobs", type=int, nargs="+", default=[4])
    options.add_argument("--backend", default="threading")
    options.add_argument("--latency", type=float, default=LATENCY_S)
    options.add_argument("--keep", type=Path, help="a folder for pairs and results, kept")
    options.add_argument("--out", type=Path)
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = args.keep or Path(scratch)
        place = root / f"pairs-{args.pairs}"
        if not place.exists():
            folder(place, cases(args.pairs))
        found = []
        for n_jobs in args.n_jobs:
            out = root / f"out-{args.backend}-{args.pairs}-{n_jobs}-{time.time_ns()}"
            found.append(measured(place, out, n_jobs, args.backend, args.latency))
            print(json.dumps(found[-1]), flush=True)
    if args.out:
        args.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
