"""Every notebook runs from a clean kernel, and is the same as its py:percent source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jupytext
import nbclient
import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))


def cells(notebook: Any) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source.strip()) for cell in notebook.cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_its_source_and_carries_no_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert cells(notebook) == cells(jupytext.read(path.with_suffix(".py")))
    assert all(not cell.get("outputs") for cell in notebook.cells)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_from_a_clean_kernel(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"], "warnings in a notebook"
    pages = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert pages
    assert not [page for page in pages if "<script" in page]
    if path.stem == "01_load_and_validate":
        words = json.dumps([outputs, pages])
        assert "10 of 52 runs are malformed" in words
        assert "divergence at seq 0" in words
        assert "Live with key" in words
    if path.stem == "00_start":
        words = json.dumps(pages)
        assert "verified: recovered" in words
        assert "verified: not recovered" in words
        assert "Unverified" in words
