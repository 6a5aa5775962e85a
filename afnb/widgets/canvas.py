"""``Canvas``: the time line as one anywidget model, however many steps there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from afnb.core.page_css import STYLE
from afnb.widgets.timeline import Rows, ranges

_HERE = Path(__file__).parent


class Canvas(anywidget.AnyWidget):
    """Both runs on one time line, drawn on a canvas; ``selected`` goes both ways.

    The script is whole in itself: no bundle, no request. Texts reach it as data, never as markup.
    """

    _esm = (_HERE / "timeline.js").read_text(encoding="utf-8")
    _css = STYLE + (_HERE / "explorer.css").read_text(encoding="utf-8")
    data = traitlets.Dict().tag(sync=True)
    selected = traitlets.Int(0).tag(sync=True)
    matches: Any = traitlets.List(None, allow_none=True).tag(sync=True)
    patched: Any = traitlets.List().tag(sync=True)


def canvas_of(rows: Rows, selected: int) -> Canvas:
    """The time line of ``rows``.

    Examples
    --------
    >>> from afnb.experiments.demo import bundled
    >>> from afnb.widgets.subject import subject_of
    >>> canvas_of(Rows(subject_of(bundled("refund").bad)), 0).data["lanes"]
    ['bad']
    """
    return Canvas(data=rows.payload(), selected=selected, matches=None)


def show_matches(canvas: Canvas, rows: list[int] | None) -> None:
    """Let the rows that a search left stand out; None for all."""
    canvas.matches = None if rows is None else ranges(rows)
