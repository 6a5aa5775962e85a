"""From what stands in the forms to interventions, oracles and budgets; what does not fit is one sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from afnb.causal.interventions import Edit, Graft, Resample
from afnb.causal.oracles import AnswerEquals, Converges, ExitStatus, Matches, Oracle, as_oracle
from afnb.core.jsonvalue import MISSING, loads
from afnb.core.run import Run, Step
from afnb.errors import InputError, ParameterError
from afnb.experiments.agents import Command
from afnb.experiments.budget import Budget

Kind = Literal["graft", "edit", "resample"]
Form = Literal["json", "text"]

ORACLES = {
    "given": "as given to explore(oracle=...)",
    "converges": "the run converges with the good one",
    "regex": "the answer matches a regular expression",
    "equals": "the answer is exactly",
    "jsonpath": "the answer holds, by JSON path",
    "exit": "the command's exit status is",
}
"""What can be chosen as recovered."""

WITH_TEXT = ("regex", "equals", "jsonpath", "exit")


@dataclass(frozen=True, slots=True)
class Draft:
    """An intervention as it stands in the form."""

    kind: Kind = "graft"
    step: int | None = None
    text: str = ""
    form: Form = "json"
    model: str = ""


def recorded(step: Step) -> tuple[str, Form]:
    """What a step recorded, as a person edits it: plain text, or JSON with line breaks.

    Examples
    --------
    >>> recorded(Step(0, "tool", "lookup", outputs="plain words"))
    ('plain words', 'text')
    """
    value = step.outputs
    if value is MISSING:
        return "", "text"
    if isinstance(value, str):
        return value, "text"
    return json.dumps(value, ensure_ascii=False, indent=2), "json"


def intervention_of(draft: Draft) -> Graft | Edit | Resample:
    """The intervention that a draft means.

    Raises
    ------
    ParameterError
        No step is chosen, or the text is no JSON.

    Examples
    --------
    >>> intervention_of(Draft("edit", 3, '{"text": "stop"}'))
    Edit(step=3, value={'text': 'stop'})
    """
    if draft.step is None:
        raise ParameterError("choose a step of the bad run first: only what it did can be changed")
    if draft.kind == "graft":
        return Graft(draft.step)
    if draft.kind == "resample":
        return Resample(draft.step, draft.model.strip() or None)
    return Edit(draft.step, draft.text if draft.form == "text" else parsed(draft.text))


def parsed(text: str) -> Any:
    """The JSON value of an edited text.

    Raises
    ------
    ParameterError
        It is none; says where.

    Examples
    --------
    >>> parsed('{"a": 1}')
    {'a': 1}
    """
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise ParameterError(
            f"no JSON yet, at line {error.lineno}, column {error.colno}: {error.msg}; mend it, or choose Text"
        ) from None
    except RecursionError:
        raise ParameterError("no JSON that can be used: it is nested too deeply") from None
    try:
        return loads(text)
    except InputError as error:
        raise ParameterError(f"no JSON that can be used: {error}") from None


def oracle_choices(given: Any, good: Run | None, agent: Any) -> list[str]:
    """Which of ``ORACLES`` make sense here, the likeliest first."""
    found = [] if given is None else ["given"]
    found += [] if good is None else ["converges"]
    found += ["regex", "equals", "jsonpath"]
    return [*found, "exit"] if isinstance(agent, Command | list | tuple) else found


def oracle_of(choice: str, text: str, given: Any, good: Run | None) -> Oracle:
    """The oracle that was chosen.

    Raises
    ------
    ParameterError
        Its text is missing or not understood.

    Examples
    --------
    >>> oracle_of("regex", "refund issued", None, None).describe()
    'answer matches /refund issued/'
    """
    if choice == "given":
        return as_oracle(given)
    if choice == "converges":
        if good is None:
            raise ParameterError("there is no good run to converge with; choose another oracle")
        return Converges(good)
    if not text.strip():
        raise ParameterError(f"say what counts as recovered: {ORACLES.get(choice, choice)} …")
    if choice == "regex":
        return Matches(text)
    if choice == "jsonpath":
        return Matches(jsonpath=text)
    if choice == "equals":
        return AnswerEquals(text)
    try:
        return ExitStatus(int(text))
    except ValueError:
        raise ParameterError(f"an exit status is a whole number, found {text!r}") from None


def budget_of(live_calls: str, limits: Budget) -> Budget:
    """``limits`` with the number of live calls in the form; empty is no limit of them.

    Raises
    ------
    ParameterError
        It is no whole number of at least 0.

    Examples
    --------
    >>> budget_of("50", Budget()).live_calls
    50
    """
    text = live_calls.strip().replace(",", "")
    if text and not (text.isascii() and text.isdecimal()):
        raise ParameterError(f"the budget is a number of live calls, found {live_calls!r}; empty is no limit")
    return replace(limits, live_calls=int(text) if text else None)
