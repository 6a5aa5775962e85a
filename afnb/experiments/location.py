"""``Location``: where a failing run was lost, as far as replays could show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from afnb.causal import sentences
from afnb.causal.bisect import Located
from afnb.causal.decision import Label, Rule, Verdict
from afnb.causal.interval import wilson
from afnb.causal.places import Place
from afnb.core.page import Badge, Facts, Page, Part, Shown, Table, Text
from afnb.experiments.fidelity import Fidelity
from afnb.experiments.lab import Spending
from afnb.experiments.replay import ReplayResult
from afnb.experiments.results import Experiment, arms_parts, cost_text, envelope, tool_facts
from afnb.tables.build import build

if TYPE_CHECKING:
    import pyarrow as pa

Mode = Literal["bisect", "curve"]
Kind = Literal["drop", "small_drop", "no_drop", "nothing_to_locate", "not_failing", "unverified"]

SHOWN_POINTS = 16
NOT_FAILING = "The oracle calls the recording itself recovered, so there is no failure to locate."


@dataclass(frozen=True, slots=True)
class Point:
    """Replays with ``served`` recorded answers: how many recovered, of how many; ``lost`` ones beside."""

    served: int
    step: int
    recovered: int
    total: int
    lost: int
    drop: float | None

    @property
    def rate(self) -> float | None:
        """q(k): the recovered share; None without a conclusive replay.

        Examples
        --------
        >>> Point(3, 5, 9, 10, 0, None).rate
        0.9
        """
        return self.recovered / self.total if self.total else None


@dataclass(frozen=True, slots=True, repr=False)
class Location(Shown):
    """The step at which a failing run stops recovering: the drop of q(k), and what confirms it.

    ``verdict`` is that of the confirmation on fresh replays: ``recovered`` says that serving the recorded
    answer of ``step`` lowers the recovery rate, ``not_recovered`` that it lowers it by less than
    ``min_effect``. That the rate falls most there is the claim of the model (``probability``, ``credible``).

    Attributes
    ----------
    kind
        ``drop`` and ``small_drop`` (verified), ``no_drop``, ``nothing_to_locate`` (the agent does not recover
        even from the start), ``not_failing`` (the oracle calls the recording recovered), ``unverified``.
    step
        The likeliest place, or None.
    credible
        First and last step of its 95 % credible interval under the model of one drop, or None.
    points
        The measured places, from nothing served to everything served.
    confirmation
        The experiment that carries the verdict, or None.
    curve, replays, experiments, locations
        Arrow tables.
    """

    id: str
    recording: str
    recording_hash: str
    mode: Mode
    verdict: Verdict
    label: Label
    kind: Kind
    reason: str
    step: int | None
    credible: tuple[int, int] | None
    located: Located | None
    answers: tuple[Place, ...]
    points: tuple[Point, ...]
    search_results: tuple[tuple[int, ReplayResult], ...]
    confirmation: Experiment | None
    fidelity: tuple[Fidelity, ...]
    warnings: tuple[str, ...]
    oracle: str
    oracle_fingerprint: str
    agent: str
    agent_hash: str
    rule: Rule
    seed: int
    budget: str
    spending: Spending
    names: tuple[str, ...] = ()
    preflight: Any = None
    n_jobs: int = field(default=1, compare=False)

    @property
    def decisive_step(self) -> int | None:
        """The step, if the confirmation showed that serving its recorded answer lowers the rate."""
        return self.step if self.kind == "drop" else None

    @property
    def curve(self) -> pa.Table:
        """One row per place, measured or not (table ``curve``)."""
        return build("curve", self.curve_rows())

    @property
    def replays(self) -> pa.Table:
        """One row per replay of the search and of the confirmation (table ``replays``)."""
        return build("replays", self.replay_rows())

    @property
    def experiments(self) -> pa.Table:
        """The confirmation's row, if there was one (table ``experiments``)."""
        return build("experiments", [] if self.confirmation is None else [self.confirmation.row()])

    @property
    def locations(self) -> pa.Table:
        """One row (table ``locations``)."""
        return build("locations", [self.row()])

    @property
    def search_replays(self) -> int:
        """Replays that the search consumed."""
        return 0 if self.located is None else self.located.replays

    @property
    def replays_used(self) -> int:
        """Replays that the search and the rule consumed."""
        return self.search_replays + (0 if self.confirmation is None else self.confirmation.decision.replays)

    @property
    def live_calls_used(self) -> int:
        """Live calls of those replays."""
        searched = sum(result.report.live for used, result in self._searched() if used)
        return searched + (0 if self.confirmation is None else self.confirmation.live_calls_used)

    @property
    def replays_spent(self) -> int:
        """Replays started, needed or not."""
        return self.spending.replays

    @property
    def replays_reused(self) -> int:
        """Those that a ledger had already."""
        return self.spending.reused

    @property
    def live_calls_spent(self) -> int:
        """Live calls made, needed or not."""
        return self.spending.live_calls

    @property
    def tokens_spent(self) -> int:
        """Tokens of these."""
        return self.spending.tokens

    @property
    def dollars_spent(self) -> float:
        """Their cost in US dollars, where there are prices."""
        return self.spending.dollars

    @property
    def wall_s(self) -> float:
        """Wall time in seconds."""
        return self.spending.wall_s

    def _searched(self) -> list[tuple[bool, ReplayResult]]:
        asked = set() if self.located is None else {(a.served, a.index) for a in self.located.asked}
        return [((served, result.index) in asked, result) for served, result in self.search_results]

    def curve_rows(self) -> list[dict[str, Any]]:
        """Rows of the ``curve`` table, from nothing served on."""
        rows = []
        for point in self.points:
            place = self.answers[point.served - 1] if point.served else None
            low, high = wilson(point.recovered, point.total) or (None, None)
            rows.append(
                {
                    "location": self.id,
                    "served": point.served,
                    "step": point.step,
                    "name": None if place is None else place.name,
                    "exchange": None if place is None else place.exchange,
                    "seq": None if place is None else place.seq,
                    "recovered": point.recovered,
                    "total": point.total,
                    "lost": point.lost,
                    "rate": point.rate,
                    "low": low,
                    "high": high,
                    "drop": point.drop,
                }
            )
        return rows

    def replay_rows(self) -> list[dict[str, Any]]:
        """Rows of the ``replays`` table: the search by place and index, then the confirmation."""
        asked = set() if self.located is None else {(a.served, a.index) for a in self.located.asked}
        rows = [
            result.row(
                f"{self.id}: {'stopped' if served < 0 else f'{served} served'}",
                (served, result.index) in asked,
            )
            for served, result in self.search_results
        ]
        return rows + ([] if self.confirmation is None else self.confirmation.replay_rows())

    def row(self) -> dict[str, Any]:
        """The row of the ``locations`` table."""
        low, high = self.credible or (None, None)
        return {
            "location": self.id,
            "recording": self.recording,
            "recording_hash": self.recording_hash,
            "mode": self.mode,
            "verdict": self.verdict,
            "label": self.label,
            "kind": self.kind,
            "decisive_step": self.step,
            "credible_low": low,
            "credible_high": high,
            "probability": 0.0 if self.located is None else self.located.probability,
            "no_drop": 0.0 if self.located is None else self.located.no_drop,
            "answers": len(self.answers),
            "reason": self.reason,
            "alpha": self.rule.error or 1.0,
            "oracle": self.oracle,
            "search_replays": self.search_replays,
            "replays_used": self.replays_used,
            "live_calls_used": self.live_calls_used,
            "replays_spent": self.replays_spent,
            "live_calls_spent": self.live_calls_spent,
            "tokens_spent": self.tokens_spent,
            "dollars_spent": self.dollars_spent,
            "replays_reused": self.replays_reused,
            "wall_s": self.wall_s,
        }

    def to_json(self) -> dict[str, Any]:
        """The versioned machine form."""
        return {
            **envelope("location", self),
            **self.row(),
            "agent": self.agent,
            "agent_hash": self.agent_hash,
            "oracle_fingerprint": self.oracle_fingerprint,
            "rule": repr(self.rule),
            "seed": self.seed,
            "budget": self.budget,
            "warnings": list(self.warnings),
            "fidelity": [check.sentence() for check in self.fidelity],
            "curve": self.curve_rows(),
            "confirmation": None if self.confirmation is None else self.confirmation.to_json(),
            "replays": self.replay_rows(),
        }

    def step_name(self, step: int) -> str:
        """``step 4 (refund_policy)``."""
        return f"step {step} ({self.names[step]})" if 0 <= step < len(self.names) else f"step {step}"

    def sentence(self) -> str:
        """What was shown, and what was not."""
        if self.kind == "not_failing":
            return NOT_FAILING
        if self.kind == "nothing_to_locate":
            return f"{sentences.NOTHING_TO_LOCATE} {self._flat()}"
        if self.kind == "no_drop":
            return f"{sentences.NO_DROP} {self._flat()}"
        if self.confirmation is None or self.step is None or self.credible is None:
            return f"The replays do not decide; reason: {self.reason.rstrip('.')}."
        return sentences.located_sentence(
            self.confirmation.decision,
            self.step,
            self.credible,
            verdict=self.verdict,
            label=self.label,
            reason=self.reason,
        )

    def _flat(self) -> str:
        recovered = sum(point.recovered for point in self.points)
        total = sum(point.total for point in self.points)
        return (
            f"{recovered} of {total} replays recovered, wherever the tape ended; that is what a model of one "
            "drop makes of them, not a test."
        )

    def page(self) -> Page:
        """The card."""
        parts: list[Part] = [Text(self.sentence())]
        if self.confirmation is not None:
            names = (f"tape ends before step {self.step}", f"tape through step {self.step}")
            parts.extend(arms_parts(self.confirmation, names))
        table = self.point_table()
        if table is not None:
            parts.append(table)
        parts.append(Facts(tuple(self.facts())))
        parts.extend(Text(warning, "warn") for warning in self.warnings)
        following = ("loc.curve.to_pandas()", "afnb.plot.recoverability(loc)", "loc.replays.to_pandas()")
        return Page(f"Where {self.recording} was lost", self.badge(), tuple(parts), following)

    def badge(self) -> Badge:
        """The verdict in two or three words."""
        if self.label == "verified" and self.step is not None:
            drop = "drop" if self.kind == "drop" else "no large drop"
            return Badge(f"verified: {drop} at step {self.step}", "good" if self.kind == "drop" else "bad")
        return Badge("Unverified", "quiet")

    def point_table(self) -> Table | None:
        """The measured places, those nearest the likeliest drop first to stay."""
        measured = [point for point in self.points if point.total or point.lost]
        if not measured:
            return None
        at = self.step if self.step is not None else measured[0].step
        near = sorted(measured, key=lambda point: (abs(point.step - at), point.served))[:SHOWN_POINTS]
        rows = tuple(
            (
                "nothing" if point.served == 0 else self.step_name(point.step),
                f"{point.recovered} of {point.total}",
                str(point.lost),
                "" if point.drop is None else f"{point.drop:.2f}",
            )
            for point in sorted(near, key=lambda point: point.served)
        )
        columns = ("tape answers through", "recovered", "lost", "probability of the drop here")
        return Table(columns, rows, "recovery by place, of the search's replays", len(measured))

    def facts(self) -> list[tuple[str, str]]:
        """Label and value pairs."""
        rows = [("stopped", self.reason)]
        located = self.located
        if located is not None and self.credible is not None:
            low, high = self.credible
            rows.append(
                (
                    "model of one drop",
                    f"steps {low} to {high} (95 % credible), likeliest with probability "
                    f"{located.probability:.2f}; no drop {located.no_drop:.2f}",
                )
            )
            rows.append(("search", f"{self.mode}, {located.replays} replays; {located.reason}"))
        return [
            *rows,
            ("places", f"{len(self.answers)} recorded answers"),
            ("self-check", "; ".join(check.sentence() for check in self.fidelity) or "not run"),
            ("judged by", self.oracle),
            ("rule", repr(self.rule)),
            ("cost", cost_text(self.replays_used, self.live_calls_used, self)),
            *tool_facts(self.preflight),
        ]
