"""``validate``: the shape rules over a whole table of events, all runs at once.

The rows of each run are brought together (by one stable sort, only where runs are interleaved), the
rules are numpy comparisons of neighbouring rows, and the first broken rule of each run is reported in
the words of ``core.shape``. An unreadable line whose run is known counts at its place in the run's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from afnb.core import events as ev
from afnb.core.shape import RULE
from afnb.tables.build import build
from afnb.tables.columns import (
    MISSING_CODE,
    AnyArray,
    Bools,
    Codes,
    Groups,
    Ints,
    Numbers,
    codes,
    group,
    numbers,
)
from afnb.tables.events import event_problems
from afnb.tables.rules import KIND_CODE, RULE_OF_CODE, UNKNOWN_KIND, Facts, Seen, broken, sentence
from afnb.tables.validation import ValidationReport

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 1 << 18  # rows checked at a time, so that what is compared stays in the processor's cache


def validate(events: pa.Table, one_run_per_file: bool = False) -> ValidationReport:
    """Check the shape of every run of a table.

    Parameters
    ----------
    events
        A table as `read_events` gives it.
    one_run_per_file
        True where each file is meant to hold one run: a second run id in a file is then a violation
        (``mixed_run_ids``) instead of a run of its own.

    Returns
    -------
    ValidationReport
        ``violations`` has one row a broken run: where its log first breaks a rule, and which.
        ``problems`` has the lines that could not be read.

    Raises
    ------
    ParameterError
        It is no table of events.

    Examples
    --------
    >>> from afnb.core.events import Envelope, RunCompleted, RunStarted
    >>> from afnb.core.eventlog import EventLog
    >>> from afnb.core.instants import Instant
    >>> from afnb.tables.events import events_table
    >>> run = "00000000-0000-4000-8000-000000000001"
    >>> head = Envelope(run, 0, Instant(0), RunStarted("h", 1))
    >>> end = Envelope(run, 2, Instant(1), RunCompleted(1))
    >>> report = validate(events_table(EventLog(run, (head, end))))
    >>> report.ok, report.violations.column("rule").to_pylist()
    (False, ['non_contiguous'])
    """
    rows = EventRows.of(events)
    groups = group(rows.files.codes if one_run_per_file else rows.runs.codes)
    if one_run_per_file:
        rows = rows.with_foreign(groups)
    problems = event_problems(events)
    unread = UnreadLines(rows, groups, "file" if one_run_per_file else "run_id")
    listed = violations(rows, groups, check(rows, groups), unread.find(problems.to_pylist()))
    return ValidationReport(
        violations=build("violations", listed),
        problems=problems,
        runs=len(groups) + unread.runs_without_events,
        events=groups.rows,
        files=len({*rows.files.words, *problems.column("file").to_pylist()} - {None}),
        one_run_per_file=one_run_per_file,
    )


@dataclass(frozen=True, slots=True)
class EventRows:
    """The columns of a table of events that the rules and their sentences need, in table order.

    ``log_run_id`` is the run of the one log that all rows belong to, where its first event is not here.
    """

    facts: Facts
    runs: Codes
    kinds: Codes
    tools: Codes
    effects: Codes
    files: Codes
    lines: Numbers
    log_run_id: str | None = None

    @classmethod
    def of(cls, events: pa.Table) -> EventRows:
        """The columns of a table; `ParameterError` if it is no table of events."""
        runs, kinds, tools = codes(events, "run_id"), codes(events, "kind"), codes(events, "tool")
        effects = codes(events, "effect")
        seq, corr = numbers(events, "seq", np.uint64), numbers(events, "corr", np.uint64)
        version = numbers(events, "schema_version", np.uint32)
        facts = Facts(
            seq=seq.values,
            version=version.values,
            kind=_translated(kinds, KIND_CODE, UNKNOWN_KIND, np.uint8),
            corr=corr.values,
            has_corr=corr.there,
            tool=tools.codes,
            effect=_translated(effects, {e: n for n, e in enumerate(ev.EFFECTS)}, -1, np.int8),
            foreign=np.zeros(len(seq.values), np.bool_),
        )
        lines = numbers(events, "line", np.int64)
        return cls(facts, runs, kinds, tools, effects, codes(events, "file"), lines)

    def with_foreign(self, groups: Groups, run_id: str | None = None) -> EventRows:
        """The same, told which events are of another run than their group's first one (or ``run_id``)."""
        if run_id is not None:
            code = self.runs.words.index(run_id) if run_id in self.runs.words else MISSING_CODE
            facts = replace(self.facts, foreign=self.runs.codes != code)
            return replace(self, facts=facts, log_run_id=run_id)
        first = np.repeat(self.runs.codes[groups.first_rows()], groups.sizes)
        foreign = np.zeros(groups.rows, np.bool_)
        foreign[slice(None) if groups.order is None else groups.order] = groups.take(self.runs.codes) != first
        return replace(self, facts=replace(self.facts, foreign=foreign))

    def seen(self, row: int) -> Seen:
        """One row as far as a rule's sentence needs it."""
        facts = self.facts
        return Seen(
            self.runs.text(row) or "",
            int(facts.seq[row]),
            int(facts.version[row]),
            self.kinds.text(row) or "",
            int(facts.corr[row]),
            self.tools.text(row),
            self.effects.text(row),
        )


