"""Pictures: any input draws, labels are literal, nothing is left behind, many categories are quick."""

from __future__ import annotations

import io
import random
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import pytest

from afnb import plot
from afnb.plot.style import figure, literal

mpl.use("Agg")

draw = random.Random(7)


def replay_rows(arms: int, each: int) -> list[dict[str, Any]]:
    words = ["recovered", "not_recovered", "inconclusive"]
    return [
        {
            "experiment": f"e{a // 2}",
            "arm": ("patch", "control")[a % 2],
            "index": i,
            "recovery": draw.choice(words),
        }
        for a in range(arms)
        for i in range(each)
    ]


def moves(count: int) -> list[dict[str, Any]]:
    return [
        {"kind": draw.choice(["sync", "log", "model"]), "bad_step": i, "good_step": i, "cost": 0.1}
        for i in range(count)
    ]


def blocks(values: list[float]) -> SimpleNamespace:
    found = [SimpleNamespace(e_recovered=v, e_not_recovered=1 / (v + 1)) for v in values]
    return SimpleNamespace(blocks=found, threshold=20.0)


NAN, INF = float("nan"), float("inf")
CASES: dict[str, tuple[Callable[..., Any], Any, dict[str, Any]]] = {
    "replays, none": (plot.replays, [], {}),
    "replays, one": (plot.replays, replay_rows(1, 1), {}),
    "replays, one arm": (plot.replays, [r for r in replay_rows(2, 9) if r["arm"] == "control"], {}),
    "replays, all inconclusive": (plot.replays, [{"arm": "patch", "recovery": "inconclusive"}] * 5, {}),
    "replays, many": (plot.replays, replay_rows(400, 70), {}),
    "divergence, none": (plot.divergence, [], {}),
    "divergence, one": (plot.divergence, [{"fork_step": 0, "steps": 1}], {}),
    "divergence, none forked": (plot.divergence, [{"fork_step": None, "steps": 9}] * 3, {}),
    "divergence, no length": (plot.divergence, [{"fork_step": 3, "steps": 0}], {}),
    "divergence, far steps": (plot.divergence, [{"fork_step": 10**6, "steps": 10**7}], {"along": "step"}),
    "alignment, none": (plot.alignment, [], {}),
    "alignment, one-sided": (
        plot.alignment,
        [{"kind": "log", "bad_step": 0, "good_step": None, "cost": None}],
        {},
    ),
    "alignment, huge": (plot.alignment, moves(20_000), {}),
    "evidence, none": (plot.evidence, blocks([]), {}),
    "evidence, zeros": (plot.evidence, blocks([0.0, 0.0]), {}),
    "evidence, odd": (plot.evidence, [NAN, INF, 0.0, 1e300], {"threshold": 20}),
    "evidence, no threshold": (plot.evidence, [2.0], {}),
    "evidence, huge": (plot.evidence, [1.01**i for i in range(3000)], {"threshold": 20}),
    "recoverability, none": (plot.recoverability, [], {}),
    "recoverability, nothing conclusive": (
        plot.recoverability,
        [{"step": 0, "recovered": 0, "total": 0}],
        {},
    ),
    "recoverability, one": (plot.recoverability, [{"step": 0, "recovered": 1, "total": 1}], {}),
    "recoverability, huge": (
        plot.recoverability,
        [{"step": i, "recovered": i % 3, "total": 3} for i in range(5000)],
        {},
    ),
    "deltas, none": (plot.deltas, [], {}),
    "deltas, all absent": (plot.deltas, [{"tokens": None}] * 4, {}),
    "deltas, zeros": (plot.deltas, [{"tokens": 0}] * 4, {}),
    "deltas, one-sided": (plot.deltas, [{"tokens": 5}, {"tokens": 50_000_000}], {}),
    "deltas, huge": (plot.deltas, [{"tokens": draw.randint(-(10**9), 10**9)} for _ in range(5000)], {}),
    "calibration, none": (plot.calibration, [], {}),
    "calibration, one": (plot.calibration, [(1.0, True)], {}),
    "calibration, many": (plot.calibration, [(draw.random(), True) for _ in range(5000)], {"bins": 100}),
}


