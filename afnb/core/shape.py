"""The shape rules of one run's log, as one table, and the guard that checks them event by event.

``RULES`` is in the order of the guard's checks: where two rules break at one event the first one of
the table is reported. A rule of level ``cursor`` is one that `ReplayCursor` refuses a log for as well
(it looks at a first event's kind before its seq); one of level ``guard`` only an append is refused for.
The three ``bad_*`` rules have no check here: reading the wire finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from afnb.core import events as ev

Level = Literal["cursor", "guard"]


@dataclass(frozen=True, slots=True)
class Violation:
    """The first place where a run's log breaks a rule.

    ``index`` is the 0-based position in the run's log, ``seq`` the envelope's own number, ``level``
    the rule's (see the module). ``source`` and ``line`` say where it was read, if known.
    """

    run_id: str
    index: int
    seq: int
    rule: str
    message: str
    level: Level
    source: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Before:
    """What the rules need to know of the events before the one they look at."""

    count: int = 0
    run_id: str | None = None
    last: ev.Envelope | None = None

    @property
    def next_seq(self) -> int:
        """The seq the next event must have."""
        return 0 if self.last is None else self.last.seq + 1

    @property
    def pending(self) -> ev.Intent | None:
        """The intent that awaits its completion: the last event, if it is one."""
        event = None if self.last is None else self.last.event
        return event if isinstance(event, ev.ModelCallRequested | ev.ToolCallRequested) else None

    def then(self, envelope: ev.Envelope) -> Before:
        """The same, one event later."""
        run_id = envelope.run_id if self.run_id is None else self.run_id
        return Before(self.count + 1, run_id, envelope)


Check = Callable[[Before, ev.Envelope], str | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: ``check`` gives the sentence of the violation or None; ``reference`` is the name of
    the same refusal in the original validator.
    """

    name: str
    level: Level
    reference: str
    check: Check | None


def _bad_schema_version(before: Before, e: ev.Envelope) -> str | None:
    if 1 <= e.schema_version <= ev.SCHEMA_VERSION:
        return None
    return f"schema version {e.schema_version}; this version reads 1 to {ev.SCHEMA_VERSION}"


def _head_not_at_zero(before: Before, e: ev.Envelope) -> str | None:
    if before.count or e.seq == 0:
        return None
    return f"the first event has seq {e.seq}, expected 0; the beginning of the log is missing"


def _non_contiguous(before: Before, e: ev.Envelope) -> str | None:
    if before.last is None or e.seq == before.next_seq:
        return None
    return f"seq {e.seq} after seq {before.last.seq}, expected {before.next_seq}"


def _missing_head(before: Before, e: ev.Envelope) -> str | None:
    if before.count or isinstance(e.event, ev.RUN_HEADS):
        return None
    return f"the first event is {e.event.kind}, expected RunStarted or GraphRunStarted"


def _mixed_run_ids(before: Before, e: ev.Envelope) -> str | None:
    if before.run_id is None or e.run_id == before.run_id:
        return None
    return f"run {e.run_id} in the log of run {before.run_id}; one log holds one run"


def _duplicate_head(before: Before, e: ev.Envelope) -> str | None:
    if before.count and isinstance(e.event, ev.RUN_HEADS):
        return f"a second {e.event.kind}; a run starts once, with its first event"
    return None


def _after_terminal(before: Before, e: ev.Envelope) -> str | None:
    if before.last is not None and isinstance(before.last.event, ev.TERMINALS):
        return f"{e.event.kind} after {before.last.event.kind}, which ends the run; nothing may follow"
    return None


def _expected_completion(before: Before, e: ev.Envelope) -> str | None:
    intent = before.pending
    if intent is None or type(e.event) is ev.COMPLETION_OF[type(intent)]:
        return None
    if isinstance(e.event, ev.RunAbandoned) and _names(e.event, intent):
        return None
    expected = ev.COMPLETION_OF[type(intent)].__name__
    return f"{e.event.kind} after {intent.kind} (seq {intent.seq}), expected its {expected}"


def _names(abandoned: ev.RunAbandoned, intent: ev.Intent) -> bool:
    """Whether the abandoned run says which write it leaves behind, and it is this one."""
    left = abandoned.unresolved_write
    if left is None or not isinstance(intent, ev.ToolCallRequested) or intent.effect != "write":
        return False
    return (left.seq, left.tool) == (intent.seq, intent.tool)


