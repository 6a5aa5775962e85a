"""Explorers over the bundled pair; no browser and no kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import afnb
from afnb.experiments.demo import Bundled, bundled
from afnb.widgets.explorer import Explorer


@pytest.fixture
def pair() -> Bundled:
    return bundled("refund")


@pytest.fixture
def explorer(pair: Bundled) -> Callable[..., Explorer]:
    """Makes an explorer of the refund pair; what is given replaces what it would take."""

    def make(**changed: Any) -> Explorer:
        settings: dict[str, Any] = {
            "agent": pair.agent,
            "upstream": pair.upstream(),
            "oracle": pair.oracle,
            "allow_tools": pair.tools,
            "seed": 1,
        }
        return afnb.explore(pair.bad, pair.good, **{**settings, **changed})

    return make
