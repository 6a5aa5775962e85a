"""``record`` and ``replay`` with a real agent program and a provider on a socket."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from afnb.testing.provider import FakeProvider

Process = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider(lambda talk, rng: "bonjour") as running:
        yield running


def test_recorded_then_replayed_without_the_provider(
    afnb_process: Process, agent: str, provider: FakeProvider, tmp_path: Path
) -> None:
    recorded = afnb_process(
        "record", "--out", "run.json", "--upstream", provider.url, "--", sys.executable, agent
    )
    assert (recorded.returncode, recorded.stdout) == (0, "bonjour\n"), recorded.stderr
    assert "not redacted" in recorded.stderr
    assert "1 exchanges in run.json" in recorded.stderr
    asked = len(provider.requests)
    replayed = afnb_process("replay", "run.json", "--save", "again.json", "--", sys.executable, agent)
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout.startswith("bonjour\nReplay of run [✓ faithful]\n")
    assert len(provider.requests) == asked
    assert len(json.loads((tmp_path / "again.json").read_text())["exchanges"]) == 1
    machine = afnb_process("replay", "run.json", "--json", "--", sys.executable, agent)
    assert json.loads(machine.stdout)["served"] == 1
    assert "bonjour" in machine.stderr


def test_the_agents_status_is_passed_on(afnb_process: Process, agent: str, provider: FakeProvider) -> None:
    options = ["--upstream", provider.url, "--", sys.executable, agent]
    assert afnb_process("record", "--out", "run.json", *options, AGENT_STATUS="7").returncode == 7
    assert afnb_process("replay", "run.json", "--", sys.executable, agent, AGENT_STATUS="9").returncode == 9
    assert afnb_process("replay", "run.json", "--", sys.executable, agent).returncode == 0


def test_a_recording_is_never_overwritten(
    afnb_process: Process, agent: str, provider: FakeProvider, tmp_path: Path
) -> None:
    options = ["--out", "run.json", "--upstream", provider.url]
    assert afnb_process("record", *options, "--", sys.executable, agent).returncode == 0
    before = (tmp_path / "run.json").read_bytes()
    again = afnb_process("record", *options, "--", sys.executable, agent)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "choose another name, or go on with it: --append" in again.stderr
    assert (tmp_path / "run.json").read_bytes() == before
    more = afnb_process("record", *options, "--append", "--", sys.executable, agent, "other")
    assert more.returncode == 0, more.stderr
    assert len(json.loads((tmp_path / "run.json").read_text())["exchanges"]) == 2


def test_a_name_that_is_taken_is_said_before_the_agent_runs(
    afnb_process: Process, agent: str, provider: FakeProvider, tmp_path: Path
) -> None:
    record = ["record", "--out", "run.json", "--upstream", provider.url]
    assert afnb_process(*record, "--", sys.executable, agent).returncode == 0
    marker = "import pathlib; pathlib.Path('ran').touch()"
    done = afnb_process("replay", "run.json", "--save", "run.json", "--", sys.executable, "-c", marker)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "ran").exists()


def test_words_are_redacted_before_disk(
    afnb_process: Process, agent: str, provider: FakeProvider, tmp_path: Path
) -> None:
    hide = ["--redact", "messages[*].content", "--redact-pattern", "bon[a-z]+"]
    done = afnb_process(
        "record",
        "--out",
        "run.json",
        *hide,
        "--upstream",
        provider.url,
        "--",
        sys.executable,
        agent,
        "secret",
    )
    assert done.returncode == 0, done.stderr
    kept = (tmp_path / "run.json").read_text()
    assert "secret" not in kept
    assert "bonjour" not in kept


def test_a_quiet_live_run_is_trouble(
    afnb_process: Process, agent: str, provider: FakeProvider, tmp_path: Path
) -> None:
    afnb_process("record", "--out", "run.json", "--upstream", provider.url, "--", sys.executable, agent)
    silent = ["--", sys.executable, "-c", "print('no request')"]
    nothing = afnb_process("record", "--out", "none.json", "--upstream", provider.url, *silent)
    assert nothing.returncode == 2
    assert said(nothing) == [
        "afnb record: no request came here, so nothing was recorded: does the agent read OPENAI_BASE_URL? "
        "--base-url-env names another variable"
    ]
    assert not (tmp_path / "none.json").exists()
    unserved = afnb_process(
        "replay", "run.json", "--base-url-env", "A_URL", "--base-url-env", "B_URL", *silent
    )
    assert unserved.returncode == 2
    assert said(unserved) == [
        "afnb replay: nothing of run.json was served: does the agent read A_URL or B_URL? "
        "--base-url-env names another variable"
    ]


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the command said on stderr, without its notice of what is recorded."""
    return [line for line in done.stderr.splitlines() if "Bodies are recorded" not in line]


def test_no_hint_where_the_agent_itself_failed(
    afnb_process: Process, agent: str, provider: FakeProvider, tmp_path: Path
) -> None:
    to = ["--upstream", provider.url]
    missing = afnb_process("record", "--out", "x.json", *to, "--", "no-such-command-here")
    crash = afnb_process("record", "--out", "x.json", *to, "--", sys.executable, "-c", "raise SystemExit(3)")
    assert (missing.returncode, crash.returncode) == (2, 3)
    for done in (missing, crash):
        assert said(done)[-1] == "afnb record: no request came here, so nothing was recorded"
        assert len(said(done)) == 2
    afnb_process("record", "--out", "run.json", *to, "--", sys.executable, agent)
    crash = afnb_process("replay", "run.json", "--", sys.executable, "-c", "raise SystemExit(3)")
    assert crash.returncode == 2
    assert said(crash)[-1] == "afnb replay: nothing of run.json was served"


