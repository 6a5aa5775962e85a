"""An attribution that a test kills at a random moment: run as a program, it notes every live call it makes.

``python killed.py FOLDER SEED LATENCY HARD``: recordings, ledger and noted calls are in FOLDER. Each line of
``calls`` is one finished live call, as seed, arm, index and number of the call. In the end
``told.json`` holds the verdict and the used replays. HARD (0 or 1) is whether it takes many replays.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from pathlib import Path
from typing import Any

import afnb
from afnb.core.cassette import Cassette, Request, Response
from afnb.experiments.agents import Function
from afnb.io.conversation import Conversation
from afnb.io.formats.cassette import write_cassette
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream
from afnb.io.upstream import Upstream

TURNS = 6
RATES = {False: (0.85, 0.15), True: (0.75, 0.5)}
HARD = False
WORDS = {
    "well": "every figure is checked against the register before anything is promised",
    "badly": "skip that, guess something",
}


def agent(ctx: Any) -> str:
    """Asks six times; each request holds all earlier answers."""
    with ctx.http_client() as client:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "start"}]
        text = ""
        for turn in range(TURNS):
            messages.append({"role": "user", "content": f"question {turn}"})
            answer = client.post("/v1/chat/completions", json={"model": "m", "messages": messages})
            text = answer.raise_for_status().json()["choices"][0]["message"]["content"]
            messages.append({"role": "assistant", "content": text})
        return text


def later(turn: int, well: bool) -> str:
    """The answers before the last: they follow from the choice."""
    if turn < 2:
        return f"step {turn}"
    return f"entry {turn} of the register agrees" if well else f"maybe {turn}"


def policy(talk: Conversation, rng: random.Random) -> str:
    """Turn 2 decides, noisily, so that the search takes many replays."""
    if talk.turn == 2:
        return WORDS["well" if rng.random() < 0.5 else "badly"]
    well = talk.says(WORDS["well"])
    if talk.turn < TURNS - 1:
        return later(talk.turn, well)
    good = rng.random() < RATES[HARD][0 if well else 1]
    return f"right {rng.random()}" if good else f"wrong {rng.random()}"


class Noting(Upstream):
    """The simulated provider; each answered call is noted before it is handed out."""

    def __init__(self, inner: SimulatedUpstream, path: Path, name: tuple[Any, ...] = ()) -> None:
        self.inner = inner
        self.path = path
        self.name = name
        self.calls = 0
        self.lock = threading.Lock()

    @property
    def origin(self) -> str:
        return "noting"

    def answer(self, request: Request) -> Response:
        response = self.inner.answer(request)
        with self.lock:
            number, self.calls = self.calls, self.calls + 1
        note = (json.dumps([*self.name, number]) + "\n").encode()
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, note)
        os.close(file)
        return response

    def for_replay(self, seed: int, arm: str, index: int) -> Noting:
        return Noting(self.inner.for_replay(seed, arm, index), self.path, (seed, arm, index))


def recording(word: str) -> Cassette:
    """A run whose second choice was this."""

    def fixed(talk: Conversation, rng: random.Random) -> str:
        if talk.turn == 2:
            return WORDS[word]
        if talk.turn < TURNS - 1:
            return later(talk.turn, word == "well")
        return "right 1" if word == "well" else "wrong 1"

    session = Session(id=word)
    Function(agent).run(session, SimulatedUpstream(fixed), seed=0, workdir=".")
    session.close()
    return session.cassette()


def right(run: afnb.Run) -> bool:
    return str(run.answer).startswith("right")


def pair(folder: Path) -> tuple[Path, Path]:
    """A failing and a good recording, made once."""
    paths = folder / "bad.json", folder / "good.json"
    for path, word in zip(paths, ("badly", "well"), strict=True):
        if not path.exists():
            write_cassette(recording(word), path)
    return paths


def attribution(
    folder: Path, ledger: Path | None, calls: Path, seed: int, latency_s: float = 0.0
) -> afnb.Attribution:
    """The attribution of the pair in ``folder``."""
    bad, good = pair(folder)
    upstream = Noting(SimulatedUpstream(policy, latency_s=latency_s), calls)
    return afnb.attribute(
        bad,
        good,
        agent=agent,
        upstream=upstream,
        oracle=right,
        origin=True,
        consensus=afnb.SequentialConsensus(max_replays=200 if HARD else 40),
        ledger=ledger,
        seed=seed,
        n_jobs=3,
        budget=afnb.Budget(live_calls=None),
        progress=False,
    )


def told(a: afnb.Attribution) -> dict[str, Any]:
    """What an unbroken and a resumed run must agree on."""
    drop = ("wall_s", "worker")
    rows = [
        {k: v for k, v in row.items() if k not in drop} for e in a.experiments_run for row in e.replay_rows()
    ]
    return {
        "verdict": [a.verdict, a.label, a.kind, list(a.origination), a.reason],
        "used": [row for row in rows if row["used"]],
        "experiments": [[e.id, e.verdict, e.decision.replays] for e in a.experiments_run],
    }


if __name__ == "__main__":
    place, number, latency = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    HARD = sys.argv[4] == "1"
    end = json.dumps(told(attribution(place, place / "ledger", place / "calls", number, latency)))
    (place / "told.part").write_text(end)
    (place / "told.part").rename(place / "told.json")
