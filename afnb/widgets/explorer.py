"""``explore``: look at one failure, and experiment on it, by clicking; every click is also code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from afnb.align.params import AlignParams
from afnb.causal.consensus import SequentialConsensus
from afnb.causal.decision import Rule
from afnb.core.matching import Matching
from afnb.core.page import Code, Page, Part, Shown, Table, Text
from afnb.core.page_html import render_html
from afnb.core.page_text import render_short
from afnb.experiments.budget import Budget
from afnb.experiments.results import Experiment
from afnb.widgets import details
from afnb.widgets.bench import Bench
from afnb.widgets.subject import subject_of
from afnb.widgets.trials import Settings


class Explorer(Shown):
    """A failure under examination: a widget in a notebook, a card where there is no kernel.

    Displayed again it is the same explorer in the same state; several are independent. ``bench`` has
    every deed as a method.

    Parameters
    ----------
    bench
        Its state; ``explore`` makes it.

    Examples
    --------
    >>> from afnb.experiments.demo import bundled
    >>> explore(bundled("refund").bad).page().title
    'Explored: refund-bad'
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._view: Any = None
        self._cards: list[Any] = []

    @property
    def view(self) -> Any:
        """The widgets, made when they are first asked for."""
        if self._view is None:
            from afnb.widgets.view import View

            self._view = View(self.bench)
            self.bench.listen(lambda trial: self._refresh() if trial.over else None)
        return self._view

    @property
    def widget(self) -> Any:
        """The ipywidget, for a layout of one's own."""
        return self.view.box

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """The experiments that came to an end, in order."""
        return tuple(trial.experiment for trial in self.bench.trials if trial.experiment is not None)

    def code(self) -> str:
        """The shown experiment as Python, else the one that stands in the forms."""
        return self.bench.code()

    def report(self, path: str | Path) -> Path:
        """Write all of it as one self-contained HTML file."""
        return self.bench.report(path)

    def page(self) -> Page:
        """The card that stands for the widget where no kernel runs."""
        subject, bench = self.bench.subject, self.bench
        shown = subject.bad_run.page() if subject.found is None else subject.found.page()
        parts: list[Part] = list(shown.parts)
        if subject.known is not None:
            parts.append(Text(subject.known.sentence()))
        if bench.trials:
            table = details.history_parts(bench.trials)[0]
            assert isinstance(table, Table)
            parts.append(Table(table.columns, table.rows, "experiments in this explorer"))
            parts += [Text(one.sentence()) for one in self.experiments]
            if bench.shown is not None:
                parts.append(Code(self.bench.code(), "the shown one as code"))
        following = ("x.experiments", "x.code()", 'x.report("explored.html")')
        return Page(f"Explored: {subject.title}", shown.badge, tuple(parts), following)

    def _ipython_display_(self) -> None:
        """The widget, and below it, folded away, the card that outlives the kernel."""
        from IPython.display import display

        show: Any = display
        show(self.widget)
        self._cards.append(show(self._static(), raw=True, display_id=True))

    def _static(self) -> dict[str, str]:
        page = self.page()
        card = f"<details><summary>the same as a static card</summary>{render_html(page)}</details>"
        return {"text/plain": render_short(page), "text/html": card}

    def _refresh(self) -> None:
        for handle in self._cards:
            if handle is not None:
                handle.update(self._static(), raw=True)

    def _repr_html_(self) -> str:
        return render_html(self.page())


def explore(
    x: Any,
    good: Any = None,
    *,
    agent: Any = None,
    upstream: Any = None,
    oracle: Any = None,
    allow_tools: Iterable[str] = (),
    consensus: Rule | None = None,
    budget: Budget | None = None,
    n_jobs: int = 4,
    seed: int = 0,
    backend: str = "threading",
    params: AlignParams | None = None,
    matching: Matching | None = None,
    ledger: Any = None,
) -> Explorer:
    """Look at one failure in a notebook, and try changes by clicking; every click is available as code.

    Both runs lie on one time line. Select a step for its field diff; choose a change (the good run's answer,
    an edit, asking again), what counts as recovered and a budget; look at the plan; press *Run*, and watch
    the replays arrive and the evidence grow. Experiments run in the background: the kernel stays free.

    Parameters
    ----------
    x
        A bad recording or run, an event log, the path of one, a pair ``(bad, good)``, a diff, or an
        attribution.
    good
        A good one of the same task.
    agent, upstream
        What is re-run and who answers it, as for ``what_if``; without them there is only looking.
    oracle
        What counts as recovered; others can be chosen by clicking.
    allow_tools
        Names of the agent's tools that may run again.
    consensus, n_jobs, seed, backend, matching, ledger
        As for ``what_if``.
    budget
        The limits of each experiment; the number of live calls can be changed by clicking.
    params
        Of the alignment.

    Returns
    -------
    Explorer
        Displays itself.

    Raises
    ------
    ParameterError
        There is nothing in it that can be explored.

    Examples
    --------
    >>> from afnb.experiments.demo import bundled
    >>> pair = bundled("refund")
    >>> x = explore(pair.bad, pair.good, agent=pair.agent, upstream=pair.upstream(), oracle=pair.oracle,
    ...             allow_tools=pair.tools)
    >>> x.bench.plan().scenes[0].replays
    6
    >>> x.bench.run().join(60), x.experiments[0].verdict
    (True, 'recovered')
    """
    subject = subject_of(x, good, params)
    limits = budget or Budget()
    settings = Settings(
        agent=agent,
        upstream=upstream,
        consensus=consensus or SequentialConsensus(),
        n_jobs=n_jobs,
        seed=seed,
        backend=backend,
        matching=matching,
        ledger=ledger,
    )
    return Explorer(Bench(subject, settings, oracle, tuple(allow_tools), limits))