def test_no_hint_where_requests_came(
    afnb_process: Process, agent: str, provider: FakeProvider, tmp_path: Path
) -> None:
    down = ["record", "--out", "x.json", "--upstream", "http://127.0.0.1:9"]
    done = afnb_process(*down, "--", sys.executable, agent)
    told = [line for line in said(done) if line.startswith("afnb record:")]
    assert len(told) == 1
    assert "no request got an answer, so nothing was recorded: " in told[0]
    afnb_process("record", "--out", "run.json", "--upstream", provider.url, "--", sys.executable, agent)
    missed = afnb_process("replay", "run.json", "--", sys.executable, agent, "something else")
    assert missed.returncode == 2
    assert (
        said(missed)[-1] == "afnb replay: nothing of run.json was served: 1 requests came, and none is on it"
    )


def test_an_unfinished_recording_is_gone_on_with_by_the_flag(
    afnb_process: Process, agent: str, provider: FakeProvider, tmp_path: Path
) -> None:
    from afnb.io.journal import Journal, journal_path

    Journal(tmp_path / "run.json").abandon()
    options = ["record", "--out", "run.json", "--upstream", provider.url]
    refused = afnb_process(*options, "--", sys.executable, agent)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "go on with it: --append" in refused.stderr
    assert Path(journal_path(tmp_path / "run.json")).exists()
    assert afnb_process(*options, "--append", "--", sys.executable, agent).returncode == 0


def test_an_agent_that_cannot_start_is_one_sentence(
    afnb_process: Process, agent: str, provider: FakeProvider, tmp_path: Path
) -> None:
    afnb_process("record", "--out", "run.json", "--upstream", provider.url, "--", sys.executable, agent)
    done = afnb_process("replay", "run.json", "--", "no-such-command-here")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "Traceback" not in done.stderr


def test_a_miss_is_named(afnb_process: Process, agent: str, provider: FakeProvider) -> None:
    afnb_process("record", "--out", "run.json", "--upstream", provider.url, "--", sys.executable, agent)
    done = afnb_process("replay", "run.json", "--", sys.executable, agent, "hello", "something else")
    assert done.returncode != 0
    assert "First miss" in done.stdout
    assert "messages[0].content" in done.stdout


def test_check_is_the_fidelity_gate(
    afnb_process: Process, agent: str, provider: FakeProvider, tmp_path: Path
) -> None:
    words = ["on 2026-03-30", "bye"]
    record = ["record", "--out", "run.json", "--upstream", provider.url, "--", sys.executable, agent]
    assert afnb_process(*record, *words).returncode == 0

    def check(*words: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return afnb_process("replay", "run.json", "--check", *options, "--", sys.executable, agent, *words)

    same = check(*words)
    assert same.returncode == 0, same.stderr
    assert same.stdout.startswith("Replay of run [✓ faithful]\n"), "the agent's own output is left out"
    other = check("on 2026-03-31", "bye")
    assert (other.returncode, "requests that are not on the tape" in other.stdout) == (2, True)
    assert "2 requests came" in other.stderr or "1 requests came" in other.stderr
    forgiven = check("on 2026-03-31", "bye", options=("--match", "dates", "--json"))
    assert forgiven.returncode == 0
    assert json.loads(forgiven.stdout)["rules"] == {"pattern:dates": 1}
    by_hand = check("on 2026-03-31", "bye", options=("--match-pattern", r"day=on [\d-]+"))
    assert by_hand.returncode == 0
    ignored = check("anything", "else", options=("--match-ignore", "messages"))
    assert (ignored.returncode, "faithful" in ignored.stdout) == (0, True)
    part = check(words[0], options=("--out", "report"))
    assert part.returncode == 1
    assert "asked for 1 of 2" in part.stdout
    assert {path.name for path in (tmp_path / "report").iterdir()} == {
        "result.json",
        "card.html",
        "misses.parquet",
    }


def test_matching_and_serving_are_checked_before_anything_starts(
    afnb_process: Process, agent: str, provider: FakeProvider
) -> None:
    options = ["--upstream", provider.url, "--", sys.executable, agent]
    assert afnb_process("record", "--out", "run.json", *options).returncode == 0
    asked = len(provider.requests)
    for words, said in (
        (["--match", "dats"], "ready-made pattern"),
        (["--match-off", "numbrs"], "no matching rule"),
        (["--match-pattern", "day"], "NAME=REGEX"),
        (["--match-ignore", "[["], "no JSON path"),
        (["--serve-through", "0"], "give upstream="),
        (["--serve-through", "x"], "whole number"),
        (["--check", "--serve-through", "0"], "from the recording alone"),
        (["--repeat", "never"], "invalid choice"),
        (["--pace", "slowly"], "as recorded"),
    ):
        done = afnb_process("replay", "run.json", *words, "--", sys.executable, agent)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert said in done.stderr
    through = afnb_process("replay", "run.json", "--serve-through", "-1", *options)
    assert (through.returncode, len(provider.requests)) == (0, asked + 1)


def test_check_names_another_exit_status_and_another_output(
    afnb_process: Process, agent: str, provider: FakeProvider, tmp_path: Path
) -> None:
    options = ["--upstream", provider.url, "--", sys.executable, agent]
    assert afnb_process("record", "--out", "run.json", *options).returncode == 0
    kept = json.loads((tmp_path / "run.json").read_text())["agent_end"]
    assert (kept["exit_status"], kept["stdout"]) == (0, "bonjour\n")
    check = ["replay", "run.json", "--check", "--", sys.executable, agent]
    assert afnb_process(*check).returncode == 0
    failing = afnb_process(*check, AGENT_STATUS="9")
    assert failing.returncode == 1
    assert "exit status differs: recorded 0, now 9" in failing.stdout
