"""What reading event logs has to remark, as rows of the table ``problems``."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from afnb.core import events as ev
from afnb.core.eventlog import breaks_off
from afnb.core.wirekinds import normal_run_id
from afnb.errors import ParameterError
from afnb.io.eventbatch import Batch
from afnb.io.eventparse import Refused
from afnb.io.eventscan import Stretch
from afnb.tables.rules import KIND_CODE

Problem = dict[str, Any]
_W = rb"[ \t\r]*"
_HEAD = re.compile(
    _W + rb"\{" + _W + rb'"run_id"' + _W + rb":" + _W + rb'"([^"\\]*)"'
    rb"(?:" + _W + rb"," + _W + rb'"seq"' + _W + rb":" + _W + rb"(\d+))?"
)  # fmt: skip
_NOW = KIND_CODE["NowObserved"]


def problem(level: str, rule: str, message: str, file: str | None, **more: Any) -> Problem:
    """One row; ``more`` has the columns that are not null."""
    return {"file": file, "level": level, "rule": rule, "message": message, **more}


def unread(stretch: Stretch, refused: Refused, file: str | None) -> Problem:
    """A line that is no event: an error, or a warning where it is a tail that breaks off."""
    line = stretch.line(refused.at)
    where = {"line": int(stretch.numbers[refused.at]), "byte": int(stretch.places[refused.at])}
    error = refused.error
    if stretch.is_tail and breaks_off(line, error):
        message = (
            f"1 unfinished line at the end was left out: {len(line)} bytes from byte {where['byte']}; "
            "it may still be being written"
        )
        return problem("warning", "unfinished_tail", message, file, **where)
    run_id, seq = run_of(line)
    found = {"field": error.field or None, "run_id": run_id, "seq": seq}
    return problem("error", error.rule, error.message, file, **where, **found)


def run_of(line: bytes) -> tuple[str | None, int | None]:
    """The run and the seq of a line that cannot be read, where they can be seen.

    Examples
    --------
    >>> run_of(b'{"run_id":"00000000-0000-4000-8000-000000000001","seq":7,"schema')
    ('00000000-0000-4000-8000-000000000001', 7)
    """
    run_id: Any = None
    seq: Any = None
    try:
        value = json.loads(line, parse_int=_small)
    except (ValueError, RecursionError):
        head = _HEAD.match(line)
        if head is not None:
            run_id = head[1].decode("ascii", "replace")
            seq = None if head[2] is None or len(head[2]) > 20 else int(head[2])
    else:
        if isinstance(value, dict):
            run_id, seq = value.get("run_id"), value.get("seq")
        elif isinstance(value, list) and len(value) > 1:
            run_id, seq = value[:2]
    try:
        run_id = normal_run_id(run_id) if isinstance(run_id, str) else None
    except ParameterError:
        run_id = None
    known = run_id is not None and type(seq) is int and 0 <= seq <= ev.U64_MAX
    return run_id, seq if known else None


def _small(digits: str) -> int | None:
    return int(digits) if len(digits) <= 20 else None


def remarks(stretch: Stretch, batch: Batch, file: str | None) -> list[Problem]:
    """What there is to say of lines that were read: the last one has no newline."""
    if not stretch.is_tail or not len(batch):
        return []
    where = {"line": int(stretch.numbers[0]), "byte": int(stretch.places[0])}
    message = "the last line is whole but has no newline at its end"
    return [problem("warning", "no_final_newline", message, file, **where)]


class TimesOutside:
    """Counts the times that no Arrow time can hold; they stay in the table as text."""

    def __init__(self) -> None:
        self._count, self._first = 0, 0

    def see(self, batch: Batch) -> None:
        """Count those of one batch."""
        outside = ~batch.recorded_at_ns.there
        outside |= (batch.kind == _NOW) & ~batch.now_ns.there
        rows = np.flatnonzero(outside)
        if len(rows):
            self._first = self._first or int(batch.line[rows[0]])
            self._count += len(rows)

    def problems(self, file: str | None) -> list[Problem]:
        """One warning where there were any."""
        if not self._count:
            return []
        message = (
            f"{self._count:,} event{'s have times' if self._count > 1 else ' has a time'} before 1677-09-22 "
            "or after 2262-04-11, kept as text only; this is the first"
        )
        return [problem("warning", "time_out_of_range", message, file, line=self._first)]
