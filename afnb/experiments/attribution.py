"""``Attribution``: what a whole search for the deciding steps came to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from afnb.causal import sentences
from afnb.causal.decision import Label, Rule, Verdict
from afnb.core.page import Facts, Page, Part, Shown, Table, Text, Timeline
from afnb.experiments.fidelity import Fidelity
from afnb.experiments.results import (
    Experiment,
    arms_parts,
    badge,
    cost_text,
    envelope,
    lost_table,
    steps_text,
    tool_facts,
    used_results,
)
from afnb.tables.build import build

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, repr=False)
class Attribution(Shown):
    """Which step of the bad run made it fail, as far as replays could show.

    Attributes
    ----------
    origination
        Steps of the confirmed minimal repair (empty without one). ``kind`` says whether a drop of the
        recovery rate at the step was shown too (``origin``) or not (``repair``).
    propagation
        The other steps from the fork on.
    replays, experiments, attributions
        Arrow tables.
    """

    id: str
    bad: str
    good: str | None
    task: str | None
    verdict: Verdict
    label: Label
    kind: str
    reason: str
    fork_step: int | None
    steps: int
    origination: tuple[int, ...]
    propagation: tuple[int, ...]
    candidates: tuple[tuple[int, int], ...]
    alpha: float
    experiments_run: tuple[Experiment, ...]
    fidelity: tuple[Fidelity, ...]
    warnings: tuple[str, ...]
    diff: Any
    names: tuple[str, ...]
    preflight: Any
    replays_spent: int
    live_calls_spent: int
    tokens_spent: int
    wall_s: float
    budget: str
    hashes: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    rule: Rule | None = None
    dollars_spent: float = 0.0
    replays_reused: int = 0

    @property
    def confirmations(self) -> tuple[Experiment, ...]:
        """The experiments that carry the verdict."""
        return tuple(e for e in self.experiments_run if e.purpose == "confirmation")

    @property
    def replays(self) -> pa.Table:
        """One row per replay of every experiment (table ``replays``)."""
        return build("replays", [row for e in self.experiments_run for row in e.replay_rows()])

    @property
    def experiments(self) -> pa.Table:
        """One row per experiment (table ``experiments``)."""
        return build("experiments", [e.row() for e in self.experiments_run])

    @property
    def attributions(self) -> pa.Table:
        """One row (table ``attributions``)."""
        return build("attributions", [self.row()])

    @property
    def replays_used(self) -> int:
        """Replays that a rule consumed, a shared one counted once."""
        return len({(r.seed, r.role) for e in self.experiments_run for r in used_results(e)})

    @property
    def live_calls_used(self) -> int:
        """Live calls of those replays."""
        seen = {(r.seed, r.role): r.report.live for e in self.experiments_run for r in used_results(e)}
        return sum(seen.values())

    def row(self) -> dict[str, Any]:
        """The row of the ``attributions`` table."""
        return {
            "attribution": self.id,
            "bad": self.bad,
            "good": self.good,
            "task": self.task,
            "verdict": self.verdict,
            "label": self.label,
            "kind": self.kind,
            "fork_step": self.fork_step,
            "steps": self.steps,
            "origination": list(self.origination),
            "propagation": list(self.propagation),
            "candidates": [list(pair) for pair in self.candidates],
            "reason": self.reason,
            "alpha": self.alpha,
            "replays_used": self.replays_used,
            "live_calls_used": self.live_calls_used,
            "replays_spent": self.replays_spent,
            "live_calls_spent": self.live_calls_spent,
            "wall_s": self.wall_s,
        }

    def to_json(self) -> dict[str, Any]:
        """The versioned machine form."""
        return {
            **envelope("attribution", self),
            **self.row(),
            "hashes": dict(self.hashes),
            "seed": self.seed,
            "budget": self.budget,
            "warnings": list(self.warnings),
            "fidelity": [check.sentence() for check in self.fidelity],
            "experiments": [e.to_json() for e in self.experiments_run],
        }

    def step_name(self, step: int) -> str:
        """``step 4 (refund_policy)``."""
        return f"step {step} ({self.names[step]})" if 0 <= step < len(self.names) else f"step {step}"

    @property
    def asked_again(self) -> tuple[int, ...]:
        """The step that was asked for again where nothing could be grafted."""
        return self.experiments_run[-1].steps if self.kind == "asked_again" else ()

    def sentence(self) -> str:
        """What was shown, in one or two true sentences."""
        return sentences.attribution_sentence(
            self.verdict,
            self.label,
            self.kind,
            [self.step_name(step) for step in self.origination or self.asked_again],
            self.reason,
            self.rule,
        )

    def page(self) -> Page:
        """The card."""
        parts: list[Part] = [Text(self.sentence()), *self.timeline()]
        for experiment in self.confirmations or self.experiments_run[:1]:
            parts.append(Text(f"{experiment.purpose}: {'; '.join(experiment.interventions)}", "quiet"))
            parts.append(Text(experiment.sentence()))
            parts.extend(arms_parts(experiment))
            lost = lost_table(experiment)
            if lost is not None:
                parts.append(lost)
        parts.append(Facts(tuple(self.facts())))
        parts.extend(Text(warning, "warn") for warning in self.warnings)
        if self.experiments_run:
            parts.append(self.experiment_table())
        following = ("a.replays.to_pandas()", "afnb.plot.replays(a)", "afnb.plot.alignment(a.diff)")
        return Page(f"Why {self.bad} failed", badge(self.verdict, self.label), tuple(parts), following)

    def timeline(self) -> tuple[Timeline, ...]:
        """The two runs on one line, the steps of the confirmed repair marked; empty without a diff."""
        changed = {str(step) for step in self.origination}
        found = self.diff.page().parts if self.diff is not None else ()
        return tuple(
            replace(
                part,
                ticks=tuple(
                    replace(tick, kind="patched", note="part of the confirmed repair")
                    if tick.bad is not None and tick.bad.split(" ")[0] in changed
                    else tick
                    for tick in part.ticks
                ),
            )
            for part in found
            if isinstance(part, Timeline)
        )

    def facts(self) -> list[tuple[str, str]]:
        """Label and value pairs."""
        fork = "none" if self.fork_step is None else self.step_name(self.fork_step)
        found = {"origin": "origin", "repair": "minimal repair"}.get(self.kind, "origination")
        return [
            (found, steps_text(self.origination)),
            ("propagation", steps_text(self.propagation)),
            ("runs part at", f"{fork} of {self.steps} steps"),
            ("stopped", self.reason),
            ("self-check", "; ".join(check.sentence() for check in self.fidelity) or "not run"),
            ("cost", cost_text(self.replays_used, self.live_calls_used, self)),
            *tool_facts(self.preflight),
        ]

    def experiment_table(self) -> Table:
        """All experiments, one row each."""
        rows = tuple(
            (
                e.purpose,
                ", ".join(str(step) for step in e.steps),
                e.verdict.replace("_", " "),
                e.label,
                f"{e.patch.recovered}/{e.patch.conclusive}",
                f"{e.control.recovered}/{e.control.conclusive}",
                str(e.decision.replays),
            )
            for e in self.experiments_run
        )
        columns = ("experiment", "steps changed", "verdict", "label", "patched", "control", "replays")
        return Table(columns, rows, "experiments: recovered of conclusive replays in either arm")
