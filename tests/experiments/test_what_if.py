"""what_if: the same answer for any number of workers, budgets, screens, the tables."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import afnb
from afnb.errors import ParameterError
from afnb.experiments.budget import Meter
from afnb.io.simulated import SimulatedUpstream
from afnb.tables.schemas import schema, volatile

sys.path.insert(0, str(Path(__file__).parent))
from planted import agent, experiment, policy, recording, right


def stable(table: pa.Table, name: str) -> pa.Table:
    kept = [column for column in table.column_names if column not in volatile(name)]
    return table.select(kept)


@pytest.mark.parametrize(("patched", "control"), [(0.9, 0.1), (0.5, 0.5), (0.0, 0.0), (0.6, 0.3)])
def test_any_number_of_workers_gives_the_same_verdict_and_used_replays(
    patched: float, control: float
) -> None:
    bad = recording()
    found = [experiment(patched, control, 7, recording=bad, n_jobs=n) for n in (1, 4, 8)]
    assert len({(e.verdict, e.label, e.reason) for e in found}) == 1
    tables = []
    for e in found:
        rows = stable(e.replays, "replays")
        tables.append(rows.filter(rows["used"]).to_pylist())
        assert stable(e.experiments, "experiments").equals(stable(found[0].experiments, "experiments"))
        assert e.replays_spent >= e.decision.replays
    assert tables[0] == tables[1] == tables[2]
    assert len(tables[0]) == found[0].decision.replays


def test_replays_started_and_not_needed_are_counted_apart() -> None:
    e = experiment(1.0, 0.0, n_jobs=8)
    assert e.decision.replays == 6
    used = [row for row in e.replay_rows() if row["used"]]
    assert len(used) == 6
    assert e.replays_spent == len(e.results) >= 6
    assert e.live_calls_used == 6
    assert e.live_calls_spent == sum(result.report.live for result in e.results)


def test_a_spent_budget_is_a_reason() -> None:
    e = experiment(0.6, 0.3, budget=afnb.Budget(live_calls=5))
    assert (e.verdict, e.label) == ("unverified", "Unverified")
    assert "5 live calls" in e.reason
    assert e.live_calls_spent <= 5
    none = experiment(1.0, 0.0, budget=afnb.Budget(live_calls=0))
    assert none.label == "Unverified"
    assert none.live_calls_spent == 0


def test_the_default_budget_is_printed_before_anything_is_spent(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def watching(request: Any) -> str:
        asked.append(capsys.readouterr().err)
        return "right"

    afnb.what_if(
        recording(), afnb.Edit(0, "good beginning"), agent=agent, upstream=watching, oracle=right, n_jobs=1
    )
    assert "at most 200 live calls" in asked[0]


def test_who_shares_a_budget_says_it_once_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter(afnb.Budget(live_calls=100))
    for _ in range(2):
        e = afnb.what_if(
            recording(),
            afnb.Edit(0, "good beginning"),
            agent=agent,
            upstream=lambda request: "right",
            oracle=right,
            budget=meter,
            n_jobs=1,
        )
        assert e.live_calls_spent > 0
    assert meter.live_calls == 2 * e.live_calls_spent
    assert "budget" not in capsys.readouterr().err


def test_a_graft_says_how_the_good_run_is_given() -> None:
    with pytest.raises(ParameterError, match=r"Graft needs .*: good=, a recording .*--graft GOOD"):
        afnb.what_if(recording(), afnb.Graft(1), agent=agent, upstream=lambda request: "x", oracle=right)


@pytest.mark.parametrize("tail", ["tape", "good"])
def test_screens_are_never_verified(tail: Any) -> None:
    e = experiment(1.0, 0.0, tail=tail, good=recording() if tail == "good" else None)
    assert e.label == "Unverified"
    assert e.verdict == "unverified"
    assert "screen" in e.reason or e.decision.verdict == "unverified"


def test_resample_asks_the_step_again() -> None:
    e = afnb.what_if(
        recording(),
        afnb.Resample(1),
        agent=agent,
        upstream=SimulatedUpstream(policy(0.0, 1.0)),
        oracle=right,
        progress=False,
    )
    assert (e.verdict, e.label) == ("recovered", "verified")
    assert {r.report.live for r in e.results if r.role == "patch"} == {1}
    assert {r.report.live for r in e.results if r.role == "control"} == {0}


def test_tables_have_the_declared_schema_and_json_is_versioned() -> None:
    e = experiment(1.0, 0.0)
    assert e.replays.schema.equals(schema("replays"))
    assert e.experiments.schema.equals(schema("experiments"))
    assert e.replays.to_pandas().shape[0] == len(e.results)
    told = json.loads(json.dumps(e.to_json()))
    assert told["afnb"] == "experiment"
    assert told["schema_version"] == "1"
    assert told["verdict"] == "recovered"
    assert len(told["replays"]) == len(e.results)
    assert "verified: recovered" in e.to_text()
    assert "<script" not in e._repr_html_()


def test_a_deterministic_tail_is_said() -> None:
    e = afnb.what_if(
        recording(),
        afnb.Edit(0, "good beginning"),
        agent=agent,
        upstream=lambda request: "right" if b"good beginning" in request.body else "wrong",
        oracle=right,
        progress=False,
    )
    assert e.verdict == "recovered"
    assert any("deterministic tail" in warning for warning in e.warnings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"oracle": None}, "oracle"),
        ({"upstream": None}, "upstream"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"tail": "sideways"}, "sideways"),
        ({"allow_tools": "lookup"}, "allow_tools"),
        ({"agent": 3}, "agent"),
    ],
)
def test_wrong_arguments_are_one_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        experiment(1.0, 0.0, **change)


def test_a_trace_can_not_be_replayed() -> None:
    with pytest.raises(ParameterError, match="only a recording"):
        experiment(1.0, 0.0, recording=afnb.Run("trace"))


def test_unknown_step_is_said() -> None:
    with pytest.raises(ParameterError, match="has 2 steps"):
        afnb.what_if(recording(), afnb.Edit(9, "x"), agent=agent, upstream=lambda r: "x", oracle=right)


def test_a_failed_self_check_spends_nothing() -> None:
    bad = recording()
    stale = replace(bad.exchanges[1], request=replace(bad.exchanges[1].request, body=b'{"model":"other"}'))
    e = experiment(1.0, 0.0, recording=replace(bad, exchanges=(bad.exchanges[0], stale)))
    assert (e.verdict, e.label) == ("unverified", "Unverified")
    assert "self-check failed" in e.reason
    assert e.live_calls_spent == e.replays_spent == 0
