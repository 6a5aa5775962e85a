"""Shares with intervals from the kept rows, and the figures that must hold beside what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

import afnb
from afnb.causal.interval import wilson
from afnb.causal.planning import Forecast, forecast
from benchmarks.planted.measure import Row
from benchmarks.planted.rules import fisher_power
from benchmarks.planted.scenarios import CELLS, POLICY

RULE_NAMES = ("sequential", "majority", "fisher", "last-bad-step", "random")
BINS = ("at most 0", "below 0.25", "0.25 to 0.5", "0.5 to 0.75", "0.75 and more")
FISHER_REPLAYS = 46
BARE = 0.05
UPPER = 0.065
MOST_Z = 3.5
"""Forty-eight figures are compared; one in a hundred such tables has a larger difference by chance."""


@dataclass(frozen=True)
class Share:
    """So many of so many, with Wilson's 95 % interval."""

    k: int
    n: int

    @property
    def rate(self) -> float:
        """The share; nan of nothing."""
        return self.k / self.n if self.n else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval."""
        return wilson(self.k, self.n) or (0.0, 1.0)

    def text(self) -> str:
        """``0.031 (0.02 to 0.05), 31 of 1,000``."""
        if not self.n:
            return "-"
        low, high = self.interval
        return f"{self.rate:.3f} ({low:.3f} to {high:.3f}), {self.k:,} of {self.n:,}"

    def short(self) -> str:
        """``0.031`` or ``-``."""
        return f"{self.rate:.3f}" if self.n else "-"


def share(
    rows: Iterable[Row], is_true: Callable[[Row], bool], among: Callable[[Row], bool] | None = None
) -> Share:
    """How many of the rows (that count) are so."""
    counted = [row for row in rows if among is None or among(row)]
    return Share(sum(is_true(row) for row in counted), len(counted))


def effect_bin(effect: float) -> str:
    """Which of the bins an effect belongs to."""
    if effect <= 1e-9:
        return BINS[0]
    return BINS[1 + sum(effect >= edge - 1e-9 for edge in (0.25, 0.5, 0.75))]


def average(rows: Sequence[Row], key: str) -> float:
    """Mean of a column; nan of nothing."""
    return mean(row[key] for row in rows) if rows else math.nan


def false_recovered(rows: Iterable[Row]) -> Share:
    """`recovered` said though nothing named helps, among the rows where that was possible."""
    return share(rows, lambda r: r["false_recovered"], lambda r: r["can_be_false_recovered"])


def false_not_recovered(rows: Iterable[Row]) -> Share:
    """`not_recovered` said though the effect is at least min_effect, where that was possible."""
    return share(rows, lambda r: r["false_not_recovered"], lambda r: r["can_be_false_not_recovered"])


# -- the rule by itself --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One pair of rates: what the engine did, and what exact computation says."""

    patch: float
    control: float
    rows: list[Row]
    exact: Forecast

    def share(self, verdict: str) -> Share:
        """How often this verdict was given."""
        return share(self.rows, lambda row: row["verdict"] == verdict)

    def expected(self, verdict: str) -> float:
        """How often it should be."""
        found: float = getattr(self.exact, verdict)
        return found

    def z(self, verdict: str) -> float:
        """Standard errors between the two; 0 where both are the same."""
        found, exact = self.share(verdict), self.expected(verdict)
        error = math.sqrt(max(exact * (1 - exact), 1e-12) / max(found.n, 1))
        return 0.0 if abs(found.rate - exact) < 1e-9 else (found.rate - exact) / max(error, 1e-9)

    @property
    def mean_z(self) -> float:
        """Standard errors between the mean replays and the exact mean."""
        exact = self.exact
        variance = sum(p * (n - exact.mean) ** 2 for n, p in enumerate(exact.replays))
        off = average(self.rows, "replays") - exact.mean
        return 0.0 if abs(off) < 1e-9 else off / math.sqrt(max(variance, 1e-12) / len(self.rows))

    @property
    def median(self) -> float:
        """Median replays."""
        return median(row["replays"] for row in self.rows)


def cells(rows: Sequence[Row]) -> list[Cell]:
    """The table of the rule, cell by cell."""
    rule = afnb.SequentialConsensus()
    found = []
    for patch, control in CELLS:
        here = [row for row in rows if (row["patch"], row["control"]) == (patch, control)]
        if here:
            found.append(Cell(patch, control, here, forecast(rule, patch, control)))
    return found


