"""Print the tables that ``docs/method.md`` quotes, each from the code that decides.

``python docs/figures_method.py`` prints them all; with ``--write`` it puts them into the document, between
the lines ``<!-- figures: NAME -->`` and ``<!-- end of NAME -->``. A test holds the document to this output.

Tables marked *exact* are computed by dynamic programming or by going through every case; *simulated* ones
run the rule's own machine on outcomes drawn from a seeded generator.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from afnb.align.params import AlignParams
from afnb.causal.consensus import SEARCH, MajorityConsensus, SequentialConsensus
from afnb.causal.decision import ArmName, OutcomeKind
from afnb.causal.evidence import (
    REFUTE_WEIGHTS,
    VERIFY_GUESSES,
    bets,
    block_code,
    d_factors,
    exp,
    full_factors,
    lazy_factors,
)
from afnb.causal.interval import effect_interval, wilson
from afnb.causal.machine import GIVE_UP_AFTER
from afnb.causal.planning import Draw, forecast, rates, simulate
from afnb.causal.rehearsal import Rehearsal, cost, one_cause, rehearse_attribution, rehearse_locate
from afnb.experiments.agents import Command
from afnb.experiments.budget import Budget

DOCUMENT = Path(__file__).resolve().parent / "method.md"
RULE = SequentialConsensus()
SIMULATED = 1500
REHEARSED = 300

PAIRS = (
    (1.0, 0.0),
    (0.9, 0.1),
    (0.8, 0.1),
    (0.8, 0.3),
    (0.6, 0.1),
    (0.4, 0.1),
    (0.0, 0.0),
    (0.1, 0.1),
    (0.3, 0.3),
    (0.5, 0.5),
    (0.9, 0.9),
    (1.0, 1.0),
)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def share(value: float) -> str:
    """A probability with three digits, 0 and 1 plain."""
    return {0.0: "0", 1.0: "1"}.get(value, f"{value:.3f}")


def factor(value: float) -> str:
    """A factor with four significant digits."""
    return f"{value:.4g}"


def settings() -> str:
    """The defaults that the text speaks of, read from the code."""
    budget, command, align = Budget(), Command(["agent"]), AlignParams()
    rows = [
        ("`alpha`", f"{RULE.alpha:g}", "bound on a false verdict, of either kind"),
        ("`min_effect`", f"{RULE.min_effect:g}", "the effect that `not_recovered` excludes"),
        ("`max_replays`", RULE.max_replays, "replays of both arms together, lost ones included"),
        ("search: `alpha`, `max_replays`", f"{SEARCH.alpha:g}, {SEARCH.max_replays}", "the looser rule"),
        ("give up after", GIVE_UP_AFTER, "replays of one arm that are all lost, from its first on"),
        ("`Budget.live_calls`", budget.live_calls, "in force unless another is given"),
        ("`Command.timeout_s`", f"{command.timeout_s:g} s", "one run of the agent"),
        ("`AlignParams.tau`, `resync_k`", f"{align.tau:g}, {align.resync_k}", "alike, and back on course"),
    ]
    return table(("setting", "default", "what it is"), rows)


def factors() -> str:
    """Factors of one block per bet, and the weights of the bets."""
    rows: list[tuple[object, ...]] = []
    weight = f"{1 / len(VERIFY_GUESSES):.3g}"
    for a, b in VERIFY_GUESSES:
        full, lazy = full_factors(a, b, 0.0), lazy_factors(a, b)
        row = (full.s11, full.s10, full.s01, full.s00, lazy.s0, lazy.s10, lazy.s11)
        rows.append(("no effect", f"({a:g}, {b:g})", weight, *map(factor, row)))
    d = RULE.min_effect
    middle, even = full_factors(0.5, 0.5, d), d_factors(0.5 * d, d)
    t = 0.04 * d
    on, off = d_factors(t, d)
    strict = (off, on, off, off, off, on, off)
    rows.append((f"effect {d:g} or more", f"D = {t:g}", REFUTE_WEIGHTS[0], *map(factor, strict)))
    half = (middle.s11, middle.s10, middle.s01, middle.s00, even[1], even[0], even[1])
    guess = f"(0.5, 0.5); lazy: D = {0.5 * d:g}"
    rows.append((f"effect {d:g} or more", guess, REFUTE_WEIGHTS[1], *map(factor, half)))
    head = ("against", "guess", "weight", "1,1", "1,0", "0,1", "0,0", "lazy 0", "lazy 1,0", "lazy 1,1")
    return table(head, rows)


def path() -> str:
    """E-values after each block of a clean cause and of a step that changes nothing."""
    rows = []
    for name, patch, control in (
        ("patch always recovers, control never", 1, 0),
        ("neither ever recovers", 0, None),
        ("both always recover", 1, 1),
    ):
        codes = [block_code(True, patch, control)]
        codes += [block_code(patch == 0, patch, control)] * 4
        known = bets(RULE.min_effect)
        shown = []
        for side, weights in ((known.verify, known.verify_weights), (known.refute, known.refute_weights)):
            sums, values = list(weights), []
            for code in codes:
                sums = [old + new for old, new in zip(sums, side[code], strict=True)]
                values.append(f"{sum(exp(term) for term in sums):.3g}")
            shown.append(", ".join(values))
        rows.append((name, *shown))
    threshold = f"{1 / RULE.alpha:g}"
    head = ("blocks", f"against no effect (needs {threshold})", f"against {RULE.min_effect:g} or more")
    return table(head, rows)


def rule() -> str:
    """The rule at assumed rates, exact."""
    rows = []
    for p, q in PAIRS:
        f = forecast(RULE, p, q)
        shares = (share(f.recovered), share(f.not_recovered), share(f.unverified))
        rows.append((f"{p:g}, {q:g}", *shares, f"{f.mean:.1f}", f.median))
    head = (
        "rates (patch, control)",
        "`recovered`",
        "`not_recovered`",
        "`unverified`",
        "mean replays",
        "median",
    )
    return table(head, rows)


def worst() -> str:
    """The largest chance of a false verdict over a grid of rates, exact."""
    grid = [k / 10 for k in range(11)]
    rows: list[tuple[object, ...]] = []
    for alpha in (0.1, 0.05, 0.025, 0.01):
        tried = SequentialConsensus(alpha=alpha)
        made = max((forecast(tried, p, p).recovered, p) for p in grid)
        half = [p for p in grid if p + tried.min_effect <= 1.0]
        denied = max((forecast(tried, p + tried.min_effect, p).not_recovered, p) for p in half)
        clean, none = forecast(tried, 1.0, 0.0), forecast(tried, 0.0, 0.0)
        rows.append(
            (
                f"{alpha:g}",
                f"{made[0]:.3f} (at {made[1]:g}, {made[1]:g})",
                f"{denied[0]:.3f} (at {denied[1] + tried.min_effect:g}, {denied[1]:g})",
                clean.median,
                none.median,
            )
        )
    head = (
        "`alpha`",
        "false `recovered`, worst",
        "false `not_recovered`, worst",
        "replays at 1, 0",
        "at 0, 0",
    )
    return table(head, rows)


def said_recovered(rule: SequentialConsensus | MajorityConsensus, patch: int, control: int) -> bool:
    """Whether a rule says ``recovered`` when every replay of an arm ends alike."""
    kinds: tuple[OutcomeKind, OutcomeKind] = ("not_recovered", "recovered")

    def draw(_generator: random.Random, arm: ArmName, _index: int) -> tuple[OutcomeKind, str]:
        return kinds[patch if arm == "patch" else control], ""

    return simulate(rule, draw, 0).verdict == "recovered"


def majority_recovers(rule: MajorityConsensus, rate: float) -> float:
    """Chance of a majority at one recovery rate, by going through all outcomes."""
    total = 0.0
    for outcomes in itertools.product((0, 1), repeat=rule.n):
        state = rule.start()
        for index, outcome in enumerate(outcomes):
            state.feed("patch", index, "recovered" if outcome else "not_recovered")
        chance = rate ** sum(outcomes) * (1 - rate) ** (rule.n - sum(outcomes))
        total += chance * (state.decision is not None and state.decision.verdict == "recovered")
    return total


def control() -> str:
    """A step that changes nothing, in an agent that recovers by itself: with and without a control arm."""
    rows = []
    for rate in (0.2, 0.4, 0.6, 0.8, 0.95):
        alone = majority_recovers(MajorityConsensus(), rate)
        rows.append((f"{rate:g}", share(round(alone, 3)), share(forecast(RULE, rate, rate).recovered)))
    n = MajorityConsensus().n
    return table(("recovers by itself", f"majority of {n}, no control", "two arms (this rule)"), rows)


def copies() -> str:
    """What sharing one provider answer among the replays of an arm does, by going through the four cases."""
    rows = []
    for rate in (0.3, 0.5, 0.7):
        chance = sum(
            (rate if x else 1 - rate) * (rate if y else 1 - rate) * said_recovered(RULE, x, y)
            for x, y in itertools.product((0, 1), repeat=2)
        )
        rows.append((f"{rate:g}", share(round(chance, 3)), share(forecast(RULE, rate, rate).recovered)))
    head = ("rate of both arms", "false `recovered`, one answer shared by an arm", "independent replays")
    return table(head, rows)


Loss = Callable[[ArmName, bool, float], bool]


def lossy(rates_of: tuple[float, float], lost: Loss, treated: OutcomeKind) -> Draw:
    """Outcomes at fixed rates, some of which are lost after the branch; a lost one enters as ``treated``."""

    def draw(generator: random.Random, arm: ArmName, _index: int) -> tuple[OutcomeKind, str]:
        recovered = generator.random() < rates_of[arm == "control"]
        if lost(arm, recovered, generator.random()):
            return treated, "lost"
        return ("recovered" if recovered else "not_recovered"), ""

    return draw


def lost() -> str:
    """Replays lost after the branch: three ways to treat them, simulated."""
    ways: tuple[OutcomeKind, ...] = ("lost_after", "lost_before", "not_recovered")
    rows = []
    cases: list[tuple[str, tuple[float, float], Loss]] = [
        ("none", (0.5, 0.5), lambda arm, recovered, luck: False),
        ("30 % at random", (0.5, 0.5), lambda arm, recovered, luck: luck < 0.3),
        (
            "80 % of the failing patch replays",
            (0.5, 0.5),
            lambda arm, recovered, luck: arm == "patch" and not recovered and luck < 0.8,
        ),
        (
            "80 % of the recovered control replays",
            (0.5, 0.5),
            lambda arm, recovered, luck: arm == "control" and recovered and luck < 0.8,
        ),
        ("30 % at random, a true cause", (0.9, 0.1), lambda arm, recovered, luck: luck < 0.3),
    ]
    for name, pair, loss in cases:
        cells = []
        for way in ways:
            draw = lossy(pair, loss, way)
            said = sum(simulate(RULE, draw, seed).verdict == "recovered" for seed in range(SIMULATED))
            cells.append(f"{said / SIMULATED:.2f}")
        rows.append((name, f"{pair[0]:g}, {pair[1]:g}", *cells))
    before = rates(0.9, 0.1, lost_before=0.3)
    said = sum(simulate(RULE, before, seed).verdict == "recovered" for seed in range(SIMULATED))
    rows.append(("30 % lost before the branch, a true cause", "0.9, 0.1", f"{said / SIMULATED:.2f}", "", ""))
    head = (
        "lost after the branch",
        "rates",
        "against the claim (this rule)",
        "left out",
        "counted as not recovered",
    )
    return table(head, rows)


def interval() -> str:
    """The effect interval and Wilson's intervals for some ends of an experiment, exact."""
    ones = [block_code(True, 1, 0)] + [block_code(False, 1, 0)] * 19
    nones = [block_code(True, 0, None)] * 10
    rows = []
    for name, codes, patch, other in (
        ("3 blocks, all 1,0", ones[:3], (3, 3), (0, 3)),
        ("5 blocks, all 1,0", ones[:5], (5, 5), (0, 5)),
        ("10 blocks, all 1,0", ones[:10], (10, 10), (0, 10)),
        ("20 blocks, all 1,0", ones, (20, 20), (0, 20)),
        ("5 lazy blocks, all 0", nones[:5], (0, 5), (0, 0)),
        ("10 lazy blocks, all 0", nones, (0, 10), (0, 0)),
    ):
        low, high = effect_interval(codes, RULE.alpha)
        arms = []
        for recovered, total in (patch, other):
            found = wilson(recovered, total)
            arms.append("none run" if found is None else f"{found[0]:.2f} to {found[1]:.2f}")
        rows.append((name, f"{low:+.2f} to {high:+.2f}", *arms))
    return table(("blocks", "effect, anytime-valid", "patch rate, Wilson", "control rate, Wilson"), rows)


