"""``afnb recover X.json``: close a recording that a crash cut off."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from afnb.cli.options import add_command


def add_parser(commands: Any) -> None:
    """Arguments of ``recover``."""
    parser = add_command(
        commands,
        "recover",
        run,
        help="close a recording that was cut off (kill -9, a crash): its journal becomes the cassette",
        usage="RECORDING",
        example="afnb recover run.json",
    )
    parser.add_argument("recording", metavar="RECORDING", help="the cassette that was to be written")


def run(args: argparse.Namespace) -> int:
    """Close one journal."""
    from afnb.io.convert import close_journal

    found = close_journal(args.recording)
    for warning in found.warnings:
        print(f"afnb recover: {warning.message}", file=sys.stderr)
    tools = f", {len(found.tool_exchanges)} tool exchanges" if found.tool_exchanges else ""
    print(f"afnb recover: {len(found)} exchanges{tools} in {found.source}", file=sys.stderr)
    return 0
