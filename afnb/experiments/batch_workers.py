"""What runs in the workers of a batch: tasks that pickle, shares of the workers, and interrupts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from afnb.experiments.batch_task import PUT_ASIDE, Screened, Terms, keep, screen, work
from afnb.experiments.pair_row import PairResult
from afnb.experiments.pairs import BatchPair
from afnb.experiments.purse import ENDING, STOPPING, Purse
from afnb.experiments.remote import deaf


class Shares:
    """How many replays each of the pairs at work may run at a time: the workers, shared evenly."""

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs
        self._lock = threading.Lock()
        self._active: list[object] = []

    @contextmanager
    def one(self) -> Iterator[Callable[[], int]]:
        """A share for one pair; within it the function says how large it is just now."""
        me = object()

        def share() -> int:
            with self._lock:
                each, rest = divmod(self.n_jobs, len(self._active))
                return max(1, each + (self._active.index(me) < rest))

        with self._lock:
            self._active.append(me)
        try:
            yield share
        finally:
            with self._lock:
                self._active.remove(me)


class ScreenTask:
    """Screens one pair, in any worker."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def __call__(self, task: tuple[int, BatchPair]) -> Screened:
        """Screen one pair."""
        return screen(self.terms, *task)


class PairTask:
    """Attributes one pair and keeps the result, in any worker.

    In threads the workers that have no pair of their own are shared among the pairs at work; a process
    works with its even part of them.
    """

    def __init__(
        self, terms: Terms, patience: int | None, n_jobs: int, workers: int, *, threads: bool
    ) -> None:
        self.terms = terms
        self.patience = patience
        self.each = max(1, n_jobs // workers)
        self.shares = Shares(n_jobs) if threads else None

    def __call__(self, task: tuple[BatchPair, Screened]) -> PairResult:
        """Work on one pair; rows of replays stay in the folder and are not sent back."""
        pair, screened = task
        if self.shares is not None:
            with self.shares.one() as share:
                result = work(self.terms, pair, screened, share, self.patience)
        else:
            with deaf():
                result = work(self.terms, pair, screened, lambda: self.each, self.patience)
        if result.row["reason"] != PUT_ASIDE:
            keep(self.terms, result)
        return PairResult(result.row)


@contextmanager
def interruptible(purse: Purse) -> Iterator[None]:
    """Within it, Ctrl-C once stops starting replays, and twice ends the running ones.

    Only the main thread can take signals; elsewhere it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    presses = 0

    def interrupted(_number: int, _frame: object) -> None:
        nonlocal presses
        presses += 1
        state = ENDING if presses > 1 else STOPPING
        # in a thread of its own: this one may hold the purse at this very moment
        threading.Thread(target=purse.stop, args=(state,), name="afnb-interrupt", daemon=True).start()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
