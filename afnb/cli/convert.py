"""``afnb convert IN OUT``: a recording in another format, as a new file."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from afnb.cli.options import add_command, add_matching, add_redaction, matching_of, redaction_of

TARGETS = ("cassette", "vcr", "trace", "eventlog")


def add_parser(commands: Any) -> None:
    """Arguments of ``convert``."""
    parser = add_command(
        commands,
        "convert",
        run,
        help="write a recording in another format, as a new file (from VCR.py YAML to a cassette, and back; "
        "steps as a trace)",
        usage="IN OUT [options]",
        example="afnb convert tests/cassettes/agent.yaml agent.json",
    )
    parser.add_argument("source", metavar="IN", help="any file that afnb loads")
    parser.add_argument("out", metavar="OUT", help="the new file; none is ever overwritten")
    parser.add_argument(
        "--to", choices=TARGETS, help="format (default: by the ending of OUT: .json, .yaml, .jsonl)"
    )
    parser.add_argument("--run-id", metavar="ID", help="which run, for a file that holds several")
    parser.add_argument("--outcome", choices=("pass", "fail", "unknown"), help="how the run ended")
    parser.add_argument("--task", metavar="TEXT", help="what the agent was asked to do")
    add_redaction(parser)
    add_matching(parser)


def run(args: argparse.Namespace) -> int:
    """Convert one file."""
    from afnb.io.convert import convert

    done = convert(
        args.source,
        args.out,
        to=args.to,
        run_id=args.run_id,
        outcome=args.outcome,
        task=args.task,
        redaction=redaction_of(args),
        matching=matching_of(args),
    )
    for note in done.notes:
        print(f"afnb convert: {note}", file=sys.stderr)
    print(f"afnb convert: wrote {done.path} ({done.format})", file=sys.stderr)
    return 0
