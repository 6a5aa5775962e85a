"""Fixtures shared by all tests."""

from __future__ import annotations

import functools
import json
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("afnb", deadline=None)  # timing never decides a test
settings.load_profile("afnb")

ROOT = Path(__file__).resolve().parent.parent
VECTORS = Path(__file__).resolve().parent / "vectors"


@functools.cache
def read_vectors(name: str) -> list[dict[str, Any]]:
    """All vectors of one file, e.g. ``read_vectors("cost")``."""
    with lzma.open(VECTORS / f"{name}.jsonl.xz", "rt", encoding="utf-8", newline="\n") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="session")
def vectors() -> Callable[[str], list[dict[str, Any]]]:
    return read_vectors


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with public logs that are not part of this repository; skips where it is not there."""
    path = Path(os.environ.get("AFNB_SHARED", ROOT.parent / "shared"))
    if not (path / "public").is_dir():
        pytest.skip("no ../shared here")
    return path


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT
