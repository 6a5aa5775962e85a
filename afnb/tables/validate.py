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
    rows = EventRows.of(events, alone=True)
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
    def of(cls, events: pa.Table, alone: bool = False) -> EventRows:
        """The columns of a table; `ParameterError` if it is no table of events.

        ``alone`` says that no other events will be checked against these: then tools and effects are
        left out of the facts where no event is of the one kind whose rule asks for them.
        """
        runs, kinds, tools = codes(events, "run_id"), codes(events, "kind"), codes(events, "tool")
        effects = codes(events, "effect")
        seq, corr = numbers(events, "seq", np.uint64), numbers(events, "corr", np.uint64)
        version = numbers(events, "schema_version", np.uint32)
        kind = _translated(kinds, KIND_CODE, UNKNOWN_KIND, np.uint8)
        size = len(kind)
        rare = not alone or bool((kind == KIND_CODE["RunAbandoned"]).any())
        effect_codes: dict[str, int] = {e: n for n, e in enumerate(ev.EFFECTS)}
        facts = Facts(
            seq=seq.values,
            version=version.values,
            kind=kind,
            corr=corr.values,
            has_corr=corr.there,
            tool=tools.codes if rare else np.broadcast_to(np.int32(-1), size),
            effect=_translated(effects, effect_codes, -1, np.int8)
            if rare
            else np.broadcast_to(np.int8(-1), size),
            foreign=np.broadcast_to(np.False_, size),
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
    if (table[:-1] == np.arange(len(table) - 1)).all() and table[-1] == np.array(-1).astype(dtype):
        return found.codes.astype(dtype)
    return table[found.codes]


@dataclass(frozen=True, slots=True)
class Found:
    """What is broken: for each group the place (in the groups' order) of its first broken row or -1,
    the rule's code there, and whether the replay cursor refuses the log.
    """

    place: Ints
    rule: npt.NDArray[np.uint8]
    cursor_refuses: Bools


Hits = tuple[Ints, AnyArray, Bools]


def check(rows: EventRows, groups: Groups, *, starts_known: bool = True) -> Found:
    """The first broken rule of every group of rows.

    Nothing is said of the first row of each group where ``starts_known`` is False: what stands before
    it is somewhere else.
    """
    place = np.full(len(groups), -1, np.int64)
    rule = np.zeros(len(groups), np.uint8)
    refuses = np.zeros(len(groups), np.bool_)
    hits = [_within(rows.facts, groups), _seams(rows.facts, groups, starts_known)]
    broken_rows, codes_there, cursor = _joined(hits)
    places = groups.positions(broken_rows)
    order = np.argsort(places)
    owners = np.searchsorted(groups.starts, places[order], side="right") - 1
    refuses[owners[cursor[order]]] = True
    hit, first = np.unique(owners, return_index=True)
    place[hit] = places[order][first]
    rule[hit] = codes_there[order][first]
    return Found(place, rule, refuses)


def _within(facts: Facts, groups: Groups) -> Hits:
    """The broken rows among those that follow a row of their own group, with rule and cursor."""
    hits = []
    for start in range(1, groups.rows, _BLOCK):
        stop = min(start + _BLOCK, groups.rows)
        first, last = np.searchsorted(groups.spans, (start, stop))
        within = np.ones(stop - start, np.bool_)
        within[groups.spans[first:last] - start] = False
        before, at = facts.at(slice(start - 1, stop - 1)), facts.at(slice(start, stop))
        rule, cursor = broken(before, at, np.zeros(stop - start, np.bool_), within)
        where = np.flatnonzero(rule)
        hits.append((where + start, rule[where], cursor[where]))
    return _joined(hits)


def _seams(facts: Facts, groups: Groups, starts_known: bool) -> Hits:
    """The same of the rows at which a group begins or goes on after rows of others."""
    befores, firsts = groups.span_befores()
    telling = facts.telling()
    hits = []
    for start in range(0, len(firsts), _BLOCK // 4):
        block = slice(start, start + _BLOCK // 4)
        before, at = facts.some(befores[block], telling), facts.some(groups.spans[block], telling)
        rule, cursor = broken(before, at, firsts[block], None if starts_known else ~firsts[block])
        where = np.flatnonzero(rule)
        hits.append((groups.spans[block][where], rule[where], cursor[where]))
    return _joined(hits)


def _joined(hits: list[Hits]) -> Hits:
    if not hits:
        return np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.bool_)
    rows, rules, cursors = (np.concatenate(part) for part in zip(*hits, strict=True))
    return rows, rules, cursors


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
    listed = broken_rows(rows, groups, found)
    for g in sorted({*listed, *(key for key in unread if isinstance(key, int))}):
        missing, row = unread.get(g), listed.get(g)
        if row is not None and (missing is None or row["index"] < missing.index):
            row["cursor_refuses"] = row["cursor_refuses"] or missing is not None
            out.append(row)
        elif missing is not None:
            out.append(unread_row(missing, rows.runs.text(groups.row(int(groups.starts[g]))) or ""))
    return out + without_events(missing for key, missing in unread.items() if isinstance(key, str))


def without_events(unread: Iterable[Unread]) -> list[dict[str, Any]]:
    """The rows of logs none of whose lines could be read, where their run can be seen all the same."""
    return [unread_row(one, one.problem["run_id"]) for one in unread if one.problem["run_id"] is not None]


def broken_rows(rows: EventRows, groups: Groups, found: Found) -> dict[int, dict[str, Any]]:
    """The row of each group that breaks a rule, by group."""
    broken_groups = np.flatnonzero(found.place >= 0)
    starts, places = groups.starts[broken_groups], found.place[broken_groups]
    firsts, befores = groups.table_rows(starts), groups.table_rows(np.maximum(places - 1, starts))
    columns = (broken_groups, places - starts, firsts, befores, groups.table_rows(places))
    return {
        g: _broken_row(rows, found, g, *numbers)
        for g, *numbers in zip(*(column.tolist() for column in columns), strict=True)
    }


def _broken_row(rows: EventRows, found: Found, g: int, index: int, first: int, before: int, at: int) -> Any:
    rule = RULE_OF_CODE[int(found.rule[g])]
    run_id = rows.log_run_id or rows.runs.text(first) or ""
    return {
        "run_id": run_id,
        "index": index,
        "seq": int(rows.facts.seq[at]),
        "rule": rule,
        "level": RULE[rule].level,
        "cursor_refuses": bool(found.cursor_refuses[g]),
        "message": sentence(rule, rows.seen(before) if index else None, rows.seen(at), run_id),
        "file": rows.files.text(at),
        "line": int(rows.lines.values[at]) if rows.lines.there[at] else None,
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
