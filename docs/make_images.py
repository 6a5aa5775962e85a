"""Draw the pictures of README and docs from the bundled pairs: cards with Chromium, plots with matplotlib.

Run from anywhere: ``python docs/make_images.py``. Needs a ``chromium`` on the path.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import afnb
from afnb import plot
from afnb.core.page import Page
from afnb.core.page_html import render_html
from afnb.experiments.attribution import Attribution
from afnb.experiments.demo import bundled

IMAGES = Path(__file__).resolve().parent / "images"


def attribution(name: str) -> Attribution:
    """The attribution of a bundled pair."""
    pair = bundled(name)
    return afnb.attribute(
        pair.bad,
        pair.good,
        agent=pair.agent,
        upstream=pair.upstream(),
        oracle=pair.oracle,
        allow_tools=pair.tools,
        progress=False,
    )


def photograph(page: Page, out: Path, *, width: int = 860, dark: bool = False) -> None:
    """Draw a card with Chromium, two pixels to the point, cut to the card."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("make_images: chromium is not installed; on Debian: apt-get install chromium")
    ground = "#111417" if dark else "#ffffff"
    with tempfile.TemporaryDirectory() as folder:
        source, shot = Path(folder) / "card.html", Path(folder) / "card.png"
        body = f'<body data-theme="{"dark" if dark else "light"}" style="margin:8px;background:{ground}">'
        source.write_text(f"<!doctype html><meta charset=utf-8>{body}{render_html(page)}", encoding="utf-8")
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-device-scale-factor=2",
        ]
        window = [f"--window-size={width},2400", f"--screenshot={shot}", f"--user-data-dir={folder}/profile"]
        subprocess.run(
            [chromium, *options, *window, source.as_uri()], check=True, capture_output=True, timeout=120
        )
        trim(shot, out)


def trim(shot: Path, out: Path) -> None:
    """Cut the plain ground below the card, and keep 128 colours."""
    from PIL import Image, ImageChops

    picture = Image.open(shot).convert("RGB")
    wide, high = picture.size
    ground = Image.new("RGB", picture.size, picture.getpixel((0, high - 1)))
    box = ImageChops.difference(picture, ground).getbbox() or (0, 0, wide, high)
    picture.crop((0, 0, wide, min(high, box[3] + 16))).quantize(128).save(out, optimize=True)


def main() -> None:
    """Draw them all."""
    IMAGES.mkdir(exist_ok=True)
    refund = attribution("refund")
    photograph(refund.page(), IMAGES / "attribution.png")
    photograph(refund.page(), IMAGES / "attribution-dark.png", dark=True)
    for name, function, source, high in (
        ("alignment", plot.alignment, refund.diff, 4.6),
        ("replays", plot.replays, refund.confirmations[0], 2.4),
        ("evidence", plot.evidence, refund.confirmations[0], 4.0),
    ):
        figure, ax = plot.figure((7.2, high))
        function(source, ax)
        figure.savefig(IMAGES / f"{name}.png", dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main()