def rehearsed(
    candidates: int, cause: bool, world: tuple[float, float, float]
) -> list[tuple[int | None, Rehearsal]]:
    """Whole attributions over a seeded coin, each with the true cause."""
    where, found = random.Random(11), []
    for seed in range(REHEARSED):
        at = where.randrange(candidates) if cause else None
        world_of = one_cause(candidates, at, *world)
        found.append((at, rehearse_attribution(world_of, seed, RULE, SEARCH, precondition=RULE)))
    return found


def search() -> str:
    """Search, then confirmation on fresh replays, simulated."""
    rows = []
    for candidates, cause, world in (
        (20, False, (0.5, 0.5, 0.5)),
        (20, False, (0.9, 0.9, 0.9)),
        (10, True, (1.0, 1.0, 0.0)),
        (20, True, (1.0, 1.0, 0.0)),
        (10, True, (0.9, 0.9, 0.1)),
        (20, True, (0.9, 0.9, 0.1)),
        (10, True, (0.8, 0.6, 0.3)),
    ):
        found = rehearsed(candidates, cause, world)
        false = sum(any(step != at for step in done.verified) for at, done in found) / REHEARSED
        exact = sum(done.verified == (at,) for at, done in found) / REHEARSED if cause else None
        spent = cost([done.replays for _, done in found])
        rows.append(
            (
                candidates,
                ", ".join(f"{value:g}" for value in world) if cause else f"no cause, all {world[0]:g}",
                f"{false:.3f}",
                "" if exact is None else f"{exact:.2f}",
                f"{spent.mean:.0f}",
            )
        )
    head = (
        "candidates",
        "rates (cause grafted, base, cause served)",
        "a wrong step verified",
        "exactly the cause verified",
        "mean replays",
    )
    return table(head, rows)


