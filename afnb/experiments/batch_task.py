"""What a batch does with one pair: screen it at no cost, then attribute it. Plain data comes back.

Both run in any worker: a thread, a process, another machine that sees the batch's folder. Neither
raises: whatever happens to a pair is a row with its reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from afnb.align.diff import Diff, diff
from afnb.align.params import AlignParams
from afnb.align.references import ModalFork
from afnb.causal.decision import Rule
from afnb.causal.oracles import as_oracle
from afnb.core.cassette import Cassette
from afnb.core.matching import Matching
from afnb.errors import AfnbError, AgentError, InputError
from afnb.experiments.agents import Agent, Command, as_agent
from afnb.experiments.attribute import attribute, without_replays
from afnb.experiments.batch_folder import BatchFolder, digest_of
from afnb.experiments.budget import Budget
from afnb.experiments.pair_row import PairResult, failed, finished
from afnb.experiments.pairs import BatchPair
from afnb.experiments.purse import PairMeter, Purse
from afnb.experiments.recordings import Recording, as_recording, recording_hash
from afnb.experiments.remote import ending
from afnb.experiments.replay import ReplayResult, derive_seed
from afnb.experiments.search import first_arm, graftable
from afnb.io.logged import LoggedAgent

PUT_ASIDE = "put aside until the clear cases are decided"
REPLAYS = "replays"


@dataclass(frozen=True, slots=True)
class Terms:
    """What all pairs of a batch share; it can be sent to any worker."""

    agent: Any
    upstream: Any
    oracle: Any
    consensus: Rule
    origin: bool
    allow_tools: tuple[str, ...]
    seed: int
    params: AlignParams | None
    matching: Matching | None
    folder: str
    purse: Purse
    pair_budget: Budget | None


class About(NamedTuple):
    """How many references were compared, and how many of them name the fork that most name."""

    references: int
    support: int | None


NONE = About(0, None)


@dataclass(frozen=True, slots=True)
class Screened:
    """What a pair looks like before anything is spent on it.

    Attributes
    ----------
    result
        What became of it, if it ends here.
    cost
        Live calls of one replay, as far as the recording tells.
    chosen, about
        Number of the reference to use, and how many references there are and agree.
    """

    number: int
    name: str
    key: str
    result: PairResult | None
    cost: int = 0
    chosen: int = 0
    about: About = NONE


def agent_for(pair: BatchPair, terms: Terms) -> Any:
    """The agent of one pair: its own, or the batch's with ``{name}``, ``{task}``, ``{label}`` filled in.

    Examples
    --------
    >>> fill(["agent.py", "--task", "{task}", "{other}"], {"task": "refund 7"})
    ('agent.py', '--task', 'refund 7', '{other}')
    """
    agent = terms.agent if pair.agent is None else pair.agent
    if isinstance(agent, (list, tuple)):
        agent = as_agent(agent)
    if isinstance(agent, Command):
        words = pair.words()
        env = (
            None if agent.env is None else dict(zip(agent.env, fill(agent.env.values(), words), strict=True))
        )
        return replace(agent, argv=fill(map(str, agent.argv), words), env=env)
    return agent


def fill(texts: Iterable[str], words: Mapping[str, str]) -> tuple[str, ...]:
    """The texts with each ``{word}`` replaced; braces around anything else stay."""
    out = []
    for text in texts:
        for word, value in words.items():
            text = text.replace("{" + word + "}", value)
        out.append(text)
    return tuple(out)


def screen(terms: Terms, number: int, pair: BatchPair) -> Screened:
    """Load a pair and compare it; nothing is re-run and nothing spent."""
    try:
        return _screen(terms, number, pair)
    except AfnbError as error:
        return Screened(number, pair.name, "", failed(pair, str(error)))
    except Exception as error:  # noqa: BLE001 - one bad pair is one row, whatever it did
        return Screened(number, pair.name, "", failed(pair, f"{type(error).__name__}: {error}"))


def _screen(terms: Terms, number: int, pair: BatchPair) -> Screened:
    bad, goods, notes = recordings_of(pair)
    key = key_of(terms, pair, bad, [good for _, good in goods])
    votes = [diff(bad, good, terms.params or AlignParams()) for _, good in goods]
    chosen, modal = choose(votes)
    found, good = votes[chosen], goods[chosen][1]
    pairs, _ = graftable(bad, good, found)
    arm = first_arm(bad, good, found, pairs)
    about = About(len(goods), modal.support if modal.step is not None else None)
    if arm is None:
        ended = without_replays(bad, good, found, Budget(None), seed_of(terms, bad), time.monotonic())
        ended = replace(ended, warnings=tuple(notes), alpha=terms.consensus.error or 1.0)
        result = _rows(terms, pair, ended, key, about, goods[chosen][0], None, None)
        return Screened(number, pair.name, key, result, 0, goods[chosen][0], about)
    return Screened(number, pair.name, key, None, live_calls_after(bad, arm), goods[chosen][0], about)


def choose(votes: list[Diff]) -> tuple[int, ModalFork]:
    """Which of several comparisons to go on with: the first that names the fork which most of them name.

    Examples
    --------
    >>> from afnb.core.run import Run, Step
    >>> def run(*texts):
    ...     return Run("r", tuple(Step(i, "llm", "act", outputs=text) for i, text in enumerate(texts)))
    >>> bad = run("plan", "guess wildly", "wrong")
    >>> goods = [run("list", "guess wildly", "wrong"), run("plan", "ask", "right"), run("plan", "look")]
    >>> choose([diff(bad, good) for good in goods])[0]
    1
    """
    modal = ModalFork(tuple(vote.fork_step_observed for vote in votes), tuple(votes))
    usable = [i for i, vote in enumerate(votes) if vote.comparable]
    named = [i for i in usable if modal.step is not None and votes[i].fork_step_observed == modal.step]
    return (named or usable or [0])[0], modal


def recordings_of(pair: BatchPair) -> tuple[Recording, list[tuple[int, Recording]], list[str]]:
    """The failing run and the numbered references that can be read, and a note on those that cannot.

    Raises
    ------
    InputError
        There is no failing run or no good one, or the failing one or every good one cannot be read.
    """
    if pair.bad is None:
        raise InputError("no failing run is named (column 'bad')")
    if not pair.goods:
        raise InputError("no good run is named or found to compare it with")
    bad = as_recording(pair.bad, "bad")
    goods: list[tuple[int, Recording]] = []
    faults: list[AfnbError] = []
    for number, good in enumerate(pair.goods):
        try:
            goods.append((number, as_recording(good, "good")))
        except AfnbError as error:
            faults.append(error)
    if not goods:
        raise faults[0]
    return bad, goods, [f"one reference is left out: {fault}" for fault in faults]


def key_of(terms: Terms, pair: BatchPair, bad: Recording, goods: list[Recording]) -> str:
    """Digest of what a pair's result depends on beside the batch's own settings."""
    agent = agent_for(pair, terms)
    marks = agent.hash if isinstance(agent, LoggedAgent) else as_agent(agent).fingerprint()
    judge = "" if pair.oracle is None else as_oracle(pair.oracle).fingerprint()
    return digest_of([pair.name, recording_hash(bad), *map(recording_hash, goods), marks, judge])


def seed_of(terms: Terms, bad: Recording) -> int:
    """The seed of a pair's replays: its own, and the same wherever the pair stands in the batch."""
    return derive_seed(terms.seed, "pair", recording_hash(bad))


