"""What became of one pair of a batch: its rows and its card, made of the attribution and then kept alone.

An attribution holds the recordings of all its replays. A batch keeps rows and finished words, and of the
replays those that a rule took: which others were begun depends on the number of workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from afnb.align.diff import Diff
from afnb.causal.deeds import deed_at, deed_at_fork, short_name
from afnb.core.jsonvalue import MISSING, JsonOrMissing, dumps
from afnb.core.page import Badge, Code, Facts, Folded, Page, Part, Table, Text, Timeline, Tone
from afnb.core.page_json import page_to_json
from afnb.experiments.attribution import Attribution
from afnb.experiments.pairs import BatchPair
from afnb.experiments.results import Experiment, arms_parts, badge, lost_table

NOT_TESTED = ("no_candidates", "not_comparable", "static")
MAX_FIELDS = 12
SHOWN = 160
TICKS, BEFORE = 24, 3

STATES: dict[str, str] = {
    "repair": "verified repair",
    "no_cause": "verified: no cause among the steps that could be changed",
    "unverified": "Unverified",
    "untested": "not tested",
    "open": "not decided: stopped",
    "error": "could not be run",
}
"""What each state of a pair means, in words."""

TONES: dict[str, Tone] = {"repair": "good", "no_cause": "bad", "error": "warn"}


@dataclass(frozen=True, slots=True)
class PairResult:
    """One pair as plain data: rows of the tables ``pairs``, ``experiments``, ``replays``, and its card."""

    row: Mapping[str, Any]
    experiments: tuple[Mapping[str, Any], ...] = ()
    replays: tuple[Mapping[str, Any], ...] = ()
    card: Mapping[str, Any] | None = None

    @property
    def state(self) -> str:
        """The pair's state (see ``STATES``)."""
        return str(self.row["state"])


def state_of(found: Attribution, stopped: str | None) -> str:
    """The state of an attributed pair; ``stopped`` is why nothing more may be started, if so."""
    if found.label == "verified" and found.verdict == "recovered":
        return "repair"
    if found.label == "verified" and found.verdict == "not_recovered":
        return "no_cause"
    if stopped is not None:
        return "open"
    tested = any(experiment.results for experiment in found.experiments_run)
    return "unverified" if tested or found.kind not in NOT_TESTED else "untested"


def carrier(found: Attribution) -> Experiment | None:
    """The experiment that a pair's verdict rests on, or the one that failed to decide."""
    confirmed = found.confirmations
    undecided = [e for e in confirmed if e.label != "verified" or e.verdict != "recovered"]
    if undecided:
        return undecided[0]
    if confirmed:
        return min(confirmed, key=lambda e: e.decision.e_recovered or 0.0)
    return found.experiments_run[0] if found.experiments_run else None


def e_value(found: Attribution) -> float:
    """Evidence for an effect: the least of the confirmations at their stop; 1 where there is none.

    The batch's e-BH column takes one e-value per run, from fresh replays only.
    """
    confirmed = found.confirmations
    if not confirmed or found.label != "verified" or found.verdict != "recovered":
        return 1.0
    return min(e.decision.e_recovered or 1.0 for e in confirmed)


