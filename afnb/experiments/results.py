"""Results of experiments: frozen values that show themselves and hand out their Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import afnb
from afnb.causal import sentences
from afnb.causal.decision import ArmCounts, Decision, Label, Verdict
from afnb.core.arm import Tail
from afnb.core.legible import one_line
from afnb.core.page import Badge, Bar, Bars, Facts, Page, Part, Path, Shown, Table, Text, Tone
from afnb.experiments.fidelity import Fidelity
from afnb.experiments.replay import ReplayResult
from afnb.tables.build import build
from afnb.tables.schemas import SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

TONES: dict[str, Tone] = {"recovered": "good", "not_recovered": "bad", "unverified": "quiet"}
WORDS = {"recovered": "recovered", "not_recovered": "not recovered", "unverified": "no verdict"}


def badge(verdict: Verdict, label: Label) -> Badge:
    """``verified: recovered``, ``verified: not recovered`` or ``Unverified``."""
    if label == "Unverified":
        return Badge("Unverified", "quiet")
    return Badge(f"{label}: {WORDS[verdict]}", TONES[verdict])


@dataclass(frozen=True, slots=True, repr=False)
class Experiment(Shown):
    """One intervention against its control arm, and what the replays said.

    ``decision`` is what the consensus rule concluded from the replays alone; ``verdict`` and ``label``
    hold it back (``unverified``) where the replays cannot carry it: a screen, or a failed self-check.

    Attributes
    ----------
    preflight
        What each replay served, changed and asked live, and what became of each tool.
    replays, experiments
        Arrow tables, one row per replay and one row for the experiment.
    """

    id: str
    purpose: str
    recording: str
    recording_hash: str
    interventions: tuple[str, ...]
    steps: tuple[int, ...]
    oracle: str
    oracle_fingerprint: str
    rule: str
    tail: Tail
    decision: Decision
    verdict: Verdict
    label: Label
    reason: str
    fidelity: tuple[Fidelity, ...]
    warnings: tuple[str, ...]
    results: tuple[ReplayResult, ...]
    agent: str
    agent_hash: str
    seed: int
    replays_spent: int
    live_calls_spent: int
    tokens_spent: int
    wall_s: float
    budget: str
    also: tuple[int, ...] = ()
    deed: str | None = None
    dollars_spent: float = 0.0
    replays_reused: int = field(default=0, compare=False)
    n_jobs: int = field(default=1, compare=False)
    preflight: Any = field(default=None, compare=False)

    @property
    def patch(self) -> ArmCounts:
        """Counts of the patch arm."""
        return self.decision.patch

    @property
    def control(self) -> ArmCounts:
        """Counts of the control arm."""
        return self.decision.control

    @property
    def used(self) -> frozenset[tuple[str, int]]:
        """(arm, index) of every replay that the rule consumed."""
        return frozenset((consumed.arm, consumed.index) for consumed in self.decision.consumed)

    @property
    def live_calls_used(self) -> int:
        """Live calls of the replays that the rule consumed."""
        used = self.used
        return sum(result.report.live for result in self.results if (result.role, result.index) in used)

    @property
    def replays(self) -> pa.Table:
        """One row per replay (table ``replays``)."""
        return build("replays", self.replay_rows())

    @property
    def experiments(self) -> pa.Table:
        """One row (table ``experiments``)."""
        return build("experiments", [self.row()])

    def replay_rows(self) -> list[dict[str, Any]]:
        """Rows of the ``replays`` table, in arm and index order."""
        used = self.used
        ordered = sorted(self.results, key=lambda result: (result.role != "patch", result.role, result.index))
        return [result.row(self.id, (result.role, result.index) in used) for result in ordered]

    def row(self) -> dict[str, Any]:
        """The row of the ``experiments`` table."""
        decision = self.decision
        interval = decision.interval or (None, None)
        return {
            "experiment": self.id,
            "purpose": self.purpose,
            "recording": self.recording,
            "recording_hash": self.recording_hash,
            "interventions": list(self.interventions),
            "steps": list(self.steps),
            "branch_step": max(self.steps),
            "oracle": self.oracle,
            "rule": self.rule,
            "tail": self.tail,
            "verdict": self.verdict,
            "label": self.label,
            "reason": self.reason,
            "patch_recovered": self.patch.recovered,
            "patch_total": self.patch.conclusive,
            "patch_lost": self.patch.lost,
            "control_recovered": self.control.recovered,
            "control_total": self.control.conclusive,
            "control_lost": self.control.lost,
            "e_recovered": decision.e_recovered,
            "e_not_recovered": decision.e_not_recovered,
            "threshold": decision.threshold,
            "effect_low": interval[0],
            "effect_high": interval[1],
            "fidelity": "; ".join(check.sentence() for check in self.fidelity),
            "warnings": list(self.warnings),
            "replays_used": decision.replays,
            "live_calls_used": self.live_calls_used,
            "replays_spent": self.replays_spent,
            "live_calls_spent": self.live_calls_spent,
            "tokens_spent": self.tokens_spent,
            "dollars_spent": self.dollars_spent,
            "replays_reused": self.replays_reused,
            "wall_s": self.wall_s,
        }

    def to_json(self) -> dict[str, Any]:
        """The versioned machine form: settings, hashes, verdict, arms, replays."""
        return {
            **envelope("experiment", self),
            **self.row(),
            "agent": self.agent,
            "agent_hash": self.agent_hash,
            "oracle_fingerprint": self.oracle_fingerprint,
            "seed": self.seed,
            "budget": self.budget,
            "preflight": None if self.preflight is None else self.preflight.to_json(),
            "replays": self.replay_rows(),
        }

    def sentence(self) -> str:
        """In one true sentence, what was shown and what was not."""
        return sentences.experiment_sentence(
            self.decision, self.steps, self.verdict, self.label, self.reason, also=self.also, what=self.deed
        )

    def page(self) -> Page:
        """The card."""
        title = f"What if: {'; '.join(self.interventions)}"
        parts: list[Part] = [Text(self.sentence())]
        parts.extend(arms_parts(self))
        parts.append(Facts(tuple(self.facts())))
        parts.extend(Text(warning, "warn") for warning in self.warnings)
        lost = lost_table(self)
        if lost is not None:
            parts.append(lost)
        following = ("e.replays.to_pandas()", "afnb.plot.replays(e)", "afnb.plot.evidence(e)")
        return Page(title, badge(self.verdict, self.label), tuple(parts), following)

    def facts(self) -> list[tuple[str, str]]:
        """Label and value pairs below the arms."""
        decision = self.decision
        rows = [("stopped", self.reason)]
        if decision.interval is not None and decision.blocks:
            low, high = decision.interval
            text = f"{low:+.2f} to {high:+.2f} (anytime-valid, {1 - (decision.rule.error or 0):.1%} level)"
            if self.verdict == "recovered" and low <= 0:
                text += f". {sentences.INTERVAL_NOTE}"
            rows.append(("effect", text))
        rows += [
            ("self-check", "; ".join(check.sentence() for check in self.fidelity) or "not run"),
            ("judged by", self.oracle),
            ("rule", self.rule),
            ("cost", cost_text(decision.replays, self.live_calls_used, self)),
            *tool_facts(self.preflight),
        ]
        if decision.sensitivity is not None:
            rows.append(("lost replays", sentences.sensitivity_sentence(decision.sensitivity)))
        return rows


def tool_facts(flight: Any) -> list[tuple[str, str]]:
    """What the pre-flight said of the tools, where there are any."""
    return [("tools", flight.fates())] if flight is not None and flight.tools else []


class Costs(Protocol):
    """What a result says of its cost: everything that was started, needed or not."""

    @property
    def replays_spent(self) -> int:
        """Replays started."""

    @property
    def replays_reused(self) -> int:
        """Those of them that a ledger had already."""

    @property
    def live_calls_spent(self) -> int:
        """Live calls made."""

    @property
    def tokens_spent(self) -> int:
        """Tokens of these."""

    @property
    def dollars_spent(self) -> float:
        """US dollars, where there are prices."""

    @property
    def wall_s(self) -> float:
        """Wall time in seconds."""

    @property
    def budget(self) -> str:
        """The limits in words."""


def cost_text(replays_used: int, live_calls_used: int, spent: Costs) -> str:
    """What was used of what was spent, in one line."""
    dollars = f", ${spent.dollars_spent:.4g}" if spent.dollars_spent else ""
    ledger = f"; {spent.replays_reused} of these replays came from the ledger" if spent.replays_reused else ""
    return (
        f"{replays_used} replays and {live_calls_used} live calls used; {spent.replays_spent} and "
        f"{spent.live_calls_spent} spent ({spent.tokens_spent} tokens{dollars}, {spent.wall_s:.1f} s, "
        f"{spent.budget}){ledger}"
    )


def arms_parts(
    experiment: Experiment, names: tuple[str, str] = ("patched", "control (as recorded)")
) -> list[Part]:
    """Bars of both arms and the evidence path."""
    bars = []
    for name, counts in zip(names, (experiment.patch, experiment.control), strict=True):
        low, high = counts.wilson or (None, None)
        tone: Tone = "good" if name == names[0] else "quiet"
        bars.append(Bar(name, counts.recovered, counts.conclusive, low, high, tone))
    parts: list[Part] = [
        Bars(tuple(bars), "recovered replays of those that were used, with Wilson's 95 % interval")
    ]
    blocks = experiment.decision.blocks
    threshold = experiment.decision.threshold
    if blocks and threshold is not None:
        if experiment.decision.verdict == "not_recovered":
            values = tuple(block.e_not_recovered for block in blocks)
            label = "evidence against an effect of at least min_effect"
        else:
            values = tuple(block.e_recovered for block in blocks)
            label = "evidence against no effect"
        parts.append(Path(label, values, threshold, "e-value after each block of replays"))
    return parts


def explained(decision: Decision, results: Sequence[ReplayResult]) -> str:
    """Why the rule stopped; where many replays were lost, the first detail of the commonest reason."""
    if decision.stopped != "inconclusive":
        return decision.reason
    used = {(consumed.arm, consumed.index) for consumed in decision.consumed}
    for result in sorted(results, key=lambda result: (result.role != "patch", result.index)):
        named = f"({result.reason})"
        if result.detail and named in decision.reason and (result.role, result.index) in used:
            why = f"({result.reason}: {one_line(result.detail, 200)})"
            return decision.reason.replace(named, why)
    return decision.reason


def lost_table(experiment: Experiment) -> Table | None:
    """Inconclusive replays by reason, or None if there are none."""
    reasons: dict[tuple[str, str, str], list[ReplayResult]] = {}
    for result in experiment.results:
        if result.recovery == "inconclusive" and result.role != "check":
            reasons.setdefault((result.role, result.reason or "", result.lost or ""), []).append(result)
    if not reasons:
        return None
    rows = tuple(
        (role, reason, f"{lost} the intervention", str(len(found)), (found[0].detail or "")[:200])
        for (role, reason, lost), found in sorted(reasons.items())
    )
    return Table(("arm", "reason", "lost", "replays", "first of them"), rows, "inconclusive replays")


def envelope(kind: str, result: Any) -> dict[str, Any]:
    """Head of every machine form: what it is, in which schema, by which version."""
    return {
        "afnb": kind,
        "schema_version": SCHEMA_VERSION,
        "afnb_version": afnb.__version__,
        "verdict": result.verdict,
        "label": result.label,
    }


def used_results(experiment: Experiment) -> list[ReplayResult]:
    """Replays of the experiment that its rule consumed."""
    used = experiment.used
    return [result for result in experiment.results if (result.role, result.index) in used]


def steps_text(steps: Sequence[int]) -> str:
    """``3, 5`` or ``none``."""
    return ", ".join(str(step) for step in steps) if steps else "none"
