"""``evidence``: the e-values of an experiment, block by block, against their threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from afnb.core.page_layout import number, thin
from afnb.errors import ParameterError
from afnb.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FLOOR = 1e-6
MAX_POINTS = 1000
_BLOCKS = "blocks of replays (one patch, one control)"


@dataclass(frozen=True, slots=True)
class EvidencePath:
    """One path: its name and its value after 0, 1, 2, ... blocks (the first is always 1)."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Paths of one experiment and the value at which one of them decides."""

    paths: tuple[EvidencePath, ...]
    threshold: float | None

    @property
    def blocks(self) -> int:
        """Blocks of the longest path."""
        return max((len(path.values) - 1 for path in self.paths), default=0)


def evidence_data(source: Any, threshold: float | None = None) -> Evidence:
    """E-values after each block.

    Parameters
    ----------
    source
        A result of ``what_if`` (or its ``decision``), or a sequence of e-values.
    threshold
        1 / alpha; the result's own if None.

    Raises
    ------
    ParameterError
        ``source`` is neither.

    Examples
    --------
    >>> data = evidence_data([3.6, 13.0, 47.0], threshold=20)
    >>> data.paths[0].values, data.threshold
    ((1.0, 3.6, 13.0, 47.0), 20.0)
    """
    decision = getattr(source, "decision", source)
    blocks = getattr(decision, "blocks", None)
    if blocks is not None:
        limit = threshold if threshold is not None else getattr(decision, "threshold", None)
        up = (1.0, *(float(block.e_recovered) for block in blocks))
        down = (1.0, *(float(block.e_not_recovered) for block in blocks))
        paths = (
            EvidencePath("against: no effect", up),
            EvidencePath("against: effect of at least min_effect", down),
        )
        return Evidence(paths if blocks else (), None if limit is None else float(limit))
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        try:
            values = tuple(float(value) for value in source)
        except (TypeError, ValueError):
            raise ParameterError("evidence takes a result of what_if or a sequence of e-values") from None
        return Evidence(
            (EvidencePath("e-value", (1.0, *values)),) if values else (),
            None if threshold is None else float(threshold),
        )
    raise ParameterError(
        f"evidence takes a result of what_if or a sequence of e-values, got {type(source).__name__}"
        + ("; take one of its experiments_run" if hasattr(source, "experiments_run") else "")
    )


def evidence(source: Any, ax: Axes | None = None, *, threshold: float | None = None) -> Axes:
    """Draw an experiment's evidence against the number of blocks (a patch and a control replay each).

    The axis is logarithmic: equal steps up are equal factors of evidence. An e-value that reaches the
    threshold (1 / alpha) decides, at whatever moment one stops.

    Parameters
    ----------
    source
        A result of ``what_if``, its ``decision``, or a sequence of e-values.
    ax
        Axes to draw on; a new figure if None.
    threshold
        1 / alpha; the result's own if None.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        ``source`` is something else.

    Examples
    --------
    >>> from afnb.plot.style import figure
    >>> evidence([3.6, 13.0, 47.0], figure()[1], threshold=20).get_yscale()
    'log'
    """
    data = evidence_data(source, threshold)
    ax = style.axes(ax)
    if not data.paths:
        style.say(ax, "no block of replays yet")
        return ax
    looks = ((style.BLUE, "-", "o"), (style.ORANGE, (0, (5, 2)), "D"))
    tops = [1.0]
    for path, (colour, dash, marker) in zip(data.paths, looks, strict=False):
        points = thin(len(path.values), MAX_POINTS)
        heights = [_shown(path.values[i]) for i in points]
        tops += heights
        marks = marker if len(points) <= 60 else ""
        ax.plot(
            points,
            heights,
            color=colour,
            linestyle=dash,
            marker=marks,
            markersize=5,
            linewidth=2,
            label=path.name,
        )
    ax.set_yscale("log")
    low, high = min(tops), max(tops)
    if data.threshold is not None and data.threshold > 0:
        high = max(high, data.threshold)
        ax.axhline(data.threshold, color=style.INK, linewidth=1.3, linestyle=(0, (2, 2)))
        words = f"threshold {number(data.threshold)}"
        style.dress(
            ax.text(0.01, data.threshold, words, transform=ax.get_yaxis_transform(), va="bottom"),
            fontsize=10,
            color=style.INK,
        )
    ax.set_ylim(low / 1.6, high * 2.2)
    ax.set_xlim(-0.02 * max(data.blocks, 1), data.blocks * 1.02 + 0.1)
    style.whole_numbers(ax.xaxis)
    ax.grid(axis="y", color=style.PALE, linewidth=0.6)
    style.titles(ax, title="evidence", x=_BLOCKS, y="e-value", legend=len(data.paths) > 1)
    if len(data.paths) > 1:
        style.legend(ax)
    return ax


def _shown(value: float) -> float:
    """A height for a logarithmic axis: zero, negative and undefined values sit on its floor."""
    if math.isnan(value) or value <= FLOOR:
        return FLOOR
    return min(value, 1e12)
