"""Limits an agent run declared, what its log has used of them, and the first one it reached.

Everything is computed from the log, so that a replay finds the same crossing at the same place. A
resume that directly follows a ``BudgetExceeded`` may carry more, under the key ``extend``::

    {"extend": {"steps": 5, "tokens": 20000, "cost_usd": 1.5, "wall_time_seconds": 600}}

Declare nothing here for an experiment: its limits are `Budget`; these are the agent's own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from afnb.core import events as ev
from afnb.core.instants import Instant
from afnb.core.jsonvalue import Json, type_name
from afnb.core.state import TokenTotals
from afnb.errors import ParameterError

_EXTENSION_KEYS = ("steps", "tokens", "cost_usd", "wall_time_seconds")


@dataclass(frozen=True, slots=True)
class Pricing:
    """US dollars per million input and output tokens."""

    input_per_mtok: float
    output_per_mtok: float

    def cost_usd(self, input_tokens: int, output_tokens: int) -> float:
        """US dollars of these tokens."""
        return (
            float(input_tokens) / 1_000_000.0 * self.input_per_mtok
            + float(output_tokens) / 1_000_000.0 * self.output_per_mtok
        )


@dataclass(frozen=True, slots=True)
class BudgetObservations:
    """What a log has used: completed model calls, tokens, seconds from first to last ``NowObserved``."""

    steps: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    elapsed_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class BudgetExtensions:
    """What resumes after a crossing have added to the declared limits."""

    steps: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    wall_time_seconds: float = 0.0

    def plus(self, resume_input: Json) -> BudgetExtensions:
        """The extensions after one more resume; what is no extension in its input counts for nothing."""
        extend = resume_input.get("extend") if isinstance(resume_input, dict) else None
        if not isinstance(extend, dict):
            return self
        return BudgetExtensions(
            min(ev.U64_MAX, self.steps + _count(extend.get("steps"))),
            min(ev.U64_MAX, self.tokens + _count(extend.get("tokens"))),
            self.cost_usd + _number(extend.get("cost_usd")),
            self.wall_time_seconds + _number(extend.get("wall_time_seconds")),
        )


def _count(value: Json) -> int:
    return value if type(value) is int and 0 <= value <= ev.U64_MAX else 0


def _number(value: Json) -> float:
    try:
        return float(value) if type(value) in (int, float) else 0.0
    except OverflowError:
        return 0.0


@dataclass(frozen=True, slots=True)
class Crossing:
    """A limit that was reached: the effective limit (declared and extended) and what was observed."""

    budget: ev.BudgetLimit
    observed: float


@dataclass(frozen=True, slots=True)
class RunBudgets:
    """The limits an agent run declares; None is no limit.

    Parameters
    ----------
    max_steps
        Completed model calls.
    max_tokens
        Input and output tokens together.
    max_cost_usd
        US dollars; needs a `Pricing` when it is checked.
    max_wall_time_s
        Seconds between the first and the last recorded look at the clock.

    Examples
    --------
    >>> RunBudgets(max_steps=2).first_crossing(BudgetObservations(steps=2))
    Crossing(budget=BudgetLimit(kind='steps', limit=2.0), observed=2.0)
    """

    max_steps: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    max_wall_time_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_tokens", "max_cost_usd", "max_wall_time_s"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ParameterError(f"{name} is {value!r}; expected a number from 0, or None for no limit")

    def first_crossing(
        self,
        observations: BudgetObservations,
        extensions: BudgetExtensions | None = None,
        pricing: Pricing | None = None,
    ) -> Crossing | None:
        """The first limit that is reached, in the order steps, tokens, cost, wall time.

        A limit is reached when the observation is at or above declared plus extended.

        Raises
        ------
        ParameterError
            There is a cost limit and no pricing to check it with.
        """
        more = extensions or BudgetExtensions()
        seen = observations
        cost = 0.0
        if self.max_cost_usd is not None:
            if pricing is None:
                raise ParameterError(
                    "max_cost_usd is set and no pricing was given; give one or drop the limit"
                )
            cost = pricing.cost_usd(seen.input_tokens, seen.output_tokens)
        tokens = min(ev.U64_MAX, seen.input_tokens + seen.output_tokens)
        rows: tuple[tuple[ev.BudgetKind, float | None, float, float], ...] = (
            ("steps", _sum(self.max_steps, more.steps), 0.0, seen.steps),
            ("tokens", _sum(self.max_tokens, more.tokens), 0.0, tokens),
            ("cost_usd", self.max_cost_usd, more.cost_usd, cost),
            ("wall_time", self.max_wall_time_s, more.wall_time_seconds, seen.elapsed_seconds),
        )
        for kind, declared, extended, observed in rows:
            if declared is not None:
                limit = float(declared) + extended
                if float(observed) >= limit:
                    return Crossing(ev.BudgetLimit(kind, limit), float(observed))
        return None


def _sum(declared: int | None, extended: int) -> int | None:
    return None if declared is None else min(ev.U64_MAX, declared + extended)


Budgets = RunBudgets


class Meter:
    """`BudgetObservations` while a run goes on, event by event."""

    __slots__ = ("_first", "_last", "_steps", "_totals")

    def __init__(self) -> None:
        self._steps, self._totals = 0, TokenTotals()
        self._first: int | None = None
        self._last = 0

    def answered(self, usage: ev.TokenUsage) -> None:
        """A model call was completed."""
        self._steps = min(ev.U64_MAX, self._steps + 1)
        self._totals = self._totals.plus(usage)

    def looked(self, now: Instant) -> None:
        """The run looked at the clock."""
        self._first = now.ns if self._first is None else self._first
        self._last = now.ns

    def observations(self) -> BudgetObservations:
        """What was used up to now."""
        elapsed = 0.0 if self._first is None else _seconds_between(self._first, self._last)
        return BudgetObservations(self._steps, self._totals.input_tokens, self._totals.output_tokens, elapsed)


def budget_observations(log: Iterable[ev.Envelope]) -> BudgetObservations:
    """What a log, or any prefix of one, has used of every budget.

    This is the accounting of one agent run. The nodes of a graph run count each for themselves.
    """
    meter = Meter()
    for envelope in log:
        if isinstance(envelope.event, ev.ModelCallCompleted):
            meter.answered(envelope.event.usage)
        elif isinstance(envelope.event, ev.NowObserved):
            meter.looked(envelope.event.now)
    return meter.observations()


def _seconds_between(first_ns: int, last_ns: int) -> float:
    """Seconds from one instant to another, negative if it lies before."""
    span = last_ns - first_ns
    seconds, nanos = divmod(abs(span), 1_000_000_000)
    length = float(seconds) + nanos / 1_000_000_000.0
    return -length if span < 0 else length


def budget_extensions(log: Iterable[ev.Envelope]) -> BudgetExtensions:
    """What the resumes of a log granted: only those directly after a ``BudgetExceeded`` count."""
    extensions = BudgetExtensions()
    for crossed, resumed in itertools.pairwise(log):
        if isinstance(crossed.event, ev.BudgetExceeded) and isinstance(resumed.event, ev.Resumed):
            extensions = extensions.plus(resumed.event.input)
    return extensions


def check_extension(resume_input: Json) -> None:
    """Refuse a resume input that is no budget extension, before it is recorded.

    Raises
    ------
    ParameterError
        It is no object, holds another key than ``extend``, or an unknown or wrongly typed limit.
    """
    if not isinstance(resume_input, dict):
        raise ParameterError(
            f"the answer to a reached budget is {type_name(resume_input)}, expected an object like "
            '{"extend": {"steps": 5}}'
        )
    for key in resume_input:
        if key != "extend":
            raise ParameterError(f"the answer to a reached budget holds {key!r}; it may hold 'extend' only")
    extend = resume_input.get("extend", {})
    if not isinstance(extend, dict):
        raise ParameterError(f"'extend' is {type_name(extend)}, expected an object like {{'steps': 5}}")
    for key, value in extend.items():
        if key not in _EXTENSION_KEYS:
            raise ParameterError(f"'extend' holds {key!r}, expected {', '.join(_EXTENSION_KEYS)}")
        whole = key in ("steps", "tokens")
        ok = type(value) is int and 0 <= value <= ev.U64_MAX if whole else type(value) in (int, float)
        if not ok:
            kind = "a whole number from 0" if whole else "a number"
            raise ParameterError(f"extend.{key} is {value!r}, expected {kind}")
