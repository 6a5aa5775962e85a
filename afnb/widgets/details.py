"""What an explorer says beside the time line, as parts: the selected step, the evidence, the history."""

from __future__ import annotations

import json
from collections.abc import Sequence

from afnb.align.fields import FieldDiff
from afnb.causal.decision import ArmCounts, Decision
from afnb.core.jsonvalue import MISSING, JsonOrMissing, dumps
from afnb.core.page import Bar, Bars, Code, Facts, Folded, Part, Path, Table, Text, Tone
from afnb.core.page_layout import MAX_CODE
from afnb.core.run import Step
from afnb.experiments.replay import ReplayResult
from afnb.widgets.timeline import Rows, label_of
from afnb.widgets.trials import Trial

SHORT = 110
MAX_FIELDS = 40
PER_PAGE = 10


def words_of(value: JsonOrMissing) -> str:
    """A value as a person reads it: text as it is, everything else as JSON; nothing for what is missing."""
    if value is MISSING:
        return "(absent)"
    return value if isinstance(value, str) else dumps(value)


def laid_out(value: JsonOrMissing) -> str:
    """Like ``words_of``, JSON on several lines; only the beginning of what nobody could read anyway."""
    if value is MISSING or isinstance(value, str):
        return words_of(value)
    text = dumps(value)
    return text if len(text) > MAX_CODE else json.dumps(value, ensure_ascii=False, indent=2)


def row_parts(rows: Rows, row: int) -> tuple[Part, ...]:
    """The selected row: what either step is, which fields differ, and all that was recorded, folded."""
    subject = rows.subject
    if not len(subject):
        return (Text("This run has no steps.", "quiet"),)
    bad, good = rows.steps(row)
    parts: list[Part] = []
    facts = [("bad", _facts(bad)), ("good", _facts(good))] if subject.found else [("step", _facts(bad))]
    parts.append(Facts(tuple((name, text) for name, text in facts if text)))
    if subject.found is not None:
        parts += field_parts([one for one in subject.found.field_diffs if one.move == row])
        if bad is None or good is None:
            parts.append(Text(f"The {'bad' if bad is None else 'good'} run has no step here.", "quiet"))
    for name, step in (("bad", bad), ("good", good)):
        if step is not None:
            parts.append(_recorded(f"{name} run, " if subject.found else "", step))
    return tuple(parts)


def field_parts(found: Sequence[FieldDiff]) -> list[Part]:
    """Fields that differ: short ones in a table, long ones folded behind their path and length."""
    rows: list[tuple[str, ...]] = []
    folded: list[Part] = []
    for one in found[:MAX_FIELDS]:
        bad, good = words_of(one.bad), words_of(one.good)
        if max(len(bad), len(good)) <= SHORT and "\n" not in bad + good:
            rows.append((one.path, bad, good))
            continue
        caption = f"{one.path} differs: {len(bad):,} characters in the bad run, {len(good):,} in the good one"
        start = _around(bad, good)
        codes: list[Part] = [Code(_from(bad, start), "bad"), Code(_from(good, start), "good")]
        folded.append(Folded(caption, tuple(codes)))
    parts: list[Part] = []
    if rows or folded:
        parts.append(
            Table(("field", "bad", "good"), tuple(rows), "what differs") if rows else Text("What differs:")
        )
    if len(found) > MAX_FIELDS:
        parts.append(Text(f"{MAX_FIELDS} of {len(found):,} fields; all are in d.field_diffs", "quiet"))
    return [*parts, *folded]


def _around(bad: str, good: str) -> int:
    """Where two long texts are worth reading from: a little before their first difference."""
    differ = next((i for i, (x, y) in enumerate(zip(bad, good, strict=False)) if x != y), 0)
    return max(0, differ - 200) if differ > MAX_CODE // 2 else 0


def _from(text: str, start: int) -> str:
    return f"… (from character {start:,}) {text[start:]}" if start else text


def _facts(step: Step | None) -> str:
    if step is None:
        return ""
    said = [f"step {step.idx}: {label_of(step)}"] + ([step.kind] if step.kind != step.name else [])
    for name in ("model", "failed_attempts"):
        if step.attrs.get(name):
            said.append(f"{name.replace('_', ' ')} {step.attrs[name]}")
    if step.exchange is not None:
        said.append(f"exchange {step.exchange}")
    if step.seq is not None:
        said.append(f"seq {step.seq}")
    return ", ".join(said)


