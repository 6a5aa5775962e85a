"""``RateLimit``: one pace for all workers that ask the same provider."""

from __future__ import annotations

import email.utils
import fcntl
import json
import math
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from afnb.core.cassette import Headers, header
from afnb.errors import ParameterError

BUSY = frozenset({429, 503, 529})


def retry_after_s(headers: Headers, now: float) -> float | None:
    """Seconds that ``retry-after-ms`` or ``retry-after`` (seconds or an HTTP date) ask to wait.

    ``now`` is a Unix time, used for dates only. None where there is no such header or it is no time.

    Examples
    --------
    >>> retry_after_s((("retry-after", "2"),), now=0.0)
    2.0
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = header(headers, name)
        if value is None:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            parsed = email.utils.parsedate_tz(value)
            if parsed is None:
                continue
            seconds = email.utils.mktime_tz(parsed) - now
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


class RateLimit:
    """Calls per minute, kept by threads and worker processes together; honours ``Retry-After``.

    After a 429, 503 or 529 with ``Retry-After`` no call is started before that time, by anyone. The
    pace is kept in memory; once the limit is sent to another process it lives in a small file that
    both use (``path``; by default a temporary one that goes with the limit that made it).

    Parameters
    ----------
    per_minute
        Calls started per minute, evenly spaced; None sets no pace and only honours ``Retry-After``.
    max_wait_s
        The longest that one ``Retry-After`` can hold everyone up, in seconds.
    path
        The file that holds the common state.

    Raises
    ------
    ParameterError
        A pace that is not positive, a wait that is negative.

    Examples
    --------
    >>> RateLimit(per_minute=600).interval_s
    0.1
    """

    def __init__(
        self,
        per_minute: float | None = None,
        *,
        max_wait_s: float = 60.0,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        if per_minute is not None and not per_minute > 0:
            raise ParameterError(f"per_minute is {per_minute!r}; it must be a positive number or None")
        if not max_wait_s >= 0:
            raise ParameterError(f"max_wait_s is {max_wait_s!r}; it must be 0 or more seconds")
        self.per_minute = per_minute
        self.max_wait_s = max_wait_s
        self.path = Path(path) if path is not None else None
        self._lock = threading.Lock()
        self._state = (0.0, 0.0)  # Unix times: the next free turn, and before which nobody starts

    @property
    def interval_s(self) -> float:
        """Seconds between the starts of two calls."""
        return 60.0 / self.per_minute if self.per_minute else 0.0

    def wait(self) -> None:
        """Wait for this call's turn."""
        turn = 0.0

        def take(now: float, free: float, held: float) -> tuple[float, float]:
            nonlocal turn
            turn = max(now, free, held)
            return turn + self.interval_s, held

        held = math.inf
        while held > turn:  # whoever was held up meanwhile takes a new turn, so that all do not start at once
            self._change(take)
            while (left := turn - time.time()) > 0:
                time.sleep(left)
            held = self._change(lambda now, free, held: (free, held))[1]

    def note(self, status: int, headers: Headers) -> None:
        """Tell what the provider answered, so that all hold back as long as it asks for."""
        now = time.time()
        seconds = retry_after_s(headers, now) if status in BUSY else None
        if seconds:
            until = now + min(seconds, self.max_wait_s)
            self._change(lambda now, free, held: (free, max(held, until)))

    def _change(self, step: Callable[[float, float, float], tuple[float, float]]) -> tuple[float, float]:
        with self._lock:
            if self.path is None:
                self._state = step(time.time(), *self._state)
                return self._state
            with open(self.path, "a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0)
                try:
                    free, held = json.loads(file.read())
                except ValueError:
                    free, held = 0.0, 0.0
                state = step(time.time(), free, held)
                file.truncate(0)
                file.write(json.dumps(state).encode())
                return state

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            if self.path is None:
                handle, name = tempfile.mkstemp(prefix="afnb-rate-", suffix=".json")
                with open(handle, "wb") as file:
                    file.write(json.dumps(self._state).encode())
                self.path = Path(name)
                weakref.finalize(self, _remove, name, os.getpid())
        return {"per_minute": self.per_minute, "max_wait_s": self.max_wait_s, "path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _remove(name: str, owner: int) -> None:
    if os.getpid() == owner:
        Path(name).unlink(missing_ok=True)
