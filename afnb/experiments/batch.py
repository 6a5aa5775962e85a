"""``attribute_many``: attribution over many failing runs, unattended.

::

    pairs ─ screen: load, diff ─ cheapest first: self-check, replays ─ undecided ones again ─ Batch
               │                    │                                     │
               unreadable,          clear cases, few replays each         with all the replays
               no fork: a row                                             that the rule allows

Nothing is lost: each finished pair is a file of its own in the batch's folder, each finished replay a
line of its ledger. The same call goes on where a killed one stopped.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from afnb.align.params import AlignParams
from afnb.causal.consensus import SequentialConsensus
from afnb.causal.decision import Rule
from afnb.causal.oracles import as_oracle
from afnb.core.matching import Matching
from afnb.errors import ParameterError
from afnb.experiments.batch_folder import BatchFolder
from afnb.experiments.batch_progress import BatchProgress
from afnb.experiments.batch_result import Batch
from afnb.experiments.batch_run import BatchRun
from afnb.experiments.batch_task import Terms
from afnb.experiments.budget import Budget
from afnb.experiments.pacing import under_one_limit
from afnb.experiments.pair_row import PairResult
from afnb.experiments.pairs import as_pairs
from afnb.experiments.pool import check_backend, check_jobs
from afnb.experiments.purse import Purse
from afnb.io.upstream import as_upstream

CALLS_PER_PAIR = 200


def attribute_many(
    pairs: Any,
    *,
    agent: Any,
    upstream: Any = None,
    oracle: Any = None,
    consensus: Rule | None = None,
    origin: bool = False,
    ledger: Any = None,
    n_jobs: int = 4,
    budget: Budget | None = None,
    pair_budget: Budget | None = None,
    allow_tools: Iterable[str] = (),
    seed: int = 0,
    backend: str = "threading",
    progress: bool | None = None,
    params: AlignParams | None = None,
    matching: Matching | None = None,
    on_pair: Callable[[str, PairResult], None] | None = None,
) -> Batch:
    """Attribute many failing runs under one budget and one error rate; one bad pair is one row.

    All pairs are loaded and compared first, which costs nothing. Those that can be re-run are then
    self-checked and attributed, the cheapest first; a pair that does not decide soon is put aside until
    the clear ones are done, and gone on with then, no replay being repeated. Workers take a pair each;
    only when fewer pairs than workers are left do they share one pair's replays.

    Parameters
    ----------
    pairs
        A folder (``<name>/bad.json`` beside ``<name>/good*.json``), a manifest (JSON, JSON lines, CSV,
        Parquet), a pandas or Arrow table, or a list of ``(bad, good)``. Columns: ``bad``, ``good`` (one or
        several), ``name``, ``task``; all others are labels.
    agent, upstream, oracle
        As in ``attribute``. In a ``Command``, ``{name}``, ``{task}`` and ``{label}`` stand for the pair's
        own. A pair may have an ``agent``, ``oracle`` or ``upstream`` of its own.
    consensus
        Rule of every pair; its alpha bounds the error of each pair's verdict.
    origin
        As in ``attribute``.
    ledger
        A folder that keeps everything: run the same again to go on after a kill, or to add pairs. None
        keeps nothing.
    n_jobs
        Replays at a time over all pairs; -1 for one per core.
    budget
        One for the whole batch, counted from its beginning, also over restarts (seconds: of this call).
        200 live calls for each pair unless another is given; printed before anything is spent.
    pair_budget
        A limit for each pair besides.
    allow_tools, seed, params, matching
        As in ``attribute``. Each pair's seed depends on ``seed`` and on its recording alone.
    backend
        ``threading``, ``loky`` (processes), ``dask`` or ``ray``; the result does not depend on it.
    progress
        As in ``attribute``.
    on_pair
        Called in this thread with each pair's name and result.

    Returns
    -------
    Batch
        One row a pair, with its reason if there is no verdict; all experiments and replays; cards and a
        report. Interrupted, it holds what was finished and says how to go on.

    Raises
    ------
    ParameterError
        An argument is out of range, or the folder holds a batch of something else.
    InputError
        The manifest cannot be read, or the folder cannot be written to.

    Examples
    --------
    >>> from afnb.experiments.demo import bundled
    >>> refund = bundled("refund")
    >>> batch = attribute_many(
    ...     [(refund.bad, refund.good), ("missing.json", refund.good)], agent=refund.agent,
    ...     upstream=refund.upstream(), oracle=refund.oracle, allow_tools=refund.tools, progress=False,
    ... )
    >>> [(row["pair"], row["state"]) for row in batch.rows()]
    [('refund-bad', 'repair'), ('missing', 'error')]
    """
    given = as_pairs(pairs)
    check_backend(backend)
    jobs = check_jobs(n_jobs)
    rule = consensus or SequentialConsensus()
    if isinstance(allow_tools, str):
        raise ParameterError(
            f"allow_tools={allow_tools!r}: give a list of tool names, e.g. [{allow_tools!r}]"
        )
    with _home(ledger) as kept:
        limits = budget or Budget(live_calls=CALLS_PER_PAIR * max(1, len(given)))
        purse = Purse(kept.path / "purse", limits)
        terms = Terms(
            agent=agent,
            upstream=None if upstream is None else under_one_limit(as_upstream(upstream)),
            oracle=None if oracle is None else as_oracle(oracle),
            consensus=rule,
            origin=origin,
            allow_tools=tuple(allow_tools),
            seed=seed,
            params=params,
            matching=matching,
            folder=str(kept.path.absolute()),
            purse=purse,
            pair_budget=pair_budget,
        )
        batch_run = BatchRun(terms, kept, given, jobs, backend, BatchProgress(purse, progress), on_pair)
        try:
            return batch_run.run(keep_folder=ledger is not None)
        finally:
            batch_run.bar.close()
            purse.close()


@contextmanager
def _home(ledger: Any) -> Iterator[BatchFolder]:
    """The batch's folder, held; a temporary one that goes again where none is asked for."""
    made = tempfile.mkdtemp(prefix="afnb-batch-") if ledger is None else None
    kept = BatchFolder(Path(ledger if made is None else made))
    try:
        kept.hold()
        yield kept
    finally:
        kept.release()
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
