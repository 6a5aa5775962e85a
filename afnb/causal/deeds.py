"""What a step did, beside what the good run did there, in words that many runs can share.

Runs of a batch fail for few reasons. To group them, a step is told by the kind of its deed and by the
tools and fields it touched, never by the texts and values, which differ from run to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afnb.align.diff import Diff
from afnb.core.jsonvalue import MISSING, equal, loads
from afnb.core.run import Step

MAX_NAMES = 3


def deed(bad: Step | None, good: Step | None) -> str:
    """What the bad run's step did in place of the good run's.

    Parameters
    ----------
    bad, good
        Two aligned steps; None where that run has no step.

    Returns
    -------
    str
        Such as ``called refund_policy with another category``; the model's role comes first where the
        run names one.

    Examples
    --------
    >>> def says(text, *calls):
    ...     made = [{"name": name, "arguments": arguments} for name, arguments in calls]
    ...     return Step(3, "llm", "llm", outputs={"text": text, "tool_calls": made})
    >>> deed(says("", ("policy", {"category": "toys"})), says("", ("policy", {"category": "shoes"})))
    'called policy with another category'
    >>> deed(says("done"), says("", ("policy", {})))
    'answered instead of calling policy'
    """
    if bad is None:
        return f"left out {_name(good)}" if good is not None else "did nothing"
    if bad.kind == "llm":
        said = _model(bad, good)
        return said if bad.name in ("llm", "") else f"{bad.name} {said}"
    if good is None:
        return f"ran {bad.name}, which the good run did not"
    if bad.kind != good.kind or bad.name != good.name:
        return f"ran {bad.name} instead of {_name(good)}"
    if not equal(bad.inputs, good.inputs):
        return f"ran {bad.name} with {_another(bad.inputs, good.inputs)}"
    return f"{bad.name} gave {_another(bad.outputs, good.outputs, 'another result')}"


def deed_at(found: Diff, step: int) -> str:
    """What a step of the bad run did in place of the step that the good run has there."""
    good = next((move.good_step for move in found.moves if move.bad_step == step), None)
    steps = found.bad.steps
    here = steps[step] if 0 <= step < len(steps) else None
    return deed(here, None if good is None else found.good.steps[good])


def deed_at_fork(found: Diff) -> str | None:
    """What the bad run did where the two part; None where they do not, or cannot be compared."""
    if not found.comparable or found.fork is None:
        return None
    bad, good = found.fork.bad_step, found.fork.good_step
    return deed(
        None if bad is None else found.bad.steps[bad],
        None if good is None else found.good.steps[good],
    )


def short_name(step: Step) -> str:
    """A step in two or three words: ``refund_policy``, ``call of refund_policy``, ``answer``.

    Examples
    --------
    >>> short_name(Step(0, "tool", "refund_policy")), short_name(Step(1, "llm", "llm"))
    ('refund_policy', 'answer')
    """
    if step.kind != "llm":
        return step.name
    calls = _calls(step)
    said = f"call of {_listed(calls)}" if calls else "answer"
    return said if step.name in ("llm", "") else f"{step.name}: {said}"


def _name(step: Step | None) -> str:
    if step is None:
        return "nothing"
    return "a model call" if step.kind == "llm" else step.name


def _model(bad: Step, good: Step | None) -> str:
    ours, theirs = _calls(bad), _calls(good)
    if good is None or good.kind != "llm":
        return f"called {_listed(ours)}" if ours else "said something the good run did not"
    mine, other = [name for name, _ in ours], [name for name, _ in theirs]
    if not mine and other:
        return f"answered instead of calling {_listed(theirs)}"
    if mine and not other:
        return f"called {_listed(ours)} instead of answering"
    if mine != other:
        extra = [name for name in mine if name not in other]
        lacking = [name for name in other if name not in mine]
        if extra and lacking:
            return f"called {_words(extra)} instead of {_words(lacking)}"
        if extra or lacking:
            return f"also called {_words(extra)}" if extra else f"did not call {_words(lacking)}"
        return f"called {_words(mine)} in another order or number"
    for (name, a), (_, b) in zip(ours, theirs, strict=True):
        if not equal(a, b):
            return f"called {name} with {_another(a, b)}"
    return "said something else" if not mine else f"called {_words(mine)} with other words"


def _calls(step: Step | None) -> list[tuple[str, Any]]:
    outputs = step.outputs if step is not None else None
    made = outputs.get("tool_calls") if isinstance(outputs, Mapping) else None
    return [
        (str(call.get("name")), _parsed(call.get("arguments")))
        for call in (made if isinstance(made, list) else [])
        if isinstance(call, Mapping)
    ]


def _parsed(arguments: Any) -> Any:
    if isinstance(arguments, str):
        try:
            return loads(arguments)
        except ValueError:
            return arguments
    return arguments


def _another(bad: Any, good: Any, otherwise: str = "other arguments") -> str:
    """``another category`` where a few named fields differ, else ``otherwise``."""
    if not isinstance(bad, Mapping) or not isinstance(good, Mapping):
        return otherwise
    names = [
        str(name)
        for name in dict.fromkeys((*good, *bad))
        if not equal(bad.get(name, MISSING), good.get(name, MISSING))
    ]
    return f"another {_words(names)}" if 0 < len(names) <= MAX_NAMES else otherwise


def _listed(calls: list[tuple[str, Any]]) -> str:
    return _words([name for name, _ in calls])


def _words(names: list[str]) -> str:
    found = list(dict.fromkeys(names))
    more = len(found) - MAX_NAMES
    shown = found[:MAX_NAMES]
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
