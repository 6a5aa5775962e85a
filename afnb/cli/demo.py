"""``afnb demo``: a bundled failing run, from file to verdict, without file, key or network."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afnb.cli.options import add_command, jobs, whole
from afnb.cli.show import document, print_page, to_json, write_text
from afnb.core.page import Bars, Facts, Heading, Page, Part, Text, Timeline

if TYPE_CHECKING:
    from afnb.experiments.demo import Demo

AS_TOLD, OTHERWISE = 0, 1


def add_parser(commands: Any) -> None:
    """Arguments of ``demo``."""
    parser = add_command(
        commands,
        "demo",
        run,
        help="run bundled failing runs through diff and attribution against a simulated provider",
        usage="[options]",
        example="afnb demo --out afnb-demo",
    )
    parser.add_argument(
        "--out", metavar="DIR", default="afnb-demo", help="folder for report and figures (default afnb-demo)"
    )
    parser.add_argument("--n-jobs", metavar="N", type=jobs, default=2, help="replays at a time (default 2)")
    parser.add_argument("--seed", metavar="N", type=whole, default=1, help="seed of all replays (default 1)")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document (versioned), nothing else"
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo, print its page, write report and figures."""
    from afnb.experiments.demo import run_demo
    from afnb.tables.schemas import SCHEMA_VERSION

    demo = run_demo(n_jobs=args.n_jobs, seed=args.seed)
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    results = {"cause": demo.cause, "no_cause": demo.no_cause, "undecided": demo.undecided}
    told_json = {name: json.loads(to_json(r)) for name, r in results.items()}
    whole_json = json.dumps({"afnb": "demo", "schema_version": SCHEMA_VERSION, **told_json})
    write_text(folder / "result.json", whole_json + "\n")
    write_text(folder / "report.html", document(*(r.page() for r in (demo.diff, *results.values()))))
    draw(demo, folder)
    if args.json:
        print(whole_json)
    else:
        print_page(page(demo, str(folder), args.seed))
    told = (demo.cause.label, demo.no_cause.label, demo.undecided.label) == (
        "verified",
        "verified",
        "Unverified",
    )
    if not told:
        print(
            "afnb demo: with this seed the replays did not give all three verdicts; try another",
            file=sys.stderr,
        )
    return AS_TOLD if told else OTHERWISE


def page(demo: Demo, folder: str, seed: int) -> Page:
    """The demonstration on one page: three questions, three honest answers."""
    parts: list[Part] = [
        Text(
            "Failing runs of small agents, re-run against a simulated provider: recorded answers up to the "
            "changed step, live ones after it, beside a control arm that changes nothing."
        ),
        *(part for part in demo.diff.page().parts if isinstance(part, Timeline)),
    ]
    told = (
        ("1. A cause", demo.cause),
        ("2. Not a cause", demo.no_cause),
        ("3. Undecided", demo.undecided),
    )
    for title, result in told:
        found = result.page()
        badge = f" ({found.badge.text})" if found.badge else ""
        parts.append(Heading(f"{title}{badge}"))
        parts.append(Text(found.title, "quiet"))
        parts.extend(next([part] for part in found.parts if isinstance(part, Text)))
        parts.extend([part for part in found.parts if isinstance(part, Bars)][:1])
    where = [("report", f"{folder}/report.html"), ("figures", f"{folder}/*.png")]
    drawn = ("seed", f"{seed}; another one draws other replays, and may well decide the third question")
    parts.append(Facts((*where, drawn)))
    return Page("afnb demo", None, tuple(parts), ("afnb diff BAD --against GOOD", "afnb attribute --help"))


def draw(demo: Demo, folder: Path) -> None:
    """Write the figures."""
    from afnb import plot

    experiment = demo.cause.confirmations[0] if demo.cause.confirmations else demo.cause.experiments_run[0]
    for name, function, source, high in (
        ("alignment", plot.alignment, demo.diff, 4.6),
        ("replays", plot.replays, experiment, 2.4),
        ("evidence", plot.evidence, experiment, 4.0),
    ):
        figure, ax = plot.figure((7.2, high))
        function(source, ax)
        figure.savefig(folder / f"{name}.png", dpi=150)
