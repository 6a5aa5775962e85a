"""``Batch``: what became of many failing runs, as tables, a card and a report."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import afnb
from afnb.core.jsonvalue import loads
from afnb.core.page import Badge, Page, Part, Shown, Table, Tone
from afnb.core.page_json import page_from_json
from afnb.errors import InputError, ParameterError
from afnb.experiments.batch_folder import BatchFolder, read_table
from afnb.experiments.batch_summary import Tally, details, lead, runs, tally
from afnb.experiments.pair_row import STATES
from afnb.tables.schemas import SCHEMA_VERSION, columns, schema

if TYPE_CHECKING:
    import pyarrow as pa

REPORTS: dict[str, Callable[[Batch], str]] = {}
"""Ending of a report's file to what writes it (``afnb.report`` fills it in)."""

SHOWN_PAIRS = 20


@dataclass(frozen=True, slots=True, repr=False)
class Batch(Shown):
    """Many failing runs, each compared with its good runs and attributed.

    Attributes
    ----------
    pairs
        Arrow table, one row a pair: its attribution, and what the batch knows of it (state, stage,
        labels, evidence, cost). A pair that could not be run is a row with its reason.
    attributions, experiments, replays
        The tables of attributions, experiments and replays, of all pairs together; of the replays those
        that a rule took.
    settings
        What was asked for, as JSON values.
    folder
        Where it is kept; None for a batch that was run without one.
    """

    pairs: pa.Table
    experiments: pa.Table
    replays: pa.Table
    settings: Mapping[str, Any]
    folder: str | None = None
    kept_cards: pa.Table | None = field(default=None, compare=False)

    @property
    def attributions(self) -> pa.Table:
        """One row a pair (table ``attributions``)."""
        names = [column.name for column in columns("attributions")]
        return self.pairs.select(names).cast(schema("attributions"))

    @property
    def errors(self) -> pa.Table:
        """Rows of the pairs that could not be run."""
        return self.pairs.filter([state == "error" for state in self.pairs.column("state").to_pylist()])

    @property
    def reasons(self) -> dict[str, str]:
        """Name to reason, of every pair without a verdict."""
        return {
            row["pair"]: row["reason"] for row in self.rows() if row["state"] not in ("repair", "no_cause")
        }

    @property
    def tally(self) -> Tally:
        """Counts of pairs by state, and of what they cost."""
        return tally(self.rows())

    @property
    def stopped(self) -> str | None:
        """The crossed limit or interrupt that ended it before every pair was decided; else None."""
        found = self.settings.get("stopped")
        return None if found is None else str(found)

    def rows(self) -> list[dict[str, Any]]:
        """The ``pairs`` table as mappings, JSON columns read."""
        return _rows(self.pairs)

    def card(self, pair: str) -> Page:
        """The card of one pair.

        Raises
        ------
        ParameterError
            There is no such pair.
        """
        for name, page in self.cards().items():
            if name == pair:
                return page
        raise ParameterError(f"no pair of this batch is called {pair!r}")

    def cards(self) -> dict[str, Page]:
        """The cards of all pairs, by name; read from the folder where there is one."""
        table = self.kept_cards
        if table is None:
            if self.folder is None:
                return {}
            path = Path(self.folder) / "cards.parquet"
            table = read_table(path) if path.exists() else BatchFolder(self.folder).tables()["cards"]
        found = zip(table.column("pair").to_pylist(), table.column("card").to_pylist(), strict=True)
        return {str(name): page_from_json(loads(str(text))) for name, text in found}

    def summary(self) -> tuple[Part, ...]:
        """Parts of the summary: outcomes, cost, self-checks, error rate."""
        return lead(self.rows(), self.settings)

    def page(self) -> Page:
        """The card."""
        rows = self.rows()
        parts = [*lead(rows, self.settings), *details(rows)]
        shown = tuple(
            (row["pair"], STATES[row["state"]], row["deed"] or row["fork_deed"] or row["reason"])
            for row in rows[:SHOWN_PAIRS]
        )
        if shown:
            parts.append(Table(("pair", "verdict", "deed, or reason"), shown, "pairs", total=len(rows)))
        following = (
            'batch.report("report.html")',
            "batch.pairs.to_pandas()",
            f"batch.card({_first(rows)!r})",
        )
        return Page(f"Batch of {runs(len(rows), 'failing ')}", self.badge(), tuple(parts), following)

    def badge(self) -> Badge:
        """``12 of 20 verified``."""
        found = self.tally
        tone: Tone = "good" if found.pairs and found.verified == found.pairs else "quiet"
        return Badge(f"{found.verified:,} of {found.pairs:,} verified", tone)

    def to_json(self) -> dict[str, Any]:
        """The versioned machine form: settings, counts, one object a pair."""
        found = self.tally
        return {
            "afnb": "batch",
            "schema_version": SCHEMA_VERSION,
            "afnb_version": afnb.__version__,
            "settings": dict(self.settings),
            "counts": found.states,
            "live_calls": found.live_calls,
            "replays": found.replays,
            "tokens": found.tokens,
            "dollars": found.dollars,
            "pairs": self.rows(),
        }

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report: ``.html`` (one file that needs nothing else), ``.md`` or ``.json``.

        Parameters
        ----------
        path
            The file; its ending says which form. A file that is there is replaced.

        Returns
        -------
        pathlib.Path
            The file that was written.

        Raises
        ------
        ParameterError
            The ending is none of these.
        InputError
            The file cannot be written.
        """
        target = Path(path)
        render = REPORTS.get(target.suffix.lower())
        if render is None:
            known = ", ".join(REPORTS) or "none: import afnb.report first"
            raise ParameterError(f"a report ends in {known}; found {target.suffix or 'no ending'!r}")
        text = render(self)
        part = target.with_name(f".{target.name}.part")
        try:
            part.write_text(text, encoding="utf-8", newline="\n", errors="replace")
            part.replace(target)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise InputError(f"cannot be written: {error.strerror}", path=str(target)) from None
        return target


def _first(rows: list[dict[str, Any]]) -> str:
    return str(rows[0]["pair"]) if rows else "name"


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    json_columns = _json_columns()
    found: list[dict[str, Any]] = table.to_pylist()
    for row in found:
        for name in json_columns:
            row[name] = None if row[name] is None else loads(row[name])
    return found


@functools.cache
def _json_columns() -> tuple[str, ...]:
    return tuple(column.name for column in columns("pairs") if column.type == "json")


def read_batch(folder: str | os.PathLike[str]) -> Batch:
    """Read a batch from its folder, finished or not.

    Nothing of the recordings is opened: the folder holds everything that a report says. Cards are read
    when they are asked for.

    Parameters
    ----------
    folder
        The folder that was given as ``ledger=`` or ``--out``.

    Returns
    -------
    Batch
        With every pair that has a result so far.

    Raises
    ------
    InputError
        It is no folder of a batch, or one of its files cannot be read.

    Examples
    --------
    >>> read_batch("nowhere")
    Traceback (most recent call last):
    ...
    afnb.errors.InputError: nowhere: there is no batch here (no batch.json)
    """
    path = Path(folder)
    if not path.is_dir():
        raise InputError("there is no batch here (no batch.json)", path=str(path))
    kept = BatchFolder(path)
    settings = kept.settings()
    if settings is None:
        raise InputError("there is no batch here (no batch.json)", path=str(path))
    tables = kept.tables(settings.get("names"), settings.get("alpha"))
    return Batch(
        tables["pairs"],
        tables["experiments"],
        tables["replays"],
        {key: value for key, value in settings.items() if key not in ("afnb", "identity", "names")},
        str(path),
    )
