"""Gates: what a batch must come to for a pipeline to go on, such as ``verified>=80%`` or ``error<=0``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from afnb.errors import ParameterError
from afnb.experiments.batch_summary import Tally

METRICS: dict[str, str] = {
    "pairs": "failing runs",
    "verified": "verified verdicts of either kind",
    "repair": "verified repairs",
    "origin": "verified repairs whose origin was shown too",
    "no_cause": "verified: no cause among the steps that could be changed",
    "unverified": "runs whose replays do not decide",
    "untested": "runs in which there was nothing to re-run",
    "open": "runs left when the batch was stopped",
    "error": "runs that could not be run",
    "faithful": "pairs that replay as they were recorded",
    "live_calls": "live calls made",
}
"""What a gate may ask of, and what it counts."""

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_FORM = re.compile(r"\s*([a-z_]+)\s*(>=|<=|==|>|<|=)\s*(\d+(?:\.\d+)?)\s*(%?)\s*")


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition on the counts of a batch.

    Parameters
    ----------
    metric
        A name of ``METRICS``.
    sign
        ``>=``, ``<=``, ``>``, ``<`` or ``==``.
    limit
        The number, or the percentage of the pairs.
    percent
        Whether it is a percentage.
    """

    metric: str
    sign: str
    limit: float
    percent: bool = False

    def value(self, found: Tally) -> float:
        """What the batch has: a count, or a percentage of its pairs (0 without any)."""
        count = float(getattr(found, self.metric))
        if not self.percent:
            return count
        return 100 * count / found.pairs if found.pairs else 0.0

    def passes(self, found: Tally) -> bool:
        """Whether the batch meets it.

        Examples
        --------
        >>> as_gate("verified>=80%").passes(Tally(pairs=10, repair=6, no_cause=2))
        True
        """
        return _OPERATORS[self.sign](self.value(found), self.limit)

    def sentence(self, found: Tally) -> str:
        """``verified>=80%: passed (90%)``.

        Examples
        --------
        >>> as_gate("error<=0").sentence(Tally(pairs=3, error=1))
        'error<=0: failed (1)'
        """
        unit = "%" if self.percent else ""
        word = "passed" if self.passes(found) else "failed"
        return f"{self.metric}{self.sign}{self.limit:g}{unit}: {word} ({self.value(found):g}{unit})"


def as_gate(text: str) -> Gate:
    """Read a gate.

    Raises
    ------
    ParameterError
        It has another form, or asks of something that is not counted.

    Examples
    --------
    >>> as_gate("repair >= 3")
    Gate(metric='repair', sign='>=', limit=3.0, percent=False)
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise ParameterError(
            f"gate {text!r}: expected a name, >= or <= or == and a number or percentage, like verified>=80%"
        )
    metric, sign, number, percent = found.groups()
    if metric not in METRICS:
        raise ParameterError(f"gate {text!r}: {metric!r} is not counted; there are {', '.join(METRICS)}")
    return Gate(metric, "==" if sign == "=" else sign, float(number), bool(percent))


def failed_gates(gates: Sequence[Gate], found: Tally) -> list[Gate]:
    """The gates that the batch does not meet."""
    return [gate for gate in gates if not gate.passes(found)]
