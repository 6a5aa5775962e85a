from __future__ import annotations

import functools
from typing import Any

import pytest

from afnb.causal.interventions import Edit
from afnb.causal.lambdas import is_lambda, lambda_source
from afnb.causal.oracles import Outcome
from afnb.core.run import Run

WORD = "paid"


def named(run: Any) -> bool:
    return True


def closing_over(word: str) -> Any:
    return lambda run: word in run.answer


def test_a_lambda_is_known_by_its_source() -> None:
    assert lambda_source(lambda run: WORD in run.answer) == "lambda run: WORD in run.answer"
    assert lambda_source(closing_over("x")) == "lambda run: word in run.answer"
    assert lambda_source(lambda run, least=2: len(run) > least) == "lambda run, least=2: len(run) > least"


def test_lines_become_one_and_long_ones_are_cut() -> None:
    several = lambda_source(
        lambda run: [
            WORD,
            run.answer,
        ]
    )
    assert several == "lambda run: [ WORD, run.answer, ]"
    long = lambda_source(
        lambda run: (
            "a long text that goes on and on" in run.answer
            and "another long text, on and on and on and on" in run.task
        )
    )
    assert long is not None
    assert long.startswith('lambda run: ( "a long text')
    assert (len(long), long[-3:]) == (120, "...")


def test_several_on_a_line_are_told_apart() -> None:
    first, second = (lambda run: run.answer == "a", lambda run: run.answer == "b")
    assert lambda_source(first) == 'lambda run: run.answer == "a"'
    assert lambda_source(second) == 'lambda run: run.answer == "b"'
    outer = lambda run: lambda text: text == "c"  # noqa: E731
    assert lambda_source(outer) == 'lambda run: lambda text: text == "c"'
    assert lambda_source(outer(None)) == 'lambda text: text == "c"'


@pytest.mark.parametrize("f", [named, len, functools.partial(named), 3, eval("lambda run: True")])
def test_what_cannot_be_told_is_not_guessed(f: Any) -> None:
    assert lambda_source(f) is None


def test_a_file_that_changed_since_is_not_believed(tmp_path: Any) -> None:
    path = tmp_path / "mine.py"
    path.write_text("\n\njudge = lambda run: run.answer == 'other things'\n")
    found: dict[str, Any] = {}
    exec(compile("\n\njudge = lambda run: run.answer == 'a'\n", str(path), "exec"), found)
    assert is_lambda(found["judge"])
    assert lambda_source(found["judge"]) is None


def test_nobody_reads_angle_brackets() -> None:
    oracle = Outcome(lambda run: run.answer == "paid")
    assert oracle.describe() == 'a function (lambda) of the run: lambda run: run.answer == "paid"'
    assert oracle.judge(Run("r", answer="paid")).detail == "lambda is True"
    assert Outcome(eval("lambda run: True")).describe() == "a function (lambda) of the run"
    assert Outcome(named).describe() == "named"
    assert Outcome(lambda run: True, name="says paid").describe() == "says paid"
    assert Edit(3, lambda recorded: recorded).describe() == "step 3 = lambda(recorded)"
