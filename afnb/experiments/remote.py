"""Replays in other processes, or on other machines: recordings are sent once, not with every replay.

The setting of an experiment (recording, tape, agent, oracle, upstream) is written to a file named by the
hash of its content. Tasks carry that name. A worker reads the file once and keeps the setting; one that
cannot see the file says so, and gets the content with the task instead. What workers spend is counted in
a file that they lock (``Purse``), so that the budget is one for all of them.
"""

from __future__ import annotations

import hashlib
import pickle
import shutil
import signal
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from afnb.errors import InputError
from afnb.experiments.budget import Budget, Meter
from afnb.experiments.pickling import require_picklable, to_bytes
from afnb.experiments.pool import Died, pooled
from afnb.experiments.purse import ENDING, INTERRUPTED, STOPPING, PairMeter, Purse
from afnb.experiments.replay import Gate, Job, ReplayResult, Setting
from afnb.io.serve_report import SessionReport

KEPT = 4
_POLL_S = 0.2
_settings: OrderedDict[str, Setting] = OrderedDict()
_lock = threading.Lock()


class Missing:
    """In place of a result: the worker has neither the setting nor its file."""


class RemoteTask:
    """One replay in a worker: plain data in, plain data out."""

    def __init__(self, digest: str, path: str, purse: str, left: Budget, content: bytes | None) -> None:
        self.digest = digest
        self.path = path
        self.purse = purse
        self.left = left
        self.content = content

    def __call__(self, job: Job) -> ReplayResult | Missing:
        """Run one replay."""
        setting = self.setting()
        if setting is None:
            return Missing()
        stop = threading.Event()
        with deaf():
            try:
                purse = Purse(self.purse, self.left)
            except InputError:  # another machine: the parent counts when the result is back
                return setting.run(job, Gate(Meter(self.left), stop), stop)
            try:
                with ending(purse, stop):
                    return setting.run(job, Gate(PairMeter(purse), stop), stop)
            finally:
                purse.close()

    def setting(self) -> Setting | None:
        """The setting, from this process's memory, the file, or the task itself."""
        with _lock:
            known = _settings.get(self.digest)
            if known is not None:
                _settings.move_to_end(self.digest)
                return known
        content = self.content
        if content is None:
            try:
                content = Path(self.path).read_bytes()
            except OSError:
                return None
            if hashlib.blake2b(content, digest_size=16).hexdigest() != self.digest:
                return None
        made: Setting = pickle.loads(content)
        with _lock:
            _settings[self.digest] = made
            while len(_settings) > KEPT:
                _settings.popitem(last=False)
        return made


class Remote:
    """Sends a setting to the workers of a joblib backend and runs replays there.

    Raises
    ------
    ParameterError
        Something of it does not pickle; the message names what.
    """

    def __init__(self, setting: Setting, backend: str) -> None:
        for name in ("agent", "oracle", "upstream"):
            require_picklable(getattr(setting, name, None), f"the {name}")
        self.backend = backend
        self.content = to_bytes(setting)
        self.digest = hashlib.blake2b(self.content, digest_size=16).hexdigest()
        self.folder = Path(tempfile.mkdtemp(prefix="afnb-sent-"))
        self.path = self.folder / f"{self.digest}.pickle"
        self.path.write_bytes(self.content)
        self.rounds = 0
        self._gone = weakref.finalize(self, shutil.rmtree, str(self.folder), True)

    def close(self) -> None:
        """Remove the file."""
        self._gone()

    def run(
        self, jobs: Sequence[Job], n_jobs: int, meter: Meter, stop_now: threading.Event
    ) -> Iterator[tuple[Job, ReplayResult]]:
        """Run ``jobs``; yields each with its result as it finishes, and charges the meter for it."""
        self.rounds += 1
        left = meter.left()
        purse = Purse(self.folder / f"purse-{self.rounds}", left)
        purse.begin()

        def stopped() -> bool:
            return meter.crossed() is not None or stop_now.is_set() or purse.crossed() is not None

        def task(content: bytes | None) -> RemoteTask:
            return RemoteTask(self.digest, str(self.path), str(purse.path), left, content)

        charged = 0
        try:
            with _following(purse, meter, stop_now):
                again: list[Job] = []
                for content, some in ((None, jobs), (self.content, again)):
                    found = pooled(task(content), some, n_jobs=n_jobs, backend=self.backend, stopped=stopped)
                    for number, result in found:
                        if isinstance(result, Missing):
                            again.append(some[number])
                            continue
                        if isinstance(result, Died):
                            result = died(some[number], result.reason)
                        charged += result.report.live
                        meter.charge_calls(result.report.live)
                        for use in result.uses:
                            meter.charge(use)
                        yield some[number], result
        finally:
            meter.charge_calls(max(0, purse.spent().live_calls - charged))  # of those whose worker died
            purse.close()
            purse.path.unlink(missing_ok=True)


def died(job: Job, reason: str) -> ReplayResult:
    """A replay whose worker was killed: lost, and it may have been lost because of its arm."""
    return ReplayResult(
        role=job.role,
        index=job.index,
        seed=job.seed,
        recovery="inconclusive",
        reason="worker_died",
        lost="after",
        detail=reason,
        report=SessionReport("branch"),
        run=None,
        recording=None,
        tail_digest=None,
        wall_s=0.0,
        worker="",
    )


@contextmanager
def deaf() -> Iterator[None]:
    """Within it, an interrupt of the terminal's whole group is left to the parent process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ending(purse: Purse, ended: threading.Event) -> Iterator[None]:
    """Within it, ``ended`` is set once the purse says that what runs is to end."""
    with _watching(lambda: purse.spent().state == ENDING, ended.set):
        yield


@contextmanager
def _following(purse: Purse, meter: Meter, stop_now: threading.Event) -> Iterator[None]:
    """Within it, an interrupt of the parent reaches the workers through the purse."""

    def interrupted() -> bool:
        if stop_now.is_set():
            purse.stop(ENDING)
            return True
        if meter.crossed() == INTERRUPTED:
            purse.stop(STOPPING)
        return False

    with _watching(interrupted, lambda: None):
        yield


@contextmanager
def _watching(happened: Callable[[], bool], then: Callable[[], Any]) -> Iterator[None]:
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_S):
            if happened():
                then()
                return

    thread = threading.Thread(target=watch, name="afnb-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
