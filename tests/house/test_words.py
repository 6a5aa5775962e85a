"""What the repository may not hold: paths of one machine, other registries, how it was made."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .tree import ROOT

TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".txt", ".json", ".ipynb", ".html", ".cfg", ".sh", ""}
SELF = "tests/house/test_words.py"

FORBIDDEN = {
    "an absolute home path": r"/(?:home|Users|root)/[a-z][\w.-]*/|\b[A-Z]:\\\\Users\\\\",
    "a path of one machine": r"(?<![\w.])/work/",
    "a private registry": r"https?://[^\s\"'<>)]*(?:artifactory|nexus|devpi|simple/|pypi\.(?!org)[a-z])",
    "how it was made": r"(?i)\b(?:subagent|co-authored-by|as an ai\b|"
    r"generated with (?:claude|chatgpt|copilot)|(?:claude|chatgpt|copilot) wrote)\b",
    "a note to oneself": r"\b(?:TODO|FIXME|XXX|HACK)\b",
    "a merge left over": r"^(?:<{7} |={7}$|>{7} )",
}


def tracked() -> list[str]:
    """Files of the repository: what git knows, else what is there."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
        )
        names = [name for name in done.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and ".git" not in p.parts]
    return [
        n
        for n in names
        if (ROOT / n).is_file() and Path(n).suffix in TEXT and n != SELF and "vectors/" not in n
    ]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what], re.MULTILINE)
    found = []
    for name in tracked():
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        found += [
            f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {m.group()}" for m in pattern.finditer(text)
        ]
    assert found == []


def test_the_patterns_find_what_they_are_for() -> None:
    planted = {
        "an absolute home path": "see /home/anna/notes.txt",
        "a path of one machine": "run /work/venv/bin/python",
        "a private registry": "https://artifactory.example.com/api/pypi/x",
        "how it was made": "Co-Authored-By: someone",
        "a note to oneself": "# TODO later",
        "a merge left over": "<<<<<<< HEAD",
    }
    for what, text in planted.items():
        assert re.search(FORBIDDEN[what], text, re.MULTILINE), what


def test_files_are_utf8_with_plain_line_ends() -> None:
    wrong = []
    for name in tracked():
        data = (ROOT / name).read_bytes()
        if b"\r\n" in data and not name.startswith(("tests/", "data/")):
            wrong.append(f"{name}: CRLF")
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            wrong.append(f"{name}: not UTF-8")
    assert wrong == []


def test_no_file_is_large() -> None:
    large = [f"{name}: {size:,}" for name in tracked() if (size := (ROOT / name).stat().st_size) > 1 << 20]
    assert large == []
