"""``Plan``: what something will take, as a card and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from afnb.core.page import Badge, Facts, Page, Part, Shown, Table, Text
from afnb.experiments.budget import Budget
from afnb.experiments.preflight import Preflight
from afnb.experiments.tails import TailCost
from afnb.tables.build import build
from afnb.tables.schemas import SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = {"what_if": "What if", "attribute": "Attribution", "locate": "Locating"}
AS_RECORDED = (
    "Live calls, tokens and dollars are those of tails as long as the recorded one; a tail may be longer. "
    "The budget holds in any case."
)


@dataclass(frozen=True, slots=True)
class Scene:
    """What it takes under one assumption: in the median, or (``most``) at most.

    ``replays_95`` is what 95 % of the rehearsals do not exceed, ``decided`` the share that ends with a
    verdict.
    """

    name: str
    assumption: str
    replays: int
    replays_95: int | None
    cost: TailCost
    decided: float | None


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Shown):
    """How many replays, live calls, tokens and dollars something will take, before anything starts.

    Attributes
    ----------
    scenes
        The median under the assumed rates, the median if nothing has an effect, and the most it can take;
        empty where nothing could be re-run.
    preflight
        What the replays serve, change and ask live, and what becomes of each tool; None for event logs.
    plans
        The same as an Arrow table.
    """

    what: str
    recording: str
    scenes: tuple[Scene, ...]
    rule: str
    limits: Budget
    estimated: int = 0
    preflight: Preflight | None = None

    @property
    def plans(self) -> pa.Table:
        """One row per scene (table ``plans``)."""
        return build("plans", self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the ``plans`` table."""
        return [
            {
                "plan": f"{self.what} {self.recording}",
                "scene": scene.name,
                "assumption": scene.assumption,
                "replays": scene.replays,
                "replays_95": scene.replays_95,
                "live_calls": round(scene.cost.live_calls),
                "input_tokens": round(scene.cost.input_tokens),
                "output_tokens": round(scene.cost.output_tokens),
                "dollars": scene.cost.dollars if self.limits.prices else None,
                "decided": scene.decided,
            }
            for scene in self.scenes
        ]

    def to_json(self) -> dict[str, Any]:
        """The versioned machine form."""
        return {
            "afnb": "plan",
            "schema_version": SCHEMA_VERSION,
            "what": self.what,
            "recording": self.recording,
            "rule": self.rule,
            "budget": self.limits.describe(),
            "stopped_by": self.stopped_by(),
            "scenes": self.rows(),
            "preflight": None if self.preflight is None else self.preflight.to_json(),
        }

    def stopped_by(self) -> str | None:
        """The limit of the budget that the median under the assumed rates exceeds, or None."""
        if not self.scenes:
            return None
        cost, limits = self.scenes[0].cost, self.limits
        if limits.live_calls is not None and cost.live_calls > limits.live_calls:
            return f"{limits.live_calls} live calls"
        if limits.tokens is not None and cost.input_tokens + cost.output_tokens > limits.tokens:
            return f"{limits.tokens} tokens"
        if limits.dollars is not None and cost.dollars > limits.dollars:
            return f"${limits.dollars:g}"
        return None

    def sentence(self) -> str:
        """The median and the most, in one sentence."""
        if not self.scenes:
            return "The two runs leave no step to change, so there is nothing to re-run: no replay."
        first, most = self.scenes[0], self.scenes[-1]
        return (
            f"Half of such runs take at most {first.replays} replays and {round(first.cost.live_calls)} live "
            f"calls{self._price(first)}; none takes more than {most.replays} replays."
        )

    def _price(self, scene: Scene) -> str:
        tokens = round(scene.cost.input_tokens + scene.cost.output_tokens)
        dollars = f", ${scene.cost.dollars:.3g}" if self.limits.prices else ""
        return f" ({tokens} tokens{dollars})"

    def page(self) -> Page:
        """The card."""
        stopped = self.stopped_by()
        parts: list[Part] = [Text(self.sentence())]
        if stopped is not None:
            parts.append(
                Text(f"The budget would stop it first, at {stopped}: raise it, or expect no verdict.", "warn")
            )
        if self.scenes:
            parts += [self._table(), Text(AS_RECORDED, "quiet")]
        if self.preflight is not None:
            parts += self.preflight.parts()
        if self.preflight is not None and self.preflight.blocked:
            names = ", ".join(self.preflight.blocked)
            parts.append(Text(f"Nothing would be started before these tools are allowed: {names}.", "warn"))
        if self.estimated:
            words = f"{self.estimated} recorded answers state no token count; theirs is estimated from bytes"
            parts.append(Text(words, "quiet"))
        parts.append(Facts((("rule", self.rule), ("budget", self.limits.describe()))))
        badge = Badge("budget too small", "warn") if stopped else Badge("nothing has been started", "quiet")
        title = f"{NAMES[self.what]}: what {self.recording} will take"
        return Page(title, badge, tuple(parts), ("p.plans.to_pandas()",))

    def _table(self) -> Table:
        rows = []
        for scene in self.scenes:
            kind = "at most" if scene.name == "most" else scene.name
            rows.append(
                (
                    kind,
                    scene.assumption,
                    str(scene.replays),
                    "" if scene.replays_95 is None else str(scene.replays_95),
                    str(round(scene.cost.live_calls)),
                    str(round(scene.cost.input_tokens + scene.cost.output_tokens)),
                    f"{scene.cost.dollars:.3g}" if self.limits.prices else "",
                    "" if scene.decided is None else f"{100 * scene.decided:.0f} %",
                )
            )
        columns = (
            "",
            "recovery rates",
            "replays",
            "95 % of runs",
            "live calls",
            "tokens",
            "dollars",
            "with a verdict",
        )
        return Table(columns, tuple(rows), "medians, rehearsed with the rules' own machines")


def scene_of(name: str, assumption: str, samples: Sequence[tuple[int, TailCost, bool | None]]) -> Scene:
    """The medians of rehearsals.

    Examples
    --------
    >>> scene_of("assumed", "any", [(4, TailCost(8), True), (6, TailCost(12), False)]).replays
    4
    """
    replays = sorted(sample[0] for sample in samples)

    def middle(values: list[float]) -> float:
        return sorted(values)[(len(values) - 1) // 2]

    costs = [sample[1] for sample in samples]
    cost = TailCost(
        middle([one.live_calls for one in costs]),
        middle([one.input_tokens for one in costs]),
        middle([one.output_tokens for one in costs]),
        middle([one.dollars for one in costs]),
    )
    late = replays[min(len(replays) - 1, -(-19 * len(replays) // 20) - 1)]
    known = [sample[2] for sample in samples if sample[2] is not None]
    decided = sum(known) / len(known) if known else None
    return Scene(name, assumption, replays[(len(replays) - 1) // 2], late, cost, decided)
