"""``Session``: one recording or one replay, as a turn without any input or output of its own.

A transport or a server shows the session each request (``decide``) and does what it says: hand back
an answer, ask the provider, or refuse. What the provider said is handed in again (``complete``,
``fail``). The same session works under threads, under an event loop and in a test without sockets.

::

    agent -> decide(request) -> Serve    the answer, from the tape or a patch
                             -> Forward  ask the provider, then complete() or fail()
                             -> Refuse   an answer that SDKs do not ask again, saying what differed
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from afnb.core import providers
from afnb.core.arm import AnswerPatch, Arm, AskAgain
from afnb.core.cassette import Cassette, Exchange, Request, Response, ToolExchange
from afnb.core.mcp import mcp_effects
from afnb.core.providers import Answer
from afnb.core.tape import Hit, Miss, Tape
from afnb.errors import ParameterError
from afnb.io.serve_answers import GATEWAY_STATUS, error_answer, head_ms, refusal, servable
from afnb.io.serve_course import Course, check_arm
from afnb.io.serve_facts import facts_of, is_incomplete, said_all
from afnb.io.serve_report import Missed, Mode, SessionReport
from afnb.io.serve_tally import Recording, Tally, explain, now
from afnb.io.serve_tools import ToolDesk
from afnb.io.serve_turn import Choice, Flight, Forward, Gate, Live, Refuse, Serve, Source, Turn

__all__ = ["Forward", "Gate", "Missed", "Refuse", "Serve", "Session", "SessionReport", "Source", "Turn"]


class Session:
    """One recording (no tape), one replay (a tape) or one branch of an experiment (a tape and an arm).

    Thread-safe; made for one run and then thrown away, so that nothing passes from one replay to the next.

    Parameters
    ----------
    tape
        The recording to answer from; None records: everything is forwarded.
    arm
        What to change and how far the tape answers; needs a tape.
    good
        The good run's tape, for an arm with ``tail="good"``.
    id
        Identifier of the new recording.
    live
        Whether requests may go to the provider at all.
    gate
        Asked before each live call (budget, stop, pre-flight); its sentence refuses the call.
    keep_delays
        Keep recorded ``retry-after`` headers. By default a recorded 429 or 5xx is served with a delay of a
        millisecond, so that a client's own retry does not sleep through the replay.
    pace
        How fast recorded answers are given: ``"at once"``, ``"as recorded"`` or a factor on the times.
    sink
        Called with each exchange as it completes, in order, fit for disk: a recorder's journal.
    tool_sink, wrapped_sink
        The same for each call of a wrapped tool, and for what tools are wrapped at all.
    allow_tools
        Names of tools that may really run again although they write.
    http_tools
        Upstreams that are tools, with their effects (``RoutedUpstream.tools``).
    spent
        Told of each live answer of a model: what was asked, and the answer (None if it cannot be read).

    Raises
    ------
    ParameterError
        An arm without a tape, or ``tail="good"`` without the good run's tape.
    """

    def __init__(
        self,
        tape: Tape | None = None,
        arm: Arm | None = None,
        good: Tape | None = None,
        *,
        id: str = "session",
        live: bool = True,
        gate: Gate | None = None,
        keep_delays: bool = False,
        pace: float | str = "at once",
        sink: Callable[[Exchange], None] | None = None,
        tool_sink: Callable[[ToolExchange], None] | None = None,
        wrapped_sink: Callable[[dict[str, str]], None] | None = None,
        allow_tools: Iterable[str] = (),
        http_tools: Mapping[str, str | None] | None = None,
        spent: Callable[[Request, Answer | None], None] | None = None,
    ) -> None:
        check_arm(tape, arm, good)
        self.id = id
        self._tape = tape
        self._play = None if tape is None else tape.play()
        self._facts = None if tape is None else facts_of(tape)
        self._course = None if arm is None or self._facts is None else Course(arm, self._facts)
        self._good_play = None if good is None else good.play()
        self._good_facts = None if good is None else facts_of(good)
        self._allow_live = live
        self._gate = gate
        self._keep_delays = keep_delays
        self._spent = spent
        self.pace = pace
        self._lock = threading.RLock()
        self._tally = Tally()
        self._recording = Recording(sink, None if tape is None else tape.cassette)
        self._flights: dict[int, Flight] = {}
        self._tokens = 0
        self._diverged: Missed | None = None
        self._closed = False
        self.tools = ToolDesk(
            self._lock,
            None if self._facts is None else self._facts.tools,
            self._course,
            self._tally,
            self._recording,
            self._flights,
            over_http={**({} if tape is None else mcp_effects(tape.cassette)), **(http_tools or {})},
            good=None if self._good_facts is None else self._good_facts.tools,
            allowed=allow_tools,
            live=live,
            sink=tool_sink,
            wrapped_sink=wrapped_sink,
        )
        self.address: str | None = None
        """Path under which a loopback server of this session answers: no part of what the agent asks."""

    @property
    def mode(self) -> Mode:
        """``record``, ``replay`` or ``branch``."""
        if self._tape is None:
            return "record"
        return "replay" if self._course is None else "branch"

    @property
    def tape(self) -> Tape | None:
        """The recording it answers from."""
        return self._tape

    def decide(self, request: Request, upstream: str | None = None) -> Turn:
        """What to do with the agent's next request; ``upstream`` names the provider where there are several.

        A request that goes live passes the gate first. The gate is asked outside the session's lock, so that
        it may wait or look at the report.
        """
        with self._lock:
            number = self._tally.requests
            self._tally.requests += 1
            if self._closed:
                return self._too_late()
            choice = self._choose(request, number, upstream)
        if not isinstance(choice, Live):
            return choice
        held = self.tools.hold(choice.send, choice.upstream) if self._allow_live else None
        if held is not None:
            with self._lock:
                return self._refuse("tool", held, choice.miss)
        said = self._gate(choice.send) if self._allow_live and self._gate is not None else None
        return self._settle(choice, said)

    def observe(self, forward: Forward, partial: Response) -> None:
        """Say what a stream has brought so far: at its head, and whenever an end seems near.

        An agent may act on a stream's last event before the stream has ended. What the session knows of the
        branch's position and of the calls just made has to be there by then.
        """
        with self._lock:
            flight = self._flights.get(forward.token)
            if flight is not None:
                self._land(flight, forward, partial, partial.status < 300)

    def complete(self, forward: Forward, response: Response, *, abandoned: bool = False) -> None:
        """Hand in the provider's answer, once it is whole (or its stream ended early: ``incomplete``).

        ``abandoned`` says that the agent stopped reading, which is no fault of the provider. If the model had
        said all it had to say by then, nothing was lost: SDKs stop reading at the end mark of a stream.
        """
        if abandoned and said_all(forward.request, response):
            abandoned, response = False, replace(response, incomplete=False)
        answer = providers.read_answer(forward.request, response)
        of_model = providers.is_model_request(forward.request)
        if of_model and response.status < 300 and self._spent is not None:
            self._spent(forward.request, answer)
        with self._lock:
            flight = self._end(forward)
            self._land(flight, forward, response, answer is not None)
            self._tally.heard(flight.branch, response, answer, of_model=of_model, abandoned=abandoned)
            changed = forward.request if forward.request != forward.asked else None
            times = (forward.started, now())
            idx = self._recording.add(forward.asked, response, "live", times, forward.upstream, changed)
            self.tools.landed(forward.token, idx, answer)

    def fail(self, forward: Forward, error: BaseException | str, *, abandoned: bool = False) -> Response:
        """Say that the provider gave no answer; returns what to hand to the agent. Nothing is recorded.

        While recording that is a 502, which SDKs ask again as they would a broken connection; in a replay it
        is one they do not, since the replay is lost. ``abandoned``: the agent gave up waiting.
        """
        text = str(error) or type(error).__name__
        with self._lock:
            flight = self._end(forward)
            self.tools.landed(forward.token, None, None)
            if flight.counted and flight.branch is not None and self._course is not None:
                self._course.retreat(flight.branch)
            if abandoned:
                self._tally.abandoned += 1
            else:
                self._tally.upstream_errors.append(text)
        if self.mode == "record":
            return error_answer(GATEWAY_STATUS, "afnb_unreachable", text)
        return refusal("unreachable", text)

    def turn_away(self, request: Request, kind: str, sentence: str) -> Refuse:
        """Refuse a request that a server could not make sense of, and count it under ``kind``."""
        with self._lock:
            self._tally.requests += 1
            return self._refuse(kind, sentence)

    def close(self) -> None:
        """End the run: later requests are refused and counted as ``late``. Calls in flight may still end."""
        with self._lock:
            self._closed = True
            self.tools.close()

    def report(self) -> SessionReport:
        """All counts so far."""
        with self._lock:
            tally, course = self._tally, self._course
            applied = () if course is None else tuple(patch.step for patch in course.applied)
            return SessionReport(
                mode=self.mode,
                requests=tally.requests,
                served=tally.served,
                served_patched=tally.served_patched,
                served_good=tally.served_good,
                live=tally.live,
                missed=tally.missed,
                refused=tuple(sorted(tally.refused.items())),
                live_before_branch=tally.live_before_branch,
                beyond_recording=tally.beyond_recording,
                rules=tuple(sorted(tally.rules.items())),
                patches_applied=applied,
                patches_missing=() if course is None else tuple(patch.step for patch in course.missing),
                branch_reached=course is None or course.finished,
                first_miss=tally.misses[0] if tally.misses else None,
                misses=tuple(tally.misses),
                out_of_order=0 if self._play is None else self._play.out_of_order,
                prefix_diverged=self._diverged or self.tools.diverged,
                tokens=tally.tokens,
                tokens_live=tally.tokens_live,
                upstream_errors=tuple(tally.upstream_errors),
                live_error_statuses=tuple(tally.live_error_statuses),
                unanswered=tuple(tally.unanswered.values()),
                tools_served=tally.tools_served,
                tools_live=tally.tools_live,
                tools_stubbed=tally.tools_stubbed,
                tools_refused=tuple(tally.tools_refused),
                tools_unrecorded=tuple(tally.tools_unrecorded),
                incomplete=tally.incomplete,
                incomplete_live=tally.incomplete_live,
                abandoned=tally.abandoned,
                in_flight=len(self._flights),
                late=tally.late,
            )

    def cassette(self) -> Cassette:
        """The whole run so far, hits and live turns, in order of completion.

        ``attrs["sources"]`` says for each exchange where its answer came from: ``live``, or the tape's
        exchange as ``tape:3``, ``patch:3``, ``good:3``. What the tape's recording redacts is redacted here.
        """
        with self._lock:
            made = self._recording.cassette(self.id)
            attrs = {**made.attrs, "tools": self.tools.wrapped} if self.tools.wrapped else made.attrs
            carried = {} if self._course is None else self._course.carried()
            return replace(made, tool_exchanges=self.tools.recorded(), attrs={**attrs, **carried})

    def _choose(self, request: Request, number: int, upstream: str | None) -> Choice:
        live = Live(request, request, None, upstream)
        if self._play is None:
            return live
        if self._course is not None:
            return self._course.changes.inherit(self._choose_on_course(self._course, live, number))
        hit = self._play.take(request, None)
        if isinstance(hit, Hit):
            return self._serve_hit(live, hit)
        return replace(live, miss=explain(number, request, hit, self._tape))

    def _choose_on_course(self, course: Course, asked: Live, number: int) -> Choice:
        assert self._play is not None
        left = self._diverged or self.tools.diverged
        if left is not None:
            return self._refuse("prefix_diverged", left.reason, left)
        branch = course.branch_of(asked.asked, self._play)
        seen, held = course.rewrite(asked.asked, branch)
        live = replace(asked, send=seen, marks=held, branch=branch)
        patch = course.due(branch)
        if patch is not None:
            return self._intervene(patch, live)
        if course.over(branch):
            return self._tail(course, live, number)
        hit = self._play.take(seen, course.through)
        if isinstance(hit, Hit):
            patch = course.recognised(hit.exchange.idx)
            if patch is not None:
                return self._intervene(patch, live)
            spent = branch is None and course.finished and hit.beyond_recording
            if spent or hit.exchange.idx > course.arm.serve_through:
                return self._tail(course, live, number)
            course.apply(held)
            return self._serve_hit(live, hit)
        return self._tail(course, live, number, hit)

    def _intervene(self, patch: AnswerPatch | AskAgain, live: Live) -> Choice:
        assert self._course is not None
        if isinstance(patch, AskAgain):
            send = self._course.ask(patch, live.send)
            if send is None:
                return self._refuse("not_changed", "this request lacks the message that was to be changed")
            return replace(live, send=send, marks=(patch, *live.marks), asks_again=True)
        self._course.apply((patch, *live.marks))
        answer = providers.read_answer(live.asked, patch.response)
        self._tally.served_patched += 1
        return self._serve(live, patch.response, "patch", patch.exchange, answer)

    def _tail(self, course: Course, live: Live, number: int, miss: Miss | None = None) -> Choice:
        """A request for which the tape's part is over, or that is not on it.

        Before any intervention took effect such a request is allowed only where the recording itself goes on
        with it: a parallel branch that runs ahead. Anything else means that the agent left the tape.
        """
        assert self._play is not None
        assert self._tape is not None
        if not (course.started or live.marks or live.branch in course.live_branches):
            ahead = any(at > course.arm.serve_through for at in self._tape.places(live.send))
            if not ahead:
                missed = explain(number, live.asked, miss or self._tape.explain(live.send), self._tape)
                self._diverged = missed
                self._tally.miss(missed)
                return self._refuse("prefix_diverged", missed.reason, missed)
            miss = None
        tail = course.arm.tail
        hit: Hit | Miss | None = None
        if tail == "tape":
            hit = self._play.take(live.send, None)
        elif tail == "good" and self._good_play is not None:
            hit = self._good_play.take(live.send, None)
        if isinstance(hit, Hit):
            course.apply(live.marks)
            patch = course.recognised(hit.exchange.idx) if tail == "tape" else None
            if isinstance(patch, AnswerPatch):
                return self._intervene(patch, live)
            return self._serve_hit(live, hit, good=tail == "good")
        if miss is None or miss.kind == "not_served" or course.over(live.branch):
            return live
        return replace(live, miss=explain(number, live.asked, miss, self._tape))

    def _settle(self, live: Live, said: str | None) -> Turn:
        """Let a request go live, unless the gate or the settings say otherwise."""
        with self._lock:
            if live.miss is not None:
                self._tally.miss(live.miss)
            if self._closed:
                return self._too_late()
            if said is not None:
                return self._refuse(f"gate: {said}", said, live.miss)
            if not self._allow_live:
                if live.miss is not None:
                    return self._refuse("missed", live.miss.reason, live.miss)
                return self._refuse("offline", "this request would go live, and live calls are off")
            return self._go_live(live)

    def _go_live(self, live: Live) -> Forward:
        if self._course is not None:
            self._course.apply(live.marks, len(self._recording.exchanges))
            self._course.live_branches.add(live.branch)
            if not self._course.finished and not live.asks_again:
                self._tally.live_before_branch += 1
        self._tally.live += 1
        self._tokens += 1
        self._flights[self._tokens] = Flight(live.branch)
        return Forward(live.send, live.asked, self._tokens, now(), live.upstream)

    def _serve_hit(self, live: Live, hit: Hit, *, good: bool = False) -> Serve:
        facts = self._good_facts if good else self._facts
        assert facts is not None
        exchange, course = hit.exchange, self._course
        self._tally.rules.update(hit.rules)
        self._tally.beyond_recording += hit.beyond_recording
        self._tally.served_good += good
        if course is not None and not good:
            course.served(exchange.idx)
        source: Source = "good" if good else "tape"
        answer = facts.answer(exchange)
        return self._serve(live, exchange.response, source, exchange.idx, answer, head_ms(exchange))

    def _serve(
        self,
        live: Live,
        response: Response,
        source: Source,
        exchange: int,
        answer: Answer | None,
        wait: float = 0.0,
    ) -> Serve:
        self._tally.served += 1
        self._tally.incomplete += is_incomplete(response, answer)
        if answer is not None:
            self._tally.spend(answer.usage, live=False)
            if self._course is not None and live.branch is not None:
                self._course.advance(live.branch, live.asked, response)
        at = now()
        self._recording.add(live.asked, response, f"{source}:{exchange}", (at, at), live.upstream)
        return Serve(servable(response, keep_delays=self._keep_delays), source, exchange, wait)

    def _refuse(self, kind: str, sentence: str, miss: Missed | None = None) -> Refuse:
        self._tally.refused[kind] += 1
        return Refuse(refusal(kind.partition(":")[0], sentence, miss), kind, sentence, miss)

    def _too_late(self) -> Refuse:
        self._tally.late += 1
        return self._refuse("closed", "this run is over; its recording takes no more requests")

    def _end(self, forward: Forward) -> Flight:
        flight = self._flights.pop(forward.token, None)
        if flight is None:
            raise ParameterError(
                f"live call {forward.token} of session {self.id!r} has ended, or is of another session"
            )
        return flight

    def _land(self, flight: Flight, forward: Forward, response: Response, success: bool) -> None:
        """Keep the branch's position true while an answer comes in and when it has ended."""
        course, branch = self._course, flight.branch
        if course is None or branch is None:
            return
        if success and not flight.counted:
            flight.ordinal = course.advance(branch, forward.request, response)
            flight.counted = True
        elif success:
            course.learn_calls(branch, flight.ordinal, forward.request, response)
        elif flight.counted:
            course.retreat(branch)
            flight.counted = False
