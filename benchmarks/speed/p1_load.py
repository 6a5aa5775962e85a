"""P1: read an event log into a table, beside Python's json and pandas.read_json.

    python benchmarks/speed/p1_load.py [--mb 100] [--rounds 5] [--out FILE]

The log is made by ``made_logs.py``. The readers take turns, several times over, each time in a process of
its own, so that none inherits the memory of another; what they import, and a first small log, is not
counted. Compared are medians of CPU seconds. ``read_events`` makes all its checks and keeps every payload
character for character. Of the standard library two readers are measured, and the faster one counts:
one that keeps the parsed lines in a list, and one that fills the same columns (payloads written again by
json.dumps) and makes an Arrow table of them. Neither of them, nor pandas, checks what read_events checks.
Memory is the peak of a process above what it had before the log. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from made_logs import make

from afnb.io.events import read_events

ROOT = Path(__file__).resolve().parents[2]
TARGETS = {"json": 3.0, "pandas": 7.0}
MEMORY_RATIO = 1.3


def json_list(path: Path) -> int:
    with path.open("rb") as file:
        return len([json.loads(line) for line in file])


def json_table(path: Path) -> int:
    """The columns of the table of events, filled from parsed lines."""
    kept: dict[str, list[Any]] = {
        name: []
        for name in ("run_id", "seq", "schema_version", "recorded_at", "kind", "corr", "tool", "effect")
    }
    kept |= {"input_tokens": [], "output_tokens": [], "value": [], "now": [], "payload": []}
    with path.open("rb") as file:
        for line in file:
            envelope = json.loads(line)
            event = envelope["event"]
            payload = event["payload"]
            usage = payload.get("usage", {})
            for name in ("run_id", "seq", "schema_version", "recorded_at"):
                kept[name].append(envelope[name])
            kept["kind"].append(event["kind"])
            kept["corr"].append(payload.get("seq"))
            for name in ("tool", "effect", "value", "now"):
                kept[name].append(payload.get(name))
            kept["input_tokens"].append(usage.get("input_tokens"))
            kept["output_tokens"].append(usage.get("output_tokens"))
            kept["payload"].append(json.dumps(payload, ensure_ascii=False, separators=(",", ":")))
    types = {"value": pa.uint64(), "seq": pa.uint64(), "corr": pa.uint64(), "payload": pa.large_string()}
    arrays = {name: pa.array(values, types.get(name)) for name, values in kept.items()}
    for name in ("recorded_at", "now"):
        arrays[name] = arrays[name].cast(pa.timestamp("ns", "UTC"))
    for name in ("run_id", "kind", "tool", "effect"):
        arrays[name] = arrays[name].dictionary_encode()
    return int(pa.table(arrays).num_rows)


def pandas_json(path: Path) -> int:
    return len(pd.read_json(path, lines=True))


def afnb(path: Path) -> int:
    return int(read_events(path).num_rows)


READERS: dict[str, Callable[[Path], int]] = {
    "read_events": afnb,
    "json_list": json_list,
    "json_table": json_table,
    "pandas": pandas_json,
}


def peak_bytes() -> int:
    """The most memory this process has had."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def read_once(reader: str, path: Path) -> dict[str, float]:
    """Read a log in this process: CPU seconds, events, and what memory it took."""
    with path.open("rb") as log, tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.jsonl"
        small.write_bytes(b"".join(log.readlines(200_000)))
        READERS[reader](small)
    gc.collect()
    peak, start = peak_bytes(), time.process_time()
    events = READERS[reader](path)
    spent = time.process_time() - start
    return {"cpu_s": spent, "events": events, "peak_mb": (peak_bytes() - peak) / 1e6}


def in_its_own_process(reader: str, path: Path) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__).resolve()), "--read", reader, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(path: Path, events: int, rounds: int) -> dict[str, Any]:
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in READERS}
    for _ in range(rounds):
        for name, found in seen.items():
            found.append(in_its_own_process(name, path))
            if found[-1]["events"] != events:
                raise AssertionError(f"{name} found {found[-1]['events']} events of {events}")
    cpu = {name: statistics.median(one["cpu_s"] for one in found) for name, found in seen.items()}
    peaks = {name: round(max(one["peak_mb"] for one in found), 1) for name, found in seen.items()}
    ratios = {name: round(cpu[name] / cpu["read_events"], 2) for name in READERS if name != "read_events"}
    size, table_mb = path.stat().st_size, read_events(path).nbytes / 1e6
    return {
        "bytes": size,
        "events": events,
        "cpu_s": {name: round(seconds, 3) for name, seconds in cpu.items()},
        "mb_per_cpu_s": {name: round(size / 1e6 / seconds, 1) for name, seconds in cpu.items()},
        "ratio_to": ratios,
        "peak_mb": peaks,
        "table_mb": round(table_mb, 1),
        "memory_ratio": round(peaks["read_events"] / table_mb, 2),
        "met": {
            "json": min(ratios["json_list"], ratios["json_table"]) >= TARGETS["json"],
            "pandas": ratios["pandas"] >= TARGETS["pandas"],
            "memory": peaks["read_events"] <= MEMORY_RATIO * table_mb,
        },
    }


def revision() -> str:
    found = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=float, default=100, help="size of the log in MB (10^6 bytes)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", help="write the document to this file too")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.read:
        print(json.dumps(read_once(args.read[0], Path(args.read[1]))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        found = measure(path, make(path, int(args.mb * 1e6)), args.rounds)
    document = {
        "benchmark": "p1_load",
        "command": "python benchmarks/speed/p1_load.py",
        "revision": revision(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": {name: importlib.metadata.version(name) for name in ("msgspec", "pandas", "pyarrow")},
        "target_ratios": TARGETS,
        "target_memory_ratio": MEMORY_RATIO,
        **found,
    }
    text = json.dumps(document, indent=1) + "\n"
    print(text, end="")
    if args.out:
        Path(args.out).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
