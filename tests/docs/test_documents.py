"""The documents say what is there: figures, paths, names, links, tables of the house, README commands."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from afnb.cli.app import COMMANDS, build_parser, split_command
from afnb.io.load import FORMATS
from afnb.tables.schemas import DECLARED

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/decisions.md",
    "docs/formats.md",
    "docs/gallery.md",
    "docs/method.md",
    "docs/record.md",
)


@functools.cache
def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def loaded(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


figures = loaded("docs/figures_method.py")


# -- figures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", figures.FIGURES)
def test_the_method_quotes_what_its_script_prints(name: str) -> None:
    assert figures.quoted(page("docs/method.md"), name) == figures.FIGURES[name]()


def test_the_method_holds_no_table_of_another_origin() -> None:
    text = page("docs/method.md")
    for name in figures.FIGURES:
        start, end = figures.marks(name)
        text = text.replace(start + figures.quoted(text, name) + end, "")
    left = [line for line in text.split("\n") if line.startswith("|") and re.search(r"\d\.\d", line)]
    assert left == []


# -- what is named is there ------------------------------------------------------------------------

ROOMS_OF_FILES = ("afnb/", "docs/", "tests/", "data/", "notebooks/", "benchmarks/", ".ci/")


def named(name: str, pattern: str) -> set[str]:
    return set(re.findall(pattern, page(name)))


@pytest.mark.parametrize("name", PAGES)
def test_paths_that_a_page_names_exist(name: str) -> None:
    quoted = {text.split("::")[0].rstrip("/") for text in named(name, r"`([\w./*-]+)`")}
    paths = {text for text in quoted if text.startswith(ROOMS_OF_FILES) and "*" not in text}
    assert sorted(text for text in paths if not (ROOT / text).exists()) == []


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    links = {target.split("#")[0] for target in named(name, r"\]\(([^)]+)\)")}
    local = {target for target in links if target and not target.startswith(("http://", "https://"))}
    assert sorted(target for target in local if not ((ROOT / name).parent / target).exists()) == []


def found(dotted: str) -> Any:
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            value = getattr(value, part)
        return value
    raise AttributeError(dotted)


@pytest.mark.parametrize("name", PAGES)
def test_names_that_a_page_uses_exist(name: str) -> None:
    for dotted in sorted(named(name, r"`(afnb(?:\.[A-Za-z_]\w*)+)")):
        assert found(dotted) is not None, dotted


# -- the house -------------------------------------------------------------------------------------


def rows_of(text: str, heading: str) -> list[list[str]]:
    """Cells of the first table after a heading."""
    after = text.split(f"\n{heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", after, re.MULTILINE)
    assert table is not None
    lines = table.group().rstrip("\n").split("\n")
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_the_floors_are_those_that_the_house_tests_hold() -> None:
    source = ast.parse((ROOT / "tests/house/test_direction.py").read_text(encoding="utf-8"))
    floors = next(
        ast.literal_eval(node.value)
        for node in source.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FLOORS"
    )
    drawn = {}
    for number, rooms, *_ in rows_of(page("docs/architecture.md"), "## Floors"):
        drawn.update({room.strip("` "): int(number) for room in rooms.split(",")})
    assert drawn == floors


def test_formats_and_commands_are_listed_and_listed_tables_are_declared() -> None:
    text = page("docs/architecture.md")
    tables = {cells[0].strip("`") for cells in rows_of(text, "## Results and tables")}
    assert sorted(tables - set(DECLARED)) == []
    assert len(tables) > 10
    assert {cells[0].strip("`") for cells in rows_of(text, "## Formats")} == {one.name for one in FORMATS}
    listed = {cells[0].strip("`").removeprefix("afnb ") for cells in rows_of(text, "## Commands")}
    assert listed == {name.replace("_", "-") for name in COMMANDS}


def test_the_sizes_are_those_that_the_house_tests_hold() -> None:
    sizes = (ROOT / "tests/house/test_sizes.py").read_text(encoding="utf-8")
    limits = dict(re.findall(r"^(\w+_LINES) = (\d+)$", sizes, re.MULTILINE))
    text = page("docs/architecture.md")
    assert f"{limits['MODULE_LINES']} lines" in text
    assert f"{limits['FUNCTION_LINES']} lines" in text


# -- the README ------------------------------------------------------------------------------------


def code(language: str, name: str = "README.md") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = "\n".join(code("bash")).replace("\\\n", " ").split("\n")
    return [line for line in lines if line.startswith("afnb ")]


@pytest.mark.parametrize("line", commands())
def test_a_printed_command_is_understood(line: str) -> None:
    own, agent = split_command(shlex.split(line)[1:])
    args = build_parser().parse_args(own)
    assert bool(agent) == args.takes_command


def test_some_commands_are_printed() -> None:
    assert {shlex.split(line)[1] for line in commands()} >= {"record", "diff", "attribute", "what-if"}
