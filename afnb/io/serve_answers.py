"""Answers that a session makes itself, and what it takes out of recorded ones before serving them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from afnb.core import jsonvalue
from afnb.core.cassette import Exchange, Headers, Response
from afnb.io.serve_report import Missed

REFUSED_STATUS = 424
"""Not asked again by the official SDKs (they retry 408, 409, 429 and 5xx), and given by no provider."""

GATEWAY_STATUS = 502

FRAMING = frozenset(
    {"content-length", "content-encoding", "transfer-encoding", "connection", "keep-alive", "date"}
)
DELAYS = frozenset({"retry-after", "retry-after-ms"})
RETRIED = frozenset({408, 409, 429})


def error_answer(status: int, kind: str, sentence: str, miss: Missed | None = None) -> Response:
    """An error answer that the SDKs of OpenAI and Anthropic both turn into an error with ``sentence``.

    Examples
    --------
    >>> error_answer(424, "afnb_missed", "not on the tape").status
    424
    """
    error: dict[str, object] = {"type": kind, "code": kind, "message": f"afnb: {sentence}", "param": None}
    if miss is not None:
        error["param"] = miss.where
        error["afnb"] = {
            "request": miss.request,
            "nearest_exchange": miss.nearest,
            "path": miss.where,
            "recorded": miss.recorded,
            "asked": miss.asked,
            "offset": miss.offset,
            "key": miss.key,
            "nearest_key": miss.nearest_key,
        }
    body = jsonvalue.dumps({"type": "error", "error": error}).encode("utf-8", "backslashreplace")
    headers: Headers = (("content-type", "application/json"),)
    if status == REFUSED_STATUS:
        headers += (("x-should-retry", "false"),)
    return Response(status, headers, body)


def refusal(kind: str, sentence: str, miss: Missed | None = None) -> Response:
    """The answer to a request that is neither on the tape nor allowed to go live."""
    return error_answer(REFUSED_STATUS, f"afnb_{kind}", sentence, miss)


def servable(response: Response, *, keep_delays: bool = False) -> Response:
    """A recorded answer as it may be sent again: its framing is the transport's, its delays are shortened.

    A client that honours ``retry-after`` would sleep through every replay, so that an error answer which
    SDKs ask again carries a delay of one millisecond; ``keep_delays`` leaves the recorded one.

    Examples
    --------
    >>> servable(Response(429, (("retry-after", "20"),))).headers
    (('retry-after-ms', '1'),)
    """
    drop = FRAMING if keep_delays else FRAMING | DELAYS
    headers = tuple((k, v) for k, v in response.headers if k.lower() not in drop)
    if not keep_delays and (response.status in RETRIED or response.status >= 500):
        headers += (("retry-after-ms", "1"),)
    return response if headers == response.headers else replace(response, headers=headers)


def head_ms(exchange: Exchange) -> float:
    """Milliseconds from the recorded request to the head of its answer; 0 where the times are unknown."""
    if exchange.t_start is None or exchange.t_end is None:
        return 0.0
    try:
        start, end = datetime.fromisoformat(exchange.t_start), datetime.fromisoformat(exchange.t_end)
        whole = (end - start).total_seconds() * 1000
    except (ValueError, TypeError):
        return 0.0
    chunks = exchange.response.chunks
    return max(0.0, whole - (chunks[-1].ms if chunks else 0.0))
