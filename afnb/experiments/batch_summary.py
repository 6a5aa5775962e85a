"""What a batch came to, in words and numbers: of all pairs together, made of the rows of its tables.

Nothing here claims more than the pairs' own rows do: a cause is spoken of only where a repair was
verified on fresh replays, and a pair that was not re-run is called not tested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afnb.core.page import Bar, Bars, Facts, Heading, Histogram, Part, Table, Text, Tone
from afnb.experiments.pair_row import STATES, TONES

Row = Mapping[str, Any]
BINS = 10
MAX_GROUPS = 12
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of a batch: pairs by state, and what they cost.

    ``faithful`` of the ``checked`` pairs replay unpatched as they were recorded; ``e_bh`` of the repairs
    hold together at a false discovery rate of alpha.
    """

    pairs: int = 0
    repair: int = 0
    no_cause: int = 0
    unverified: int = 0
    untested: int = 0
    open: int = 0
    error: int = 0
    origin: int = 0
    e_bh: int = 0
    checked: int = 0
    faithful: int = 0
    replays: int = 0
    live_calls: int = 0
    tokens: int = 0
    dollars: float = 0.0
    wall_s: float = 0.0

    @property
    def verified(self) -> int:
        """Pairs with a verified verdict of either kind.

        Examples
        --------
        >>> Tally(pairs=5, repair=2, no_cause=1).verified
        3
        """
        return self.repair + self.no_cause

    @property
    def states(self) -> dict[str, int]:
        """State to number of pairs, in the order of ``STATES``."""
        return {state: int(getattr(self, state)) for state in STATES}


def tally(rows: Sequence[Row]) -> Tally:
    """Count the rows of a ``pairs`` table."""
    states = Counter(str(row["state"]) for row in rows)

    def total(column: str) -> Any:
        return sum(row[column] or 0 for row in rows)

    return Tally(
        pairs=len(rows),
        **{state: states.get(state, 0) for state in STATES},
        origin=sum(row["state"] == "repair" and row["kind"] == "origin" for row in rows),
        e_bh=sum(bool(row["e_bh"]) for row in rows),
        checked=sum(row["faithful"] is not None for row in rows),
        faithful=sum(row["faithful"] is True for row in rows),
        replays=total("replays_spent"),
        live_calls=total("live_calls_spent"),
        tokens=total("tokens_spent"),
        dollars=float(total("dollars_spent")),
        wall_s=float(total("wall_s")),
    )


def runs(count: int, kind: str = "") -> str:
    """``1 failing run``, ``12 failing runs``.

    Examples
    --------
    >>> runs(1), runs(1200, "failing ")
    ('1 run', '1,200 failing runs')
    """
    return f"{count:,} {kind}run{'' if count == 1 else 's'}"


def sentence(found: Tally) -> str:
    """The batch in one sentence."""
    if not found.pairs:
        return "No pairs were found, so nothing was run."
    told = [
        f"{found.repair} with a verified repair",
        f"{found.no_cause} verified to have no cause among the steps that could be changed",
        f"{found.unverified} Unverified",
    ]
    told += [f"{found.untested} not tested"] if found.untested else []
    told += [f"{found.open} not decided when it was stopped"] if found.open else []
    told += [f"{found.error} that could not be run"] if found.error else []
    return f"{runs(found.pairs, 'failing ')}: {', '.join(told[:-1])} and {told[-1]}."


def outcome_bars(found: Tally) -> Bars:
    """How many pairs ended in each state."""
    rows = tuple(
        Bar(STATES[state], count, found.pairs, tone=TONES.get(state, "quiet"))
        for state, count in found.states.items()
        if count or state in ("repair", "no_cause", "unverified")
    )
    return Bars(rows, "what became of the failing runs")


def cost_facts(found: Tally, settings: Mapping[str, Any]) -> Facts:
    """What it cost, how far the recordings carried, and what was claimed at which error."""
    rows = [
        ("self-check", f"{found.faithful} of {found.checked} pairs replay unpatched as they were recorded"),
        ("cost", cost_words(found)),
    ]
    if settings.get("budget"):
        rows.append(("budget", str(settings["budget"])))
    if settings.get("alpha") is not None:
        alpha = f"{100 * float(settings['alpha']):.3g} %"
        rows.append(
            (
                "error",
                f"at most {alpha} for each run's verdict; {found.e_bh} of {found.repair} repairs also hold "
                f"at a false discovery rate of {alpha} over all runs (e-BH)",
            )
        )
    for name in ("agent", "upstream", "oracle", "rule", "seed"):
        if settings.get(name) is not None:
            rows.append((name, str(settings[name])))
    return Facts(tuple(rows))


def cost_words(found: Tally) -> str:
    """Replays, live calls, tokens and dollars."""
    words = [f"{found.replays:,} replays", f"{found.live_calls:,} live calls", f"{found.tokens:,} tokens"]
    if found.dollars:
        words.append(f"${found.dollars:,.2f}")
    return ", ".join(words)


