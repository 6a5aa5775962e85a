"""One look for all plots: palette, axes, literal labels. matplotlib is imported when a plot is drawn.

Colours are those of Okabe and Ito, safe for colour-blind readers; every series also differs by mark,
dash or place, so that a plot stays readable in grey.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from afnb.core.legible import middle, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE = "#0072B2"
ORANGE = "#D55E00"
GREY = "#8a9199"
PURPLE = "#AA4499"
INK = "#20262d"
PALE = "#d5dae0"

LABEL = 44
SIZE = (7.2, 4.0)
_FAMILIES = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Micro Hei",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Noto Emoji",
    "Symbola",
    "Arial Unicode MS",
)


def figure(size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    """A figure of our own and its axes, without pyplot: nothing is left behind when it goes.

    Examples
    --------
    >>> fig, ax = figure()
    >>> ax.figure is fig
    True
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=size, layout=_layout())
    FigureCanvasAgg(fig)
    return fig, fig.add_subplot()


def _layout() -> Any:
    """Constrained, with room at the edges: bold titles are a little larger than they are measured."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)


def axes(ax: Axes | None, size: tuple[float, float] = SIZE) -> Axes:
    """``ax`` dressed in the shared style, or that of a new pyplot figure, which a notebook then shows."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=size, layout=_layout())
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GREY)
    ax.tick_params(colors=INK, labelsize=10, length=3, color=GREY)
    ax.set_axisbelow(True)
    return ax


@functools.cache
def _fonts() -> tuple[tuple[str, ...], tuple[Any, ...]]:
    from matplotlib import font_manager

    there = set(font_manager.get_font_names())
    families = tuple(name for name in _FAMILIES if name in there)
    fonts = tuple(font_manager.get_font(font_manager.findfont(name)) for name in families)
    return families, fonts


@functools.lru_cache(maxsize=65536)
def _drawable(char: str) -> bool:
    _, fonts = _fonts()
    return not fonts or char.isspace() or any(font.get_char_index(ord(char)) for font in fonts)


def literal(text: object, width: int = LABEL) -> str:
    """``text`` as one short line that the fonts at hand can draw.

    Signs that no font has are spelled as ``U+9000``, so that nothing is lost and nothing warns.
    """
    line = middle(one_line(text, 400), width)
    return middle("".join(c if _drawable(c) else f"‹U+{ord(c):04X}›" for c in line), max(width, 12))


def dress(text: Any, **properties: Any) -> Any:
    """Draw a matplotlib text as it is spelled: no mathtext, no TeX, fonts that have its signs."""
    families, _ = _fonts()
    text.set_parse_math(False)
    text.set_usetex(False)
    if families:
        text.set_fontfamily(list(families))
    text.set(**properties)
    return text


def titles(
    ax: Axes, *, title: str = "", x: str = "", y: str = "", note: str = "", legend: bool = False
) -> None:
    """Title (left) and axis labels, literally; ``note`` says below ``x`` what the plot leaves out.

    With ``legend`` the title leaves room for one line of legend below it.
    """
    if title:
        drawn = ax.set_title(literal(title, 90), loc="left", pad=26 if legend else 8)
        dress(drawn, fontsize=12, color=INK, fontweight="bold")
    if x:
        lines = [literal(line, 90) for line in (x, note) if line]
        dress(ax.set_xlabel("\n".join(lines)), fontsize=11, color=INK)
    if y:
        dress(ax.set_ylabel(literal(y, 90)), fontsize=11, color=INK)


def names(ax: Axes, labels: Sequence[str], *, along: str = "y") -> None:
    """Category labels at 0, 1, 2, ... literally."""
    axis = ax.yaxis if along == "y" else ax.xaxis
    axis.set_ticks(range(len(labels)), [literal(label) for label in labels])
    for text in axis.get_ticklabels():
        dress(text, color=INK)


def say(ax: Axes, words: str) -> None:
    """Words in the middle of axes that have nothing to show."""
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)
    dress(
        ax.text(0.5, 0.5, literal(words, 120), transform=ax.transAxes, ha="center", va="center"),
        fontsize=11,
        color=INK,
    )


def whole_numbers(axis: Any) -> None:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def legend(ax: Axes) -> None:
    """A frameless legend of the labelled artists in one line between title and axes."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        made = ax.legend(
            handles,
            labels,
            frameon=False,
            fontsize=10,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=len(handles),
            borderaxespad=0.3,
            borderpad=0.0,
            columnspacing=1.2,
            handletextpad=0.4,
        )
        for text in made.get_texts():
            dress(text, color=INK)
