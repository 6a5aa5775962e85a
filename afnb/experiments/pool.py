"""Tasks over any joblib backend, one by one as they finish, and what dies dies alone.

========================= =========================================================================
backend
========================= =========================================================================
``threading``             in this process: the tasks wait for a provider most of the time (default)
``loky``                  processes of this machine: for agents that compute themselves
``dask``                  workers of a ``distributed.Client``, on this machine or others
``ray``                   workers of a ray cluster; results come together at the end
========================= =========================================================================

A worker that is killed takes no other result with it: the tasks that were in flight are run again one
at a time, and the one that kills its worker is told apart. A task's function gives plain data and does
not raise: exceptions with arguments of their own, as SDKs have, break a pool for good.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from afnb.errors import MissingDependency, ParameterError

PROCESSES = ("loky", "dask", "ray")
BACKENDS = ("threading", *PROCESSES)
_DEATHS = ("TerminatedWorkerError", "BrokenProcessPool", "KilledWorker", "WorkerCrashedError")
_PACKAGES = {"dask": "distributed", "ray": "ray"}


class Died:
    """In place of a result: the worker that ran the task was killed."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def check_backend(backend: str) -> str:
    """``backend``, if it can be used here.

    Raises
    ------
    ParameterError
        It is none of joblib's, or one that cannot carry replays.
    MissingDependency
        Its package is not installed.

    Examples
    --------
    >>> check_backend("threading")
    'threading'
    """
    if backend == "multiprocessing":
        raise ParameterError(
            "backend='multiprocessing' forks a process that has threads, which may hang; use 'loky'"
        )
    package = _PACKAGES.get(backend)
    if package is not None:
        try:
            importlib.import_module(package)
        except ImportError:
            raise MissingDependency(package, backend) from None
    if backend == "ray":
        importlib.import_module("ray.util.joblib").register_ray()
    if backend == "dask":
        try:
            importlib.import_module("distributed").get_client()
        except ValueError:
            raise ParameterError(
                "backend='dask' needs a client that says where the workers are: make one first, such as "
                "distributed.Client('tcp://scheduler:8786')"
            ) from None
    if backend in BACKENDS:
        return backend
    import joblib

    if backend not in joblib.parallel.BACKENDS:
        raise ParameterError(
            f"backend={backend!r}: expected one of {', '.join(BACKENDS)}, or one registered with joblib"
        )
    return backend


def check_jobs(n_jobs: int) -> int:
    """``n_jobs`` as a number of workers; -1 is one per core.

    Raises
    ------
    ParameterError
        It is neither.

    Examples
    --------
    >>> check_jobs(3)
    3
    """
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or (n_jobs < 1 and n_jobs != -1):
        raise ParameterError(f"n_jobs={n_jobs!r}: it is a whole number from 1, or -1 for one per core")
    if n_jobs == -1:
        import joblib

        return max(1, int(joblib.cpu_count()))
    return n_jobs


def pooled(
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    *,
    n_jobs: int,
    backend: str = "threading",
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[int, Any]]:
    """Run ``function(task)`` over ``tasks``; yields (number, result) as they finish.

    Parameters
    ----------
    function, tasks
        For process backends both must pickle; keep them small, they are sent once a task.
    n_jobs
        At a time.
    backend
        As checked by ``check_backend``.
    stopped
        Asked before each task; once it says so, no further one is started.
    """
    waiting = list(range(len(tasks)))
    while waiting and not stopped():
        begun: set[int] = set()
        done: set[int] = set()
        try:
            for number, result in _run(function, tasks, waiting, n_jobs, backend, stopped, begun):
                done.add(number)
                yield number, result
            return
        except Exception as error:
            if type(error).__name__ not in _DEATHS:
                raise
            begun = begun or {waiting[0]}
        lost = [number for number in waiting if number in begun - done]
        waiting = [number for number in waiting if number not in begun]
        yield from _one_by_one(function, tasks, lost, backend, stopped)


def _one_by_one(
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    numbers: Sequence[int],
    backend: str,
    stopped: Callable[[], bool],
) -> Iterator[tuple[int, Any]]:
    """Run tasks that were in flight when a worker died, each in a pool of its own."""
    for number in numbers:
        if stopped():
            return
        try:
            yield from _run(function, tasks, [number], 1, backend, stopped, set())
        except Exception as error:
            if type(error).__name__ not in _DEATHS:
                raise
            yield number, Died(f"the worker that ran it died: {error}"[:300])


def _run(
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    numbers: Sequence[int],
    n_jobs: int,
    backend: str,
    stopped: Callable[[], bool],
    begun: set[int],
) -> Iterator[tuple[int, Any]]:
    if backend == "threading" and (n_jobs == 1 or len(numbers) == 1):
        for number in numbers:
            if stopped():
                return
            begun.add(number)
            yield number, function(tasks[number])
        return
    import joblib

    def todo() -> Iterator[Any]:
        for number in numbers:
            if stopped():
                return
            begun.add(number)
            yield joblib.delayed(_numbered)(function, number, tasks[number])

    together = backend == "ray"
    width = n_jobs if together else min(n_jobs, len(numbers))
    with joblib.parallel_config(backend=backend):
        pool = joblib.Parallel(
            # with one worker joblib would run the tasks here, where one that dies takes everything with it
            n_jobs=max(2, width) if backend in PROCESSES else width,
            batch_size=1,
            pre_dispatch=width,
            return_as="list" if together else "generator_unordered",
        )
    with warnings.catch_warnings():
        # loky warns of every worker that was killed; here that is a result of its own
        warnings.filterwarnings("ignore", message=".*worker stopped while some jobs.*")
        yield from pool(todo())


def _numbered(function: Callable[[Any], Any], number: int, task: Any) -> tuple[int, Any]:
    return number, function(task)
