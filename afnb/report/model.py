"""What a report says, in the order in which it says it. All its forms render this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afnb.core.page import Badge, Heading, Page, Part, Text, Tone
from afnb.core.page_json import page_from_json, page_to_json
from afnb.experiments.batch_result import Batch
from afnb.experiments.batch_summary import Tally, cost_words, details, lead, sentence, tally
from afnb.experiments.pair_row import STATES, TONES
from afnb.report.mask import masked, masked_json

CLAIM = (
    "Verified means: with everything before a step as recorded and everything after it re-run, changing "
    "that answer made the run recover more often than leaving it as it was; the chance of saying so if it "
    "made no difference is bounded by the error above. A repair is not proof of an origin, and a run without "
    "a verdict is not shown to have no cause."
)
MAX_LABELS = 6
SHORT: dict[str, str] = {
    "repair": "verified repair",
    "no_cause": "verified: no cause",
    "unverified": "Unverified",
    "untested": "not tested",
    "open": "stopped",
    "error": "could not be run",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table of pairs; numbers are sorted as such."""

    name: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One pair: its state, its cells in the order of the columns, what they are sorted by, and its card."""

    name: str
    state: str
    tone: Tone
    cells: tuple[str, ...]
    keys: tuple[float | None, ...]
    page: Page


@dataclass(frozen=True, slots=True)
class Tile:
    """A number of the summary and what it counts."""

    number: str
    words: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of the report."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report."""

    title: str
    badge: Badge
    tiles: tuple[Tile, ...]
    lead: tuple[Part, ...]
    sections: tuple[Section, ...]
    columns: tuple[Column, ...]
    entries: tuple[Entry, ...]


def report_of(batch: Batch) -> Report:
    """The report of a batch.

    Parameters
    ----------
    batch
        As ``attribute_many`` or ``read_batch`` gives it.
    """
    rows = batch.rows()
    cards = batch.cards()
    found = tally(rows)
    labels = label_names(rows)
    page = Page("", None, (*lead(rows, batch.settings), Text(CLAIM, "quiet")))
    told = Page("", None, details(rows))
    return Report(
        title=masked(batch.page().title),
        badge=batch.badge(),
        tiles=tiles(found),
        lead=_masked(page).parts,
        sections=sections(_masked(told).parts),
        columns=columns(labels, rows),
        entries=tuple(entry(row, labels, cards.get(str(row["pair"])), rows) for row in rows),
    )


def _masked(page: Page) -> Page:
    return page_from_json(masked_json(page_to_json(page)))


def tiles(found: Tally) -> tuple[Tile, ...]:
    """The numbers that come first."""
    out = [
        Tile(f"{found.pairs:,}", "failing runs"),
        Tile(f"{found.repair:,}", "verified repairs", "good"),
        Tile(f"{found.no_cause:,}", "verified: no cause", "bad"),
        Tile(f"{found.unverified + found.untested + found.open:,}", "without a verdict", "quiet"),
    ]
    if found.error:
        out.append(Tile(f"{found.error:,}", "could not be run", "warn"))
    out.append(Tile(f"{found.faithful:,} of {found.checked:,}", "replay as recorded"))
    out.append(Tile(f"{found.live_calls:,}", "live calls"))
    if found.dollars:
        out.append(Tile(f"${found.dollars:,.2f}", "spent"))
    return tuple(out)


def sections(parts: Sequence[Part]) -> tuple[Section, ...]:
    """Parts under their headings."""
    out: list[Section] = []
    for part in parts:
        if isinstance(part, Heading):
            out.append(Section(part.text, ()))
        elif out:
            out[-1] = Section(out[-1].title, (*out[-1].parts, part))
        else:
            out.append(Section("", (part,)))
    return tuple(out)


def label_names(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The labels that become columns: the first few, in order of appearance."""
    names = dict.fromkeys(str(name) for row in rows for name in (row["labels"] or {}))
    return tuple(names)[:MAX_LABELS]


def columns(labels: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Columns of the table of pairs."""
    several = any((row["references"] or 0) > 1 for row in rows)
    return (
        Column("pair"),
        Column("verdict"),
        Column("step", True),
        Column("what the step did, or why there is no verdict"),
        Column("patched", True),
        Column("control", True),
        Column("e-value", True),
        Column("fork", True),
        *((Column("references agree", True),) if several else ()),
        Column("live calls", True),
        *(Column(masked(name)) for name in labels),
    )


def entry(
    row: Mapping[str, Any], labels: Sequence[str], card: Page | None, rows: Sequence[Mapping[str, Any]]
) -> Entry:
    """One row of the table and its card."""
    state = str(row["state"])
    steps = row["origination"] or []
    cells: list[tuple[str, float | None]] = [
        (str(row["pair"]), None),
        (SHORT[state], float(list(STATES).index(state))),
        (", ".join(map(str, steps)), float(steps[0]) if steps else None),
        (told(row), None),
        _rate(row, "patch"),
        _rate(row, "control"),
        _evidence(row) if state == "repair" else ("", None),
        ("", None) if row["fork_step"] is None else (f"{row['fork_step']} of {row['steps']}", _share(row)),
    ]
    if any((other["references"] or 0) > 1 for other in rows):
        support, several = row["fork_support"], row["references"]
        agree = "" if support is None else f"{support} of {several}"
        cells.append((agree, None if support is None or not several else support / several))
    cells.append((f"{row['live_calls_spent']:,}", float(row["live_calls_spent"])))
    known = row["labels"] or {}
    cells += [(str(known.get(name, "")), None) for name in labels]
    tone = TONES.get(state, "quiet")
    page = card or Page(str(row["pair"]), Badge(STATES[state], tone), (Text(str(row["reason"])),))
    return Entry(
        masked(str(row["pair"])),
        state,
        tone,
        tuple(masked(text) for text, _ in cells),
        tuple(key for _, key in cells),
        _masked(page),
    )


def _evidence(row: Mapping[str, Any]) -> tuple[str, float | None]:
    """The e-value of a repair; marked where it also holds over the whole batch."""
    return f"{row['e_value']:.3g}{' (e-BH)' if row['e_bh'] else ''}", row["e_value"]


def told(row: Mapping[str, Any]) -> str:
    """What the deciding step did; where there is none, what changed nothing, or why there is no verdict."""
    if row["state"] == "repair":
        return str(row["deed"])
    if row["state"] == "no_cause" and row["fork_deed"]:
        return f"changes little: {row['fork_deed']} (at the fork)"
    return str(row["reason"])


def _rate(row: Mapping[str, Any], arm: str) -> tuple[str, float | None]:
    recovered, total, lost = (row[f"{arm}_{name}"] for name in ("recovered", "total", "lost"))
    if total is None or (not total and not lost):
        return "", None
    words = f"{recovered} of {total}" + (f", {lost} lost" if lost else "")
    return words, recovered / total if total else None


def _share(row: Mapping[str, Any]) -> float | None:
    return float(row["fork_step"]) / row["steps"] if row["steps"] else None


__all__ = ["Column", "Entry", "Report", "Section", "Tile", "cost_words", "report_of", "sentence"]
