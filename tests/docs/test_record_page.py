"""The general lines of docs/record.md, run in order as printed: only the provider's address is another one.

Its sections on single SDKs are run by ``tests/e2e/test_sdk_matrix.py``.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.io.answers import Call
from afnb.io.conversation import Conversation
from afnb.io.journal import journal_path
from afnb.testing.provider import FakeProvider

HERE = Path(__file__).resolve().parent
PAGE = (HERE.parents[1] / "docs/record.md").read_text(encoding="utf-8")
KEY = "sk-made-up-for-this-test"
PROMPT_KEY = "sk-0123456789abcdef0123"  # in the agent's prompt


def model(talk: Conversation, _rng: random.Random) -> Any:
    if not talk.called("look_up"):
        return Call("look_up", {"order": 7})
    return f"Order 7 is {talk.result_of('look_up')}."


def block(heading: str, language: str = "bash", number: int = 0) -> str:
    after = PAGE.split(f"\n## {heading}\n", 1)[1]
    section = re.split(r"^## ", after, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return str(found[number])


class Shell:
    """A folder with the agent, and ``afnb`` on the path."""

    def __init__(self, folder: Path, origin: str) -> None:
        self.folder, self.origin = folder, origin
        shutil.copy(HERE / "record_agent.py", folder / "agent.py")
        (folder / "afnb").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m afnb "$@"\n')
        (folder / "afnb").chmod(0o755)
        home = str(Path(afnb.__file__).parents[1])
        path = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": home}
        self.env = {**os.environ, **path, "OPENAI_API_KEY": KEY, "TODAY": "2026-01-31"}

    def run(self, lines: str) -> str:
        """Each line, and whether it exits as its comment says (0 without one); all that they printed."""
        said = ""
        for line in lines.strip().split("\n"):
            line, _, comment = line.partition("  # exits with ")
            line = line.replace("--upstream openai", f"--upstream openai={self.origin}")
            done = subprocess.run(
                ["sh", "-euc", line],
                cwd=self.folder,
                env=self.env,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == int(comment or 0), f"{line}\n{done.stdout}\n{done.stderr}"
            said += done.stdout
        return said


def test_record_check_convert_and_take_out(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    with FakeProvider(model) as provider:
        shell = Shell(tmp_path, provider.url)
        said = shell.run(block("From the command line"))
        assert "Order 7 is in Hamburg." in said
        assert "faithful" in said
        shell.run(block("Secrets"))
    clean = (tmp_path / "clean.json").read_text(encoding="utf-8")
    assert PROMPT_KEY in (tmp_path / "run.json").read_text(encoding="utf-8")
    assert PROMPT_KEY not in clean
    assert KEY not in clean
    assert "faithful" in shell.run("afnb replay clean.json --check -- python agent.py")
    assert "faithful" in shell.run(block("Convert"))


def test_a_miss_is_explained_and_forgiven(tmp_path: Path) -> None:
    lines = block("When a request misses")
    with FakeProvider(model) as provider:
        shell = Shell(tmp_path, provider.url)
        shell.run("afnb record --out run.json --upstream openai -- python agent.py --today")
    shell.env["TODAY"] = "2026-02-01"
    said = shell.run(lines)
    assert "Today is 2026-02-01." in said
    command = afnb.Command(["python", str(tmp_path / "agent.py"), "--today"], env=dict(shell.env))
    code = block("When a request misses", "python").replace('"run.json"', repr(str(tmp_path / "run.json")))
    names: dict[str, Any] = {"afnb": afnb, "command": command}
    exec(code.replace("afnb.replay(", "last = afnb.replay(").replace("found = last", "found"), names)
    assert names["last"] is True
    assert names["found"].misses.to_pylist()[0]["where"] == "messages[0].content"


def test_what_a_crash_left_is_closed(tmp_path: Path) -> None:
    out = tmp_path / "crashed.json"
    with FakeProvider(model) as provider:
        shell = Shell(tmp_path, provider.url)
        code = (
            "import os, signal, afnb\n"
            f"with afnb.Recorder('crashed.json', {provider.url!r}) as recorder:\n"
            "    recorder.http_client('httpx').post('/v1/chat/completions', json={'messages': []})\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=shell.env, timeout=120, check=False)
    assert os.path.lexists(journal_path(str(out)))
    shell.run(block("After a crash"))
    found = afnb.load(out)
    assert isinstance(found, afnb.Cassette)
    assert len(found) == 1


def test_a_function_records_and_replays_in_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def agent(http: Any) -> str:
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        asked = http.post("https://api.openai.com/v1/chat/completions", json=body)
        return str(asked.json()["choices"][0]["message"]["content"])

    with FakeProvider(lambda talk, rng: "hello") as provider:
        code = block("In a notebook", "python").replace('"openai"', repr(provider.url))
        names: dict[str, Any] = {"afnb": afnb, "agent": agent}
        exec(code, names)
    assert names["answer"] == "hello"
    assert names["again"].faithful


def test_the_wrapped_tools_are_tools() -> None:
    names: dict[str, Any] = {"afnb": afnb}
    exec(block("Tools", "python"), names)
    assert names["look_up"](7) == {"order": 7, "state": "lost"}


def test_an_mcp_server_is_started_behind_the_relay(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("import sys\nfor line in sys.stdin:\n    print(line, end='')\n")
    shell = Shell(tmp_path, "http://127.0.0.1:9")
    said = shell.run(block("MCP").strip() + " </dev/null")
    assert said == ""
