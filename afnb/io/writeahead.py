"""``WriteAhead``: a cursor and the place its fresh events are written to, kept in step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from afnb.core import events as ev
from afnb.core.cursor import ReplayCursor
from afnb.core.instants import Instant
from afnb.core.jsonvalue import Json
from afnb.core.permits import Emitted, Live, Replayed
from afnb.core.run import Warn
from afnb.core.shape import LogValidator
from afnb.errors import AfnbError, MalformedLog, ParameterError
from afnb.io.eventfile import EventSink
from afnb.io.executors import recordable

Clock = Callable[[], Instant]
OnEvent = Callable[[ev.Envelope], object]
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class WriteAhead:
    """Makes a run's requests of its cursor and appends what they emit before the run goes on.

    Once it is stopped (by a divergence, a full disk, an agent that waits) every further request raises
    the same exception, so that an agent cannot go on beside its log.
    """

    def __init__(
        self, cursor: ReplayCursor, sink: EventSink, run_id: str, clock: Clock, on_event: OnEvent | None
    ) -> None:
        self.cursor, self.sink, self.run_id, self.clock = cursor, sink, run_id, clock
        self.stopped: BaseException | None = None
        self.warnings: list[Warn] = []
        self._on_event = on_event
        self._guard = LogValidator()
        for envelope in sink.log:
            self._allow(envelope)

    def check(self) -> None:
        """Raise what stopped the run, if something did."""
        if self.stopped is not None:
            raise self.stopped

    def ask(self, request: Callable[[], T]) -> T:
        """Make one request of the cursor."""
        self.check()
        try:
            return request()
        except ParameterError:
            raise
        except AfnbError as error:
            self.stopped = error
            raise

    def mark(self, request: Callable[[], Replayed[None] | Live[Emitted]]) -> None:
        """Make one request that has no result, and append its event if it is a fresh one."""
        outcome = self.ask(request)
        if isinstance(outcome, Live):
            self.append(outcome.permit)

    def append(self, emitted: Emitted) -> None:
        """Append a fresh event; when this returns it is in the log."""
        envelope = emitted.envelope(self.run_id, self.clock())
        try:
            self._allow(envelope)
            self.sink.append(envelope)
            if self._on_event is not None:
                self._on_event(envelope)
        except BaseException as error:
            self.stopped = error
            raise

    def _allow(self, envelope: ev.Envelope) -> None:
        violation = self._guard.append(envelope)
        if violation is not None:
            raise MalformedLog(violation.seq, violation.message)

    def clean(self, value: Json, what: str) -> Json:
        """A copy of a value as it can be recorded; what had to be replaced becomes a warning."""
        clean, replaced = recordable(value, what)
        if replaced:
            self.warnings.append(
                Warn(
                    "lone_surrogates",
                    f"{what} held {replaced} halves of surrogate pairs, which no log can hold; "
                    "each was replaced by U+FFFD",
                )
            )
        return clean

    def stop(self, error: E) -> E:
        """Stop for a reason of the caller's, which is given back to be raised."""
        self.stopped = error
        return error
