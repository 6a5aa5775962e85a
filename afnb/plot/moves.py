"""``alignment``: how the steps of two runs were paired, as a path through their costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from afnb.align.cost import word_cost, words
from afnb.plot import style
from afnb.plot.data import columns_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

MAX_CELLS = 3600
MAX_MARKS = 400
KINDS = ("sync", "log", "model")


@dataclass(frozen=True, slots=True)
class AlignmentPath:
    """The path and what it runs through.

    ``good`` and ``bad`` are the positions between steps before each move and after the last, so they
    have one value more than there are moves; ``costs`` (bad steps x good steps) is None for runs too
    long for it, or where only the moves are known.
    """

    good: tuple[int, ...]
    bad: tuple[int, ...]
    kinds: tuple[str, ...]
    move_costs: tuple[float, ...]
    fork: int | None
    costs: NDArray[np.float64] | None
    bad_names: tuple[str, ...] = ()
    good_names: tuple[str, ...] = ()


def alignment_data(source: Any) -> AlignmentPath:
    """The path of a diff, or of a ``moves`` table.

    Costs are worked out for runs of at most 3,600 pairs of steps, if ``source`` knows its runs.

    Parameters
    ----------
    source
        A diff, its moves, or the ``moves`` table (columns kind, bad_step, good_step, cost).

    Raises
    ------
    ParameterError
        ``source`` holds no moves.

    Examples
    --------
    >>> rows = [{"kind": "sync", "bad_step": 0, "good_step": 0, "cost": 0.0},
    ...         {"kind": "log", "bad_step": 1, "good_step": None, "cost": 0.6}]
    >>> path = alignment_data(rows)
    >>> path.good, path.bad
    ((0, 1, 1), (0, 1, 2))
    """
    names = ["kind", "bad_step", "good_step", "cost"]
    found = getattr(source, "moves", source)
    if _objects(found):
        found = [{name: getattr(move, name) for name in names} for move in found]
    table = columns_of(found, "moves", names)
    good, bad = [0], [0]
    for kind in table["kind"]:
        good.append(good[-1] + (kind != "log"))
        bad.append(bad[-1] + (kind != "model"))
    fork = getattr(getattr(source, "fork", None), "move", None)
    bad_steps, good_steps = (
        tuple(getattr(getattr(source, side, None), "steps", ())) for side in ("bad", "good")
    )
    costs = None
    if bad_steps and good_steps and len(bad_steps) * len(good_steps) <= MAX_CELLS:
        costs = _matrix(bad_steps, good_steps)
    return AlignmentPath(
        tuple(good),
        tuple(bad),
        tuple(str(kind) for kind in table["kind"]),
        tuple(float(cost or 0.0) for cost in table["cost"]),
        fork,
        costs,
        tuple(step.name for step in bad_steps),
        tuple(step.name for step in good_steps),
    )


def _objects(found: Any) -> bool:
    """Whether these are move objects, not rows."""
    return isinstance(found, Sequence) and bool(found) and all(hasattr(move, "bad_step") for move in found)


def _matrix(bad: Sequence[Any], good: Sequence[Any]) -> NDArray[np.float64]:
    """Costs, the good step as the reference, each pair of texts worked out once."""
    bad_words, good_words = [words(step) for step in bad], [words(step) for step in good]
    known: dict[tuple[tuple[str, ...], tuple[str, ...]], float] = {}
    out = np.empty((len(bad), len(good)))
    for i, b in enumerate(bad_words):
        for j, a in enumerate(good_words):
            if (a, b) not in known:
                known[a, b] = word_cost(a, b)
            out[i, j] = known[a, b]
    return out


def alignment(source: Any, ax: Axes | None = None) -> Axes:
    """Draw how the steps of two runs were paired.

    The good run goes right, the bad run down. Diagonal: paired steps; down: steps only the bad run has;
    right: steps only the good run has. Behind the path, for runs that are not too long, the cost of every
    pair of steps (dark: alike). The fork is marked.

    Parameters
    ----------
    source
        A diff, its moves, or the ``moves`` table.
    ax
        Axes to draw on; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        ``source`` holds no moves.

    Examples
    --------
    >>> from afnb.plot.style import figure
    >>> rows = [{"kind": "sync", "bad_step": 0, "good_step": 0, "cost": 0.0}]
    >>> alignment(rows, figure()[1]).get_title(loc="left")
    'alignment of 1 and 1 steps'
    """
    data = alignment_data(source)
    wide, high = data.good[-1], data.bad[-1]
    ax = style.axes(ax, (6.4, 5.4))
    if not data.kinds:
        style.say(ax, "no moves: both runs are empty")
        return ax
    if data.costs is not None:
        _heat(ax, data.costs)
    _draw_path(ax, data)
    ax.set_xlim(-0.3, max(wide, 1) + 0.3)
    ax.set_ylim(max(high, 1) + 0.3, -0.3)
    _step_axis(ax, data)
    style.titles(
        ax,
        title=f"alignment of {high:,} and {wide:,} steps",
        x="good run, step",
        y="bad run, step",
        legend=True,
    )
    style.legend(ax)
    return ax


def _heat(ax: Axes, costs: NDArray[np.float64]) -> None:
    image = ax.imshow(
        1.0 - costs,
        cmap="Greys",
        vmin=0.0,
        vmax=1.6,
        extent=(0, costs.shape[1], costs.shape[0], 0),
        interpolation="nearest",
        aspect="auto",
    )
    image.set_zorder(0)


def _draw_path(ax: Axes, data: AlignmentPath) -> None:
    looks = {
        "sync": (style.BLUE, "-", "paired"),
        "log": (style.ORANGE, "-", "only in bad"),
        "model": (style.PURPLE, (0, (2, 1.2)), "only in good"),
    }
    for kind, (colour, dash, label) in looks.items():
        xs: list[float] = []
        ys: list[float] = []
        for i, found in enumerate(data.kinds):
            if found == kind:
                xs += [data.good[i], data.good[i + 1], np.nan]
                ys += [data.bad[i], data.bad[i + 1], np.nan]
        if xs:
            ax.plot(xs, ys, color=colour, linestyle=dash, linewidth=2.6, label=label, solid_capstyle="round")
    if data.fork is not None and 0 <= data.fork < len(data.kinds):
        x = (data.good[data.fork] + data.good[data.fork + 1]) / 2
        y = (data.bad[data.fork] + data.bad[data.fork + 1]) / 2
        ax.plot(
            x,
            y,
            "D",
            color=style.ORANGE,
            markersize=10,
            markeredgecolor="white",
            label="fork",
            linestyle="none",
            zorder=5,
        )


def _step_axis(ax: Axes, data: AlignmentPath) -> None:
    """Step names in the middle of their cells for short runs, step numbers for long ones."""
    for axis, steps, labels in (
        (ax.xaxis, data.good[-1], data.good_names),
        (ax.yaxis, data.bad[-1], data.bad_names),
    ):
        upright = axis is ax.yaxis
        if steps <= 24:
            room = 18 if upright else 14
            shown = [
                f"{i} {style.literal(labels[i], room)}" if i < len(labels) else str(i) for i in range(steps)
            ]
            axis.set_ticks([i + 0.5 for i in range(steps)], shown)
            for text in axis.get_ticklabels():
                style.dress(text, color=style.INK, fontsize=9)
                if not upright and labels:
                    text.set(rotation=40, ha="right", rotation_mode="anchor")
        else:
            style.whole_numbers(axis)
