"""Every SDK, in every mode: recorded once, replayed with nothing live, changed and branching where it should.

The agents are in ``sdk/``, the commands and the clients are those that ``docs/record.md`` prints. What is
not installed is skipped; with ``AFNB_ALL_SDKS`` set it fails (``sdk/requirements.lock`` holds all of it).
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.causal.compile import compile_arms
from afnb.core.arm import Arm
from afnb.core.cassette import Cassette
from afnb.core.tape import Tape
from afnb.experiments.agents import AgentResult
from afnb.io.answers import Call, Say
from afnb.io.conversation import Conversation
from afnb.io.serve import Session
from afnb.io.serve_report import SessionReport
from afnb.io.upstream import as_upstream
from afnb.testing.provider import FakeProvider, Fault

SDK = Path(__file__).resolve().parent / "sdk"
PAGE = (Path(__file__).resolve().parents[2] / "docs/record.md").read_text(encoding="utf-8")
SECRET = "sk-made-up-key-that-must-not-be-on-disk"
KEYS = dict.fromkeys(
    ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY", "GOOGLE_API_KEY"), SECRET
)
ANSWER = "Pack a coat (Oslo 4, Rome 21)."


@dataclass(frozen=True)
class Kind:
    """One SDK: its section of the page, packages, agent, and its modes, the first of them for the smoke."""

    section: str
    packages: tuple[str, ...]
    script: str
    modes: tuple[str, ...]
    variable: str = "OPENAI_BASE_URL"
    retries: bool = False
    tool_steps: bool = True

    @property
    def id(self) -> str:
        """Short and unique."""
        name = self.script.partition(".")[0]
        return f"{name} anthropic" if self.modes[0].startswith("anthropic") else name

    @property
    def expected(self) -> tuple[str, int]:
        """The answer, and in how many exchanges."""
        return ("Pack a shirt (Rome 21).", 2) if "curl" in self.script else (ANSWER, 3)

    @property
    def program(self) -> list[str]:
        ending = Path(self.script).suffix
        return [{".py": "python", ".mjs": "node", ".sh": "sh"}[ending]]


PLAIN = ("sync stream", "sync", "async", "async stream")
KINDS = [
    Kind("openai", ("openai",), "openai_chat.py", PLAIN, retries=True),
    Kind("openai", ("openai",), "openai_responses.py", PLAIN, retries=True),
    Kind("anthropic", ("anthropic",), "anthropic_messages.py", PLAIN, "ANTHROPIC_BASE_URL", retries=True),
    Kind(
        "google-genai",
        ("google-genai",),
        "google_genai.py",
        (*PLAIN, "automatic"),
        "GOOGLE_GEMINI_BASE_URL",
    ),
    Kind("mistralai", ("mistralai",), "mistral_chat.py", PLAIN, "MISTRAL_BASE_URL"),
    Kind(
        "litellm",
        ("litellm",),
        "litellm_chat.py",
        ("async stream", "sync", "sync stream", "async"),
        retries=True,
    ),
    Kind(
        "litellm",
        ("litellm",),
        "litellm_chat.py",
        ("anthropic sync", "anthropic async", "anthropic sync stream", "anthropic async stream"),
        "ANTHROPIC_BASE_URL",
    ),
    Kind(
        "langgraph",
        ("langgraph", "langchain-openai"),
        "langgraph_agent.py",
        ("sync", "sync stream", "async", "async stream", "responses sync stream", "responses async"),
        retries=True,
    ),
    Kind(
        "openai-agents",
        ("openai-agents",),
        "openai_agents.py",
        ("responses stream", "responses", "chat", "chat stream"),
        retries=True,
    ),
    Kind(
        "pydantic-ai",
        ("pydantic-ai-slim",),
        "pydantic_agent.py",
        ("responses", "responses stream", "chat", "chat stream"),
        retries=True,
    ),
    Kind(
        "smolagents",
        ("smolagents",),
        "smolagents_agent.py",
        ("sync", "sync stream"),
        retries=True,
        tool_steps=False,
    ),
    Kind("Any language", (), "node_agent.mjs", ("stream", "plain")),
    Kind("Any language", (), "curl_agent.sh", ("plain",)),
]


def needs(kind: Kind) -> None:
    """Skip, or fail where everything must be there."""
    missing = [one for one in kind.packages if not installed(one)]
    if kind.program[0] != "python":
        missing = [
            one for one in ("node" if kind.script.endswith("mjs") else "curl",) if not shutil.which(one)
        ]
    if missing and kind.packages and os.environ.get("AFNB_ALL_SDKS"):
        pytest.fail(f"{', '.join(missing)} should be installed here")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def packing(talk: Conversation, _rng: random.Random) -> Any:
    """Plays the model: two calls at once, one more, the answer; what it says depends on the results alone."""
    seen = " ".join(r.text for r in talk.results)
    seen = seen or " ".join(m.text for m in talk.messages if m.role != "system")
    found = {city: int(celsius) for city, celsius in re.findall(r"(Oslo|Rome|Lima): (-?\d+) C", seen)}
    told = ", ".join(f"{city} {celsius}" for city, celsius in sorted(found.items()))
    if not talk.tools:
        return f"Pack {'a coat' if min(found.values()) < 10 else 'a shirt'} ({told})."
    if not found:
        asked = tuple(Call("weather", {"city": city}) for city in ("Oslo", "Rome"))
        return Say("Two forecasts first.", asked)
    packed = re.search(r"a (coat|shirt)", seen)
    if packed is None:
        return Say("", (Call("pack", {"celsius": min(found.values())}),))
    answer = f"Pack {packed[0]} ({told})."
    return Say("", (Call("final_answer", {"answer": answer}),)) if "final_answer" in talk.tools else answer


# -- the page's own lines --------------------------------------------------------------------------


def section(kind: Kind) -> str:
    after = PAGE.split(f"\n### {kind.section}\n", 1)[1]
    return re.split(r"^##", after, maxsplit=1, flags=re.MULTILINE)[0]


def printed(kind: Kind, language: str) -> str:
    """The section's block in this language, for this kind's program."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", section(kind), re.MULTILINE | re.DOTALL)
    if language == "bash":
        blocks = [block for block in blocks if f"-- {kind.program[0]} " in block]
    assert len(blocks) == 1, (kind.section, language)
    return str(blocks[0])


