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
from typing import Any

from afnb.errors import AgentError, ParameterError
from afnb.experiments.budget import Budget, Meter
from afnb.experiments.replay import Gate, Job, ReplayResult, Setting


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
        Any joblib backend; ``threading`` (replays wait for the provider) is the default.

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

    @property
    def n_jobs(self) -> int:
        """Replays at a time, from now on."""
        return max(1, self._n_jobs()) if callable(self._n_jobs) else self._n_jobs

    def run(self, jobs: Sequence[Job]) -> Iterator[ReplayResult]:
        """Run ``jobs``, at most ``n_jobs`` at a time; yields each result as it finishes.

        Raises
        ------
        AgentError
            The agent cannot be started at all (it would fail every time).
        """
        if len(jobs) == 1 and self.backend == "threading":
            yield self._checked(self._local(jobs[0]))
            return
        if not jobs:
            return
        import joblib

        def todo() -> Iterator[Any]:
            for job in jobs:
                if self.meter.crossed() is not None or self.stop_now.is_set():
                    return
                yield joblib.delayed(self._task())(job)

        pool = joblib.Parallel(
            n_jobs=min(self.n_jobs, len(jobs)),
            backend=self.backend,
            batch_size=1,
            pre_dispatch="n_jobs",
            return_as="generator_unordered",
        )
        failed: ReplayResult | None = None
        for result in pool(todo()):
            if self.backend != "threading":
                self._charge_remote(result)
            if result.cannot_start:
                failed = failed or result
                self.stop_now.set()
                continue
            yield result
        if failed is not None:
            self._checked(failed)

    def _task(self) -> Any:
        return self._local if self.backend == "threading" else RemoteTask(self.setting, self.meter.left())

    def _local(self, job: Job) -> ReplayResult:
        return self.setting.run(job, Gate(self.meter, self.stop_now), self.stop_now)

    def _charge_remote(self, result: ReplayResult) -> None:
        self.meter.charge_calls(result.report.live)
        for use in result.uses:
            self.meter.charge(use)

    @staticmethod
    def _checked(result: ReplayResult) -> ReplayResult:
        if result.cannot_start:
            raise AgentError(result.detail or "the agent cannot be started")
        return result


class RemoteTask:
    """A replay in another process: plain data in, plain data out, under what is left of the budget."""

    def __init__(self, setting: Setting, left: Budget) -> None:
        self.setting = setting
        self.left = left

    def __call__(self, job: Job) -> ReplayResult:
        """Run one replay."""
        stop = threading.Event()
        return self.setting.run(job, Gate(Meter(self.left), stop), stop)


@contextmanager
def interruptible(meter: Meter, stop_now: threading.Event) -> Iterator[None]:
    """Within it, Ctrl-C once stops starting replays and twice ends the running ones.

    Only the main thread can take signals; elsewhere it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(_number: int, _frame: object) -> None:
        if meter.crossed() == "interrupted":
            stop_now.set()
        meter.stop("interrupted")

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
