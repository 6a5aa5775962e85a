"""Record the bundled pairs again: ``python data/make_data.py``. Same files every time.

Each pair is made by its agent (``afnb.experiments.bundled``) against the simulated provider. Seeds are
tried in order until a run with the wanted outcome, and for the bad runs with the wanted shape, is found.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from afnb.core.cassette import Cassette
from afnb.core.run import Run
from afnb.core.steps import run_from_cassette
from afnb.experiments.agents import Function
from afnb.experiments.bundled import PAIRS, Pair
from afnb.io.formats.cassette import write_cassette

# T from afnb.io.formats.trace import write_trace
from afnb.io.serve import Session
from afnb.io.simulated import SimulatedUpstream

HERE = Path(__file__).resolve().parent


def record(pair: Pair, name: str, seed: int) -> tuple[Cassette, Run]:
    """One run of the pair's agent with the model's dice thrown by ``seed``."""
    session = Session(id=f"{pair.name}-{name}")
    upstream = SimulatedUpstream(pair.model, seed=seed)
    with tempfile.TemporaryDirectory() as workdir:
        result = Function(pair.agent).run(session, upstream, seed=seed, workdir=workdir)
    assert result.status == "finished", result.error
    session.close()
    cassette = session.cassette()
    exchanges = tuple(replace(e, t_start=None, t_end=None) for e in cassette.exchanges)
    note = {"simulated": True, "made_by": "data/make_data.py", "seed": seed, "shows": pair.meaning}
    cassette = replace(cassette, exchanges=exchanges, task=pair.agent.task, attrs=note)
    return cassette, run_from_cassette(cassette)


def said(run: Run, step: int) -> str:
    """Text of the model at an llm step."""
    return str(run.steps[step].outputs["text"])


def wrong_policy(run: Run) -> bool:
    return len(run) == 7 and "small extras" in said(run, 4)


def both_wrong(run: Run) -> bool:
    return run.answer == "Booked for 14 October, charged in USD."


def newspaper_twice(run: Run) -> bool:
    return len(run) == 5 and "newspapers" in said(run, 0)


def census_once(run: Run) -> bool:
    return len(run) == 3 and "official count" in said(run, 0)


SHAPES: dict[str, tuple[Callable[[Run], bool], Callable[[Run], bool]]] = {
    "refund": (wrong_policy, lambda run: len(run) == 9),
    "trip": (both_wrong, lambda run: True),
    "report": (newspaper_twice, census_once),
}


def search(pair: Pair, name: str, wanted: Callable[[Run], bool]) -> tuple[Cassette, Run]:
    for seed in range(10_000):
        cassette, run = record(pair, name, seed)
        if wanted(run):
            return cassette, run
    raise SystemExit(f"{pair.name}: no seed gives a {name} run of the wanted shape")


def main() -> None:
    sums = []
    for pair in PAIRS.values():
        folder = HERE / pair.name
        folder.mkdir(exist_ok=True)
        bad_shape, good_shape = SHAPES[pair.name]

        def is_bad(run: Run, pair: Pair = pair, shape: Callable[[Run], bool] = bad_shape) -> bool:
            return not pair.success(run) and shape(run)

        def is_good(run: Run, pair: Pair = pair, shape: Callable[[Run], bool] = good_shape) -> bool:
            return pair.success(run) and shape(run)

        for name, wanted, outcome in (("bad", is_bad, "fail"), ("good", is_good, "pass")):
            cassette, run = search(pair, name, wanted)
            cassette = replace(cassette, outcome=outcome)
            write_cassette(cassette, folder / f"{name}.json", overwrite=True)
            # T write_trace(replace(run, outcome=outcome), folder / f"{name}.trace.json", overwrite=True)
            print(
                f"{pair.name} {name}: seed {cassette.attrs['seed']}, {len(run)} steps, answer {run.answer!r}"
            )
    for path in sorted(HERE.glob("*/*.json")):
        sums.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(HERE).as_posix()}")
    (HERE / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
