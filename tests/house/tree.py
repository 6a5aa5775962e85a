"""The package's modules as syntax trees, for the tests that hold the house's rules."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "afnb"


@dataclass(frozen=True)
class Module:
    """One module of the package."""

    name: str
    path: Path
    source: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def room(self) -> str:
        """The room it is in: ``core``, ``io``, ...; ``errors`` and the face by their own names."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else "afnb"


@functools.cache
def modules() -> tuple[Module, ...]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        source = path.read_text(encoding="utf-8")
        found.append(Module(name, path, source, ast.parse(source, str(path))))
    return tuple(found)


def imports(module: Module) -> Iterator[tuple[str, int, bool]]:
    """(module name, line, only for type checkers) of every import, in functions too."""
    typing_only = {
        id(inner)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    known = {m.name for m in modules()}
    for node in ast.walk(module.tree):
        hidden = id(node) in typing_only
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, hidden
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.name.split(".") if module.is_package else module.name.split(".")[:-1]
                base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield (whole if whole in known else base), node.lineno, hidden


def functions(module: Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Qualified name and node of every function and method."""

    def walk(node: ast.AST, above: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{above}{child.name}", child
                yield from walk(child, f"{above}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f"{above}{child.name}.")
            else:
                yield from walk(child, above)

    return walk(module.tree, "")


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its decorators and docstring."""
    body = node.body
    if ast.get_docstring(node) is not None:
        body = body[1:]
    if not body:
        return 1
    return (
        (body[0].lineno - 1 - node.lineno) * (len(body) == len(node.body))
        + (body[-1].end_lineno or 0)
        - body[0].lineno
        + 2
    )
