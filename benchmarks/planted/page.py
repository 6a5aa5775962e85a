"""``docs/planted.md`` and its picture, from the kept results alone; nothing on that page is typed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from afnb import plot
from benchmarks.planted import results, score
from benchmarks.planted.measure import Row
from benchmarks.planted.page_text import (
    ASKED_TEXT,
    CALIBRATION_TEXT,
    CELLS_TEXT,
    FAMILIES,
    OPENING,
    POLICY_TEXT,
    SIDE_TEXT,
)
from benchmarks.planted.score import Share, Tables, average, effect_bin, share

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "planted.md"
PICTURE = ROOT / "docs" / "images" / "calibration.png"


def tables() -> Tables:
    """All kept tables."""
    return {name: results.read(name) for name in results.TABLES}


def write() -> None:
    """Write the page and draw its picture."""
    found = tables()
    DOCUMENT.write_text(render(found, results.about()), encoding="utf-8")
    draw(found)


def render(found: Tables, about: dict[str, object]) -> str:
    """The whole page."""
    parts = [
        opening(found, about),
        "## What must hold\n\n" + claims(found),
        "## The rule by itself\n\n" + CELLS_TEXT + cells(found["cells"]),
        "## One question: `what_if`\n\n" + ASKED_TEXT + asked(found["what_if"]),
        "## Whole attributions: `attribute`\n\n" + SIDE_TEXT + side_by_side(found["attributions"]),
        "All attributions of the sequential rule, by what was planted:\n\n" + families(found["attributions"]),
        "By the effect of grafting every candidate (exact):\n\n" + by_effect(found["attributions"]),
        "By where a single cause stands:\n\n" + by_place(found),
        "Experiments inside them, each against the exact effect of its own two arms:\n\n"
        + inside(found["experiments"]),
        "## The twenty-step policy\n\n" + POLICY_TEXT + policy(found["policy"]),
        "## Without a good run: `locate`\n\n" + locate(found["locate"]),
        "## On official SDKs\n\n" + sdk(found["sdk"]),
        "## Calibration\n\n" + CALIBRATION_TEXT,
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def opening(found: Tables, about: dict[str, object]) -> str:
    """What was run, and what the words mean."""
    revisions = about["revisions"]
    assert isinstance(revisions, list)
    packages = about["packages"]
    assert isinstance(packages, dict)
    named = ", ".join(f"{name} {number}" for name, number in packages.items() if number)
    kinds = len({row["family"] for row in found["scenarios"]})
    return OPENING.format(
        scenarios=len(found["scenarios"]),
        families=kinds,
        command=about["command"],
        revisions=", ".join(f"`{text[:12]}{text[40:]}`" for text in revisions),
        python=about["python"],
        machine=about["machine"],
        packages=named,
    )


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def number(value: float, digits: int = 1) -> str:
    """A plain number, or a dash."""
    return "-" if math.isnan(value) else f"{value:,.{digits}f}"


def claims(found: Tables) -> str:
    """The list of requirements."""
    rows = [
        (claim.wanted, claim.measured, {True: "yes", False: "**no**", None: "not measured"}[claim.holds])
        for claim in score.must_hold(found)
    ]
    return table(("required", "measured", "holds"), rows)


def cells(rows: Sequence[Row]) -> str:
    """The rule's table."""
    lines = []
    for cell in score.cells(rows):
        shares = [
            f"{cell.share(verdict).rate:.3f} / {cell.expected(verdict):.3f}"
            for verdict in ("recovered", "not_recovered", "unverified")
        ]
        cost = f"{average(cell.rows, 'replays'):.1f} / {cell.exact.mean:.1f}"
        middle = f"{cell.median:g} / {cell.exact.median:g}"
        lines.append((f"{cell.patch:g}, {cell.control:g}", f"{len(cell.rows):,}", *shares, cost, middle))
    head = (
        "rates (patch, control)",
        "n",
        "`recovered`",
        "`not_recovered`",
        "`unverified`",
        "mean replays",
        "median",
    )
    return "Each cell: measured / exact.\n\n" + table(head, lines)


