from __future__ import annotations

import os
from pathlib import Path

import pytest

from afnb.core.page import Page
from afnb.core.page_html import render_card
from afnb.core.page_text import render_short, render_text

from .pages import ATTRIBUTION, ODD, hostile, long_timeline

PAGES = {
    "attribution": ATTRIBUTION,
    "odd": ODD,
    "hostile": hostile("<b>$5</b> \x1b[31m\u202e"),
    "long": Page("long", None, (long_timeline(60, 0.1), long_timeline(300, 0.03), long_timeline(2000, 0.5))),
}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("face", ["txt", "html"])
def test_faces_are_as_reviewed(name: str, face: str, root: Path) -> None:
    page = PAGES[name]
    if face == "txt":
        shown = f"{render_text(page)}\n\n--- short ---\n{render_short(page)}\n"
    else:
        shown = render_card(page).replace("><", ">\n<") + "\n"
    path = root / "tests" / "snapshots" / f"page_{name}.{face}"
    if os.environ.get("AFNB_UPDATE_SNAPSHOTS"):
        path.write_text(shown, encoding="utf-8", newline="\n")
    assert shown == path.read_text(encoding="utf-8")
