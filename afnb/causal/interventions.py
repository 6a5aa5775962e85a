"""Interventions: what is changed, as ``do(step k = response)``; :mod:`afnb.causal.compile` makes arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from afnb.causal.marks import name_of
from afnb.core.jsonvalue import dumps
from afnb.errors import ParameterError

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Graft:
    """Put the good run's aligned response in place of step ``step`` of the bad run.

    Parameters
    ----------
    step
        Step of the bad run; None for the step where the two runs fork.

    Examples
    --------
    >>> Graft(3).describe()
    "step 3 = the good run's"
    """

    step: int | None = None

    def __post_init__(self) -> None:
        if self.step is not None:
            _check_step("Graft", self.step)

    def describe(self) -> str:
        """The intervention in words."""
        where = "the fork" if self.step is None else f"step {self.step}"
        return f"{where} = the good run's"


@dataclass(frozen=True, slots=True)
class Edit:
    """Put ``value`` in place of what step ``step`` of the bad run recorded.

    Parameters
    ----------
    step
        Step of the bad run.
    value
        For an llm step: an object with ``text``, ``tool_calls`` (a list of ``{"name", "arguments"}``) or
        both, a part that is left out staying as recorded; or a text, which is the whole answer, without
        tool calls; or, where the recorded text is itself JSON, any other JSON value, which is written as
        that text. For a tool step: the result, text or JSON. For another HTTP exchange: the body.
        Or a function from the recorded value (for an llm step the whole object) to one of these.

    Examples
    --------
    >>> Edit(7, {"status": "paid"}).describe()
    'step 7 = {"status":"paid"}'
    """

    step: int
    value: Any

    def __post_init__(self) -> None:
        _check_step("Edit", self.step)
        if not callable(self.value):
            try:
                dumps(self.value)
            except (ValueError, TypeError) as error:
                raise ParameterError(f"Edit(step={self.step}): the value is no JSON value: {error}") from None

    def describe(self) -> str:
        """The intervention in words."""
        if callable(self.value):
            return f"step {self.step} = {name_of(self.value)}(recorded)"
        text = dumps(self.value)
        return f"step {self.step} = {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}"


@dataclass(frozen=True, slots=True)
class Resample:
    """Drop the answer recorded at step ``step`` and ask the provider again.

    Parameters
    ----------
    step
        An llm step of the bad run.
    model
        From this step on, ask this model wherever the agent asks for the one that was asked at the step.

    Examples
    --------
    >>> Resample(2).describe()
    'step 2 asked again'
    """

    step: int
    model: str | None = None

    def __post_init__(self) -> None:
        _check_step("Resample", self.step)
        if self.model is not None and (not isinstance(self.model, str) or not self.model):
            raise ParameterError(
                f"Resample(model={self.model!r}): a model is a name, or None for the recorded one"
            )

    def describe(self) -> str:
        """The intervention in words."""
        return f"step {self.step} asked again" + (f" of {self.model}" if self.model else "")


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """From step ``step`` on, ask with another system prompt.

    The control arm asks the step again as well, with the prompt as the agent sends it, so that the arms
    differ in the prompt alone. The agent's own history is left as it is.

    Parameters
    ----------
    step
        An llm step of the bad run.
    value
        The new prompt, empty for none; or a function from the recorded one (text, a list of parts, or
        None) to it.

    Examples
    --------
    >>> SystemPrompt(0, "Look the policy up before you decide.").describe()
    'from step 0 on: system prompt = "Look the policy up before you decide."'
    """

    step: int
    value: Any

    def __post_init__(self) -> None:
        _check_step("SystemPrompt", self.step)
        if not callable(self.value) and not isinstance(self.value, str):
            raise ParameterError(f"SystemPrompt(step={self.step}): the prompt is a text or a function")

    def describe(self) -> str:
        """The intervention in words."""
        said = f"{name_of(self.value)}(recorded)" if callable(self.value) else _short(self.value)
        return f"from step {self.step} on: system prompt = {said}"


@dataclass(frozen=True, slots=True)
class DropMessage:
    """From step ``step`` on, leave one message out of what the model is asked.

    The control arm asks the step again as well, with everything in.

    Parameters
    ----------
    step
        An llm step of the bad run.
    message
        Which of the messages of that step's request, from 0; negative ones count from the end. It may hold
        no tool call and no tool's result: a provider refuses the one without the other.

    Examples
    --------
    >>> DropMessage(4, -2).describe()
    'from step 4 on: without message -2'
    """

    step: int
    message: int

    def __post_init__(self) -> None:
        _check_step("DropMessage", self.step)
        _check_place("DropMessage", self.step, self.message)

    def describe(self) -> str:
        """The intervention in words."""
        return f"from step {self.step} on: without message {self.message}"


@dataclass(frozen=True, slots=True)
class InsertMessage:
    """From step ``step`` on, put one more message into what the model is asked.

    The control arm asks the step again as well, without it.

    Parameters
    ----------
    step
        An llm step of the bad run.
    message
        Place among the messages of that step's request that it takes, 0 to their number.
    text
        What it says.
    role
        ``user``, ``assistant``, or what the provider knows besides.

    Examples
    --------
    >>> InsertMessage(4, 1, "The order is of last year.").describe()
    'from step 4 on: user message 1 = "The order is of last year."'
    """

    step: int
    message: int
    text: str
    role: str = "user"

    def __post_init__(self) -> None:
        _check_step("InsertMessage", self.step)
        _check_place("InsertMessage", self.step, self.message)
        for name in ("text", "role"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise ParameterError(f"InsertMessage({name}={value!r}): it is a text")

    def describe(self) -> str:
        """The intervention in words."""
        return f"from step {self.step} on: {self.role} message {self.message} = {_short(self.text)}"


RequestIntervention = SystemPrompt | DropMessage | InsertMessage
Intervention = Graft | Edit | Resample | SystemPrompt | DropMessage | InsertMessage
Interventions = Intervention | Sequence[Intervention]


def as_interventions(value: object) -> tuple[Intervention, ...]:
    """One intervention, or a sequence of them, as a tuple.

    Raises
    ------
    ParameterError
        There is none, or something else is among them.

    Examples
    --------
    >>> as_interventions(Graft(1))
    (Graft(step=1),)
    """
    items: list[Intervention] = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if not isinstance(item, Intervention):
            raise ParameterError(
                "an intervention is Graft, Edit, Resample, SystemPrompt, DropMessage or InsertMessage, got "
                f"{type(item).__name__}"
            )
        items.append(item)
    if not items:
        raise ParameterError("an experiment needs at least one intervention, e.g. Edit(step=3, value=...)")
    return tuple(items)


def deed(items: Sequence[Intervention]) -> str | None:
    """What was changed, where it is more than an answer: for the sentence of a verdict. None for answers.

    Examples
    --------
    >>> deed([Edit(1, "x")]) is None
    True
    >>> deed([SystemPrompt(1, "x")])
    'another system prompt from there on'
    """
    words = [_deed(item) for item in items]
    if all(word is None for word in words):
        return None
    known = dict.fromkeys("changed answers" if word is None else word for word in words)
    return " and ".join(known)


def _deed(item: Intervention) -> str | None:
    if isinstance(item, Resample):
        return None if item.model is None else f"asking {item.model} from there on"
    if isinstance(item, SystemPrompt):
        return "another system prompt from there on"
    if isinstance(item, DropMessage):
        return "leaving a message out from there on"
    return "one more message from there on" if isinstance(item, InsertMessage) else None


def _short(text: str) -> str:
    said = dumps(text)
    return said if len(said) <= _SHOWN else said[: _SHOWN - 3] + "..."


def _check_place(name: str, step: int, message: object) -> None:
    if isinstance(message, bool) or not isinstance(message, int):
        raise ParameterError(f"{name}(step={step}, message={message!r}): a message is a whole number")


def _check_step(name: str, step: object) -> None:
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ParameterError(f"{name}(step={step!r}): a step is a number counted from 0")
