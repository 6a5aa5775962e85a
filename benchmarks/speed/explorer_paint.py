"""First paint and selection of the explorer in JupyterLab with Chromium.

    python benchmarks/speed/explorer_paint.py [--steps 5000] [--selections 25]

First paint is from the start of the cell ``afnb.explore(d)`` (the comparison is made in an earlier cell) to
the first frame of the time line and of the selected step's fields. Selection is from the key to the frame
after the fields of the newly selected step have come back from the kernel. Both are read off the page's own
clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "browser"))
import hosts

SETUP = """
import afnb, random
from afnb.core.run import Run, Step

def run(name, n, seed, own=0.06):
    draw, steps = random.Random(seed), []
    for i in range(n):
        said = "as expected" if draw.random() > own else "altogether other words than in the other run " * 3
        outputs = {"text": f"answer about item {i} " + said, "tool_calls": []}
        kind, step = ("tool", f"tool_{i % 7}") if i % 2 else ("llm", "llm")
        steps.append(Step(i, kind, step, {"q": f"item {i}"}, outputs))
    return Run(name, tuple(steps))

import ipywidgets, anywidget
d = afnb.diff(run("bad", STEPS, 1), run("good", STEPS, 2))
print("compared", len(d.moves))
"""
FRAME = """() => new Promise(done => {
  const t0 = performance.now();
  const look = () => {
    const line = document.querySelector('[data-testid=timeline]');
    const text = document.querySelector('[data-testid=detail]');
    if (line?.dataset.drawn && text) return requestAnimationFrame(() => done(performance.now() - t0));
    requestAnimationFrame(look);
  };
  look();
})"""
SELECT = """key => new Promise(done => {
  const line = document.querySelector('[data-testid=timeline]');
  const text = () => document.querySelector('[data-testid=detail]')?.textContent;
  const before = text(), drawn = line.dataset.drawn, t0 = performance.now();
  const look = () => {
    if (text() !== before && line.dataset.drawn !== drawn)
      return requestAnimationFrame(() => done(performance.now() - t0));
    requestAnimationFrame(look);
  };
  line.focus();
  line.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  look();
})"""


def measure(steps: int, selections: int) -> dict[str, Any]:
    """Milliseconds of one explorer with so many steps."""
    with tempfile.TemporaryDirectory(prefix="afnb-paint-") as folder, hosts.browser() as chrome:
        cells = (SETUP.replace("STEPS", str(steps)), "afnb.explore(d)")
        notebook = hosts.write_notebook(Path(folder) / "paint.ipynb", *cells)
        with hosts.lab(notebook) as address:
            page = chrome.new_page(viewport={"width": 1280, "height": 1000})
            page.set_default_timeout(120_000)
            hosts.open_lab(page, address)
            page.locator(".jp-Cell").nth(0).locator(".cm-content").click()
            page.keyboard.press("Control+Enter")
            page.locator(".jp-OutputArea-output").get_by_text("compared").wait_for()
            page.locator(".jp-Cell").nth(1).locator(".cm-content").click()
            page.keyboard.press("Control+Enter")
            paint = page.evaluate(FRAME)
            keys = (["ArrowRight", "PageDown", "n", "End", "Home"] * selections)[:selections]
            times = sorted(page.evaluate(SELECT, key) for key in keys)
    return {
        "steps": steps,
        "first_paint_ms": round(paint),
        "selection_ms_median": round(statistics.median(times)),
        "selection_ms_most": round(times[-1]),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--selections", type=int, default=25)
    given = parser.parse_args()
    print(json.dumps(measure(given.steps, given.selections)))
