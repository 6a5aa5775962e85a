"""``main``: choose a command, run it, and turn whatever happens into one sentence and an exit status.

Exit statuses: 0 and 1 are a command's answer, 2 is trouble (bad arguments, unreadable files, an agent
that cannot start), 3 a spent budget of a batch, 130 an interrupt. ``record`` and ``replay`` pass on the
agent's own status.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from afnb.core.legible import one_line
from afnb.errors import AfnbError

COMMANDS = (
    "demo",
    "validate",
    "diff",
    "record",
    "recover",
    "replay",
    "attribute",
    "what_if",
    "locate",
    "plan",
    "batch",
    "report",
    "convert",
    "mcp",
)

TROUBLE = 2
INTERRUPTED = 130
BROKEN_PIPE = 141

DESCRIPTION = "Find the step that made an AI agent fail, by experiment."
EPILOG = """start here:
  afnb demo                                   a bundled failing run, from file to verdict
  afnb diff bad.json --against good.json      where two runs part
"""


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is one sentence on stderr, and exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments and where the help is."""
        raise Usage(f"{self.prog}: {message}; see: {self.prog} --help")


class Usage(Exception):
    """The arguments make no sense; the text is complete."""


def build_parser() -> argparse.ArgumentParser:
    """The parser with every command's own arguments."""
    from afnb import __version__

    parser = Parser(
        prog="afnb",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"afnb {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for name in COMMANDS:
        importlib.import_module(f"afnb.cli.{name}").add_parser(commands)
    return parser


def split_command(argv: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Our own arguments, and the agent's command after the first ``--`` (None without one).

    Examples
    --------
    >>> split_command(["replay", "x.json", "--", "python", "agent.py", "--", "-v"])
    (['replay', 'x.json'], ['python', 'agent.py', '--', '-v'])
    """
    if "--" not in argv:
        return list(argv), None
    cut = list(argv).index("--")
    return list(argv[:cut]), list(argv[cut + 1 :])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; no traceback reaches the user.

    Parameters
    ----------
    argv
        The arguments; those of the process if None.

    Returns
    -------
    int
        The exit status (see the module's words).
    """
    _forgiving_streams()
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            _flush()
    except BrokenPipeError:
        _silence()
        return BROKEN_PIPE


def _run(argv: Sequence[str]) -> int:
    own, command = split_command(argv)
    hint = ""
    try:
        args, left = build_parser().parse_known_args(own)
        args.command_line = command
        hint = getattr(args, "resume_hint", "")
        _check_rest(args, left)
        return int(args.run(args))
    except SystemExit as stop:  # --help and --version end so
        return stop.code if isinstance(stop.code, int) else TROUBLE
    except Usage as wrong:
        return _trouble(str(wrong))
    except AfnbError as error:
        return _trouble(f"afnb: {error}")
    except KeyboardInterrupt:
        _say(f"afnb: interrupted; {hint or 'nothing of this command was kept, run it again'}")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        return _trouble(f"afnb: {where}{error.strerror or error}")
    except Exception as error:
        if os.environ.get("AFNB_TRACEBACK"):
            raise
        kind = type(error).__name__
        return _trouble(
            f"afnb: unexpected {kind}: {error}; this is a defect of afnb, set AFNB_TRACEBACK=1 to see where"
        )


def _check_rest(args: argparse.Namespace, left: Sequence[str]) -> None:
    """Refuse what the command's parser did not take, and an agent's command that is missing or not wanted."""
    command, wanted = args.command_line, getattr(args, "takes_command", False)
    help = f"see: {args.prog} --help"
    if left and wanted and command is None and any(not word.startswith("-") for word in left):
        raise Usage(
            f"{args.prog}: unrecognized arguments: {' '.join(left)}; the agent's command follows --, "
            f"as in: {args.prog} [options] -- CMD ARGS...; {help}"
        )
    if left:
        raise Usage(f"{args.prog}: unrecognized arguments: {' '.join(left)}; {help}")
    if command is not None and not wanted:
        raise Usage(f"{args.prog}: it starts no agent, so nothing may follow --; {help}")
    if wanted and not command:
        raise Usage(f"{args.prog}: the agent's command is missing; end with: -- CMD ARGS...; {help}")


def _trouble(sentence: str) -> int:
    _say(sentence)
    return TROUBLE


def _say(sentence: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(one_line(sentence, 2000), file=sys.stderr, flush=True)


def _forgiving_streams() -> None:
    """Let a terminal that cannot show a sign show a stand-in, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and (stream.encoding or "").lower().replace("-", "") != "utf8":
            with contextlib.suppress(OSError, ValueError):
                reconfigure(errors="replace")


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _silence() -> None:
    """Point stdout nowhere, so that the interpreter's own last flush stays quiet."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
