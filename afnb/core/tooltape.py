"""``ToolTape``: the wrapped tools of a recording, answered like its model requests.

Each recorded tool exchange stands as an exchange whose request is the tool's name and arguments, so that
one machinery compares, counts repeats and explains misses. Its *place* is the HTTP exchange whose answer
called it (where no answer did: the last one before it ran), which decides on which side of a branch point
it is.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from afnb.core.cassette import Cassette, Exchange, Request, Response, ToolExchange
from afnb.core.jsonvalue import Json, dumps
from afnb.core.matching import Matching
from afnb.core.nearest import Explanation
from afnb.core.redaction import Redaction, matching_for
from afnb.core.steps import run_from_cassette
from afnb.core.tape import Hit, Play, Repeat, Tape
from afnb.core.toolcalls import wrapped_tools

METHOD = "TOOL"
_RULES = frozenset({"key_order", "numbers"})


def tool_request(name: str, arguments: Json) -> Request:
    """A tool call as a request.

    Examples
    --------
    >>> tool_request("look", {"order": 7}).path
    '/look'
    """
    return Request(METHOD, "/" + name, (("content-type", "application/json"),), dumps(arguments).encode())


@dataclass(frozen=True, slots=True)
class ToolHit:
    """A recorded tool exchange for a call: its number in the recording, and which rules it needed."""

    number: int
    tool: ToolExchange
    rules: tuple[str, ...] = ()
    beyond_recording: bool = False


@dataclass(frozen=True, slots=True)
class ToolMiss:
    """A call that the recording does not answer; ``ahead`` if it is recorded, beyond what may be served."""

    ahead: bool
    explanation: Explanation


class ToolTape:
    """The tool exchanges of a recording, indexed once; immutable and shareable between threads.

    Parameters
    ----------
    cassette
        The recording.
    matching
        Of its rules those about JSON itself, the user's ignored paths and patterns hold for arguments too.
    repeat
        See ``Tape``.

    Examples
    --------
    >>> tape = ToolTape(Cassette("c", tool_exchanges=(ToolExchange("look", {"n": 1}, "found"),)))
    >>> play = tape.play()
    >>> play.take("look", {"n": 1.0}, None).tool.output
    'found'
    """

    def __init__(
        self, cassette: Cassette, matching: Matching | None = None, repeat: Repeat = "in_order"
    ) -> None:
        self.tools = cassette.tool_exchanges
        self.names = frozenset((*wrapped_tools(cassette), *(tool.name for tool in self.tools)))
        places = _places(cassette)
        self.order = tuple(sorted(range(len(self.tools)), key=lambda number: (places[number], number)))
        self.places = tuple(places[number] for number in self.order)
        exchanges = tuple(
            Exchange(i, tool_request(self.tools[n].name, self.tools[n].arguments), Response(200))
            for i, n in enumerate(self.order)
        )
        self.tape = Tape(Cassette(cassette.id, exchanges), _matching(cassette, matching), repeat)

    def __len__(self) -> int:
        return len(self.tools)

    def play(self) -> ToolPlay:
        """A fresh place on it, for one replay."""
        return ToolPlay(self)

    def same(self, name: str, a: Json, b: Json) -> bool:
        """Whether two calls of a tool are the same as far as the rules say."""
        return self.tape.key(tool_request(name, a)) == self.tape.key(tool_request(name, b))


class ToolPlay:
    """What one replay has called so far. Thread-safe."""

    def __init__(self, tape: ToolTape) -> None:
        self.tape = tape
        self._play: Play = tape.tape.play()

    def take(
        self, name: str, arguments: Json, through: int | None, *, once: bool = False
    ) -> ToolHit | ToolMiss:
        """The recorded outcome of a call. A hit uses it up.

        Parameters
        ----------
        name, arguments
            The call.
        through
            Serve what was called by this HTTP exchange or an earlier one; None serves everything.
        once
            Never serve a recorded outcome twice, whatever the policy for repeats says.
        """
        tape, request = self.tape, tool_request(name, arguments)
        if once and self._play.asked(request) >= len(tape.tape.places(request)) > 0:
            times = len(tape.tape.places(request))
            return ToolMiss(
                False, Explanation(reason=f"{name} was called more often than recorded ({times})")
            )
        last = None if through is None else bisect_right(tape.places, through) - 1
        found = self._play.take(request, last)
        if isinstance(found, Hit):
            number = tape.order[found.exchange.idx]
            return ToolHit(number, tape.tools[number], found.rules, found.beyond_recording)
        said = found.explanation
        if found.kind == "not_served":
            return ToolMiss(True, said)
        if all(tool.name != name for tool in tape.tools):
            said = Explanation(reason=f"the recording holds no call of the tool {name}")
        elif said.nearest is not None:
            said = replace(said, nearest=tape.order[said.nearest], reason=_worded(said, name))
        return ToolMiss(False, said)


def _worded(said: Explanation, name: str) -> str:
    where = f" first differs at {said.path}: recorded {said.recorded!r}, asked {said.asked!r}"
    return f"the tool {name} was called otherwise than recorded; the nearest call{where}"


def _places(cassette: Cassette) -> list[int]:
    """For each tool exchange the HTTP exchange it belongs after."""
    places = [tool.after_exchange for tool in cassette.tool_exchanges]
    if places:
        for step in run_from_cassette(cassette).steps:
            number, called = step.attrs.get("tool_exchange"), step.attrs.get("call_exchange")
            if number is not None and called is not None:
                places[number] = called
    return places


def _matching(cassette: Cassette, matching: Matching | None) -> Matching:
    chosen = matching_for(replace(cassette, attrs={**cassette.attrs, "redaction": None}), matching)
    settings = cassette.attrs.get("redaction")
    hidden = None if settings is None else Redaction.from_json(settings)
    return replace(chosen, rules=chosen.rules & _RULES, normalise=hidden)