# -- what must hold ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """One requirement, what was measured, and whether it holds; None where nothing was measured."""

    wanted: str
    measured: str
    holds: bool | None


Tables = dict[str, list[Row]]


def must_hold(tables: Tables) -> list[Claim]:
    """Every figure that must hold, beside what was measured."""
    attributions = [row for row in tables["attributions"] if row["rule"] == "sequential"]
    return [
        *error_claims(attributions),
        *rule_claims(cells(tables["cells"])),
        *ten_claims(attributions),
        *cost_claims([row for row in tables["what_if"] if row["rule"] == "sequential"]),
        *policy_claims(tables["policy"]),
        *locate_claims(tables["locate"]),
        *(sdk_claim(row) for row in tables["sdk"]),
    ]


def error_claims(rows: Sequence[Row]) -> list[Claim]:
    """False verdicts over whole attributions."""
    found = []
    for name, counted in (
        ("`recovered`", false_recovered(rows)),
        ("`not_recovered`", false_not_recovered(rows)),
    ):
        wanted = (
            f"false {name} over at least 1,000 attributions: at most {BARE:.0%}, upper 95 % bound {UPPER:.1%}"
        )
        holds = counted.n >= 1000 and counted.rate <= BARE and counted.interval[1] <= UPPER
        found.append(Claim(wanted, counted.text(), holds))
    return found


def rule_claims(found: Sequence[Cell]) -> list[Claim]:
    """The rule's table, and `what_if` at 0.9 against 0.1."""
    if not found:
        return []
    verdicts = ("recovered", "not_recovered", "unverified")
    worst = max(abs(cell.z(verdict)) for cell in found for verdict in verdicts)
    costs = max(abs(cell.mean_z) for cell in found)
    text = (
        f"differences up to {worst:.1f} standard errors (shares), {costs:.1f} (means), in {len(found)} cells"
    )
    claims = [
        Claim(
            "the rule's exact table, through the engine, within Monte Carlo error",
            text,
            max(worst, costs) < MOST_Z,
        )
    ]
    for cell in found:
        if (cell.patch, cell.control) == (0.9, 0.1):
            power = cell.share("recovered")
            wanted = "`what_if` at 0.9 against 0.1: power at least 0.95, median at most 8 replays"
            text = f"power {power.text()}; median {cell.median:g}, mean {average(cell.rows, 'replays'):.1f}"
            claims.append(Claim(wanted, text, power.rate >= 0.95 and cell.median <= 8))
        if (cell.patch, cell.control) == (1.0, 0.0):
            claims.append(Claim("clean cause: median 6 replays", f"median {cell.median:g}", cell.median <= 6))
    return claims


def ten_claims(rows: Sequence[Row]) -> list[Claim]:
    """Ten candidates, patch rate at least 0.9, control at most 0.1."""
    claims, replays = [], []
    for family, least in (("ten-single", 0.9), ("ten-double", 0.8)):
        here = [row for row in rows if row["family"] == family]
        exact = share(here, lambda row: row["exact"])
        replays += [row["replays"] for row in here]
        wanted = f"`attribute`, ten candidates, {family.split('-')[1]} cause: exact at least {least:g}"
        text = f"{exact.text()}; mean {average(here, 'replays'):.1f} replays"
        claims.append(Claim(wanted, text, exact.rate >= least if here else None))
    cost = mean(replays) if replays else math.nan
    claims.append(Claim("the same: mean of at most 70 replays", f"{cost:.1f} over both", cost <= 70))
    return claims


