"""A batch as a program that a test kills, interrupts or resumes.

``batch_program.py PAIRS OUT CALLS [options]``

Each answered live call is a line of CALLS before it is handed out: what a batch asks twice shows there.
The last line on stdout says how it ended.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from many import AGENT, TOOLS, live, paid

import afnb
from afnb.core.cassette import Request, Response
from afnb.experiments.agents import Function
from afnb.io.reply import Upstream
from afnb.io.simulated import SimulatedUpstream


class Noting(Upstream):
    """The simulated provider; notes (seed, arm, index, number of the call) of each answer."""

    def __init__(self, inner: SimulatedUpstream, path: str, name: tuple[Any, ...] = ()) -> None:
        self.inner, self.path, self.name = inner, path, name
        self.calls = 0
        self.lock = threading.Lock()

    @property
    def origin(self) -> str:
        return self.inner.origin

    def answer(self, request: Request) -> Response:
        response = self.inner.answer(request)
        with self.lock:
            number, self.calls = self.calls, self.calls + 1
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps([*self.name, number]) + "\n")
        return response

    def for_replay(self, seed: int, arm: str, index: int) -> Noting:
        return Noting(self.inner.for_replay(seed, arm, index), self.path, (seed, arm, index))

    def __reduce__(self) -> tuple[object, ...]:
        return Noting, (self.inner, self.path, self.name)


class Hanging:
    """The usual agent, which hangs as soon as anything was asked live, in replays and self-checks alike."""

    def __init__(self, calls: str) -> None:
        self.calls = Path(calls)

    def __call__(self, ctx: Any) -> str:
        text = AGENT(ctx)
        if self.calls.exists():
            time.sleep(60)
        return text


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("pairs")
    options.add_argument("out")
    options.add_argument("calls")
    options.add_argument("--n-jobs", type=int, default=2)
    options.add_argument("--latency", type=float, default=0.0)
    options.add_argument("--backend", default="threading")
    options.add_argument("--hang", action="store_true")
    args = options.parse_args()
    found = afnb.attribute_many(
        args.pairs,
        agent=Function(Hanging(args.calls)) if args.hang else AGENT,
        upstream=Noting(SimulatedUpstream(live, latency_s=args.latency), args.calls),
        oracle=paid,
        allow_tools=list(TOOLS),
        ledger=args.out,
        n_jobs=args.n_jobs,
        backend=args.backend,
        progress=False,
    )
    states = {row["pair"]: row["state"] for row in found.rows()}
    print(json.dumps({"stopped": found.stopped, "states": states}), flush=True)


if __name__ == "__main__":
    main()
