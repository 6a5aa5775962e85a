from __future__ import annotations

import sys

import pytest

from afnb.cli.success import CommandOracle, oracle_of
from afnb.core.run import Run, Step
from afnb.errors import ParameterError

RUN = Run(
    "r",
    (Step(0, "llm", "llm", outputs={"text": "paid", "tool_calls": []}), Step(1, "tool", "t")),
    answer="paid",
)


def test_regex_and_jsonpath_judge_the_answer() -> None:
    assert oracle_of("regex:^pa").judge(RUN).recovery == "recovered"
    assert oracle_of("regex:a:b").judge(RUN).recovery == "not_recovered"
    said = Run("r", answer='{"status": "paid"}')
    assert oracle_of('jsonpath:$.status == "paid"').judge(said).recovery == "recovered"


@pytest.mark.parametrize("text", ["", "regex:", "paid", "python:True", "cmd:", "cmd: ", "REGEX:x"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="none of regex:PATTERN, jsonpath:PATH or cmd:COMMAND"):
        oracle_of(text)


@pytest.mark.parametrize("text", ["regex:(", "jsonpath:$[", "cmd:'unclosed"])
def test_broken_expressions_are_named(text: str) -> None:
    with pytest.raises(ParameterError):
        oracle_of(text)


def python(code: str) -> CommandOracle:
    return CommandOracle((sys.executable, "-c", code))


@pytest.mark.parametrize(
    ("status", "recovery"),
    [(0, "recovered"), (1, "not_recovered"), (2, "inconclusive"), (127, "inconclusive")],
)
def test_the_commands_status_decides(status: int, recovery: str) -> None:
    found = python(f"import sys; print('because'); sys.exit({status})").judge(RUN)
    assert found.recovery == recovery
    assert found.detail == f"the command ended with {status}: because"


def test_the_command_reads_the_run() -> None:
    code = (
        "import json, sys; r = json.load(sys.stdin); "
        "sys.exit(not (r['answer'] == 'paid' and r['steps'][1]['outputs'] is None))"
    )
    assert python(code).judge(RUN).recovery == "recovered"


def test_a_command_that_cannot_run_says_nothing_about_the_run() -> None:
    found = CommandOracle(("no-such-command-here",)).judge(RUN)
    assert (found.recovery, found.detail) == (
        "inconclusive",
        "the command cannot be run: No such file or directory",
    )
    slow = CommandOracle((sys.executable, "-c", "import time; time.sleep(30)"), timeout_s=0.2).judge(RUN)
    assert (slow.recovery, slow.detail) == ("inconclusive", "the command took longer than 0.2 s")


def test_no_shell_is_involved() -> None:
    oracle = oracle_of("cmd:echo $HOME; exit 1")
    assert isinstance(oracle, CommandOracle)
    assert oracle.argv == ("echo", "$HOME;", "exit", "1")
    assert oracle.judge(RUN).recovery == "recovered"


def test_fingerprints_follow_the_command() -> None:
    assert oracle_of("cmd:a b").fingerprint() == oracle_of("cmd:a  b").fingerprint()
    assert oracle_of("cmd:a b").fingerprint() != oracle_of("cmd:a c").fingerprint()
