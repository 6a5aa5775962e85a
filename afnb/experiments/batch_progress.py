"""Progress of a batch: pairs done, verdicts so far, live calls and cost, the rate and what remains."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from afnb.experiments.progress import announce, in_notebook
from afnb.experiments.purse import Purse

LARGE = 1_000_000
_WORDS = {
    "repair": "repairs",
    "no_cause": "without a cause",
    "unverified": "Unverified",
    "untested": "not tested",
    "open": "open",
    "error": "errors",
}


class BatchProgress:
    """One bar over pairs, and a line before anything is spent.

    Parameters
    ----------
    purse
        What is spent.
    progress
        True shows it, False does not, None shows it on a terminal or in a notebook.
    """

    def __init__(self, purse: Purse, progress: bool | None) -> None:
        self.purse = purse
        self.progress = progress
        self.counts: Counter[str] = Counter()
        self._bar: Any = None

    def shipping(self, size: int) -> None:
        """Say what each task carries to its worker, where that is much."""
        if size > LARGE:
            announce(
                f"agent, oracle and upstream take {size / 1e6:.1f} MB, sent with every pair", self.progress
            )

    def plan(self, pairs: int, ready: int, budget: str) -> None:
        """Say what is going to be done, before anything is spent."""
        self._end_bar()
        known = sum(self.counts.values())
        rest = f", {known} need no replays" if known else ""
        announce(
            f"{pairs} failing runs: {ready} to be re-run{rest}; budget of the batch: {budget}", self.progress
        )

    def start(self, what: str, total: int) -> None:
        """Begin a stage."""
        self._end_bar()
        show = self.progress if self.progress is not None else (in_notebook() or sys.stderr.isatty())
        if show and total:
            from tqdm.auto import tqdm

            self._bar = tqdm(desc=what, total=total, unit=" pairs", leave=False)

    def step(self) -> None:
        """One pair was screened."""
        if self._bar is not None:
            self._bar.update(1)

    def known(self, state: str) -> None:
        """One pair was finished before."""
        self.counts[state] += 1
        self.step()

    def aside(self) -> None:
        """One pair was put aside."""
        self._tell()
        self.step()

    def pair(self, state: str) -> None:
        """One pair has its row."""
        self.counts[state] += 1
        self._tell()
        if self._bar is not None and self._bar.desc.startswith(("attributing", "undecided")):
            self._bar.update(1)

    def words(self) -> str:
        """``3 repairs, 1 Unverified, 120 live calls, $0.20``."""
        parts = [f"{self.counts[state]} {word}" for state, word in _WORDS.items() if self.counts[state]]
        spent = self.purse.spent()
        parts.append(f"{spent.live_calls:,} live calls")
        if spent.dollars:
            parts.append(f"${spent.dollars:,.2f}")
        return ", ".join(parts)

    def end(self, settings: Mapping[str, Any]) -> None:
        """Say what came of it."""
        self._end_bar()
        stopped = f"stopped: {settings['stopped']}; " if settings.get("stopped") else ""
        resume = f". {settings['resume']}" if settings.get("resume") else ""
        announce(f"{stopped}{self.words()}{resume}", self.progress)

    def close(self) -> None:
        """Take the bar away."""
        self._end_bar()

    def _tell(self) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(self.words(), refresh=False)

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
