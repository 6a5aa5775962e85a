"""Print a result: a page for people, one JSON document for machines, files for later."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afnb.core.page import Page
from afnb.core.page_html import render_html
from afnb.core.page_text import page_lines, render_text
from afnb.errors import ParameterError

if TYPE_CHECKING:
    from afnb.core.page_text import Style

STYLES: dict[Style, str] = {
    "plain": "",
    "title": "bold",
    "code": "cyan",
    "label": "bold",
    "good": "dodger_blue1",
    "bad": "dark_orange",
    "warn": "yellow",
    "quiet": "bright_black",
}

TABLES = (
    "misses",
    "moves",
    "field_diffs",
    "replays",
    "experiments",
    "attributions",
    "locations",
    "curve",
    "plans",
    "violations",
    "problems",
)


def add_output(parser: argparse.ArgumentParser, *, folder: bool = True) -> None:
    """The arguments of every command that shows a result."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document (versioned), nothing else"
    )
    if folder:
        parser.add_argument(
            "--out",
            metavar="DIR",
            help="write result.json, card.html and the tables (Parquet) into this folder, new or empty",
        )


def show(result: Any, args: argparse.Namespace) -> None:
    """Print ``result`` as asked for, after writing it to ``--out``."""
    if getattr(args, "out", None):
        save(result, Path(args.out))
    if args.json:
        print(to_json(result))
    else:
        print_page(result.page())


def to_json(result: Any) -> str:
    """The result's machine form as one line of strict JSON; numbers that JSON lacks become null."""
    return json.dumps(_finite(result.to_json()), ensure_ascii=False, allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def colourful() -> bool:
    """Whether stdout is a terminal that wants colour."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def print_page(page: Page) -> None:
    """A page on stdout: coloured in a terminal, plain text elsewhere."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 120) if sys.stdout.isatty() else 100
    if not colourful():
        print(render_text(page, width))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in page_lines(page, width):
        shown = Text()
        for piece in line:
            shown.append(piece.text, STYLES[piece.style])
        console.print(shown)


def check_output(args: argparse.Namespace) -> None:
    """Refuse an ``--out`` that cannot be written, before anything is run or paid for.

    Raises
    ------
    ParameterError
        The folder holds something already, is a file, or cannot be made.
    """
    if not getattr(args, "out", None):
        return
    folder = Path(args.out)
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"--out {folder} is a file; name a folder that is new or empty")
    if folder.is_dir() and any(folder.iterdir()):
        raise ParameterError(f"--out {folder} is not empty; name a folder that is new or empty")
    above = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise ParameterError(f"--out {folder} cannot be made in {above}; name a folder that can be written")


def save(result: Any, folder: Path) -> None:
    """Write the result's machine form, card and tables into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "result.json", to_json(result) + "\n")
    write_text(folder / "card.html", document(result.page()))
    for name, table in tables_of(result).items():
        import pyarrow.parquet as pq

        part = folder / f".{name}.part"
        pq.write_table(table, part, compression="zstd")
        part.replace(folder / f"{name}.parquet")


def tables_of(result: Any) -> dict[str, Any]:
    """The result's Arrow tables by name: those it holds, and those made of the rows it gives."""
    from afnb.tables.build import build

    found = {}
    for name in TABLES:
        table: Any = getattr(result, name, None)
        rows = getattr(result, f"{name.removesuffix('s')}_rows", None)
        if hasattr(table, "schema") and hasattr(table, "num_rows"):
            found[name] = table
        elif rows is not None:
            found[name] = build(name, rows())
    return found


def document(*pages: Page) -> str:
    """Cards as a whole HTML document that asks for nothing outside itself."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none';style-src 'unsafe-inline'\">"
        '<meta name="color-scheme" content="light dark"><title>afnb</title></head>'
        f"<body>{''.join(render_html(page) for page in pages)}</body></html>\n"
    )


def write_text(path: Path, text: str) -> None:
    """Write beside the file and rename, so that no half of it is ever seen."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8", newline="\n")
    part.replace(path)
