"""Progress of long work: one bar (tqdm.auto), quiet where nobody watches, and what is said before it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from afnb.experiments.budget import Meter

if TYPE_CHECKING:
    from afnb.experiments.replay import ReplayResult


def in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel (no import of IPython: it is there or it is not)."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def announce(text: str, progress: bool | None) -> None:
    """Print one line before anything is spent, unless ``progress`` is False."""
    if progress is not False:
        print(text, file=sys.stdout if in_notebook() else sys.stderr, flush=True)


class Progress:
    """A bar over replays with live calls and outcomes so far.

    Parameters
    ----------
    progress
        True shows it, False does not, None shows it on a terminal or in a notebook.
    """

    def __init__(self, meter: Meter, progress: bool | None, label: str) -> None:
        self.meter = meter
        self.counts = {"recovered": 0, "not_recovered": 0, "inconclusive": 0}
        self._bar: Any = None
        show = progress if progress is not None else (in_notebook() or sys.stderr.isatty())
        if show:
            from tqdm.auto import tqdm

            self._bar = tqdm(desc=label, unit=" replays", leave=False)

    def __call__(self, result: ReplayResult, title: str) -> None:
        """Note one finished replay of the experiment called ``title``."""
        self.counts[result.recovery] += 1
        if self._bar is not None:
            self._bar.set_description_str(title, refresh=False)
            self._bar.set_postfix_str(
                f"{self.counts['recovered']} recovered, {self.counts['not_recovered']} not, "
                f"{self.counts['inconclusive']} inconclusive, {self.meter.live_calls} live calls",
                refresh=False,
            )
            self._bar.update(1)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
