"""``--upstream``, ``--tool-upstream`` and ``--base-url-env``: which providers, and how they are found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from afnb.cli.app import build_parser
from afnb.cli.upstreams import base_urls_of, upstream_of
from afnb.errors import ParameterError
from afnb.io.known import KNOWN_UPSTREAMS
from afnb.io.upstream import HttpTool, as_upstream
from afnb.testing.provider import FakeProvider

Process = Callable[..., subprocess.CompletedProcess[str]]
AFNB = [sys.executable, "-m", "afnb"]
LOCAL = "http://127.0.0.1:8000"


def parsed(*args: str) -> Any:
    return build_parser().parse_args(["record", "--out", "x.json", *args])


@pytest.mark.parametrize(
    ("args", "upstream", "base_urls"),
    [
        (["--upstream", LOCAL], LOCAL, {"OPENAI_BASE_URL": ""}),
        (["--upstream", LOCAL, "--base-url-env", "LLM"], LOCAL, {"LLM": ""}),
        (["--upstream", LOCAL, "--base-url-env", "LLM=/v1"], LOCAL, {"LLM": "/v1"}),
        (["--upstream", "openai"], "https://api.openai.com", {"OPENAI_BASE_URL": "openai"}),
        (
            ["--upstream", "openai", "--upstream", "anthropic"],
            {"openai": "https://api.openai.com", "anthropic": "https://api.anthropic.com"},
            {"OPENAI_BASE_URL": "openai", "ANTHROPIC_BASE_URL": "anthropic"},
        ),
        (
            ["--upstream", "openai", "--upstream", f"local={LOCAL}", "--base-url-env", "LLM=local/v1"],
            {"openai": "https://api.openai.com", "local": LOCAL},
            {"LLM": "local/v1", "OPENAI_BASE_URL": "openai"},
        ),
        (
            ["--upstream", f"openai={LOCAL}", "--base-url-env", "MINE=openai"],
            LOCAL,
            {"MINE": "openai"},
        ),
    ],
)
def test_what_the_arguments_mean(args: list[str], upstream: Any, base_urls: dict[str, str]) -> None:
    found = parsed(*args)
    assert (upstream_of(found), base_urls_of(found)) == (upstream, base_urls)


def test_tools_are_upstreams_that_are_led_to_by_name() -> None:
    args = parsed(
        "--upstream", LOCAL, "--tool-upstream", "crm=http://127.0.0.1:9", "--base-url-env", "CRM=crm"
    )
    found = upstream_of(args)
    assert list(found) == ["model", "crm"]
    assert isinstance(found["crm"], HttpTool)
    assert base_urls_of(args) == {"OPENAI_BASE_URL": "", "CRM": "crm"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--upstream", LOCAL, "--upstream", "openai"], "has no name"),
        (["--upstream", "openai", "--upstream", "openai"], "two upstreams are called 'openai'"),
        (["--upstream", "a b=http://x"], "is not NAME=URL"),
        (["--upstream", "x="], "is not NAME=URL"),
        (["--upstream", "openai", "--base-url-env", "X=local"], "no upstream is called 'local'"),
        (
            ["--upstream", "openai", "--tool-upstream", "crm=http://x"],
            "nothing leads the agent to the tool 'crm'",
        ),
        (["--upstream", "openai", "--tool-upstream", "crm"], "--tool-upstream crm= is not NAME=URL"),
    ],
)
def test_what_makes_no_sense_is_said(args: list[str], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        upstream_of(parsed(*args)), base_urls_of(parsed(*args))


def test_known_names_are_upstreams_for_the_library_too() -> None:
    for name, known in KNOWN_UPSTREAMS.items():
        assert as_upstream(name).origin == known.origin


BOTH = """
import json, os, urllib.request
def ask(base, path, body):
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(base + path, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))
talk = [{"role": "user", "content": "hello"}]
one = ask(os.environ["OPENAI_BASE_URL"], "/chat/completions", {"model": "m", "messages": talk})
two = ask(os.environ["ANTHROPIC_BASE_URL"], "/v1/messages", {"model": "m", "max_tokens": 9, "messages": talk})
three = ask(os.environ["LOCAL"], "/chat/completions", {"model": "local", "messages": talk})
said = [answer["choices"][0]["message"]["content"] for answer in (one, three)]
print(said[0], two["content"][0]["text"], said[1])
"""


def test_several_providers_are_recorded_at_once_and_replayed(afnb_process: Process, tmp_path: Path) -> None:
    (tmp_path / "both.py").write_text(BOTH)
    agent = ["--", sys.executable, "both.py"]
    names = [
        "--base-url-env",
        "OPENAI_BASE_URL",
        "--base-url-env",
        "ANTHROPIC_BASE_URL",
        "--base-url-env",
        "LOCAL=/v1",
    ]
    with (
        FakeProvider(lambda t, r: "first") as openai,
        FakeProvider(lambda t, r: "second") as anthropic,
        FakeProvider(lambda t, r: "third") as local,
    ):
        upstreams = [f"openai={openai.url}", f"anthropic={anthropic.url}", f"local={local.url}"]
        flags = [flag for one in upstreams for flag in ("--upstream", one)]
        done = afnb_process("record", "--out", "run.json", *flags, "--base-url-env", "LOCAL=local/v1", *agent)
        assert (done.returncode, done.stdout) == (0, "first second third\n"), done.stderr
        assert [len(p.requests) for p in (openai, anthropic, local)] == [1, 1, 1]
    kept = json.loads((tmp_path / "run.json").read_text())
    assert [(e["upstream"], e["request"]["path"]) for e in kept["exchanges"]] == [
        ("openai", "/v1/chat/completions"),
        ("anthropic", "/v1/messages"),
        ("local", "/v1/chat/completions"),
    ]
    again = afnb_process("replay", "run.json", "--check", *names, *agent)
    assert again.returncode == 0, again.stdout + again.stderr


def test_an_agent_that_reads_and_writes_the_terminal(afnb_process: Process, tmp_path: Path) -> None:
    code = "import json,os,urllib.request as u\nword=input()\n" + (
        "b=json.dumps({'model':'m','messages':[{'role':'user','content':word}]}).encode()\n"
        "r=u.Request(os.environ['OPENAI_BASE_URL']+'/chat/completions',b,{'content-type':'application/json'})\n"
        "print(json.load(u.urlopen(r))['choices'][0]['message']['content'])\n"
    )
    python = [sys.executable, "-c", code]
    with FakeProvider(lambda talk, rng: f"you said {talk.user}") as provider:
        done = subprocess.run(
            [*AFNB, "record", "--out", "x.json", "--upstream", provider.url, "--", *python],
            input="hello\n",
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "you said hello\n"), done.stderr
    again = subprocess.run(
        [*AFNB, "replay", "x.json", "--interactive", "--", *python],
        input="hello\n",
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("you said hello\n")


@pytest.mark.parametrize(
    "url",
    [
        "http://host/?api_key=SECRET",
        "http://host/#SECRET",
        "http://me:SECRET@host",
        "ftp://me:SECRET@host/?k=SECRET",
        "http://me:SECRET@[bad",
        "local=http://host/?api_key=SECRET",
        "=http://me:SECRET@host",
        "lo cal=http://host?key=SECRET",
    ],
)
def test_no_message_shows_what_an_url_may_hide(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    from afnb.cli.app import main

    for more in ([], ["--upstream", "http://other/?key=SECRET"]):
        options = ["record", "--out", "never.json", "--upstream", url, *more, "--", "true"]
        assert main(options) == 2
        said = capsys.readouterr()
        assert "SECRET" not in said.out + said.err
        assert said.err.count("\n") == 1
