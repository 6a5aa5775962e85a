"""``Arm``: what one branch of an experiment serves, changes and asks live. Pure data.

``causal`` compiles interventions into an arm, ``io.serve`` carries it out, ``experiments`` counts.
Positions: ``exchange`` is the cassette's number of the recorded exchange; ``ordinal`` the number of
that exchange among the successful model exchanges of its branch in the recording (0-based). The
first intervened answer is recognised by its recorded request; a later one by its ordinal alone,
since by then the agent's history has changed and so has its request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from afnb.core.cassette import Response
from afnb.core.reshape import RequestChange

Tail = Literal["live", "tape", "good"]


@dataclass(frozen=True, slots=True)
class AnswerPatch:
    """Answer the exchange with ``response`` (the recorded one in a control arm)."""

    step: int
    exchange: int
    ordinal: int
    branch: str
    response: Response
    as_recorded: bool = False


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Ask the provider again at this exchange (``Resample``).

    From there on ``model`` takes the place of the model that the recording asked there, wherever the agent
    asks for that one, and ``change`` is made to every request of the conversation.
    """

    step: int
    exchange: int
    ordinal: int
    branch: str
    model: str | None = None
    change: RequestChange | None = None


@dataclass(frozen=True, slots=True)
class ResultPatch:
    """Replace a tool call's result in every later request before it is forwarded.

    ``exchange`` is where the call was made, ``call_id`` and ``call_index`` (position among that
    answer's calls) say which; ``as_recorded`` forwards the result unchanged (a control arm).
    ``tool_exchange`` is the recording's number of the call where a wrapped tool was recorded making it: its
    result is then replaced at its source. For a call that no answer made, ``call_index`` is -1.
    """

    step: int
    exchange: int
    call_id: str | None
    call_index: int
    tool: str
    value: Any
    as_recorded: bool = False
    tool_exchange: int | None = None


Patch = AnswerPatch | AskAgain | ResultPatch


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: its patches in run order and how far the tape answers.

    ``serve_through`` is an exchange index, inclusive; -1 means everything is live. ``tail`` other
    than ``live`` is a screen and never earns ``verified``.
    """

    name: str
    patches: tuple[Patch, ...] = ()
    serve_through: int = -1
    tail: Tail = "live"


@dataclass(frozen=True, slots=True)
class CallPatch:
    """On an event log: what the run's ``step``-th call gives; ``ask`` asks it live instead.

    ``kind`` is ``llm`` or ``tool``. ``value`` is the response of a model call or the output of a tool;
    ``model`` and ``change`` hold from there on, as in ``AskAgain``.
    """

    step: int
    kind: str
    name: str
    value: Any = None
    ask: bool = False
    as_recorded: bool = False
    model: str | None = None
    change: RequestChange | None = None


@dataclass(frozen=True, slots=True)
class LogArm:
    """One arm on an event log: the recorded prefix through ``through_seq``, then live.

    ``patches`` are in run order. The first acts on the prefix's last completion (or, asked again, right
    after the prefix); later ones by position among the run's calls.
    """

    name: str
    patches: tuple[CallPatch, ...]
    through_seq: int
    prefix_calls: int
    tail: Tail = "live"
