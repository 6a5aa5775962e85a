"""P3: the same moves as the reference at a thousand steps a run, and no input that blows up.

    python benchmarks/speed/p3_align.py [--full] [--case NAME ...] [--out FILE]

Prints one JSON document: CPU seconds and peak memory of each case, the cells counted exactly, and for
scale the plain full-matrix alignment (difflib and a Python loop) on a hundred steps. ``--full`` adds
2000 x 2000 steps. Each case runs in a process of its own, without and, where it is installed,
with the compiled ratio of the ``fast`` extra.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
Words = tuple[str, ...]
Pair = tuple[list[Words], list[Words]]


def zipf_words(rng: random.Random, count: int, vocabulary: int = 3000) -> list[str]:
    weights = [1 / (i + 1) for i in range(vocabulary)]
    return [f"w{i}" for i in rng.choices(range(vocabulary), weights, k=count)]


def edited(rng: random.Random, step: Words, share: float) -> Words:
    fresh = iter(zipf_words(rng, len(step) + 1))
    return tuple(next(fresh) if rng.random() < share else word for word in step)


def with_detours(rng: random.Random, steps: list[Words], make: Callable[[], Words]) -> list[Words]:
    """The same run with a few steps lost and a few added."""
    kept = [step for step in steps if rng.random() > 0.03]
    for _ in range(len(steps) // 30):
        kept.insert(rng.randrange(len(kept) + 1), make())
    return kept


def different(n: int) -> Pair:
    """Every step another 80 words, drawn as words of a language are; b edits one word in five."""
    rng = random.Random(7)
    a = [tuple(zipf_words(rng, 80)) for _ in range(n)]
    b = [edited(rng, step, 0.2) for step in a]
    return a, with_detours(rng, b, lambda: tuple(zipf_words(rng, 80)))


def unrelated(n: int) -> Pair:
    """As ``different``, and the second run has nothing to do with the first."""
    rng = random.Random(8)
    return [tuple(zipf_words(rng, 80)) for _ in range(n)], [tuple(zipf_words(rng, 80)) for _ in range(n)]


def realistic(n: int) -> Pair:
    """An agent's loop: plans, calls from a few templates, results that often repeat, polls and retries."""
    rng = random.Random(42)
    pages = [tuple(zipf_words(rng, rng.randrange(30, 95))) for _ in range(60)]
    plans = [("planner", *zipf_words(rng, 40)) for _ in range(25)]

    def one() -> list[Words]:
        kind = rng.random()
        if kind < 0.25:
            return [edited(rng, rng.choice(plans), 0.05)]
        if kind < 0.45:
            return [("poll", "status", "pending", "retry", "in", "5", "s")] * rng.randrange(1, 4)
        page = rng.choice(pages)
        call = ("search", "query", *page[:4])
        return [
            call,
            ("fetch", "status", "200", "body", *(page if rng.random() < 0.7 else edited(rng, page, 0.1))),
        ]

    a: list[Words] = []
    while len(a) < n:
        a.extend(one())
    a = a[:n]
    b = [edited(rng, step, 0.1) if rng.random() < 0.2 else step for step in a]
    return a, with_detours(rng, b, lambda: one()[0])


def letters(alphabet: int) -> Callable[[int], Pair]:
    def make(n: int) -> Pair:
        rng = random.Random(alphabet)
        signs = "ab" if alphabet == 2 else "abcdefghijklmnopqrstuvwxyz"
        runs = [[tuple(rng.choices(signs, k=299)) for _ in range(n)] for _ in range(2)]
        return runs[0], runs[1]

    return make


def single_blocks(n: int) -> Pair:
    """Shared words that never stand together: a hundred and fifty blocks of one word a pair."""
    rng = random.Random(9)

    def run(side: str) -> list[Words]:
        return [
            tuple(word for k in range(150) for word in (f"s{k}", f"{side}{rng.randrange(10**9)}"))
            for _ in range(n)
        ]

    return run("a"), run("b")


def all_equal(n: int) -> Pair:
    step = tuple(zipf_words(random.Random(1), 80))
    return [step] * n, [step] * n


def identical(n: int) -> Pair:
    a, _ = different(n)
    return a, list(a)


def disjoint(n: int) -> Pair:
    rng = random.Random(3)
    return tuple([tuple(f"{s}{w}" for w in zipf_words(rng, 80)) for _ in range(n)] for s in "xy")  # type: ignore[return-value]


def runs_of_one(n: int) -> Pair:
    """One word over and over, in lengths that differ, against the same with other words between."""
    a = [("a",) * (250 + i % 50) for i in range(n)]
    b = [("a", "b") * (100 + i % 50) for i in range(n)]
    return a, b


