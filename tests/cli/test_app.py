"""The command line's manners: one sentence, an exit status, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import afnb
from afnb.cli import main
from afnb.cli.app import COMMANDS, split_command
from afnb.core.page import Badge, Facts, Page, Shown
from afnb.errors import InputError

Process = Callable[..., subprocess.CompletedProcess[str]]


class Result(Shown):
    """A stand-in for what the library returns."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def page(self) -> Page:
        return Page("a result", Badge("forked", "bad"), (Facts((("fork", "step 7"),)),), ("d.moves",))

    def to_json(self) -> dict[str, Any]:
        return {"afnb": "diff", "schema_version": "1", "inf": float("inf"), "text": "é"}


@pytest.fixture
def diffs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let ``afnb.diff`` return or raise what a test wants."""

    def give(result: Any) -> None:
        def diff(bad: Any, good: Any) -> Any:
            if isinstance(result, BaseException):
                raise result
            return result

        monkeypatch.setattr(afnb, "load", lambda path: path, raising=False)
        monkeypatch.setattr(afnb, "diff", diff, raising=False)

    return give


DIFF = ["diff", "bad.json", "--against", "good.json"]


def test_the_agents_command_is_split_off_at_the_first_dashes() -> None:
    assert split_command(["a", "--", "b", "--", "c"]) == (["a"], ["b", "--", "c"])
    assert split_command(["a"]) == (["a"], None)
    assert split_command(["a", "--"]) == (["a"], [])


@pytest.mark.parametrize(
    ("fork", "comparable", "status"),
    [(None, True, 0), (object(), True, 1), (None, False, 2), (object(), False, 2)],
)
def test_diff_ends_as_diff_does(
    diffs: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    fork: object,
    comparable: bool,
    status: int,
) -> None:
    diffs(Result(fork=fork, comparable=comparable, reason="nothing in common"))
    assert main(DIFF) == status
    out, err = capsys.readouterr()
    assert out.startswith("a result [✗ forked]\nfork  step 7\n")
    assert ("nothing in common" in err) == (not comparable)


def test_json_is_one_strict_document(diffs: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    diffs(Result(fork=None, comparable=True))
    assert main([*DIFF, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"afnb": "diff", "schema_version": "1", "inf": None, "text": "é"}
    assert (out.count("\n"), err) == (1, "")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (InputError("expected a cassette, found a list", path="bad.json"), "bad.json: expected a cassette"),
        (
            FileNotFoundError(2, "No such file or directory", "bad.json"),
            "bad.json: No such file or directory",
        ),
        (PermissionError(13, "Permission denied", "bad.json"), "bad.json: Permission denied"),
        (KeyError("steps"), "unexpected KeyError"),
        (RecursionError("too deep"), "unexpected RecursionError"),
        (MemoryError(), "unexpected MemoryError"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), "unexpected UnicodeDecodeError"),
        (InputError("two\nlines \x1b[31m"), "two⏎lines ⟨ESC⟩[31m"),
    ],
)
def test_every_error_is_one_sentence_and_status_2(
    diffs: Callable[..., None], capsys: pytest.CaptureFixture[str], error: Exception, sentence: str
) -> None:
    diffs(error)
    assert main(DIFF) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_defect_can_be_looked_into(diffs: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFNB_TRACEBACK", "1")
    diffs(KeyError("steps"))
    with pytest.raises(KeyError):
        main(DIFF)


def test_an_interrupt_is_130_and_says_how_to_go_on(
    diffs: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    diffs(KeyboardInterrupt())
    assert main(DIFF) == 130
    assert capsys.readouterr().err == "afnb: interrupted; nothing of this command was kept, run it again\n"


USAGE = [
    ([], "required: COMMAND"),
    (["nonsense"], "invalid choice: 'nonsense'"),
    (["diff", "bad.json"], "required: --against"),
    (["diff", "a", "--against", "b", "--jso"], "unrecognized arguments: --jso"),
    (["diff", "a", "--against", "b", "c"], "afnb diff: unrecognized arguments: c; see: afnb diff --help"),
    (["diff", "a", "--against", "b", "--", "x"], "nothing may follow --"),
    (
        ["record", "--out", "x", "--upstream", "u", "python", "agent.py", "-v"],
        "afnb record: unrecognized arguments: python agent.py -v; the agent's command follows --, "
        "as in: afnb record [options] -- CMD ARGS...; see: afnb record --help",
    ),
    (["replay", "x.json", "python", "agent.py"], "the agent's command follows --"),
    (["attribute", "a", "--against", "b", "python", "agent.py"], "the agent's command follows --"),
    (["what-if", "a", "--step", "1", "python", "agent.py"], "the agent's command follows --"),
    (["replay", "x.json", "--sav", "y", "--", "x"], "arguments: --sav y; see: afnb replay --help"),
    (["record", "--out", "x", "--upstream", "u"], "end with: -- CMD ARGS..."),
    (["record", "--out", "x", "--upstream", "u", "--"], "end with: -- CMD ARGS..."),
    (
        ["attribute", "a", "--against", "b", "--alpha", "1.5", "--", "x"],
        "'1.5' is not a number between 0 and 1",
    ),
    (
        ["attribute", "a", "--against", "b", "--alpha", "nan", "--", "x"],
        "'nan' is not a number between 0 and 1",
    ),
    (
        ["attribute", "a", "--against", "b", "--n-jobs", "0", "--", "x"],
        "'0' is not a whole number of at least 1",
    ),
    (
        ["attribute", "a", "--against", "b", "--budget-live-calls", "-3", "--", "x"],
        "'-3' is not a whole number",
    ),
    (
        ["attribute", "a", "--against", "b", "--budget-live-calls", "many", "--", "x"],
        "'many' is not a whole number",
    ),
    (["attribute", "a", "--against", "b", "--price", "m=1", "--", "x"], "'m=1' is not MODEL=IN,OUT"),
    (["what-if", "a", "--step", "x", "--", "x"], "'x' is not a whole number of at least 0"),
]


@pytest.mark.parametrize(("argv", "sentence"), USAGE, ids=[" ".join(argv) for argv, _ in USAGE])
def test_wrong_arguments_are_one_sentence(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert "--help" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*([name.replace("_", "-")] if name else []), "--help"]) == 0
    out = capsys.readouterr().out
    assert "example" in out or "start here" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"afnb {afnb.__version__}\n"


def test_a_terminal_gets_colour_and_no_color_is_obeyed(
    diffs: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    diffs(Result(fork=None, comparable=True))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    main(DIFF)
    coloured = capsys.readouterr().out
    assert "\x1b[" in coloured
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            main(DIFF)
            assert "\x1b[" not in capsys.readouterr().out


def test_out_writes_files_and_never_into_a_full_folder(
    diffs: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    moves = pa.table({"move": [0, 1]})
    diffs(Result(fork=None, comparable=True, moves=moves, field_diffs="no table"))
    out = tmp_path / "new" / "folder"
    assert main([*DIFF, "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["card.html", "moves.parquet", "result.json"]
    assert pq.read_table(out / "moves.parquet") == moves
    assert json.loads((out / "result.json").read_text())["afnb"] == "diff"
    assert "Content-Security-Policy" in (out / "card.html").read_text()
    assert main([*DIFF, "--out", str(out)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main([*DIFF, "--out", str(out / "result.json")]) == 2
    assert "is a file" in capsys.readouterr().err
    assert main([*DIFF, "--out", str(out / "result.json" / "below")]) == 2
    assert "cannot be made" in capsys.readouterr().err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_quiet(unbuffered: str) -> None:
    code = """
