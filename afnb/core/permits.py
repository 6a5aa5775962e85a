"""What a cursor hands out: recorded answers, and permits to record fresh ones.

A permit is the only way to record a live result. It burns when it is redeemed, and while it is out
the cursor takes no other request. Without a result there are two ways out of it:

- ``cancel()``, or leaving its ``with`` block, gives everything back: the position it had reserved
  and a recorded intent it had taken up, so that the same request can be made again;
- ``drop()`` lets it go: the position that a call had reserved stays taken, which leaves a gap in the
  log (a guard will refuse it), and a recorded intent counts as consumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from afnb.core import events as ev
from afnb.core.instants import Instant
from afnb.core.jsonvalue import Json, dumps, loads
from afnb.errors import ParameterError, PermitError

T_co = TypeVar("T_co", covariant=True)
P_co = TypeVar("P_co", covariant=True)


def detached(value: Json) -> Json:
    """A copy of a JSON value that shares nothing with it; `ParameterError` if it is no JSON."""
    return loads(dumps(value))


@dataclass(frozen=True, slots=True)
class Emitted:
    """A fresh event and the position it must be persisted at."""

    seq: int
    event: ev.Event

    def envelope(self, run_id: str, recorded_at: Instant) -> ev.Envelope:
        """The line of the log: the event with the run it belongs to and the time of recording."""
        return ev.Envelope(run_id, self.seq, recorded_at, self.event)


@dataclass(frozen=True, slots=True)
class Replayed(Generic[T_co]):
    """The step is recorded: ``value`` is what it gave then. A copy, the caller may change it."""

    value: T_co


@dataclass(frozen=True, slots=True)
class Live(Generic[P_co]):
    """The step is not recorded: redeem ``permit`` with a fresh result.

    For a step that has no result of its own (a marker, a suspension, the end) ``permit`` is the
    `Emitted` event itself.
    """

    permit: P_co


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a model call gave: the response and its token counts."""

    response: Json
    usage: ev.TokenUsage


class Desk(Protocol):
    """What a permit needs of the cursor that issued it."""

    def _redeem(self, permit: Permit, event: ev.Event) -> Emitted: ...

    def _let_go(self, permit: Permit, give_back: bool) -> None: ...


class Permit:
    """Base of all permits; made by the cursor only."""

    __slots__ = ("_desk", "_spent", "_template", "intent", "request", "seq")

    def __init__(
        self, desk: Desk, request: str, seq: int, template: ev.Event, intent: Emitted | None = None
    ) -> None:
        self._desk = desk
        self._template: Any = template
        self._spent: str | None = None
        self.request = request
        """The request that it answers, e.g. ``model_call``."""
        self.seq = seq
        """A call: the seq its completion will name. Others: the position of the event to come."""
        self.intent = intent
        """A fresh call's intent, to be persisted before the call is made; None where it is recorded."""

    def __repr__(self) -> str:
        state = self._spent or "out"
        return f"<{type(self).__name__} for {self.request} at seq {self.seq}: {state}>"

    @property
    def spent(self) -> bool:
        """Whether it was redeemed, cancelled or dropped."""
        return self._spent is not None

    def _check(self) -> None:
        if self._spent is not None:
            raise PermitError(
                f"the permit for {self.request} at seq {self.seq} was already {self._spent}; "
                "a permit counts once, make the request again for another"
            )

    def _record(self, event: ev.Event) -> Emitted:
        self._check()
        emitted = self._desk._redeem(self, event)
        self._spent = "redeemed"
        return emitted

    def cancel(self) -> None:
        """Give it back unused, as if the request had never been made."""
        self._check()
        self._desk._let_go(self, give_back=True)
        self._spent = "cancelled"

    def drop(self) -> None:
        """Let it go: a call's position stays taken and a recorded intent stays consumed."""
        self._check()
        self._desk._let_go(self, give_back=False)
        self._spent = "dropped"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.spent:
            self.cancel()


class BeginPermit(Permit):
    """To start an agent run (or, from ``begin_graph``, a graph run)."""

    __slots__ = ()

    def record(self, input: Json) -> Emitted:
        """The head of the log, with the run's input."""
        return self._record(replace(self._template, input=detached(input)))


class GraphBeginPermit(BeginPermit):
    """To start a graph run."""

    __slots__ = ()


class NowPermit(Permit):
    """To record a look at the clock."""

    __slots__ = ()

    def record(self, now: Instant) -> Emitted:
        """The instant that was read."""
        if not isinstance(now, Instant):
            raise ParameterError(f"now is {now!r}; expected an Instant, e.g. Instant(time.time_ns())")
        return self._record(replace(self._template, now=now))


class RandomPermit(Permit):
    """To record a draw of 64 random bits."""

    __slots__ = ()

    def record(self, bits: int) -> Emitted:
        """The bits that were drawn, an integer from 0 to 2**64 - 1."""
        if type(bits) is not int or not 0 <= bits <= ev.U64_MAX:
            raise ParameterError(f"random bits are {bits!r}; expected an integer from 0 to 2**64 - 1")
        return self._record(replace(self._template, value=bits))


class Parked(Permit):
    """To resume a parked run. Cancel or drop it and the run stays parked."""

    __slots__ = ()

    def resume(self, input: Json) -> Emitted:
        """The answer the run was waiting for."""
        return self._record(replace(self._template, input=detached(input)))


class ModelCallPermit(Permit):
    """To ask a model: persist ``intent`` (unless it is None), make the call, record the answer."""

    __slots__ = ()

    def record(self, response: Json, usage: ev.TokenUsage) -> Emitted:
        """The completion: the model's response and its token counts."""
        return self._record(ev.ModelCallCompleted(self.seq, detached(response), usage))


class ToolCallPermit(Permit):
    """To run a tool: persist ``intent`` (unless it is None), run it, record what it gave."""

    __slots__ = ()

    @property
    def effect(self) -> ev.Effect:
        """The call's effect class, as recorded where the intent is."""
        effect: ev.Effect = self._template.effect
        return effect

    @property
    def idempotency_key(self) -> str | None:
        """The key to send along: the recorded one where the intent is recorded."""
        key: str | None = self._template.idempotency_key
        return key

    def record(self, output: Json) -> Emitted:
        """The completion: what the tool gave."""
        return self._record(ev.ToolCallCompleted(self.seq, detached(output)))

    def record_deduplicated(self, output: Json, origin: ev.CallOrigin) -> Emitted:
        """The completion of a call that was not made, since ``origin`` is the same call's earlier output."""
        return self._record(ev.ToolCallCompleted(self.seq, detached(output), origin))