def _recorded(whose: str, step: Step) -> Folded:
    texts = [(name, laid_out(value)) for name, value in (("inputs", step.inputs), ("outputs", step.outputs))]
    size = sum(len(text) for _, text in texts)
    parts: list[Part] = [Code(text, name) for name, text in texts]
    if any(len(text) > MAX_CODE for _, text in texts):
        parts.append(Text(f"Cut; all of it: run.steps[{step.idx}].outputs", "quiet"))
    return Folded(f"{whose}step {step.idx} as recorded ({size:,} characters)", tuple(parts))


def evidence_parts(decision: Decision, running: bool) -> tuple[Part, ...]:
    """Both arms so far, and the evidence after each block of replays, on its way to the threshold."""
    bars = [_bar("patched", decision.patch, "good"), _bar("control (as recorded)", decision.control, "quiet")]
    caption = "recovered replays of those the rule has used" + (" so far" if running else "")
    parts: list[Part] = [Bars(tuple(bars), caption)]
    threshold = decision.threshold
    if threshold is not None:
        for label, values in (
            ("evidence that it matters", tuple(block.e_recovered for block in decision.blocks)),
            ("evidence that it does not", tuple(block.e_not_recovered for block in decision.blocks)),
        ):
            parts.append(Path(label, values or (1.0,), threshold, "e-value"))
    return tuple(parts)


def _bar(name: str, counts: ArmCounts, tone: Tone) -> Bar:
    low, high = counts.wilson or (None, None)
    return Bar(name, counts.recovered, counts.conclusive, low, high, tone)


def state_words(trial: Trial) -> tuple[str, Tone]:
    """Where a trial stands, in one sentence, and how it is to be taken."""
    arrived = f"{len(trial.results)} replays arrived, {trial.live_calls} live calls made"
    if trial.state == "failed":
        return trial.error, "bad"
    if trial.state == "stopping":
        return f"Stopping: {arrived}. What runs is being finished; press Stop again to end it now.", "warn"
    experiment = trial.experiment
    if experiment is None:
        return (
            f"Running: {arrived}, at most {trial.setup.budget.describe().removeprefix('at most ')}.",
            "plain",
        )
    return experiment.sentence(), "plain"


def replay_parts(results: Sequence[ReplayResult], page: int) -> tuple[Part, ...]:
    """One page of replays, the newest last."""
    if not results:
        return (Text("No replay has arrived yet.", "quiet"),)
    first = page * PER_PAGE
    tones: dict[str, Tone] = {"recovered": "good", "not_recovered": "plain", "inconclusive": "warn"}
    shown = results[first : first + PER_PAGE]
    rows = tuple(
        (
            arm_words(result.role),
            str(result.index),
            result.recovery.replace("_", " "),
            result.reason or "",
            f"{result.report.served} served, {result.report.live} live",
            answer_words(result),
        )
        for result in shown
    )
    columns = ("arm", "replay", "outcome", "lost because", "requests", "answer")
    caption = f"replays {first + 1} to {first + len(shown)} of {len(results)}"
    return (Table(columns, rows, caption, None, tuple(tones[one.recovery] for one in shown)),)


def arm_words(role: str) -> str:
    """The arm of a replay, for people."""
    return {"patch": "patched", "control": "control"}.get(role, role)


def answer_words(result: ReplayResult) -> str:
    """What a replay answered, or how its agent failed."""
    if result.agent_error:
        return result.agent_error
    answer = None if result.run is None else result.run.answer
    return result.detail or "" if answer is None else words_of(answer)


def history_parts(trials: Sequence[Trial]) -> tuple[Part, ...]:
    """One row a trial, the newest first."""
    if not trials:
        return (Text("Nothing was tried yet.", "quiet"),)
    rows = []
    for trial in reversed(trials):
        experiment = trial.experiment
        if experiment is None:
            said, arms = trial.state if not trial.error else f"failed: {trial.error}", ("", "")
        else:
            said = f"{experiment.label}: {experiment.verdict.replace('_', ' ')}"
            said = "Unverified" if experiment.label == "Unverified" else said
            arms = (_of(experiment.patch), _of(experiment.control))
        oracle = trial.setup.oracle.describe()
        rows.append((str(trial.number), trial.setup.intervention.describe(), said, *arms, oracle))
    return (Table(("", "what if", "verdict", "patched", "control", "recovered means"), tuple(rows)),)


def _of(counts: ArmCounts) -> str:
    return f"{counts.recovered} of {counts.conclusive}"
