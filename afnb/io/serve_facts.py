"""What a session must know of a tape beside its answers: branches, positions, usage. Computed once a tape."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from afnb.core import providers
from afnb.core.cassette import Exchange, Request, Response
from afnb.core.steps import model_positions

if TYPE_CHECKING:
    from afnb.core.providers import Answer
    from afnb.core.tape import Tape

KEPT_TAPES = 16


def said_all(request: Request, response: Response) -> bool:
    """Whether a stream that nobody read to its end had come to its end mark."""
    answer = providers.read_answer(request, replace(response, incomplete=False))
    if answer is None:
        return response.body.rstrip().endswith(b"[DONE]")
    return answer.complete


def is_incomplete(response: Response, answer: Answer | None) -> bool:
    """Whether an answer stopped before its end, at the connection or by the provider's own account."""
    return response.incomplete or (answer is not None and not answer.complete)


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
