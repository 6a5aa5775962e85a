from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import afnb
from afnb.core.jsonvalue import MISSING, equal
from afnb.core.run import Run, Step
from afnb.errors import InputError, ParameterError
from afnb.io.formats.trace import from_json, from_text, read_trace, to_json, write_trace

CODES = {
    "schema_version": "schema-version-mismatch",
    "unknown_fields": "unmapped-attributes",
    "no_content": "content-absent",
}


def kind_of(message: str) -> str:
    """json_lines, not_json or not_a_trace, from a message of ours or of the reference."""
    if "JSON-Lines" in message or "one a line" in message:
        return "json_lines"
    if message.startswith(("failed to parse", "not JSON:", "not UTF-8", "JSON nested")):
        return "not_json"
    return "not_a_trace"


def names_in(message: str) -> set[str]:
    """What a warning is about: the step's head and the fields it lists."""
    step = re.match(r"step (\d+) \((.*?)\): ", message)
    fields = re.search(r": ([^:()]*)$", message)
    listed = (
        set(fields[1].split(", "))
        if fields and "content" not in message and "inputs" not in message
        else set()
    )
    return listed | ({step[0]} if step else set())


def test_ingest_vectors(vectors: Callable[[str], list[dict[str, Any]]]) -> None:
    wrong = []
    for vector in vectors("ingest"):
        expected = vector["expect"]
        try:
            run = from_text(vector["text"])
        except InputError as error:
            got: dict[str, Any] = {"error": kind_of(str(error))}
            wanted: dict[str, Any] = {key: kind_of(value) for key, value in expected.items()}
            same = got == wanted
        else:
            got = {
                "run": to_json(run),
                "warnings": [(CODES[w.code], names_in(w.message)) for w in run.warnings],
            }
            wanted = {
                "run": expected.get("run"),
                "warnings": [(w["code"], names_in(w["msg"])) for w in expected.get("warnings", [])],
            }
            same = equal(got["run"], wanted["run"]) and got["warnings"] == wanted["warnings"]
        if not same:
            wrong.append((vector, got))
    assert wrong == []


def trace(**fields: Any) -> dict[str, Any]:
    return {"schema_version": "0.1", "id": "r", "steps": [], **fields}


def step(**fields: Any) -> dict[str, Any]:
    return trace(steps=[{"idx": 0, "kind": "llm", "name": "p", "outputs": "x", **fields}])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "the document: found an array, expected an object"),
        ({"id": "r", "steps": []}, "schema_version: found nothing"),
        (trace(id=1), "id: found 1 (integer), expected text"),
        (trace(steps={}), "steps: found an object, expected an array"),
        (trace(steps=None), "steps: found null, expected an array"),
        (trace(steps=[[]]), "steps[0]: found an array, expected an object"),
        (trace(outcome="PASS"), 'outcome: found "PASS"'),
        (trace(outcome=["pass"]), "outcome: found an array"),
        (trace(task=7), "task: found 7"),
        (trace(edges=[[0, 1, 2]]), "edges[0]: found an array"),
        (trace(edges=[[0]]), "edges[0]"),
        (trace(edges=[[0, -1]]), "edges[0]"),
        (trace(edges=[[0, True]]), "edges[0]"),
        (trace(edges={}), "edges: found an object"),
        (step(idx=-1), "steps[0].idx: found -1"),
        (step(idx=0.0), "steps[0].idx: found 0.0"),
        (step(idx=True), "steps[0].idx: found true"),
        (step(idx=2**64), "steps[0].idx: found 18446744073709551616"),
        (step(kind="LLM"), 'steps[0].kind: found "LLM"'),
        (step(name=None), "steps[0].name: found null"),
        (step(attrs=None), "steps[0].attrs: found null"),
        (step(attrs=[]), "steps[0].attrs: found an array"),
        (step(t_start=5), "steps[0].t_start: found 5"),
        (step(parent_idx=-1), "steps[0].parent_idx: found -1"),
    ],
)
def test_what_is_refused_and_where(value: Any, says: str) -> None:
    with pytest.raises(InputError) as caught:
        from_text(json.dumps(value))
    assert says in str(caught.value)
    assert kind_of(str(caught.value)) == "not_a_trace"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "not_json"),
        (" \n", "not_json"),
        ("{", "not_json"),
        ("\ufeff" + json.dumps(trace()), "not_json"),
        ('{"a": NaN}', "not_json"),
        (json.dumps(trace()) + " x", "not_json"),
        ('{"a":1}\n{"b":2}', "json_lines"),
        ('{"a":1}\r\n{"b":2}\r\n', "json_lines"),
        ("\n\n3\n\nnot json", "json_lines"),
        ('{"a":1}\n\n', "not_a_trace"),
        (json.dumps(trace()).replace('"id"', '"id": "q", "id"'), "not_a_trace"),
        (json.dumps(step()).replace('"name"', '"name": "q", "name"'), "not_a_trace"),
        (json.dumps(step(outputs="\ud800")), "not_a_trace"),
        (json.dumps(step()).replace('"x"', "1e400"), "not_a_trace"),
        (json.dumps(step()).replace('"x"', "[" * 125 + "]" * 125), "not_json"),
    ],
)
def test_kinds_of_faults(text: str, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        from_text(text)
    assert kind_of(str(caught.value)) == kind


def test_nesting_up_to_the_limit_reads() -> None:
    text = json.dumps(step()).replace('"x"', "[" * 124 + "]" * 124)
    assert len(from_text(text)) == 1


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b'{"id": "\xff"}')
    with pytest.raises(InputError, match=r"t\.json.*not UTF-8"):
        read_trace(path)