def locate() -> str:
    """Search for one drop, then confirmation on fresh replays, simulated."""
    rows = []
    for answers, before, after, searches in (
        (20, 1.0, 0.0, 80),
        (20, 0.9, 0.1, 80),
        (20, 0.6, 0.1, 80),
        (200, 1.0, 0.0, 10),
        (200, 0.9, 0.1, 30),
    ):
        where, found = random.Random(12), []
        for seed in range(searches):
            drop = where.randrange(1, answers + 1)
            found.append((drop, rehearse_locate(answers, stepped(drop, before, after), seed, RULE)))
        near = sum(one.answer is not None and abs(one.answer - drop) <= 1 for drop, one in found)
        sure = sum(one.verified and one.answer == drop for drop, one in found)
        wrong = sum(one.verified and one.answer != drop for drop, one in found)
        spent = cost([one.replays for _, one in found])
        rows.append(
            (
                answers,
                f"{before:g}, {after:g}",
                searches,
                f"{near / searches:.2f}",
                f"{sure / searches:.2f}",
                wrong,
                f"{spent.mean:.0f}",
            )
        )
    head = (
        "answers",
        "rates (before, after the drop)",
        "searches",
        "within 1",
        "exact and verified",
        "another one verified",
        "mean replays",
    )
    return table(head, rows)


