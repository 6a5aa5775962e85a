"""The agent's own time-out on live calls made in this process: it gives up as it would without afnb."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from afnb.core.cassette import Request
from afnb.io.reply import AsyncReply, Reply, Upstream


class GaveUp(Exception):
    """The agent's time-out passed before the answer's head was there."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} s, the agent's own time-out")


def patience_of(request: Any) -> float | None:
    """Seconds that a client waits for an answer (its read time-out); None for ever.

    Examples
    --------
    >>> import httpx
    >>> with httpx.Client(timeout=httpx.Timeout(9, read=2.5)) as client:
    ...     patience_of(client.build_request("GET", "http://127.0.0.1/"))
    2.5
    """
    told = request.extensions.get("timeout")
    seconds = told.get("read") if isinstance(told, dict) else None
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def open_within(upstream: Upstream, request: Request, seconds: float | None) -> Reply:
    """``upstream.open``, waited for at most ``seconds``; an answer that comes later is let go.

    Raises
    ------
    GaveUp
        It did not come in time.
    """
    if seconds is None:
        return upstream.open(request)
    lock, ready = threading.Lock(), threading.Event()
    box: list[Reply | BaseException] = []
    left = False

    def call() -> None:
        try:
            made: Reply | BaseException = upstream.open(request)
        except BaseException as error:  # noqa: BLE001 - carried over to the caller, who raises it
            made = error
        with lock:
            if left and isinstance(made, Reply):
                made.close()
            box.append(made)
        ready.set()

    threading.Thread(target=call, name="afnb-call", daemon=True).start()
    if not ready.wait(seconds):
        with lock:
            if not box:
                left = True
                raise GaveUp(seconds)
    found = box[0]
    if isinstance(found, BaseException):
        raise found
    return found


async def open_within_async(upstream: Upstream, request: Request, seconds: float | None) -> AsyncReply:
    """``upstream.open_async`` likewise."""
    if seconds is None:
        return await upstream.open_async(request)
    task = asyncio.ensure_future(upstream.open_async(request))
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except BaseException:
        task.cancel()
        raise
    if not done:
        task.cancel()
        raise GaveUp(seconds)
    return task.result()
