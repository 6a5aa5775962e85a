"""``Budget``: the limits of an experiment. ``Meter``: what was spent of it, shared by all workers."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

from afnb.errors import ParameterError

_RELEASE = re.compile(r"[-@:](?:\d[\d-]*|latest|v\d[\w.:-]*|preview[\w-]*)")
"""What may follow a model's name in the name of one of its releases."""


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
        Model name to (dollars per million input tokens, dollars per million output tokens). A name also
        prices its dated releases (``gpt-4o`` those called ``gpt-4o-2024-08-06``); an answer of a model
        without a price counts at the dearest price of the table.

    Raises
    ------
    ParameterError
        A limit is negative or not a number, dollars are given without prices, or a price is no pair of
        numbers of at least 0.

    Notes
    -----
    A model's own count of tokens is charged. An answer that states none is charged a token for every four
    bytes of what was asked and answered, so that a limit holds with it as well.

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
        for model, price in (self.prices or {}).items():
            _check_price(model, price)

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


def _check_price(model: object, price: object) -> None:
    pair = price if isinstance(price, (tuple, list)) else ()
    numbers = [p for p in pair if isinstance(p, (int, float)) and not isinstance(p, bool)]
    if len(pair) != 2 or len(numbers) != 2 or not all(math.isfinite(p) and p >= 0 for p in numbers):
        raise ParameterError(
            f"Budget(prices={{{model!r}: {price!r}}}): a price is (dollars per million input tokens, dollars "
            "per million output tokens)"
        )


@dataclass(frozen=True, slots=True)
class Use:
    """Live answers of one model: how many, and their tokens.

    ``estimated`` of the answers stated no count; theirs was estimated from the bytes.
    """

    model: str | None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: int = 0

    @property
    def tokens(self) -> int:
        """Input and output together.

        Examples
        --------
        >>> Use("m", 1, 10, 5).tokens
        15
        """
        return self.input_tokens + self.output_tokens

    def plus(self, other: Use) -> Use:
        """Both together, under this model's name."""
        return Use(
            self.model,
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.estimated + other.estimated,
        )


def dollars_of(use: Use, prices: Mapping[str, tuple[float, float]] | None) -> float:
    """What these answers cost, in US dollars; 0 without prices.

    Examples
    --------
    >>> prices = {"small": (1.0, 2.0), "large": (10.0, 20.0)}
    >>> dollars_of(Use("small-2025-01-01", 1, 1_000_000, 500_000), prices)
    2.0
    >>> dollars_of(Use("unheard-of", 1, 1_000_000, 0), prices)
    10.0
    """
    if not prices:
        return 0.0
    known = price_of(use.model, prices)
    return max(
        (use.input_tokens * read + use.output_tokens * written) / 1e6
        for read, written in (prices.values() if known is None else [known])
    )


def price_of(model: str | None, prices: Mapping[str, tuple[float, float]]) -> tuple[float, float] | None:
    """The price of a model: its own, or that of the longest name of which it is a dated release; else None.

    Examples
    --------
    >>> price_of("gpt-4o-2024-08-06", {"gpt-4o": (2.5, 10.0), "gpt-4o-mini": (0.15, 0.6)})
    (2.5, 10.0)
    >>> price_of("gpt-4o-mini", {"gpt-4o": (2.5, 10.0)}) is None
    True
    """
    name = model or ""
    if name in prices:
        return prices[name]
    found = [
        known
        for known in prices
        if known and name.startswith(known) and _RELEASE.fullmatch(name[len(known) :])
    ]
    return prices[max(found, key=len)] if found else None


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
        self.ended = threading.Event()
        """Set where what runs is to be ended as well."""

    def describe(self) -> str:
        """The limits in words."""
        return self.budget.describe()

    def take(self) -> str | None:
        """Count one live call that is about to be made, or say why it may not be."""
        with self._lock:
            crossed = self._crossed()
            if crossed is None:
                self.live_calls += 1
            return crossed

    def charge(self, use: Use) -> None:
        """Count the tokens and dollars of finished live answers; calls are counted as they begin."""
        dollars = dollars_of(use, self.budget.prices)
        with self._lock:
            self.tokens += use.tokens
            self.dollars += dollars

    def charge_calls(self, calls: int) -> None:
        """Count live calls that were made elsewhere, in a worker process."""
        with self._lock:
            self.live_calls += calls

    def recall(self, calls: int, uses: Collection[Use]) -> None:
        """Count what was paid for before a restart, so that a limit holds over all sessions together."""
        dollars = sum(dollars_of(use, self.budget.prices) for use in uses)
        with self._lock:
            self.live_calls += calls
            self.tokens += sum(use.tokens for use in uses)
            self.dollars += dollars

    def left(self) -> Budget:
        """What may still be spent, as a budget of its own."""
        with self._lock:
            budget = self.budget
            return Budget(
                None if budget.live_calls is None else max(0, budget.live_calls - self.live_calls),
                None if budget.tokens is None else max(0, budget.tokens - self.tokens),
                None if budget.dollars is None else max(0.0, budget.dollars - self.dollars),
                None if budget.seconds is None else max(0.0, budget.seconds - self.seconds),
                budget.prices,
            )

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
            return self._crossed()

    def _crossed(self) -> str | None:
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
