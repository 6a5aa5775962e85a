"""``ValidationReport``: what a check of many logs found, and its card."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from afnb.core.page import Badge, Bar, Bars, Facts, Page, Part, Shown, Table, Text
from afnb.tables.schemas import SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 20
_JSON_ROWS = 10_000


@dataclass(frozen=True, slots=True, repr=False)
class ValidationReport(Shown):
    """What `validate` and `validate_files` found.

    Parameters
    ----------
    violations
        Arrow table, one row a broken run: ``run_id``, ``index`` in its log, ``seq``, ``rule``,
        ``level``, ``cursor_refuses``, ``message``, ``file``, ``line``.
    problems
        Arrow table, one row a line that could not be read (level ``error``) or a remark
        (``warning``), with file and line.
    runs, events, files
        How many were looked at.
    errors, warnings
        How many problems there are of each level; ``problems`` may list the first ones only.
    one_run_per_file
        Whether a second run in a file counted as a violation.

    Examples
    --------
    >>> from afnb.tables.build import build
    >>> ValidationReport(build("violations", []), build("problems", []), runs=2, events=9, files=1).ok
    True
    """

    violations: pa.Table
    problems: pa.Table
    runs: int
    events: int
    files: int
    errors: int = -1
    warnings: int = -1
    one_run_per_file: bool = False

    def __post_init__(self) -> None:
        for name, level in (("errors", "error"), ("warnings", "warning")):
            if getattr(self, name) < 0:
                found = self.problems.column("level").to_pylist().count(level)
                object.__setattr__(self, name, found)

    @property
    def broken(self) -> int:
        """How many runs are broken."""
        rows: int = self.violations.num_rows
        return rows

    @property
    def ok(self) -> bool:
        """Whether every line could be read and every run is well formed."""
        return not self.broken and not self.errors

    @property
    def by_rule(self) -> dict[str, int]:
        """How many runs break each rule first, the commonest rule first."""
        rules: list[Any] = self.violations.column("rule").to_pylist()
        return dict(Counter(rules).most_common())

    def to_json(self) -> dict[str, Any]:
        """The machine form, versioned: counts, and the first 10,000 rows of each table."""
        return {
            "afnb": "validation",
            "schema_version": SCHEMA_VERSION,
            "ok": self.ok,
            "files": self.files,
            "events": self.events,
            "runs": self.runs,
            "broken": self.broken,
            "by_rule": self.by_rule,
            "errors": self.errors,
            "warnings": self.warnings,
            "one_run_per_file": self.one_run_per_file,
            "violations": self.violations.slice(0, _JSON_ROWS).to_pylist(),
            "problems": self.problems.slice(0, _JSON_ROWS).to_pylist(),
        }

    def page(self) -> Page:
        """The card."""
        parts: list[Part] = [Text(self.sentence()), Facts(tuple(self._facts()))]
        if self.broken:
            bars = [Bar(rule, n, self.runs, tone="bad") for rule, n in self.by_rule.items()]
            parts.append(Bars(tuple(bars), "runs by the first rule they break"))
            parts.append(self._table())
        if self.problems.num_rows:
            parts.append(self._problems())
        return Page("Event logs", self._badge(), tuple(parts), self._following())

    def sentence(self) -> str:
        """In one sentence, what was found."""
        if not self.events and not self.errors:
            return "There are no events in these logs."
        if self.ok:
            return "The run is well formed." if self.runs == 1 else f"All {self.runs:,} runs are well formed."
        found = []
        if self.broken:
            refused = self.violations.column("cursor_refuses").to_pylist().count(True)
            verb = "is" if self.broken == 1 else "are"
            found.append(f"{self.broken:,} of {_many(self.runs, 'run')} {verb} malformed")
            found.append(f"the replay cursor refuses {refused:,} of them")
        if self.errors:
            found.append(f"{_many(self.errors, 'line')} could not be read")
        text = "; ".join(found)
        return f"{text[0].upper()}{text[1:]}."

    def _badge(self) -> Badge:
        if self.ok:
            return Badge("well formed", "good")
        return Badge(f"{self.broken:,} broken" if self.broken else "unreadable lines", "bad")

    def _facts(self) -> list[tuple[str, str]]:
        rows = [
            (
                "read",
                f"{_many(self.events, 'event')} of {_many(self.runs, 'run')} in {_many(self.files, 'file')}",
            )
        ]
        if self.errors or self.warnings:
            rows.append(("problems", f"{_many(self.errors, 'error')}, {_many(self.warnings, 'warning')}"))
        if self.one_run_per_file:
            rows.append(("rule", "one run a file"))
        return rows

    def _table(self) -> Table:
        names = ["run_id", "index", "rule", "cursor_refuses", "message", "file", "line"]
        listed = self.violations.slice(0, _ROWS).select(names).to_pylist()
        short = _short([row["run_id"] for row in listed])
        rows = tuple(
            (
                run,
                str(row["index"]),
                row["rule"],
                "refuses" if row["cursor_refuses"] else "takes it",
                row["message"],
                _where(row["file"], row["line"]),
            )
            for run, row in zip(short, listed, strict=True)
        )
        header = ("run", "event", "rule", "cursor", "found", "where")
        return Table(header, rows, "where each broken run first breaks a rule", self.broken)

    def _problems(self) -> Table:
        order = sorted(
            self.problems.slice(0, 10 * _ROWS).to_pylist(), key=lambda row: row["level"] != "error"
        )
        rows = tuple(
            (row["level"], _where(row["file"], row["line"]), row["rule"], row["message"])
            for row in order[:_ROWS]
        )
        total = self.errors + self.warnings
        return Table(("level", "where", "rule", "found"), rows, "what reading remarked", total)

    def _following(self) -> tuple[str, ...]:
        if self.broken:
            return ("report.violations.to_pandas()", "afnb.event_log(events, run_id=...)")
        if self.errors:
            return ("report.problems.to_pandas()",)
        return ("afnb.run_states(events).to_pandas()",)


def _short(run_ids: list[str]) -> list[str]:
    """The beginnings of run ids, where those tell them apart."""
    beginnings = [run_id[:8] for run_id in run_ids]
    return beginnings if len(set(beginnings)) == len(set(run_ids)) else run_ids


def _where(file: str | None, line: int | None) -> str:
    return (file or "") + ("" if line is None else f":{line}")


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
