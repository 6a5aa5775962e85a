"""The public face: lazy, complete, typed alike, documented."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import afnb

from .tree import Module, modules

HEAVY = (
    "pandas",
    "pyarrow",
    "matplotlib",
    "ipywidgets",
    "httpx",
    "httpx2",
    "joblib",
    "anywidget",
    "scipy",
    "IPython",
)
NAMES = [name for name in afnb.__all__ if name != "__version__"]


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "statement", ["import afnb", "import afnb, rich.console; dir(afnb)", "import afnb.cli"]
)
def test_importing_loads_nothing_heavy(statement: str) -> None:
    assert loaded_after(statement) & set(HEAVY) == set()


def test_building_the_command_line_loads_nothing_heavy() -> None:
    statement = "from afnb.cli.app import build_parser; build_parser()"
    assert loaded_after(statement) & {*HEAVY, "rich", "tqdm", "numpy", "orjson", "msgspec"} == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(afnb, name) is not None


def test_type_checkers_see_the_same_names() -> None:
    face = next(m for m in modules() if m.name == "afnb")
    block = next(n for n in face.tree.body if isinstance(n, ast.If))
    typed = {
        alias.asname or alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == set(NAMES)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'atribute'"):
        _ = afnb.atribute


def is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


@pytest.mark.parametrize("name", NAMES)
def test_public_names_are_documented(name: str) -> None:
    value = getattr(afnb, name)
    text = inspect.getdoc(value) or ""
    assert text.strip(), "no docstring"
    if inspect.ismodule(value) or is_exception(value):
        return
    if inspect.isfunction(value):
        taken = [p for p in inspect.signature(value).parameters if p not in ("self", "cls")]
        for section in ["Parameters", "Returns", "Examples"]:
            assert f"{section}\n---" in text or (section == "Parameters" and not taken), (
                f"no section {section}"
            )
        missing = [
            p
            for p in taken
            if not any(p in line.replace("*", "").replace(",", " ").split() for line in text.split("\n"))
        ]
        assert missing == [], f"parameters without a word: {missing}"
    elif name not in ("Upstream",):
        assert ">>>" in text or "Parameters\n---" in text or "Attributes\n---" in text, (
            "neither example nor parameters"
        )


@pytest.mark.parametrize("module", modules(), ids=lambda m: m.name)
def test_every_module_says_what_it_is_for(module: Module) -> None:
    assert ast.get_docstring(module.tree)


@pytest.mark.parametrize("module", [m for m in modules() if ">>>" in m.source], ids=lambda m: m.name)
def test_examples_run(module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = importlib.import_module(module.name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = doctest.testmod(loaded, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0
