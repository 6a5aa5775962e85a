"""P5 and P7: overhead of a replay, efficiency of many waiting replays, import and demonstration time.

``python benchmarks/speed/p5_replays.py --out benchmarks/speed/results/p5.json``
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from afnb.causal.interventions import Edit
from afnb.causal.oracles import as_oracle
from afnb.experiments.budget import Budget, Meter
from afnb.experiments.demo import bundled
from afnb.experiments.recordings import compiled_arms, setting_of
from afnb.experiments.replay import Job
from afnb.experiments.runner import Runner


def setting(latency_s: float) -> tuple[Any, Any]:
    pair = bundled("report")
    arms = compiled_arms(Edit(0, "Nothing found."), pair.bad)
    made = setting_of(
        pair.bad, pair.agent, pair.upstream(latency_s), as_oracle(pair.oracle), None, pair.tools
    )
    return made, arms.control


def overhead_ms(replays: int = 300) -> dict[str, float]:
    """Wall time of a replay whose provider answers at once: all of it is overhead."""
    made, arm = setting(0.0)
    made.run(Job(arm, "control", 0, 1), None, None)
    times = []
    for index in range(replays):
        start = time.perf_counter()
        made.run(Job(arm, "control", index, index), None, None)
        times.append(1000 * (time.perf_counter() - start))
    return {
        "median_ms": round(statistics.median(times), 2),
        "p90_ms": round(sorted(times)[int(0.9 * replays)], 2),
    }


def waiting(latency_s: float, n_jobs: int, replays: int) -> dict[str, float]:
    """Many replays that wait for the provider: wall time against the ideal of their waiting alone."""
    made, arm = setting(latency_s)
    runner = Runner(made, Meter(Budget(live_calls=None)), n_jobs)
    start = time.perf_counter()
    results = [result for _, result in runner.run([Job(arm, "control", i, i) for i in range(replays)])]
    wall = time.perf_counter() - start
    live = sum(result.report.live for result in results)
    ideal = live * latency_s / n_jobs
    return {
        "live_calls": live,
        "wall_s": round(wall, 3),
        "ideal_s": round(ideal, 3),
        "efficiency": round(ideal / wall, 3),
    }


def process_s(argv: list[str], runs: int) -> float:
    """Least wall time of a fresh process."""
    times = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            subprocess.run(argv, check=True, capture_output=True, cwd=folder)
            times.append(time.perf_counter() - start)
    return round(min(times), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    bare = process_s([sys.executable, "-c", "pass"], 5)
    found = {
        "overhead": overhead_ms(),
        "waiting_32": waiting(0.1, 32, 320),
        "import_s": round(process_s([sys.executable, "-c", "import afnb"], 5) - bare, 3),
        "demo_s": process_s([sys.executable, "-m", "afnb", "demo"], 2),
        "bare_python_s": bare,
        "command": "python benchmarks/speed/p5_replays.py",
    }
    text = json.dumps(found, indent=2)
    print(text)
    if args.out:
        args.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
