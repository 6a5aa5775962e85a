"""``Purse``: what a whole batch has spent, kept in a small file that all of its workers lock.

One budget covers every pair, in whatever process it is worked on, and a batch that was killed goes on
with what was left of it. ``PairMeter`` is one pair's view: the experiments charge it as they would any
meter.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

from afnb.errors import InputError
from afnb.experiments.budget import Budget, Meter, Use, dollars_of

_LAYOUT = struct.Struct("<8sqqddq")
_MAGIC = b"afnbpur1"
RUNNING, STOPPING, ENDING = 0, 1, 2
INTERRUPTED = "interrupted"


@dataclass(slots=True)
class Spent:
    """Counts of a purse: live calls, tokens, US dollars, when it closes (0: never), and its state."""

    live_calls: int = 0
    tokens: int = 0
    dollars: float = 0.0
    deadline: float = 0.0
    state: int = RUNNING


class Purse:
    """The one budget of a batch, shared by threads and processes through a file.

    Parameters
    ----------
    path
        The file; made if it is not there.
    budget
        The limits. Calls, tokens and dollars count from the batch's beginning, seconds from ``begin``.

    Raises
    ------
    InputError
        The file cannot be used, or is something else.
    """

    def __init__(self, path: str | os.PathLike[str], budget: Budget) -> None:
        self.path = Path(path)
        self.budget = budget
        self._lock = threading.Lock()
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise InputError(
                f"cannot be used: {error.strerror}; workers need the batch's folder on a file system that "
                "all of them share",
                path=str(self.path),
            ) from None
        with self._held():
            pass

    def __reduce__(self) -> tuple[object, ...]:
        return Purse, (str(self.path), self.budget)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def begin(self) -> None:
        """A session starts: nothing is stopped, and its wall time counts from now."""
        with self._held() as spent:
            spent.state = RUNNING
            spent.deadline = 0.0 if self.budget.seconds is None else time.time() + self.budget.seconds

    def spent(self) -> Spent:
        """The counts so far."""
        with self._held() as spent:
            return spent

    def take(self) -> str | None:
        """Count one live call that is about to be made, or say why it may not be."""
        with self._held() as spent:
            crossed = self._crossed(spent)
            if crossed is None:
                spent.live_calls += 1
            return crossed

    def charge(self, use: Use) -> None:
        """Count the tokens and dollars of finished live answers."""
        with self._held() as spent:
            spent.tokens += use.tokens
            spent.dollars += dollars_of(use, self.budget.prices)

    def stop(self, state: int = STOPPING) -> None:
        """Let nothing more start (``STOPPING``), or end what runs as well (``ENDING``)."""
        with self._held() as spent:
            spent.state = max(spent.state, state)

    def crossed(self) -> str | None:
        """Why nothing more may start, or None."""
        with self._held() as spent:
            return self._crossed(spent)

    def left(self) -> Budget:
        """What may still be spent, as a budget of its own."""
        spent, budget = self.spent(), self.budget
        seconds = max(0.0, spent.deadline - time.time()) if spent.deadline else None
        return Budget(
            None if budget.live_calls is None else max(0, budget.live_calls - spent.live_calls),
            None if budget.tokens is None else max(0, budget.tokens - spent.tokens),
            None if budget.dollars is None else max(0.0, budget.dollars - spent.dollars),
            seconds,
            budget.prices,
        )

    def _crossed(self, spent: Spent) -> str | None:
        if spent.state != RUNNING:
            return INTERRUPTED
        budget = self.budget
        if budget.live_calls is not None and spent.live_calls >= budget.live_calls:
            return f"budget of {budget.live_calls} live calls spent"
        if budget.tokens is not None and spent.tokens >= budget.tokens:
            return f"budget of {budget.tokens} tokens spent"
        if budget.dollars is not None and spent.dollars >= budget.dollars:
            return f"budget of ${budget.dollars:g} spent"
        if spent.deadline and time.time() >= spent.deadline:
            return f"budget of {budget.seconds:g} s spent"
        return None

    @contextmanager
    def _held(self) -> Iterator[Spent]:
        """The counts under the lock; what was changed is written back."""
        with self._lock:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                spent = self._read()
                before = _values(spent)
                yield spent
                if _values(spent) != before:
                    os.pwrite(self._file, _LAYOUT.pack(_MAGIC, *_values(spent)), 0)
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _read(self) -> Spent:
        data = os.pread(self._file, _LAYOUT.size + 1, 0)
        if not data:
            os.pwrite(self._file, _LAYOUT.pack(_MAGIC, *_values(Spent())), 0)
            return Spent()
        if len(data) != _LAYOUT.size or not data.startswith(_MAGIC):
            raise InputError("this is no file of a batch's budget", path=str(self.path))
        return Spent(*_LAYOUT.unpack(data)[1:])


def _values(spent: Spent) -> tuple[float, ...]:
    return tuple(getattr(spent, item.name) for item in fields(spent))


class PairMeter(Meter):
    """One pair's share of a purse: counts what the pair spends, and charges the batch for it.

    Parameters
    ----------
    purse
        The batch's budget.
    limit
        A limit of this pair alone, beside the batch's.
    """

    def __init__(self, purse: Purse, limit: Budget | None = None) -> None:
        super().__init__(purse.budget)
        self.purse = purse
        self._own = Meter(limit or Budget(live_calls=None))

    def take(self) -> str | None:
        """Count one live call with the pair and with the batch, or say why it may not be made."""
        with self._lock:
            crossed = self._stopped or self._own.crossed() or self.purse.take()
            if crossed is None:
                self.live_calls += 1
                self._own.charge_calls(1)
            return crossed

    def charge(self, use: Use) -> None:
        """Count tokens and dollars with the pair and with the batch."""
        super().charge(use)
        self._own.charge(use)
        self.purse.charge(use)

    def recall(self, calls: int, uses: Collection[Use]) -> None:
        """Count with the pair what a replay cost before; the batch's file has counted it already."""
        super().recall(calls, uses)
        self._own.recall(calls, uses)

    def stop(self, reason: str) -> None:
        """Let nothing more start for this pair; an interrupt is meant for the whole batch."""
        super().stop(reason)
        if reason == INTERRUPTED:
            self.purse.stop()

    def left(self) -> Budget:
        """What the batch may still spend."""
        return self.purse.left()

    def crossed(self) -> str | None:
        """Why nothing more may start for this pair, or None."""
        with self._lock:
            return self._stopped or self._own.crossed() or self.purse.crossed()
