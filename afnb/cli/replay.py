"""``afnb replay X.json -- CMD``: run an agent against a recording."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from afnb.cli.options import add_agent, add_command, agent_of, whole
from afnb.cli.record import pass_on
from afnb.cli.show import add_output, show

NOTHING_SERVED = 2


def add_parser(commands: Any) -> None:
    """Arguments of ``replay``."""
    parser = add_command(
        commands,
        "replay",
        run,
        help="run an agent against a recording (passes on the agent's exit status; 2 if nothing was served)",
        usage="RECORDING [options] -- CMD ARGS...",
        example="afnb replay run.json -- python agent.py",
        takes_command=True,
    )
    parser.add_argument("recording", metavar="RECORDING", help="the cassette that answers")
    parser.add_argument(
        "--upstream",
        metavar="URL",
        help="who answers what the recording does not (default: nobody, it is refused)",
    )
    parser.add_argument("--save", metavar="FILE", help="write the whole re-run as a new cassette")
    parser.add_argument(
        "--seed", metavar="N", type=whole, default=0, help="AFNB_SEED of the agent (default 0)"
    )
    add_agent(parser)
    add_output(parser, folder=False)


def run(args: argparse.Namespace) -> int:
    """Replay one run."""
    import afnb
    from afnb.experiments.record import shell_status
    from afnb.io.files import refuse_existing
    from afnb.io.formats.cassette import write_cassette

    if args.save:
        refuse_existing(args.save)
    found = afnb.replay(args.recording, agent=agent_of(args), upstream=args.upstream, seed=args.seed)
    pass_on(found.agent, aside=args.json)
    if args.save:
        write_cassette(found.recording, args.save)
    show(found, args)
    if not found.report.served:
        names = " or ".join(args.base_url_env or ("OPENAI_BASE_URL",))
        print(
            f"afnb replay: nothing of {args.recording} was served: does the agent read {names}?",
            file=sys.stderr,
        )
        return NOTHING_SERVED
    return shell_status(found.agent)
