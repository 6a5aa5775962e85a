"""The replay benchmark in its smallest form: that it runs and that every answer it times is the right one."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def p4(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("p4_replay", root / "benchmarks" / "speed" / "p4_replay.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_measures_replays_of_a_small_recording(p4: ModuleType) -> None:
    found = p4.measure(3, 2)
    for way in ("in_process", "loopback_httpx", "loopback_http_client", "in_process_fresh_ids_first_replay"):
        assert found[way]["requests"] == 3
        assert found[way]["p50_ms"] > 0


def test_it_refuses_a_wrong_answer(p4: ModuleType) -> None:
    with pytest.raises(AssertionError, match="request 0 got another answer"):
        p4.timed(lambda body: b"wrong", [(0, b"{}")])


def test_its_bodies_grow_and_differ_in_ids_alone(p4: ModuleType) -> None:
    recorded, fresh = p4.bodies(3, "recorded"), p4.bodies(3, "fresh")
    assert len(recorded[0]) < len(recorded[1]) < len(recorded[2])
    assert [body.replace(b"call_fresh_", b"call_recorded_") for body in fresh] == recorded
