"""Death by SIGKILL at every event: the log reopens, nothing completed is repeated, a write never is."""

from __future__ import annotations

import subprocess
import sys
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from afnb.core import events as ev
from afnb.core.eventlog import EventLog
from afnb.errors import NeedsReconciliation
from afnb.io.logged import record_output

SCRIPT = Path(__file__).with_name("crash_agent.py")


@pytest.fixture(scope="module")
def crash() -> ModuleType:
    spec = util.spec_from_file_location("crash_agent", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def whole(crash: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The log of the agent's run when nobody dies."""
    log = str(tmp_path_factory.mktemp("whole") / "run.jsonl")
    outcome = crash.finish(log, crash.World(log), run_id=crash.RUN_ID, input="order 7")
    assert outcome.status == "completed"
    assert len(outcome.log) == crash.EVENTS
    return Path(log).read_bytes()


def settle(crash: ModuleType, log: str, world: Any) -> Any:
    """Go on where the run died, as a person would where it needs one."""
    begin = {"input": "order 7", "run_id": crash.RUN_ID}
    left = EventLog.from_bytes(Path(log).read_bytes())
    if left.state.status != "needs_reconciliation":
        return crash.finish(log, world, **begin)
    before = world.done()
    with pytest.raises(NeedsReconciliation) as caught:
        crash.finish(log, world, **begin)
    assert (caught.value.position, caught.value.tool, caught.value.input) == (11, "pay", {"amount": 7})
    assert world.done() == before
    if "pay" not in before:
        return crash.finish(log, world, not_executed=11, **begin)
    record_output(log, "paid", clock=lambda: crash.Instant(7))
    return crash.finish(log, world, **begin)


def check_ruins(crash: ModuleType, whole: bytes, log: Path) -> bool:
    """One dead run: what is left of it, and that it ends as if it had never died."""
    way, seq, _ = log.stem.split("-")
    left = EventLog.from_bytes(log.read_bytes())
    assert len(left) == int(seq) + (0 if way == "torn" else 1)
    assert whole.startswith(left.to_bytes())
    assert left.violation() is None
    world = crash.World(str(log))
    done_before = world.done()
    completed = sum(isinstance(e.event, ev.Completion) for e in left)
    outcome = settle(crash, str(log), world)
    assert outcome.status == "completed"
    assert log.read_bytes() == whole
    calls = list(crash.CALLS.values())
    again = world.done()[len(done_before) :]
    has_landed = "pay" in done_before and left.state.status == "needs_reconciliation"
    assert again == calls[completed + has_landed :]
    assert world.done().count("pay") == 1
    return bool(left.envelopes and isinstance(left.envelopes[-1].event, ev.ToolCallRequested))


def kill_and_settle(crash: ModuleType, whole: bytes, folder: Path, rounds: int) -> int:
    command = [sys.executable, str(SCRIPT), str(folder), str(rounds)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    logs = sorted(folder.glob("*.jsonl"))
    assert len(logs) == rounds * (2 * crash.EVENTS + len(crash.CALLS))
    return sum(check_ruins(crash, whole, log) for log in logs)


def test_a_run_killed_at_any_event_goes_on_from_there(
    crash: ModuleType, whole: bytes, tmp_path: Path
) -> None:
    assert kill_and_settle(crash, whole, tmp_path, rounds=1) == 9


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_fifty_deaths_at_every_event(crash: ModuleType, whole: bytes, tmp_path: Path) -> None:
    assert kill_and_settle(crash, whole, tmp_path, rounds=50) == 450