HEAD = ("n", "`recovered`", "`not_recovered`", "`unverified`", "false `recovered`", "false `not_recovered`")


def verdicts(rows: Sequence[Row], key: str) -> list[str]:
    """Number of rows, shares of the verdicts, false ones."""

    def of(verdict: str) -> Share:
        return share(rows, lambda row: row[key] == verdict)

    return [
        f"{len(rows):,}",
        *(of(verdict).short() for verdict in ("recovered", "not_recovered", "unverified")),
        score.false_recovered(rows).short(),
        score.false_not_recovered(rows).short(),
    ]


def asked(rows: Sequence[Row]) -> str:
    """`what_if`, by effect and rule."""
    lines = []
    for name in (*score.BINS, "all"):
        for rule in score.RULE_NAMES[:3]:
            here = [r for r in rows if r["rule"] == rule and name in ("all", effect_bin(r["effect"]))]
            if here:
                cost = [number(average(here, key)) for key in ("replays", "live_calls")]
                per = share(here, lambda row: row["verdict"] != "unverified")
                each = number(average(here, "replays") / per.rate if per.k else math.nan)
                lines.append(
                    (name, rule, *verdicts(here, "verdict"), *cost, each, number(average(here, "wall_s"), 2))
                )
    head = ("effect", "rule", *HEAD, "replays", "live calls", "replays per verdict", "seconds")
    return table(head, lines)


def common(rows: Sequence[Row]) -> list[Row]:
    """The attributions of scenarios and seeds that every rule was run on."""
    seen: dict[tuple[str, int], set[str]] = {}
    for row in rows:
        seen.setdefault((row["scenario"], row["seed"]), set()).add(row["rule"])
    return [row for row in rows if seen[row["scenario"], row["seed"]] >= set(score.RULE_NAMES)]


def side_by_side(rows: Sequence[Row]) -> str:
    """Five ways to name a step."""
    both = common(rows)
    counts: tuple[tuple[str, Callable[[Sequence[Row]], Share]], ...] = (
        ("false `recovered`", score.false_recovered),
        ("false `not_recovered`", score.false_not_recovered),
        ("exact, of those with something planted", exact_of),
        ("within 1", lambda here: share(here, lambda r: r["within_1"], lambda r: bool(r["planted"]))),
        ("unverified", lambda here: share(here, lambda r: r["claim"] == "unverified")),
    )
    lines = []
    for rule in score.RULE_NAMES:
        here = [row for row in both if row["rule"] == rule]
        if here:
            costs = [number(average(here, key), 1) for key in ("replays", "live_calls", "wall_s")]
            lines.append((rule, f"{len(here):,}", *(with_interval(of(here)) for _, of in counts), *costs))
    head = ("rule", "n", *(name for name, _ in counts), "replays", "live calls", "seconds")
    return table(head, lines)


def with_interval(found: Share) -> str:
    """``0.031 (0.02 to 0.05)``."""
    return f"{found.rate:.3f} ({found.interval[0]:.3f} to {found.interval[1]:.3f})" if found.n else "-"


def exact_of(rows: Sequence[Row]) -> Share:
    """Exact ones among those with something planted."""
    return share(rows, lambda r: r["exact"], lambda r: bool(r["planted"]))


def grouped(rows: Sequence[Row], group: Callable[[Row], str], names: Sequence[str], title: str) -> str:
    """Attributions of the sequential rule, a line a group."""
    lines = []
    for name in names:
        here = [row for row in rows if row["rule"] == "sequential" and group(row) == name]
        if here:
            costs = [number(average(here, key)) for key in ("replays", "live_calls")]
            lines.append((name, *verdicts(here, "claim"), exact_of(here).short(), *costs))
    return table((title, *HEAD, "exact", "replays", "live calls"), lines)


