"""Trace JSON: one run as a list of steps, in one file.

::

    {"schema_version": "0.1", "id", "task"?, "outcome"?, "steps": [...], "edges"?}
    a step: {"idx", "kind", "name", "inputs"?, "outputs"?, "attrs"?, "t_start"?, "t_end"?, "parent_idx"?}

Unknown fields of a step are kept in its ``attrs``, with a warning; those of the run have no place to go
and are left out, with a warning. Null inputs, outputs and times read as absent. Field names may not be
repeated, numbers must fit a double and text may not hold half a surrogate pair, so that every reader of
the format sees the same run; integers of any size are kept exactly.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

from afnb.core.jsonvalue import MISSING, Json, dumps, loads
from afnb.core.run import OUTCOMES, STEP_KINDS, OutcomeLabel, Run, Step, StepKind, Warn
from afnb.errors import InputError
from afnb.io.files import PathLike, read_bytes, write_new
from afnb.io.formats.reading import Fields
from afnb.io.formats.source import Found, Source

VERSION = "0.1"
_WHAT = "a trace"
_LARGEST = 2**64 - 1
_RUN_FIELDS = ("schema_version", "id", "task", "outcome", "steps", "edges")
_STEP_FIELDS = ("idx", "kind", "name", "inputs", "outputs", "attrs", "t_start", "t_end", "parent_idx")


def detect(source: Source) -> Found:
    """How sure it is that this is a trace."""
    if not isinstance(source.json, dict):
        return Found(0.0)
    lacking = [name for name in ("schema_version", "id", "steps") if name not in source.json]
    if not lacking:
        return Found(1.0)
    if "steps" not in source.json:
        return Found(0.0)
    return Found(0.9 - 0.3 * len(lacking), f"it has no {' and no '.join(lacking)}")


def load(source: Source) -> Run:
    """The run of a trace file."""
    return from_text(source.data, path=source.path)


def read_trace(source: PathLike | bytes) -> Run:
    """Read a trace.

    Parameters
    ----------
    source
        A file's path, or the bytes of one.

    Raises
    ------
    InputError
        The file is missing, not UTF-8, not JSON, several JSON values one a line, or a field has the
        wrong form; the message names the place, what was found and what was expected.

    Examples
    --------
    >>> run = read_trace(b'{"schema_version": "0.1", "id": "r", "steps": []}')
    >>> run.id, len(run), run.warnings
    ('r', 0, ())
    """
    if isinstance(source, bytes):
        return from_text(source)
    path = os.fspath(source)
    return from_text(read_bytes(path), path=path)


def write_trace(run: Run, path: PathLike, *, overwrite: bool = False) -> None:
    """Write a run as a new trace file; what a trace has no place for (exchanges, the answer) is left out.

    Raises
    ------
    InputError
        The file is there already and ``overwrite`` is False.
    """
    write_new(path, f"{dumps(to_json(run))}\n".encode(), overwrite=overwrite)


def from_text(data: str | bytes, *, path: str | None = None) -> Run:
    """The run that a trace's text describes; see `read_trace`."""
    try:
        return from_json(_parse(data, path), path=path)
    except InputError as error:
        if _one_a_line(data):
            raise InputError(
                "several JSON values, one a line; a trace is one JSON object in a file of its own "
                "with schema_version, id and steps",
                path=path,
            ) from None
        raise error from None


