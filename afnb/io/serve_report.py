"""What a session did, as frozen plain data (picklable, so that a worker can hand it back)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["record", "replay", "branch"]
KEPT_MISSES = 1000


@dataclass(frozen=True, slots=True)
class Missed:
    """One request that the tape could not answer, and what was different.

    Parameters
    ----------
    request
        Which request of the session it was (0-based, in order of asking).
    method, path
        What was asked.
    nearest
        Exchange whose recorded request is nearest, or None if nothing is comparable.
    where
        First differing JSON path in the two bodies (``messages[3].content``), or None.
    recorded, asked
        The two texts there, 40 characters either side of the difference; None if there is no such path.
    reason
        One sentence for a person.
    suggestions
        Ready-made matching patterns that would forgive the difference.
    offset
        Character of the recorded text there at which the two differ.
    key, nearest_key
        Keys of what was asked and of the nearest recorded request, the beginnings of their digests.
    """

    request: int
    method: str
    path: str
    nearest: int | None
    where: str | None
    recorded: str | None
    asked: str | None
    reason: str
    suggestions: tuple[str, ...] = ()
    offset: int | None = None
    key: str | None = None
    nearest_key: str | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens by the providers' own usage; ``unknown`` counts model answers that stated none."""

    input: int = 0
    output: int = 0
    unknown: int = 0

    @property
    def total(self) -> int:
        """Input and output together.

        Examples
        --------
        >>> Tokens(input=10, output=5).total
        15
        """
        return self.input + self.output


@dataclass(frozen=True, slots=True)
class SessionReport:
    """Every count of one session.

    Parameters
    ----------
    mode
        ``record`` (no tape), ``replay`` (a tape) or ``branch`` (a tape and an arm).
    requests
        Requests the agent sent. Each one was served, went live or was refused.
    served
        Answered without a live call: from the tape, by a patch, or from the good run's tape.
    served_patched
        Of these, answers of an ``AnswerPatch`` (a control arm's answers as recorded included).
    served_good
        Of these, answers of the good run's tape (``tail="good"`` only).
    live
        Live calls started (each is paid for, whatever came of it).
    missed
        Requests whose answer was due from the tape and was not on it.
    refused
        Refused requests by reason: ``missed``, ``prefix_diverged``, ``offline``, ``closed``,
        ``misrouted``, ``websocket``, and with the sentence after them ``gate: `` and ``fault: ``.
    live_before_branch
        Live calls started before every intervention had taken effect.
    beyond_recording
        Served answers to a request asked more often than it was recorded.
    rules
        Matching rules that served answers needed, with how many needed each.
    patches_applied
        Steps whose intervention took effect, in order of taking effect.
    patches_missing
        Steps whose intervention did not (yet).
    branch_reached
        Whether every intervention took effect (without patches: whether the tape was served through the
        arm's ``serve_through``). True where there is no arm.
    first_miss
        The first request that missed, explained.
    misses
        Every request that missed, explained, up to ``KEPT_MISSES`` of them.
    out_of_order
        Served answers recorded before one that was already served: the order of independent requests
        changed, which is harmless.
    prefix_diverged
        The miss that ended the replay before its first intervention took effect, if one did.
    tokens, tokens_live
        Of all answers, and of live ones only.
    upstream_errors
        One sentence for each live call that got no answer.
    live_error_statuses
        HTTP error statuses of live answers, in order.
    unanswered
        One sentence for each conversation whose last live request the provider gave no answer of a model.
    tools_served, tools_live, tools_stubbed
        Calls of wrapped tools: answered from the recording or by an intervention, really run, and answered
        by a stand-in.
    tools_refused
        One sentence for each call that was not let run.
    tools_unrecorded
        One sentence for each result that is no JSON value and so is not recorded.
    incomplete, incomplete_live
        Answers whose stream stopped before its end; live ones alone.
    abandoned
        Live answers that the agent stopped reading.
    in_flight
        Live calls begun and not yet ended.
    late
        Requests that came after the session was closed.
    """

    mode: Mode
    requests: int = 0
    served: int = 0
    served_patched: int = 0
    served_good: int = 0
    live: int = 0
    missed: int = 0
    refused: tuple[tuple[str, int], ...] = ()
    live_before_branch: int = 0
    beyond_recording: int = 0
    rules: tuple[tuple[str, int], ...] = ()
    patches_applied: tuple[int, ...] = ()
    patches_missing: tuple[int, ...] = ()
    branch_reached: bool = True
    first_miss: Missed | None = None
    misses: tuple[Missed, ...] = ()
    out_of_order: int = 0
    prefix_diverged: Missed | None = None
    tokens: Tokens = Tokens()
    tokens_live: Tokens = Tokens()
    upstream_errors: tuple[str, ...] = ()
    live_error_statuses: tuple[int, ...] = ()
    unanswered: tuple[str, ...] = ()
    tools_served: int = 0
    tools_live: int = 0
    tools_stubbed: int = 0
    tools_refused: tuple[str, ...] = ()
    tools_unrecorded: tuple[str, ...] = ()
    incomplete: int = 0
    incomplete_live: int = 0
    abandoned: int = 0
    in_flight: int = 0
    late: int = 0

    @property
    def refusals(self) -> int:
        """How many requests were refused, for whatever reason.

        Examples
        --------
        >>> SessionReport("replay", refused=(("missed", 2), ("offline", 1))).refusals
        3
        """
        return sum(count for _, count in self.refused)
