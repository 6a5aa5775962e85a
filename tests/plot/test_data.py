"""What plots compute, without pictures."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afnb import diff, plot
from afnb.core.run import Run, Step
from afnb.errors import ParameterError
from afnb.plot.data import columns_of, top
from afnb.tables.build import build

ROWS = [
    {"experiment": "e", "arm": "control", "index": 0, "recovery": "not_recovered", "used": True},
    {"experiment": "e", "arm": "patch", "index": 1, "recovery": "recovered", "used": True},
    {"experiment": "e", "arm": "patch", "index": 0, "recovery": "inconclusive", "used": True},
    {"experiment": "e", "arm": "patch", "index": 2, "recovery": "recovered", "used": False},
]


def as_mapping(rows: list[dict[str, object]]) -> dict[str, list[object]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize(
    "source",
    [
        ROWS,
        tuple(ROWS),
        as_mapping(ROWS),
        pa.Table.from_pylist(ROWS),
        pd.DataFrame(ROWS),
        SimpleNamespace(replays=pa.Table.from_pylist(ROWS)),
    ],
    ids=["rows", "tuple", "mapping", "arrow", "pandas", "result"],
)
def test_every_form_of_a_table_gives_the_same_rows(source: object) -> None:
    patch, control = plot.replays_data(source)
    assert (patch.arm, control.arm) == ("patch", "control")
    assert patch.replays == ((0, "inconclusive", True), (1, "recovered", True), (2, "recovered", False))
    assert (patch.recovered, patch.conclusive, patch.inconclusive) == (1, 1, 1)
    assert (control.recovered, control.conclusive) == (0, 1)
    assert control.interval is not None


def test_the_declared_schema_has_the_columns() -> None:
    empty = build("replays", [])
    assert plot.replays_data(empty) == []
    assert plot.divergence_data(build("attributions", [])).pairs == 0
    assert plot.alignment_data(build("moves", [])).kinds == ()


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ParameterError, match="replays table has no column 'arm'; it has x"):
        plot.replays_data([{"x": 1}])
    with pytest.raises(ParameterError, match="expected a result with replays, or that table"):
        plot.replays_data(7)


def test_missing_values_are_none_whatever_the_library() -> None:
    frame = pd.DataFrame({"a": [1.0, float("nan")], "b": pd.array([1, None], dtype="Int64")})
    assert columns_of(frame, "t", ["a", "b"]) == {"a": [1.0, None], "b": [1, None]}
    assert columns_of([], "t", ["a"], ["b"]) == {"a": [], "b": []}


def test_one_experiment_can_be_picked() -> None:
    rows = [{**row, "experiment": name} for name in ("x", "y") for row in ROWS]
    assert {row.experiment for row in plot.replays_data(rows, "y")} == {"y"}
    assert plot.replays_data(rows, "z") == []


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 9)), st.integers(0, 5))
def test_top_keeps_the_commonest(counts: dict[str, int], limit: int) -> None:
    chosen, rest = top(counts, limit)
    assert len(chosen) + rest == len(counts)
    assert all(counts[a] >= counts[b] for a in chosen for b in set(counts) - set(chosen))


def run_of(*names: str) -> Run:
    return Run("r", tuple(Step(i, "tool", name, outputs=name) for i, name in enumerate(names)))


def diff_of(step: int | None, steps: int = 5, comparable: bool = True) -> SimpleNamespace:
    return SimpleNamespace(
        comparable=comparable,
        fork=None if step is None else SimpleNamespace(move=step, confidence=0.5),
        fork_step_observed=step,
        bad=run_of(*"abcdefgh"[:steps]),
        moves=(),
    )


def test_divergence_of_diffs() -> None:
    diffs = [diff_of(4), diff_of(0), diff_of(None), diff_of(2, comparable=False), diff_of(0, steps=1)]
    data = plot.divergence_data(diffs, by="tool")
    assert data.values == (1.0, 0.0, 0.0)
    assert data.groups == ("e", "a", "a")
    assert (data.converged, data.not_comparable, data.unknown, data.pairs) == (1, 1, 0, 5)
    assert plot.divergence_data(diffs, along="step").values == (4.0, 0.0, 0.0)
    assert plot.divergence_data(diffs, along="confidence").values == (0.5, 0.5, 0.5)
    assert plot.divergence_data(diff_of(4)).pairs == 1
    assert plot.divergence_data([]).pairs == 0


def test_a_fork_at_a_model_step_is_grouped_by_the_tools_it_calls() -> None:
    def run(tool: str) -> Run:
        calls = {"text": f"{tool} " * 9, "tool_calls": [{"name": tool, "arguments": {}}]}
        same = Step(0, "tool", "look_up", outputs="found")
        return Run(tool, (same, Step(1, "llm", "llm", outputs=calls)))

    found = diff(run("decline"), run("issue_a_voucher"))
    groups = {by: plot.divergence_data([found], by=by).groups for by in ("tool", "agent", "kind")}
    assert groups == {"tool": ("call of decline",), "agent": ("llm",), "kind": ("llm",)}


def test_divergence_of_tables() -> None:
    rows = [
        {"fork_step": 2, "steps": 5, "kind": "repair"},
        {"fork_step": None, "steps": 5, "kind": "not_comparable"},
        {"fork_step": None, "steps": 5, "kind": "no_candidates"},
        {"fork_step": 3, "steps": None, "kind": "repair"},
    ]
    data = plot.divergence_data(rows, by="kind")
    assert (data.values, data.groups) == ((0.5,), ("repair",))
    assert (data.converged, data.not_comparable, data.unknown) == (1, 1, 1)


def test_divergence_says_what_is_wrong() -> None:
    with pytest.raises(ParameterError, match="along is 'x'; it is one of relative, step, confidence"):
        plot.divergence_data([], along="x")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="by has 1 labels for 2 pairs"):
        plot.divergence_data([diff_of(1), diff_of(2)], by=["one"])


MOVES = [
    {"kind": "sync", "bad_step": 0, "good_step": 0, "cost": 0.0},
    {"kind": "log", "bad_step": 1, "good_step": None, "cost": 0.6},
    {"kind": "model", "bad_step": None, "good_step": 1, "cost": 0.6},
    {"kind": "sync", "bad_step": 2, "good_step": 2, "cost": 0.2},
]


def test_the_alignment_path_walks_both_runs() -> None:
    path = plot.alignment_data(MOVES)
    assert path.good == (0, 1, 1, 2, 3)
    assert path.bad == (0, 1, 2, 2, 3)
    assert path.costs is None
    objects = plot.alignment_data(SimpleNamespace(moves=[SimpleNamespace(**row) for row in MOVES]))
    assert (objects.good, objects.bad) == (path.good, path.bad)


def test_costs_behind_the_path_are_those_of_the_alignment() -> None:
    from afnb.align.cost import cost

    bad, good = run_of("a", "b", "c"), run_of("a", "x", "c")
    path = plot.alignment_data(SimpleNamespace(moves=MOVES, bad=bad, good=good, fork=SimpleNamespace(move=1)))
    assert path.costs is not None
    assert path.costs.shape == (3, 3)
    for i, b in enumerate(bad.steps):
        for j, a in enumerate(good.steps):
            assert path.costs[i, j] == cost(a, b)
    assert path.fork == 1


def test_huge_runs_have_no_cost_matrix() -> None:
    long = run_of(*("a" for _ in range(100)))
    assert plot.alignment_data(SimpleNamespace(moves=MOVES, bad=long, good=long)).costs is None


def test_evidence_starts_at_one() -> None:
    blocks = [SimpleNamespace(e_recovered=3.6, e_not_recovered=0.5)]
    result = SimpleNamespace(decision=SimpleNamespace(blocks=blocks, threshold=20.0))
    data = plot.evidence_data(result)
    assert [path.values for path in data.paths] == [(1.0, 3.6), (1.0, 0.5)]
    assert (data.threshold, data.blocks) == (20.0, 1)
    assert plot.evidence_data([]).blocks == 0
    with pytest.raises(ParameterError, match="a sequence of e-values"):
        plot.evidence_data(["x"])
    with pytest.raises(ParameterError, match="take one of its experiments_run"):
        plot.evidence_data(SimpleNamespace(experiments_run=()))


def test_evidence_of_a_real_decision() -> None:
    from afnb.causal.consensus import SequentialConsensus

    rule = SequentialConsensus()
    machine = rule.start()
    for index in range(3):
        machine.feed("patch", index, "recovered")
        machine.feed("control", index, "not_recovered")
    decision = machine.decision
    assert decision is not None
    data = plot.evidence_data(decision)
    assert data.threshold == pytest.approx(20)
    assert data.paths[0].values[-1] == pytest.approx(decision.e_recovered)
    assert data.paths[0].values[-1] >= 20


def test_recoverability_adds_rows_of_one_step() -> None:
    rows = [
        {"step": 1, "recovered": 1, "total": 4},
        {"step": 0, "recovered": 3, "total": 3},
        {"step": 1, "recovered": 1, "total": 4},
        {"step": 2, "recovered": 0, "total": 0},
    ]
    curve = plot.recoverability_data(rows)
    assert [(p.step, p.rate) for p in curve.points] == [(0, 1.0), (1, 0.25), (2, None)]


def test_absent_deltas_are_not_zero() -> None:
    with_data = SimpleNamespace(deltas=SimpleNamespace(total=SimpleNamespace(tokens=-4, latency_ms=None)))
    data = plot.deltas_data([with_data, SimpleNamespace(deltas=None)])
    assert (data.values, data.absent) == ((-4.0,), 1)
    assert plot.deltas_data(with_data, "latency_ms").absent == 1
    with pytest.raises(ParameterError, match="of is 'cost'"):
        plot.deltas_data([], "cost")  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans())), st.integers(1, 20))
def test_calibration_counts_every_case_once(cases: list[tuple[float, bool]], bins: int) -> None:
    found = plot.calibration_data(cases, bins)
    assert sum(b.total for b in found) == len(cases)
    assert sum(b.happened for b in found) == sum(h for _, h in cases)
    assert all(b.interval[0] <= b.happened / b.total <= b.interval[1] for b in found)
    assert len(found) <= bins


def test_calibration_refuses_what_is_no_probability() -> None:
    with pytest.raises(ParameterError, match="must lie in"):
        plot.calibration_data([(1.2, True)])
    with pytest.raises(ParameterError, match="at least 1"):
        plot.calibration_data([], 0)


def test_pairs_of_a_batch_that_were_never_compared_did_not_converge() -> None:
    rows = [
        {"fork_step": 2, "steps": 8, "kind": "repair", "state": "repair"},
        {"fork_step": None, "steps": 8, "kind": "no_candidates", "state": "untested"},
        {"fork_step": None, "steps": None, "kind": None, "state": "error"},
        {"fork_step": None, "steps": None, "kind": None, "state": "open"},
    ]
    data = plot.divergence_data(rows)
    assert (len(data.values), data.converged, data.unknown) == (1, 1, 2)
