"""``afnb batch`` and ``afnb report`` as processes: exit statuses, gates, a report in every case."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import afnb
from afnb.io.conversation import Conversation
from afnb.testing.provider import FakeProvider

Process = Callable[..., subprocess.CompletedProcess[str]]

AGENT = """
import json, os, sys, urllib.request

base = os.environ["OPENAI_BASE_URL"]
messages = []
for ask in (f"Describe {sys.argv[1]}.", "Which category is it?", "Now decide."):
    messages.append({"role": "user", "content": ask})
    body = json.dumps({"model": "m", "messages": messages}).encode()
    request = urllib.request.Request(base + "/chat/completions", body, {"content-type": "application/json"})
    messages.append(json.load(urllib.request.urlopen(request))["choices"][0]["message"])
print(messages[-1]["content"])
"""
CATEGORY = {
    "accessories": "Headsets count as small extras, so look under accessories for their shorter window.",
    "electronics": "This one is clearly an electric device; whatever holds for electronics decides here.",
}


def shop(category: str, slow: float = 0.0) -> Callable[[Conversation, random.Random], str]:
    def policy(talk: Conversation, rng: random.Random) -> str:
        time.sleep(slow)
        if not talk.says("Which category"):
            return "It is a headset, bought on the first of the month for 129 dollars."
        if not talk.says("Now decide."):
            return CATEGORY[category]
        if talk.says("electronics"):
            return "The refund is paid: 129 dollars go back to the customer's card today."
        return "Declined, since this order left its return window five days ago; nothing more can be done."

    return policy


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("recorded")
    (root / "agent.py").write_text(AGENT, encoding="utf-8")
    for task in ("order 1", "order 2"):
        place = root / "pairs" / task.replace(" ", "-")
        place.mkdir(parents=True)
        (place / "pair.json").write_text(json.dumps({"task": task}))
        for name, category in (("bad", "accessories"), ("good", "electronics")):
            with FakeProvider(shop(category)) as provider:
                agent = afnb.Command([sys.executable, root / "agent.py", task])
                afnb.record(agent, provider.url, place / f"{name}.json")
    return root


@pytest.fixture
def pairs(recorded: Path, tmp_path: Path) -> Path:
    shutil.copytree(recorded / "pairs", tmp_path / "pairs")
    return tmp_path / "pairs"


@pytest.fixture
def tail(recorded: Path) -> Iterator[list[str]]:
    with FakeProvider(shop("accessories")) as live:
        agent = ["--", sys.executable, str(recorded / "agent.py"), "{task}"]
        yield ["--upstream", live.url, "--n-jobs", "2", "--success", "regex:paid", *agent]


def test_all_pairs_decided_is_0(pairs: Path, tail: list[str], afnb_process: Process, tmp_path: Path) -> None:
    done = afnb_process("batch", "pairs", "--out", "out", "--json", *tail)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["counts"]["repair"] == 2
    assert {pair["task"] for pair in found["pairs"]} == {"order 1", "order 2"}
    assert "budget of the batch: at most 400 live calls" in done.stderr
    assert "2 verified repair" not in done.stderr
    page = (tmp_path / "out" / "report.html").read_text()
    assert "order-1" in page
    again = afnb_process("report", "out", "--out", "r.md", "--out", "r.json", "--gate", "repair>=2")
    assert again.returncode == 0, again.stderr
    assert "gate repair>=2: passed (2)" in again.stderr
    assert json.loads((tmp_path / "r.json").read_text())["afnb"] == "report"
    failed = afnb_process("report", "out", "--gate", "verified>=3")
    assert failed.returncode == 1
    assert "failed (2)" in failed.stderr


def test_a_pair_without_a_verdict_is_1(pairs: Path, tail: list[str], afnb_process: Process) -> None:
    shutil.copy(pairs / "order-2" / "good.json", pairs / "order-2" / "bad.json")
    done = afnb_process("batch", "pairs", "--out", "out", *tail)
    assert done.returncode == 1, done.stderr
    assert "1 of 2 pairs have no verdict" in done.stderr
    passed = afnb_process("batch", "pairs", "--out", "out", "--gate", "verified>=50%", *tail)
    assert passed.returncode == 0, passed.stderr


def test_an_unreadable_file_is_2_and_the_others_are_done(
    pairs: Path, tail: list[str], afnb_process: Process, tmp_path: Path
) -> None:
    (pairs / "order-2" / "bad.json").write_text("{no json")
    done = afnb_process("batch", "pairs", "--out", "out", "--report", "night.md", *tail)
    assert done.returncode == 2, done.stderr
    assert "1 of 2 pairs could not be run" in done.stderr
    assert "Traceback" not in done.stderr
    assert "verified repair" in (tmp_path / "night.md").read_text()
    assert (tmp_path / "out" / "report.html").exists()


def test_a_spent_budget_is_3(pairs: Path, tail: list[str], afnb_process: Process, tmp_path: Path) -> None:
    done = afnb_process("batch", "pairs", "--out", "out", "--budget-live-calls", "2", *tail)
    assert done.returncode == 3, done.stderr
    assert "budget of 2 live calls spent" in done.stderr
    assert (tmp_path / "out" / "report.html").exists()
    more = afnb_process("batch", "pairs", "--out", "out", *tail)
    assert more.returncode == 0, more.stderr


def test_no_pairs_is_4(tail: list[str], afnb_process: Process, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    done = afnb_process("batch", "nothing", "--out", "out", *tail)
    assert done.returncode == 4, done.stderr
    assert "No pairs were found" in (tmp_path / "out" / "report.html").read_text()


def test_an_interrupt_is_130_and_says_how_to_go_on(pairs: Path, recorded: Path, tmp_path: Path) -> None:
    with FakeProvider(shop("accessories", slow=0.3)) as live:
        command = [sys.executable, "-m", "afnb", "batch", "pairs", "--out", "out", "--upstream", live.url]
        command += ["--success", "regex:paid", "--n-jobs", "1"]
        command += ["--", sys.executable, str(recorded / "agent.py"), "{task}"]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONUTF8": "1"},
        )
        deadline = time.monotonic() + 60
        while not live.requests and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "run the same again to go on" in err
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["batch", "none", "--out", "out", "--upstream", "http://127.0.0.1:9"], "no such manifest or folder"),
        (["batch", "pairs", "--out", "out"], "--upstream is missing"),
        (["batch", "pairs", "--out", "out", "--upstream", "http://x", "--gate", "luck>1"], "is not counted"),
        (["batch", "pairs", "--out", "out", "--upstream", "http://x", "--backend", "mail"], "backend='mail'"),
    ],
)
def test_trouble_is_one_sentence(
    pairs: Path, afnb_process: Process, arguments: list[str], words: str
) -> None:
    done = afnb_process(*arguments, "--", "python", "agent.py")
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_report_of_nothing_is_2(afnb_process: Process) -> None:
    done = afnb_process("report", "nowhere")
    assert done.returncode == 2
    assert "there is no batch here" in done.stderr
