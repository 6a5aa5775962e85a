"""What a session must know of a tape beside its answers: branches, positions, usage. Computed once a tape."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from afnb.core import providers
from afnb.core.cassette import Exchange, Request, Response
from afnb.core.steps import is_pending, model_positions
from afnb.core.tooltape import ToolTape

if TYPE_CHECKING:
    from afnb.core.providers import Answer
    from afnb.core.tape import Tape

KEPT_TAPES = 16
NO_FAULT_OF_THE_REQUEST = frozenset({401, 402, 403, 404, 408, 409, 425, 429})


def said_all(request: Request, response: Response) -> bool:
    """Whether a stream that nobody read to its end had come to its end mark."""
    answer = providers.read_answer(request, replace(response, incomplete=False))
    if answer is None:
        return response.body.rstrip().endswith(b"[DONE]")
    return answer.complete


def is_incomplete(response: Response, answer: Answer | None) -> bool:
    """Whether an answer stopped before its end, at the connection or by the provider's own account."""
    return response.incomplete or (answer is not None and not answer.complete)


def no_answer(response: Response) -> str | None:
    """Why what a model request brought is no answer, by the provider's fault; None if it is the request's.

    A key that is refused, a limit, a server's error, and a success that holds no answer of a model (a login
    page, an empty body) say nothing of the agent. A request that is refused for what it says, and one whose
    answer is still being made, do not count.

    Examples
    --------
    >>> no_answer(Response(503)), no_answer(Response(200, body=b"<html>"))
    ('HTTP 503', 'HTTP 200 without an answer of a model')
    >>> no_answer(Response(400)) is None
    True
    """
    if response.status in NO_FAULT_OF_THE_REQUEST or response.status >= 500:
        return f"HTTP {response.status}"
    if response.status >= 400 or response.incomplete or is_pending(response.body):
        return None
    return f"HTTP {response.status} without an answer of a model"


class TapeFacts:
    """The branches of a tape. Read-only after it is made, apart from a memo of answers already read."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.positions = model_positions(tape.cassette)
        self._branches: dict[tuple[str, bytes], str] = {}
        for exchange in tape.cassette.exchanges:
            key = (exchange.request.path, exchange.request.body)
            position = self.positions.get(exchange.idx)
            if position is not None:
                self._branches[key] = position[0]
        self._answers: dict[int, Answer | None] = {}
        self.tools = ToolTape(tape.cassette, tape.matching, tape.repeat)

    def recorded_branch(self, request: Request) -> str | None:
        """The branch of a request that is on the tape byte for byte."""
        return self._branches.get((request.path, request.body))

    def prefix_lengths(self, through: int) -> Counter[str]:
        """How many answers of the model each branch has on the tape up to ``through``, inclusive."""
        return Counter(branch for idx, (branch, _) in self.positions.items() if idx <= through)

    def answer(self, exchange: Exchange) -> Answer | None:
        """The model's answer in a recorded exchange, read once a tape; None where there is none."""
        if exchange.idx not in self.positions:
            return None
        if exchange.idx not in self._answers:
            self._answers[exchange.idx] = providers.read_answer(exchange.request, exchange.response)
        return self._answers[exchange.idx]


_facts: OrderedDict[int, TapeFacts] = OrderedDict()
_facts_lock = threading.Lock()


def facts_of(tape: Tape) -> TapeFacts:
    """The facts of a tape, shared by all sessions that replay it."""
    with _facts_lock:
        known = _facts.get(id(tape))
        if known is not None and known.tape is tape:
            _facts.move_to_end(id(tape))
            return known
    made = TapeFacts(tape)
    with _facts_lock:
        _facts[id(tape)] = made
        while len(_facts) > KEPT_TAPES:
            _facts.popitem(last=False)
    return made
