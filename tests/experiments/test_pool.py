"""Workers that die, hang or cannot carry what they are given take nothing else with them."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pytest

from afnb.errors import MissingDependency, ParameterError
from afnb.experiments.pool import BACKENDS, Died, check_backend, check_jobs, pooled


def double(task: int) -> int:
    return 2 * task


def deadly(task: int) -> int:
    if task in (5, 6):
        os._exit(3)
    time.sleep(0.01)
    return 2 * task


@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_every_task_is_run_once(backend: str, n_jobs: int) -> None:
    found = sorted(pooled(double, range(7), n_jobs=n_jobs, backend=backend))
    assert found == [(i, 2 * i) for i in range(7)]


def test_a_worker_that_dies_loses_its_own_task_alone() -> None:
    found = dict(pooled(deadly, range(12), n_jobs=2, backend="loky"))
    assert sorted(found) == list(range(12))
    assert {i for i, result in found.items() if isinstance(result, Died)} == {5, 6}
    assert all(found[i] == 2 * i for i in found if i not in (5, 6))
    assert "died" in found[5].reason
    assert dict(pooled(double, range(3), n_jobs=2, backend="loky")) == {0: 0, 1: 2, 2: 4}


def test_nothing_starts_once_it_is_stopped() -> None:
    seen: list[int] = []

    def task(number: int) -> int:
        seen.append(number)
        return number

    for _number, result in pooled(task, range(50), n_jobs=2, stopped=lambda: len(seen) >= 3):
        assert result < 6
    assert len(seen) < 8


def test_no_tasks() -> None:
    assert list(pooled(double, [], n_jobs=4)) == []


def test_backends_are_known_by_name() -> None:
    assert check_backend("loky") == "loky"
    with pytest.raises(ParameterError, match=f"expected one of {', '.join(BACKENDS)}"):
        check_backend("carrier pigeons")
    with pytest.raises(ParameterError, match="use 'loky'"):
        check_backend("multiprocessing")


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_backend_that_is_not_installed_names_the_line_that_adds_it(
    monkeypatch: pytest.MonkeyPatch, backend: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependency, match=rf"pip install 'afnb\[{backend}\]'"):
        check_backend(backend)


@pytest.mark.parametrize("value", [0, -2, True, 1.5, "4"])
def test_numbers_of_workers(value: Any) -> None:
    with pytest.raises(ParameterError, match="n_jobs"):
        check_jobs(value)
    assert check_jobs(-1) >= 1
