from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

import afnb
from afnb.align.diff import Diff, NotComparable, diff
from afnb.align.params import AlignParams
from afnb.core.cassette import Cassette, Exchange, Request, Response
from afnb.core.jsonvalue import MISSING, dumps
from afnb.core.run import Run, Step
from afnb.errors import ParameterError
from afnb.tables.build import build

from .parity import diff_json, error_parameter, params_of, run_of
from .runs import params, runs


def test_diff_vectors(vectors: Callable[[str], list[dict[str, Any]]]) -> None:
    """The whole document, floats compared exactly; errors by the parameter they are about."""
    wrong = []
    for vector in vectors("align"):
        bad, good = run_of(vector["b"]), run_of(vector["a"])
        try:
            settings, max_steps = params_of(vector["params"])
            got = diff_json(diff(bad, good, settings, max_steps))
            expected = vector["expect"]
        except ParameterError as error:
            got = {"error": error_parameter(str(error))}
            expected = {key: error_parameter(value) for key, value in vector["expect"].items()}
        # compared as text: 1 and 1.0 differ
        if json.dumps(got, sort_keys=True) != json.dumps(expected, sort_keys=True):
            wrong.append((vector, got))
    assert wrong == []


def run(name: str, *texts: str, **fields: Any) -> Run:
    return Run(name, tuple(Step(i, "llm", "act", outputs=text) for i, text in enumerate(texts)), **fields)


GOOD = run("good", "look up the order", "the window is thirty days", "refund issued", outcome="pass")
BAD = run("bad", "look up the order", "no policy could be found", "sorry, declined", outcome="fail")


def test_a_fork_and_what_follows() -> None:
    found = diff(BAD, GOOD)
    assert type(found) is Diff
    assert found.comparable
    assert found.reason is None
    assert found.fork is not None
    assert (found.fork.bad_step, found.fork.good_step, found.fork.move) == (1, 1, 1)
    assert found.fork.two_sided
    assert found.fork_step_observed == found.origin == 1
    assert found.propagation == (2,)
    assert not found.converged
    assert [d.path for d in found.at_fork()] == ["outputs"]


def test_converged() -> None:
    found = diff(GOOD, GOOD)
    assert found.converged
    assert (found.fork, found.origin, found.propagation, found.at_fork()) == (None, None, (), ())


def test_empty_runs() -> None:
    empty = Run("empty")
    assert diff(empty, empty).converged
    assert diff(empty, GOOD).fork_step_observed == 0
    assert diff(GOOD, empty).propagation == (1, 2)


@given(runs(), runs(), params)
def test_a_diff_is_whole(bad: Run, good: Run, params: AlignParams) -> None:
    found = diff(bad, good, params)
    document = found.to_json()
    assert json.loads(json.dumps(document)) == json.loads(dumps(document))
    assert document["schema_version"] == "1"
    assert document["afnb_version"] == afnb.__version__
    assert found.converged == (found.fork is None)
    assert isinstance(found, NotComparable) != found.comparable
    assert build("moves", found.move_rows()).num_rows == len(found.moves)
    assert build("field_diffs", found.field_diff_rows()).num_rows == len(found.field_diffs)
    assert found.to_text()
    assert "<" in found._repr_html_()
    assert bad.id in repr(found)
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert again.to_json() == document


def test_rows_are_plain_values() -> None:
    rows = diff(BAD, GOOD).move_rows()
    assert list(rows[0]) == ["move", "kind", "bad_step", "good_step", "cost", "confidence", "in_sync"]
    assert [type(value) for value in rows[0].values()] == [int, str, int, int, float, float, bool]
    fields = diff(run("b", "x"), Run("g", (Step(0, "llm", "act"),))).field_diff_rows()
    assert fields == [
        {"move": 0, "path": "outputs", "kind": "added", "good_value": MISSING, "bad_value": "x"}
    ]


def test_the_document_keeps_null_and_absent_apart() -> None:
    bad, good = (Run("r", (Step(0, "llm", "act", outputs=value),)) for value in ({"a": None}, {"b": 1}))
    rows = diff(bad, good).to_json()["field_diffs"]
    assert rows == [
        {"move": 0, "path": "outputs.a", "kind": "added", "bad_value": None},
        {"move": 0, "path": "outputs.b", "kind": "removed", "good_value": 1},
    ]


def test_digests_tell_what_was_compared() -> None:
    one, two = diff(BAD, GOOD).to_json(), diff(BAD, copy.deepcopy(GOOD)).to_json()
    assert one["good"]["digest"] == two["good"]["digest"] != one["bad"]["digest"]
    absent, null = (Run("r", (Step(0, "llm", "act", outputs=value),)) for value in (MISSING, None))
    document = diff(absent, null).to_json()
    assert document["good"]["digest"] != document["bad"]["digest"]


def test_warnings_say_which_run() -> None:
    bad = run_of({"schema_version": "9", "id": "b", "steps": []})
    found = diff(bad, GOOD)
    assert [(warn.code, warn.message[:9]) for warn in found.warnings] == [("schema_version", "bad run: ")]
    assert "bad run: schema_version" in found.to_text()


def test_cassettes_are_compared_as_their_runs() -> None:
    def tape(name: str, *answers: str) -> Cassette:
        exchanges = []
        for i, answer in enumerate(answers):
            body = dumps({"model": "m", "messages": [{"role": "user", "content": f"question {i}"}]}).encode()
            said = {
                "role": "assistant",
                "content": [{"type": "text", "text": answer}],
                "stop_reason": "end_turn",
            }
            exchanges.append(
                Exchange(
                    i, Request("POST", "/v1/messages", (), body), Response(200, (), dumps(said).encode())
                )
            )
        return Cassette(name, tuple(exchanges))

    found = diff(
        tape("b", "alpha beta gamma", "no idea at all"), tape("g", "alpha beta gamma", "sum is twelve")
    )
    assert found.bad.id == "b"
    assert found.fork_step_observed == 1
    assert found.fork is not None
    assert [d.path for d in found.at_fork()] == ["outputs.text"]


@pytest.mark.parametrize(
    ("bad", "good", "says"), [("x", GOOD, "bad is a str"), (BAD, None, "good is a NoneType")]
)
def test_other_values_are_refused(bad: Any, good: Any, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        diff(bad, good)


def test_params_are_checked() -> None:
    with pytest.raises(ParameterError, match="params is a dict"):
        diff(BAD, GOOD, {"tau": 0.3})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="max_steps=3"):
        diff(BAD, GOOD, max_steps=2)


def test_the_card() -> None:
    text = diff(BAD, GOOD).to_text()
    assert "bad against good [✗ forked at step 1]" in text
    assert "outcome fail" in text
    assert "no policy could be found" in text
    assert "afnb.attribute" in text
    assert "≠ unlike: bad 2 act, good 2 act; cost" in text
    assert "unlike" in diff(BAD, GOOD)._repr_html_()
    assert "converged" in diff(GOOD, GOOD).to_text()
    extra = run("extra", "look up the order", "again look up", "the window is thirty days", "refund issued")
    assert "apart from 1 step" in diff(extra, GOOD).to_text()


def test_the_card_of_one_sided_forks() -> None:
    lacking = run("bad", "look up the order")
    assert "leaves out step 1 act" in diff(lacking, GOOD).to_text()
    longer = run("bad", *[str(step.outputs) for step in GOOD.steps], "and then deleted everything")
    assert "At step 3 act the bad run does something" in diff(longer, GOOD).to_text()
