from __future__ import annotations

import functools
import subprocess
import sys

import pytest

from afnb.causal.jsonpath import parse_path
from afnb.causal.marks import digest
from afnb.causal.oracles import (
    AnswerEquals,
    Converges,
    ExitStatus,
    Judgement,
    Matches,
    Oracle,
    Outcome,
    as_oracle,
    converges,
)
from afnb.core.jsonvalue import MISSING
from afnb.core.run import Run, Step
from afnb.errors import ParameterError


def run(*texts, **more):
    steps = tuple(Step(i, "llm", "llm", outputs={"text": t, "tool_calls": []}) for i, t in enumerate(texts))
    return Run("run", steps, **more)


def from_trace(data):
    steps = data["steps"]
    return Run(
        data["id"],
        tuple(
            Step(s["idx"], s["kind"], s["name"], s.get("inputs", MISSING), s.get("outputs", MISSING))
            for s in steps
        ),
    )


WORDS = {"Recovered": "recovered", "NotRecovered": "not_recovered", "Inconclusive": "inconclusive"}


def test_recovery_vectors(vectors):
    seen = {}
    for vector in vectors("attrib"):
        if vector["op"] != "recovery":
            continue
        found = converges(
            from_trace(vector["good"]),
            from_trace(vector["reexecuted"]),
            reached=vector["origin"],
            max_steps=vector["params"].get("max_steps", 2000),
        )
        assert found.recovery == WORDS[vector["expect"]["verdict"]], vector
        seen[found.recovery] = seen.get(found.recovery, 0) + 1
    assert set(seen) == set(WORDS.values())


def relabel(vector):
    """The single-origin reading of a reduction: origin, propagation, verdict."""
    region, steps = vector["region"], [step for step, _ in vector["candidates"]]
    word = {"minimized": "recovered", "persisted": "not_recovered", "inconclusive": "unverified"}
    verdict = word[vector["reduction"]]
    if vector["reduction"] != "minimized":
        return {
            "origin_step": region[0] if region else None,
            "propagation": region[1:],
            "recovered": verdict,
        }
    chosen = [steps[i] for i in vector["subset"] if i < len(steps)]
    origin = min(chosen, default=None)
    return {
        "origin_step": origin,
        "propagation": [step for step in region if step != origin],
        "recovered": verdict,
    }


def test_relabel_vectors(vectors):
    seen = 0
    for vector in vectors("attrib"):
        if vector["op"] == "relabel":
            assert relabel(vector) == vector["expect"], vector
            seen += 1
    assert seen > 20


def test_converges():
    good = run("look up the order", "window is thirty days", "refund issued to the customer")
    oracle = Converges(good)
    assert oracle.judge(good).recovery == "recovered"
    forked = oracle.judge(run("look up the order", "no policy found anywhere", "sorry we must decline"))
    assert forked.recovery == "not_recovered"
    assert "step 1" in forked.detail
    strange = oracle.judge(run("white knight castles queenside", "stalemate, draw agreed", "clock stopped"))
    assert strange.recovery == "not_recovered"
    assert "not comparable" in strange.detail
    assert oracle.judge(run()).recovery == "inconclusive"
    assert oracle.fingerprint() != Converges(run("other")).fingerprint()
    assert oracle.fingerprint() == Converges(good).fingerprint()
    with pytest.raises(ParameterError, match="str"):
        Converges("good.json")


class Grumpy:
    def __bool__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("said", "recovery"),
    [
        (True, "recovered"),
        (False, "not_recovered"),
        (None, "inconclusive"),
        ("recovered", "recovered"),
        ("not_recovered", "not_recovered"),
        ("inconclusive", "inconclusive"),
        ("yes", "inconclusive"),
        (1, "inconclusive"),
        (0.0, "inconclusive"),
        ([], "inconclusive"),
        (Grumpy(), "inconclusive"),
        (Judgement("recovered", "as I say"), "recovered"),
    ],
)
def test_what_a_predicate_may_say(said, recovery):
    found = Outcome(lambda _: said).judge(run("a"))
    assert found.recovery == recovery
    assert found.detail


def test_numpy_booleans_are_booleans():
    numpy = pytest.importorskip("numpy")
    assert Outcome(lambda _: numpy.bool_(True)).judge(run("a")).recovery == "recovered"


def test_a_raising_oracle_is_inconclusive_with_its_reason():
    def broken(_run):
        raise KeyError("refund")

    found = Outcome(broken).judge(run("a"))
    assert (found.recovery, found.detail) == ("inconclusive", "the oracle raised KeyError: 'refund'")
    found = Outcome(lambda _run: sys.exit(3)).judge(run("a"))
    assert (found.recovery, found.detail) == ("inconclusive", "the oracle raised SystemExit: 3")


def test_answer_equals_is_typed():
    assert AnswerEquals(1).judge(run(answer=1)).recovery == "recovered"
    for answer in (1.0, True, "2", None, [1]):
        assert AnswerEquals(1).judge(run(answer=answer)).recovery == "not_recovered"
    assert AnswerEquals("1").judge(run(answer=1)).recovery == "not_recovered"
    assert AnswerEquals([1]).judge(run(answer="[1]")).recovery == "recovered"
    assert AnswerEquals(None).judge(run()).recovery == "recovered"
    with pytest.raises(ParameterError, match="no JSON value"):
        AnswerEquals({1, 2})


