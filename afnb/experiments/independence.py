"""Signs that the replays of an experiment are not independent: answers that are kept between runs.

Every replay asks the provider anew after the branch point. An agent with a cache of its own, or a cache
between it and the provider, gives all replays of an arm the answers of the first, so that an arm of any size
is one observation; and the control arm gets the recorded answers back. afnb cannot see a cache. It sees
requests that are missing, in the second self-check (``tape_replay.self_check``) and here, and one answer of
the provider that came twice.

Not seen: a cache that spares every recorded request and all that replays of an arm have in common, and one
behind the provider's address that gives its answers new ids.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from afnb.core.arm import Arm
from afnb.core.canon import canonical_key
from afnb.core.cassette import Cassette, Exchange
from afnb.core.jsonvalue import equal, loads
from afnb.core.matching import Matching
from afnb.core.providers import is_model_request
from afnb.core.run import Run
from afnb.core.sse import parse
from afnb.errors import InputError
from afnb.experiments.replay import ReplayResult

KEPT = (
    "does the agent keep answers between its runs? Switch its cache off, or put it below the working "
    "directory that each replay is given"
)
SHARED = "is there a cache between the agent and its provider? Switch it off for replays"

ID_LENGTH = 20
"""Characters from which on the id of an answer is taken for one that no other answer has."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What one replay asked live, in order: key of each request, each answer, their ids."""

    keys: tuple[str, ...]
    answers: tuple[bytes, ...]
    ids: frozenset[str] = frozenset()


def not_independent(
    results: Sequence[ReplayResult],
    used: Container[tuple[str, int]],
    recorded: Run,
    *,
    recording: Cassette | None = None,
    control: Arm | None = None,
    matching: Matching | None = None,
) -> str | None:
    """Why these replays cannot carry a verdict, or None.

    Parameters
    ----------
    results
        Replays of both arms.
    used
        Arm and index of those that the rule consumed.
    recorded
        The intervened run.
    recording, control, matching
        The intervened recording, the control arm, and how requests are compared; None on event logs.
    """
    for role, name in (("patch", "patched"), ("control", "control")):
        arm = [r for r in results if r.role == role and (role, r.index) in used and _went_well(r)]
        asked = [r for r in arm if r.report.live]
        unasked = [r for r in arm if not r.report.live]
        if any(_alike(one, other) for one in unasked for other in asked):
            return (
                f"some {name} replays asked the provider after the branch point, and others came to the same "
                f"end without asking: {KEPT}"
            )
        if role == "control" and unasked and not asked and all(_shorter(r, recorded) for r in unasked):
            return f"no control replay asked the provider anything, where the recording goes on: {KEPT}"
        if matching is None:
            continue
        live = [_asked(r.recording, matching) for r in asked if isinstance(r.recording, Cassette)]
        if any(one.ids & other.ids for one, other in itertools.combinations(live, 2)):
            return f"one answer of the provider came to two {name} replays, with the same id: {SHARED}"
        if role == "control" and recording is not None and control is not None:
            live.append(_tail(recording, control, matching))
        if any(_skips(one, other) or _skips(other, one) for one, other in itertools.combinations(live, 2)):
            return (
                f"of {name} replays that had got the same answers, one left out a request that another made "
                f"before going on: {KEPT}"
            )
    return None


def _went_well(result: ReplayResult) -> bool:
    run = result.run
    return result.reason is None and run is not None and not run.exit_status


def _alike(one: ReplayResult, other: ReplayResult) -> bool:
    """Whether two agents said the same in the end, or nothing by which they could be told apart."""
    first, second = _said(one), _said(other)
    return first in (None, "") or second in (None, "") or equal(first, second)


def _said(result: ReplayResult) -> Any:
    """What a command printed, or a function returned: its own words, never what the tape answered."""
    if result.ended is None or not result.ended.known:
        return result.run.stdout if result.run is not None else None
    ended = result.ended
    return ended.digest if ended.digest is not None else ended.said


def _shorter(result: ReplayResult, recorded: Run) -> bool:
    assert result.run is not None
    return _answers(result.run) < _answers(recorded)


def _answers(run: Run) -> int:
    return sum(step.kind == "llm" for step in run.steps)


def _asked(again: Cassette, matching: Matching) -> Asked:
    """What went live in a replay, from its own recording."""
    sources = again.attrs.get("sources", [])
    pairs = zip(again.exchanges, sources, strict=False)
    return _of([exchange for exchange, source in pairs if source == "live"], matching)


def _tail(recording: Cassette, control: Arm, matching: Matching) -> Asked:
    """What the recorded run asked after the branch point of the control arm; ids are not told from copies."""
    found = _of(recording.exchanges[control.serve_through + 1 :], matching)
    return Asked(found.keys, found.answers)


def _of(exchanges: Sequence[Exchange], matching: Matching) -> Asked:
    ids = [id_of(exchange.response.body) for exchange in exchanges if is_model_request(exchange.request)]
    return Asked(
        tuple(canonical_key(exchange.request, matching).digest for exchange in exchanges),
        tuple(exchange.response.body for exchange in exchanges),
        frozenset(found for found in ids if found is not None),
    )


def _skips(one: Asked, other: Asked) -> bool:
    """Whether ``other`` had all that ``one`` had, left out its next request, and went on with a later one."""
    same = 0
    for key, answer, also, reply in zip(one.keys, one.answers, other.keys, other.answers, strict=False):
        if key != also or answer != reply:
            break
        same += 1
    if same >= len(one.keys) or same >= len(other.keys) or one.keys[same] == other.keys[same]:
        return False
    left_out = one.keys[same] not in other.keys[same:]
    return left_out and other.keys[same] in one.keys[same + 1 :]


def id_of(body: bytes) -> str | None:
    """The id that a provider gave to an answer, plain or streamed; None for none, or a short one.

    Examples
    --------
    >>> id_of(b'{"id": "chatcmpl-AbCdEfGhIjKlMnOp"}'), id_of(b'{"id": "1"}')
    ('chatcmpl-AbCdEfGhIjKlMnOp', None)
    """
    try:
        if body.lstrip()[:1] == b"{":
            first = loads(body)
        else:
            first = loads(next((event.data for event in parse(body[:65536]) if event.data), ""))
    except InputError:
        return None
    if not isinstance(first, dict):
        return None
    for holder in (first, first.get("message"), first.get("response")):
        found = (holder.get("id") or holder.get("responseId")) if isinstance(holder, dict) else None
        if isinstance(found, str) and len(found) >= ID_LENGTH:
            return found
    return None
