"""What the page on formats says of tables, rules and exactness is what the code does."""

from __future__ import annotations

import ast
import io
import re
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.eventlog import EventLog
from afnb.io.load import FORMATS
from afnb.tables.schemas import columns
from tests.io.event_lines import good_line

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")


def cells(heading: str) -> list[list[str]]:
    """The first table after a heading."""
    table = re.search(r"(?:^\|.*\n)+", PAGE.split(f" {heading}\n", 1)[1], re.MULTILINE)
    assert table is not None
    return [
        [cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table.group().splitlines()[2:]
    ]


def test_every_format_is_listed() -> None:
    listed = {row[0].split("`")[1] for row in cells("What is read and written") if row[0].startswith("`")}
    assert listed == {one.name for one in FORMATS}


def test_every_column_is_listed_with_its_meaning() -> None:
    declared = [[f"`{c.name}`", c.meaning + (f" ({c.unit})" if c.unit else "")] for c in columns("events")]
    assert cells("Columns of the table of events") == declared


def test_every_rule_that_reading_knows_is_listed_with_its_level() -> None:
    known = set()
    for path in (ROOT / "afnb" / "io").glob("event*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "problem" and len(call.args) > 1:
                level, rule = call.args[:2]
                if isinstance(level, ast.Constant) and isinstance(rule, ast.Constant):
                    known.add((rule.value, level.value))
    known |= {("unknown_kind", "error"), ("bad_payload", "error")}
    assert {(row[0].strip("`"), row[1]) for row in cells("What reading finds")} == known


def test_the_lines_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    logs = tmp_path / "logs" / "a"
    logs.mkdir(parents=True)
    (logs / "one.jsonl").write_bytes(good_line(0) + b"\n")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"afnb": afnb}
    exec(block.replace("run_id=...", "run_id=None"), names)
    assert isinstance(names["log"], EventLog)
    assert (tmp_path / "logs.parquet").is_file()


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (good_line(0).replace(b'"seq":0', b'"seq":0,"seq":0'), "bad_envelope"),
        (good_line(0).replace(b'{"value":0}', b'{"value":0,"value":0}'), "bad_payload"),
        (good_line(0, event={"kind": "Slept", "payload": {}}), "unknown_kind"),
        (good_line(0, event={"kind": "NodeEntered", "payload": {}}), "bad_payload"),
        (good_line(0, recorded_at="2016-12-31T12:00:60Z"), "bad_envelope"),
        (good_line(0, recorded_at="2026-07-09T12:00:00"), "bad_envelope"),
    ],
)
def test_what_the_page_calls_refused_is_refused(line: bytes, rule: str) -> None:
    events = afnb.read_events(io.BytesIO(line + b"\n"))
    assert events.num_rows == 0
    assert afnb.event_problems(events).column("rule").to_pylist() == [rule]


def test_a_leap_second_is_the_last_nanosecond_before_it() -> None:
    for day in ("2016-12-31", "2026-06-30"):
        lines = good_line(0, recorded_at=f"{day}T23:59:60Z") + b"\n"
        (ns,) = afnb.read_events(io.BytesIO(lines)).column("recorded_at_ns").cast("int64").to_pylist()
        assert ns % 10**9 == 999_999_999
