"""The settings that experiments share, checked once, where a caller hands them in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from afnb.align.params import AlignParams
from afnb.core.legible import one_line
from afnb.core.matching import Matching
from afnb.errors import ParameterError
from afnb.experiments.budget import Budget, Meter
from afnb.experiments.pool import check_backend, check_jobs

_RULE = ("start", "controlled", "error", "refutes_below")


def check_settings(
    *,
    consensus: Any = None,
    n_jobs: Any = 4,
    budget: Any = None,
    allow_tools: Any = (),
    seed: Any = 0,
    backend: Any = "threading",
    progress: Any = None,
    params: Any = None,
    matching: Any = None,
    on_replay: Any = None,
) -> None:
    """Refuse a setting of the wrong kind, before anything is printed, run or spent.

    Raises
    ------
    ParameterError
        Names the setting, what was found and what is expected.

    Examples
    --------
    >>> check_settings(budget=Budget(live_calls=5), n_jobs=-1)
    >>> check_settings(budget=5)
    Traceback (most recent call last):
    ...
    afnb.errors.ParameterError: budget=5: expected afnb.Budget(...), such as afnb.Budget(live_calls=50)
    """
    if consensus is not None and not _is_rule(consensus):
        raise _wrong("consensus", consensus, "a rule such as afnb.SequentialConsensus(alpha=0.05)")
    if budget is not None and not isinstance(budget, Budget | Meter):
        raise _wrong("budget", budget, "afnb.Budget(...), such as afnb.Budget(live_calls=50)")
    if params is not None and not isinstance(params, AlignParams):
        raise _wrong("params", params, "afnb.AlignParams(...)")
    if matching is not None and not isinstance(matching, Matching):
        raise _wrong("matching", matching, "afnb.Matching(...)")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise _wrong("seed", seed, "a whole number")
    if progress is not None and not isinstance(progress, bool):
        raise _wrong("progress", progress, "True, False or None")
    if on_replay is not None and not callable(on_replay):
        raise _wrong("on_replay", on_replay, "a function of a replay's result and the experiment's title")
    if not isinstance(backend, str):
        raise _wrong("backend", backend, "the name of a joblib backend, such as 'threading' or 'loky'")
    check_tools(allow_tools)
    check_backend(backend)
    if not callable(n_jobs):
        check_jobs(n_jobs)


def check_tools(names: Any) -> None:
    """Refuse what is no list of tool names.

    Raises
    ------
    ParameterError
        It is one text, or something else is among them.
    """
    if isinstance(names, str):
        raise ParameterError(f"allow_tools={names!r}: give a list of tool names, e.g. [{names!r}]")
    if not isinstance(names, Iterable):
        raise _wrong("allow_tools", names, "a list of tool names")
    if isinstance(names, (list, tuple, set, frozenset)):
        for name in names:
            if not isinstance(name, str):
                raise _wrong("allow_tools", names, "a list of tool names, which are texts")


def _is_rule(value: object) -> bool:
    return not isinstance(value, type) and all(hasattr(value, name) for name in _RULE)


def _wrong(name: str, value: object, expected: str) -> ParameterError:
    shown = one_line(repr(value), 80)
    return ParameterError(f"{name}={shown}: expected {expected}")
