"""What a replay costs, read off the recording: the live calls and tokens of its tail.

A replay under an arm asks live what the recording holds after the arm's branch point. How long that will
really be, nobody knows before it is run; the recorded tail is the one there is to go by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from afnb.core import events as ev
from afnb.core.arm import Arm, LogArm
from afnb.core.cassette import Cassette
from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import MISSING
from afnb.core.providers import is_model_request, read_answer
from afnb.core.steps import attempts
from afnb.errors import ParameterError
from afnb.experiments.budget import Use, dollars_of
from afnb.experiments.recordings import Recording
from afnb.experiments.replay import use_of

Prices = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class TailCost:
    """Live calls, tokens and dollars of some replays; dollars are 0 without prices."""

    live_calls: float = 0
    input_tokens: float = 0
    output_tokens: float = 0
    dollars: float = 0.0

    def plus(self, other: TailCost, times: int = 1) -> TailCost:
        """This and ``times`` the other.

        Examples
        --------
        >>> TailCost(1, 10, 5).plus(TailCost(2, 20, 10), times=3).live_calls
        7
        """
        return TailCost(
            self.live_calls + times * other.live_calls,
            self.input_tokens + times * other.input_tokens,
            self.output_tokens + times * other.output_tokens,
            self.dollars + times * other.dollars,
        )


class Tails:
    """The cost of a replay by its branch point.

    Parameters
    ----------
    recording
        The recording that is branched.
    prices
        Dollars by model, as in ``Budget``.
    """

    def __init__(self, recording: Recording, prices: Prices | None = None) -> None:
        self.estimated = 0
        self._costs: list[tuple[int, TailCost]] = []
        entries = _of_log(recording) if isinstance(recording, EventLog) else _of_cassette(recording)
        for place, calls, use in entries:
            self.estimated += use.estimated
            dollars = dollars_of(use, prices)
            self._costs.append((place, TailCost(calls, use.input_tokens, use.output_tokens, dollars)))

    def after(self, place: int) -> TailCost:
        """The cost of everything recorded after an exchange (of a log: after that many calls, less one)."""
        total = TailCost()
        for at, cost in self._costs:
            if at > place:
                total = total.plus(cost)
        return total

    def of(self, arm: Arm | LogArm) -> TailCost:
        """The cost of one replay under an arm, if its tail is as long as the recorded one."""
        if isinstance(arm, LogArm):
            return self.after(arm.prefix_calls - 1)
        if arm.tail != "live":
            raise ParameterError("a plan is made for tail='live'; a screen serves most of its tail")
        return self.after(arm.serve_through)


def _of_cassette(cassette: Cassette) -> list[tuple[int, int, Use]]:
    """Exchange, calls and use of every exchange; a failed ask that was repeated counts with its answer."""
    repeated = attempts(cassette)
    found = []
    for exchange in cassette.exchanges:
        if exchange.idx in repeated:
            continue
        use = Use(None)
        if is_model_request(exchange.request):
            use = use_of(exchange.request, read_answer(exchange.request, exchange.response))
        found.append((exchange.idx, 1, use))
    return found


def _of_log(log: EventLog) -> list[tuple[int, int, Use]]:
    """Number, calls and use of every call; tools ask no model."""
    found: list[tuple[int, int, Use]] = []
    model: str | None = None
    for envelope in log.envelopes:
        event = envelope.event
        if isinstance(event, ev.ModelCallRequested):
            body = None if event.request_body is MISSING else event.request_body
            model = body.get("model") if isinstance(body, dict) else None
            found.append((len(found), 1, Use(model, 1)))
        elif isinstance(event, ev.ToolCallRequested):
            found.append((len(found), 0, Use(None)))
        elif isinstance(event, ev.ModelCallCompleted) and found:
            answered = event.response.get("model") if isinstance(event.response, dict) else None
            name = answered if isinstance(answered, str) else model if isinstance(model, str) else None
            usage = event.usage
            found[-1] = (len(found) - 1, 1, Use(name, 1, usage.input_tokens, usage.output_tokens))
    return found