def live_calls_after(bad: Recording, arm: Any) -> int:
    """How many live calls one replay makes, if it goes on as long as the recording did."""
    if isinstance(bad, Cassette):
        return max(1, len(bad.exchanges) - 1 - int(arm.patch.serve_through))
    return max(1, len(bad.envelopes) // 4)


def work(
    terms: Terms,
    pair: BatchPair,
    screened: Screened,
    workers: Callable[[], int],
    patience: int | None,
) -> PairResult:
    """Attribute one pair, keep the result in the batch's folder, and hand it back.

    Parameters
    ----------
    workers
        How many replays may run at a time, asked before each round.
    patience
        Put the pair aside once one experiment took so many replays without deciding; None for as many as
        the rule allows.
    """
    meter = PairMeter(terms.purse, terms.pair_budget)
    counts: dict[str, int] = {}

    def watch(_result: ReplayResult, title: str) -> None:
        counts[title] = counts.get(title, 0) + 1
        if patience is not None and counts[title] >= patience:
            meter.stop(PUT_ASIDE)

    started = time.monotonic()
    try:
        with ending(terms.purse, meter.ended):
            result = _work(terms, pair, screened, workers, meter, watch)
    except AfnbError as error:
        stage = "self_check" if isinstance(error, AgentError) else "load"
        result = failed(pair, str(error), key=screened.key, stage=stage, known=_spent(meter, started))
    except Exception as error:  # noqa: BLE001 - one bad pair is one row, whatever it did
        reason = f"{type(error).__name__}: {error}"
        result = failed(pair, reason, key=screened.key, stage="replays", known=_spent(meter, started))
    return result


def _work(
    terms: Terms,
    pair: BatchPair,
    screened: Screened,
    workers: Callable[[], int],
    meter: PairMeter,
    watch: Callable[[ReplayResult, str], None],
) -> PairResult:
    bad = as_recording(pair.bad, "bad")
    good = as_recording(pair.goods[screened.chosen], "good")
    found = attribute(
        bad,
        good,
        agent=agent_for(pair, terms),
        upstream=terms.upstream if pair.upstream is None else pair.upstream,
        oracle=terms.oracle if pair.oracle is None else pair.oracle,
        consensus=terms.consensus,
        origin=terms.origin,
        n_jobs=workers,
        budget=meter,
        allow_tools=terms.allow_tools,
        seed=seed_of(terms, bad),
        progress=False,
        params=terms.params,
        matching=terms.matching,
        ledger=Path(terms.folder) / REPLAYS,
        on_replay=watch,
    )
    stopped = meter.crossed() if found.verdict == "unverified" else None
    if stopped == PUT_ASIDE:
        found = replace(found, reason=PUT_ASIDE)
    return _rows(terms, pair, found, screened.key, screened.about, screened.chosen, stopped, meter)


def _rows(
    terms: Terms,
    pair: BatchPair,
    found: Any,
    key: str,
    about: About,
    chosen: int,
    stopped: str | None,
    meter: PairMeter | None,
) -> PairResult:
    good = pair.goods[chosen]
    return finished(
        pair,
        found,
        key=key,
        support=about,
        good_path=good if isinstance(good, str) else None,
        stopped=stopped,
        tokens=0 if meter is None else meter.tokens,
        dollars=0.0 if meter is None else meter.dollars,
        code=code_of(terms, pair, good, found.seed),
    )


def code_of(terms: Terms, pair: BatchPair, good: Any, seed: int) -> str:
    """Lines of Python that run the pair again by itself."""

    def path(value: Any) -> str:
        return (
            f"afnb.load({value!r})"
            if isinstance(value, str)
            else f"...  # {getattr(value, 'id', 'in memory')}"
        )

    agent = agent_for(pair, terms)
    if isinstance(agent, Command):
        shown = agent.describe().removeprefix("command: ")
        made = f"afnb.Command([...], base_url_env={agent.base_url_env!r})  # {shown}"
    else:
        made = f"...  # {describe(agent)}"
    oracle = terms.oracle if pair.oracle is None else pair.oracle
    judged = "" if oracle is None else f"oracle=...,  # {as_oracle(oracle).describe()}\n    "
    tools = f"allow_tools={list(terms.allow_tools)!r}, " if terms.allow_tools else ""
    return (
        f"bad = {path(pair.bad)}\ngood = {path(good)}\nagent = {made}\n"
        f"afnb.attribute(\n    bad, good, agent=agent, upstream=...,  # {origin_of(terms, pair)}\n    "
        f"{judged}{tools}seed={seed},\n    consensus=afnb.{terms.consensus!r},\n)"
    )


def describe(agent: Any) -> str:
    """An agent in one line."""
    if isinstance(agent, LoggedAgent):
        return f"logged agent: {getattr(agent.function, '__name__', 'function')}"
    made = agent if isinstance(agent, Agent) else as_agent(agent)
    return made.describe()


def origin_of(terms: Terms, pair: BatchPair) -> str:
    """Who answers live, in one line."""
    upstream = terms.upstream if pair.upstream is None else pair.upstream
    return str(getattr(upstream, "origin", upstream)) if upstream is not None else "the agent's own model"


def _spent(meter: PairMeter, started: float) -> dict[str, Any]:
    return {
        "live_calls_spent": meter.live_calls,
        "tokens_spent": meter.tokens,
        "dollars_spent": meter.dollars,
        "wall_s": time.monotonic() - started,
    }


def keep(terms: Terms, result: PairResult) -> None:
    """Write a result into the batch's folder.

    Raises
    ------
    InputError
        It cannot be written.
    """
    try:
        BatchFolder(terms.folder).write(result)
    except OSError as error:
        raise InputError(
            f"a result cannot be written: {error.strerror or error}; what was finished is kept, make room "
            "and run the same again to go on",
            path=terms.folder,
        ) from None
