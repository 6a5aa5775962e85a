"""The planted benchmark in small: every figure that must hold has a reduced, named form here.

Seeds are fixed, so that these never fail by chance; the bounds are those within which any seed would
nearly always lie. The full run is ``python -m benchmarks.planted all``.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.causal.planning import forecast, rates, simulate
from afnb.io.simulated import SimulatedUpstream
from afnb.testing.planted import PlantedModel, answer_text, succeeded

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.planted import measure, page, places, results, run, score, sdk  # noqa: E402
from benchmarks.planted.rules import FixedFisher, fisher_p, fisher_power  # noqa: E402
from benchmarks.planted.scenarios import POLICY, scenarios  # noqa: E402


def attributed(family: str, rule: str = "sequential", every: int = 1) -> list[measure.Row]:
    chosen = [s for s in scenarios() if s.family == family][::every]
    rows = [measure.attribution_row(scenario, 77, rule) for scenario in chosen]
    for row in rows:
        assert row["candidates_as_planted"], row["scenario"]
        row.update(results.asked_first(row))
    return rows


# -- design --------------------------------------------------------------------------------------------


def test_the_design_holds_what_it_has_to() -> None:
    found = scenarios()
    assert len(found) >= 200
    assert len({scenario.name for scenario in found}) == len(found)
    single = [s for s in found if s.family in ("single", "told", "carry")]
    assert {s.place for s in single} == {"early", "middle", "late"}
    assert min(s.plan.clean for s in single) <= 0.3
    assert max(s.plan.clean for s in single) == 1.0
    controls = [s.plan.faulty for s in found]
    assert min(controls) == 0.0
    assert max(controls) >= 0.9
    for name in ("repair", "busy", "flaky", "crash", "hang", "paraphrase", "tools", "told"):
        assert any(getattr(s.plan, name) for s in found), name
    assert {s.plan.shape for s in found} == {"openai.chat", "anthropic.messages"}
    assert {s.plan.wire for s in found} == {"transport", "loopback"}
    pairs = [s for s in found if s.family == "double"]
    assert all(max(effect.effect for effect in s.effects.values()) < s.all_effect.effect / 2 for s in pairs)
    assert {len(s.candidates) for s in found if s.family.startswith("ten-")} == {10}


def test_two_calls_give_the_same_design() -> None:
    plans = [scenario.plan for scenario in scenarios()]
    scenarios.cache_clear()
    assert [scenario.plan for scenario in scenarios()] == plans


# -- the fixed design ----------------------------------------------------------------------------------


def test_fisher_is_sized_for_the_smallest_effect_that_matters() -> None:
    assert fisher_power(0.75, 0.25, 23) >= 0.95 > fisher_power(0.75, 0.25, 22)
    assert fisher_p(3, 0, 3) == pytest.approx(1 / 20)
    assert fisher_p(5, 5, 10) > 0.5


@pytest.mark.parametrize("lost", [0.0, 0.2])
def test_fisher_through_its_machine(lost: float) -> None:
    rule = FixedFisher()
    found = [simulate(rule, rates(0.75, 0.25, lost_before=lost), seed) for seed in range(100)]
    counts = Counter(decision.verdict for decision in found)
    assert counts["recovered"] >= 90
    assert all(d.patch.conclusive == d.control.conclusive == 23 for d in found)
    assert simulate(rule, rates(1.0, 1.0, lost_after=1.0), 0).verdict == "unverified"


def test_fisher_asks_for_both_arms_and_for_what_was_lost() -> None:
    state = FixedFisher(n=2).start()
    assert [(w.arm, w.index) for w in state.wanted(9)] == [
        ("patch", 0), ("control", 0), ("patch", 1), ("control", 1)
    ]  # fmt: skip
    state.feed("patch", 0, "lost_before", "away")
    assert ("patch", 2) in [(w.arm, w.index) for w in state.wanted(9)]
    assert state.stop("budget").verdict == "unverified"


# -- what must hold, in small --------------------------------------------------------------------------


@pytest.mark.parametrize(("patch", "control"), [(1.0, 0.0), (0.8, 0.3), (0.5, 0.5), (0.0, 0.0)])
def test_the_rules_table_through_the_engine(patch: float, control: float) -> None:
    rows = [measure.cell_row(patch, control, seed) for seed in range(40)]
    cell = score.Cell(patch, control, rows, forecast(afnb.SequentialConsensus(), patch, control))
    for verdict in ("recovered", "not_recovered", "unverified"):
        assert abs(cell.z(verdict)) < 4, verdict
    assert abs(cell.mean_z) < 4


def test_what_if_at_nine_tenths_against_one_tenth() -> None:
    rows = [measure.cell_row(0.9, 0.1, seed) for seed in range(40)]
    assert sum(row["verdict"] == "recovered" for row in rows) >= 38
    assert score.median(row["replays"] for row in rows) <= 8


def test_false_verdicts_are_rare_where_nothing_matters_and_at_the_boundary() -> None:
    rows = [*attributed("none", every=3), *attributed("harmful", every=3), *attributed("boundary", every=4)]
    assert score.false_recovered(rows).k <= 1
    assert score.false_not_recovered(rows).k <= 1
    claims = Counter(row["claim"] for row in rows if row["family"] in ("none", "harmful"))
    assert claims["not_recovered"] >= 10


def test_the_majority_rule_names_steps_that_cause_nothing() -> None:
    rows = attributed("none", "majority", every=3)
    assert score.false_recovered(rows).k >= 3
    assert {row["label"] for row in rows} == {"Unverified"}


@pytest.mark.parametrize(("family", "least"), [("ten-single", 4), ("ten-double", 3)])
def test_ten_candidates(family: str, least: int) -> None:
    rows = attributed(family, every=3)
    assert len(rows) == 4
    assert sum(row["exact"] for row in rows) >= least
    assert not any(row["false_recovered"] for row in rows)
    assert score.average(rows, "replays") <= 90


@pytest.mark.parametrize(("chance", "repair"), POLICY)
def test_the_twenty_step_policy(chance: float, repair: float) -> None:
    rows = [measure.policy_row(chance, repair, seed) for seed in range(2)]
    assert all(row["exact"] and row["label"] == "verified" for row in rows)
    assert not any(row["false_recovered"] for row in rows)


def test_locate_finds_one_drop_among_twenty() -> None:
    case = places.Case(20, 0.9, 0.1, "bisect", 6)
    rows = [row for seed in range(case.seeds) for row in places.rows(case, seed)]
    assert sum(row["within_1"] for row in rows) >= 5
    assert not any(row["false_recovered"] for row in rows)


def test_the_same_replays_for_every_rule() -> None:
    scenario = next(s for s in scenarios() if s.name == "none-06")
    seen: dict[tuple[str, int], set[str]] = {}
    for rule in measure.RULES.values():
        bad, good = measure.recordings(scenario.plan, 0)
        options = measure.settings(scenario.plan, scenario.name, 0, rule)
        found = afnb.what_if(bad, afnb.Graft(scenario.plan.step_of(scenario.probes[0])), good=good, **options)
        for result in found.results:
            seen.setdefault((result.role, result.index), set()).add(result.recovery)
    assert len(seen) >= 46
    assert all(len(outcomes) == 1 for outcomes in seen.values())


@pytest.mark.parametrize("name", sdk.AGENTS)
def test_a_planted_agent_on_an_official_sdk(name: str, tmp_path: Path) -> None:
    pytest.importorskip(name)
    agent = sdk.AGENTS[name]
    bad = agent.record(agent.plan.bad_script, tmp_path)
    found = afnb.what_if(
        bad,
        afnb.Edit(2, answer_text(2, "a")),
        agent=agent.agent,
        upstream=SimulatedUpstream(PlantedModel(agent.plan), seed=7),
        oracle=succeeded,
        n_jobs=2,
        progress=False,
    )
    assert (found.verdict, found.label, found.decision.replays) == ("recovered", "verified", 6)


# -- running and reporting -----------------------------------------------------------------------------


def test_a_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def job(key: str) -> run.Job:
        def rows() -> list[measure.Row]:
            if key == "b" and made.count("b") == 0:
                made.append("b")
                raise KeyboardInterrupt
            made.append(key)
            return [{"key": key}]

        return run.Job("cells", key, rows)

    monkeypatch.setattr(run, "jobs", lambda: iter([job("a"), job("b"), job("c")]))
    with pytest.raises(KeyboardInterrupt):
        run.run(tmp_path)
    with (tmp_path / "cells.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"key": "c", "rows": [')  # cut off by a kill
        file.write("\n")
    assert run.run(tmp_path) == 0
    assert made == ["a", "b", "b", "c"]
    assert [line["key"] for line in run.lines(tmp_path, "cells")] == ["a", "b", "c"]
    assert run.run(tmp_path, seconds=0) == 0


def test_rows_of_another_revision_are_refused(tmp_path: Path) -> None:
    line = {"key": "1 0 0", "revision": "another", "rows": []}
    (tmp_path / "cells.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="another"):
        run.run(tmp_path, parts=("cells",), seconds=-1)


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    return page.tables()


def test_the_page_is_what_its_script_writes(kept: dict[str, Any]) -> None:
    assert page.DOCUMENT.read_text(encoding="utf-8") == page.render(kept, results.about())


def test_the_kept_results_hold_the_bounds_on_false_verdicts(kept: dict[str, Any]) -> None:
    rows = [row for row in kept["attributions"] if row["rule"] == "sequential"]
    assert [claim.holds for claim in score.error_claims(rows)] == [True, True]
    assert [claim.holds for claim in score.rule_claims(score.cells(kept["cells"]))] == [True, True, True]


def test_the_kept_results_hold_whatever_must_hold(kept: dict[str, Any]) -> None:
    assert [claim.wanted for claim in score.must_hold(kept) if not claim.holds] == []


def test_tables_are_made_of_the_rows_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def job(part: str, key: str, row: measure.Row) -> run.Job:
        return run.Job(part, key, lambda: [row])

    policy = {"verb": "attribute", "planted": [[12]], "label": "verified"}
    made = [
        job("cells", "a", {"patch": 1.0, "control": 0.0, "replays": 6}),
        job("policy", "b", policy),
        job("policy", "c", {**policy, "verb": "locate", "planted": 12}),
    ]
    monkeypatch.setattr(run, "jobs", lambda: iter(made))
    assert run.run(tmp_path / "rows") == 0
    text = (tmp_path / "rows" / "cells.jsonl").read_text(encoding="utf-8")
    (tmp_path / "rows" / "cells.jsonl").write_text(text + text, encoding="utf-8")
    results.collect(tmp_path / "rows", tmp_path / "kept")
    assert results.read("cells", tmp_path / "kept") == [{"patch": 1.0, "control": 0.0, "replays": 6}]
    assert [row["planted"] for row in results.read("policy", tmp_path / "kept")] == [[[12]], [[12]]]
    assert results.about(tmp_path / "kept")["rows"]["cells"] == 1


def test_the_kept_truth_is_that_of_the_design(kept: dict[str, Any]) -> None:
    plans, truths = results.designed()
    assert [row["plan"] for row in kept["scenarios"]] == [row["plan"] for row in plans]
    assert [row["effect"] for row in kept["truth"]] == pytest.approx([row["effect"] for row in truths])