def test_matches():
    assert Matches("paid$").judge(run(answer="is paid")).recovery == "recovered"
    assert Matches("paid").judge(run()).detail == "the run has no answer"
    assert Matches("ok", where="stdout").judge(run(stdout="all ok\n")).recovery == "recovered"
    assert Matches('"n":2').judge(run(answer={"n": 2})).recovery == "recovered"
    assert Matches(jsonpath="$.a").judge(run(answer="not json")).recovery == "not_recovered"
    assert Matches(jsonpath="$.a[1] == 2").judge(run(answer={"a": [1, 2]})).recovery == "recovered"
    for arguments in ({}, {"pattern": "a", "jsonpath": "$"}):
        with pytest.raises(ParameterError, match="either"):
            Matches(**arguments)
    with pytest.raises(ParameterError, match="no regular expression"):
        Matches("(")
    with pytest.raises(ParameterError, match="'log'"):
        Matches("a", where="log")


def test_exit_status():
    assert ExitStatus().judge(run(exit_status=0)).recovery == "recovered"
    assert ExitStatus(3).judge(run(exit_status=0)).recovery == "not_recovered"
    assert ExitStatus().judge(run()).recovery == "inconclusive"


def test_as_oracle():
    assert as_oracle(ExitStatus()) == ExitStatus()
    assert isinstance(as_oracle(lambda run: True), Outcome)
    assert as_oracle("regex:a:b") == Matches("a:b")
    assert as_oracle("jsonpath:$.x == 1") == Matches(jsonpath="$.x == 1")
    for value in ("yes", "regex:", 3, None, ExitStatus):
        with pytest.raises(ParameterError):
            as_oracle(value)
    for oracle in (Converges(run("a")), Outcome(len), AnswerEquals(1), Matches("a"), ExitStatus()):
        assert isinstance(oracle, Oracle)
        assert oracle.describe()
        assert len(oracle.fingerprint()) == 32


# -- the JSON path ---------------------------------------------------------------------------------


DOCUMENT = {"a": [{"b": 1}, {"b": [2, 3]}], "it's": {"b": None, "x-y": "z"}, "empty": {}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", [DOCUMENT]),
        ("$.a[0].b", [1]),
        ("$.a[-1].b[0]", [2]),
        ("$.a[*].b", [1, [2, 3]]),
        ("$..b", [1, [2, 3], None]),
        ('$["it\'s"]["x-y"]', ["z"]),
        ("$.*.b", [None]),
        ("$.a[9]", []),
        ("$.a.b", []),
        ("$.missing", []),
        (" $ . a [ 0 ] ".replace(" . ", ".").strip(), [{"b": 1}]),
    ],
)
def test_paths(path, found):
    assert parse_path(path).select(DOCUMENT) == found


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        ("$.a", True),
        ("$.missing", False),
        ("$.a[0].b == 1", True),
        ("$.a[0].b == 1.0", False),
        ("$.a[0].b == true", False),
        ("$.a[*].b == [2, 3]", True),
        ("$.a[0].b != 2", True),
        ("$.missing != 2", False),
        ('$["it\'s"].b == null', True),
        ('$["it\'s"]["x-y"]=="z"', True),
        ("$.empty == {}", True),
    ],
)
def test_comparisons(path, holds):
    assert parse_path(path).holds(DOCUMENT) is holds


@pytest.mark.parametrize("path", ["a.b", "", "$.a[?(@.b)]", "$[1:2]", "$.a == z", "$.a ==", "$.a; x", "$.a."])
def test_other_paths_are_refused_with_a_sentence(path):
    with pytest.raises(ParameterError, match="JSON path"):
        parse_path(path)


# -- fingerprints ----------------------------------------------------------------------------------


def make(word, least=1):
    def judged(run, least=least):
        return word in run.answer and len(run) >= least

    return judged


class Callable:
    def __init__(self, word):
        self.word = word

    def __call__(self, run):
        return self.word in run.answer


def test_fingerprints_follow_the_definition():
    marks = [
        Outcome(f).fingerprint()
        for f in (
            make("a"),
            make("b"),
            make("a", 2),
            functools.partial(make, "a"),
            functools.partial(make, "b"),
            Callable("a"),
            Callable("b"),
            Callable("a").__call__,
            len,
            max,
            lambda run: run.answer in {"a", "b"},
            lambda run: run.answer in {"a", "c"},
        )
    ]
    assert len(set(marks)) == len(marks)
    assert Outcome(make("a")).fingerprint() == marks[0]
    assert Outcome(Callable("a")).fingerprint() == marks[5]


def test_fingerprints_are_the_same_in_another_process():
    code = (
        "from afnb.causal.marks import digest\n"
        "def make(word):\n"
        "    return lambda run, n={'x': 1.5}: run.answer in {'a', 'b', 'c', word}\n"
        "print(digest(make('w'), object(), {'s', 't', 'u'}, {'k': [1, None]}))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": ":".join(p for p in sys.path if p)},
        ).stdout
        for seed in (1, 2)
    }
    assert len(outputs) == 1


def test_a_value_that_holds_itself_has_a_mark():
    loop = [1]
    loop.append(loop)
    assert digest(loop) != digest([1])
