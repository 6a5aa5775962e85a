"""Imports go down the floors, never sideways, and no function hides one."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from .tree import Module, imports, modules

FLOORS = {
    "errors": 0,
    "core": 1,
    "tables": 2,
    "io": 3,
    "align": 4,
    "causal": 5,
    "experiments": 6,
    "report": 7,
    "plot": 7,
    "widgets": 8,
    "cli": 8,
}
FACES = ("afnb", "__main__")
ANYTHING = ("testing",)
FORBIDDEN = {("align", "io"), ("causal", "io")}
LAZY = {
    "pandas",
    "pyarrow",
    "matplotlib",
    "ipywidgets",
    "anywidget",
    "httpx",
    "httpx2",
    "joblib",
    "rich",
    "tqdm",
}


def rooms() -> set[str]:
    return {module.room for module in modules()} - set(FACES)


def test_every_room_has_its_floor() -> None:
    assert rooms() <= {*FLOORS, *ANYTHING}


def offence(module: Module, target: str) -> str | None:
    """Why ``module`` may not import the afnb module ``target``, or None."""
    here = module.room
    there = target.split(".")[1] if "." in target else "afnb"
    if here in ANYTHING or here in FACES or here == there:
        return None
    if there in ANYTHING:
        return "afnb.testing is for users' tests; no room imports it"
    if there in FACES:
        # The face holds the version; only the top floor may call the library through it.
        return None if FLOORS[here] == 8 or target == "afnb" else "only faces go through the face"
    if FLOORS[there] == FLOORS[here]:
        return f"sideways on floor {FLOORS[here]}"
    if FLOORS[there] > FLOORS[here]:
        return "upwards"
    if (here, there) in FORBIDDEN:
        return f"{here} is pure and stands above {there} only in the drawing"
    return None


@pytest.mark.parametrize("module", modules(), ids=lambda m: m.name)
def test_imports_go_down(module: Module) -> None:
    wrong = [
        f"{module.name}:{line} imports {target}: {why}"
        for target, line, _ in imports(module)
        if target.split(".")[0] == "afnb" and (why := offence(module, target)) is not None
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "module", [m for m in modules() if m.room in ("core", "errors")], ids=lambda m: m.name
)
def test_core_is_standard_library_only(module: Module) -> None:
    foreign = {
        target
        for target, _, _ in imports(module)
        if target.split(".")[0] not in {"afnb", *sys.stdlib_module_names}
    }
    assert foreign == set()


PURE = {"core", "align", "causal"}
PURE_BUT = {
    ("afnb.causal.planning", "random"): "it simulates a rule with a generator seeded by its caller",
    ("afnb.causal.rehearsal", "random"): "it simulates replays with a generator seeded by its caller",
}
IMPURE = {
    "socket",
    "subprocess",
    "random",
    "secrets",
    "time",
    "tempfile",
    "shutil",
    "urllib.request",
    "http",
    "pathlib",
    "asyncio",
}


@pytest.mark.parametrize("module", [m for m in modules() if m.room in PURE], ids=lambda m: m.name)
def test_pure_rooms_touch_no_clock_file_or_socket(module: Module) -> None:
    found = {
        name
        for target, _, hidden in imports(module)
        if not hidden
        for name in (target, target.split(".")[0])
        if name in IMPURE
    }
    assert {name for name in found if (module.name, name) not in PURE_BUT} == set()


@pytest.mark.parametrize("module", modules(), ids=lambda m: m.name)
def test_heavy_packages_are_imported_inside_functions(module: Module) -> None:
    inside = {
        target.lineno
        for node in ast.walk(module.tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for target in ast.walk(node)
        if hasattr(target, "lineno")
    }
    eager = [
        f"{module.name}:{line} imports {target}"
        for target, line, hidden in imports(module)
        if target.split(".")[0] in LAZY and not hidden and line not in inside
    ]
    if module.room in ("widgets", "testing"):
        pytest.skip("loaded only by those who have the packages")
    assert eager == []


def test_no_cycle_among_modules() -> None:
    known = {m.name for m in modules()}
    edges = {
        m.name: {t for t, _, hidden in imports(m) if t in known and not hidden and t != m.name}
        for m in modules()
    }
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> None:
        if name in path:
            raise AssertionError(" -> ".join([*path[path.index(name) :], name]))
        if name in done:
            return
        path.append(name)
        for target in sorted(edges.get(name, ())):
            visit(target)
        path.pop()
        done.add(name)

    for name in sorted(edges):
        visit(name)


def test_the_rule_sees_an_import_inside_a_function() -> None:
    """The net is not torn: a planted offence is found."""
    source = "def f():\n    from afnb.io import serve\n"
    planted = Module("afnb.causal.planted", Path("planted.py"), source, ast.parse(source))
    targets = [target for target, _, _ in imports(planted)]
    assert [offence(planted, target) for target in targets] == [
        "causal is pure and stands above io only in the drawing"
    ]