class _Object(dict[str, Any]):
    """A JSON object that remembers which keys were repeated in its text."""

    repeated: frozenset[str] = frozenset()


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    found = _Object(plain)
    found.repeated = frozenset(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    return found


def _parse(data: str | bytes, path: str | None) -> Json:
    if not data.strip():
        raise InputError(f"not JSON: the file is empty; expected {_WHAT}", path=path)
    try:
        return loads(data, portable=True, on_object=_pairs)
    except InputError as error:
        raise InputError(error.message, path=path, line=error.line) from None


def _one_a_line(data: str | bytes) -> bool:
    """Whether the first line is a whole JSON value and more lines follow."""
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8")
        except UnicodeDecodeError:
            return False
    lines = [line for line in data.split("\n") if line.strip()]
    if len(lines) < 2:
        return False
    try:
        loads(lines[0])
    except InputError:
        return False
    return True


def from_json(value: Json, *, path: str | None = None) -> Run:
    """The run that a JSON document describes.

    Raises
    ------
    InputError
        A field is missing or has the wrong form.
    """
    document = _fields(value, "", path, _RUN_FIELDS)
    version = document.text("schema_version")
    ident = document.text("id")
    task = document.optional_text("task")
    outcome = document.raw("outcome")
    if outcome is not None and (not isinstance(outcome, str) or outcome not in OUTCOMES):
        document.wrong("outcome", outcome, f"one of {', '.join(OUTCOMES)}")
    warnings: list[Warn] = []
    if version != VERSION:
        message = f"schema_version is {dumps(version)}, read as {VERSION}: fields may mean something else"
        warnings.append(Warn("schema_version", message))
    recorded = document.array("steps")
    edges = _edges(document)
    unknown = document.rest()
    if unknown:
        message = f"unknown fields of the run left out: {', '.join(sorted(unknown))}"
        warnings.append(Warn("unknown_fields", message))
    steps = tuple(_step(one, i, path, warnings) for i, one in enumerate(recorded))
    label = cast("OutcomeLabel | None", outcome)
    return Run(ident, steps, task, label, version, warnings=tuple(warnings), source=path, edges=edges)


def _fields(value: Json, at: str, path: str | None, names: tuple[str, ...]) -> Fields:
    found = Fields(value, at, path)
    for name in names:
        if isinstance(value, _Object) and name in value.repeated:
            raise InputError(f"{found.name(name)}: the field stands there twice; expected it once", path=path)
    return found


def _step(value: Json, i: int, path: str | None, warnings: list[Warn]) -> Step:
    fields = _fields(value, f"steps[{i}]", path, _STEP_FIELDS)
    idx = fields.integer("idx", 0, _LARGEST)
    kind = fields.text("kind")
    if kind not in STEP_KINDS:
        fields.wrong(fields.name("kind"), kind, f"one of {', '.join(STEP_KINDS)}")
    name = fields.text("name")
    inputs, outputs = (MISSING if (v := fields.raw(key)) is None else v for key in ("inputs", "outputs"))
    attrs = fields.raw("attrs", {})
    if not isinstance(attrs, dict):
        fields.wrong(fields.name("attrs"), attrs, "an object")
    t_start, t_end = fields.optional_text("t_start"), fields.optional_text("t_end")
    parent = fields.optional_integer("parent_idx", 0, _LARGEST)
    unknown = fields.rest()
    if unknown:
        message = f"step {idx} ({name}): unknown fields kept in attrs: {', '.join(sorted(unknown))}"
        warnings.append(Warn("unknown_fields", message))
    if inputs is MISSING and outputs is MISSING:
        warnings.append(Warn("no_content", f"step {idx} ({name}): neither inputs nor outputs"))
    return Step(
        idx,
        cast(StepKind, kind),
        name,
        inputs,
        outputs,
        {**attrs, **unknown},
        t_start,
        t_end,
        parent_idx=parent,
    )


def _edges(document: Fields) -> tuple[tuple[int, int], ...] | None:
    if document.raw("edges") is None:
        return None
    edges = []
    for i, edge in enumerate(document.array("edges")):
        if not isinstance(edge, list) or len(edge) != 2 or not all(_is_index(end) for end in edge):
            document.wrong(f"edges[{i}]", edge, "two step numbers, e.g. [0, 1]")
        edges.append((edge[0], edge[1]))
    return tuple(edges)


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def to_json(run: Run) -> dict[str, Any]:
    """The run as a trace document; absent fields are left out.

    Examples
    --------
    >>> to_json(Run("r", (Step(0, "llm", "plan", outputs="go"),), outcome="pass"))["steps"]
    [{'idx': 0, 'kind': 'llm', 'name': 'plan', 'outputs': 'go'}]
    """
    document: dict[str, Any] = {
        "schema_version": run.schema_version,
        "id": run.id,
        "task": run.task,
        "outcome": run.outcome,
        "steps": [_step_json(step) for step in run.steps],
        "edges": None if run.edges is None else [list(edge) for edge in run.edges],
    }
    return {key: value for key, value in document.items() if value is not None}


def _step_json(step: Step) -> Mapping[str, Any]:
    fields: dict[str, Any] = {"idx": step.idx, "kind": step.kind, "name": step.name}
    for key, value in (("inputs", step.inputs), ("outputs", step.outputs)):
        if value is not MISSING:
            fields[key] = value
    if step.attrs:
        fields["attrs"] = dict(step.attrs)
    for key, text in (("t_start", step.t_start), ("t_end", step.t_end), ("parent_idx", step.parent_idx)):
        if text is not None:
            fields[key] = text
    return fields
