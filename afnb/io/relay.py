"""What the transports and the server share: answers on their way to the agent, in pieces and in time.

A ``Relay`` passes a provider's answer on as it arrives and tells the session what it must know before
the agent can act on it. ``pieces`` cuts a recorded answer into the chunks to send, ``delays`` says when.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

from afnb.core.cassette import Chunk, Request, Response, header
from afnb.errors import MissingDependency, ParameterError
from afnb.io.decode import decode_body
from afnb.io.reply import AsyncReply, Reply, Upstream, is_stream
from afnb.io.serve import Forward, Session
from afnb.io.upstream import RoutedUpstream

NEAR_END = re.compile(
    rb'\[DONE\]|message_stop|response\.completed|"(?:finish_reason|stop_reason|finishReason)"\s*:\s*"|"done"\s*:\s*true'
)
CARRIED = 32
EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
WAYS = {"at once": 0.0, "as recorded": 1.0}


def pace_of(value: float | str) -> float:
    """How recorded times are replayed: ``"at once"`` (0), ``"as recorded"`` (1) or a factor.

    Raises
    ------
    ParameterError
        Anything else, and a negative factor.

    Examples
    --------
    >>> pace_of("as recorded"), pace_of(0.5)
    (1.0, 0.5)
    """
    if isinstance(value, str):
        if value in WAYS:
            return WAYS[value]
    elif not isinstance(value, bool) and 0 <= value < float("inf"):
        return float(value)
    raise ParameterError(f"pace is {value!r}; it is 'at once', 'as recorded' or a factor of 0 or more")


def pieces(response: Response) -> tuple[Chunk, ...] | None:
    """The chunks in which to send an answer, or None where it is sent whole.

    A recorded stream keeps its chunks. One without recorded chunks is cut after each event, so that an agent
    that stops reading after the first event can do so.

    Examples
    --------
    >>> sse = (("content-type", "text/event-stream"),)
    >>> [chunk.data for chunk in pieces(Response(200, sse, b"data: 1\\n\\ndata: 2\\n\\n"))]
    [b'data: 1\\n\\n', b'data: 2\\n\\n']
    """
    if response.chunks is not None:
        return response.chunks
    if not is_stream(response.headers):
        return None
    kind = (header(response.headers, "content-type") or "").partition(";")[0].strip().lower()
    if kind == "application/vnd.amazon.eventstream":
        return (Chunk(0.0, response.body),) if response.body else ()
    end = EVENT_END if kind == "text/event-stream" else re.compile(rb"\n")
    cuts = [0, *(match.end() for match in end.finditer(response.body)), len(response.body)]
    return tuple(Chunk(0.0, response.body[a:b]) for a, b in itertools.pairwise(cuts) if a < b)


def delays(chunks: tuple[Chunk, ...], pace: float) -> Iterator[tuple[float, bytes]]:
    """Each chunk with the seconds after the answer's head at which it is due."""
    for chunk in chunks:
        yield chunk.ms * pace / 1000, chunk.data


def named(path: str, upstream: Upstream | None) -> tuple[str | None, str]:
    """The name of one of several upstreams at a path's beginning (``/@name/...``), and the rest."""
    if path.startswith("/@") and isinstance(upstream, RoutedUpstream):
        name, _, rest = path[2:].partition("/")
        return name, "/" + rest
    return None, path


class Progress:
    """Tells a session how far a live answer is, before the agent is shown it, and how it ended."""

    def __init__(self, session: Session, forward: Forward, reply: Reply | AsyncReply) -> None:
        self._session = session
        self._forward = forward
        self._reply = reply
        self._watched = session.mode == "branch"
        self._carry = b""
        self._ended = False
        if self._watched:
            session.observe(forward, Response(reply.status, reply.headers))

    def before(self, data: bytes) -> None:
        """To be called with each chunk before it is passed on."""
        if not self._watched:
            return
        if NEAR_END.search(self._carry + data):
            self._session.observe(self._forward, self._reply.response())
        self._carry = (self._carry + data)[-CARRIED:]

    def end(self, *, abandoned: bool = False) -> Response:
        """Record what came; the first call counts."""
        response = self._reply.response()
        if not self._ended:
            self._ended = True
            self._session.complete(self._forward, response, abandoned=abandoned)
        return response


class Relay:
    """A live answer passed on chunk by chunk; iterate it once, and close it.

    Raises
    ------
    UpstreamError
        While iterating, where the provider's answer stops before its end (it has been recorded as far as
        it came).
    """

    def __init__(self, session: Session, forward: Forward, reply: Reply) -> None:
        self._reply = reply
        self._progress = Progress(session, forward, reply)

    def __iter__(self) -> Iterator[bytes]:
        try:
            for data in self._reply:
                self._progress.before(data)
                yield data
        except Exception:
            self._progress.end()
            raise
        self._progress.end()

    def collect(self) -> Response:
        """Read to the end; an answer that stops early comes back ``incomplete``."""
        self._reply.collect()
        return self._progress.end()

    def close(self) -> None:
        """End it; what was not read yet was not wanted."""
        self._reply.close()
        self._progress.end(abandoned=True)


def readable(request: Request) -> Request:
    """The request with its body decoded, if it came gzip, deflate, zstd or br encoded and can be decoded.

    A request is compared and recorded by what it says. One that cannot be decoded stays as it is.

    Examples
    --------
    >>> import gzip
    >>> readable(Request("POST", "/", (("content-encoding", "gzip"),), gzip.compress(b"{}"))).body
    b'{}'
    """
    coding = header(request.headers, "content-encoding")
    if not coding:
        return request
    try:
        body, found = decode_body(request.body, coding)
    except MissingDependency:
        return request
    if found == "body_was_plain":
        return request
    gone = ("content-encoding", "content-length")
    return replace(
        request, headers=tuple((k, v) for k, v in request.headers if k.lower() not in gone), body=body
    )
