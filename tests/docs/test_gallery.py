"""The gallery is what its script writes, and the code beneath each picture runs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_gallery", ROOT / "docs/make_gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_gallery"] = module
    spec.loader.exec_module(module)
    return module


gallery = loaded()


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    found: dict[str, Any] = gallery.scope()
    return found


def test_the_page_is_what_its_script_writes() -> None:
    assert (ROOT / "docs/gallery.md").read_text(encoding="utf-8") == gallery.render()


@pytest.mark.parametrize("picture", gallery.CARDS, ids=lambda picture: picture.name)
def test_the_code_of_a_card_runs(
    picture: Any, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    page = eval(picture.code, names).page()
    assert page.title


@pytest.mark.parametrize("picture", gallery.PLOTS, ids=lambda picture: picture.name)
def test_the_code_of_a_plot_runs(picture: Any, names: dict[str, Any]) -> None:
    ax = gallery.on(Figure().subplots(), picture, names)
    assert isinstance(ax, Axes)
    assert ax.get_title(loc="left")
