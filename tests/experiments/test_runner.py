"""Interrupts: taken at any moment, once to stop starting and twice to end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

from afnb.experiments.budget import Budget, Meter
from afnb.experiments.runner import interruptible


def until(said: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not said() and time.monotonic() < deadline:
        time.sleep(0.005)
    return said()


def test_an_interrupt_while_the_budget_is_looked_at() -> None:
    """The signal comes to the thread that holds the meter's lock; waiting for it there would be for ever."""
    meter, stop = Meter(Budget()), threading.Event()
    before = signal.getsignal(signal.SIGINT)
    with interruptible(meter, stop):
        with meter._lock:
            signal.raise_signal(signal.SIGINT)
        assert until(lambda: meter.crossed() == "interrupted")
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert until(stop.is_set)
    assert signal.getsignal(signal.SIGINT) is before
