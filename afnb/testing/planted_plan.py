"""``Plan``: what a planted agent and its model do, and so what is true of every step of its runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from afnb.core.jsonvalue import loads
from afnb.errors import ParameterError

Kind = Literal["plain", "style", "cause", "echo", "carry"]
Faults = frozenset[int]

CARRIED, BROKEN = -1, -2
"""Faults that are no turn's own: what a ``carry`` said, and a tool that was not available."""
MOST_TURNS = 255


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
        if not 1 <= len(self.turns) <= MOST_TURNS:
            raise ParameterError(
                f"Plan(turns=...): a plan has 1 to {MOST_TURNS} turns; got {len(self.turns)}"
            )
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


def read_plan(text: str) -> Plan:
    """A plan from the JSON of its fields, for agents that are started as commands.

    Examples
    --------
    >>> read_plan('{"turns": [{"kind": "cause", "wrong": 0.9}], "clean": 0.8}').causes
    (0,)
    """
    given = loads(text)
    if not isinstance(given, dict) or not isinstance(given.get("turns"), list):
        raise ParameterError(f"a plan is a JSON object with turns; got {text[:80]!r}")
    return Plan(**{**given, "turns": tuple(Turn(**turn) for turn in given["turns"])})


def _check_rates(value: Any, *names: str) -> None:
    for name in names:
        rate = getattr(value, name)
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0.0 <= rate <= 1.0:
            raise ParameterError(f"{type(value).__name__}({name}={rate!r}): a rate lies between 0 and 1")
