"""The bundled pairs, ready to run, and the demonstration that the command line shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from afnb.align.diff import Diff, diff
from afnb.causal.interventions import Edit
from afnb.causal.oracles import Outcome
from afnb.core.cassette import Cassette
from afnb.errors import InputError, ParameterError
from afnb.experiments.agents import Function
from afnb.experiments.attribute import attribute
from afnb.experiments.attribution import Attribution
from afnb.experiments.budget import Budget, Meter
from afnb.experiments.bundled import PAIRS, Pair
from afnb.experiments.progress import announce
from afnb.experiments.results import Experiment
from afnb.experiments.what_if import what_if
from afnb.io.load import load
from afnb.io.simulated import SimulatedUpstream

if TYPE_CHECKING:
    from afnb.experiments.replay import ReplayResult

HINT = "Let me see what newspapers wrote lately, and quote the newest figure."


def data_dir() -> Path:
    """Folder of the bundled recordings: inside the installed package, or beside a checkout.

    Raises
    ------
    InputError
        The installation lacks them.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_data", package.parent / "data"):
        if (folder / "refund" / "bad.json").is_file():
            return folder
    raise InputError("the bundled recordings are missing from this installation; install afnb again")


@dataclass(frozen=True, slots=True)
class Bundled:
    """One bundled pair: recordings, agent, simulated provider, and what counts as success."""

    pair: Pair
    bad: Cassette
    good: Cassette

    @property
    def agent(self) -> Function:
        """The agent that made both recordings."""
        return Function(self.pair.agent)

    @property
    def oracle(self) -> Outcome:
        """What counts as recovered."""
        return Outcome(self.pair.success)

    @property
    def tools(self) -> tuple[str, ...]:
        """The agent's tools: pure functions, safe to run again."""
        return self.pair.tools

    def upstream(self, latency_s: float = 0.0, seed: int = 0) -> SimulatedUpstream:
        """The simulated provider that answers after the branch point."""
        return SimulatedUpstream(self.pair.model, latency_s=latency_s, seed=seed)


def bundled(name: str) -> Bundled:
    """A bundled pair by name: ``refund``, ``trip`` or ``report``.

    Raises
    ------
    ParameterError
        There is no such pair.

    Examples
    --------
    >>> bundled("refund").bad.outcome
    'fail'
    """
    if name not in PAIRS:
        raise ParameterError(f"no bundled pair is called {name!r}; there are {', '.join(PAIRS)}")
    folder = data_dir() / name
    bad, good = load(folder / "bad.json"), load(folder / "good.json")
    assert isinstance(bad, Cassette)
    assert isinstance(good, Cassette)
    return Bundled(PAIRS[name], bad, good)


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demonstration found: a cause, a non-cause, and a question that stays open."""

    diff: Diff
    cause: Attribution
    no_cause: Attribution
    undecided: Experiment


def run_demo(
    n_jobs: int = 2,
    seed: int = 1,
    latency_s: float = 0.0,
    progress: bool | None = None,
    on_replay: Callable[[ReplayResult, str], None] | None = None,
) -> Demo:
    """Run the demonstration on the bundled recordings, against the simulated provider.

    Returns
    -------
    Demo
        ``cause`` is verified recovered, ``no_cause`` verified not recovered, ``undecided`` Unverified.
    """
    refund, report = bundled("refund"), bundled("report")
    whole, small = Budget(), Budget(live_calls=24)
    announce(
        f"budget: {whole.describe()} for each of the first two questions, {small.describe()} for the third",
        progress,
    )
    cause = attribute(
        refund.bad,
        refund.good,
        agent=refund.agent,
        upstream=refund.upstream(latency_s),
        oracle=refund.oracle,
        allow_tools=refund.tools,
        budget=Meter(whole),
        n_jobs=n_jobs,
        seed=seed,
        progress=progress,
        on_replay=on_replay,
    )
    no_cause = attribute(
        report.bad,
        report.good,
        agent=report.agent,
        upstream=report.upstream(latency_s),
        oracle=report.oracle,
        allow_tools=report.tools,
        budget=Meter(whole),
        n_jobs=n_jobs,
        seed=seed,
        progress=progress,
        on_replay=on_replay,
    )
    undecided = what_if(
        report.bad,
        Edit(0, {"text": HINT}),
        agent=report.agent,
        upstream=report.upstream(latency_s),
        oracle=report.oracle,
        allow_tools=report.tools,
        budget=Meter(small),
        n_jobs=n_jobs,
        seed=seed,
        progress=progress,
        on_replay=on_replay,
    )
    return Demo(diff(refund.bad, refund.good), cause, no_cause, undecided)
