"""P6: replays per verdict, beside a fixed design, from the kept rows of ``benchmarks/planted``.

``python benchmarks/speed/p6_verdicts.py --out benchmarks/speed/results/p6.json`` counts what is kept there;
``python -m benchmarks.planted all`` measures it anew. Both rules saw the same replays.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.planted import results, score  # noqa: E402

TARGETS = {"clean_cause_median": 6, "ratio_at_equal_power": 0.7}
MIN_EFFECT = 0.5


def per_verdict(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Replays of some experiments of one rule, an experiment and a verdict."""
    decided = sum(row["verdict"] != "unverified" for row in rows)
    spent = sum(row["replays"] for row in rows)
    large = [row for row in rows if row["effect"] >= MIN_EFFECT - 1e-9]
    return {
        "experiments": len(rows),
        "decided": round(decided / len(rows), 3) if rows else None,
        "replays_each": round(spent / len(rows), 1) if rows else None,
        "replays_per_verdict": round(spent / decided, 1) if decided else None,
        "power_at_min_effect_or_more": (
            round(mean(row["verdict"] == "recovered" for row in large), 3) if large else None
        ),
    }


def measured(what_if: Sequence[dict[str, Any]], cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of P6: over the mix of scenarios, by effect, and for a clean cause."""
    rules = {
        name: [row for row in what_if if row["rule"] == name] for name in ("sequential", "fisher", "majority")
    }
    found: dict[str, Any] = {"mix": {name: per_verdict(rows) for name, rows in rules.items()}}
    ours, fixed = (found["mix"][name]["replays_per_verdict"] for name in ("sequential", "fisher"))
    found["ratio_per_verdict"] = round(ours / fixed, 3) if ours and fixed else None
    equal = score.fisher_of_equal_power(rules["sequential"])
    found["fisher_replays_at_equal_power"] = equal
    found["ratio_at_equal_power"] = round(ours / equal, 3) if ours else None
    found["by_effect"] = {
        name: {
            rule: per_verdict([row for row in rules[rule] if score.effect_bin(row["effect"]) == name])
            for rule in ("sequential", "fisher")
        }
        for name in score.BINS
    }
    clean = [row["replays"] for row in cells if (row["patch"], row["control"]) == (1.0, 0.0)]
    found["clean_cause_median"] = median(clean) if clean else None
    return found


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kept", type=Path, default=results.RESULTS, help="folder of the kept tables")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    about = results.about(args.kept)
    found = {
        "benchmark": "p6_verdicts",
        "command": "python benchmarks/speed/p6_verdicts.py",
        "measured_at": about["revisions"],
        "python": about["python"],
        "machine": about["machine"],
        "targets": TARGETS,
        **measured(results.read("what_if", args.kept), results.read("cells", args.kept)),
    }
    text = json.dumps(found, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