def finished(
    pair: BatchPair,
    found: Attribution,
    *,
    key: str,
    support: tuple[int, int | None],
    good_path: str | None,
    stopped: str | None,
    tokens: int,
    dollars: float,
    code: str,
) -> PairResult:
    """Rows and card of an attributed pair.

    Parameters
    ----------
    pair, found
        The pair and what the search came to.
    key
        Digest of what the result depends on.
    support
        How many references were compared, and how many of them name the same fork.
    good_path
        The reference that was used.
    stopped
        The crossed limit or interrupt that ended the search, or None.
    tokens, dollars
        What the pair spent.
    code
        How to reproduce it.
    """
    state = state_of(found, stopped)
    weight = carrier(found)
    fork = found.fork_step
    checked = found.fidelity
    row = {
        **blank(pair, key),
        **found.row(),
        "attribution": pair.name,
        "task": pair.task or found.task,
        "state": state,
        "final": state != "open",
        "stage": "replays"
        if any(e.results for e in found.experiments_run)
        else "self_check"
        if checked
        else "diff",
        "good_path": good_path,
        "references": support[0],
        "fork_support": support[1],
        "fork_name": None if fork is None else short_name(found.diff.bad.steps[fork]),
        "fork_deed": deed_at_fork(found.diff),
        "deed": "; ".join(deed_at(found.diff, step) for step in found.origination)
        if state == "repair"
        else None,
        "faithful": all(check.ok for check in checked) if checked else None,
        "e_value": e_value(found),
        "seed": found.seed,
        "warnings": list(found.warnings),
        "tokens_spent": tokens,
        "dollars_spent": dollars,
    }
    if weight is not None:
        for arm, counts in (("patch", weight.patch), ("control", weight.control)):
            row[f"{arm}_recovered"] = counts.recovered
            row[f"{arm}_total"] = counts.conclusive
            row[f"{arm}_lost"] = counts.lost
    named = {id(e): f"{pair.name}: {e.id}" for e in found.experiments_run}
    return PairResult(
        row,
        tuple({**e.row(), "experiment": named[id(e)], "pair": pair.name} for e in found.experiments_run),
        tuple(
            {**replay, "experiment": named[id(e)], "pair": pair.name}
            for e in found.experiments_run
            for replay in e.replay_rows()
            if replay["used"]
        ),
        page_to_json(card(pair, found, row, code)),
    )


def failed(
    pair: BatchPair,
    reason: str,
    *,
    key: str = "",
    stage: str = "load",
    state: str = "error",
    known: Mapping[str, Any] | None = None,
) -> PairResult:
    """Row and card of a pair that was not attributed, with the reason."""
    row = {
        **blank(pair, key),
        **(known or {}),
        "state": state,
        "final": False,
        "stage": stage,
        "kind": state,
        "reason": reason,
    }
    told = Badge(STATES[state], TONES.get(state, "quiet"))
    parts: list[Part] = [Text(reason, "warn" if state == "error" else "plain"), Facts(tuple(origin(pair)))]
    return PairResult(row, card=page_to_json(Page(pair.name, told, tuple(parts))))


def blank(pair: BatchPair, key: str) -> dict[str, Any]:
    """The row of a pair of which nothing is known yet."""
    bad = pair.bad if isinstance(pair.bad, str) else getattr(pair.bad, "id", None)
    return {
        "attribution": pair.name,
        "bad": str(bad or ""),
        "good": None,
        "task": pair.task,
        "verdict": "unverified",
        "label": "Unverified",
        "kind": "error",
        "fork_step": None,
        "steps": 0,
        "origination": [],
        "propagation": [],
        "candidates": [],
        "reason": "",
        "alpha": 0.0,
        "replays_used": 0,
        "live_calls_used": 0,
        "replays_spent": 0,
        "live_calls_spent": 0,
        "wall_s": 0.0,
        "pair": pair.name,
        "key": key,
        "bad_path": pair.bad if isinstance(pair.bad, str) else None,
        "labels": dict(pair.labels),
        "references": len(pair.goods),
        "e_value": 1.0,
        "e_bh": False,
        "warnings": [],
        "tokens_spent": 0,
        "dollars_spent": 0.0,
    }


def card(pair: BatchPair, found: Attribution, row: Mapping[str, Any], code: str) -> Page:
    """The pair's card: what was shown, where the runs part, both arms, the evidence, and how to repeat it."""
    state = str(row["state"])
    told = badge(found.verdict, found.label)
    if state in ("untested", "open"):
        told = Badge(STATES[state], "quiet")
    parts: list[Part] = [Text(found.sentence() if state != "untested" else f"Not tested: {found.reason}.")]
    deed = row["deed"] or row["fork_deed"]
    if deed:
        where = "At the deciding step" if row["deed"] else "Where the two part"
        parts.append(Text(f"{where} the failing run {deed}.", "plain"))
    parts.extend(condensed(timeline) for timeline in found.timeline())
    fields = field_table(found.diff, found.origination)
    if fields is not None:
        parts.append(fields)
    shown = found.confirmations or found.experiments_run[:1]
    for experiment in shown:
        if len(shown) > 1 or experiment.purpose != "confirmation":
            parts.append(Text(f"{experiment.purpose}: {'; '.join(experiment.interventions)}", "quiet"))
        parts.append(Text(experiment.sentence()))
        if experiment.results:
            parts.extend(arms_parts(experiment))
        lost = lost_table(experiment)
        if lost is not None:
            parts.append(lost)
    parts.append(Facts((*origin(pair), *facts(found, row))))
    parts.extend(Text(warning, "warn") for warning in found.warnings)
    if len(found.experiments_run) > 1:
        parts.append(Folded("all experiments", (found.experiment_table(),)))
    parts.append(Folded("repeat it", (Code(code),)))
    return Page(pair.name, told, tuple(parts))


