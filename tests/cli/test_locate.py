"""``locate`` and ``--ledger`` end to end: an agent program, a provider on a socket, real exit statuses."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import afnb
from afnb.io.conversation import Conversation
from afnb.testing.provider import FakeProvider

Process = Callable[..., subprocess.CompletedProcess[str]]

AGENT = """
import json, os, urllib.request

base = os.environ["OPENAI_BASE_URL"]
messages = []
for ask in ("Describe the order.", "Which category is it?", "Now decide."):
    messages.append({"role": "user", "content": ask})
    body = json.dumps({"model": "m", "messages": messages}).encode()
    request = urllib.request.Request(base + "/chat/completions", body, {"content-type": "application/json"})
    messages.append(json.load(urllib.request.urlopen(request))["choices"][0]["message"])
print(messages[-1]["content"])
"""


def shop(right: float) -> Callable[[Conversation, random.Random], str]:
    """A provider that names the right category at this rate and decides by it."""

    def policy(talk: Conversation, rng: random.Random) -> str:
        if talk.turn == 0:
            return f"a headset, number {rng.randrange(10**9)}"
        if talk.turn == 1:
            return "electronics" if rng.random() < right else "accessories"
        return "paid" if talk.says("electronics") else "declined"

    return policy


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[str]]:
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    argv = [sys.executable, str(tmp_path / "agent.py")]
    with FakeProvider(shop(0.0)) as provider:
        afnb.record(afnb.Command(argv), provider.url, tmp_path / "bad.json")
    with FakeProvider(shop(1.0)) as live:
        yield ["--upstream", live.url, "--n-jobs", "2", "--success", "regex:^paid", "--", *argv]


def test_locate_finds_the_step_and_goes_on_from_its_ledger(
    runs: list[str], afnb_process: Process, tmp_path: Path
) -> None:
    options = ["--ledger", "kept", "--json"]
    done = afnb_process("locate", "bad.json", "--out", "found", *options, *runs)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["afnb"], found["kind"], found["decisive_step"]) == ("location", "drop", 1)
    names = {path.name for path in (tmp_path / "found").iterdir()}
    assert {"curve.parquet", "locations.parquet", "replays.parquet", "card.html"} <= names
    again = afnb_process("locate", "bad.json", *options, *runs)
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert told["replays_reused"] >= found["replays_used"]
    assert told["decisive_step"] == 1


def test_the_curve_and_a_spent_budget(runs: list[str], afnb_process: Process) -> None:
    done = afnb_process("locate", "bad.json", "--mode", "curve", "--replays", "3", *runs)
    assert done.returncode == 0, done.stderr
    assert "verified: drop at step 1" in done.stdout
    short = afnb_process("locate", "bad.json", "--budget-live-calls", "2", *runs)
    assert short.returncode == 1, short.stderr
    assert "2 live calls spent" in short.stdout


def test_trouble_is_one_sentence_and_status_2(runs: list[str], afnb_process: Process) -> None:
    agent = runs[runs.index("--") :]
    for argv, words in (
        (["locate", "bad.json", "--upstream", "http://127.0.0.1:9", *agent], "--success"),
        (["locate", "missing.json", *runs], "no such file"),
        (["locate", "bad.json", "--mode", "guess", *runs], "bisect"),
        (["locate", "bad.json", "--replays", "0", *runs], "at least 1"),
        (["locate", "bad.json", "--ledger", "bad.json", *runs], "is a file"),
    ):
        done = afnb_process(*argv)
        assert done.returncode == 2, (argv, done.stderr)
        assert words in done.stderr
        assert "Traceback" not in done.stderr
