from __future__ import annotations

from hypothesis import given

from afnb.align.aligning import align
from afnb.align.fields import FieldDiff, field_diffs
from afnb.align.moves import Move
from afnb.core.jsonvalue import MISSING, equal
from afnb.core.run import Run, Step

from .runs import runs


def one(good: object, bad: object) -> list[tuple[str, object, object, str]]:
    a, b = (Step(0, "llm", "x", outputs=value) for value in (good, bad))
    return [(d.path, d.good, d.bad, d.kind) for d in field_diffs([a], [b], [Move.sync(0, 0, 0.0)])]


def test_typed_and_recursive() -> None:
    assert one({"a": 1, "b": {"c": [1], "d": None}}, {"a": 1.0, "b": {"c": [1], "e": 2}}) == [
        ("outputs.a", 1, 1.0, "changed"),
        ("outputs.b.d", None, MISSING, "removed"),
        ("outputs.b.e", MISSING, 2, "added"),
    ]
    assert one({"x": [1, 2]}, {"x": [1, 3]}) == [("outputs.x", [1, 2], [1, 3], "changed")]
    assert one({"x": {}}, {"x": []}) == [("outputs.x", {}, [], "changed")]
    assert one(True, 1) == [("outputs", True, 1, "changed")]
    assert one(0.0, -0.0) == []
    assert one({"b": 1, "a": 2}, {"a": 2, "b": 1}) == []
    assert one("same", "same") == []


def test_keys_stay_as_they_are_and_are_sorted_by_code_point() -> None:
    found = one({"é": 1, "a.b": 1, "Z": 1}, {"é": 2, "a.b": 2, "Z": 2})
    assert [path for path, *_ in found] == ["outputs.Z", "outputs.a.b", "outputs.é"]


def test_a_slot_of_one_side() -> None:
    a = Step(0, "llm", "x", inputs={"q": 1})
    b = Step(0, "llm", "x", outputs=None)
    assert field_diffs([a], [b], [Move.sync(0, 0, 0.0)]) == (
        FieldDiff(0, "inputs", {"q": 1}, MISSING),
        FieldDiff(0, "outputs", MISSING, None),
    )


def test_only_pairs_have_field_diffs_and_they_name_the_move() -> None:
    a, b = (
        [Step(0, "llm", "x", outputs="p")],
        [Step(0, "llm", "x", outputs="q"), Step(1, "llm", "x", outputs="r")],
    )
    moves = [Move.log(0, 0.6, 1.0), Move.sync(0, 1, 0.5)]
    assert [(d.move, d.good, d.bad) for d in field_diffs(a, b, moves)] == [(1, "p", "r")]


def test_deep_values_need_no_recursion() -> None:
    good: object = 1
    bad: object = 2
    for _ in range(20_000):
        good, bad = {"k": good}, {"k": bad}
    assert one(good, bad)[0][1:3] == (1, 2)


@given(runs(), runs())
def test_no_field_diff_means_equal_values(good: Run, bad: Run) -> None:
    moves = align(good.steps, bad.steps)
    found = field_diffs(good.steps, bad.steps, moves)
    differing = {d.move for d in found}
    for index, move in enumerate(moves):
        if move.good_step is None or move.bad_step is None:
            assert index not in differing
            continue
        a, b = good.steps[move.good_step], bad.steps[move.bad_step]
        same = equal(a.inputs, b.inputs) and equal(a.outputs, b.outputs)
        assert same == (index not in differing)
    assert all(not equal(d.good, d.bad) for d in found)
