"""``Trial``: one experiment on a thread of its own, with what its replays said so far."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from afnb.causal.consensus import SequentialConsensus
from afnb.causal.decision import Decision, Rule
from afnb.causal.interventions import Intervention
from afnb.causal.oracles import Oracle
from afnb.core.matching import Matching
from afnb.errors import AfnbError
from afnb.experiments.budget import Budget, Meter
from afnb.experiments.lab import feed
from afnb.experiments.recordings import Recording
from afnb.experiments.replay import STOPPED, ReplayResult
from afnb.experiments.results import Experiment
from afnb.experiments.what_if import what_if

State = Literal["running", "stopping", "done", "failed"]
STOPPED_BY_HAND = "stopped by hand"


@dataclass(frozen=True, slots=True)
class Settings:
    """What all experiments of an explorer share: everything that ``what_if`` takes beside the change."""

    agent: Any = None
    upstream: Any = None
    consensus: Rule = field(default_factory=SequentialConsensus)
    n_jobs: int = 4
    seed: int = 0
    backend: str = "threading"
    matching: Matching | None = None
    ledger: Any = None


@dataclass(frozen=True, slots=True)
class Setup:
    """One experiment as it was chosen: the change, what counts as recovered, the budget, the tools."""

    intervention: Intervention
    oracle: Oracle
    budget: Budget
    allow_tools: tuple[str, ...] = ()
    oracle_choice: str = "given"
    oracle_text: str = ""


class Trial:
    """One experiment: started, watched, stopped; whatever happens to it is a state and a sentence.

    Parameters
    ----------
    number
        Its number in the explorer's history, from 1.
    setup, settings
        What it runs.
    bad, good
        The recordings.
    changed
        Called from the trial's own thread whenever something new is there to be seen.
    """

    def __init__(
        self,
        number: int,
        setup: Setup,
        settings: Settings,
        bad: Recording,
        good: Recording | None,
        changed: Callable[[Trial], None] | None = None,
    ) -> None:
        self.number = number
        self.setup = setup
        self.settings = settings
        self.experiment: Experiment | None = None
        self.error = ""
        self.traceback = ""
        self._bad, self._good = bad, good
        self._changed = changed
        self._meter = Meter(setup.budget)
        self._lock = threading.Lock()
        self._state: State = "running"
        self._results: list[ReplayResult] = []
        self._thread = threading.Thread(target=self._run, name=f"afnb-explore-{number}", daemon=True)

    @property
    def state(self) -> State:
        """``running``, ``stopping`` (what runs is being finished), ``done`` or ``failed``."""
        with self._lock:
            return self._state

    @property
    def over(self) -> bool:
        """Whether nothing runs any more."""
        return self.state in ("done", "failed")

    @property
    def results(self) -> tuple[ReplayResult, ...]:
        """The replays so far: in order of arrival while it runs, by arm and index afterwards."""
        experiment = self.experiment
        if experiment is not None:
            return experiment.results
        with self._lock:
            return tuple(self._results)

    @property
    def live_calls(self) -> int:
        """Live calls so far."""
        return self._meter.live_calls

    def start(self) -> Trial:
        """Begin, on a thread of its own."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Once: start nothing more, keep what runs. Twice: end that as well."""
        with self._lock:
            again, over = self._state == "stopping", self._state in ("done", "failed")
            if not over:
                self._state = "stopping"
        if over:
            return
        self._meter.stop(STOPPED_BY_HAND)
        if again:
            self._meter.ended.set()
        self._tell()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; whether it came."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def so_far(self) -> Decision:
        """What the rule knows by now; the decision itself once it is made."""
        if self.experiment is not None:
            return self.experiment.decision
        return so_far(self.settings.consensus, self.results)

    # -- on its own thread -----------------------------------------------------------------------

    def _run(self) -> None:
        setup, settings = self.setup, self.settings
        try:
            self.experiment = what_if(
                self._bad,
                setup.intervention,
                agent=settings.agent,
                upstream=settings.upstream,
                oracle=setup.oracle,
                good=self._good,
                consensus=settings.consensus,
                n_jobs=settings.n_jobs,
                budget=self._meter,
                allow_tools=setup.allow_tools,
                seed=settings.seed,
                backend=settings.backend,
                progress=False,
                matching=settings.matching,
                ledger=settings.ledger,
                on_replay=self._arrived,
            )
        except AfnbError as error:
            self._fail(str(error))
        except BaseException as error:  # noqa: BLE001  # a thread has nobody to raise to; the panel shows it
            self.traceback = traceback.format_exc()
            self._fail(f"{type(error).__name__}: {error}")
        else:
            with self._lock:
                self._state = "done"
        self._tell()

    def _fail(self, sentence: str) -> None:
        with self._lock:
            self.error = sentence
            self._state = "failed"

    def _arrived(self, result: ReplayResult, _title: str) -> None:
        with self._lock:
            self._results.append(result)
        self._tell()

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed(self)


def so_far(rule: Rule, results: Iterable[ReplayResult]) -> Decision:
    """What a rule makes of the replays that have arrived, in whatever order they did.

    Examples
    --------
    >>> so_far(SequentialConsensus(), ()).blocks
    ()
    """
    state = rule.start()
    for result in results:
        if result.reason not in STOPPED:
            feed(state, result)
    return state.stop("still running")
