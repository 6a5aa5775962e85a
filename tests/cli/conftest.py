"""A small agent program, and the command line as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

AGENT = """
import json, os, sys, urllib.request

base = os.environ["OPENAI_BASE_URL"]
for word in sys.argv[1:] or ["hello"]:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": word}]}).encode()
    ask = urllib.request.Request(base + "/chat/completions", body, {"content-type": "application/json"})
    print(json.load(urllib.request.urlopen(ask))["choices"][0]["message"]["content"])
print("done", file=sys.stderr)
sys.exit(int(os.environ.get("AGENT_STATUS", "0")))
"""


@pytest.fixture
def agent(tmp_path: Path) -> str:
    path = tmp_path / "agent.py"
    path.write_text(AGENT, encoding="utf-8")
    return str(path)


@pytest.fixture
def afnb_process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``python -m afnb`` in a fresh directory."""

    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "afnb", *args],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            env={**os.environ, "PYTHONUTF8": "1", **env},
            check=False,
        )

    return run