def fork_parts(rows: Sequence[Row]) -> list[Part]:
    """Where the runs part: along the run, and by the step that parts."""
    forked = [row for row in rows if row["fork_step"] is not None and row["steps"]]
    compared = [row for row in rows if row["state"] != "error" and row["stage"] != "load"]
    if not compared:
        return []
    parts: list[Part] = [Heading("Where runs part")]
    if not forked:
        return [*parts, Text("None of the runs that were compared parts from its good run.")]
    counts, marked = [0] * BINS, [0] * BINS
    for row in forked:
        place = min(BINS - 1, int(BINS * row["fork_step"] / row["steps"]))
        counts[place] += 1
        marked[place] += row["state"] == "repair"
    edges = tuple(f"{100 * i // BINS} %" for i in range(BINS + 1))
    parts.append(
        Histogram(
            f"fork position along the failing run, {len(forked):,} of {runs(len(compared))}",
            edges,
            tuple(counts),
            tuple(marked),
            "with a verified repair",
            "first step at 0 %; where runs part is not yet why they fail",
        )
    )
    names = Counter(str(row["fork_name"] or "a step that is not there") for row in forked)
    parts.append(_bars(names, len(forked), "by the step that parts"))
    return parts


def _bars(counts: Mapping[str, int], total: int, caption: str) -> Bars:
    order = sorted(counts, key=lambda name: (-counts[name], name))
    rows = [Bar(name, counts[name], total) for name in order[:MAX_GROUPS]]
    rest = sum(counts[name] for name in order[MAX_GROUPS:])
    if rest:
        rows.append(Bar(f"{len(order) - MAX_GROUPS} others", rest, total))
    return Bars(tuple(rows), caption)


def cause_parts(rows: Sequence[Row]) -> list[Part]:
    """Recurring causes: verified repairs by what the deciding step did; then what else recurs."""
    repairs = [row for row in rows if row["state"] == "repair"]
    parts: list[Part] = [Heading("Recurring causes")]
    if repairs:
        parts.append(Text(f"What the deciding step did, in {runs(len(repairs))} with a verified repair."))
        parts.append(_groups(repairs, lambda row: row["deed"], ("what the step did", "runs", "in"), "good"))
    else:
        parts.append(Text("No repair was verified, so nothing is said of causes."))
    others = [row for row in rows if row["state"] in ("no_cause", "unverified", "untested", "open")]
    forks = [row for row in others if row["fork_deed"]]
    if forks:
        parts.append(
            Text("Where the other runs part. That a difference stands there does not make it a cause.")
        )
        parts.append(_groups(forks, lambda row: row["fork_deed"], ("at the fork", "runs", "in"), "plain"))
    return parts


def reason_parts(rows: Sequence[Row]) -> list[Part]:
    """Why there is no verdict, by reason, and the pairs that could not be run."""
    parts: list[Part] = []
    for states, title in (
        (("unverified", "untested", "open"), "Why there is no verdict"),
        (("error",), "What could not be run"),
    ):
        concerned = [row for row in rows if row["state"] in states]
        if concerned:
            parts.append(Heading(title))
            parts.append(_groups(concerned, lambda row: row["reason"], ("reason", "runs", "in"), "plain"))
    return parts


def _groups(rows: Sequence[Row], key: Callable[[Row], Any], columns: tuple[str, ...], tone: Tone) -> Table:
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(str(key(row) or "unknown"), []).append(str(row["pair"]))
    order = sorted(groups, key=lambda name: (-len(groups[name]), name))
    cells = []
    for name in order[:MAX_GROUPS]:
        pairs = groups[name]
        more = f" and {len(pairs) - EXAMPLES:,} more" if len(pairs) > EXAMPLES else ""
        cells.append((name, str(len(pairs)), ", ".join(pairs[:EXAMPLES]) + more))
    if len(order) > MAX_GROUPS:
        rest = sum(len(groups[name]) for name in order[MAX_GROUPS:])
        cells.append((f"{len(order) - MAX_GROUPS} other kinds", str(rest), ""))
    return Table(columns, tuple(cells), tones=(tone,) * len(cells) if tone != "plain" else ())


def lead(rows: Sequence[Row], settings: Mapping[str, Any]) -> tuple[Part, ...]:
    """The summary: in one sentence, by state, and what it cost."""
    found = tally(rows)
    parts: list[Part] = [Text(sentence(found))]
    if found.pairs:
        parts.append(outcome_bars(found))
    if settings.get("stopped"):
        parts.insert(1, Text(f"Stopped: {settings['stopped']}. {settings.get('resume', '')}".strip(), "warn"))
    parts.append(cost_facts(found, settings))
    return tuple(parts)


def details(rows: Sequence[Row]) -> tuple[Part, ...]:
    """Where runs part, recurring causes, and why there is no verdict."""
    return (*fork_parts(rows), *(cause_parts(rows) if rows else ()), *reason_parts(rows))
