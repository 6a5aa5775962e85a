"""Runs replays in parallel with joblib, in rounds, and stops cleanly.

A round is what the consensus rule can still use, never more. Results are handed on as they finish;
the rule consumes them in index order, so the number of workers changes no verdict. Ctrl-C once
starts nothing more and keeps what finishes; twice ends the running agents.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from afnb.errors import AgentError, ParameterError
from afnb.experiments.budget import Meter
from afnb.experiments.pool import check_backend, pooled
from afnb.experiments.remote import Remote
from afnb.experiments.replay import Gate, Job, ReplayResult, Setting

Keep = Callable[[Job, ReplayResult], None]
"""Writes a finished replay down."""


class Runner:
    """Parallel replays of one setting under one budget.

    Parameters
    ----------
    setting
        What all replays share.
    meter
        What was spent; shared with other experiments of the same attribution.
    n_jobs
        Replays at a time, at least 1; or a function that says so whenever a round begins.
    backend
        ``threading`` (replays wait for the provider), ``loky``, ``dask``, ``ray``, or any other of joblib.

    Raises
    ------
    ParameterError
        ``n_jobs`` is not a positive whole number.
    """

    def __init__(
        self, setting: Setting, meter: Meter, n_jobs: int | Callable[[], int] = 4, backend: str = "threading"
    ) -> None:
        if not callable(n_jobs) and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs < 1):
            raise ParameterError(
                f"n_jobs={n_jobs!r}: it is the number of replays at a time, a whole number from 1"
            )
        self.setting = setting
        self.meter = meter
        self._n_jobs = n_jobs
        self.backend = backend
        self.stop_now = meter.ended
        self._remote: Remote | None = None

    @property
    def n_jobs(self) -> int:
        """Replays at a time, from now on."""
        return max(1, self._n_jobs()) if callable(self._n_jobs) else self._n_jobs

    def run(self, jobs: Sequence[Job], keep: Keep | None = None) -> Iterator[tuple[Job, ReplayResult]]:
        """Run ``jobs``, at most ``n_jobs`` at a time; yields each with its result as it finishes.

        ``keep`` is called with each result before it is yielded, by the worker that has it where workers are
        threads: what was paid for is written down at once.

        Raises
        ------
        AgentError
            The agent cannot be started at all (it would fail every time).
        """
        if not jobs:
            return
        failed: ReplayResult | None = None
        run = self._here if self.backend == "threading" else self._remotely
        for job, result in run(jobs, keep):
            if result.cannot_start:
                failed = failed or result
                self.stop_now.set()
                continue
            yield job, result
        if failed is not None:
            raise AgentError(failed.detail or "the agent cannot be started")

    def _here(self, jobs: Sequence[Job], keep: Keep | None) -> Iterator[tuple[Job, ReplayResult]]:
        def stopped() -> bool:
            return self.meter.crossed() is not None or self.stop_now.is_set()

        local = LocalTask(self, keep)
        for number, result in pooled(local, jobs, n_jobs=self.n_jobs, stopped=stopped):
            yield jobs[number], result

    def _remotely(self, jobs: Sequence[Job], keep: Keep | None) -> Iterator[tuple[Job, ReplayResult]]:
        if self._remote is None:
            self._remote = Remote(self.setting, check_backend(self.backend))
        for job, result in self._remote.run(jobs, self.n_jobs, self.meter, self.stop_now):
            if keep is not None:
                keep(job, result)
            yield job, result


class LocalTask:
    """A replay in a thread of this process; what it came to is written down before anybody waits for it."""

    def __init__(self, runner: Runner, keep: Keep | None) -> None:
        self.runner = runner
        self.keep = keep

    def __call__(self, job: Job) -> ReplayResult:
        """Run one replay."""
        stop = self.runner.stop_now
        result = self.runner.setting.run(job, Gate(self.runner.meter, stop), stop)
        if self.keep is not None:
            self.keep(job, result)
        return result


@contextmanager
def interruptible(meter: Meter, stop_now: threading.Event) -> Iterator[None]:
    """Within it, Ctrl-C once stops starting replays and twice ends the running ones.

    Only the main thread can take signals; elsewhere it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    presses = 1 if meter.crossed() == "interrupted" else 0

    def stop(now: bool) -> None:
        if now:
            stop_now.set()
        meter.stop("interrupted")

    def interrupted(_number: int, _frame: object) -> None:
        nonlocal presses
        presses += 1
        # in a thread of its own: this one may hold the meter's lock at this very moment
        threading.Thread(target=stop, args=(presses > 1,), name="afnb-interrupt", daemon=True).start()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