def _translated(found: Codes, known: dict[str, int], otherwise: int, dtype: Any) -> AnyArray:
    """A column's codes as codes of our own; ``otherwise`` for words that are not known."""
    table = np.array([*(known.get(word, otherwise) for word in found.words), otherwise], dtype)
    return table[found.codes]


@dataclass(frozen=True, slots=True)
class Found:
    """What is broken: for each group the place (in the groups' order) of its first broken row or -1,
    the rule's code there, and whether the replay cursor refuses the log.
    """

    place: Ints
    rule: npt.NDArray[np.uint8]
    cursor_refuses: Bools


def check(rows: EventRows, groups: Groups, *, starts_known: bool = True) -> Found:
    """The first broken rule of every group of rows.

    Nothing is said of the first row of each group where ``starts_known`` is False: what stands before
    it is somewhere else.
    """
    place = np.full(len(groups), -1, np.int64)
    rule = np.zeros(len(groups), np.uint8)
    refuses = np.zeros(len(groups), np.bool_)
    firsts = np.zeros(groups.rows, np.bool_)
    firsts[groups.starts] = True
    for block in groups.blocks(_BLOCK):
        at = _block(rows.facts, groups, block)
        before = _block(rows.facts, groups, slice(block.start - 1, block.stop - 1))
        codes_here, cursor = broken(before, at, firsts[block])
        if not starts_known:
            codes_here[firsts[block]] = 0
            cursor[firsts[block]] = False
        hits = np.flatnonzero(codes_here)
        if not len(hits):
            continue
        owners = np.searchsorted(groups.starts, hits + block.start, side="right") - 1
        refuses[owners[cursor[hits]]] = True
        new, first_hit = np.unique(owners, return_index=True)
        fresh = place[new] < 0
        new, first_hit = new[fresh], first_hit[fresh]
        place[new] = hits[first_hit] + block.start
        rule[new] = codes_here[hits[first_hit]]
    return Found(place, rule, refuses)


def _block(facts: Facts, groups: Groups, block: slice) -> Facts:
    """Some rows in the groups' order; before the first row stands that row itself, unlooked at."""
    rows: slice | AnyArray = block
    if block.start < 0:
        rows = np.concatenate(([0], np.arange(0, block.stop)))
    return facts.at(rows if groups.order is None else groups.order[rows])


@dataclass(frozen=True, slots=True)
class Unread:
    """The first unreadable line of a run: at which index of its log it stands."""

    index: int
    problem: dict[str, Any]


