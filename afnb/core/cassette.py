"""``Cassette``: the HTTP exchanges of one run, bytes kept exactly.

A ``Request`` and a ``Response`` hold raw bytes; JSON is a view of them. On disk (``io``) a body is
parsed JSON where that round-trips to the same bytes, else text, else base64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from afnb.core.page import Shown
from afnb.core.run import OutcomeLabel, Warn

Headers = tuple[tuple[str, str], ...]


def header(headers: Headers, name: str) -> str | None:
    """Value of the first header called ``name`` (lower case), or None."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return None


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as the agent sent it: ``path`` is path and query, the origin left out.

    Examples
    --------
    >>> Request("POST", "/v1/chat/completions", body=b"{}").path
    '/v1/chat/completions'
    """

    method: str
    path: str
    headers: Headers = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of a streamed body: milliseconds since the response's head, and its bytes."""

    ms: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP answer. ``chunks`` are the arrival pieces of a streamed ``body``; their join is ``body``.

    ``incomplete`` marks a stream that stopped before its end.

    Examples
    --------
    >>> Response(200, (("content-type", "application/json"),), b"{}").status
    200
    """

    status: int
    headers: Headers = ()
    body: bytes = b""
    chunks: tuple[Chunk, ...] | None = None
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """One completed round trip. ``forwarded`` is the request as sent on when a replay changed it.

    ``attrs`` holds fields of a file that afnb does not know, so that they survive a round trip (those of
    its requests and response under these names).
    """

    idx: int
    request: Request
    response: Response
    t_start: str | None = None
    t_end: str | None = None
    attempt_of: int | None = None
    upstream: str | None = None
    forwarded: Request | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class ToolExchange:
    """One tool call that afnb saw run: kept apart from the HTTP exchanges."""

    name: str
    arguments: Any
    output: Any
    effect: str = "write"
    error: str | None = None
    after_exchange: int = -1
    t_start: str | None = None
    t_end: str | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, repr=False)
class Cassette(Shown):
    """All exchanges of one run, in capture order.

    ``attrs`` holds additive top-level fields (unknown ones too) so that they survive a round trip.

    Examples
    --------
    >>> one = Exchange(0, Request("GET", "/v1/models"), Response(200, body=b"{}"))
    >>> recording = Cassette("run-1", (one,))
    >>> len(recording), recording.with_response(0, Response(503)).exchanges[0].response.status
    (1, 503)
    """

    id: str
    exchanges: tuple[Exchange, ...] = ()
    tool_exchanges: tuple[ToolExchange, ...] = ()
    task: str | None = None
    outcome: OutcomeLabel | None = None
    cassette_version: str = "0.1"
    attrs: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[Warn, ...] = ()
    source: str | None = None

    def __len__(self) -> int:
        return len(self.exchanges)

    def __bool__(self) -> bool:
        return True

    def with_response(self, exchange: int, response: Response) -> Cassette:
        """A copy whose ``exchange`` answers ``response``; the recording itself is never changed."""
        changed = list(self.exchanges)
        changed[exchange] = replace(changed[exchange], response=response)
        return replace(self, exchanges=tuple(changed))