def stepped(drop: int, before: float, after: float) -> Callable[[int], float]:
    """q(k) with one drop."""
    return lambda served: before if served < drop else after


FIGURES: dict[str, Callable[[], str]] = {
    "settings": settings,
    "control": control,
    "factors": factors,
    "path": path,
    "rule": rule,
    "worst": worst,
    "lost": lost,
    "copies": copies,
    "search": search,
    "locate": locate,
    "interval": interval,
}


def marks(name: str) -> tuple[str, str]:
    """The lines before and after a table in the document."""
    return f"<!-- figures: {name} -->\n\n", f"\n\n<!-- end of {name} -->"


def quoted(text: str, name: str) -> str:
    """The table as the document has it.

    Raises
    ------
    ValueError
        The document does not hold the table exactly once.
    """
    start, end = marks(name)
    if text.count(start) != 1 or text.count(end) != 1:
        raise ValueError(f"the document does not hold the table {name!r} exactly once")
    return text.split(start)[1].split(end)[0]


def main(arguments: Sequence[str]) -> None:
    """Print the tables; with ``--write`` put them into the document."""
    text = DOCUMENT.read_text(encoding="utf-8") if "--write" in arguments else ""
    for name, make in FIGURES.items():
        made = make()
        sys.stdout.write(f"## {name}\n\n{made}\n\n")
        if text:
            start, end = marks(name)
            text = text.replace(start + quoted(text, name) + end, start + made + end)
    if text:
        DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
