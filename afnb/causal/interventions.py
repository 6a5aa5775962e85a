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
        Ask this model instead of the recorded one.

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


Intervention = Graft | Edit | Resample
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
        if not isinstance(item, Graft | Edit | Resample):
            raise ParameterError(f"an intervention is Graft, Edit or Resample, got {type(item).__name__}")
        items.append(item)
    if not items:
        raise ParameterError("an experiment needs at least one intervention, e.g. Edit(step=3, value=...)")
    return tuple(items)


def _check_step(name: str, step: object) -> None:
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ParameterError(f"{name}(step={step!r}): a step is a number counted from 0")
