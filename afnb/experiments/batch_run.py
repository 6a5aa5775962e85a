"""``BatchRun``: one call of ``attribute_many``, from the given pairs to the batch that shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import afnb
from afnb.core.cassette import Cassette
from afnb.core.eventlog import EventLog
from afnb.errors import ParameterError
from afnb.experiments.agents import as_agent
from afnb.experiments.batch_folder import BatchFolder
from afnb.experiments.batch_progress import BatchProgress
from afnb.experiments.batch_result import Batch
from afnb.experiments.batch_task import PUT_ASIDE, Screened, Terms, describe, keep
from afnb.experiments.batch_workers import PairTask, ScreenTask, interruptible
from afnb.experiments.budget import Budget
from afnb.experiments.pair_row import PairResult, failed
from afnb.experiments.pairs import BatchPair, Kept
from afnb.experiments.pickling import require_picklable
from afnb.experiments.pool import PROCESSES, Died, pooled
from afnb.experiments.recordings import recording_hash
from afnb.io.formats.cassette import write_cassette
from afnb.io.logged import LoggedAgent
from afnb.tables.schemas import SCHEMA_VERSION

PATIENCE = 12
"""Replays of one experiment after which a pair is put aside, as long as clear cases wait."""

ALIKE = 5
RESUME = "Run the same again to go on: no finished live call is repeated."


@dataclass
class BatchRun:
    """One call of ``attribute_many``."""

    terms: Terms
    kept: BatchFolder
    pairs: tuple[BatchPair, ...]
    n_jobs: int
    backend: str
    bar: BatchProgress
    on_pair: Callable[[str, PairResult], None] | None
    gave_up: str | None = None
    alike: dict[str, int] = field(default_factory=dict)

    def run(self, keep_folder: bool) -> Batch:
        """Screen, attribute, settle."""
        self.terms.purse.begin()
        settings = settings_of(self.terms, self.pairs, self.n_jobs, self.backend)
        self.kept.agree(settings)
        self.same_pairs()
        sent = self.shipped()
        with interruptible(self.terms.purse):
            ready = self.screened(sent)
            self.bar.plan(len(self.pairs), len(ready), self.terms.purse.budget.describe())
            for patience in (PATIENCE, None) if limited(self.terms.purse.budget) else (None,):
                ready = self.attributed(sent, ready, patience)
                if self.stopped():
                    break
            self.left_over(ready)
        return self.settled(settings, keep_folder)

    def stopped(self) -> bool:
        """Whether no further pair is to be started."""
        return self.gave_up is not None or self.terms.purse.crossed() is not None

    def why(self) -> str:
        """Why pairs were left."""
        return self.gave_up or self.terms.purse.crossed() or "not reached"

    def same_pairs(self) -> None:
        """Refuse a manifest that lacks pairs whose results are here."""
        known, named = set(self.kept.known()), {pair.name for pair in self.pairs}
        if known - named:
            lost = sorted(known - named)
            raise ParameterError(
                f"{self.kept.path} holds {len(lost)} pairs that are not among those given, such as "
                f"{lost[0]!r}; name another folder for another batch"
            )

    def shipped(self) -> tuple[BatchPair, ...]:
        """The pairs as workers get them: recordings that are values go to files, once."""
        if self.backend not in PROCESSES:
            return self.pairs
        size = require_picklable(self.terms.agent) + require_picklable(self.terms.oracle, "the oracle")
        size += require_picklable(self.terms.upstream, "the upstream")
        self.bar.shipping(size)

        def file(value: Any) -> Any:
            if not isinstance(value, Cassette | EventLog):
                return value
            ending = "json" if isinstance(value, Cassette) else "jsonl"
            path = self.kept.path / "recordings" / f"{recording_hash(value)}.{ending}"
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                if isinstance(value, Cassette):
                    write_cassette(value, path)
                else:
                    path.write_bytes(value.to_bytes())
            return Kept(str(path.absolute()), value.id or "empty log")

        return tuple(replace(p, bad=file(p.bad), goods=tuple(map(file, p.goods))) for p in self.pairs)

    def screened(self, sent: Sequence[BatchPair]) -> list[Screened]:
        """Load and compare all pairs; those that can be re-run and are not finished, cheapest first."""
        known = self.kept.known()
        ready = []
        self.bar.start("screening", len(sent))
        done: set[int] = set()
        task = ScreenTask(self.terms)
        pool = pooled(
            task, list(enumerate(sent)), n_jobs=self.n_jobs, backend=self.backend, stopped=self.interrupted
        )
        for number, found in pool:
            pair = sent[number]
            if isinstance(found, Died):
                found = Screened(number, pair.name, "", failed(pair, found.reason))
            done.add(number)
            before = known.get(pair.name)
            if before is not None and before["final"] and before["key"] == found.key:
                self.bar.known(before["state"])
                continue
            self.bar.step()
            if found.result is None:
                ready.append(found)
            else:
                self.finish(found.result)
        for number in set(range(len(sent))) - done:
            ready.append(Screened(number, sent[number].name, "", None))
        return sorted(ready, key=lambda item: (item.cost, item.number))

    def interrupted(self) -> bool:
        """Whether the user stopped the batch."""
        return self.terms.purse.spent().state != 0

    def attributed(
        self, sent: Sequence[BatchPair], ready: Sequence[Screened], patience: int | None
    ) -> list[Screened]:
        """Work on the pairs in order; gives those that were put aside or not reached."""
        if not ready:
            return []
        self.bar.start("attributing" if patience else "undecided ones", len(ready))
        left = dict(enumerate(ready))
        tasks = [(sent[screened.number], screened) for screened in ready]
        workers = min(self.n_jobs, len(tasks))
        task = PairTask(self.terms, patience, self.n_jobs, workers, threads=self.backend not in PROCESSES)
        pool = pooled(task, tasks, n_jobs=workers, backend=self.backend, stopped=self.stopped)
        for number, result in pool:
            pair, screened = tasks[number]
            if isinstance(result, Died):
                result = failed(pair, result.reason, key=screened.key, stage="replays")
                keep(self.terms, result)
            if result.row["reason"] == PUT_ASIDE:
                self.bar.aside()
                continue
            del left[number]
            self.told(result)
            self.watch_for_equal_errors(pair, result)
        return list(left.values())

    def watch_for_equal_errors(self, pair: BatchPair, result: PairResult) -> None:
        """Give up once the first few pairs all failed alike: the next ones would as well."""
        words = shape(str(result.row["reason"]), pair) if result.state == "error" else ""
        self.alike[words] = self.alike.get(words, 0) + 1
        if words and len(self.alike) == 1 and self.alike[words] >= ALIKE:
            self.gave_up = f"the first {ALIKE} pairs all failed alike: {result.row['reason']}"

    def left_over(self, ready: Sequence[Screened]) -> None:
        """A row for each pair that was not decided when it ended, with the reason."""
        why = self.why()
        for screened in ready:
            pair = self.pairs[screened.number]
            self.finish(failed(pair, why, key=screened.key, stage="diff", state="open"))

    def finish(self, result: PairResult) -> None:
        """Keep a result and tell of it."""
        keep(self.terms, result)
        self.told(result)

    def told(self, result: PairResult) -> None:
        """Tell of a result that is kept."""
        self.bar.pair(result.state)
        if self.on_pair is not None:
            self.on_pair(str(result.row["pair"]), result)

    def settled(self, settings: dict[str, Any], keep_folder: bool) -> Batch:
        """All tables together, and the batch that shows them."""
        spent = self.terms.purse.spent()
        stopped = self.gave_up or (self.terms.purse.crossed() if self.bar.counts.get("open") else None)
        settings = {
            **settings,
            "stopped": stopped,
            "resume": RESUME if stopped and keep_folder else None,
            "live_calls": spent.live_calls,
            "tokens": spent.tokens,
            "dollars": spent.dollars,
        }
        self.kept.agree(settings)
        tables = self.kept.settle(settings["names"], self.terms.consensus.error)
        self.bar.end(settings)
        return Batch(
            tables["pairs"],
            tables["experiments"],
            tables["replays"],
            {key: value for key, value in settings.items() if key not in ("afnb", "identity", "names")},
            str(self.kept.path) if keep_folder else None,
            tables["cards"],
        )


def shape(reason: str, pair: BatchPair) -> str:
    """A reason without what is the pair's own, to compare it with another pair's.

    Examples
    --------
    >>> shape("run 17: no such file a/17.json", BatchPair("17", "a/17.json"))
    'run #: no such file #'
    """
    own = [pair.bad, *pair.goods, pair.name, getattr(pair.bad, "id", None)]
    for word in sorted({str(word) for word in own if isinstance(word, str) and word}, key=len, reverse=True):
        reason = reason.replace(word, "#")
    return re.sub(r"#[\w./-]*#|\d+", "#", reason)


def limited(budget: Budget) -> bool:
    """Whether anything limits what may be spent."""
    limits = (budget.live_calls, budget.tokens, budget.dollars, budget.seconds)
    return any(limit is not None for limit in limits)


def settings_of(terms: Terms, pairs: Sequence[BatchPair], n_jobs: int, backend: str) -> dict[str, Any]:
    """What ``batch.json`` says: for people, and under ``identity`` what makes it the same batch."""
    agent = terms.agent
    if agent is None:
        shown, mark = "each pair's own", ""
    elif isinstance(agent, LoggedAgent):
        shown, mark = describe(agent), agent.hash
    else:
        shown, mark = describe(agent), as_agent(agent).fingerprint()
    oracle = terms.oracle
    return {
        "afnb": "batch",
        "schema_version": SCHEMA_VERSION,
        "afnb_version": afnb.__version__,
        "agent": shown,
        "upstream": str(getattr(terms.upstream, "origin", terms.upstream))
        if terms.upstream is not None
        else None,
        "oracle": "converges with the good run" if oracle is None else oracle.describe(),
        "rule": repr(terms.consensus),
        "alpha": terms.consensus.error,
        "budget": terms.purse.budget.describe(),
        "seed": terms.seed,
        "n_jobs": n_jobs,
        "backend": backend,
        "names": [pair.name for pair in pairs],
        "identity": {
            "agent": mark,
            "oracle": None if oracle is None else oracle.fingerprint(),
            "rule": repr(terms.consensus),
            "seed": terms.seed,
            "origin": terms.origin,
            "allow_tools": sorted(terms.allow_tools),
            "params": repr(terms.params),
            "matching": repr(terms.matching),
        },
    }
