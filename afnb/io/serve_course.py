"""``Course``: where one replay of an arm stands, and what its interventions do to the next request.

Positions are counted per branch of a parallel run: the number of the model's successful answers so
far. The first intervened answer is recognised by its recorded request, later ones by position.
"""

from __future__ import annotations

from collections import Counter

from afnb.core import providers
from afnb.core.arm import AnswerPatch, Arm, AskAgain, Patch, ResultPatch
from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import MISSING, Json, JsonOrMissing
from afnb.core.linkage import Carried, Waiting
from afnb.core.tape import Play, Tape
from afnb.errors import ParameterError
from afnb.io.serve_changes import CARRIED, Changes
from afnb.io.serve_facts import TapeFacts


class Course:
    """The state of one arm's replay. Not thread-safe: the session holds its lock.

    Parameters
    ----------
    arm
        What to change and how far the tape answers.
    facts
        The branches and positions of the tape.
    """

    def __init__(self, arm: Arm, facts: TapeFacts) -> None:
        self.arm = arm
        self.facts = facts
        self.patches: tuple[Patch, ...] = tuple(sorted(arm.patches, key=_run_order))
        self.first: Patch | None = self.patches[0] if self.patches else None
        self.through = max(arm.serve_through, -1 if self.first is None else self.first.exchange)
        self.lengths = facts.prefix_lengths(self.through)
        self.positions: Counter[str] = Counter()
        self.applied: list[Patch] = []
        self.live_branches: set[str | None] = set()
        self.reached = not self.patches and arm.serve_through < 0
        self._results = tuple(patch for patch in self.patches if isinstance(patch, ResultPatch))
        self._made: dict[tuple[str, int], list[Waiting]] = {}
        self._same_id: dict[str, list[Waiting]] = {}
        self._known_as: dict[str, str] = {}
        self._at_source: list[Patch] = []
        self.changes = Changes(facts.tape.cassette)

    @property
    def tools_through(self) -> int:
        """The last exchange whose calls of wrapped tools the tape answers.

        The calls that the last intervened answer makes come after the branch point; calls beside an
        intervened result belong to an answer as it was recorded.
        """
        if not self.patches:
            return self.arm.serve_through - 1
        last = self.patches[-1]
        return last.exchange if isinstance(last, ResultPatch) else last.exchange - 1

    def call_made(self, patch: ResultPatch) -> tuple[JsonOrMissing, bool]:
        """Arguments of the call that an intervention is on, once its answer has come, and whether that answer
        calls the tool only once.
        """
        call = self._call_of(patch)
        if call is None:
            return MISSING, False
        made = self._made[call.branch, call.exchange]
        return call.call.arguments, sum(one.call.name == patch.tool for one in made) == 1

    def replaced_at_source(self, patch: ResultPatch) -> None:
        """Note that the tool itself gave the intervened result, so that requests carry it already."""
        self._at_source.append(patch)

    @property
    def started(self) -> bool:
        """Whether an intervention took effect (without patches: whether the branch point was reached)."""
        return bool(self.applied) or self.reached

    @property
    def finished(self) -> bool:
        """Whether every intervention took effect (without patches: as ``started``)."""
        return len(self.applied) == len(self.patches) if self.patches else self.reached

    def apply(self, patches: tuple[Patch, ...], at: int = 0) -> None:
        """Note that these interventions took effect, as the new recording's exchange ``at`` began."""
        for patch in patches:
            if not self.in_effect(patch):
                self.applied.append(patch)
                self.changes.began(patch, at)
                if isinstance(patch, AnswerPatch):
                    self.changes.passed(patch.exchange)

    def in_effect(self, patch: Patch) -> bool:
        """Whether this intervention took effect."""
        return any(patch is known for known in self.applied)

    @property
    def missing(self) -> tuple[Patch, ...]:
        """The interventions that did not take effect."""
        return tuple(patch for patch in self.patches if not self.in_effect(patch))

    def branch_of(self, request: Request, play: Play) -> str | None:
        """The branch of the recording that a model request belongs to; None for any other request.

        A request that matches the tape belongs to the branch it matches. What matching forgives (a date in
        the system prompt, a redacted name) may well be part of what tells conversations apart, so later
        requests of the same conversation follow the one that matched.
        """
        branch = self.facts.recorded_branch(request)
        if branch is not None:
            return branch
        if not providers.is_model_request(request):
            return None
        key = providers.conversation_key(request)
        places = play.tape.places(request)
        if places:
            at = places[min(play.asked(request), len(places) - 1)]
            for place in (at, *places):
                if place in self.facts.positions:
                    self._known_as[key] = self.facts.positions[place][0]
                    break
        return self._known_as.get(key, key)

    def served(self, exchange: int) -> None:
        """Note what the tape answered; without patches its last exchange to be served is the branch point."""
        self.changes.passed(exchange)
        if not self.patches and exchange == self.arm.serve_through:
            self.reached = True

    def due(self, branch: str | None) -> AnswerPatch | AskAgain | None:
        """The intervention that acts on the branch's next answer by position, whatever the request says.

        An ``AskAgain`` stays due until the provider's answer came, so that a client's retry of a 429 is asked
        live as well.
        """
        if branch is None:
            return None
        for patch in self.patches:
            if isinstance(patch, ResultPatch) or not self._by_position(patch):
                continue
            if (patch.branch, patch.ordinal) != (branch, self.positions[branch]):
                continue
            if self.in_effect(patch):
                if isinstance(patch, AskAgain):
                    return patch
            elif patch is not self.first:
                return patch
        return None

    def recognised(self, exchange: int) -> AnswerPatch | AskAgain | None:
        """The intervention that a request matched to ``exchange`` of the tape calls for.

        That is the first one, one on an exchange that is no model call, or one already in effect whose
        request is asked again.
        """
        for patch in self.patches:
            if isinstance(patch, ResultPatch) or patch.exchange != exchange:
                continue
            if patch is self.first or not self._by_position(patch) or self.in_effect(patch):
                return patch
        return None

    def over(self, branch: str | None) -> bool:
        """Whether the tape's part of this branch has been used up, so that its requests go live."""
        if branch is None:
            return False
        if self.finished and self.patches and self._branch_of(self.patches[-1]) == branch:
            return True
        return self.positions[branch] >= self.lengths[branch]

    def rewrite(self, request: Request, branch: str | None) -> tuple[Request, tuple[Patch, ...]]:
        """The request with intervened tool results replaced, and the interventions it carries.

        Which result is meant is told as ``afnb.core.linkage`` tells it: an id may stand for calls of several
        conversations, or for several calls of one.
        """
        wanted = [
            (patch, call)
            for patch in self._results
            if all(patch is not done for done in self._at_source)
            and (call := self._call_of(patch)) is not None
        ]
        if branch is None:
            return request, ()
        original = request
        if not wanted:
            return self.changes.made(request, original, branch), ()
        held: list[Patch] = []
        carried = Carried.of(branch, providers.read_turns(request))
        for patch, call in wanted:
            place = carried.place_of(call, self._same_id[call.call.id])
            if place is None:
                continue
            if not patch.as_recorded:
                changed = providers.replace_tool_result(request, call.call.id, patch.value, place)
                request = request if changed is None else changed
            held.append(patch)
        return self.changes.made(request, original, branch), tuple(held)

    def ask(self, patch: AskAgain, request: Request) -> Request | None:
        """What is asked where the provider is asked again; None if the change cannot be made there."""
        if self.in_effect(patch):
            return request  # a retry: what holds from here on is in it already
        self.changes.passed(patch.exchange)
        return self.changes.begun(patch, request)

    def carried(self) -> dict[str, Json]:
        """What holds for later requests, for whoever branches this run again: attributes of the recording."""
        results = []
        for patch in self._results:
            call = self._call_of(patch)
            kept = patch.as_recorded or any(patch is done for done in self._at_source)
            if call is not None and not kept and self.in_effect(patch):
                results.append({"call_id": call.call.id, "value": patch.value})
        found = [*self.changes.carried(), *results]
        return {CARRIED: found} if found else {}

    def advance(self, branch: str, request: Request, response: Response) -> int:
        """Count one successful answer of the branch; returns the position it had."""
        ordinal = self.positions[branch]
        self.positions[branch] += 1
        self.learn_calls(branch, ordinal, request, response)
        return ordinal

    def retreat(self, branch: str) -> None:
        """Take back an answer counted when it began, because it did not come to its end."""
        self.positions[branch] -= 1
        for call in self._made.pop((branch, self.positions[branch]), ()):
            self._same_id[call.call.id].remove(call)

    def learn_calls(self, branch: str, ordinal: int, request: Request, response: Response) -> None:
        """Note the calls an answer makes, by whose ids intervened tool results will come back."""
        if not self._results:
            return
        answer = providers.read_answer(request, response)
        if answer is None or not answer.tool_calls:
            return
        made = self._made.setdefault((branch, ordinal), [])
        for known, call in zip(made, answer.tool_calls, strict=False):
            known.call = call if call.id == known.call.id else known.call  # a stream has brought more of it
        carried = Carried.of(branch, providers.read_turns(request))
        for call in answer.tool_calls[len(made) :]:
            before = sum(other.call.id == call.id for other in made)
            nth = len(carried.results.get(call.id, ())) + before
            waiting = Waiting(len(made), call, ordinal, branch, nth)
            made.append(waiting)
            self._same_id.setdefault(call.id, []).append(waiting)

    def _call_of(self, patch: ResultPatch) -> Waiting | None:
        """The call whose result an intervention replaces, once the answer that makes it has come."""
        position = self.facts.positions.get(patch.exchange)
        made = [] if position is None else self._made.get(position, [])
        if not 0 <= patch.call_index < len(made):
            return None
        call = made[patch.call_index]
        return call if call.call.name == patch.tool and call.call.id else None

    def _by_position(self, patch: Patch) -> bool:
        return patch.exchange in self.facts.positions

    def _branch_of(self, patch: Patch) -> str | None:
        position = self.facts.positions.get(patch.exchange)
        return None if position is None else position[0]


def check_arm(tape: Tape | None, arm: Arm | None, good: Tape | None) -> None:
    """Refuse an arm that cannot be carried out on this tape, before anything is started."""
    if arm is None:
        return
    if tape is None:
        raise ParameterError(f"arm {arm.name!r} needs the recording it branches from; give tape=")
    if arm.tail == "good" and good is None:
        raise ParameterError(f"arm {arm.name!r} answers its tail from the good run; give good=")
    size = len(tape.cassette)
    for patch in arm.patches:
        if isinstance(patch, ResultPatch) and patch.tool_exchange is not None and patch.call_index < 0:
            continue
        if not 0 <= patch.exchange < size:
            raise ParameterError(
                f"arm {arm.name!r} intervenes at exchange {patch.exchange}, of a recording of {size}"
            )


def _run_order(patch: Patch) -> tuple[int, int, int]:
    if isinstance(patch, ResultPatch):
        return (patch.exchange, 1, patch.call_index)
    return (patch.exchange, 0, 0)
