"""``afnb validate LOG...``: which runs of event logs are malformed, and where."""

from __future__ import annotations

import argparse
from typing import Any

from afnb.cli.options import add_command, jobs
from afnb.cli.show import add_output, show

WELL_FORMED, VIOLATIONS, UNREADABLE = 0, 1, 2


def add_parser(commands: Any) -> None:
    """Arguments of ``validate``."""
    parser = add_command(
        commands,
        "validate",
        run,
        help="check the shape of event logs (exit status 0 well formed, 1 violations, 2 unreadable)",
        usage="LOG... [options]",
        example="afnb validate logs/ 'archive/**/*.jsonl.gz'",
    )
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="+",
        help="a file (.jsonl, .json, .gz, .zst, .parquet, .arrow), a folder, or a pattern",
    )
    parser.add_argument(
        "--one-run-per-file",
        action="store_true",
        help="a second run in a file is a violation instead of a run of its own",
    )
    parser.add_argument(
        "--n-jobs",
        metavar="N",
        type=jobs,
        default=None,
        help="processes at a time (default: as many as the logs are worth; -1: one per core)",
    )
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Check, print, and say by the exit status what was found."""
    import afnb

    report = afnb.validate_files(args.logs, args.one_run_per_file, n_jobs=args.n_jobs)
    show(report, args)
    if report.errors:
        return UNREADABLE
    return VIOLATIONS if report.broken else WELL_FORMED
