"""The explorer's controls and how they are laid out. Nothing happens here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets

from afnb.core.legible import middle, one_line
from afnb.core.page import Text
from afnb.core.page_html import render_card, render_parts
from afnb.experiments.replay import ReplayResult
from afnb.widgets import details
from afnb.widgets.bench import Bench
from afnb.widgets.canvas import Canvas
from afnb.widgets.drafts import ORACLES, WITH_TEXT
from afnb.widgets.trials import Trial

MAX_TOOLS = 200
KINDS = (("graft the good run's answer", "graft"), ("edit", "edit"), ("ask again", "resample"))


class Forms:
    """All controls of one explorer, filled from its bench."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._looking()
        self._trying()
        self._seeing()
        self._taking()

    def _looking(self) -> None:
        tools = [(option(name), name) for name in self.bench.rows.tools[:MAX_TOOLS]]
        self.query = widgets.Text(placeholder="search the steps", layout=width("15rem"))
        self.query.continuous_update = False
        self.tool = widgets.Dropdown(options=[("any tool", ""), *tools], value="", layout=width("14rem"))
        self.found = widgets.Label("")
        self.back = button("◀ previous", "the previous difference, or the previous match of a search")
        self.forth = button("next ▶", "the next difference, or the next match of a search")
        self.detail = widgets.HTML()
        self.message = widgets.HTML()

    def _trying(self) -> None:
        bench = self.bench
        kinds = KINDS if bench.subject.good is not None else KINDS[1:]
        self.kind = widgets.ToggleButtons(
            options=kinds, value=bench.draft.kind, style={"button_width": "auto"}
        )
        self.text = widgets.Textarea(layout=widgets.Layout(width="100%", height="9rem"))
        self.text.continuous_update = False
        self.text.add_class("afnb-edit")
        self.form = widgets.ToggleButtons(
            options=[("JSON", "json"), ("Text", "text")], style={"button_width": "auto"}
        )
        self.model = widgets.Text(placeholder="another model (empty: the same)", layout=width("18rem"))
        self.step = widgets.HTML()
        self.oracle = widgets.Dropdown(
            options=[(ORACLES[name], name) for name in bench.oracles],
            value=bench.oracle_choice,
            description="recovered means",
            style={"description_width": "8.5rem"},
            layout=width("27rem"),
        )
        self.oracle_text = widgets.Text(
            placeholder=ORACLES[bench.oracle_choice],
            disabled=bench.oracle_choice not in WITH_TEXT,
            layout=width("20rem"),
        )
        self.oracle_text.continuous_update = False
        self.live_calls = widgets.Text(
            value=bench.live_calls,
            description="live calls, at most",
            style={"description_width": "8.5rem"},
            layout=width("15rem"),
        )
        self.allow_tools = widgets.Text(
            value=bench.allow_tools,
            placeholder="names, with commas",
            description="tools that may run again",
            style={"description_width": "11rem"},
            layout=width("34rem"),
        )
        self.plan = button("Plan", "what it will take; nothing is started", "info")
        self.run = button("Run", "start what was planned", "success")
        self.stop = button("Stop", "start nothing more; pressed again, end what runs", "danger")
        self.planned = widgets.HTML()
        self.oracle_text.description_allow_html = False

    def _seeing(self) -> None:
        self.status = widgets.HTML()
        self.replays = widgets.HTML()
        self.page_back, self.page_forth = button("◀", "earlier replays"), button("▶", "later replays")
        self.replay = widgets.Dropdown(
            options=[("a replay …", "")],
            value="",
            description="compare",
            style={"description_width": "4.5rem"},
            layout=width("24rem"),
        )
        with_good = self.bench.subject.good_run is not None
        against = [("with the bad run", "bad"), *([("with the good run", "good")] if with_good else [])]
        self.against = widgets.ToggleButtons(options=against, value="bad", style={"button_width": "auto"})
        self.compared = widgets.HTML()
        self.progress = widgets.HTML()
        self.history = widgets.Dropdown(
            options=[("no experiment yet", 0)],
            value=0,
            description="show",
            style={"description_width": "4.5rem"},
            layout=width("24rem"),
        )

    def _taking(self) -> None:
        self.export = button("As code", "the shown experiment as the code that runs it")
        self.code = widgets.Textarea(layout=widgets.Layout(width="100%", height="17rem", display="none"))
        self.code.add_class("afnb-code-out")
        self.path = widgets.Text(value="explored.html", layout=width("14rem"))
        self.write = button("As report", "write one HTML file with all of it")
        self.written = widgets.HTML()

    # -- layout ------------------------------------------------------------------------------------

    def layout(self, canvas: Canvas) -> widgets.VBox:
        """Everything in reading order."""
        self.edit_row = widgets.VBox([self.form, self.text])
        self.results = widgets.VBox(
            [
                self.status,
                self.replays,
                row(self.page_back, self.page_forth, self.replay, self.against),
                self.compared,
            ]
        )
        trying = [
            row(self.kind, self.step),
            self.edit_row,
            self.model,
            row(self.oracle, self.oracle_text),
            row(self.live_calls, self.allow_tools),
            row(self.plan, self.run, self.stop),
        ]
        why = self.bench.cannot_run()
        if why is not None:
            note = widgets.HTML(details_note(why))
            known = self.bench.subject.known
            trying = [note] if known is None else [widgets.HTML(render_card(known.page())), note]
        panels = [
            widgets.VBox(
                [row(self.query, self.tool, self.back, self.forth, self.found), canvas, self.detail]
            ),
            widgets.VBox([*trying, self.message, self.planned]),
            self.results,
        ]
        if why is None:
            past = [
                row(self.history, self.export, self.path, self.write),
                self.written,
                self.code,
                self.progress,
            ]
            panels.append(widgets.VBox(past))
        for panel in panels[1:]:
            panel.add_class("afnb-panel")
        box = widgets.VBox(panels)
        box.add_class("afnb-explorer")
        self.show_draft()
        return box

    # -- filling -----------------------------------------------------------------------------------

    def take_draft(self) -> None:
        """Show the bench's draft."""
        draft = self.bench.draft
        self.kind.value, self.text.value, self.form.value = draft.kind, draft.text, draft.form
        self.show_draft()

    def show_draft(self) -> None:
        """Show what belongs to the chosen kind of change."""
        draft = self.bench.draft
        where = "no step of the bad run is selected" if draft.step is None else f"at step {draft.step}"
        self.step.value = f'<span data-testid="step">{where}</span>'
        if hasattr(self, "edit_row"):
            self.edit_row.layout.display = "" if draft.kind == "edit" else "none"
        self.model.layout.display = "" if draft.kind == "resample" else "none"

    def take_replays(self, results: Sequence[ReplayResult], page: int) -> None:
        """Offer the replays of a page for comparison; the chosen one stays chosen."""
        chosen = self.replay.value
        first = page * details.PER_PAGE
        options: list[tuple[str, Any]] = [("a replay …", "")]
        for result in results[first : first + details.PER_PAGE]:
            words = f"{details.arm_words(result.role)} {result.index}: {result.recovery.replace('_', ' ')}"
            options.append((words, (result.role, result.index)))
        if tuple(options) != self.replay.options:
            self.replay.options = options
            self.replay.value = chosen if chosen in [value for _, value in options] else ""

    def take_history(self, trials: Sequence[Trial], shown: Trial | None) -> None:
        """Offer the trials, the newest first."""
        options: list[tuple[str, int]] = [
            (option(f"{trial.number}: {trial.setup.intervention.describe()}"), trial.number)
            for trial in reversed(trials)
        ] or [("no experiment yet", 0)]
        if tuple(options) != self.history.options:
            self.history.options = options
        number = 0 if shown is None else shown.number
        if self.history.value != number:
            self.history.value = number


def details_note(text: str) -> str:
    """A sentence as the inside of an HTML widget."""
    return f'<section class="afnb-card afnb-sub">{render_parts((Text(text, "quiet"),))}</section>'


def row(*children: Any) -> widgets.HBox:
    """Controls side by side, broken into lines where there is no room."""
    return widgets.HBox(children, layout=widgets.Layout(flex_flow="row wrap", align_items="center"))


def width(size: str) -> widgets.Layout:
    """A control's width, never wider than its place."""
    return widgets.Layout(width=size, max_width="100%")


def button(text: str, tip: str, style: str = "") -> widgets.Button:
    """A button as wide as its text."""
    return widgets.Button(
        description=text, tooltip=tip, button_style=style, layout=widgets.Layout(width="auto")
    )


def option(text: str, room: int = 60) -> str:
    """An option's text: on one line, shortened in its middle, so that both ends tell it apart."""
    return middle(one_line(text), room)
