"""``branch_log``: a new run over another run's beginning, with one recorded answer replaced.

The branch holds nothing that was recorded after its point, so a cursor over it replays the prefix and
goes live. What goes live may send a write again that the origin sent after that point: those writes
are named and must be acknowledged, and the acknowledgement is recorded in the branch's head (for an
agent run in the additional key ``forked_from``, which a graph run's head has by itself).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from afnb.core import events as ev
from afnb.core.eventlog import EventLog
from afnb.core.graph import derive_graph_projection
from afnb.core.jsonvalue import MISSING, JsonOrMissing
from afnb.core.permits import detached
from afnb.core.wirekinds import normal_run_id
from afnb.errors import ParameterError


def writes_after(log: Iterable[ev.Envelope], through_seq: int) -> tuple[ev.ToolCallRequested, ...]:
    """The ``write`` calls recorded after a seq: a branch there may make them again."""
    return tuple(
        e.event
        for e in log
        if e.seq > through_seq and isinstance(e.event, ev.ToolCallRequested) and e.event.effect == "write"
    )


def branch_log(
    log: EventLog,
    through_seq: int,
    *,
    run_id: str,
    value: JsonOrMissing = MISSING,
    acknowledge_writes: Iterable[int] | Literal["all"] = (),
) -> EventLog:
    """A new log over ``log``'s events up to and including ``through_seq``.

    Parameters
    ----------
    log
        The origin; it is not changed.
    through_seq
        The seq of the last event the branch shares.
    run_id
        The branch's run, a UUID.
    value
        If given, what the call completed at ``through_seq`` gave instead: the response of a model
        call (its token counts are kept) or the output of a tool call.
    acknowledge_writes
        The seqs of the origin's write calls after ``through_seq`` that may be made again, or "all".

    Returns
    -------
    EventLog
        The prefix under the new run id, times as recorded.

    Raises
    ------
    ParameterError
        No such seq, a ``value`` where no call completes, a write that is not acknowledged or an
        acknowledged seq that is none, or the origin's own run id.
    """
    prefix = [e for e in log.envelopes if e.seq <= through_seq]
    if not prefix or prefix[-1].seq != through_seq:
        last = log.envelopes[-1].seq if log.envelopes else None
        held = "no events" if last is None else f"seqs 0 to {last}"
        raise ParameterError(f"there is no event at seq {through_seq} to branch at; the log holds {held}")
    run_id = normal_run_id(run_id)
    if run_id == log.id:
        raise ParameterError(f"the branch has its origin's run id {run_id}; give it one of its own")
    acknowledged = _acknowledged(writes_after(log.envelopes, through_seq), acknowledge_writes)
    head = prefix[0].event
    if value is not MISSING:
        prefix[-1] = replace(prefix[-1], event=_patched(prefix[-1], value))
    prefix[0] = replace(prefix[0], event=_forked(head, log, prefix, through_seq, acknowledged))
    return EventLog(run_id, tuple(replace(e, run_id=run_id) for e in prefix))


def _acknowledged(
    writes: tuple[ev.ToolCallRequested, ...], given: Iterable[int] | Literal["all"]
) -> tuple[int, ...]:
    known = {w.seq: w.tool for w in writes}
    acknowledged = set(known) if given == "all" else {int(seq) for seq in given}
    unknown = sorted(acknowledged - known.keys())
    if unknown:
        raise ParameterError(
            f"seq {unknown[0]} is acknowledged as a write, but no write call after the branch point has it; "
            f"those are {sorted(known) or 'none'}"
        )
    missing = sorted(known.keys() - acknowledged)
    if missing:
        named = ", ".join(f"{known[seq]} (seq {seq})" for seq in missing)
        raise ParameterError(
            f"after the branch point the origin made writes that the branch may make again: {named}; "
            "acknowledge them with acknowledge_writes"
        )
    return tuple(sorted(acknowledged))


def _patched(envelope: ev.Envelope, value: JsonOrMissing) -> ev.Event:
    event = envelope.event
    if isinstance(event, ev.ModelCallCompleted):
        return replace(event, response=detached(value))
    if isinstance(event, ev.ToolCallCompleted):
        return replace(event, output=detached(value))
    raise ParameterError(
        f"seq {envelope.seq} is {event.kind}; a value can be put in place of a completed call's only"
    )


def _forked(
    head: ev.Event, log: EventLog, prefix: list[ev.Envelope], through_seq: int, acknowledged: tuple[int, ...]
) -> ev.Event:
    origin = str(log.id)
    if isinstance(head, ev.GraphRunStarted):
        node = derive_graph_projection(prefix).current_node or ""
        return replace(
            head, forked_from=ev.ForkOrigin(origin, through_seq, node, head.graph_hash, acknowledged)
        )
    link = {"run_id": origin, "through_seq": through_seq, "acknowledged_writes": list(acknowledged)}
    return replace(head, extra={**head.extra, "forked_from": link})
