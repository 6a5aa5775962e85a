"""Draw ``docs/gallery.md``: every card and plot, on the bundled data, beside the code that makes it.

Run from anywhere: ``python docs/make_gallery.py``. Needs a ``chromium`` on the path for the cards.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

from make_images import photograph  # noqa: E402

from afnb import plot  # noqa: E402

IMAGES = DOCS / "images" / "gallery"

SETUP = """\
import afnb
from afnb.experiments.demo import bundled

refund, trip, report = (bundled(name) for name in ("refund", "trip", "report"))


def with_agent(pair):
    settings = {"agent": pair.agent, "upstream": pair.upstream(), "allow_tools": pair.tools}
    return settings | {"oracle": pair.oracle, "progress": False}"""


@dataclass(frozen=True)
class Picture:
    """One picture: its name, heading, what it shows, the code; a card, or a plot of a height in inches."""

    name: str
    heading: str
    words: str
    code: str
    high: float | None = None


CARDS = (
    Picture("recording", "A recording", "What was asked and answered, and which tools ran.", "refund.bad"),
    Picture(
        "diff",
        "A diff",
        "Sameness recedes, the fork stands out; below it the fields that differ there.",
        "afnb.diff(refund.bad, refund.good)",
    ),
    Picture(
        "not_comparable",
        "Two runs that share nothing",
        "A value with its reason, no exception.",
        "afnb.diff(refund.bad, trip.good)",
    ),
    Picture(
        "plan",
        "A plan",
        "What an experiment will take, in the median and at most, before anything starts.",
        "afnb.plan(refund.bad, intervention=4)",
    ),
    Picture(
        "experiment",
        "A what-if",
        "One answer changed, both arms, the evidence, what was and was not shown.",
        "afnb.what_if(report.bad, afnb.Graft(0), good=report.good, **with_agent(report))",
    ),
    Picture(
        "attribution",
        "An attribution",
        "The step whose change repairs the run, confirmed on fresh replays.",
        "afnb.attribute(refund.bad, refund.good, **with_agent(refund))",
    ),
    Picture(
        "location",
        "Without a good run",
        "The step at which the run stops recovering.",
        "afnb.locate(refund.bad, **with_agent(refund))",
    ),
    Picture(
        "validation",
        "Event logs, checked",
        "Which runs are malformed, where, by which rule.",
        'afnb.validate(afnb.read_events("data/logs/*.jsonl"))',
    ),
)
PLOTS = (
    Picture(
        "alignment",
        "Alignment",
        "The cost of pairing each step with each, and the path through it.",
        "afnb.plot.alignment(afnb.diff(trip.bad, trip.good))",
        4.6,
    ),
    Picture(
        "replays",
        "Replays per arm",
        "What became of every replay, used ones apart from those only started.",
        "afnb.plot.replays(afnb.attribute(refund.bad, refund.good, **with_agent(refund)).confirmations[0])",
        2.4,
    ),
    Picture(
        "evidence",
        "Evidence",
        "The e-value against the replays used, with its threshold.",
        "afnb.plot.evidence(afnb.what_if(report.bad, afnb.Graft(0), good=report.good, **with_agent(report)))",
        4.0,
    ),
    Picture(
        "recoverability",
        "Recoverability",
        "How often the run recovers when the recording answers through each place, with Wilson's intervals.",
        'afnb.plot.recoverability(afnb.locate(refund.bad, mode="curve", **with_agent(refund)))',
        3.6,
    ),
    Picture(
        "divergence",
        "Where runs part",
        "Over many pairs; one tick a pair, the median marked.",
        "afnb.plot.divergence([afnb.diff(p.bad, p.good) for p in (refund, trip, report)])",
        3.0,
    ),
    Picture(
        "deltas",
        "What failing runs took",
        "Tokens, bad minus good, one point per pair.",
        "afnb.plot.deltas([afnb.diff(p.bad, p.good) for p in (refund, trip, report)])",
        3.0,
    ),
)


def scope() -> dict[str, Any]:
    """The names that every snippet uses."""
    names: dict[str, Any] = {}
    exec(SETUP, names)
    return names


def drawn(picture: Picture, names: dict[str, Any]) -> None:
    """Draw one picture by running its code."""
    out = IMAGES / f"{picture.name}.png"
    if picture.high is None:
        photograph(eval(picture.code, names).page(), out, width=860)
        return
    figure, ax = plot.figure((7.2, picture.high))
    on(ax, picture, names)
    figure.savefig(out, dpi=130, metadata={"Software": None})


def on(ax: Any, picture: Picture, names: dict[str, Any]) -> Any:
    """Run the code of a plot so that it draws on these axes."""
    inside = re.fullmatch(r"afnb\.plot\.(\w+)\((.*)\)", picture.code, re.DOTALL)
    assert inside is not None
    return eval(f"afnb.plot.{inside[1]}({inside[2]}, ax=ax)", {**names, "ax": ax})


def render() -> str:
    """The page."""
    lines = [
        "# Gallery",
        "",
        "Every picture is made by `python docs/make_gallery.py`, which runs the code above it on the bundled",
        "data. Their model is simulated.",
        "",
        "```python",
        SETUP,
        "```",
    ]
    for heading, pictures in (("Cards", CARDS), ("Plots", PLOTS)):
        lines += ["", f"## {heading}"]
        for picture in pictures:
            lines += [
                "",
                f"### {picture.heading}",
                "",
                picture.words,
                "",
                "```python",
                picture.code,
                "```",
                "",
                f"![{picture.heading}: {picture.words}](images/gallery/{picture.name}.png)",
            ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Draw them all and write the page."""
    os.chdir(DOCS.parent)
    IMAGES.mkdir(parents=True, exist_ok=True)
    names = scope()
    for picture in (*CARDS, *PLOTS):
        drawn(picture, names)
    (DOCS / "gallery.md").write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
