"""The shape rules of ``core.shape`` for many events at once.

Every rule looks back one event at most, so a whole table is checked by comparing each column with
itself shifted by one row: the rows of a run stand together, and the first row of each run is said to
have nothing before it. Which rule counts where two break at one event is the order of ``shape.RULES``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from afnb.core import events as ev
from afnb.core.shape import RULE, RULES, Before
from afnb.core.wirespec import EVENTS
from afnb.tables.columns import AnyArray, Bools, Ints

KINDS: tuple[str, ...] = tuple(EVENTS)
"""The 24 kinds; a kind's code is its place here."""
KIND_CODE: dict[str, int] = {name: code for code, name in enumerate(KINDS)}
UNKNOWN_KIND = 255
WRITE = ev.EFFECTS.index("write")
RULE_CODE: dict[str, int] = {rule.name: code for code, rule in enumerate(RULES, 1)}
RULE_OF_CODE: tuple[str, ...] = ("", *(rule.name for rule in RULES))
IS_CURSOR: Bools = np.array([False, *(rule.level == "cursor" for rule in RULES)])

_TOOL_CALL, _ABANDONED = KIND_CODE["ToolCallRequested"], KIND_CODE["RunAbandoned"]


def _table(*classes: type[ev.Event]) -> Bools:
    found = np.zeros(256, np.bool_)
    found[[KIND_CODE[c.__name__] for c in classes]] = True
    return found


IS_HEAD, IS_TERMINAL = _table(*ev.RUN_HEADS), _table(*ev.TERMINALS)
IS_INTENT = _table(*ev.COMPLETION_OF)
IS_COMPLETION = _table(*ev.COMPLETION_OF.values())
_HEAD, _TERMINAL, _INTENT, _COMPLETION, _TOOL = 1, 2, 4, 8, 16
_ROLES = _HEAD * IS_HEAD + _TERMINAL * IS_TERMINAL + _INTENT * IS_INTENT + _COMPLETION * IS_COMPLETION
_ROLES = _ROLES + _TOOL * _table(ev.ToolCallRequested, ev.ToolCallCompleted)
_ROLE_OF_KIND = _ROLES.astype(np.uint8).tobytes()


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules look at, one value an event.

    Parameters
    ----------
    seq, version
        The envelope's own numbers.
    kind
        A code of ``KINDS``, or ``UNKNOWN_KIND``.
    corr, has_corr
        The seq the event names, and whether it names one.
    tool
        A code that two events of one table share if their tools are the same; -1 for no tool.
    effect
        The place in ``EFFECTS``; -1 for none.
    foreign
        Whether the event is of another run than the log's first event.
    """

    seq: npt.NDArray[np.uint64]
    version: npt.NDArray[np.uint32]
    kind: npt.NDArray[np.uint8]
    corr: npt.NDArray[np.uint64]
    has_corr: Bools
    tool: npt.NDArray[np.int32]
    effect: npt.NDArray[np.int8]
    foreign: Bools

    def __len__(self) -> int:
        return len(self.seq)

    def at(self, rows: slice | AnyArray) -> Facts:
        """Some rows: a view for a slice, a copy for an array of row numbers."""
        return Facts(*(getattr(self, f.name)[rows] for f in fields(self)))

    def telling(self) -> frozenset[str]:
        """The columns that a rule may look at and that are not everywhere the same."""
        rare = _RARE if (self.kind == _ABANDONED).any() else ()
        unlike = [name for name in ("version", "foreign") if not _is_constant(getattr(self, name))]
        return frozenset(("seq", "kind", "corr", *rare, *unlike))

    def some(self, rows: Ints, telling: frozenset[str]) -> Facts:
        """Some rows, with copies of the telling columns only; the others have their first value."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        return Facts(
            **{
                name: values[rows] if name in telling else np.broadcast_to(values[:1], len(rows))
                for name, values in columns.items()
            }
        )


_RARE = ("has_corr", "tool", "effect")  # what is asked only of a run that was given up


def _is_constant(values: AnyArray) -> bool:
    return bool(len(values)) and bool(values[0] == values[-1]) and bool((values == values[0]).all())


