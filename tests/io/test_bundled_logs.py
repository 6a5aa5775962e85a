"""The bundled logs are what their script makes, and what they are said to be."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from afnb.core import events as ev
from afnb.core.cursor import ReplayCursor
from afnb.core.eventlog import EventLog
from afnb.core.instants import Instant
from afnb.core.shape import first_violation
from afnb.errors import NeedsReconciliation
from afnb.io.events import read_events
from afnb.io.validate_files import validate_files
from afnb.tables.events import event_log, event_problems
from afnb.tables.folds import run_states
from afnb.tables.validate import validate
from afnb.testing.logs import Step, drive


@pytest.fixture
def made(root: Path) -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("make_logs", root / "data" / "make_logs.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    contents: dict[str, str] = module.contents()
    return contents


def test_the_script_makes_the_same_files_again(made: dict[str, str], root: Path) -> None:
    for name, text in made.items():
        assert (root / "data" / "logs" / name).read_bytes() == text.encode()


def test_the_whole_log_is_well_formed_and_every_run_of_it_replays(root: Path) -> None:
    events = read_events(root / "data" / "logs" / "support.jsonl")
    report = validate(events)
    assert (report.ok, report.runs, report.problems.num_rows) == (True, 40, 0)
    states = run_states(events).to_pylist()
    assert len({row["status"] for row in states}) >= 5
    for row in states:
        log = event_log(events, row["run_id"])
        assert log.state.status == row["status"]
        assert first_violation(log) is None
        assert ReplayCursor(log.envelopes).run_id == row["run_id"]


def test_the_damaged_log_shows_each_kind_of_damage(root: Path) -> None:
    path = root / "data" / "logs" / "damaged.jsonl"
    events = read_events(path)
    report = validate(events)
    assert report.violations.equals(validate_files(path).violations)
    assert set(report.by_rule) == {"non_contiguous", "head_not_at_zero", "bad_envelope"}
    rules = event_problems(events).column("rule").to_pylist()
    assert rules.count("bad_envelope") == 2
    assert rules[-1] == "unfinished_tail"
    assert isinstance(event_log(events, events.column("run_id")[0].as_py()).envelopes[0].event, ev.RunStarted)


def script_of(log: EventLog) -> list[Step]:
    """What the agent that wrote a log does: one request for each step of it, with what was answered."""
    steps: list[Step] = []
    for envelope, after in zip(log.envelopes, [*log.envelopes[1:], None], strict=True):
        done = None if after is None else after.event
        match envelope.event:
            case ev.RunStarted(agent_def_hash=agent, input=given, labels=labels):
                steps.append(Step("begin", {"agent_def_hash": agent, "labels": labels}, given))
            case ev.NowObserved(now=now):
                steps.append(Step("now", {}, now))
            case ev.RandomObserved(value=value):
                steps.append(Step("random", {}, value))
            case ev.ModelCallRequested(request_hash=asked, request_body=body):
                reply = (done.response, done.usage) if isinstance(done, ev.ModelCallCompleted) else LATE_REPLY
                steps.append(Step("model_call", {"request_hash": asked, "request_body": body}, reply))
            case ev.ToolCallRequested() as call:
                names = ("tool", "input", "effect", "idempotency_key")
                output = done.output if isinstance(done, ev.ToolCallCompleted) else "late"
                steps.append(Step("tool_call", {name: getattr(call, name) for name in names}, output))
            case ev.Suspended(reason=reason, input_schema=schema):
                steps.append(Step("suspend", {"reason": reason, "input_schema": schema}))
            case ev.Resumed(input=given):
                steps.append(Step("await_resume", {}, given))
            case ev.BudgetExceeded(budget=budget, observed=observed):
                steps.append(Step("budget_exceeded", {"budget": budget, "observed": observed}))
            case ev.RunCompleted(output=output):
                steps.append(Step("complete_run", {"output": output}))
            case ev.RunFailed(error=error):
                steps.append(Step("fail_run", {"error": error}))
            case ev.ModelCallCompleted() | ev.ToolCallCompleted() | ev.RunAbandoned():
                pass
            case other:
                raise AssertionError(other)
    return steps


LATE_REPLY = ("late", ev.TokenUsage(0, 0))


def every_log(root: Path) -> list[EventLog]:
    events = read_events([root / "data" / "logs" / name for name in ("damaged.jsonl", "support.jsonl")])
    broken = set(validate(events).violations.column("run_id").to_pylist())
    runs = [run for run in events.column("run_id").unique().to_pylist() if run not in broken]
    return [event_log(events, run) for run in runs]


def test_from_every_boundary_of_every_bundled_log_replay_goes_on_to_the_same_log(root: Path) -> None:
    boundaries = writes = 0
    logs = every_log(root)
    assert len(logs) > 40
    for log in logs:
        script, recorded = script_of(log), log.envelopes
        if isinstance(recorded[-1].event, ev.RunAbandoned):
            recorded = recorded[:-1]  # given up from outside; no agent asks for that
        times = {e.seq: e.recorded_at for e in recorded}

        def clock(seq: int, times: dict[int, Instant] = times) -> Instant:
            return times.get(seq, Instant(0))

        whole = drive(ReplayCursor(), script, run_id=recorded[0].run_id, clock=clock)
        assert tuple(whole[: len(recorded)]) == recorded
        for n in range(len(whole) + 1):
            cursor, last = ReplayCursor(whole[:n]), whole[n - 1].event if n else None
            boundaries += 1
            if isinstance(last, ev.ToolCallRequested) and last.effect == "write":
                with pytest.raises(NeedsReconciliation):
                    drive(cursor, script)
                writes += 1
            else:
                fresh = drive(cursor, script, run_id=whole[0].run_id, clock=clock)
                assert whole[:n] + fresh == whole
    assert boundaries > 400
    assert writes > 5
