"""``afnb demo``: three verdicts, a report and figures, without file, key or network."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

Process = Callable[..., subprocess.CompletedProcess[str]]


def test_the_demo_shows_all_three_verdicts(afnb_process: Process, tmp_path: Path) -> None:
    done = afnb_process("demo")
    assert done.returncode == 0, done.stderr
    headings = re.findall(r"^\d\. (.*)$", done.stdout, re.MULTILINE)
    assert headings == [
        "A cause (verified: recovered)",
        "Not a cause (verified: not recovered)",
        "Undecided (Unverified)",
    ]
    said = [line for line in done.stderr.splitlines() if line.startswith("budget:")]
    assert said == [
        "budget: at most 200 live calls for each of the first two questions, "
        "at most 24 live calls for the third"
    ]
    folder = tmp_path / "afnb-demo"
    names = {path.name for path in folder.iterdir()}
    assert names == {"report.html", "result.json", "alignment.png", "evidence.png", "replays.png"}
    found = json.loads((folder / "result.json").read_text())
    assert (found["afnb"], found["schema_version"]) == ("demo", "1")
    assert [found[name]["label"] for name in ("cause", "no_cause", "undecided")] == [
        "verified",
        "verified",
        "Unverified",
    ]
    report = (folder / "report.html").read_text()
    assert report.count("<section") == 4
    assert "<script" not in report
    assert not re.search(r"(?:src|href)=", report)
