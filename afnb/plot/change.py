"""``deltas``: what failing runs took more, or less, than good ones, in time and tokens."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from afnb.core.page_layout import number
from afnb.errors import ParameterError
from afnb.plot import style
from afnb.plot.data import as_list, columns_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Quantity = Literal["tokens", "latency_ms"]
UNITS = {"tokens": "tokens", "latency_ms": "milliseconds"}


@dataclass(frozen=True, slots=True)
class DeltaValues:
    """Bad minus good per pair where both say it, and how many pairs do not."""

    values: tuple[float, ...]
    absent: int


def deltas_data(source: Any, of: Quantity = "tokens") -> DeltaValues:
    """Bad minus good of many pairs; absent data stays absent and is never zero.

    Parameters
    ----------
    source
        A diff, several, or a table with the column ``of``.
    of
        ``tokens`` or ``latency_ms``.

    Raises
    ------
    ParameterError
        ``of`` is unknown, or the table lacks it.

    Examples
    --------
    >>> deltas_data([{"tokens": 40}, {"tokens": None}])
    DeltaValues(values=(40.0,), absent=1)
    """
    if of not in UNITS:
        raise ParameterError(f"of is {of!r}; it is one of {', '.join(UNITS)}")
    listed = isinstance(source, (list, tuple)) and bool(source) and not isinstance(source[0], dict)
    if hasattr(source, "deltas") or listed:
        found = [_of_diff(item, of) for item in as_list(source)]
    else:
        found = columns_of(source, "deltas", [of])[of]
    values = tuple(float(value) for value in found if value is not None)
    return DeltaValues(values, len(found) - len(values))


def _of_diff(item: Any, of: Quantity) -> float | None:
    total = getattr(getattr(item, "deltas", None), "total", None)
    value = getattr(total, of, None)
    return None if value is None else float(value)


def deltas(source: Any, ax: Axes | None = None, *, of: Quantity = "tokens") -> Axes:
    """Draw the distribution of bad minus good, in tokens or milliseconds.

    Each pair is one point, sorted; right of zero the failing run took more. Where the values span more
    than three orders of magnitude the axis is symmetric-logarithmic.

    Parameters
    ----------
    source
        A diff, several, or a table with the column ``of``.
    ax
        Axes to draw on; a new figure if None.
    of
        ``tokens`` or ``latency_ms``.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ParameterError
        The source or ``of`` is not understood.

    Examples
    --------
    >>> from afnb.plot.style import figure
    >>> deltas([{"tokens": 40}, {"tokens": -3}], figure()[1]).get_title(loc="left")
    'tokens, bad minus good'
    """
    data = deltas_data(source, of)
    ax = style.axes(ax)
    absent = f"{data.absent:,} pair{'' if data.absent == 1 else 's'} without data" if data.absent else ""
    if not data.values:
        style.say(ax, f"no {UNITS[of]} to compare" + (f": {absent}" if absent else ""))
        return ax
    values = sorted(data.values)
    rows = range(1, len(values) + 1)
    ax.axvline(0, color=style.INK, linewidth=1)
    if len(values) <= 80:
        ax.hlines(rows, 0, values, color=style.PALE, linewidth=2)
    for more, colour, marker in ((True, style.ORANGE, "o"), (False, style.BLUE, "D")):
        chosen = [(value, row) for value, row in zip(values, rows, strict=True) if (value > 0) == more]
        if chosen:
            name = "failing run took more" if more else "as much or less"
            ax.plot(*zip(*chosen, strict=True), marker, color=colour, markersize=5, linewidth=0, label=name)
    sizes = [abs(value) for value in values if value]
    if sizes and max(sizes) / min(sizes) > 1000:
        ax.set_xscale("symlog", linthresh=max(statistics.median(sizes) / 10, 1e-9))
    style.whole_numbers(ax.yaxis)
    ax.set_ylim(0.3, len(values) + 0.7)
    middle = f"median {number(statistics.median(values))}"
    what = "tokens" if of == "tokens" else "latency"
    style.titles(
        ax,
        title=f"{what}, bad minus good",
        x=f"{UNITS[of]} ({middle})",
        y="pairs, sorted",
        note=absent,
        legend=True,
    )
    style.legend(ax)
    return ax
