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
from typing import TYPE_CHECKING, Any

from afnb.core.cassette import Cassette, Request
from afnb.core.jsonvalue import dumps, loads
from afnb.core.run import Run
from afnb.errors import AgentError
from afnb.experiments.agents import Function
from afnb.io.answers import Call, Say, error
from afnb.io.conversation import Conversation
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream
from afnb.testing.planted_plan import BROKEN, MOST_TURNS, Faults, Plan, Turn, read_plan

if TYPE_CHECKING:
    from afnb.experiments.context import AgentContext

__all__ = [
    "Plan",
    "PlantedAgent",
    "PlantedModel",
    "Turn",
    "act",
    "answer_text",
    "faults_of",
    "play",
    "read_plan",
    "record_pair",
    "record_run",
    "said_in",
    "succeeded",
]
COMMON, OWN, FILLERS = 12, 10, 40
TOOL = "act"
CALM: dict[str, Any] = {"crash": 0.0, "hang": 0.0, "flaky": 0.0}
ASKS = 5


# -- words -------------------------------------------------------------------------------------------

_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
_SAID = "abr-"


@functools.cache
def _word(number: int) -> str:
    n = (number * 7919 + 101) % 70**3
    return "".join(_SYLLABLES[n // 70**k % 70] for k in range(3))


@functools.cache
def answer_text(turn: int, said: str) -> str:
    """The words of one answer: most of them the turn's own, the rest those of what is said.

    Examples
    --------
    >>> said_in(answer_text(3, "a"))
    'a'
    """
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
    marks = _marks(MOST_TURNS + 1)
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
        words = answer_text(turn, said)
        if plan.paraphrase:
            words = " ".join([*(_word(-1 - rng.randrange(FILLERS)) for _ in range(2)), words])
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
