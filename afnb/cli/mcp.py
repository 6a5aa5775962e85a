"""``afnb mcp -- SERVER``: stands between an MCP client and its stdio server, so that tools are seen."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from afnb.cli.options import add_command
from afnb.errors import ParameterError


def add_parser(commands: Any) -> None:
    """Arguments of ``mcp``."""
    parser = add_command(
        commands,
        "mcp",
        run,
        help="start an MCP server for an agent's client, over stdio, so that its tools are recorded and held "
        "back like wrapped ones (passes on the server's exit status)",
        usage="[options] -- SERVER ARGS...",
        example="afnb mcp --effect search=read -- uvx some-mcp-server",
        takes_command=True,
    )
    parser.add_argument(
        "--effect",
        metavar="TOOL=EFFECT",
        action="append",
        default=[],
        help="read, idempotent or write, where the server does not say so itself (default write; repeatable)",
    )
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="also append each message to this transcript (JSON lines; afnb loads it)",
    )


def run(args: argparse.Namespace) -> int:
    """Relay until the server ends."""
    from afnb.io.mcprelay import run_relay
    from afnb.io.tools import desk_of

    log = open(args.log, "ab") if args.log else None  # noqa: SIM115 - it is open as long as the relay runs
    try:
        effects = effects_of(args.effect)
        return run_relay(
            args.command_line,
            sys.stdin.buffer,
            sys.stdout.buffer,
            desk_of(os.path.basename(args.command_line[0])),
            effects=effects,
            log=log,
        )
    except FileNotFoundError:
        raise ParameterError(f"the server {args.command_line[0]!r} was not found") from None
    finally:
        if log is not None:
            log.close()


def effects_of(texts: list[str]) -> dict[str, str]:
    """``TOOL=EFFECT`` each.

    Raises
    ------
    ParameterError
        One is not of that form, or the effect does not exist.

    Examples
    --------
    >>> effects_of(["search=read"])
    {'search': 'read'}
    """
    from afnb.io.toolturn import EFFECTS

    found: dict[str, str] = {}
    for text in texts:
        name, _, effect = text.rpartition("=")
        if not name or effect not in EFFECTS:
            raise ParameterError(f"--effect {text!r} is not TOOL=EFFECT, with one of {', '.join(EFFECTS)}")
        found[name] = effect
    return found
