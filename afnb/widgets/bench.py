"""``Bench``: the state of an explorer. What is selected and searched, the draft, its plan, the trials.

No widget here: every click is a method, and everything shown is an attribute or a ``Part``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from afnb.core.run import Run
from afnb.errors import ParameterError
from afnb.experiments.budget import Budget
from afnb.experiments.plan import plan
from afnb.experiments.planned import Plan
from afnb.experiments.recordings import compiled_arms, recording_run
from afnb.experiments.replay import ReplayResult
from afnb.widgets.code import code_of
from afnb.widgets.drafts import Draft, budget_of, intervention_of, oracle_choices, oracle_of, recorded
from afnb.widgets.report import write_report
from afnb.widgets.subject import Subject
from afnb.widgets.timeline import Rows
from afnb.widgets.trials import Settings, Setup, Trial

Listener = Callable[[Trial], None]


class Bench:
    """State and deeds of one explorer; several are independent of each other.

    Parameters
    ----------
    subject
        What is shown.
    settings
        What experiments take beside the change.
    oracle
        The oracle given by the caller, or None.
    allow_tools
        Tools that may run again.
    limits
        The budget of each experiment; the form changes its live calls.
    """

    def __init__(
        self,
        subject: Subject,
        settings: Settings | None = None,
        oracle: Any = None,
        allow_tools: tuple[str, ...] = (),
        limits: Budget | None = None,
    ) -> None:
        self.subject = subject
        self.settings = settings or Settings()
        self.given_oracle = oracle
        self.rows = Rows(subject)
        self.selected = subject.fork or 0
        self.query, self.tool = "", ""
        self.matching: list[int] | None = None
        self.oracles = oracle_choices(oracle, subject.good_run, self.settings.agent)
        self.oracle_choice, self.oracle_text = self.oracles[0], ""
        self.limits = limits or Budget()
        self.live_calls = "" if self.limits.live_calls is None else str(self.limits.live_calls)
        self.allow_tools = ", ".join(allow_tools)
        self.draft = self._fresh("graft" if subject.good is not None else "edit")
        self.planned: tuple[Setup, Plan] | None = None
        self.trials: list[Trial] = []
        self.shown: Trial | None = None
        self._listeners: list[Listener] = []
        self._lock = threading.Lock()

    # -- looking -----------------------------------------------------------------------------------

    def select(self, row: int) -> int:
        """Choose a row, the nearest one there is; the draft follows to its step."""
        self.selected = max(0, min(row, len(self.subject) - 1))
        self.draft = self._fresh(self.draft.kind)
        self.planned = None
        return self.selected

    def search(self, query: str, tool: str = "") -> list[int] | None:
        """Rows that match; None where nothing is searched for."""
        self.query, self.tool = query, tool
        self.matching = self.rows.matching(query, tool) if query.strip() or tool else None
        return self.matching

    def next_of(self, direction: int) -> int | None:
        """The next row that was searched for, else the next difference."""
        if self.matching is None:
            return self.rows.next_difference(self.selected, direction)
        if direction > 0:
            return next((row for row in self.matching if row > self.selected), None)
        return next((row for row in reversed(self.matching) if row < self.selected), None)

    # -- drafting ----------------------------------------------------------------------------------

    def _fresh(self, kind: str) -> Draft:
        step = self.subject.bad_step(self.selected) if len(self.subject) else None
        number = self.subject.steps_at(self.selected)[0] if len(self.subject) else None
        text, form = ("", "text") if step is None else recorded(step)
        return Draft(kind, number, text, form)  # type: ignore[arg-type]

    def change(self, **fields: Any) -> None:
        """Change the draft (``kind``, ``text``, ``form``, ``model``); what was planned is planned no more."""
        self.draft = replace(self.draft, **fields)
        self.planned = None

    def choose(self, **fields: str) -> None:
        """Change ``oracle_choice``, ``oracle_text``, ``live_calls`` or ``allow_tools``."""
        for name, value in fields.items():
            setattr(self, name, value)
        self.planned = None

    def cannot_run(self) -> str | None:
        """Why no experiment can be made here at all, or None."""
        if self.subject.bad is None:
            return (
                "These are runs, not recordings: they can be looked at. To try changes, give the recordings: "
                "afnb.explore(bad, good, agent=..., upstream=...)"
            )
        if self.settings.agent is None:
            return (
                "To try changes, say which agent is re-run and who answers it: "
                "afnb.explore(bad, good, agent=..., upstream=...)"
            )
        return None

    def setup(self) -> Setup:
        """What stands in the forms, checked.

        Raises
        ------
        ParameterError
            Something is missing or does not fit; the sentence says what.
        """
        why = self.cannot_run()
        if why is not None:
            raise ParameterError(why)
        subject = self.subject
        assert subject.bad is not None
        change = intervention_of(self.draft)
        oracle = oracle_of(self.oracle_choice, self.oracle_text, self.given_oracle, subject.good_run)
        tools = tuple(name.strip() for name in self.allow_tools.split(",") if name.strip())
        compiled_arms(
            change,
            subject.bad,
            subject.good,
            subject.found,
            bad_run=subject.bad_run,
            good_run=None if subject.good is None else subject.good_run,
        )
        return Setup(
            change,
            oracle,
            budget_of(self.live_calls, self.limits),
            tools,
            self.oracle_choice,
            self.oracle_text,
        )

    def plan(self) -> Plan:
        """What the draft will take; nothing is started. ``run`` runs what was planned.

        Raises
        ------
        ParameterError
            The forms do not make an experiment yet.
        """
        setup = self.setup()
        assert self.subject.bad is not None
        found = plan(
            self.subject.bad,
            self.subject.good,
            what="what_if",
            intervention=setup.intervention,
            consensus=self.settings.consensus,
            budget=setup.budget,
            seed=self.settings.seed,
        )
        self.planned = (setup, found)
        return found

    # -- running -----------------------------------------------------------------------------------

    @property
    def running(self) -> Trial | None:
        """The trial that is under way."""
        return next((trial for trial in self.trials if not trial.over), None)

    def listen(self, listener: Listener) -> None:
        """Have ``listener`` called, from the trial's thread, whenever a trial has something new."""
        self._listeners.append(listener)

    def run(self) -> Trial:
        """Start what was planned, in the background.

        Raises
        ------
        ParameterError
            Nothing is planned, or a trial is under way.
        """
        with self._lock:
            if self.running is not None:
                raise ParameterError("one experiment is under way; stop it, or wait for its end")
            if self.planned is None:
                raise ParameterError("look at the plan first: press Plan")
            assert self.subject.bad is not None
            trial = Trial(
                len(self.trials) + 1,
                self.planned[0],
                self.settings,
                self.subject.bad,
                self.subject.good,
                self._changed,
            )
            self.planned = None
            self.trials.append(trial)
            self.shown = trial
        return trial.start()

    def stop(self) -> None:
        """Stop the running trial; a second time, end its running replays as well."""
        if self.running is not None:
            self.running.stop()

    def show(self, number: int) -> Trial | None:
        """Show a trial of the history by its number."""
        self.shown = next((trial for trial in self.trials if trial.number == number), self.shown)
        return self.shown

    def _changed(self, trial: Trial) -> None:
        for listener in self._listeners:
            listener(trial)

    # -- taking away -------------------------------------------------------------------------------

    def code(self) -> str:
        """The shown trial as code, else what stands in the forms.

        Raises
        ------
        ParameterError
            The forms do not make an experiment yet.
        """
        setup = self.setup() if self.shown is None else self.shown.setup
        return code_of(self.subject, setup, self.settings)

    def report(self, path: str | Path) -> Path:
        """Write what was found as one self-contained HTML file that is not there yet.

        Raises
        ------
        ParameterError
            There is such a file already, or it cannot be written.
        """
        codes = [code_of(self.subject, trial.setup, self.settings) for trial in self.trials]
        return write_report(Path(path), self.subject, self.trials, codes)

    def compared(self, result: ReplayResult) -> Run:
        """The run of a replay, to be compared with the bad and the good one.

        Raises
        ------
        ParameterError
            It left nothing behind.
        """
        if result.run is not None:
            return result.run
        if result.recording is not None:
            return recording_run(result.recording)
        raise ParameterError(f"this replay left nothing to compare: {result.reason or 'no reason is known'}")