def test_repeated_keys_of_free_values_and_unknown_fields() -> None:
    step = '{"idx":0,"kind":"llm","name":"p","outputs":{"a":1,"a":2}}'
    text = f'{{"schema_version":"0.1","id":"x","q":1,"q":2,"steps":[{step}]}}'
    run = from_text(text)
    assert run.steps[0].outputs == {"a": 2}
    assert [warn.code for warn in run.warnings] == ["unknown_fields"]


def test_unknown_fields_win_over_attrs_and_null_is_absent() -> None:
    run = from_json(step(attrs={"m": 1}, m=2, inputs=None, outputs=None, t_start=None, parent_idx=None))
    assert run.steps[0].attrs == {"m": 2}
    assert (run.steps[0].inputs, run.steps[0].outputs) == (MISSING, MISSING)
    assert [warn.code for warn in run.warnings] == ["unknown_fields", "no_content"]
    assert "step 0 (p)" in run.warnings[0].message


def test_integers_stay_exact() -> None:
    big = 2**64 + 1
    run = from_text(json.dumps(step(outputs={"n": big, "f": 1.0})))
    assert run.steps[0].outputs == {"n": big, "f": 1.0}
    assert type(run.steps[0].outputs["f"]) is float


TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
VALUE = st.recursive(
    TEXT | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner | st.none(), max_size=3) | st.dictionaries(TEXT, inner | st.none(), max_size=3)
    ),
    max_leaves=5,
)
STEP = st.builds(
    Step,
    idx=st.integers(0, 2**64 - 1),
    kind=st.sampled_from(["llm", "tool", "agent", "other"]),
    name=TEXT,
    inputs=st.just(MISSING) | VALUE,
    outputs=st.just(MISSING) | VALUE,
    attrs=st.dictionaries(TEXT, VALUE, max_size=2),
    t_start=st.none() | TEXT,
    t_end=st.none() | TEXT,
    parent_idx=st.none() | st.integers(0, 9),
)
INDEX = st.integers(0, 9)
RUN = st.builds(
    Run,
    id=TEXT,
    steps=st.lists(STEP, max_size=3).map(tuple),
    task=st.none() | TEXT,
    outcome=st.none() | st.sampled_from(["pass", "fail", "unknown"]),
    edges=st.none() | st.lists(st.tuples(INDEX, INDEX), max_size=2).map(tuple),
)


@given(RUN)
def test_round_trip(run: Run) -> None:
    from afnb.core.jsonvalue import dumps

    back = from_text(dumps(to_json(run)))
    assert equal(to_json(back), to_json(run))
    assert (back.id, back.task, back.outcome, back.edges) == (run.id, run.task, run.outcome, run.edges)
    assert back.steps == run.steps


def test_files(tmp_path: Path) -> None:
    run = Run("r", (Step(0, "tool", "é", outputs={"b": [1, 1.0]}),), outcome="fail")
    path = tmp_path / "run.json"
    write_trace(run, path)
    assert read_trace(path).source == str(path)
    loaded = afnb.load(path)
    assert isinstance(loaded, Run)
    assert loaded.steps == run.steps
    assert loaded.outcome == "fail"
    with pytest.raises(ParameterError, match="exists already"):
        write_trace(run, path)
    write_trace(run, path, overwrite=True)


def test_load_names_what_a_near_trace_lacks(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"id": "r", "steps": []}')
    with pytest.raises(InputError, match=r"nearest is a trace.*it has no schema_version"):
        afnb.load(path)
