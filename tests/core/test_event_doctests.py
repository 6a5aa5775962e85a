from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "core.branch",
        "core.budgets",
        "core.cursor",
        "core.eventlog",
        "core.graph",
        "core.instants",
        "core.shape",
        "core.state",
        "core.wire",
        "core.wirekinds",
        "core.wiretext",
        "io.eventfile",
        "io.executors",
        "io.formats.eventlog",
        "io.logged",
        "testing.logs",
    ],
)
def test_the_examples_of_event_logs_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"afnb.{name}"))
    assert result.failed == 0
    assert result.attempted > 0 or name == "core.branch"