def violations(
    rows: EventRows, groups: Groups, found: Found, unread: Mapping[int | str, Unread]
) -> list[dict[str, Any]]:
    """One row a broken run, in the order in which the runs first appear.

    ``unread`` is by group, or by what tells logs apart for a log none of whose lines could be read.
    """
    out = []
    broken_groups = set(np.flatnonzero(found.place >= 0).tolist())
    for g in sorted(broken_groups.union(key for key in unread if isinstance(key, int))):
        start, missing = int(groups.starts[g]), unread.get(g)
        run_id = rows.runs.text(groups.row(start)) or ""
        if g in broken_groups and (missing is None or found.place[g] - start < missing.index):
            row = broken_row(rows, groups, found, g)
            row["cursor_refuses"] = row["cursor_refuses"] or missing is not None
            out.append(row)
        elif missing is not None:
            out.append(unread_row(missing, run_id))
    return out + without_events(missing for key, missing in unread.items() if isinstance(key, str))


def without_events(unread: Iterable[Unread]) -> list[dict[str, Any]]:
    """The rows of logs none of whose lines could be read, where their run can be seen all the same."""
    return [unread_row(one, one.problem["run_id"]) for one in unread if one.problem["run_id"] is not None]


def broken_row(rows: EventRows, groups: Groups, found: Found, g: int) -> dict[str, Any]:
    """The row of a group that breaks a rule."""
    start, place = int(groups.starts[g]), int(found.place[g])
    row, first = groups.row(place), groups.row(start)
    rule = RULE_OF_CODE[int(found.rule[g])]
    before = rows.seen(groups.row(place - 1)) if place > start else None
    run_id = rows.log_run_id or rows.runs.text(first) or ""
    return {
        "run_id": run_id,
        "index": place - start,
        "seq": int(rows.facts.seq[row]),
        "rule": rule,
        "level": RULE[rule].level,
        "cursor_refuses": bool(found.cursor_refuses[g]),
        "message": sentence(rule, before, rows.seen(row), run_id),
        "file": rows.files.text(row),
        "line": int(rows.lines.values[row]) if rows.lines.there[row] else None,
    }


def unread_row(missing: Unread, run_id: str) -> dict[str, Any]:
    """The row of a run whose log has an unreadable line before it breaks any other rule."""
    problem = missing.problem
    rule = problem["rule"] if problem["rule"] in RULE else "bad_envelope"
    return {
        "run_id": run_id,
        "index": missing.index,
        "seq": problem["seq"],
        "rule": rule,
        "level": RULE[rule].level,
        "cursor_refuses": True,
        "message": problem["message"],
        "file": problem["file"],
        "line": problem["line"],
    }


class UnreadLines:
    """Finds the place of unreadable lines in the logs they belong to: by run id, or by file."""

    def __init__(self, rows: EventRows, groups: Groups, key: Literal["run_id", "file"]) -> None:
        self._rows, self._groups, self._key = rows, groups, key
        self.runs_without_events = 0

    def find(self, problems: Sequence[Mapping[str, Any]]) -> dict[int | str, Unread]:
        """The first unreadable line of each group, and of each run that has no event at all."""
        first: dict[str, Mapping[str, Any]] = {}
        for problem in problems:
            key = problem[self._key]
            if problem["level"] == "error" and problem["rule"] in RULE and key is not None:
                first.setdefault(key, problem)
        if not first:
            return {}
        names = self._rows.files if self._key == "file" else self._rows.runs
        group_of = {names.text(row): g for g, row in enumerate(self._groups.first_rows().tolist())}
        found: dict[int | str, Unread] = {}
        for key, problem in first.items():
            g = group_of.get(key)
            if g is not None:
                found[g] = Unread(self._earlier(g, problem), dict(problem))
            else:
                self.runs_without_events += problem["run_id"] is not None
                found[key] = Unread(0, dict(problem))
        return found

    def _earlier(self, g: int, problem: Mapping[str, Any]) -> int:
        """How many events of the group stand before an unreadable line; files are in path order."""
        start, size = int(self._groups.starts[g]), int(self._groups.sizes[g])
        mine = (
            np.arange(start, start + size)
            if self._groups.order is None
            else self._groups.order[start : start + size]
        )
        files, lines = self._rows.files, self._rows.lines.values[mine]
        file = problem["file"] or ""
        order = np.array([(word > file) - (word < file) for word in files.words] + [-1], np.int8)[
            files.codes[mine]
        ]
        return int(((order < 0) | ((order == 0) & (lines < (problem["line"] or 0)))).sum())
