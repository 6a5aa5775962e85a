"""``afnb report DIR``: the report of a batch from its folder, finished or not."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from afnb.cli.batch import REPORT, add_gates
from afnb.cli.options import add_command
from afnb.cli.show import print_page, to_json

PASSED, GATE_FAILED = 0, 1


def add_parser(commands: Any) -> None:
    """Arguments of ``report``."""
    parser = add_command(
        commands,
        "report",
        run,
        help="write the report of a batch from its folder (exit status 0, 1 a gate failed, 2 trouble)",
        usage="DIR [options]",
        example="afnb report nightly --out nightly.html --out nightly.md",
    )
    parser.add_argument("folder", metavar="DIR", help="the folder that afnb batch was given as --out")
    parser.add_argument(
        "--out",
        metavar="FILE",
        action="append",
        default=[],
        help=f"file to write, .html, .md or .json (repeatable; default DIR/{REPORT})",
    )
    add_gates(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document (versioned), nothing else"
    )


def run(args: argparse.Namespace) -> int:
    """Read the folder, write the report."""
    import afnb
    from afnb.experiments.gates import as_gate, failed_gates

    gates = [as_gate(text) for text in args.gate]
    batch = afnb.read_batch(args.folder)
    written = [batch.report(path) for path in args.out or [Path(args.folder) / REPORT]]
    if args.json:
        print(to_json(batch))
    else:
        print_page(replace(batch.page(), next=tuple(f"open {path}" for path in written)))
    for gate in gates:
        print(f"afnb report: gate {gate.sentence(batch.tally)}", file=sys.stderr)
    return GATE_FAILED if failed_gates(gates, batch.tally) else PASSED
