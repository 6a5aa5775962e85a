"""The check of logs larger than memory: piece by piece, and the pieces joined.

Every shape rule looks back one event at most. So all that a piece of a log has to remember of a run is
its first event, its last one, how many there were, and where a rule first breaks between them. Two
pieces that follow each other are joined by checking the first events of the second against the last
ones of the first, which gives a piece again: `RunBook` takes pieces and is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from afnb.core import events as ev
from afnb.core.shape import RULE
from afnb.tables.columns import Bools, Groups, Ints
from afnb.tables.rules import KINDS, RULE_OF_CODE, Facts, Seen, broken, sentence
from afnb.tables.validate import (
    EventRows,
    Unread,
    UnreadLines,
    broken_rows,
    check,
    unread_row,
    without_events,
)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """What one piece of the logs says, one value a run in the order in which the runs first appear.

    Parameters
    ----------
    keys, run_ids
        What tells logs apart (the run id, or the file where each is to hold one run), and the run.
    sizes, first, last
        How many events there are, and the first and the last of them.
    places
        File and line of each first event; lines count from the piece's beginning.
    hits
        By place in ``keys``: the row of the first broken rule after the first event, whose ``index``
        counts from the piece's beginning.
    refuses
        Whether the replay cursor refuses the log for an event after the first.
    unread
        By key: the first unreadable line.
    tools
        The words of the tool codes.
    problems, errors, warnings
        The first problems, and how many there are.
    lines
        Lines of the piece.
    """

    keys: list[str]
    run_ids: list[str]
    sizes: Ints
    first: Facts
    last: Facts
    places: list[tuple[str | None, int | None]]
    hits: dict[int, Row]
    refuses: Bools
    unread: dict[str, Unread]
    tools: list[str]
    problems: list[Row]
    errors: int
    warnings: int
    lines: int
    events: int = 0


def piece_of(
    rows: EventRows,
    groups: Groups,
    problems: Sequence[Row],
    *,
    one_run_per_file: bool = False,
    lines: int = 0,
    most_problems: int = 1000,
) -> Piece:
    """The piece that some events are, given grouped by run (or by file, if each is to hold one run)."""
    found = check(rows, groups, starts_known=False)
    firsts, ends = groups.first_rows(), groups.starts + groups.sizes - 1
    lasts = groups.table_rows(ends)
    names = rows.files if one_run_per_file else rows.runs
    keys = [names.text(row) or "" for row in firsts.tolist()]
    unread = UnreadLines(rows, groups, "file" if one_run_per_file else "run_id").find(problems)
    return Piece(
        keys=keys,
        run_ids=[rows.runs.text(row) or "" for row in firsts.tolist()],
        sizes=groups.sizes,
        first=rows.facts.at(firsts),
        last=rows.facts.at(lasts),
        places=[
            (rows.files.text(row), int(rows.lines.values[row]) if rows.lines.there[row] else None)
            for row in firsts.tolist()
        ],
        hits=broken_rows(rows, groups, found),
        refuses=found.cursor_refuses,
        unread={keys[key] if isinstance(key, int) else key: one for key, one in unread.items()},
        tools=rows.tools.words,
        problems=list(problems[:most_problems]),
        errors=sum(p["level"] == "error" for p in problems),
        warnings=sum(p["level"] == "warning" for p in problems),
        lines=lines,
        events=groups.rows,
    )


class _Growing:
    """Facts that can be added to and overwritten, one row a run."""

    def __init__(self, like: Facts) -> None:
        self._columns = {f.name: getattr(like, f.name)[:0].copy() for f in fields(like)}
        self._size = 0

    def put(self, slots: Ints, facts: Facts) -> None:
        """Set the rows of some runs; rows beyond the end are added."""
        if not len(slots):
            return
        self._size = max(self._size, int(slots.max()) + 1)
        for name, column in self._columns.items():
            if len(column) < self._size:
                column = (
                    np.resize(column, max(1024, 2 * self._size))
                    if len(column)
                    else np.zeros(max(1024, 2 * self._size), column.dtype)
                )
                self._columns[name] = column
            column[slots] = getattr(facts, name)

    def at(self, slots: Ints) -> Facts:
        """The rows of some runs."""
        return Facts(**{name: column[slots] for name, column in self._columns.items()})


@dataclass(slots=True)
class _Run:
    """What is known of a run besides its first and last event."""

    run_id: str
    size: int
    place: tuple[str | None, int | None]
    refuses: bool = False
    hit: Row | None = None
    unread: Unread | None = None
    file: str | None = None


@dataclass(slots=True)
class RunBook:
    """Joins pieces in the order of the logs; at the end it has the violations.

    ``most_problems`` is how many problems are kept; all of them are counted.
    """

    most_problems: int = 1000
    slots: dict[str, int] = field(default_factory=dict)
    runs: list[_Run] = field(default_factory=list)
    tools: dict[str, int] = field(default_factory=dict)
    tool_words: list[str] = field(default_factory=list)
    unread: dict[str, Unread] = field(default_factory=dict)
    problems: list[Row] = field(default_factory=list)
    errors: int = 0
    warnings: int = 0
    events: int = 0
    lines: int = 0
    _first: _Growing | None = None
    _last: _Growing | None = None

    def add(self, piece: Piece, lines_before: int = 0) -> None:
        """Join one more piece, which follows those before; its first line is ``lines_before`` + 1."""
        if self._first is None or self._last is None:
            self._first, self._last = _Growing(piece.first), _Growing(piece.last)
        recode = np.array([*map(self._tool, piece.tools), -1], np.int32)
        first = replace(piece.first, tool=recode[piece.first.tool])
        last = replace(piece.last, tool=recode[piece.last.tool])
        known = len(self.runs)
        slots = np.array([self.slots.setdefault(key, len(self.slots)) for key in piece.keys], np.int64)
        for key, slot, run_id, place in zip(
            piece.keys, slots.tolist(), piece.run_ids, piece.places, strict=True
        ):
            if slot >= known:
                moved = _moved(place, lines_before)
                self.runs.append(_Run(run_id, 0, moved, unread=self.unread.pop(key, None), file=moved[0]))
        self._join(piece, slots, known, first, lines_before)
        self._first.put(slots[slots >= known], first.at(slots >= known))
        self._last.put(slots, last)
        self._count(piece, lines_before)

    def _tool(self, word: str) -> int:
        code = self.tools.setdefault(word, len(self.tools))
        if code == len(self.tool_words):
            self.tool_words.append(word)
        return code

    def _join(self, piece: Piece, slots: Ints, known: int, first: Facts, lines_before: int) -> None:
        """Check where each run goes on, and take over what the piece found."""
        assert self._last is not None
        goes_on = np.flatnonzero(slots < known)
        before = self._last.at(slots[goes_on])
        rule, cursor = broken(before, first.at(goes_on), np.zeros(len(goes_on), np.bool_))
        seams = {int(goes_on[n]): n for n in np.flatnonzero(rule).tolist()}
        refuses = piece.refuses.copy()
        refuses[goes_on] |= cursor
        for g, (slot, size) in enumerate(zip(slots.tolist(), piece.sizes.tolist(), strict=True)):
            run = self.runs[slot]
            run.refuses = run.refuses or bool(refuses[g])
            file, line = _moved(piece.places[g], lines_before)
            if slot < known and file != run.file:
                self._shared(run, file, line)
            if run.unread is None and piece.unread:
                missing = piece.unread.get(piece.keys[g])
                if missing is not None:
                    run.unread = _later(missing, run.size, lines_before)
            if run.hit is None:
                if g in seams:
                    name = RULE_OF_CODE[int(rule[seams[g]])]
                    run.hit = self._seam(
                        name, run, piece, g, before.at(np.array([seams[g]])), first, lines_before
                    )
                elif g in piece.hits:
                    row = piece.hits[g]
                    run.hit = row | {
                        "index": row["index"] + run.size,
                        "run_id": run.run_id,
                        "line": _added(row["line"], lines_before),
                    }
            run.size += size

    def remark(self, problem: Row) -> None:
        """One more warning."""
        if len(self.problems) < self.most_problems:
            self.problems.append(problem)
        self.warnings += 1

    def _shared(self, run: _Run, file: str | None, line: int | None) -> None:
        """A warning: events of one run in two files."""
        message = (
            f"run {run.run_id} has events in {run.file} as well; they are taken as one log, in this order"
        )
        row: Row = {"file": file, "line": line, "level": "warning", "rule": "run_in_two_files"}
        self.remark({**row, "message": message, "run_id": run.run_id})
        run.file = file

    def _seam(
        self, rule: str, run: _Run, piece: Piece, g: int, before: Facts, first: Facts, lines_before: int
    ) -> Row:
        """The row of a rule that breaks where a run goes on in the next piece."""
        at = self._seen(first, g, piece.run_ids[g])
        file, line = _moved(piece.places[g], lines_before)
        return _row(rule, run, run.size, self._seen(before, 0, run.run_id), at, file, line)

    def _seen(self, facts: Facts, n: int, run_id: str) -> Seen:
        tool, effect = int(facts.tool[n]), int(facts.effect[n])
        return Seen(
            run_id,
            int(facts.seq[n]),
            int(facts.version[n]),
            KINDS[facts.kind[n]],
            int(facts.corr[n]),
            None if tool < 0 else self.tool_words[tool],
            None if effect < 0 else ev.EFFECTS[effect],
        )

    def _count(self, piece: Piece, lines_before: int) -> None:
        here = set(piece.keys)
        for key, missing in piece.unread.items():
            if key not in self.slots:
                self.unread.setdefault(key, _later(missing, 0, lines_before))
            elif key not in here:  # the run began before this piece, which has no event of it
                run = self.runs[self.slots[key]]
                run.unread = run.unread or _later(missing, run.size, lines_before)
        room = self.most_problems - len(self.problems)
        self.problems += [
            p | {"line": _added(p.get("line"), lines_before)} for p in piece.problems[: max(0, room)]
        ]
        self.errors += piece.errors
        self.warnings += piece.warnings
        self.events += piece.events
        self.lines += piece.lines

    def piece(self) -> Piece:
        """Everything joined so far, as one piece."""
        every = np.arange(len(self.runs))
        empty = Facts(
            *(
                np.zeros(0, t)
                for t in (np.uint64, np.uint32, np.uint8, np.uint64, bool, np.int32, np.int8, bool)
            )
        )
        unread = {key: run.unread for key, run in zip(self.slots, self.runs, strict=True) if run.unread}
        return Piece(
            keys=list(self.slots),
            run_ids=[run.run_id for run in self.runs],
            sizes=np.array([run.size for run in self.runs], np.int64),
            first=empty if self._first is None else self._first.at(every),
            last=empty if self._last is None else self._last.at(every),
            places=[run.place for run in self.runs],
            hits={n: run.hit for n, run in enumerate(self.runs) if run.hit is not None},
            refuses=np.array([run.refuses for run in self.runs], np.bool_),
            unread=unread | self.unread,
            tools=list(self.tool_words),
            problems=self.problems,
            errors=self.errors,
            warnings=self.warnings,
            lines=self.lines,
            events=self.events,
        )

    def violations(self) -> list[Row]:
        """One row a broken run, in the order in which the runs first appear."""
        out: list[Row] = []
        if self._first is not None:
            first = self._first.at(np.arange(len(self.runs)))
            rule, cursor = broken(first, first, np.ones(len(first), np.bool_))
            for n, run in enumerate(self.runs):
                hit = run.hit
                if rule[n]:
                    at = self._seen(first, n, run.run_id)
                    hit = _row(RULE_OF_CODE[int(rule[n])], run, 0, None, at, *run.place)
                missing = run.unread
                refuses = run.refuses or bool(cursor[n]) or missing is not None
                if missing is not None and (hit is None or missing.index <= hit["index"]):
                    hit = unread_row(missing, run.run_id)
                if hit is not None:
                    out.append(hit | {"cursor_refuses": refuses})
        return out + without_events(self.unread.values())

    @property
    def run_count(self) -> int:
        """How many runs there are, those without a readable line included."""
        return len(self.runs) + len(without_events(self.unread.values()))


def _row(
    rule: str, run: _Run, index: int, before: Seen | None, at: Seen, file: str | None, line: int | None
) -> Row:
    return {
        "run_id": run.run_id,
        "index": index,
        "seq": at.seq,
        "rule": rule,
        "level": RULE[rule].level,
        "cursor_refuses": False,
        "message": sentence(rule, before, at, run.run_id),
        "file": file,
        "line": line,
    }


def _added(line: int | None, lines_before: int) -> int | None:
    return None if line is None else line + lines_before


def _moved(place: tuple[str | None, int | None], lines_before: int) -> tuple[str | None, int | None]:
    return place[0], _added(place[1], lines_before)


def _later(missing: Unread, events_before: int, lines_before: int) -> Unread:
    """An unreadable line, counted from the beginning of everything instead of its piece's."""
    problem: Mapping[str, Any] = missing.problem
    line = _added(problem.get("line"), lines_before)
    return Unread(missing.index + events_before, {**problem, "line": line})
