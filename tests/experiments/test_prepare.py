"""What may not be called verified, however clear the replays."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.cassette import Cassette
from afnb.core.run import Run, Step
from afnb.io.conversation import Conversation
from afnb.io.simulated import SimulatedUpstream

sys.path.insert(0, str(Path(__file__).parent))
from planted import experiment, recording


def unlike(talk: Conversation, rng: random.Random) -> str:
    """Answers that no two runs share: nothing ever converges, whatever was changed."""
    return " ".join(f"w{rng.randrange(10**9)}" for _ in range(6))


def likeness(to: Cassette, **options: Any) -> afnb.Experiment:
    return experiment(0, 0, upstream=SimulatedUpstream(unlike), oracle=afnb.Converges(to), **options)


def test_unchecked_likeness_refutes_nothing() -> None:
    """Both arms fail for want of likeness alone; without the good recording nothing can tell."""
    good = recording()
    e = likeness(good)
    assert e.decision.verdict == "not_recovered"
    assert (e.verdict, e.label) == ("unverified", "Unverified")
    assert "good=..." in e.reason
    e = likeness(good, good=good)
    assert (e.verdict, e.label) == ("not_recovered", "verified")
    assert e.fidelity[1].converges


def test_likeness_that_the_good_run_itself_has_not_refutes_nothing() -> None:
    """The oracle asks for likeness to another run than the good one, whose replay is not like it."""
    outputs = {"text": "altogether something else", "tool_calls": []}
    other = Run("other", tuple(Step(i, "llm", "llm", outputs=outputs) for i in range(2)))
    e = experiment(0, 0, upstream=SimulatedUpstream(unlike), oracle=afnb.Converges(other), good=recording())
    assert e.fidelity[1].converges is False
    assert (e.verdict, e.label) == ("unverified", "Unverified")
    assert "does not converge" in e.reason


@pytest.mark.parametrize("given", [False, True])
def test_likeness_found_is_verified_either_way(given: bool) -> None:
    """What recovers against a control arm needs no such check."""
    good = recording()
    texts = "good beginning", "as the good run said"
    steps = (Step(i, "llm", "llm", outputs={"text": text, "tool_calls": []}) for i, text in enumerate(texts))

    def like(talk: Conversation, rng: random.Random) -> str:
        return texts[1] if talk.says(texts[0]) else unlike(talk, rng)

    e = experiment(
        0,
        0,
        upstream=SimulatedUpstream(like),
        oracle=afnb.Converges(Run("good", tuple(steps))),
        good=good if given else None,
    )
    assert (e.verdict, e.label) == ("recovered", "verified")
