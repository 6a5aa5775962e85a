"""``Session``: one recording or one replay, as a turn without any input or output of its own.

A transport or a server shows the session each request (``decide``) and does what it says: hand back
an answer, ask the provider, or refuse. What the provider said is handed in again (``complete``,
``fail``). The same session works under threads, under an event loop and in a test without sockets.

::

    agent -> decide(request) -> Serve    the answer, from the tape or a patch
                             -> Forward  ask the provider, then complete() or fail()
                             -> Refuse   an answer that SDKs do not ask again, saying what differed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from afnb.core.arm import Arm
from afnb.core.cassette import Cassette, Request, Response
from afnb.io.serve_report import Missed, Mode, SessionReport

if TYPE_CHECKING:
    from afnb.core.tape import Tape

Gate = Callable[[Request], str | None]
"""Asked before each live call; a sentence refuses the call, None lets it go."""

Source = Literal["tape", "patch", "good"]


@dataclass(frozen=True, slots=True)
class Serve:
    """Answer ``response`` at once; ``exchange`` is its number on the tape that ``source`` names.

    ``head_ms`` is how long the provider took to begin answering when this was recorded (0 if unknown):
    a transport that replays times as recorded waits that long.
    """

    response: Response
    source: Source
    exchange: int
    head_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Forward:
    """Send ``request`` to the provider, then call ``Session.complete`` or ``Session.fail`` with this value.

    ``asked`` is what the agent sent; the two differ where an intervention changes the request.
    """

    request: Request
    asked: Request
    token: int
    started: str
    upstream: str | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Hand ``response`` to the agent: nothing is asked live. ``reason`` is the key it is counted under."""

    response: Response
    reason: str
    sentence: str
    miss: Missed | None = None


Turn = Serve | Forward | Refuse


class Session:
    """One recording (no tape), one replay (a tape) or one branch of an experiment (a tape and an arm).

    Thread-safe; made for one run and then thrown away, so that nothing passes from one replay to the next.

    Parameters
    ----------
    tape
        The recording to answer from; None records: everything is forwarded.
    arm
        What to change and how far the tape answers; needs a tape.
    good
        The good run's tape, for an arm with ``tail="good"``.
    id
        Identifier of the new recording.
    live
        Whether requests may go to the provider at all.
    gate
        Asked before each live call (budget, stop, pre-flight); its sentence refuses the call.
    keep_delays
        Keep recorded ``retry-after`` headers. By default a recorded 429 or 5xx is served with a delay of a
        millisecond, so that a client's own retry does not sleep through the replay.

    Raises
    ------
    ParameterError
        An arm without a tape, or ``tail="good"`` without the good run's tape.
    """

    def __init__(
        self,
        tape: Tape | None = None,
        arm: Arm | None = None,
        good: Tape | None = None,
        *,
        id: str = "session",
        live: bool = True,
        gate: Gate | None = None,
        keep_delays: bool = False,
    ) -> None:
        raise NotImplementedError

    @property
    def mode(self) -> Mode:
        """``record``, ``replay`` or ``branch``."""
        raise NotImplementedError

    def decide(self, request: Request, upstream: str | None = None) -> Turn:
        """What to do with the agent's next request; ``upstream`` names the provider where there are several."""
        raise NotImplementedError

    def complete(self, forward: Forward, response: Response, *, abandoned: bool = False) -> None:
        """Hand in the provider's answer, once it is whole (or its stream ended early: ``incomplete``).

        ``abandoned`` says that the agent stopped reading, which is no fault of the provider.
        """
        raise NotImplementedError

    def fail(self, forward: Forward, error: BaseException | str) -> Response:
        """Say that the provider gave no answer; returns what to hand to the agent. Nothing is recorded."""
        raise NotImplementedError

    def close(self) -> None:
        """End the run: later requests are refused and counted as ``late``."""
        raise NotImplementedError

    def report(self) -> SessionReport:
        """All counts so far."""
        raise NotImplementedError

    def cassette(self) -> Cassette:
        """The whole run so far, hits and live turns, in order of completion."""
        raise NotImplementedError