CASES: dict[str, tuple[Callable[[int], Pair], int, float | None]] = {
    "different_1000": (different, 1000, 2.0),
    "realistic_1000": (realistic, 1000, 0.7),
    "unrelated_300": (unrelated, 300, None),
    "identical_1000": (identical, 1000, None),
    "all_equal_1000": (all_equal, 1000, None),
    "disjoint_1000": (disjoint, 1000, None),
    "two_letters_100": (letters(2), 100, None),
    "letters_100": (letters(26), 100, None),
    "single_blocks_300": (single_blocks, 300, None),
    "runs_of_one_300": (runs_of_one, 300, None),
}
FULL: dict[str, tuple[Callable[[int], Pair], int, float | None]] = {
    "different_2000": (different, 2000, None),
    "realistic_2000": (realistic, 2000, None),
    "unrelated_1000": (unrelated, 1000, None),
    "identical_2000": (identical, 2000, None),
    "all_equal_2000": (all_equal, 2000, None),
    "disjoint_2000": (disjoint, 2000, None),
    "two_letters_300": (letters(2), 300, None),
    "letters_300": (letters(26), 300, None),
    "single_blocks_1000": (single_blocks, 1000, None),
    "runs_of_one_1000": (runs_of_one, 1000, None),
}


def measure(name: str, *, fast: bool) -> dict[str, object]:
    """One case, in this process; without ``fast`` the compiled ratio of the extra is left aside."""
    from afnb.align import aligning, blocks
    from afnb.align.costs import StepCosts
    from afnb.align.params import AlignParams

    if not fast:
        blocks._library = lambda: None  # type: ignore[assignment]
    make, n, target = {**CASES, **FULL}[name]
    aligning.align_words([("warm", "up")], [("warm",)], AlignParams())
    a, b = make(n)
    resting = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counted: list[StepCosts] = []
    keep = aligning.StepCosts

    def counting(x: Sequence[Words], y: Sequence[Words]) -> StepCosts:
        counted.append(keep(x, y))
        return counted[-1]

    aligning.StepCosts = counting  # type: ignore[misc, assignment]
    start = time.process_time()
    moves = aligning.align_words(a, b, AlignParams())
    cpu = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result: dict[str, object] = {
        "case": name,
        "steps": [len(a), len(b)],
        "cpu_s": round(cpu, 3),
        "peak_rss_over_start_mb": round((peak - resting) / 1024, 1),
        "cells_counted_exactly": counted[0].exact_count,
        "moves": len(moves),
        "in_sync": sum(move.in_sync(0.3) for move in moves),
        "compiled_ratio": blocks._library() is not None,
    }
    if target is not None:
        result["target_cpu_s"] = target
        result["met"] = cpu <= target
    return result


def plain(n: int = 100) -> dict[str, object]:
    """The full matrix with difflib and the three states in Python, on the head of ``different``."""
    sys.path.insert(0, str(ROOT / "tests" / "align"))
    from slow import slow_align  # type: ignore[import-not-found]

    from afnb.align.aligning import align_words
    from afnb.align.params import AlignParams

    a, b = (side[:n] for side in different(1000))
    align_words(a[:2], b[:2], AlignParams())
    start = time.process_time()
    slow = slow_align(a, b, AlignParams())
    middle = time.process_time()
    fast = align_words(a, b, AlignParams())
    end = time.process_time()
    return {
        "steps": n,
        "plain_cpu_s": round(middle - start, 3),
        "afnb_cpu_s": round(end - middle, 4),
        "ratio": round((middle - start) / max(end - middle, 1e-6), 1),
        "equal": slow == fast,
    }


def installed() -> bool:
    """Whether the ``fast`` extra is there."""
    return importlib.util.find_spec("difflib_fast") is not None


def revision() -> str:
    found = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="also the large cases")
    parser.add_argument("--case", action="append", help="only this case, in this process")
    parser.add_argument("--plain", action="store_true", help="leave the compiled ratio of the extra aside")
    parser.add_argument("--out", help="write the document to this file too")
    args = parser.parse_args(argv)
    if args.case:
        for name in args.case:
            print(json.dumps(measure(name, fast=not args.plain)))
        return 0
    results = []
    for name in [*CASES, *(FULL if args.full else {})]:
        for plain_ratio in [True] if args.plain or not installed() else [True, False]:
            command = [sys.executable, __file__, "--case", name, *(["--plain"] if plain_ratio else [])]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
            results.append(json.loads(done.stdout))
            print(done.stdout.strip(), file=sys.stderr)
    document = {
        "benchmark": "p3_align",
        "command": "python benchmarks/speed/p3_align.py" + (" --full" if args.full else ""),
        "revision": revision(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "plain_at_100": plain(),
        "cases": results,
    }
    text = json.dumps(document, indent=1) + "\n"
    print(text, end="")
    if args.out:
        Path(args.out).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
