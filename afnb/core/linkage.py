"""Which result answers which call: tool calls waiting, and what later requests carry of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from afnb.core.cassette import ToolExchange
from afnb.core.jsonvalue import equal
from afnb.core.providers import ToolCall, ToolResult, Turn


@dataclass(slots=True)
class Waiting:
    """A tool call and where its result will be known by.

    Parameters
    ----------
    place
        Its step's place in the list of steps.
    call
        The call.
    exchange
        The exchange whose answer made it.
    branch
        The conversation it was made in.
    nth
        How many results stood under its id before: ids may be used again.
    tool_exchange
        The recorded tool exchange that ran it, if any.
    done
        Whether its result has come back in a message.
    """

    place: int
    call: ToolCall
    exchange: int
    branch: str
    nth: int
    tool_exchange: ToolExchange | None = None
    done: bool = False


@dataclass(slots=True)
class Carried:
    """What one request carries of earlier calls, by call id."""

    branch: str
    results: dict[str, list[ToolResult]] = field(default_factory=dict)
    calls: dict[str, list[ToolCall]] = field(default_factory=dict)

    @classmethod
    def of(cls, branch: str, turns: Iterable[Turn]) -> Carried:
        """What these turns carry."""
        carried = cls(branch)
        for turn in turns:
            for call in turn.calls:
                carried.calls.setdefault(call.id, []).append(call)
            for result in turn.results:
                carried.results.setdefault(result.call_id, []).append(result)
        return carried

    def result_of(self, waiting: Waiting, same_id: Sequence[Waiting]) -> ToolResult | None:
        """The result of a waiting call, None if it is not (surely) here: see ``place_of``."""
        place = self.place_of(waiting, same_id)
        return None if place is None else self.results[waiting.call.id][place]

    def place_of(self, waiting: Waiting, same_id: Sequence[Waiting]) -> int | None:
        """Which of the results under its id is that of a waiting call, None if it is not (surely) here.

        Ids may be used again, in a later turn or in another conversation, and old messages may have
        been dropped. The call in the request's history tells, by tool and arguments; without one, the
        number of results under the id does. A request of another conversation (a hand-off changes the
        system prompt) counts only where no call of its own could be meant.
        """
        results = self.results.get(waiting.call.id, [])
        history = self.calls.get(waiting.call.id, [])
        if not results or (self.branch != waiting.branch and self._has_its_own(waiting, same_id)):
            return None
        matching = [
            i
            for i, call in enumerate(history)
            if i < len(results) and same_call(call, waiting.call)
        ]  # fmt: skip
        if waiting.nth in matching:
            return waiting.nth
        if matching:
            # the same call may stand there from an earlier turn, unless messages have been dropped
            return matching[-1] if len(results) <= waiting.nth else None
        if self.branch != waiting.branch and (history or len(same_id) > 1):
            return None
        if waiting.nth < len(results):
            return waiting.nth
        return None if history else len(results) - 1

    def _has_its_own(self, waiting: Waiting, same_id: Sequence[Waiting]) -> bool:
        return any(
            other is not waiting and other.branch == self.branch and same_call(other.call, waiting.call)
            for other in same_id
        )


def same_call(a: ToolCall, b: ToolCall) -> bool:
    """Whether two calls ask the same tool for the same, whatever their ids."""
    return a.name == b.name and equal(a.arguments, b.arguments)
