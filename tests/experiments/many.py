"""Many small failing runs with known causes, for the tests of batches, reports and the command line.

One agent, one model, any number of cases. A case says of what kind it is in the model's first answer,
which the tape serves, so that the live model knows how to go on.

====== ==========================================================================================
kind   at the turn in question
====== ==========================================================================================
policy the failing run looks up another category: it causes the failure
skip   the failing run escalates instead of verifying: it causes the failure
style  the failing run says the same in other words and checks twice more: it causes nothing
same   the two runs do not part
====== ==========================================================================================
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import afnb
from afnb.core.cassette import Cassette
from afnb.experiments.agents import Function
from afnb.experiments.bundled import ToolLoop
from afnb.io.answers import Call, Say
from afnb.io.conversation import Conversation
from afnb.io.formats.cassette import write_cassette
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream

CASE = re.compile(
    r"case (\d+), kind (\w+), turns (\d+), in question (\d+), right ([\d.]+), wrong (\d[\d.]*\d)"
)


@dataclass(frozen=True)
class Case:
    number: int
    kind: str = "policy"
    turns: int = 4
    at: int = 2
    right: float = 1.0
    wrong: float = 0.0

    def __str__(self) -> str:
        return (
            f"case {self.number}, kind {self.kind}, turns {self.turns}, in question {self.at}, "
            f"right {float(self.right)}, wrong {float(self.wrong)}"
        )


def look(item: int) -> dict[str, Any]:
    return {"item": item, "seen": True, "note": f"nothing unusual about item {item}"}


def policy(category: str) -> dict[str, Any]:
    return {"category": category, "days": 30 if category == "electronics" else 7}


def verify(what: str) -> dict[str, Any]:
    return {"verified": what}


def escalate(to: str) -> dict[str, Any]:
    return {"escalated": to, "answer": "no reply from there, decide alone"}


TOOLS: dict[str, Callable[..., Any]] = {
    "look": look,
    "policy": policy,
    "verify": verify,
    "escalate": escalate,
}
AGENT = ToolLoop("Handle the next case.", "You handle refund cases.", TOOLS, turns=60)


def choice(case: Case, wrong: bool) -> Say:
    if case.kind == "policy":
        if wrong:
            return Say(
                "Small extras have a policy of their own.", (Call("policy", {"category": "accessories"}),)
            )
        return Say("This is a device, which decides it.", (Call("policy", {"category": "electronics"}),))
    if case.kind == "skip":
        if wrong:
            return Say("Somebody else may know better.", (Call("escalate", {"to": "the manager on duty"}),))
        return Say("First make sure of the facts.", (Call("verify", {"what": "receipt and serial number"}),))
    words = (
        "Something about the wording here differs a lot."
        if wrong
        else "Now look at what has been said before."
    )
    item = 900 if wrong and case.kind == "style" else 100
    return Say(words if case.kind == "style" else "Look once more.", (Call("look", {"item": item}),))


def ending(case: Case, well: bool, rng: random.Random) -> str:
    if well:
        word = rng.choice(["closed", "done", "noted"])
        return f"Paid: the refund of case {case.number} is on its way; {word}."
    return f"Declined, since nothing is due in case {case.number}, {rng.choice(['sorry', 'truly', 'yes'])}."


def faulty(case: Case, talk: Conversation) -> bool:
    if case.kind == "policy":
        return bool((talk.result_of("policy") or {}).get("category") == "accessories")
    return case.kind == "skip" and talk.called("escalate")


def parted(case: Case, talk: Conversation) -> bool:
    """Whether the talk goes the failing run's way; its later answers differ then as well."""
    return faulty(case, talk) or talk.says("wording here differs")


def case_of(talk: Conversation) -> Case:
    said = next(message.text for message in talk.messages if message.role == "assistant")
    found = CASE.search(said)
    assert found is not None, said
    number, kind, turns, at, right, wrong = found.groups()
    return Case(int(number), kind, int(turns), int(at), float(right), float(wrong))


def answer(case: Case, talk: Conversation, rng: random.Random, wrong: bool | None) -> Any:
    """The model: ``wrong`` scripts the turn in question and the ending; None draws both."""
    if talk.turn == 0:
        return Say(f"I open {case}.", (Call("look", {"item": 0}),))
    if talk.turn == case.at:
        return choice(case, rng.random() < 0.5 if wrong is None else wrong)
    longer = case.kind == "style" and parted(case, talk)
    if talk.turn < case.turns - 1 + 2 * longer:
        if longer and talk.turn == case.at + 1:
            return Say("Ask the archive, just to be sure.", (Call("verify", {"what": "the archive"}),))
        if parted(case, talk):
            return Say(
                "Strictly speaking little is left to check.", (Call("look", {"item": 500 + talk.turn}),)
            )
        return Say(f"On to item {talk.turn} of the file.", (Call("look", {"item": talk.turn}),))
    if wrong is not None:
        return ending(case, not wrong, rng)
    return ending(case, rng.random() < (case.wrong if faulty(case, talk) else case.right), rng)


def live(talk: Conversation, rng: random.Random) -> Any:
    return answer(case_of(talk), talk, rng, None)


class Scripted:
    def __init__(self, case: Case, wrong: bool) -> None:
        self.case, self.wrong = case, wrong

    def __call__(self, talk: Conversation, rng: random.Random) -> Any:
        return answer(self.case, talk, rng, self.wrong)


def paid(run: afnb.Run) -> bool:
    return str(run.answer).startswith("Paid")


def record(case: Case, wrong: bool) -> Cassette:
    session = Session(id=f"{'bad' if wrong else 'good'}-{case.number}")
    upstream = SimulatedUpstream(Scripted(case, wrong and case.kind != "same"), seed=case.number)
    done = Function(AGENT).run(session, upstream, seed=0, workdir=".")
    assert done.status == "finished", done
    session.close()
    recorded = session.cassette()
    # without times, the same case is the same recording and so has the same seed
    steady = tuple(replace(exchange, t_start=None, t_end=None) for exchange in recorded.exchanges)
    return replace(recorded, exchanges=steady)


def pair(case: Case) -> tuple[Cassette, Cassette]:
    return record(case, True), record(case, False)


def folder(path: Path, cases: list[Case]) -> Path:
    """The cases on disk: ``<path>/case-<number>/bad.json`` beside ``good.json``."""
    for case in cases:
        place = path / f"case-{case.number}"
        place.mkdir(parents=True)
        for name, recording in zip(("bad", "good"), pair(case), strict=True):
            write_cassette(recording, place / f"{name}.json")
    return path


def upstream(latency_s: float = 0.0, seed: int = 0) -> SimulatedUpstream:
    return SimulatedUpstream(live, latency_s=latency_s, seed=seed)


def batch(pairs: Any, **options: Any) -> afnb.Batch:
    settings: dict[str, Any] = {
        "agent": AGENT,
        "upstream": upstream(),
        "oracle": paid,
        "allow_tools": list(TOOLS),
        "progress": False,
        "n_jobs": 2,
        **options,
    }
    return afnb.attribute_many(pairs, **settings)
