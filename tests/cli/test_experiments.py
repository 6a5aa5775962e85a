"""``attribute`` and ``what-if`` end to end: an agent program, a provider on a socket, real exit statuses."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.io.conversation import Conversation
from afnb.testing.provider import FakeProvider

Process = Callable[..., subprocess.CompletedProcess[str]]

AGENT = """
import json, os, urllib.request

base = os.environ["OPENAI_BASE_URL"]
messages = []
for ask in ("Describe the order.", "What did the customer say?", "Which category is it?", "Now decide."):
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
PAID = "The refund is paid: 129 dollars go back to the customer's card today."
DECLINED = "Declined, since this order left its return window five days ago; nothing more can be done."


def shop(category: str) -> Callable[[Conversation, random.Random], str]:
    """A provider that names ``category`` first and decides by whatever was named."""

    def policy(talk: Conversation, rng: random.Random) -> str:
        if not talk.says("What did the customer say?"):
            return "Order 8841 is a headset, bought on the first of the month for 129 dollars."
        if not talk.says("Which category"):
            return "The customer says that the left ear stays silent and asks for the money back."
        if not talk.says("Now decide."):
            return CATEGORY[category]
        return PAID if talk.says("electronics") else DECLINED

    return policy


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the agent program and what it said to a bad and to a good provider."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    agent = afnb.Command([sys.executable, folder / "agent.py"])
    for name, category in (("bad", "accessories"), ("good", "electronics")):
        with FakeProvider(shop(category)) as provider:
            afnb.record(agent, provider.url, folder / f"{name}.json")
    return folder


@pytest.fixture
def runs(tmp_path: Path, recordings: Path) -> Iterator[list[str]]:
    """The recordings in the process's directory; yields the arguments that end every command."""
    for path in recordings.iterdir():
        shutil.copy(path, tmp_path)
    agent = ["--", sys.executable, str(tmp_path / "agent.py")]
    with FakeProvider(shop("accessories")) as live:
        yield ["--upstream", live.url, "--n-jobs", "2", "--success", "regex:paid", *agent]


def test_attribute_verifies_the_planted_step(runs: list[str], afnb_process: Process, tmp_path: Path) -> None:
    done = afnb_process("attribute", "bad.json", "--against", "good.json", "--json", "--out", "found", *runs)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["afnb"], found["label"], found["verdict"]) == ("attribution", "verified", "recovered")
    assert found["origination"] == [2]
    assert "budget" in done.stderr
    assert {p.name for p in (tmp_path / "found").iterdir()} == {
        "result.json",
        "card.html",
        "replays.parquet",
        "experiments.parquet",
        "attributions.parquet",
    }


def test_a_spent_budget_is_unverified_and_status_1(runs: list[str], afnb_process: Process) -> None:
    done = afnb_process("attribute", "bad.json", "--against", "good.json", "--budget-live-calls", "1", *runs)
    assert done.returncode == 1, done.stderr
    assert "[Unverified]" in done.stdout
    assert "1 live calls" in done.stdout


def what_if(afnb_process: Process, runs: list[str], *change: str) -> tuple[int, dict[str, Any]]:
    done = afnb_process("what-if", "bad.json", "--json", *change, *runs)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout or "{}")


def test_what_if_tells_a_cause_from_a_non_cause(
    runs: list[str], afnb_process: Process, tmp_path: Path
) -> None:
    (tmp_path / "right.txt").write_text(CATEGORY["electronics"])
    (tmp_path / "idle.txt").write_text("It belongs to accessories, I think.")
    status, found = what_if(afnb_process, runs, "--step", "2", "--value", "right.txt")
    assert (status, found["verdict"], found["label"]) == (0, "recovered", "verified")
    status, found = what_if(afnb_process, runs, "--step", "2", "--value", "idle.txt")
    assert (status, found["verdict"], found["label"]) == (0, "not_recovered", "verified")
    status, found = what_if(afnb_process, runs, "--step", "2", "--graft", "good.json")
    assert (status, found["verdict"]) == (0, "recovered")


def test_what_if_changes_what_is_asked(runs: list[str], afnb_process: Process, tmp_path: Path) -> None:
    (tmp_path / "hint.txt").write_text("A headset belongs to electronics.\n")
    hint = ["--step", "3", "--insert-message", "1=hint.txt"]
    status, found = what_if(afnb_process, runs, *hint)
    assert (status, found["verdict"], found["label"]) == (0, "recovered", "verified")
    status, found = what_if(afnb_process, runs, "--step", "3", "--system-prompt", "hint.txt")
    assert (status, found["verdict"], found["label"]) == (0, "not_recovered", "verified")
    status, found = what_if(afnb_process, runs, "--step", "3", "--drop-message", "0")
    assert (status, found["verdict"], found["label"]) == (0, "not_recovered", "verified")


def test_trouble_is_one_sentence_and_status_2(runs: list[str], afnb_process: Process) -> None:
    agent = runs[runs.index("--") :]
    cases = [
        ["what-if", "bad.json", "--step", "2", "--resample", "--upstream", "http://127.0.0.1:9", *agent],
        ["what-if", "bad.json", "--step", "99", "--resample", *runs],
        ["what-if", "missing.json", "--step", "2", "--resample", *runs],
        ["attribute", "bad.json", "--against", "missing.json", *runs],
        [
            "attribute",
            "bad.json",
            "--against",
            "good.json",
            *runs[: runs.index("--")],
            "--",
            "no-such-command",
        ],
    ]
    for case in cases:
        done = afnb_process(*case)
        said = [line for line in done.stderr.splitlines() if not line.startswith(("budget", "pre-flight"))]
        assert (done.returncode, done.stdout, len(said)) == (2, "", 1), (case, done.stderr)
        assert "unexpected" not in done.stderr