def painted(ax: Any) -> bytes:
    out = io.BytesIO()
    ax.figure.savefig(out, format="svg")
    return out.getvalue()


@pytest.mark.parametrize("name", CASES)
def test_any_input_gives_a_figure(name: str) -> None:
    function, source, options = CASES[name]
    _, ax = figure()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(source, ax, **options) is ax
        assert len(painted(ax)) > 1000


@pytest.mark.parametrize("name", [name for name in CASES if name.endswith(("none", "absent", "forked"))])
def test_nothing_to_show_is_said_in_words(name: str) -> None:
    function, source, options = CASES[name]
    ax = function(source, figure()[1], **options)
    assert any(text.get_text() and text.get_visible() for text in ax.texts)


ODD = ["$x^2$", r"\frac{1}{2}", "_private", "a\nb", "$", "搜索 🙂", "\x1b[31mred", "%s {0}", "x" * 500, ""]


@pytest.mark.parametrize("name", ODD)
def test_labels_are_taken_literally(name: str) -> None:
    rows = [{"fork_step": i % 5, "steps": 6, "tool": name} for i in range(6)]
    cases = [
        (plot.divergence, rows, {"by": "tool"}),
        (plot.replays, [{"experiment": e, "arm": name, "recovery": "recovered"} for e in (name, "b")], {}),
    ]
    for function, source, options in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ax = function(source, figure()[1], **options)
            painted(ax)
        labels = ax.get_yticklabels()
        assert all(not label.get_parse_math() for label in labels)
        assert any(literal(name)[:6] in label.get_text() for label in labels)


def test_signs_without_a_glyph_are_spelled() -> None:
    shown = literal("ok \U0001f9ec")
    assert shown.startswith("ok ")
    assert "U+1F9EC" in shown or shown.endswith("\U0001f9ec")


def test_two_thousand_categories_make_few_marks() -> None:
    rows = [{"fork_step": i % 50, "steps": 60, "tool": f"tool {i}"} for i in range(2000)]
    ax = plot.divergence(rows, figure()[1], by="tool")
    assert len(ax.get_yticklabels()) <= 15
    assert ax.get_yticklabels()[-1].get_text() == "1,986 others (1,986)"
    many = plot.replays(
        [{"experiment": f"e{i}", "arm": "patch", "recovery": "recovered"} for i in range(2000)], figure()[1]
    )
    assert len(many.get_yticklabels()) <= 24
    assert "1,976 more arms not shown" in many.get_xlabel()


def test_drawing_on_given_axes_leaves_pyplot_alone() -> None:
    import matplotlib.pyplot as plt

    before = plt.get_fignums(), mpl.rcParams.copy()
    for _ in range(30):
        plot.replays(replay_rows(2, 3), figure()[1])
    assert (plt.get_fignums(), mpl.rcParams) == before


def test_without_axes_one_new_figure_is_made() -> None:
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    ax = plot.replays(replay_rows(2, 3))
    assert len(plt.get_fignums()) == len(before) + 1
    plt.close(ax.figure)


def test_arms_differ_by_more_than_colour() -> None:
    ax = plot.replays(
        [
            {"arm": "patch", "recovery": word, "index": i}
            for i, word in enumerate(("recovered", "not_recovered"))
        ],
        figure()[1],
    )
    shapes = {collection.get_paths()[0].vertices.tobytes() for collection in ax.collections}
    assert len(shapes) == 2


def test_the_same_input_gives_the_same_picture() -> None:
    rows = [{"fork_step": i % 5, "steps": 6, "tool": f"t{i % 3}"} for i in range(40)]
    first, second = (
        [c.get_offsets().tolist() for c in plot.divergence(rows, figure()[1], by="tool").collections]
        for _ in range(2)
    )
    assert first == second
