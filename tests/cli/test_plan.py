"""``plan``: no agent, no provider, no live call."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from afnb.experiments.demo import data_dir

Process = Callable[..., subprocess.CompletedProcess[str]]


def test_plans_of_each_kind(afnb_process: Process, tmp_path: Path) -> None:
    bad, good = (str(data_dir() / "refund" / f"{name}.json") for name in ("bad", "good"))
    for argv, what in (([], "locate"), (["--step", "4"], "what_if"), (["--against", good], "attribute")):
        done = afnb_process("plan", bad, *argv, "--json", "--price", "simulated-1=1,4")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["afnb"], told["what"]) == ("plan", what)
        assert told["scenes"][0]["dollars"] > 0
    kept = afnb_process("plan", bad, "--out", "kept")
    assert kept.returncode == 0, kept.stderr
    assert {p.name for p in (tmp_path / "kept").iterdir()} == {"result.json", "card.html", "plans.parquet"}


def test_the_pre_flight_is_part_of_it(afnb_process: Process) -> None:
    bad = str(data_dir() / "refund" / "bad.json")
    argv = ["plan", bad, "--step", "4"]
    told = afnb_process(*argv)
    assert "would run again, not allowed" in told.stdout
    assert "Nothing would be started before these tools are allowed" in told.stdout
    names = json.loads(afnb_process(*argv, "--json").stdout)["preflight"]["blocked"]
    assert names
    allowed = afnb_process(*argv, "--allow-tools", ",".join(names), "--json")
    found = json.loads(allowed.stdout)["preflight"]
    assert (found["blocked"], found["changed"]) == ([], [4])
    assert {tool["fate"] for tool in found["tools"]} == {"runs again, allowed"}


def test_a_budget_that_is_too_small_is_status_1_and_trouble_status_2(afnb_process: Process) -> None:
    bad = str(data_dir() / "refund" / "bad.json")
    short = afnb_process("plan", bad, "--budget-live-calls", "3")
    assert short.returncode == 1, short.stderr
    assert "would stop it first" in short.stdout
    for argv, words in (
        (["plan", bad, "--step", "1", "--against", bad], "not both"),
        (["plan", bad, "--patch-rate", "2"], "from 0 to 1"),
        (["plan", "missing.json"], "no such file"),
    ):
        done = afnb_process(*argv)
        assert done.returncode == 2
        assert words in done.stderr
