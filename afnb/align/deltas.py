"""Time and tokens: what the bad run took more, or less, than the good one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afnb.align.fork import Fork
from afnb.core.run import Step

_UTC = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?[Zz]",
    re.ASCII,
)
_I64 = 2**63
_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


@dataclass(frozen=True, slots=True)
class Delta:
    """Bad minus good: wall clock in whole milliseconds and tokens; None where a run does not say."""

    latency_ms: int | None = None
    tokens: int | None = None

    def __bool__(self) -> bool:
        return self.latency_ms is not None or self.tokens is not None


@dataclass(frozen=True, slots=True)
class Deltas:
    """Of the whole runs, and of the two steps at the fork where both runs have one."""

    total: Delta
    at_fork: Delta | None = None


def deltas(a: Sequence[Step], b: Sequence[Step], fork: Fork | None) -> Deltas | None:
    """Bad minus good in time and tokens, or None where the runs say nothing of either.

    The time of a run goes from the first readable start to the last readable end. Only UTC
    timestamps (``Z``) are read. Tokens are ``outputs.usage.total_tokens``, else the sum of
    ``prompt_tokens`` and ``completion_tokens``; for steps read from a recording also ``usage`` in
    ``attrs``.
    """
    total = Delta(_minus(_wall_ms(b), _wall_ms(a)), _minus(_run_tokens(b), _run_tokens(a)))
    at_fork = None
    if fork is not None and fork.good_step is not None and fork.bad_step is not None:
        good, bad = a[fork.good_step], b[fork.bad_step]
        at_fork = (
            Delta(_minus(_wall_ms([bad]), _wall_ms([good])), _minus(_tokens(bad), _tokens(good))) or None
        )
    return Deltas(total, at_fork) if total or at_fork else None


def _minus(bad: int | None, good: int | None) -> int | None:
    return None if bad is None or good is None else bad - good


def _wall_ms(steps: Sequence[Step]) -> int | None:
    start = next((t for step in steps if (t := _nanoseconds(step.t_start)) is not None), None)
    end = next((t for step in reversed(steps) if (t := _nanoseconds(step.t_end)) is not None), None)
    if start is None or end is None or end < start:
        return None
    return (end - start) // 1_000_000


def _nanoseconds(text: str | None) -> int | None:
    """Nanoseconds since the year 0 of a UTC timestamp; the day of month is checked against 31 only."""
    found = _UTC.fullmatch(text) if text is not None else None
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
        return None
    leap = month > 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    before = year - 1
    days = year * 365 + before // 4 - before // 100 + before // 400 + _BEFORE_MONTH[month - 1] + leap + day
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    return seconds * 1_000_000_000 + int((found[7] or "0")[:9].ljust(9, "0"))


def _run_tokens(steps: Sequence[Step]) -> int | None:
    counts = [count for step in steps if (count := _tokens(step)) is not None]
    return sum(counts) if counts else None


def _tokens(step: Step) -> int | None:
    outputs = step.outputs
    if isinstance(outputs, Mapping) and isinstance(outputs.get("usage"), Mapping):
        usage = outputs["usage"]
        total = _count(usage.get("total_tokens"))
        return total if total is not None else _sum(usage, "prompt_tokens", "completion_tokens")
    usage = step.attrs.get("usage")
    if step.exchange is not None and isinstance(usage, Mapping):
        return _sum(usage, "input_tokens", "output_tokens")
    return None


def _sum(usage: Mapping[str, Any], *names: str) -> int | None:
    counts = [count for name in names if (count := _count(usage.get(name))) is not None]
    return sum(counts) if counts else None


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and -_I64 <= value < _I64:
        return value
    return None
