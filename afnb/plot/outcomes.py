"""``replays``: what the replays of each arm came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from afnb.causal.interval import wilson
from afnb.plot import style
from afnb.plot.data import columns_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OUTCOMES = ("recovered", "not_recovered", "inconclusive")
ARMS = {"patch": 0, "control": 1, "check": 2}
_LOOKS = {
    "recovered": ("o", style.BLUE, style.BLUE, "recovered"),
    "not_recovered": ("X", style.ORANGE, style.ORANGE, "not recovered"),
    "inconclusive": ("s", "none", style.GREY, "inconclusive"),
}
_RATE = "recovery rate of the replays used, 95 % interval (Wilson)"
MAX_EACH = 60
MAX_ROWS = 24


@dataclass(frozen=True, slots=True)
class ArmRow:
    """One arm of one experiment: its replays as (index, outcome, used), and counts of the used ones."""

    experiment: str
    arm: str
    replays: tuple[tuple[int, str, bool], ...]
    recovered: int
    conclusive: int
    inconclusive: int
    interval: tuple[float, float] | None


def replays_data(source: Any, experiment: str | None = None) -> list[ArmRow]:
    """Rows of the picture, one per experiment and arm, in order of appearance, patch before control.

    Parameters
    ----------
    source
        A result with ``replays``, or that table; columns experiment, arm, index, recovery, used.
    experiment
        Keep this experiment only.

    Examples
    --------
    >>> rows = [{"experiment": "e", "arm": "patch", "index": 0, "recovery": "recovered", "used": True}]
    >>> [(row.arm, row.recovered, row.conclusive) for row in replays_data(rows)]
    [('patch', 1, 1)]
    """
    table = columns_of(source, "replays", ["arm", "recovery"], ["experiment", "index", "used"])
    groups: dict[tuple[str, str], list[tuple[int, str, bool]]] = {}
    order: dict[str, int] = {}
    for i, (name, arm, index, outcome, used) in enumerate(
        zip(*(table[c] for c in ("experiment", "arm", "index", "recovery", "used")), strict=True)
    ):
        name = "" if name is None else str(name)
        if experiment is not None and name != experiment:
            continue
        order.setdefault(name, len(order))
        outcome = outcome if outcome in OUTCOMES else "inconclusive"
        row = (i if index is None else int(index), outcome, used is None or bool(used))
        groups.setdefault((name, str(arm)), []).append(row)
    rows = []
    for name, arm in sorted(groups, key=lambda key: (order[key[0]], ARMS.get(key[1], 9), key[1])):
        replays = tuple(sorted(groups[name, arm]))
        used_ones = [outcome for _, outcome, used in replays if used]
        recovered = used_ones.count("recovered")
        conclusive = recovered + used_ones.count("not_recovered")
        lost = used_ones.count("inconclusive")
        rows.append(ArmRow(name, arm, replays, recovered, conclusive, lost, wilson(recovered, conclusive)))
    return rows


def replays(source: Any, ax: Axes | None = None, *, experiment: str | None = None) -> Axes:
    """Draw what the replays of each arm came to.

    Up to 60 replays an arm are drawn one by one in index order (those that were run and not needed
    are pale); more, or more than 24 arms, as recovery rates with Wilson's 95 % intervals.

    Parameters
    ----------
    source
        A result of ``what_if`` or ``attribute``, or its ``replays`` table (Arrow, pandas, rows).
    ax
        Axes to draw on; a new figure if None.
    experiment
        Show this experiment only.

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
    >>> rows = [{"experiment": "e", "arm": "patch", "index": 0, "recovery": "recovered", "used": True}]
    >>> replays(rows, figure()[1]).get_title(loc="left")
    'replays per arm'
    """
    rows = replays_data(source, experiment)
    shown = rows[:MAX_ROWS]
    each = bool(rows) and len(rows) <= 12 and max(len(row.replays) for row in rows) <= MAX_EACH
    ax = style.axes(ax, (7.2, 1.6 + 0.42 * max(len(shown), 2)))
    if not rows:
        style.say(ax, "no replays" if experiment is None else f"no replays of {experiment}")
        return ax
    (_draw_each if each else _draw_rates)(ax, shown)
    several = len({row.experiment for row in rows}) > 1
    style.names(
        ax, [f"{row.experiment}: {row.arm}" if several and row.experiment else row.arm for row in shown]
    )
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    left_out = f"{len(rows) - len(shown):,} more arms not shown" if len(rows) > len(shown) else ""
    words = "replay (pale: run, and not needed)" if _unused(shown) else "replay"
    style.titles(ax, title="replays per arm", x=words if each else _RATE, note=left_out, legend=each)
    return ax


def _draw_each(ax: Axes, rows: list[ArmRow]) -> None:
    seen: set[str] = set()
    last = max(index for row in rows for index, _, _ in row.replays)
    for y, row in enumerate(rows):
        for outcome, (marker, face, edge, label) in _LOOKS.items():
            for used in (True, False):
                xs = [index for index, o, u in row.replays if o == outcome and u == used]
                if xs:
                    name = label if label not in seen and used else None
                    seen |= {label} if used else set()
                    pale = 1.0 if used else 0.3
                    ax.scatter(
                        xs,
                        [y] * len(xs),
                        s=62,
                        marker=marker,
                        facecolor=face,
                        edgecolor=edge,
                        alpha=pale,
                        label=name,
                    )
        words = f"{row.recovered} of {row.conclusive}"
        style.dress(ax.text(last + 0.9, y, words, va="center"), fontsize=10, color=style.INK)
    ax.set_xlim(-0.7, last + 0.7)
    style.whole_numbers(ax.xaxis)
    style.legend(ax)


def _unused(rows: list[ArmRow]) -> bool:
    return any(not used for row in rows for _, _, used in row.replays)


def _draw_rates(ax: Axes, rows: list[ArmRow]) -> None:
    for y, row in enumerate(rows):
        colour = style.BLUE if row.arm == "patch" else style.GREY
        if row.interval is not None:
            ax.hlines(y, *row.interval, color=colour, linewidth=2.2)
            ax.plot(
                row.recovered / row.conclusive,
                y,
                "o" if row.arm == "patch" else "D",
                color=colour,
                markersize=7,
            )
        lost = f", {row.inconclusive} inconclusive" if row.inconclusive else ""
        words = f"{row.recovered} of {row.conclusive}{lost}"
        style.dress(ax.text(1.04, y, words, va="center"), fontsize=9, color=style.INK)
    ax.set_xlim(-0.02, 1.02)
    ax.grid(axis="x", color=style.PALE, linewidth=0.6)
