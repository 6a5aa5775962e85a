"""Planted agents: runs whose deciding steps are known, because they were put there.

::

    Plan ── PlantedModel   the made-up model: a policy for ``SimulatedUpstream``
         ├─ PlantedAgent   the agent: a loop of model requests over whatever transport it is given
         ├─ record_pair    a failing and a good run, recorded through the transport
         └─ planted_truth  the exact effect of every step, from the plan alone

A run has one model answer a turn and a closing answer. Each turn is one of:

========= =====================================================================================
``plain`` the same in every run, but for paraphrase
``style`` one of two wordings that change nothing: a difference that causes nothing
``cause`` the right or the wrong choice; a wrong one is a fault
``echo``  says what the run looks like so far, and is not read again: it only inherits
``carry`` says what the run looks like so far, and what it says is believed from then on
========= =====================================================================================

A run without (or, by ``needs="any"``, with not too many) faults succeeds at rate ``clean``, any other at
rate ``faulty``.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from afnb.core.cassette import Cassette, Request
from afnb.core.jsonvalue import dumps, loads
from afnb.core.run import Run
from afnb.errors import AgentError, ParameterError
from afnb.experiments.agents import Function
from afnb.io.answers import Call, Say, error
from afnb.io.conversation import Conversation
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream

if TYPE_CHECKING:
    from afnb.experiments.context import AgentContext

Kind = Literal["plain", "style", "cause", "echo", "carry"]
Faults = frozenset[int]

CARRIED, BROKEN = -1, -2
"""Faults that are no turn's own: what a ``carry`` said, and a tool that was not available."""
COMMON, OWN, FILLERS = 12, 10, 40
TOOL = "act"
CALM: dict[str, Any] = {"crash": 0.0, "hang": 0.0, "flaky": 0.0}
ASKS = 5


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a plan: its kind, and for a ``cause`` how often a live answer is the wrong one."""

    kind: Kind = "plain"
    wrong: float = 0.5

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ParameterError(f"Turn(kind={self.kind!r}): it is one of {', '.join(get_args(Kind))}")
        _check_rates(self, "wrong")


@dataclass(frozen=True, slots=True)
class Plan:
    """What an agent and its model do, and so what is true of every step.

    Parameters
    ----------
    turns
        The turns before the closing answer.
    clean, faulty
        Success rate of a run in order, and of one that is not.
    needs
        ``all``: every cause must be right. ``any``: one right cause is enough.
    repair
        Chance that a live answer of a run that is not in order puts it in order again.
    told
        Whether the closing answer carries the outcome (the model's coin); else the agent's own coin decides,
        by what was chosen, and the closing answer says nothing.
    paraphrase
        Words that change nothing differ from answer to answer.
    tools
        Each turn calls a tool; the tool of a wrong choice fails.
    flaky
        Chance that a tool is not available, which breaks the run; needs ``tools``.
    busy
        Chance that a request is first answered 429.
    crash, hang
        Chance, before each request, that the agent raises, or sleeps ``hang_s`` seconds.
    hang_if
        ``any``, or ``faulty``: only a run that is not in order hangs.
    hang_s
        How long.
    shape
        ``openai.chat`` or ``anthropic.messages``.
    wire
        ``transport`` (in process) or ``loopback`` (a socket).

    Examples
    --------
    >>> plan = Plan((Turn(), Turn("style"), Turn("cause"), Turn("echo")), clean=0.9, faulty=0.1)
    >>> plan.causes, plan.bad_script, plan.good_script
    ((2,), 'abbb-', 'aaaa-')
    """

    turns: tuple[Turn, ...]
    clean: float = 1.0
    faulty: float = 0.0
    needs: Literal["all", "any"] = "all"
    repair: float = 0.0
    told: bool = False
    paraphrase: bool = False
    tools: bool = False
    flaky: float = 0.0
    busy: float = 0.0
    crash: float = 0.0
    hang: float = 0.0
    hang_if: Literal["any", "faulty"] = "any"
    hang_s: float = 4.0
    shape: str = "openai.chat"
    wire: Literal["transport", "loopback"] = "transport"

    def __post_init__(self) -> None:
        _check_rates(self, "clean", "faulty", "repair", "flaky", "busy", "crash", "hang")
        if not self.turns:
            raise ParameterError("Plan(turns=()): a plan has at least one turn")
        if self.flaky and not self.tools:
            raise ParameterError("Plan(flaky=...) is about tools; it needs tools=True")
        if self.busy >= 1:
            raise ParameterError("Plan(busy=1): every first ask would be refused; give less than 1")

    @property
    def causes(self) -> tuple[int, ...]:
        """The turns that are causes."""
        return tuple(t for t, turn in enumerate(self.turns) if turn.kind == "cause")

    @property
    def bad_script(self) -> str:
        """What the recorded failing run says, a letter a turn: ``b`` where it differs from the good one."""
        return self._script(wrong=True)

    @property
    def good_script(self) -> str:
        """What the recorded good run says."""
        return self._script(wrong=False)

    def _script(self, *, wrong: bool) -> str:
        faults: Faults = frozenset()
        said = []
        for t, turn in enumerate(self.turns):
            if turn.kind in ("style", "cause"):
                said.append("b" if wrong else "a")
            else:
                said.append("b" if turn.kind != "plain" and not self.in_order(faults) else "a")
            faults = self.after(faults, t, said[-1])
        return "".join(said) + (("b" if wrong else "a") if self.told else "-")

    def in_order(self, faults: Faults) -> bool:
        """Whether a run with these faults is in order."""
        if CARRIED in faults or BROKEN in faults:
            return False
        return not faults if self.needs == "all" else not faults or len(faults) < len(self.causes)

    def after(self, faults: Faults, turn: int, said: str) -> Faults:
        """The faults after what a turn said: ``a``, ``b``, or ``r`` for a repair."""
        if said == "r":
            return frozenset()
        kind = self.turns[turn].kind if turn < len(self.turns) else "plain"
        if kind == "carry":
            return frozenset() if said == "a" else frozenset((CARRIED,))
        return faults | {turn} if kind == "cause" and said == "b" else faults

    def odds(self, turn: int, faults: Faults) -> list[tuple[str, float]]:
        """What a live answer of this turn says, each with its chance."""
        order, kind = self.in_order(faults), self.turns[turn].kind
        left = 1.0 if order else 1.0 - self.repair
        if kind in ("style", "cause"):
            wrong = 0.5 if kind == "style" else self.turns[turn].wrong
            plain = [("a", left * (1.0 - wrong)), ("b", left * wrong)]
        else:
            plain = [("b" if kind != "plain" and not order else "a", left)]
        return [*plain, ("r", 1.0 - left)]

    def step_of(self, turn: int) -> int:
        """The step of a run that a turn's answer is (a tool step follows each, where there are tools)."""
        return 2 * turn if self.tools else turn

    def turn_of(self, step: int) -> int:
        """The turn a step belongs to."""
        return step // 2 if self.tools else step


def _check_rates(value: Any, *names: str) -> None:
    for name in names:
        rate = getattr(value, name)
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0.0 <= rate <= 1.0:
            raise ParameterError(f"{type(value).__name__}({name}={rate!r}): a rate lies between 0 and 1")


# -- words -------------------------------------------------------------------------------------------

_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
_SAID = "abr-"


@functools.cache
def _word(number: int) -> str:
    n = (number * 7919 + 101) % 70**3
    return "".join(_SYLLABLES[n // 70**k % 70] for k in range(3))


@functools.cache
def _text(turn: int, said: str) -> str:
    """The words of one answer: most of them the turn's own, the rest those of what is said."""
    first = 64 * turn
    own = first + COMMON + OWN * _SAID.index(said)
    return " ".join(_word(i) for i in [*range(first, first + COMMON), *range(own, own + OWN)])


@functools.cache
def _marks(turns: int) -> Mapping[str, str]:
    """The word by which an answer of any turn tells what it says."""
    return {
        _word(64 * turn + COMMON + OWN * _SAID.index(said)): said for turn in range(turns) for said in _SAID
    }


def said_in(text: str) -> str | None:
    """What an answer says, by its words: ``a``, ``b``, ``r``, ``-``; None for an answer of another origin."""
    marks = _marks(64)
    return next((marks[word] for word in text.split() if word in marks), None)


# -- model -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlantedModel:
    """The made-up model of a plan: a policy for ``SimulatedUpstream``.

    Parameters
    ----------
    plan
        What it does.
    script
        What to say at each turn, closing answer included; None draws by the plan.

    Examples
    --------
    >>> plan = Plan((Turn("cause", wrong=1.0),), faulty=0.0, told=True)
    >>> rng, talk = random.Random(0), Conversation("", ())
    >>> said_in(PlantedModel(plan)(talk, rng).text)
    'b'
    """

    plan: Plan
    script: str | None = None

    def __call__(self, talk: Conversation, rng: random.Random) -> Any:
        """Answer one request."""
        plan, turn = self.plan, talk.turn
        if talk.occurrence == 0 and rng.random() < plan.busy:
            asked = "/v1/messages" if plan.shape == "anthropic.messages" else "/v1/chat/completions"
            return error(Request("POST", asked), 429, "planted: ask again", (("retry-after", "0"),))
        if turn > len(plan.turns):
            return "nothing is left to say"
        said = self.script[turn] if self.script is not None else self._draw(talk, turn, rng)
        words = _text(turn, said)
        if plan.paraphrase:
            words = " ".join([*(_word(10_000 + rng.randrange(FILLERS)) for _ in range(2)), words])
        calls = (Call(TOOL, {"turn": turn, "choice": said}),) if plan.tools and turn < len(plan.turns) else ()
        return Say(words, calls)

    def _draw(self, talk: Conversation, turn: int, rng: random.Random) -> str:
        plan, faults = self.plan, faults_of(self.plan, talk)
        if turn == len(plan.turns):
            rate = plan.clean if plan.in_order(faults) else plan.faulty
            return "-" if not plan.told else "a" if rng.random() < rate else "b"
        point, seen = rng.random(), 0.0
        for said, chance in plan.odds(turn, faults):
            seen += chance
            if point < seen:
                return said
        return "a"


def faults_of(plan: Plan, talk: Conversation) -> Faults:
    """The faults of a conversation so far."""
    faults: Faults = frozenset()
    turn = 0
    for message in talk.messages:
        if message.role == "assistant":
            faults = plan.after(faults, turn, said_in(message.text) or "-")
            turn += 1
        elif any("unavailable" in result.text for result in message.results):
            faults |= {BROKEN}
    return faults


# -- agent -------------------------------------------------------------------------------------------

Ask = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Sends one request body and gives the answer's JSON."""


@dataclass(frozen=True, slots=True)
class PlantedAgent:
    """The agent of a plan, for ``afnb.Function``; picklable.

    It answers ``run succeeded`` or ``run failed``; see ``succeeded``.
    """

    plan: Plan

    def __call__(self, ctx: AgentContext) -> str:
        """Run the loop once against ``ctx``."""
        path = "/v1/messages" if self.plan.shape == "anthropic.messages" else "/v1/chat/completions"
        client = self._client(ctx)

        def ask(body: dict[str, Any]) -> Mapping[str, Any]:
            for _ in range(ASKS):
                answer = client.post(path, json=body)
                if answer.status_code != 429:
                    answer.raise_for_status()
                    break
            found: Mapping[str, Any] = answer.json()
            return found

        with client:
            return play(self.plan, ask, ctx.seed)

    def _client(self, ctx: AgentContext) -> Any:
        if self.plan.wire == "transport":
            return ctx.http_client()
        import httpx

        return httpx.Client(base_url=ctx.base_url, trust_env=False)


def play(plan: Plan, ask: Ask, seed: int) -> str:
    """One run of a plan's agent, whoever carries its requests; its own luck comes from ``seed``."""
    luck = random.Random(seed)
    chat = plan.shape == "openai.chat"
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Carry the plan out, a turn at a time."}]
    faults: Faults = frozenset()
    said = ""
    for turn in range(len(plan.turns) + 1):
        crash, hang, tool_fails = luck.random(), luck.random(), luck.random() < plan.flaky
        if crash < plan.crash:
            raise RuntimeError(f"planted: the agent crashed before request {turn}")
        if hang < plan.hang and (plan.hang_if == "any" or not plan.in_order(faults)):
            time.sleep(plan.hang_s)
        answer = ask(_body(plan, messages))
        text, calls, message = (_read_chat if chat else _read_messages)(answer)
        said = said_in(text) or "-"
        faults = plan.after(faults, turn, said)
        messages.append(message)
        for call_id, arguments in calls:
            fails = tool_fails and turn < len(plan.turns)
            result = act(arguments, available=not fails)
            messages.append(_result(chat, call_id, dumps(result)))
            faults = faults | {BROKEN} if fails else faults
    if plan.told:
        return "run succeeded" if said == "a" else "run failed"
    rate = plan.clean if plan.in_order(faults) else plan.faulty
    return "run succeeded" if luck.random() < rate else "run failed"


def act(arguments: Mapping[str, Any], *, available: bool = True) -> dict[str, Any]:
    """The tool of a planted agent: it fails for a wrong choice, and changes nothing anywhere.

    Examples
    --------
    >>> act({"turn": 3, "choice": "b"})
    {'turn': 3, 'status': 'failed'}
    """
    if not available:
        return {"turn": arguments.get("turn"), "status": "unavailable"}
    return {
        "turn": arguments.get("turn"),
        "status": "failed" if arguments.get("choice") == "b" else "done",
    }


def _body(plan: Plan, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if plan.shape == "anthropic.messages":
        body: dict[str, Any] = {"model": "planted", "max_tokens": 300, "messages": list(messages)}
        tool: dict[str, Any] = {"name": TOOL, "input_schema": {"type": "object"}}
    else:
        body = {"model": "planted", "messages": list(messages)}
        tool = {"type": "function", "function": {"name": TOOL, "parameters": {"type": "object"}}}
    return {**body, "tools": [tool]} if plan.tools else body


_Read = tuple[str, list[tuple[str, Mapping[str, Any]]], dict[str, Any]]


def _read_chat(answer: Mapping[str, Any]) -> _Read:
    found = answer["choices"][0]["message"]
    listed = found.get("tool_calls") or []
    calls = [(call["id"], loads(call["function"]["arguments"])) for call in listed]
    message = {"role": "assistant", "content": found.get("content")}
    if listed:
        message["tool_calls"] = [{key: call[key] for key in ("id", "type", "function")} for call in listed]
    return found.get("content") or "", calls, message


def _read_messages(answer: Mapping[str, Any]) -> _Read:
    texts = [block for block in answer["content"] if block["type"] == "text"]
    uses = [block for block in answer["content"] if block["type"] == "tool_use"]
    content = [{"type": "text", "text": block["text"]} for block in texts]
    content += [{key: block[key] for key in ("type", "id", "name", "input")} for block in uses]
    calls = [(block["id"], block["input"]) for block in uses]
    return "".join(b["text"] for b in texts), calls, {"role": "assistant", "content": content}


def _result(chat: bool, call_id: str, text: str) -> dict[str, Any]:
    if chat:
        return {"role": "tool", "tool_call_id": call_id, "content": text}
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    return {"role": "user", "content": [block]}


def succeeded(run: Run) -> bool:
    """Whether a planted run succeeded: the oracle of every plan.

    Examples
    --------
    >>> succeeded(Run("r", answer="run succeeded"))
    True
    """
    return "run succeeded" in f"{run.answer} {run.stdout or ''}"


# -- recordings --------------------------------------------------------------------------------------


def record_run(plan: Plan, script: str, seed: int = 0, *, id: str = "planted") -> Cassette:
    """Record one run that says what the script says; nothing crashes, hangs or is unavailable in it.

    Raises
    ------
    AgentError
        The agent did not come to its end.
    """
    session = Session(id=id)
    agent = Function(PlantedAgent(replace(plan, **CALM)))
    upstream = SimulatedUpstream(PlantedModel(plan, script), seed=seed)
    done = agent.run(session, upstream, seed=seed, workdir=".")
    session.close()
    if done.status != "finished":
        raise AgentError(f"the planted agent could not be recorded: {done.error}")
    return session.cassette()


def record_pair(plan: Plan, seed: int = 0) -> tuple[Cassette, Cassette]:
    """A failing and a good run of a plan.

    Examples
    --------
    >>> bad, good = record_pair(Plan((Turn("style"), Turn("cause"))))
    >>> bad.outcome, good.outcome, len(bad)
    ('fail', 'pass', 3)
    """
    bad = record_run(plan, plan.bad_script, 2 * seed, id="planted-bad")
    good = record_run(plan, plan.good_script, 2 * seed + 1, id="planted-good")
    return replace(bad, outcome="fail"), replace(good, outcome="pass")
