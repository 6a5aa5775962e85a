"""The folds and the budgets beyond the reference's vectors."""

from __future__ import annotations

from typing import Any

import pytest

from afnb.core import events as ev
from afnb.core import shape
from afnb.core.budgets import (
    BudgetExtensions,
    BudgetObservations,
    Budgets,
    Crossing,
    Pricing,
    RunBudgets,
    budget_extensions,
    budget_observations,
    check_extension,
)
from afnb.core.graph import derive_graph_projection
from afnb.core.instants import Instant
from afnb.core.state import derive_state
from afnb.errors import ParameterError

RUN = "00000000-0000-4000-8000-000000000001"


def log(*events: ev.Event) -> list[ev.Envelope]:
    return [ev.Envelope(RUN, seq, Instant(0), event) for seq, event in enumerate(events)]


class Name(str):
    """Text that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, str(other))

    __hash__ = str.__hash__


def test_the_graph_fold_takes_one_step_an_event() -> None:
    def compared(nodes: int) -> int:
        Name.compared = 0
        # A name is a new object at every event, as it is when read from a file.
        entered = [ev.NodeEntered(Name(f"n{i}")) for i in range(nodes)]
        exited = [ev.NodeExited(Name(f"n{i}")) for i in range(nodes)]
        projection = derive_graph_projection(log(ev.GraphRunStarted("g", None), *entered, *exited))
        assert len(projection.nodes) == nodes
        return Name.compared

    assert compared(400) <= 3 * 2 * 400
    iterations = 3000
    starts = [ev.MapIterationStarted("m", i, f"run {i}") for i in range(iterations)]
    joins = [ev.MapIterationJoined("m", i) for i in range(iterations)]
    node = derive_graph_projection(log(ev.GraphRunStarted("g", None), *starts, *joins)).node("m")
    assert node is not None
    assert node.map is not None
    assert all(i.joined for i in node.map.iterations)


def test_a_repeated_index_joins_its_first_iteration() -> None:
    twice = (ev.FoldIterationStarted("f", 0), ev.FoldIterationStarted("f", 0), ev.FoldIterationJoined("f", 0))
    node = derive_graph_projection(log(*twice)).node("f")
    assert node is not None
    assert node.fold is not None
    assert [i.joined for i in node.fold.iterations] == [True, False]
    assert (node.fold.winner_index, node.fold.reason) == (None, None)


def test_a_node_that_nothing_names_is_not_a_skipped_one() -> None:
    projection = derive_graph_projection(log(ev.GraphRunStarted("g", None), ev.NodeSkipped("a", "no")))
    skipped = projection.node("a")
    assert skipped is not None
    assert (skipped.state, skipped.skip_reason) == ("skipped", "no")
    assert projection.node("b") is None


def test_totals_stop_at_the_widest_integer() -> None:
    most = ev.TokenUsage(ev.U32_MAX, 1)
    state = derive_state(log(*[ev.ModelCallCompleted(0, None, most)] * 3))
    assert (state.usage.input_tokens, state.usage.output_tokens) == (3 * ev.U32_MAX, 3)
    full = BudgetExtensions(steps=ev.U64_MAX - 1).plus({"extend": {"steps": 5}})
    assert full.steps == ev.U64_MAX


def test_a_state_says_what_caused_it() -> None:
    parked = ev.Suspended("approve?", {"type": "boolean"})
    state = derive_state(log(ev.RunStarted("h", None), parked, ev.NodeEntered("n")))
    assert (state.status, state.cause) == ("suspended", parked)
    resumed = derive_state(log(ev.RunStarted("h", None), parked, ev.Resumed(True)))
    assert (resumed.status, resumed.cause) == ("running", None)


@pytest.mark.parametrize(
    ("budgets", "kind", "limit", "observed"),
    [
        (RunBudgets(max_steps=3), "steps", 3.0, 3.0),
        (RunBudgets(max_tokens=30), "tokens", 30.0, 30.0),
        (RunBudgets(max_cost_usd=0.5), "cost_usd", 0.5, 0.5),
        (RunBudgets(max_wall_time_s=2.5), "wall_time", 2.5, 2.5),
        (RunBudgets(max_steps=3, max_tokens=1), "steps", 3.0, 3.0),
        (RunBudgets(max_tokens=1, max_cost_usd=0.0), "tokens", 1.0, 30.0),
        (RunBudgets(max_wall_time_s=0, max_cost_usd=0.1), "cost_usd", 0.1, 0.5),
    ],
)
def test_the_first_limit_reached_is_found_in_order(
    budgets: RunBudgets, kind: Any, limit: float, observed: float
) -> None:
    seen = BudgetObservations(steps=3, input_tokens=10, output_tokens=20, elapsed_seconds=2.5)
    pricing = Pricing(input_per_mtok=10_000.0, output_per_mtok=20_000.0)
    assert budgets.first_crossing(seen, None, pricing) == Crossing(ev.BudgetLimit(kind, limit), observed)
    assert Budgets is RunBudgets


def test_a_limit_is_reached_at_it_and_extended_by_what_resumes_grant() -> None:
    budgets = RunBudgets(max_steps=3)
    assert budgets.first_crossing(BudgetObservations(steps=2)) is None
    assert budgets.first_crossing(BudgetObservations(steps=3)) is not None
    more = BudgetExtensions(steps=2)
    assert budgets.first_crossing(BudgetObservations(steps=4), more) is None
    crossing = budgets.first_crossing(BudgetObservations(steps=5), more)
    assert crossing == Crossing(ev.BudgetLimit("steps", 5.0), 5.0)
    assert RunBudgets().first_crossing(BudgetObservations(10**6, 10**9, 10**9, 1e9)) is None


def test_only_a_resume_directly_after_a_crossing_extends() -> None:
    crossed = ev.BudgetExceeded(ev.BudgetLimit("steps", 1.0), 1.0)
    grant = ev.Resumed({"extend": {"steps": 2, "tokens": -1, "cost_usd": 1, "wall_time_seconds": 0.5}})
    assert budget_extensions(log(crossed, grant)) == BudgetExtensions(2, 0, 1.0, 0.5)
    assert budget_extensions(log(crossed, ev.NodeEntered("n"), grant)) == BudgetExtensions()
    assert budget_extensions(log(ev.Suspended("r", None), grant)) == BudgetExtensions()
    for odd in (None, 7, [], {"extend": None}, {"extend": {"steps": 1.0, "tokens": True, "cost_usd": "1"}}):
        assert budget_extensions(log(crossed, ev.Resumed(odd))) == BudgetExtensions()
    huge = ev.Resumed({"extend": {"cost_usd": 10**400, "steps": 2**64}})
    assert budget_extensions(log(crossed, huge)) == BudgetExtensions()


def test_elapsed_time_is_last_minus_first_look_at_the_clock() -> None:
    def elapsed(*ns: int) -> float:
        return budget_observations(log(*[ev.NowObserved(Instant(n)) for n in ns])).elapsed_seconds

    assert elapsed() == elapsed(5) == 0.0
    assert elapsed(0, 9, 1_500_000_000) == 1.5
    assert elapsed(2 * 10**9, 10**9) == -1.0
    assert elapsed(1, 0) == -1e-9


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (7, "is integer"),
        ({"more": 1}, "holds 'more'"),
        ({"extend": 5}, "'extend' is integer"),
        ({"extend": {"dollars": 1}}, "holds 'dollars'"),
        ({"extend": {"steps": -1}}, "extend.steps is -1"),
        ({"extend": {"tokens": 1.0}}, "extend.tokens is 1.0"),
        ({"extend": {"cost_usd": True}}, "extend.cost_usd is True"),
    ],
)
def test_an_answer_that_extends_nothing_is_refused(answer: Any, why: str) -> None:
    with pytest.raises(ParameterError, match=why):
        check_extension(answer)


def test_a_proper_answer_is_not_refused() -> None:
    check_extension({})
    check_extension({"extend": {"steps": 1, "tokens": 2, "cost_usd": 1, "wall_time_seconds": 2.5}})


def test_limits_that_make_no_sense_are_refused() -> None:
    for bad in ({"max_steps": -1}, {"max_cost_usd": float("nan")}, {"max_wall_time_s": float("inf")}):
        with pytest.raises(ParameterError):
            RunBudgets(**bad)
    with pytest.raises(ParameterError, match="pricing"):
        RunBudgets(max_cost_usd=1.0).first_crossing(BudgetObservations())


def test_an_abandon_after_a_dangling_write_must_name_it() -> None:
    write = ev.ToolCallRequested(1, "pay", 1, "write")
    head = ev.RunStarted("h", None)

    def rule(*events: ev.Event) -> str | None:
        found = shape.first_violation(log(head, *events))
        return None if found is None else found.rule

    assert rule(write, ev.RunAbandoned("gone", ev.UnresolvedWrite(1, "pay"))) is None
    for abandoned in (
        ev.RunAbandoned(),
        ev.RunAbandoned(None, ev.UnresolvedWrite(2, "pay")),
        ev.RunAbandoned(None, ev.UnresolvedWrite(1, "send")),
    ):
        assert rule(write, abandoned) == "expected_completion"
    read = ev.ToolCallRequested(1, "pay", 1, "read")
    assert rule(read, ev.RunAbandoned(None, ev.UnresolvedWrite(1, "pay"))) == "expected_completion"
    assert rule(write, ev.RunFailed("x")) == "expected_completion"


def test_a_violation_says_what_where_and_what_was_expected() -> None:
    head = ev.RunStarted("h", None)
    cases = {
        "missing_head": ("is NodeEntered, expected RunStarted or GraphRunStarted", log(ev.NodeEntered("n"))),
        "duplicate_head": ("a second RunStarted; a run starts once", log(head, head)),
        "after_terminal": ("NodeEntered after RunFailed", log(head, ev.RunFailed("x"), ev.NodeEntered("n"))),
        "uncorrelated_completion": ("no call awaits", log(head, ev.ToolCallCompleted(0, 1))),
        "intent_seq_mismatch": ("is seq 7, but it stands at seq 1", log(head, ev.ModelCallRequested(7, "m"))),
        "miscorrelated_completion": (
            "answers seq 0, but the call before it is seq 1",
            log(head, ev.ToolCallRequested(1, "t", 1, "read"), ev.ToolCallCompleted(0, 1)),
        ),
        "expected_completion": (
            "NodeEntered after ModelCallRequested (seq 1), expected its ModelCallCompleted",
            log(head, ev.ModelCallRequested(1, "m"), ev.NodeEntered("n")),
        ),
    }
    for rule, (said, broken) in cases.items():
        found = shape.first_violation(broken)
        assert found is not None
        assert (found.rule, found.index, found.run_id) == (rule, len(broken) - 1, RUN)
        assert found.level == shape.RULE[rule].level
        assert said in found.message
    late = [ev.Envelope(RUN, 4, Instant(0), ev.RunStarted("h", None))]
    found = shape.first_violation(late)
    assert found is not None
    assert (found.rule, found.seq) == ("head_not_at_zero", 4)


def test_the_cursor_refuses_for_cursor_rules_only() -> None:
    names = {rule.name for rule in shape.RULES if rule.level == "cursor" and rule.check}
    assert names == {"missing_head", "head_not_at_zero", "non_contiguous", "mixed_run_ids", "after_terminal"}
    guard_only = log(ev.RunStarted("h", None), ev.RunStarted("h", None), ev.ToolCallCompleted(0, 1))
    assert shape.cursor_refusal(guard_only) is None
    assert shape.first_violation(guard_only) is not None
