"""P2: check the shape of every run of a table of events, beside a plain Python loop.

    python benchmarks/speed/p2_validate.py [--full] [--out FILE]

One million events (ten million too with ``--full``), one run in a hundred malformed: run after run, as
files of one run each give them, and with eight runs interleaved in bursts of a few events. The loop gets
its columns as Python lists, ready made, holds what a run did last in a dictionary and knows the same
rules; both must find the same first violation of every run. Prints one JSON document of CPU seconds, the
median of several rounds.
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from made_logs import lines

from afnb.io.events import read_events
from afnb.tables.columns import group
from afnb.tables.validate import validate

ROOT = Path(__file__).resolve().parents[2]
RATIO = 10.0
CPU_S_PER_MILLION = 0.1
SAMPLE_BYTES = 40_000_000

Verdicts = dict[str, tuple[int, str]]


def table_of(events: int) -> pa.Table:
    """So many events: those of a made-up log again and again, each time with run ids of their own."""
    sample = read_events(io.BytesIO(b"".join(lines(SAMPLE_BYTES if events > 50_000 else 2_000_000))))
    copies = -(-events // sample.num_rows)
    runs = sample.column("run_id").combine_chunks()
    words = runs.dictionary.to_pylist()
    codes = runs.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    ids = [f"{copy:08x}{word[8:]}" for copy in range(copies) for word in words]
    indices = np.concatenate([codes + len(words) * copy for copy in range(copies)])
    short = pa.array(["{}"] * sample.num_rows, pa.large_string())  # the rules read no payload
    sample = sample.set_column(sample.schema.get_field_index("payload"), sample.field("payload"), short)
    table = pa.concat_tables([sample] * copies).combine_chunks()
    column = pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(ids, pa.large_string()))
    return table.set_column(0, table.field("run_id"), column).slice(0, events)


def lists_of(table: pa.Table) -> list[list[Any]]:
    """The columns that the rules need, as the loop wants them."""
    names = ("run_id", "seq", "schema_version", "kind", "corr", "tool", "effect")
    return [table.column(name).to_pylist() for name in names]


HEADS = frozenset(("RunStarted", "GraphRunStarted"))
TERMINALS = frozenset(("RunCompleted", "RunFailed", "RunAbandoned"))
ANSWERS = {"ModelCallRequested": "ModelCallCompleted", "ToolCallRequested": "ToolCallCompleted"}
COMPLETIONS = frozenset(ANSWERS.values())


def plain_loop(columns: Sequence[list[Any]]) -> Verdicts:
    """The first violation of each run, event by event."""
    last: dict[str, tuple[Any, ...]] = {}
    found: Verdicts = {}
    for run, seq, version, kind, corr, tool, effect in zip(*columns, strict=True):
        if run in found:
            continue
        before = last.get(run)
        rule = None
        if version != 1:
            rule = "bad_schema_version"
        elif before is None:
            if seq != 0:
                rule = "head_not_at_zero"
            elif kind not in HEADS:
                rule = "missing_head"
            last[run] = (0, seq, kind, corr, tool, effect)
        else:
            index, seq_before, kind_before, corr_before, tool_before, effect_before = before
            answer = ANSWERS.get(kind_before)
            if seq != seq_before + 1:
                rule = "non_contiguous"
            elif kind in HEADS:
                rule = "duplicate_head"
            elif kind_before in TERMINALS:
                rule = "after_terminal"
            elif answer is not None:
                if kind != answer:
                    gave_up = kind == "RunAbandoned" and effect_before == "write"
                    if not (gave_up and corr == corr_before and tool == tool_before):
                        rule = "expected_completion"
                elif corr != corr_before:
                    rule = "miscorrelated_completion"
            elif kind in COMPLETIONS:
                rule = "uncorrelated_completion"
            elif kind in ANSWERS and corr != seq:
                rule = "intent_seq_mismatch"
            last[run] = (index + 1, seq, kind, corr, tool, effect)
        if rule is not None:
            found[run] = (0 if before is None else before[0] + 1, rule)
    return found


def found_by_afnb(table: pa.Table) -> Verdicts:
    violations = validate(table).violations
    names = ("run_id", "index", "rule")
    rows = zip(*(violations.column(name).to_pylist() for name in names), strict=True)
    return {run: (index, rule) for run, index, rule in rows}


def cpu_of(work: Callable[[], Verdicts], rounds: int) -> tuple[list[float], Verdicts]:
    """CPU seconds of each round, and what was found."""
    spent, found = [], {}
    for _ in range(rounds):
        start = time.process_time()
        found = work()
        spent.append(time.process_time() - start)
    return spent, found


def run_after_run(table: pa.Table) -> pa.Table:
    """The same events with those of each run together."""
    order = group(table.column("run_id").combine_chunks().indices.to_numpy(zero_copy_only=False)).order
    return table if order is None else table.take(pa.array(order)).combine_chunks()


def measure(table: pa.Table, layout: str, rounds: int, loop: bool = True) -> dict[str, Any]:
    ours, found = cpu_of(lambda: found_by_afnb(table), rounds)
    result: dict[str, Any] = {
        "layout": layout,
        "events": table.num_rows,
        "runs": len(table.column("run_id").unique()),
        "broken_runs": len(found),
        "cpu_s": round(statistics.median(ours), 4),
        "cpu_s_per_million": round(statistics.median(ours) / table.num_rows * 1e6, 4),
    }
    if loop:
        start = time.process_time()
        columns = lists_of(table)
        result["lists_cpu_s"] = round(time.process_time() - start, 3)
        plain, expected = cpu_of(lambda: plain_loop(columns), max(1, rounds // 2))
        if expected != found:
            raise AssertionError("the loop and the validator found different violations")
        result["loop_cpu_s"] = round(statistics.median(plain), 3)
        result["ratio_to_loop"] = round(statistics.median(plain) / statistics.median(ours), 1)
    result["met"] = {"cpu_s_per_million": result["cpu_s_per_million"] <= CPU_S_PER_MILLION}
    if loop:
        result["met"]["ratio_to_loop"] = result["ratio_to_loop"] >= RATIO
    return result


def revision() -> str:
    found = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--full", action="store_true", help="ten million events too")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", help="write the document to this file too")
    args = parser.parse_args(argv)
    sizes = [args.events, *([10_000_000] if args.full else [])]
    cases = []
    for size in sizes:
        table, loop = table_of(size), size == args.events  # ten million as Python objects would not fit
        cases.append(measure(table, "interleaved", args.rounds if loop else 3, loop))
        cases.append(measure(run_after_run(table), "run after run", args.rounds if loop else 3, loop))
    document = {
        "benchmark": "p2_validate",
        "command": "python benchmarks/speed/p2_validate.py" + (" --full" if args.full else ""),
        "revision": revision(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": {"numpy": np.__version__, "pyarrow": pa.__version__},
        "target_ratio": RATIO,
        "target_cpu_s_per_million": CPU_S_PER_MILLION,
        "cases": cases,
    }
    text = json.dumps(document, indent=1) + "\n"
    print(text, end="")
    if args.out:
        Path(args.out).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