def families(rows: Sequence[Row]) -> str:
    """By family, in the design's order."""
    names = list(dict.fromkeys(row["family"] for row in rows))
    order = [name for name in FAMILIES if name in names]
    lines = "\n".join(f"- `{name}`: {FAMILIES[name]}" for name in order)
    return grouped(rows, lambda row: row["family"], order, "family") + "\n\n" + lines


def by_effect(rows: Sequence[Row]) -> str:
    """By the effect of all candidates."""
    return grouped(rows, lambda row: effect_bin(row["all_effect"]), score.BINS, "effect")


def by_place(found: Tables) -> str:
    """Early, middle, late."""
    places = {row["scenario"]: row["place"] for row in found["scenarios"]}
    chosen = [
        row for row in found["attributions"] if row["family"] in ("single", "told", "boundary", "ten-single")
    ]
    return grouped(chosen, lambda row: places[row["scenario"]], ("early", "middle", "late"), "place")


def inside(rows: Sequence[Row]) -> str:
    """Experiments by purpose."""
    lines = []
    for purpose in ("precondition", "search", "confirmation"):
        here = [r for r in rows if r["rule"] == "sequential" and r["purpose"] == purpose]
        if here:
            lines.append((purpose, *verdicts(here, "verdict"), number(average(here, "replays"))))
    return table(("purpose", *HEAD, "replays"), lines)


def policy(rows: Sequence[Row]) -> str:
    """The policy's table."""
    lines = []
    for verb in ("attribute", "locate"):
        for chance, repair in score.POLICY:
            here = [r for r in rows if (r["verb"], r["chance"], r["repair"]) == (verb, chance, repair)]
            if here:
                exact = sum(row["exact"] for row in here)
                wrong = sum(row["claim"] == "recovered" and not row["exact"] for row in here)
                costs = [number(average(here, key)) for key in ("replays", "live_calls")]
                lines.append((f"`{verb}`", f"{chance:g}", f"{repair:g}", len(here), exact, wrong, *costs))
    head = (
        "verb",
        "chance",
        "repair",
        "n",
        "exact and verified",
        "wrong and verified",
        "replays",
        "live calls",
    )
    return table(head, lines)


def locate(rows: Sequence[Row]) -> str:
    """`locate` by length and rates."""
    lines = []
    keys = dict.fromkeys((r["mode"], r["n"], r["before"], r["after"]) for r in rows)
    for key in sorted(keys, key=lambda k: (k[1], k[0], -k[2], k[3])):
        here = [r for r in rows if (r["mode"], r["n"], r["before"], r["after"]) == key]
        near, exact = share(here, lambda r: r["within_1"]), share(here, lambda r: r["exact"])
        covered = share(here, lambda r: r["covered"])
        wrong = sum(row["elsewhere"] for row in here)
        rates = f"{key[2]:g}, {key[3]:g}"
        costs = [number(average(here, name)) for name in ("replays", "live_calls")]
        lines.append(
            (
                f"`{key[0]}`",
                key[1],
                rates,
                len(here),
                exact.short(),
                near.short(),
                covered.short(),
                wrong,
                *costs,
            )
        )
    head = ("mode", "answers", "rates (before, after)", "n", "exact and verified", "within 1")
    return table((*head, "in the interval", "elsewhere and verified", "replays", "live calls"), lines)


def sdk(rows: Sequence[Row]) -> str:
    """The two SDKs."""
    lines = [
        (r["sdk"], r["what_if"], r["attribute"], r["attribute_label"], r["named"], r["planted"], r["replays"])
        for r in rows
    ]
    return table(("SDK", "`what_if`", "`attribute`", "label", "named", "planted", "replays"), lines)


def draw(found: Tables) -> None:
    """The calibration picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 4.9), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    plot.calibration(score.stated_power(found), left, bins=10)
    left.set_title("forecast of the verdict recovered", loc="left")
    plot.calibration(score.stated_errors(found), right, bins=20)
    right.set_title("errors by level alpha", loc="left")
    right.set_xlim(0.0, 0.55)
    right.set_ylim(-0.02, 0.55)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})