class Home:
    """A folder with the agent in it and ``afnb`` on the path."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        needs(kind)
        self.kind = kind
        self.folder = folder
        for path in (SDK / "task.py", SDK / kind.script, SDK / "in_notebook.py"):
            shutil.copy(path, folder)
        shutil.copy(SDK / kind.script, folder / f"agent{Path(kind.script).suffix}")
        command = folder / "afnb"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m afnb "$@"\n')
        command.chmod(0o755)
        package = str(Path(afnb.__file__).parents[1])
        path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        self.env = {**os.environ, **KEYS, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": path}

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            argv, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
        return done

    def command(self, mode: str) -> afnb.Command:
        argv = [*self.kind.program, str(self.folder / self.kind.script), *mode.split()]
        return afnb.Command(argv, base_url_env=self.kind.variable, timeout_s=120, env=KEYS, cwd=self.folder)

    def replay(
        self, cassette: Cassette, mode: str, arm: Arm | None = None, origin: str | None = None
    ) -> tuple[AgentResult, SessionReport]:
        """One run against the recording; what is not on it goes to ``origin``, if there is one."""
        session = Session(Tape(cassette), arm, live=origin is not None)
        upstream = None if origin is None else as_upstream(origin)
        return self.command(mode).run(session, upstream, seed=0, workdir=self.folder), session.report()

    def branch(self, cassette: Cassette, mode: str, edit: afnb.Edit, expected: str) -> None:
        """Change one step: what was before it is served, everything after it goes live."""
        with FakeProvider(packing, seed=7, encoding="gzip") as provider:
            arm = compile_arms(edit, cassette).patch
            done, report = self.replay(cassette, mode, arm, provider.url)
            live = [request.body for request in provider.requests]
        assert said(done.stdout) == expected, done
        counts = (report.served, report.live, report.missed, report.live_before_branch)
        assert counts == (1, len(live), 0, 0), report
        assert report.patches_applied == (edit.step,)
        assert cassette.exchanges[0].request.body not in live
        assert len(live) == self.kind.expected[1] - 1


def said(stdout: str | None) -> str:
    return (stdout or "").strip().split("\n")[-1].strip()


def other_first_answer(kind: Kind) -> tuple[afnb.Edit, str]:
    if "curl" in kind.script:
        return afnb.Edit(0, {"text": "Take little. Lima: 18 C."}), "Pack a shirt (Lima 18, Rome 21)."
    call = {"name": "weather", "arguments": {"city": "Lima"}}
    return afnb.Edit(0, {"text": "One forecast.", "tool_calls": [call]}), "Pack a shirt (Lima 18)."


@pytest.mark.sdk
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.id)
def test_the_printed_commands_record_and_replay_it(kind: Kind, tmp_path: Path) -> None:
    home, mode = Home(kind, tmp_path), kind.modes[0]
    lines = printed(kind, "bash")
    name = f"agent{Path(kind.script).suffix}"
    lines = re.sub(rf"{re.escape(name)}$", f"{name} {mode}", lines, flags=re.MULTILINE)
    record, check = lines.strip().split("\n")
    if kind.id.endswith(" anthropic"):
        record = record.replace("--upstream openai", "--upstream anthropic")
    with FakeProvider(packing, encoding="gzip") as provider:
        record = re.sub(r"--upstream (\w+)", rf"--upstream \1={provider.url}", record)
        done = home.run("sh", "-euc", record)
        asked = provider.requests
    answer, count = kind.expected
    assert said(done.stdout) == answer
    (path,) = tmp_path.glob("*.json")
    assert SECRET not in path.read_text(encoding="utf-8")
    assert any(SECRET in value for request in asked for _, value in request.headers)
    cassette = afnb.load(path)
    assert isinstance(cassette, Cassette)
    assert len(cassette) == len(asked) == count
    home.run("sh", "-euc", check)  # exits with 0 only if all of it is served, and the answer is the same
    edit, expected = other_first_answer(kind)
    home.branch(cassette, mode, edit, expected)


NOTEBOOK = [k for k in KINDS if k.packages and not k.id.endswith(" anthropic")]


@pytest.mark.sdk
@pytest.mark.parametrize("kind", NOTEBOOK, ids=lambda kind: kind.id)
def test_the_printed_client_records_and_replays_in_a_notebook(kind: Kind, tmp_path: Path) -> None:
    home = Home(kind, tmp_path)
    (tmp_path / "code.py").write_text(printed(kind, "python"))
    with FakeProvider(packing) as provider:
        module = kind.script.removesuffix(".py")
        done = home.run(sys.executable, "in_notebook.py", module, "code.py", "run.json", provider.url)
        count = len(provider.requests)
    found = json.loads(said(done.stdout))
    assert set(found["said"]) == {ANSWER}
    assert found["again"] == found["said"], found
    assert found["exchanges"] == count
    assert found["counts"] == [count, 0, 0], found


# -- the whole matrix ------------------------------------------------------------------------------

RETRIED = [(kind, mode) for kind in KINDS if kind.retries for mode in kind.modes]
MATRIX = [pytest.param(kind, mode, id=f"{kind.id}-{mode}") for kind in KINDS for mode in kind.modes]


@pytest.mark.soak
@pytest.mark.sdk
@pytest.mark.parametrize(("kind", "mode"), MATRIX)
def test_every_mode(kind: Kind, mode: str, tmp_path: Path) -> None:
    home = Home(kind, tmp_path)
    with FakeProvider(packing, encoding="gzip") as provider:
        done = afnb.record(home.command(mode), provider.url, tmp_path / "run.json")
        count = len(provider.requests)
    answer, expected_count = kind.expected
    assert said(done.agent.stdout) == answer, done.agent
    assert len(done.cassette) == count == expected_count
    again, report = home.replay(done.cassette, mode)
    assert said(again.stdout) == answer, again
    assert (report.served, report.live, report.missed, report.beyond_recording) == (count, 0, 0, 0), report
    edit, expected = other_first_answer(kind)
    home.branch(done.cassette, mode, edit, expected)
    if kind.tool_steps and "curl" not in kind.script:
        home.branch(done.cassette, mode, afnb.Edit(1, "Oslo: 30 C"), "Pack a shirt (Oslo 30, Rome 21).")


@pytest.mark.soak
@pytest.mark.sdk
@pytest.mark.parametrize(("kind", "mode"), RETRIED, ids=lambda value: getattr(value, "id", value))
def test_an_answer_that_the_sdk_asks_again(kind: Kind, mode: str, tmp_path: Path) -> None:
    home = Home(kind, tmp_path)
    busy = Fault(status=429, headers=(("retry-after-ms", "1"),))
    with FakeProvider(packing, faults={1: busy}) as provider:
        done = afnb.record(home.command(mode), provider.url, tmp_path / "run.json")
    assert said(done.agent.stdout) == ANSWER, done.agent
    assert [e.response.status for e in done.cassette.exchanges] == [200, 429, 200, 200]
    again, report = home.replay(done.cassette, mode)
    assert said(again.stdout) == ANSWER, again
    assert (report.served, report.live, report.missed) == (4, 0, 0), report
