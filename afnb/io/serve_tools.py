"""``ToolDesk``: what becomes of each call of a wrapped tool, in a recording, a replay or a branch of one.

::

    tool -> begin(call) -> serve    the recorded outcome, or the one an intervention puts in its place
                        -> run      really call it, then end()
                        -> stub     call its stand-in, then end()
                        -> refuse   the tool raises, and the replay says nothing

Like the session it belongs to it does no input or output of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from afnb.core.arm import ResultPatch
from afnb.core.cassette import Request, Response, ToolExchange
from afnb.core.jsonvalue import MISSING, Json, dumps, equal, loads
from afnb.core.matching import mask_query
from afnb.core.mcp import mcp_call, same_tool
from afnb.core.nearest import Explanation
from afnb.core.providers import Answer
from afnb.core.tooltape import METHOD, ToolHit, ToolPlay, ToolTape
from afnb.errors import InputError, ParameterError
from afnb.io.serve_course import Course
from afnb.io.serve_report import Missed
from afnb.io.serve_tally import Recording, Tally, now
from afnb.io.toolturn import EFFECTS, ToolTurn, http_effect

_JSON = (("content-type", "application/json"),)


@dataclass(slots=True)
class _Call:
    """One call of a tool: under way until ``exchange`` is there."""

    name: str
    arguments: Json
    effect: str
    after: int
    started: str
    source: str
    waiting: set[int] = field(default_factory=set)
    over: str | None = None
    exchange: ToolExchange | None = None
    kept: bool = False

    def means(self, tool: str) -> bool:
        """Whether this is a call of the tool that goes by that name elsewhere (in an answer, to the user)."""
        return tool == self.name or (self.over == "mcp" and same_tool(tool, self.name))


class ToolDesk:
    """The wrapped tools of one session.

    Parameters
    ----------
    lock
        The session's own.
    tape
        The recorded tool exchanges; None records.
    course
        Where the replay of an arm stands; None replays without one.
    tally, recording, flights
        The session's counts, its new recording, and its live calls under way by their tokens.
    over_http
        Tools that the recording calls over HTTP, by MCP or as an upstream of that name, with their effects.
    good
        Recorded tool exchanges of the good run, for a tail that is answered from it.
    allowed
        Tools that may really run although they write.
    live
        Whether tools may really run at all where the recording does not answer.
    sink
        Called with each tool exchange once it is complete and placed: a recorder's journal.
    wrapped_sink
        Called with the wrapped tools and their effects when more of them become known.
    """

    def __init__(
        self,
        lock: Any,
        tape: ToolTape | None,
        course: Course | None,
        tally: Tally,
        recording: Recording,
        flights: Mapping[int, object],
        *,
        over_http: Mapping[str, str | None] | None = None,
        good: ToolTape | None = None,
        allowed: Iterable[str] = (),
        live: bool = True,
        sink: Callable[[ToolExchange], None] | None = None,
        wrapped_sink: Callable[[dict[str, str]], None] | None = None,
    ) -> None:
        self._lock = lock
        self._recording = recording
        self._flights = flights
        self._play = None if tape is None else tape.play()
        self._good = None if good is None else good.play()
        self._course = course
        self._tally = tally
        self._over_http = dict(over_http or {})
        self._allowed = frozenset(allowed)
        self._live = live
        self._sink = sink
        self._wrapped_sink = wrapped_sink
        self._calls: list[_Call] = []
        self._closed = False
        self.wrapped: dict[str, str] = {}
        """The tools known to be wrapped where the agent runs, with their effects."""
        self.diverged: Missed | None = None
        """The call that left the recording before any intervention took effect."""

    def begin(
        self, name: str, arguments: Json, effect: str, *, stubbed: bool = False, over: str | None = None
    ) -> ToolTurn:
        """What to do with a call; ``stubbed`` says that there is a stand-in, ``over`` that it came by MCP.

        Raises
        ------
        ParameterError
            ``effect`` is none of the three.
        """
        if effect not in EFFECTS:
            raise ParameterError(f"effect is {effect!r}; expected one of {', '.join(EFFECTS)}")
        with self._lock:
            if self._closed:
                return self._refuse(
                    f"the run that called the tool {name} is over; nothing more is run for it"
                )
            after = len(self._recording.exchanges) - 1
            call = _Call(name, arguments, effect, after, now(), "live", set(self._flights), over)
            if self.diverged is not None:
                return self._refuse(self.diverged.reason)
            if self._play is None:
                return self._run(call)
            patch = None if self._course is None else self._due(self._course, self._play, call)
            if patch is not None:
                return self._patched(patch, call, self._play)
            return self._recorded(call, self._play, stubbed)

    def end(
        self,
        token: int,
        output: Json = None,
        *,
        error: str | None = None,
        error_type: str | None = None,
        unrecordable: str | None = None,
    ) -> None:
        """Hand in what the tool gave, or how it failed; ``unrecordable`` names what is no JSON value.

        Raises
        ------
        ParameterError
            There is no such call.
        """
        with self._lock:
            if not 0 <= token < len(self._calls):
                raise ParameterError(f"no call {token} of a wrapped tool is under way")
            call = self._calls[token]
            if call.exchange is not None or self._closed:
                return
            if unrecordable is not None:
                self._tally.tools_unrecorded.append(f"{call.name} gave {unrecordable}")
                call.kept = True
                return
            self._finish(call, output, error, error_type)

    def hold(self, request: Request, upstream: str | None) -> str | None:
        """Why a request that would go live may not: it calls a tool that writes. None lets it go.

        Parameters
        ----------
        request
            What would be sent.
        upstream
            The name of the upstream it would be sent to, where there are several.
        """
        if self._play is None:
            return None
        call = mcp_call(request)
        if call is not None:
            name, effect = call.name, self._over_http.get(call.name) or "write"
        elif upstream is not None and upstream in self._over_http and not _is_mcp(request):
            name, effect = upstream, http_effect(request, self._over_http[upstream])
        else:
            return None
        with self._lock:
            if effect != "write" or any(same_tool(one, name) for one in self._allowed):
                self._tally.tools_live += 1
                return None
            return self._refuse(
                f"the tool {name} would be asked again live ({request.method} {mask_query(request.path)}), "
                f"and that writes; allow it by name (allow_tools=[{name!r}], --allow-tools {name})"
            ).sentence

    def announce(self, tools: dict[str, str]) -> None:
        """Note which tools are wrapped where the agent runs, called or not."""
        with self._lock:
            if tools.items() <= self.wrapped.items():
                return
            self.wrapped = {**self.wrapped, **tools}
            if self._wrapped_sink is not None:
                self._wrapped_sink(self.wrapped)

    def landed(self, flight: int, exchange: int | None, answer: Answer | None) -> None:
        """Say that a live call of the model ended, as this exchange of the new recording (None: as none).

        A tool may have run on a stream's last event before the stream's end: it belongs after that exchange.
        """
        with self._lock:
            for call in self._calls:
                if flight not in call.waiting:
                    continue
                call.waiting.discard(flight)
                made = () if answer is None or exchange is None else answer.tool_calls
                if any(call.means(one.name) and equal(one.arguments, call.arguments) for one in made):
                    assert exchange is not None
                    call.after = exchange
                    call.waiting.clear()
                    if call.exchange is not None:
                        call.exchange = replace(call.exchange, after_exchange=exchange)
                self._keep(call)

    def close(self) -> None:
        """End the run: what finished is kept, later calls are refused."""
        with self._lock:
            self._closed = True
            for call in self._calls:
                call.waiting.clear()
                self._keep(call)

    def recorded(self) -> tuple[ToolExchange, ...]:
        """Every finished call so far, in order of beginning."""
        with self._lock:
            return tuple(call.exchange for call in self._calls if call.exchange is not None)

    # -- what the tape says ---------------------------------------------------------------------

    def _due(self, course: Course, play: ToolPlay, call: _Call) -> ResultPatch | None:
        """The intervention on this very call, if there is one that has not taken effect."""
        for patch in course.missing:
            named = isinstance(patch, ResultPatch) and call.means(patch.tool)
            if not isinstance(patch, ResultPatch) or not named:
                continue
            made, alone = course.call_made(patch)
            if made is not MISSING and (alone or play.tape.same(call.name, made, call.arguments)):
                return patch
            if patch.tool_exchange is not None and (made is not MISSING or patch.call_index < 0):
                recorded = play.tape.tools[patch.tool_exchange].arguments
                if play.tape.same(call.name, recorded, call.arguments):
                    return patch
        return None

    def _patched(self, patch: ResultPatch, call: _Call, play: ToolPlay) -> ToolTurn:
        """Replace the result at its source."""
        assert self._course is not None
        play.take(call.name, call.arguments, None, once=True)
        self._course.apply((patch,))
        self._course.replaced_at_source(patch)
        self._tally.tools_served += 1
        call.source = f"patch:{patch.step}"
        kept = None if patch.tool_exchange is None else play.tape.tools[patch.tool_exchange]
        if patch.as_recorded and kept is not None:
            return self._serve(call, kept.output, kept.error, _type_of(kept))
        output = patch.value
        if kept is not None and isinstance(kept.output, str) and not isinstance(output, str):
            output = dumps(output)
        return self._serve(call, output)

    def _recorded(self, call: _Call, play: ToolPlay, stubbed: bool) -> ToolTurn:
        """Serve what is recorded, as far as the tape answers; else run, stub or refuse."""
        course = self._course
        through, once = (None, False) if course is None else (course.tools_through, True)
        if course is not None and course.arm.tail == "tape" and course.started:
            through = None
        found = play.take(call.name, call.arguments, through, once=once)
        if isinstance(found, ToolHit):
            return self._hit(call, found, "tape")
        if self._good is not None and course is not None and course.finished and course.arm.tail == "good":
            good = self._good.take(call.name, call.arguments, None, once=True)
            if isinstance(good, ToolHit):
                return self._hit(call, good, "good")
        unknown = call.name not in play.tape.names
        if course is None:
            if unknown and self._may_run(call):
                return self._run(call)
            if self._live:
                self._miss(call, found.explanation)
                return self._by_effect(call, stubbed)
            return self._lost(call, found.explanation)
        if not course.started and not found.ahead and not (unknown and self._may_run(call)):
            self.diverged = self._miss(call, found.explanation)
            return self._refuse(found.explanation.reason)
        return self._by_effect(call, stubbed)

    def _hit(self, call: _Call, hit: ToolHit, source: str) -> ToolTurn:
        self._tally.tools_served += 1
        self._tally.beyond_recording += hit.beyond_recording
        self._tally.rules.update(hit.rules)
        call.source = f"{source}:{hit.number}"
        return self._serve(call, hit.tool.output, hit.tool.error, _type_of(hit.tool))

    def _lost(self, call: _Call, why: Explanation) -> ToolTurn:
        self._miss(call, why)
        return self._refuse(why.reason)

    def _miss(self, call: _Call, why: Explanation) -> Missed:
        missed = Missed(
            self._tally.requests,
            METHOD,
            "/" + call.name,
            why.nearest,
            why.path,
            why.recorded,
            why.asked,
            why.reason,
            tuple(why.suggestions),
        )
        self._tally.miss(missed)
        return missed

    # -- what is done ---------------------------------------------------------------------------

    def _may_run(self, call: _Call) -> bool:
        return call.effect != "write" or any(call.means(name) for name in self._allowed)

    def _by_effect(self, call: _Call, stubbed: bool) -> ToolTurn:
        """Past the branch point: tools that read run, those that write only if that is allowed."""
        if self._may_run(call):
            return self._run(call)
        if stubbed:
            call.source = "stub"
            self._tally.tools_stubbed += 1
            return ToolTurn("stub", token=self._add(call))
        return self._refuse(
            f"the tool {call.name} writes and would run again in a replay; allow it by name "
            f"(allow_tools=[{call.name!r}], --allow-tools {call.name}), or give it a stand-in (stub=)"
        )

    def _run(self, call: _Call) -> ToolTurn:
        self._tally.tools_live += 1
        return ToolTurn("run", token=self._add(call))

    def _serve(
        self, call: _Call, output: Json, error: str | None = None, error_type: str | None = None
    ) -> ToolTurn:
        self._add(call)
        call.waiting.clear()
        self._finish(call, output, error, error_type)
        return ToolTurn("serve", output, error, error_type)

    def _refuse(self, sentence: str) -> ToolTurn:
        self._tally.tools_refused.append(sentence)
        return ToolTurn("refuse", sentence=sentence)

    def _add(self, call: _Call) -> int:
        self._calls.append(call)
        return len(self._calls) - 1

    def _finish(self, call: _Call, output: Json, error: str | None, error_type: str | None) -> None:
        attrs: dict[str, Any] = {"error_type": error_type} if error_type is not None else {}
        if call.over is not None:
            attrs["over"] = call.over
        if self._play is not None:
            attrs["source"] = call.source
        made = ToolExchange(
            call.name, call.arguments, output, call.effect, error, call.after, call.started, now(), attrs
        )
        redaction = self._recording.redaction
        call.exchange = made if redaction is None else redaction.tool_exchange(made)
        self._keep(call)

    def _keep(self, call: _Call) -> None:
        """Hand a finished call on, once it is known after which exchange it belongs."""
        if call.exchange is not None and not call.waiting and not call.kept:
            call.kept = True
            if self._sink is not None:
                self._sink(call.exchange)


def _is_mcp(request: Request) -> bool:
    """Whether a request is what an MCP client says beside its calls."""
    names = {name.lower() for name, _ in request.headers}
    return b'"jsonrpc"' in request.body or bool(names & {"mcp-session-id", "mcp-protocol-version"})


def _type_of(tool: ToolExchange) -> str | None:
    found = tool.attrs.get("error_type")
    return found if isinstance(found, str) else None


def told(desk: ToolDesk, what: str, body: bytes) -> Response:
    """The answer to a tool in another process: ``what`` is ``begin`` or ``end``, ``body`` what it sent.

    Examples
    --------
    >>> from afnb.io.serve import Session
    >>> told(Session().tools, "begin", b"?").status
    400
    """
    try:
        value = loads(body)
        fields: dict[str, Any] = value if isinstance(value, dict) else {}
        texts = {key: fields.get(key) for key in ("error", "error_type", "unrecordable")}
        name, token = fields.get("name"), fields.get("token")
        if what == "begin" and isinstance(name, str):
            effect = str(fields.get("effect"))
            stubbed, over = fields.get("stubbed") is True, "mcp" if fields.get("over") == "mcp" else None
            turn = desk.begin(name, fields.get("arguments"), effect, stubbed=stubbed, over=over)
            return Response(200, _JSON, dumps(turn.to_json()).encode())
        tools = fields.get("tools")
        if what == "announce" and isinstance(tools, dict) and all(one in EFFECTS for one in tools.values()):
            desk.announce(tools)
            return Response(200, _JSON, b"{}")
        if (
            what == "end"
            and isinstance(token, int)
            and all(isinstance(t, str | None) for t in texts.values())
        ):
            desk.end(token, fields.get("output"), **texts)
            return Response(200, _JSON, b"{}")
    except (InputError, ParameterError) as error:
        return Response(400, _JSON, dumps({"error": str(error)}).encode())
    return Response(400, _JSON, dumps({"error": f"no call of a wrapped tool: {what!r}"}).encode())
