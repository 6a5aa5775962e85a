"""The values a session's turn is made of: what to do with one request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from afnb.core.arm import Patch
from afnb.core.cassette import Request, Response
from afnb.io.serve_report import Missed

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


@dataclass(frozen=True, slots=True)
class Live:
    """A request that will go live if it may; ``marks`` take effect when it does."""

    asked: Request
    send: Request
    branch: str | None
    upstream: str | None
    marks: tuple[Patch, ...] = ()
    miss: Missed | None = None
    asks_again: bool = False


Choice = Serve | Refuse | Live


@dataclass(slots=True)
class Flight:
    """A live call under way; ``counted`` once its branch's position includes it."""

    branch: str | None
    counted: bool = False
    ordinal: int = 0