def condensed(part: Timeline) -> Timeline:
    """The stretch of a time line in which something happens; what is left out is said in the caption.

    Examples
    --------
    >>> from afnb.core.page import Lane
    >>> long = Timeline((*[Lane("sync", "0 a", "0 a")] * 50, Lane("fork", "50 b", "50 c")), "two runs")
    >>> len(condensed(long).ticks), condensed(long).caption
    (4, 'two runs; 47 alike moves before this stretch left out')
    """
    if len(part.ticks) <= TICKS:
        return part
    standing = [i for i, tick in enumerate(part.ticks) if tick.kind in ("fork", "patched")]
    differing = [i for i, tick in enumerate(part.ticks) if tick.kind != "sync"]
    first = min(standing or differing or [0])
    start = max(0, min(first - BEFORE, len(part.ticks) - 1))
    stop = min(len(part.ticks), start + TICKS)
    alike = all(tick.kind in ("sync", "near") for tick in part.ticks[:start])
    words = [f"{start} {'alike ' if alike else ''}moves before this stretch left out"] if start else []
    after = len(part.ticks) - stop
    words += [f"{after} after it"] if after else []
    caption = "; ".join(filter(None, (part.caption, " and ".join(words))))
    return replace(part, ticks=part.ticks[start:stop], caption=caption)


def origin(pair: BatchPair) -> list[tuple[str, str]]:
    """Where the pair comes from: files, task, labels."""
    rows = []
    if isinstance(pair.bad, str):
        rows.append(("failing run", pair.bad))
    if pair.task:
        rows.append(("task", pair.task))
    rows += [(name, text) for name, text in pair.labels]
    return rows


def facts(found: Attribution, row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and value pairs; nothing that differs between runs of the same batch."""
    rows = []
    if row["good_path"]:
        rows.append(("good run", str(row["good_path"])))
    if row["references"] > 1:
        support = row["fork_support"]
        agree = "none of them parts" if not support else f"{support} of {row['references']} name this fork"
        rows.append(("references", f"{row['references']}; {agree}"))
    fork = (
        "they do not part"
        if found.fork_step is None
        else f"{found.step_name(found.fork_step)} of {found.steps} steps"
    )
    rows += [
        ("runs part at", fork),
        ("stopped", found.reason),
        ("self-check", "; ".join(check.sentence() for check in found.fidelity) or "not run"),
        ("replays", f"{found.replays_used} used, with {found.live_calls_used} live calls"),
    ]
    if found.experiments_run:
        rows.append(("judged by", found.experiments_run[0].oracle))
    return rows


def field_table(found: Diff, origination: tuple[int, ...]) -> Table | None:
    """What differs at the deciding steps, or at the fork where there are none; None without any."""
    moves = [index for index, move in enumerate(found.moves) if move.bad_step in origination]
    if not moves and found.comparable and found.fork is not None:
        moves = [found.fork.move]
    differing = [d for d in found.field_diffs if d.move in moves]
    if not differing:
        return None
    rows = tuple((d.path, value(d.bad), value(d.good)) for d in differing[:MAX_FIELDS])
    caption = "what differs at the deciding step" if origination else "what differs where they part"
    return Table(("field", "failing run", "good run"), rows, caption, total=len(differing))


def value(found: JsonOrMissing) -> str:
    """A recorded value in a cell."""
    if found is MISSING:
        return "–"
    text = found if isinstance(found, str) else dumps(found)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def renamed(result: PairResult, **changes: Any) -> PairResult:
    """The same with some columns of its row changed."""
    return replace(result, row={**result.row, **changes})