import os, sys
import afnb, afnb.cli.app as app
from afnb.core.page import Page, Text

class Result:
    fork, comparable = None, True
    def page(self):
        return Page("t", parts=(Text("word " * 400),) * 100)

afnb.load, afnb.diff = lambda path: path, lambda bad, good: Result()
r, w = os.pipe()
os.close(r)
os.dup2(w, 1)
sys.exit(app.main(["diff", "a", "--against", "b"]))
"""
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (141, "")


def test_a_terminal_without_unicode_gets_stand_ins(tmp_path: Path) -> None:
    code = "import afnb.cli.app as app; app._forgiving_streams(); print('✓ 退款')"
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=60, check=True)
    assert done.stdout == b"? ??\n"


def test_python_m_afnb_is_the_command(afnb_process: Process) -> None:
    done = afnb_process("--version")
    assert (done.returncode, done.stdout) == (0, f"afnb {afnb.__version__}\n")


def test_unreadable_files_are_one_sentence(afnb_process: Process, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_bytes(b'{"cassette_version": "0.1", "id": "x", "exch')
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00{")
    for name in ("missing.json", "broken.json", "bytes.json", "."):
        done = afnb_process("diff", name, "--against", name)
        assert done.returncode == 2, name
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert "unexpected" not in done.stderr


def verdicts(monkeypatch: pytest.MonkeyPatch, name: str, label: str) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []

    def call(*args: Any, **options: Any) -> Any:
        seen.append({"args": args, **options})
        return Result(label=label)

    monkeypatch.setattr(afnb, "load", lambda path: path, raising=False)
    monkeypatch.setattr(afnb, name, call, raising=False)
    return seen


@pytest.mark.parametrize(("label", "status"), [("verified", 0), ("Unverified", 1)])
def test_attribute_passes_its_arguments_on(monkeypatch: pytest.MonkeyPatch, label: str, status: int) -> None:
    seen = verdicts(monkeypatch, "attribute", label)
    argv = "attribute b.json --against g.json --upstream http://x --n-jobs 8 --seed 3 --alpha 0.01 --origin"
    more = "--success regex:paid --max-replays 12 --allow-tools a,b --allow-tools c"
    money = "--budget-live-calls none --budget-tokens 9"
    agent = "--base-url-env A_URL --base-url-env B_URL --timeout-s none -- python agent.py --json"
    assert main(f"{argv} {more} {money} {agent}".split()) == status
    (call,) = seen
    assert call["args"] == ("b.json", "g.json")
    assert (call["upstream"], call["n_jobs"], call["seed"], call["origin"]) == ("http://x", 8, 3, True)
    assert (call["consensus"].alpha, call["consensus"].max_replays) == (0.01, 12)
    assert call["allow_tools"] == ["a", "b", "c"]
    assert (call["budget"].live_calls, call["budget"].tokens) == (None, 9)
    assert call["oracle"].describe() == "answer matches /paid/"
    assert call["agent"].argv == ("python", "agent.py", "--json")
    assert (call["agent"].base_url_env, call["agent"].timeout_s) == (("A_URL", "B_URL"), None)


ASK = ["--upstream", "http://x", "--success", "regex:paid"]


def test_attribute_says_that_nobody_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = verdicts(monkeypatch, "attribute", "verified")
    assert main(["attribute", "b", "--against", "g", "--", "x"]) == 2
    assert "--upstream is missing" in capsys.readouterr().err
    assert seen == []


@pytest.mark.parametrize("name", ["attribute", "what-if"])
def test_an_out_that_cannot_be_written_stops_it_before_anything_is_spent(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = verdicts(monkeypatch, name.replace("-", "_"), "verified")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    change = ["--against", "g"] if name == "attribute" else ["--step", "1", "--resample"]
    assert main([name, "b", *change, "--out", str(tmp_path / "full"), "--", "x"]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert seen == []


def test_one_job_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = verdicts(monkeypatch, "attribute", "verified")
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    assert main(["attribute", "b", "--against", "g", "--n-jobs", "-1", *ASK, "--", "x"]) == 0
    assert seen[0]["n_jobs"] == 6


def test_what_if_makes_its_interventions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = verdicts(monkeypatch, "what_if", "verified")
    (tmp_path / "a.json").write_text('{"status": "paid"}')
    (tmp_path / "b.txt").write_text("plain words")
    value = ["--value", str(tmp_path / "a.json"), "--value", str(tmp_path / "b.txt")]
    assert main(["what-if", "b.json", "--step", "3", "--step", "5", *value, *ASK, "--", "x"]) == 0
    assert main(["what-if", "b.json", "--step", "3", "--graft", "g.json", *ASK, "--", "x"]) == 0
    assert main(["what-if", "b.json", "--step", "3", "--resample", *ASK, "--", "x"]) == 0
    edits, graft, resample = (call["args"][1] for call in seen)
    assert edits == [afnb.Edit(3, {"status": "paid"}), afnb.Edit(5, "plain words")]
    assert (graft, resample) == ([afnb.Graft(3)], [afnb.Resample(3)])
    assert [call["good"] for call in seen] == [None, "g.json", None]


def test_what_if_changes_what_is_asked_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = verdicts(monkeypatch, "what_if", "verified")
    (tmp_path / "said.txt").write_text("Think first.\n")
    said = str(tmp_path / "said.txt")
    for change in (
        ["--step", "0", "--system-prompt", said],
        ["--step", "2", "--step", "4", "--drop-message", "1", "--drop-message", "-2"],
        ["--step", "2", "--insert-message", f"1={said}"],
        ["--step", "2", "--resample", "--model", "large"],
    ):
        assert main(["what-if", "b.json", *change, *ASK, "--", "x"]) == 0
    assert [call["args"][1] for call in seen] == [
        [afnb.SystemPrompt(0, "Think first.")],
        [afnb.DropMessage(2, 1), afnb.DropMessage(4, -2)],
        [afnb.InsertMessage(2, 1, "Think first.")],
        [afnb.Resample(2, "large")],
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--step", "3"], "--drop-message, --insert-message; found none of them"),
        (["--step", "3", "--resample", "--graft", "g"], "found --graft and --resample"),
        (["--step", "3", "--step", "4", "--value", "v"], "2 --step and 1 --value are given"),
        (["--step", "3", "--value", "missing.json"], "missing.json: No such file"),
        (["--step", "3", "--system-prompt", "missing.txt"], "missing.txt: No such file"),
        (["--step", "3", "--system-prompt", sys.executable], "is no UTF-8; give a text file"),
        (["--step", "3", "--step", "4", "--drop-message", "1"], "2 --step and 1 --drop-message are given"),
        (["--step", "3", "--insert-message", "hint.txt"], "it is N=FILE"),
        (["--step", "3", "--insert-message", "1=missing.txt"], "missing.txt: No such file"),
        (["--step", "3", "--drop-message", "1", "--resample"], "found --resample and --drop-message"),
        (["--step", "3", "--value", sys.executable], "is no UTF-8"),
        (
            ["--step", "3", "--resample", "--upstream", "http://x"],
            "--success is missing: say what a recovered run looks like, by regex:PATTERN, jsonpath:PATH or",
        ),
        (["--step", "3", "--resample", "--success", "regex:paid"], "--upstream is missing"),
    ],
)
def test_what_if_says_what_is_missing(
    options: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts(monkeypatch, "what_if", "verified")
    assert main(["what-if", "b.json", *options, "--", "x"]) == 2
    assert sentence in capsys.readouterr().err


def test_stdin_can_hold_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = verdicts(monkeypatch, "what_if", "Unverified")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(read=lambda: "[1, 2]"))
    assert main(["what-if", "b.json", "--step", "3", "--value", "-", *ASK, "--", "x"]) == 1
    assert seen[0]["args"][1] == [afnb.Edit(3, [1, 2])]
