"""The README's four steps, run as they are printed: only the provider's address is another one."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from afnb.io.answers import Call, Say
from afnb.io.conversation import Conversation
from afnb.testing.provider import FakeProvider

HERE = Path(__file__).resolve().parent
README = (HERE.parents[1] / "README.md").read_text(encoding="utf-8")
STEPS = README[README.index("## Your own agent") : README.index("## What a verdict means")]
ORIGIN = "https://api.openai.com"
KEY = "sk-made-up-for-this-test"


def model(category: str) -> Callable[[Conversation, random.Random], Any]:
    """Looks up the policy of ``category``, and believes what it finds."""
    why = {
        "electronics": "A headset is an electronic device: its own policy decides.",
        "accessories": "Small extras for computers, so look there.",
    }

    def answer(talk: Conversation, _rng: random.Random) -> Any:
        if not talk.called("lookup_order"):
            return Say("I look at the order first.", (Call("lookup_order", {"order": "8841"}),))
        policy = talk.result_of("refund_policy")
        if policy is None:
            return Say(why[category], (Call("refund_policy", {"category": category}),))
        if talk.called("issue_refund"):
            return "Done: refund issued to Dana."
        if policy["return_window_days"] < 12:
            return "Declined, since the order is outside its return window."
        paid = Call("issue_refund", {"order": "8841", "amount": 129})
        return Say("Within the window: pay it back.", (paid,))

    return answer


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", STEPS, re.MULTILINE | re.DOTALL)


def run(text: str, folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OPENAI_API_KEY": KEY, "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(
        [*argv, text], cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the agent, the command, and a bad and a good recording made by the printed command."""
    made = tmp_path_factory.mktemp("readme")
    shutil.copy(HERE / "refund_agent.py", made / "agent.py")
    command = made / "afnb"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m afnb "$@"\n')
    command.chmod(0o755)
    (record,) = [block for block in blocks("bash") if "afnb record" in block]
    for name, category in (("bad", "accessories"), ("good", "electronics")):
        with FakeProvider(model(category)) as provider:
            line = record.replace(ORIGIN, provider.url).replace("bad.json", f"{name}.json")
            done = run(line, made, "bash", "-euc")
            assert done.returncode == 0, done.stderr
    return made


def test_no_key_is_in_the_recordings(folder: Path) -> None:
    for name in ("bad", "good"):
        assert KEY not in (folder / f"{name}.json").read_text(encoding="utf-8")


def test_the_python_of_the_steps(folder: Path) -> None:
    ending = (
        "assert (a.verdict, a.label, a.origination) == ('recovered', 'verified', (2,)), a\n"
        "assert (e.verdict, e.label, e.steps) == ('recovered', 'verified', (3,)), e\n"
    )
    paid = folder / "paid.txt"
    before = paid.read_text()
    with FakeProvider(model("electronics")) as provider:
        program = "".join(blocks("python")).replace(ORIGIN, provider.url)
        done = run(program + ending, folder, sys.executable, "-c")
    assert done.returncode == 0, done.stderr
    assert paid.read_text() == before


def test_the_command_line_of_the_steps(folder: Path) -> None:
    (lines,) = [block for block in blocks("bash") if "afnb what-if" in block]
    paid = folder / "paid.txt"
    before = paid.read_text()
    with FakeProvider(model("electronics")) as provider:
        lines = lines.replace(ORIGIN, provider.url)
        forked = "afnb diff bad.json --against good.json"
        done = run(lines.replace(forked, f"{forked} || [ $? -eq 1 ]"), folder, "bash", "-euc")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("verified: recovered") == 2
    assert paid.read_text() == before
