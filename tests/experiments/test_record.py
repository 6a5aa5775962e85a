from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from afnb.errors import ParameterError
from afnb.experiments.agents import AgentResult, Command, Function
from afnb.experiments.record import record, shell_status

CODE = "import os, sys, urllib.request; urllib.request.urlopen(os.environ['OPENAI_BASE_URL'] + '/x').read()\n"


def always(request: Any) -> Any:
    return {"ok": True}


@pytest.mark.parametrize(
    ("end", "status", "exit_status"),
    [
        ("", "finished", 0),
        ("sys.exit(7)", "crashed", 7),
        ("os.kill(os.getpid(), 9)", "crashed", 137),
        ("import time; time.sleep(60)", "timeout", 124),
    ],
)
def test_the_recording_is_kept_whatever_becomes_of_the_agent(
    tmp_path: Path, end: str, status: str, exit_status: int
) -> None:
    agent = Command(["python", "-c", CODE + end], timeout_s=3 if status == "timeout" else 60)
    done = record(agent, always, tmp_path / "x.json", task="try it")
    assert (done.agent.status, done.exit_status) == (status, exit_status)
    assert done.path == str(tmp_path / "x.json")
    assert len(done.cassette) == 1
    assert done.cassette.task == "try it"
    assert done.warnings == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json"]


def test_an_agent_that_cannot_start_writes_nothing(tmp_path: Path) -> None:
    done = record(["no-such-program-anywhere"], always, tmp_path / "x.json")
    assert (done.agent.status, done.exit_status, done.path) == ("cannot_start", 2, None)
    assert done.warnings == ("no request came here, so nothing was recorded",)
    assert not done.silent
    assert list(tmp_path.iterdir()) == []


def test_an_agent_that_ignores_its_base_url_is_told_apart(tmp_path: Path) -> None:
    done = record(["python", "-c", "print('talking elsewhere')"], always, tmp_path / "x.json")
    assert (done.path, done.exit_status, done.silent) == (None, 0, True)
    assert done.warnings == (
        "no request came here, so nothing was recorded: does the agent read OPENAI_BASE_URL? "
        "base_url_env= names another variable",
    )
    done = record(lambda ctx: "talking elsewhere", always, tmp_path / "x.json")
    assert "does the agent use ctx.http_client()" in done.warnings[0]


def test_an_agent_that_crashed_before_it_asked_is_not_suspected(tmp_path: Path) -> None:
    def agent(ctx: Any) -> None:
        raise RuntimeError("no key")

    done = record(agent, always, tmp_path / "x.json")
    assert done.warnings == ("no request came here, so nothing was recorded",)
    assert not done.silent
    assert "no key" in str(done.agent.error)


def test_a_name_that_is_taken_says_what_can_be_done(tmp_path: Path) -> None:
    record(lambda ctx: ctx.http_client("httpx").get("/x"), always, tmp_path / "x.json")
    with pytest.raises(ParameterError, match=r"choose another name, or go on with it: append=True$"):
        record(lambda ctx: None, always, tmp_path / "x.json")


def test_the_notice_is_said_before_the_agent_starts(tmp_path: Path) -> None:
    order: list[str] = []
    done = record(lambda ctx: order.append("agent"), always, tmp_path / "x.json", say=order.append)
    assert order == [done.notice, "agent"]
    assert "not redacted" in done.notice


def test_a_stop_keeps_what_was_recorded(tmp_path: Path) -> None:
    stop = threading.Event()

    def agent(ctx: Any) -> None:
        ctx.http_client("httpx").get("/x")
        stop.set()
        threading.Event().wait(0.5)

    done = record(Function(agent), always, tmp_path / "x.json", stop=stop)
    assert (done.agent.status, done.exit_status, len(done.cassette)) == ("stopped", 1, 1)


def test_wrong_arguments_start_nothing(tmp_path: Path) -> None:
    (tmp_path / "there.json").write_text("x")
    for agent, upstream, out in (
        ("python x.py", always, "new.json"),
        (["x"], None.__class__, "there.json"),
        (["x"], "not a url", "new.json"),
        (["x"], always, "there.json"),
        (["x"], always, "none/new.json"),
    ):
        with pytest.raises(ParameterError):
            record(agent, upstream, tmp_path / out)
    assert [path.name for path in tmp_path.iterdir()] == ["there.json"]


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (AgentResult("finished", value="x"), 0),
        (AgentResult("crashed", error="raised"), 1),
        (AgentResult("crashed", exit_status=-15), 143),
        (AgentResult("timeout", exit_status=-15), 124),
        (AgentResult("stopped"), 1),
        (AgentResult("stopped", exit_status=-15), 143),
    ],
)
def test_exit_statuses(result: AgentResult, status: int) -> None:
    assert shell_status(result) == status