def fisher_of_equal_power(rows: Sequence[Row]) -> int:
    """Replays of both arms of a fixed design that is as powerful as these experiments were.

    Their power is taken where the effect is at least 0.5 and below 0.75, the design's at 0.75 against 0.25.
    """
    power = share(
        rows, lambda row: row["verdict"] == "recovered", lambda row: effect_bin(row["effect"]) == BINS[3]
    )
    for n in range(3, FISHER_REPLAYS // 2):
        if fisher_power(0.75, 0.25, n) >= (power.rate if power.n else 1.0):
            return 2 * n
    return FISHER_REPLAYS


def cost_claims(rows: Sequence[Row]) -> list[Claim]:
    """Replays against the fixed design."""
    if not rows:
        return []
    used, decided = average(rows, "replays"), share(rows, lambda row: row["verdict"] != "unverified")
    if not decided.k:
        return []
    each, equal = used / decided.rate, fisher_of_equal_power(rows)
    text = (
        f"{used:.1f} replays an experiment; {decided.rate:.2f} of them decided, so {each:.1f} a verdict: "
        f"{each / FISHER_REPLAYS:.2f} of {FISHER_REPLAYS} (power 0.95 at the smallest effect that matters), "
        f"{each / equal:.2f} of {equal} (as powerful as this rule was)"
    )
    wanted = "replays per verdict: at most 0.7 of a fixed design's, at equal power"
    return [Claim(wanted, text, each / equal <= 0.7)]


def policy_claims(rows: Sequence[Row]) -> list[Claim]:
    """The twenty-step policy: exact with the good run at hand, and never wrong by either verb."""
    claims = []
    for chance, repair in POLICY:
        counts = {}
        for verb in ("attribute", "locate"):
            here = [r for r in rows if (r["verb"], r["chance"], r["repair"]) == (verb, chance, repair)]
            exact = sum(row["exact"] and row["label"] == "verified" for row in here)
            counts[verb] = exact, sum(r["claim"] == "recovered" and not r["exact"] for r in here), len(here)
        exact, wrong, n = counts["attribute"]
        if not n:
            continue
        elsewhere = counts["locate"][1]
        wanted = (
            f"twenty-step policy ({chance:g}, {repair:g}), `attribute`: 14 of 20 exact and verified, "
            "at most 1 wrong and verified"
        )
        text = f"{exact} of {n} exact, {wrong} wrong; without the good run (`locate`) " + (
            f"{counts['locate'][0]} of {counts['locate'][2]} exact, {elsewhere} wrong"
        )
        claims.append(Claim(wanted, text, exact >= 14 * n / 20 and max(wrong, elsewhere) <= n / 20))
    return claims


def locate_claims(rows: Sequence[Row]) -> list[Claim]:
    """One drop among two hundred answers."""
    here = [
        r
        for r in rows
        if r["n"] == 200 and r["mode"] == "bisect" and r["before"] >= 0.9 and r["after"] <= 0.1
    ]
    if not here:
        return []
    near, cost = share(here, lambda row: row["within_1"]), average(here, "replays")
    wanted = (
        "`locate` among 200 answers, rates at least 0.9 and at most 0.1: within 1 in 0.9, "
        "mean at most 35 replays"
    )
    text = f"within 1 {near.text()}; mean {cost:.1f} replays (a curve at 20 a place: {201 * 20:,})"
    return [Claim(wanted, text, near.rate >= 0.9 and cost <= 35)]


def sdk_claim(row: Row) -> Claim:
    """A planted agent on an official SDK."""
    text = (
        f"`what_if` {row['what_if']}, `attribute` {row['attribute']} {row['named']}, {row['replays']} replays"
    )
    return Claim(
        f"planted agent on the {row['sdk']} SDK, as a subprocess: the cause found", text, row["exact"]
    )


# -- calibration ---------------------------------------------------------------------------------------

LEVELS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


def stated_errors(tables: Tables) -> list[tuple[float, bool]]:
    """For every experiment without an effect: each level alpha, and whether an e-value reached 1/alpha."""
    rows: list[dict[str, Any]] = [row for row in tables["cells"] if row["effect"] <= 1e-9]
    rows += [r for r in tables["what_if"] if r["rule"] == "sequential" and r["effect"] <= 1e-9]
    return [(level, row["e_recovered"] >= 1 / level) for row in rows for level in LEVELS]


def stated_power(tables: Tables) -> list[tuple[float, bool]]:
    """For every experiment: the exact chance of `recovered` at its rates, and whether it was said.

    Experiments with lost replays, or held back by their self-check, are left out: the forecast is of neither.
    """
    rule = afnb.SequentialConsensus()
    found = []
    for row in tables["cells"]:
        chance = forecast(rule, row["patch"], row["control"]).recovered
        found.append((chance, row["verdict"] == "recovered"))
    for row in tables["what_if"]:
        if row["rule"] == "sequential" and not row["lost"] and not row["held_back"] and row["replays"]:
            rates = round(row["patch_rate"], 6), round(row["control_rate"], 6)
            chance = forecast(rule, min(max(rates[0], 0.0), 1.0), min(max(rates[1], 0.0), 1.0)).recovered
            found.append((chance, row["verdict"] == "recovered"))
    return [(min(max(chance, 0.0), 1.0), happened) for chance, happened in found]
