"""``View``: the bench as ipywidgets. A handler calls one method of the bench and shows what came of it."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from afnb.align.diff import diff
from afnb.core.page import Part, Text
from afnb.core.page_html import render_card, render_parts
from afnb.errors import AfnbError
from afnb.widgets import details
from afnb.widgets.bench import Bench
from afnb.widgets.canvas import canvas_of, show_matches
from afnb.widgets.drafts import ORACLES, WITH_TEXT
from afnb.widgets.forms import Forms
from afnb.widgets.trials import Trial

EVERY_S = 0.25
"""Seconds between two updates while replays arrive; the last one always comes."""


def html_of(parts: tuple[Part, ...], name: str, *, frame: bool = True) -> str:
    """Parts as the inside of an HTML widget, with a name that tests and readers can find."""
    kind = "afnb-card" if frame else "afnb-card afnb-sub"
    return f'<section class="{kind}" data-testid="{name}">{render_parts(parts)}</section>'


class View:
    """Widgets of one bench; ``box`` is what is displayed, any number of times."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.canvas = canvas_of(bench.rows, bench.selected)
        self.forms = Forms(bench)
        self._last = 0.0
        self._pending: threading.Timer | None = None
        self._lock = threading.RLock()
        self._quiet = False
        self._page = 0
        self._connect()
        self.box = self.forms.layout(self.canvas)
        self.show_row()
        self.show_trial()
        bench.listen(self._arrived)

    # -- wiring ------------------------------------------------------------------------------------

    def _connect(self) -> None:
        f = self.forms
        self.canvas.observe(self._guard(self._selected), "selected")
        for widget in (f.query, f.tool):
            widget.observe(self._guard(self._searched), "value")
        f.back.on_click(self._guard(lambda _: self._go(-1)))
        f.forth.on_click(self._guard(lambda _: self._go(1)))
        for widget in (f.kind, f.text, f.form, f.model):
            widget.observe(self._guard(self._drafted), "value")
        for widget in (f.oracle, f.oracle_text, f.live_calls, f.allow_tools):
            widget.observe(self._guard(self._chosen), "value")
        f.plan.on_click(self._guard(lambda _: self._plan()))
        f.run.on_click(self._guard(lambda _: self._run()))
        f.stop.on_click(self._guard(lambda _: self.bench.stop()))
        for widget in (f.replay, f.against):
            widget.observe(self._guard(lambda _: self._compare()), "value")
        f.page_back.on_click(self._guard(lambda _: self._turn(-1)))
        f.page_forth.on_click(self._guard(lambda _: self._turn(1)))
        f.history.observe(self._guard(self._recalled), "value")
        f.export.on_click(self._guard(lambda _: self._export()))
        f.write.on_click(self._guard(lambda _: self._write()))

    def _guard(self, deed: Callable[[Any], None]) -> Callable[[Any], None]:
        """A handler whose failure is a sentence in the panel, cleared by the next that succeeds."""

        @functools.wraps(deed)
        def handler(change: Any) -> None:
            if self._quiet:
                return
            try:
                deed(change)
            except AfnbError as error:
                self.say(str(error), "warn")
            except Exception as error:  # noqa: BLE001  # ipywidgets would swallow it; the panel shows it
                self.say(f"{type(error).__name__}: {error}", "bad")
            else:
                self.say("")

        return handler

    def say(self, text: str, tone: Any = "plain") -> None:
        """Show one sentence in the panel's own line; empty clears it."""
        parts = (Text(text, tone),) if text else ()
        self.forms.message.value = html_of(parts, "message", frame=False) if text else ""

    # -- looking -----------------------------------------------------------------------------------

    def _selected(self, change: Any) -> None:
        self.bench.select(int(change["new"]))
        self.show_row()

    def _go(self, direction: int) -> None:
        row = self.bench.next_of(direction)
        if row is not None:
            self.canvas.selected = row

    def _searched(self, _change: Any) -> None:
        found = self.bench.search(self.forms.query.value, self.forms.tool.value)
        show_matches(self.canvas, found)
        self.forms.found.value = (
            "" if found is None else f"{len(found):,} of {len(self.bench.subject):,} rows"
        )
        if found and self.bench.selected not in found:
            later = [row for row in found if row > self.bench.selected]
            self.canvas.selected = later[0] if later else found[0]

    def show_row(self) -> None:
        """Show the selected row, and bring the form to its step."""
        self.forms.detail.value = html_of(details.row_parts(self.bench.rows, self.bench.selected), "detail")
        self._silently(self.forms.take_draft)
        self._show_readiness()

    def _silently(self, deed: Callable[[], None]) -> None:
        before, self._quiet = self._quiet, True
        try:
            deed()
        finally:
            self._quiet = before

    # -- trying ------------------------------------------------------------------------------------

    def _drafted(self, _change: Any) -> None:
        f = self.forms
        self.bench.change(kind=f.kind.value, text=f.text.value, form=f.form.value, model=f.model.value)
        f.show_draft()
        self._show_readiness()
        if f.kind.value == "edit" and self.bench.cannot_run() is None:
            self.bench.setup()

    def _chosen(self, _change: Any) -> None:
        f = self.forms
        self.bench.choose(
            oracle_choice=f.oracle.value,
            oracle_text=f.oracle_text.value,
            live_calls=f.live_calls.value,
            allow_tools=f.allow_tools.value,
        )
        f.oracle_text.disabled = f.oracle.value not in WITH_TEXT
        f.oracle_text.placeholder = ORACLES[f.oracle.value]
        self._show_readiness()

    def _plan(self) -> None:
        found = self.bench.plan()
        self.forms.planned.value = f'<div data-testid="plan">{render_card(found.page())}</div>'
        self._show_readiness()

    def _run(self) -> None:
        self._page = 0
        self.bench.run()
        self.show_trial()

    def _show_readiness(self) -> None:
        f, running = self.forms, self.bench.running
        f.plan.disabled = running is not None or self.bench.cannot_run() is not None
        f.run.disabled = running is not None or self.bench.planned is None
        f.stop.disabled = running is None
        if self.bench.planned is None:
            f.planned.value = ""

    # -- replays arriving --------------------------------------------------------------------------

    def _arrived(self, trial: Trial) -> None:
        """From the trial's thread: show it now, or soon, never more often than ``EVERY_S``."""
        with self._lock:
            if trial.over or time.monotonic() - self._last >= EVERY_S:
                if self._pending is not None:
                    self._pending.cancel()
                self._pending, self._last = None, time.monotonic()
                self._show_arrived()
            elif self._pending is None:
                self._pending = threading.Timer(EVERY_S, self._late)
                self._pending.daemon = True
                self._pending.start()

    def _late(self) -> None:
        with self._lock:
            self._pending, self._last = None, time.monotonic()
            self._show_arrived()

    def _show_arrived(self) -> None:
        try:
            self.show_trial()
        except Exception as error:  # noqa: BLE001  # a face that fails may not end the experiment
            self.say(f"{type(error).__name__}: {error}", "bad")

    def show_trial(self) -> None:
        """Show the trial that is looked at: where it stands, its evidence, its replays, the history."""
        with self._lock:
            f, trial = self.forms, self.bench.shown
            self._show_readiness()
            f.progress.value = html_of(details.history_parts(self.bench.trials), "history", frame=False)
            self._silently(lambda: f.take_history(self.bench.trials, trial))
            f.results.layout.display = "none" if trial is None else ""
            self.canvas.patched = [] if trial is None else [trial.setup.intervention.step]
            if trial is None:
                return
            words, tone = details.state_words(trial)
            if trial.experiment is not None:
                shown = f'<div data-testid="verdict">{render_card(trial.experiment.page())}</div>'
            else:
                running = details.evidence_parts(trial.so_far(), running=True) if not trial.error else ()
                shown = html_of((Text(words, tone), *running), "running")
            f.status.value = shown
            self._show_replays(trial)

    def _show_replays(self, trial: Trial) -> None:
        results = trial.results
        pages = max(1, -(-len(results) // details.PER_PAGE))
        self._page = max(0, min(self._page, pages - 1))
        self.forms.replays.value = html_of(details.replay_parts(results, self._page), "replays", frame=False)
        self.forms.page_back.disabled, self.forms.page_forth.disabled = (
            self._page == 0,
            self._page >= pages - 1,
        )
        self._silently(lambda: self.forms.take_replays(results, self._page))

    def _turn(self, direction: int) -> None:
        self._page += direction
        if self.bench.shown is not None:
            self._show_replays(self.bench.shown)

    def _compare(self) -> None:
        f, trial = self.forms, self.bench.shown
        if trial is None or not f.replay.value:
            f.compared.value = ""
            return
        role, index = f.replay.value
        result = next(one for one in trial.results if (one.role, one.index) == (role, index))
        run = self.bench.compared(result)
        other = self.bench.subject.bad_run if f.against.value == "bad" else self.bench.subject.good_run
        assert other is not None
        page = diff(run, other).page()
        f.compared.value = f'<div data-testid="compared">{render_card(page)}</div>'

    # -- the past, and taking away -----------------------------------------------------------------

    def _recalled(self, change: Any) -> None:
        if change["new"]:
            self._page = 0
            self.bench.show(int(change["new"]))
            self.forms.compared.value = ""
            self.show_trial()

    def _export(self) -> None:
        self.forms.code.value = self.bench.code()
        self.forms.code.layout.display = ""

    def _write(self) -> None:
        path = self.bench.report(self.forms.path.value.strip() or "explored.html")
        self.forms.written.value = html_of((Text(f"Written: {path}"),), "written", frame=False)
