"""``divergence``: where failing runs part from good ones, over many pairs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from afnb.causal.deeds import short_name
from afnb.core.page_layout import number
from afnb.core.run import Step
from afnb.errors import ParameterError
from afnb.plot import style
from afnb.plot.data import as_list, columns_of, top

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Along = Literal["relative", "step", "confidence"]
ALONG: tuple[str, ...] = ("relative", "step", "confidence")
MAX_GROUPS = 14
_WORDS = {
    "relative": "fork position, share of the failing run",
    "step": "fork position, step of the failing run",
    "confidence": "confidence of the fork",
}


@dataclass(frozen=True, slots=True)
class Divergence:
    """One value per forked pair with its group, and how many pairs have none."""

    values: tuple[float, ...]
    groups: tuple[str, ...]
    converged: int
    not_comparable: int
    unknown: int

    @property
    def pairs(self) -> int:
        """All pairs."""
        return len(self.values) + self.converged + self.not_comparable + self.unknown


def divergence_data(
    source: Any, along: Along = "relative", by: str | Sequence[str] | None = None
) -> Divergence:
    """Fork positions (or confidences) of many pairs.

    Parameters
    ----------
    source
        A diff, diffs, or a table with fork_step and steps (``attributions``), and confidence if asked for.
    along
        ``relative`` (0 first step, 1 last), ``step`` or ``confidence``.
    by
        How to group: for diffs ``"tool"`` (the forking step's tool, or the tools that its model calls),
        ``"agent"`` (the step's name) or ``"kind"``; a column's name for tables; or one label per pair.

    Raises
    ------
    ParameterError
        ``along`` is unknown, or the labels are not one per pair.
    """
    if along not in ALONG:
        raise ParameterError(f"along is {along!r}; it is one of {', '.join(ALONG)}")
    rows = _of_table(source, by) if _is_table(source) else [_of_diff(d, by) for d in as_list(source)]
    if by is not None and not isinstance(by, str):
        if len(by) != len(rows):
            raise ParameterError(f"by has {len(by)} labels for {len(rows)} pairs; give one per pair")
        rows = [{**row, "group": str(label)} for row, label in zip(rows, by, strict=True)]
    values, groups = [], []
    counts = {"converged": 0, "not_comparable": 0, "unknown": 0}
    for row in rows:
        value = _value(row, along)
        if row["state"] != "forked":
            counts[row["state"]] += 1
        elif value is None:
            counts["unknown"] += 1
        else:
            values.append(value)
            groups.append(str(row.get("group", "")))
    return Divergence(tuple(values), tuple(groups), **counts)


def _is_table(source: Any) -> bool:
    if hasattr(source, "fork") or hasattr(source, "moves"):
        return False
    if isinstance(source, Sequence) and not isinstance(source, str):
        return bool(source) and all(isinstance(row, Mapping) for row in source)
    return (
        hasattr(source, "column_names")
        or hasattr(source, "iloc")
        or isinstance(source, Mapping)
        or hasattr(source, "attributions")
    )


def _of_table(source: Any, by: str | Sequence[str] | None) -> list[dict[str, Any]]:
    extra = [by] if isinstance(by, str) else []
    table = columns_of(
        source, "attributions", ["fork_step"], ["steps", "confidence", "kind", "state", *extra]
    )
    rows = []
    for i, step in enumerate(table["fork_step"]):
        state = "forked"
        if step is None:
            state = "not_comparable" if table["kind"][i] == "not_comparable" else "converged"
            if table["state"][i] in ("error", "open"):  # a batch's pair that was never compared
                state = "unknown"
        label = table[by][i] if isinstance(by, str) else ""
        rows.append(
            {
                "state": state,
                "step": step,
                "steps": table["steps"][i],
                "confidence": table["confidence"][i],
                "group": "unknown" if label is None else label,
            }
        )
    return rows


def _of_diff(found: Any, by: str | Sequence[str] | None) -> dict[str, Any]:
    fork = getattr(found, "fork", None)
    if not getattr(found, "comparable", True):
        return {"state": "not_comparable"}
    if fork is None:
        return {"state": "converged"}
    step = getattr(found, "fork_step_observed", None)
    steps = getattr(getattr(found, "bad", None), "steps", ())
    there = steps[step] if step is not None and 0 <= step < len(steps) else None
    group = ""
    if by in ("tool", "agent", "kind") and isinstance(there, Step):
        group = {"tool": short_name(there), "agent": there.name, "kind": there.kind}[str(by)]
    elif by in ("tool", "agent", "kind"):
        group = "unknown"
    return {
        "state": "forked",
        "step": step,
        "steps": len(steps),
        "confidence": getattr(fork, "confidence", None),
        "group": group,
    }


def _value(row: Mapping[str, Any], along: Along) -> float | None:
    if along == "confidence":
        return None if row.get("confidence") is None else float(row["confidence"])
    step, steps = row.get("step"), row.get("steps")
    if step is None:
        return None
    if along == "step":
        return float(step)
    if steps is None or steps < 1:
        return None
    return min(1.0, step / (steps - 1)) if steps > 1 else 0.0


def divergence(
    source: Any,
    ax: Axes | None = None,
    *,
    along: Along = "relative",
    by: str | Sequence[str] | None = None,
) -> Axes:
    """Draw where failing runs part from good ones.

    Without ``by`` a histogram with one tick per pair; with it one row of points per group, the median
    marked, the commonest 14 groups first and the rest together.

    Parameters
    ----------
    source
        A diff, several, or a table with ``fork_step`` and ``steps``.
    ax
        Axes to draw on; a new figure if None.
    along
        ``relative`` (share of the failing run), ``step`` or ``confidence``.
    by
        ``"tool"``, ``"agent"``, ``"kind"``, a column of the table, or one label per pair.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        The source or an argument is not understood.

    Examples
    --------
    >>> from afnb.plot.style import figure
    >>> ax = divergence([{"fork_step": 3, "steps": 7}, {"fork_step": None, "steps": 7}], figure()[1])
    >>> ax.get_title(loc="left")
    'where 1 of 2 pairs fork'
    """
    data = divergence_data(source, along, by)
    grouped = by is not None and bool(data.values)
    counts: dict[str, int] = {}
    for group in data.groups:
        counts[group] = counts.get(group, 0) + 1
    chosen, rest = top(counts, MAX_GROUPS)
    rows = len(chosen) + (rest > 0)
    ax = style.axes(ax, (7.2, 1.6 + 0.34 * max(rows, 4)) if grouped else style.SIZE)
    apart = [
        f"{n:,} {word}"
        for n, word in (
            (data.converged, "converged"),
            (data.not_comparable, "not comparable"),
            (data.unknown, "without a position"),
        )
        if n
    ]
    if not data.values:
        style.say(ax, f"no forks: {', '.join(apart)}" if apart else "no pairs")
        return ax
    if grouped:
        _draw_groups(ax, data, chosen, rest)
    else:
        _draw_histogram(ax, data, along)
    if along != "step":
        ax.set_xlim(-0.03, 1.03)
    title = f"where {len(data.values):,} of {data.pairs:,} pairs fork"
    style.titles(ax, title=title, x=_WORDS[along], note=", ".join(apart))
    return ax


def _edges(data: Divergence, along: Along) -> list[float]:
    if along != "step":
        return [i / 10 for i in range(11)]
    last = int(max(data.values)) + 1
    width = max(1, -(-last // 40))
    return [i * width - 0.5 for i in range(-(-last // width) + 1)]


def _draw_histogram(ax: Axes, data: Divergence, along: Along) -> None:
    ax.hist(data.values, bins=_edges(data, along), color=style.BLUE, alpha=0.75, edgecolor="white")
    if len(data.values) <= 400:
        ax.plot(data.values, [0] * len(data.values), "|", color=style.INK, markersize=9, clip_on=False)
    middle = statistics.median(data.values)
    ax.axvline(middle, color=style.ORANGE, linewidth=1.8, linestyle=(0, (4, 3)))
    style.dress(
        ax.text(middle, 1.0, f" median {number(middle)}", transform=ax.get_xaxis_transform(), va="top"),
        fontsize=10,
        color=style.ORANGE,
    )
    style.whole_numbers(ax.yaxis)
    if along == "step":
        style.whole_numbers(ax.xaxis)
    ax.set_ylim(bottom=0)
    style.titles(ax, y="pairs")


def _draw_groups(ax: Axes, data: Divergence, chosen: list[str], rest: int) -> None:
    rows: list[tuple[str, list[float]]] = [
        (name, [v for v, g in zip(data.values, data.groups, strict=True) if g == name]) for name in chosen
    ]
    if rest:
        kept = set(chosen)
        others = [v for v, g in zip(data.values, data.groups, strict=True) if g not in kept]
        rows.append((f"{rest:,} others", others))
    for y, (_, values) in enumerate(rows):
        spread = [y + 0.22 * ((i * 0.618) % 1 - 0.5) for i in range(len(values))]
        ax.scatter(values, spread, s=26, color=style.BLUE, alpha=0.55, linewidth=0)
        ax.plot(statistics.median(values), y, "|", color=style.ORANGE, markersize=17, markeredgewidth=2.4)
    style.names(ax, [f"{literal_name} ({len(values):,})" for literal_name, values in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(axis="x", color=style.PALE, linewidth=0.6)
    ax.tick_params(axis="y", length=0)
