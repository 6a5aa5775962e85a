"""In a notebook a plot on a cell's last line shows once; a card is HTML with a short text beside it."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

CELLS = [
    "import afnb\nrows = [{'arm': 'patch', 'index': i, 'recovery': 'recovered'} for i in range(4)]",
    "afnb.plot.replays(rows)",
    "for _ in range(25):\n    figure, ax = afnb.plot.figure()\n    afnb.plot.replays(rows, ax)",
    "import matplotlib.pyplot as plt\nplt.get_fignums()",
    "run = afnb.Run('a <b>run</b>', (afnb.Step(0, 'llm', '<script>alert(1)</script>', outputs='x'),))\n"
    "afnb.diff(run, run)",
]


def test_one_image_and_no_figure_left_behind(tmp_path: Path) -> None:
    notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS])
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = [cell.outputs for cell in notebook.cells]
    images = [sum("image/png" in out.get("data", {}) for out in found) for found in outputs]
    assert images == [0, 1, 0, 0, 0]
    assert outputs[3][0].data["text/plain"] == "[]"
    assert all(out.output_type != "stream" for found in outputs for out in found)
    card = outputs[4][0].data
    assert "<script>alert" not in card["text/html"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in card["text/html"]
    assert 1 <= len(card["text/plain"].splitlines()) <= 6
    nbformat.validate(notebook)