def _miscorrelated(before: Before, e: ev.Envelope) -> str | None:
    intent = before.pending
    if intent is None or not isinstance(e.event, ev.Completion) or e.event.seq == intent.seq:
        return None
    return f"{e.event.kind} answers seq {e.event.seq}, but the call before it is seq {intent.seq}"


def _uncorrelated(before: Before, e: ev.Envelope) -> str | None:
    if before.pending is None and isinstance(e.event, ev.Completion):
        return f"{e.event.kind} answers seq {e.event.seq}, but no call awaits an answer here"
    return None


def _intent_seq(before: Before, e: ev.Envelope) -> str | None:
    if isinstance(e.event, ev.Intent) and e.event.seq != e.seq:
        return f"{e.event.kind} says it is seq {e.event.seq}, but it stands at seq {e.seq}"
    return None


RULES: tuple[Rule, ...] = (
    Rule("bad_envelope", "cursor", "", None),
    Rule("unknown_kind", "cursor", "", None),
    Rule("bad_payload", "cursor", "", None),
    Rule("bad_schema_version", "guard", "BadSchemaVersion", _bad_schema_version),
    Rule("head_not_at_zero", "cursor", "NonContiguousSeq", _head_not_at_zero),
    Rule("non_contiguous", "cursor", "NonContiguousSeq", _non_contiguous),
    Rule("missing_head", "cursor", "ExpectedRunStarted", _missing_head),
    Rule("mixed_run_ids", "cursor", "RunIdMismatch", _mixed_run_ids),
    Rule("duplicate_head", "guard", "DuplicateRunStarted", _duplicate_head),
    Rule("after_terminal", "cursor", "AfterTerminal", _after_terminal),
    Rule("expected_completion", "guard", "ExpectedCompletion", _expected_completion),
    Rule("miscorrelated_completion", "guard", "MiscorrelatedCompletion", _miscorrelated),
    Rule("uncorrelated_completion", "guard", "UncorrelatedCompletion", _uncorrelated),
    Rule("intent_seq_mismatch", "guard", "IntentSeqMismatch", _intent_seq),
)
RULE: dict[str, Rule] = {rule.name: rule for rule in RULES}

_GUARD = tuple((rule, rule.check) for rule in RULES if rule.check is not None)
# The cursor asks what the first event is before it asks where it stands.
_CURSOR = tuple(
    sorted(
        ((rule, check) for rule, check in _GUARD if rule.level == "cursor"),
        key=lambda row: row[0].name != "missing_head",
    )
)


class LogValidator:
    """The guard of one run's log: what may be appended next.

    Examples
    --------
    >>> from afnb.core.events import Envelope, RunCompleted, RunStarted
    >>> from afnb.core.instants import Instant
    >>> guard, t = LogValidator(), Instant(0)
    >>> guard.append(Envelope("r", 0, t, RunStarted("hash", None)))
    >>> guard.check(Envelope("r", 2, t, RunCompleted(1))).message
    'seq 2 after seq 0, expected 1'
    """

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before = Before()

    @property
    def accepted(self) -> int:
        """How many events were appended."""
        return self._before.count

    def check(self, envelope: ev.Envelope) -> Violation | None:
        """Why this event may not follow, or None; nothing changes."""
        return _first(_GUARD, self._before, envelope)

    def append(self, envelope: ev.Envelope) -> Violation | None:
        """As `check`; an event that may follow becomes the last one."""
        violation = self.check(envelope)
        if violation is None:
            self._before = self._before.then(envelope)
        return violation


def first_violation(log: Iterable[ev.Envelope]) -> Violation | None:
    """The first rule that one run's log breaks, and where; None for a well-formed log.

    An intent that is the last event is legal: a dangling intent. The empty log is legal.
    """
    return _over(_GUARD, log)


def cursor_refusal(log: Iterable[ev.Envelope]) -> Violation | None:
    """What the replay cursor refuses this log for, or None; it looks at fewer rules than the guard."""
    return _over(_CURSOR, log)


def _over(rules: tuple[tuple[Rule, Check], ...], log: Iterable[ev.Envelope]) -> Violation | None:
    before = Before()
    for envelope in log:
        violation = _first(rules, before, envelope)
        if violation is not None:
            return violation
        before = before.then(envelope)
    return None


def _first(rules: tuple[tuple[Rule, Check], ...], before: Before, e: ev.Envelope) -> Violation | None:
    for rule, check in rules:
        message = check(before, e)
        if message is not None:
            run_id = before.run_id or e.run_id
            return Violation(run_id, before.count, e.seq, rule.name, message, rule.level)
    return None
