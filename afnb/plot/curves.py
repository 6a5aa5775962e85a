"""``recoverability``: how often the run still recovers once the tape has answered through step k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from afnb.causal.interval import wilson
from afnb.plot import style
from afnb.plot.data import columns_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Recovery at one step: ``step`` -1 is everything live."""

    step: int
    recovered: int
    total: int
    interval: tuple[float, float] | None

    @property
    def rate(self) -> float | None:
        """Recovered share; None where nothing conclusive was run."""
        return self.recovered / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class Curve:
    """Points in step order, the step named by the result, and its credible interval."""

    points: tuple[CurvePoint, ...]
    decisive: int | None = None
    credible: tuple[int, int] | None = None


def recoverability_data(source: Any) -> Curve:
    """Recovery counts per step.

    Parameters
    ----------
    source
        A result with ``curve`` (and perhaps ``decisive_step`` and ``credible``), or a table with columns
        ``step``, ``recovered`` and ``total``. Rows of one step are added up.

    Raises
    ------
    ParameterError
        The table lacks one of these columns.

    Examples
    --------
    >>> rows = [{"step": 0, "recovered": 9, "total": 10}, {"step": 1, "recovered": 1, "total": 10}]
    >>> [point.rate for point in recoverability_data(rows).points]
    [0.9, 0.1]
    """
    table = columns_of(source, "curve", ["step", "recovered", "total"])
    sums: dict[int, tuple[int, int]] = {}
    for step, recovered, total in zip(table["step"], table["recovered"], table["total"], strict=True):
        if step is None:
            continue
        before = sums.get(int(step), (0, 0))
        sums[int(step)] = (before[0] + int(recovered or 0), before[1] + int(total or 0))
    points = tuple(
        CurvePoint(step, got, of, wilson(min(got, of), of)) for step, (got, of) in sorted(sums.items())
    )
    credible = getattr(source, "credible", None)
    return Curve(points, getattr(source, "decisive_step", None), tuple(credible) if credible else None)


def recoverability(source: Any, ax: Axes | None = None) -> Axes:
    """Draw the recoverability curve q(k) with Wilson's 95 % intervals.

    q(k) is the rate at which the run recovers when the tape answers through step k and everything after
    it is live; it falls where the run is lost.

    Parameters
    ----------
    source
        A result of ``locate``, or a table with ``step``, ``recovered`` and ``total``.
    ax
        Axes to draw on; a new figure if None.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        ``source`` holds no such table.

    Examples
    --------
    >>> from afnb.plot.style import figure
    >>> rows = [{"step": 0, "recovered": 9, "total": 10}, {"step": 1, "recovered": 1, "total": 10}]
    >>> recoverability(rows, figure()[1]).get_title(loc="left")
    'recoverability'
    """
    curve = recoverability_data(source)
    ax = style.axes(ax)
    points = [point for point in curve.points if point.rate is not None and point.interval is not None]
    if not points:
        style.say(ax, "no conclusive replays at any step")
        return ax
    xs = [point.step for point in points]
    rates = [point.rate or 0.0 for point in points]
    edges = [point.interval or (0.0, 1.0) for point in points]
    if curve.credible is not None:
        ax.axvspan(curve.credible[0] - 0.5, curve.credible[1] + 0.5, color=style.PALE, alpha=0.6, linewidth=0)
    few = len(points) <= 150
    if curve.decisive is not None:
        _decisive(ax, curve.decisive)
    if few:
        low = [rate - edge[0] for rate, edge in zip(rates, edges, strict=True)]
        high = [edge[1] - rate for rate, edge in zip(rates, edges, strict=True)]
        away = [[max(0.0, value) for value in side] for side in (low, high)]
        ax.errorbar(xs, rates, away, fmt="none", ecolor=style.BLUE, elinewidth=2, capsize=4, zorder=2.5)
    else:
        ax.fill_between(
            xs,
            [low for low, _ in edges],
            [high for _, high in edges],
            color=style.BLUE,
            alpha=0.2,
            linewidth=0,
        )
    ax.plot(xs, rates, color=style.BLUE, linewidth=1.8, drawstyle="steps-post", alpha=0.5 if few else 1.0)
    if few:
        ax.plot(xs, rates, "o", color=style.BLUE, markersize=6, zorder=3)
    ax.set_ylim(-0.03, 1.03)
    places = [point.step for point in curve.points] + list(curve.credible or ())
    ax.set_xlim(min(places) - 0.6, max(places) + 0.6)
    style.whole_numbers(ax.xaxis)
    ax.grid(axis="y", color=style.PALE, linewidth=0.6)
    shaded = "shaded: 95 % credible interval of the step" if curve.credible is not None else ""
    live = "; -1: everything is live" if min(places) == -1 else ""
    style.titles(
        ax,
        title="recoverability",
        x=f"step k (the tape answers through it{live})",
        y="recovery rate q(k)",
        note=shaded,
    )
    return ax


def _decisive(ax: Axes, step: int) -> None:
    """A line at the step where the rate falls, behind the curve."""
    ax.axvline(step, color=style.ORANGE, linewidth=1.8, linestyle=(0, (4, 3)), zorder=1.5)
    words = ax.text(step, 1.0, f" step {step}", transform=ax.get_xaxis_transform(), va="top")
    style.dress(words, fontsize=10, color=style.ORANGE)
