"""``calibration``: whether what was said with p per cent came true in p per cent of the cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from afnb.causal.interval import wilson
from afnb.errors import ParameterError
from afnb.plot import style
from afnb.plot.data import columns_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Cases whose stated probability lies in one bin."""

    stated: float
    happened: int
    total: int
    interval: tuple[float, float]


def calibration_data(source: Any, bins: int = 10) -> list[CalibrationBin]:
    """Cases by stated probability, empty bins left out.

    Parameters
    ----------
    source
        A table with the columns ``stated`` (in [0, 1]) and ``happened`` (true or false), or pairs of them.
        Rows where either is missing are left out.
    bins
        How many equal bins.

    Raises
    ------
    ParameterError
        A stated probability outside [0, 1], bins below 1, or columns that are missing.

    Examples
    --------
    >>> [b.total for b in calibration_data([(0.9, True), (0.95, True), (0.1, False)])]
    [1, 2]
    """
    if bins < 1:
        raise ParameterError(f"bins is {bins}; it must be at least 1")
    sums: dict[int, list[tuple[float, bool]]] = {}
    for stated, happened in _cases(source):
        if not 0 <= stated <= 1:
            raise ParameterError(f"a stated probability is {stated}; it must lie in [0, 1]")
        sums.setdefault(min(int(stated * bins), bins - 1), []).append((stated, happened))
    out = []
    for _, cases in sorted(sums.items()):
        yes = sum(happened for _, happened in cases)
        mean = sum(stated for stated, _ in cases) / len(cases)
        out.append(CalibrationBin(mean, yes, len(cases), wilson(yes, len(cases)) or (0.0, 1.0)))
    return out


def _cases(source: Any) -> list[tuple[float, bool]]:
    pairs = isinstance(source, Sequence) and all(
        isinstance(row, (tuple, list)) and len(row) == 2 for row in source
    )
    if pairs:
        found = [(row[0], row[1]) for row in source]
    else:
        table = columns_of(source, "calibration", ["stated", "happened"])
        found = list(zip(table["stated"], table["happened"], strict=True))
    return [(float(p), bool(h)) for p, h in found if p is not None and h is not None]


def calibration(source: Any, ax: Axes | None = None, *, bins: int = 10) -> Axes:
    """Draw stated probabilities against how often they came true, with Wilson's 95 % intervals.

    Points on the diagonal are calibrated; above it more came true than was said.

    Parameters
    ----------
    source
        A table with ``stated`` and ``happened``, or pairs of them.
    ax
        Axes to draw on; a new figure if None.
    bins
        How many equal bins.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        See ``calibration_data``.

    Examples
    --------
    >>> from afnb.plot.style import figure
    >>> calibration([(0.9, True), (0.2, False)], figure()[1]).get_title(loc="left")
    'calibration of 2 cases'
    """
    found = calibration_data(source, bins)
    ax = style.axes(ax, (5.2, 4.8))
    if not found:
        style.say(ax, "no cases")
        return ax
    ax.plot([0, 1], [0, 1], color=style.GREY, linewidth=1.2, linestyle=(0, (4, 3)))
    xs = [b.stated for b in found]
    ax.vlines(
        xs,
        [b.interval[0] for b in found],
        [b.interval[1] for b in found],
        color=style.BLUE,
        alpha=0.45,
        linewidth=2,
    )
    ax.plot(xs, [b.happened / b.total for b in found], "o", color=style.BLUE, markersize=6)
    alike = len(found) > 1 and len({b.total for b in found}) == 1
    for b in found if len(found) <= 20 and not alike else []:
        style.dress(
            ax.annotate(
                f"{b.total:,}",
                (b.stated, b.interval[1]),
                textcoords="offset points",
                xytext=(0, 3),
                ha="center",
            ),
            fontsize=8,
            color=style.INK,
        )
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.08)
    ax.grid(color=style.PALE, linewidth=0.6)
    total = sum(b.total for b in found)
    style.titles(
        ax,
        title=f"calibration of {total:,} case{'' if total == 1 else 's'}",
        x="stated probability",
        y="share that came true",
        note=f"{found[0].total:,} cases at each point" if alike else "",
    )
    return ax
