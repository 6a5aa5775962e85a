"""``python -m benchmarks.planted run | collect | page | all``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.planted import run

HERE = Path(__file__).resolve().parent


def main(argv: list[str] | None = None) -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted", description=__doc__)
    parser.add_argument("command", choices=("run", "collect", "page", "all"))
    parser.add_argument("--rows", type=Path, default=HERE / "rows", help="folder of finished measurements")
    parser.add_argument("--part", action="append", choices=run.PARTS, help="only this part; may be repeated")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds; run again to go on")
    parser.add_argument("--only", help="only measurements whose key holds this text")
    parser.add_argument("--mix", action="store_true", help="go on with rows of another revision")
    args = parser.parse_args(argv)
    if args.command in ("run", "all"):
        parts = tuple(args.part or run.PARTS)
        left = run.run(args.rows, parts=parts, seconds=args.seconds, mix=args.mix, only=args.only)
        print(f"{left} measurements are left")
        if left and args.command == "all":
            return 1
    if args.command in ("collect", "all"):
        from benchmarks.planted import results

        results.collect(args.rows)
    if args.command in ("page", "all"):
        from benchmarks.planted import page

        page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
