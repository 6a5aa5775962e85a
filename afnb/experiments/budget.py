"""``Budget``: the limits of an experiment. ``Meter``: what was spent of it, shared by all workers."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields

from afnb.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one experiment, attribution or batch; None is no limit.

    Checked before each replay starts and before each live call of a running one. A crossed limit is
    a reason, never an exception.

    Parameters
    ----------
    live_calls
        Requests answered by the provider. The default, 200, is in force unless another is given.
    tokens
        Input and output tokens of the live calls together.
    dollars
        US dollars; needs ``prices``.
    seconds
        Wall time from the start.
    prices
        Model name to (dollars per million input tokens, dollars per million output tokens). A live
        answer of a model without a price counts at the dearest price of the table.

    Raises
    ------
    ParameterError
        A limit is negative or not a number, or dollars are given without prices.

    Examples
    --------
    >>> Budget(live_calls=50)
    Budget(live_calls=50, tokens=None, dollars=None, seconds=None, prices=None)
    """

    live_calls: int | None = 200
    tokens: int | None = None
    dollars: float | None = None
    seconds: float | None = None
    prices: Mapping[str, tuple[float, float]] | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.name == "prices":
                continue
            value = getattr(self, item.name)
            if value is None:
                continue
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not math.isfinite(value)
                or value < 0
            ):
                raise ParameterError(
                    f"Budget({item.name}={value!r}): a limit is a number of at least 0, or None"
                )
        if self.dollars is not None and not self.prices:
            raise ParameterError(
                "Budget(dollars=...) needs prices={model: (dollars per million input tokens, "
                "dollars per million output tokens)}"
            )

    def describe(self) -> str:
        """The limits in words, e.g. ``at most 200 live calls``."""
        parts = []
        if self.live_calls is not None:
            parts.append(f"{self.live_calls} live calls")
        if self.tokens is not None:
            parts.append(f"{self.tokens} tokens")
        if self.dollars is not None:
            parts.append(f"${self.dollars:g}")
        if self.seconds is not None:
            parts.append(f"{self.seconds:g} s")
        return "at most " + ", ".join(parts) if parts else "no limit"


class Meter:
    """What was spent of a budget; thread-safe."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self.live_calls = 0
        self.tokens = 0
        self.dollars = 0.0
        self._stopped: str | None = None

    def charge_call(self) -> None:
        """Count one live call (called when it is about to be made)."""
        with self._lock:
            self.live_calls += 1

    def charge_tokens(self, input_tokens: int, output_tokens: int, model: str | None = None) -> None:
        """Count the tokens of finished live calls."""
        with self._lock:
            self.tokens += input_tokens + output_tokens
            prices = self.budget.prices
            if prices:
                price = prices.get(model or "") or max(prices.values())
                self.dollars += (input_tokens * price[0] + output_tokens * price[1]) / 1e6

    def stop(self, reason: str) -> None:
        """Let nothing more start, for ``reason`` (an interrupt)."""
        with self._lock:
            self._stopped = self._stopped or reason

    @property
    def seconds(self) -> float:
        """Wall time since the meter was made."""
        return time.monotonic() - self._start

    def crossed(self) -> str | None:
        """Why nothing more may start, or None: an interrupt, or the limit that is reached."""
        with self._lock:
            if self._stopped:
                return self._stopped
            budget = self.budget
            if budget.live_calls is not None and self.live_calls >= budget.live_calls:
                return f"budget of {budget.live_calls} live calls spent"
            if budget.tokens is not None and self.tokens >= budget.tokens:
                return f"budget of {budget.tokens} tokens spent"
            if budget.dollars is not None and self.dollars >= budget.dollars:
                return f"budget of ${budget.dollars:g} spent"
            if budget.seconds is not None and self.seconds >= budget.seconds:
                return f"budget of {budget.seconds:g} s spent"
            return None