def roles(kinds: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """What kinds of event are to the rules, one bit each: head, terminal, intent, completion, a tool's."""
    return np.frombuffer(kinds.tobytes().translate(_ROLE_OF_KIND), np.uint8)


def broken(
    before: Facts, at: Facts, is_first: Bools, only: Bools | None = None
) -> tuple[npt.NDArray[np.uint8], Bools]:
    """The rule each event breaks (0 for none), and whether it breaks one of the cursor's rules.

    Parameters
    ----------
    before, at
        The events, and in the same row the event before each in its run's log.
    is_first
        Where nothing stands before; ``before`` is not looked at there.
    only
        The events to look at, by default all.

    Returns
    -------
    rule, cursor
        Codes of ``RULE_OF_CODE``, and a mask: an event may break a rule of the guard first and one
        that the replay cursor refuses a log for as well.
    """
    rule = np.zeros(len(at), np.uint8)
    cursor = np.zeros(len(at), np.bool_)
    later = ~is_first
    role, role_before = roles(at.kind), roles(before.kind)
    pending = ((role_before & _INTENT) != 0) & later
    completes = (role & _COMPLETION) != 0
    written = at.kind == _ABANDONED
    if written.any():
        written &= (before.kind == _TOOL_CALL) & (before.effect == WRITE)
        written &= at.has_corr & (at.corr == before.corr) & (at.tool == before.tool)
    head = (role & _HEAD) != 0
    answered = completes & (((role ^ role_before) & _TOOL) == 0)

    def mark(where: Bools, name: str) -> None:
        if only is not None:
            where = where & only
        if where.any():
            rule[where] = RULE_CODE[name]
            if RULE[name].level == "cursor":
                cursor[where] = True

    # From the last rule of the table to the first, so that the first one stays.
    mark(((role & _INTENT) != 0) & (at.corr != at.seq), "intent_seq_mismatch")
    mark(completes & ~pending, "uncorrelated_completion")
    mark(pending & completes & (at.corr != before.corr), "miscorrelated_completion")
    mark(pending & ~answered & ~written, "expected_completion")
    mark(((role_before & _TERMINAL) != 0) & later, "after_terminal")
    mark(head & later, "duplicate_head")
    if at.foreign.any():
        mark(at.foreign, "mixed_run_ids")
    mark(is_first & ~head, "missing_head")
    follows = at.seq == before.seq + np.uint64(1)
    follows &= at.seq != 0  # after the largest seq there is no next one
    mark(later & ~follows, "non_contiguous")
    mark(is_first & (at.seq != 0), "head_not_at_zero")
    mark((at.version < 1) | (at.version > ev.SCHEMA_VERSION), "bad_schema_version")
    unknown = at.kind == UNKNOWN_KIND
    if unknown.any():
        mark(unknown, "unknown_kind")
    return rule, cursor


@dataclass(frozen=True, slots=True)
class Seen:
    """One event as far as a rule's sentence needs it."""

    run_id: str
    seq: int
    version: int
    kind: str
    corr: int
    tool: str | None
    effect: str | None

    def envelope(self) -> ev.Envelope:
        """An envelope that says of its event what the rules ask for, and nothing else."""
        return ev.Envelope(self.run_id, self.seq, None, _stand_in(self), self.version)  # type: ignore[arg-type]


def _stand_in(seen: Seen) -> ev.Event:
    if seen.kind == "ModelCallRequested":
        return ev.ModelCallRequested(seen.corr, "")
    if seen.kind == "ModelCallCompleted":
        return ev.ModelCallCompleted(seen.corr, None, ev.TokenUsage(0, 0))
    if seen.kind == "ToolCallRequested":
        return ev.ToolCallRequested(seen.corr, seen.tool or "", None, seen.effect or "read")  # type: ignore[arg-type]
    if seen.kind == "ToolCallCompleted":
        return ev.ToolCallCompleted(seen.corr, None)
    if seen.kind == "RunAbandoned":
        left = None if seen.tool is None else ev.UnresolvedWrite(seen.corr, seen.tool)
        return ev.RunAbandoned(None, left)
    bare: ev.Event = object.__new__(EVENTS[seen.kind].cls)
    return bare


def sentence(rule: str, before: Seen | None, at: Seen, log_run_id: str) -> str:
    """What ``core.shape`` says of a violation."""
    if rule == "unknown_kind":
        return f"{at.kind!r} is none of the {len(KINDS)} kinds of event"
    check = RULE[rule].check
    assert check is not None
    last = None if before is None else before.envelope()
    context = Before(0 if last is None else 1, None if last is None else log_run_id, last)
    message = check(context, at.envelope())
    assert message is not None, (rule, before, at)
    return message
