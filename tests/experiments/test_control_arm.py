"""The control arm is real: whole experiments through agent, session, tape and simulated provider."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import afnb

sys.path.insert(0, str(Path(__file__).parent))
from planted import experiment, recording


def test_an_agent_that_recovers_by_itself_is_rarely_called_recovered() -> None:
    bad = recording()
    verdicts = [experiment(0.6, 0.6, seed, recording=bad).verdict for seed in range(500)]
    assert verdicts.count("recovered") <= 25  # 5 % of 500
    assert verdicts.count("not_recovered") > 250


def test_the_majority_rule_calls_it_recovered_most_of_the_time() -> None:
    bad, rule = recording(), afnb.MajorityConsensus(3)
    found = [experiment(0.6, 0.6, seed, recording=bad, consensus=rule) for seed in range(100)]
    assert sum(e.verdict == "recovered" for e in found) > 50
    assert {e.label for e in found} == {"Unverified"}  # no control arm: never verified


def test_a_clean_cause_takes_a_median_of_six_replays() -> None:
    bad = recording()
    found = [experiment(1.0, 0.0, seed, recording=bad) for seed in range(20)]
    assert {(e.verdict, e.label) for e in found} == {("recovered", "verified")}
    assert statistics.median(e.decision.replays for e in found) <= 6
    noisy = [experiment(0.9, 0.1, seed, recording=bad) for seed in range(100)]
    assert sum(e.verdict == "recovered" for e in noisy) >= 95


def test_patch_and_control_differ_in_the_changed_step_alone() -> None:
    e = experiment(0.9, 0.1)
    firsts = {"patch": set(), "control": set()}
    for result in e.results:
        first = result.recording.exchanges[0]
        assert result.report.served == 1
        assert result.report.live == 1
        firsts[result.role].add((first.request.body, first.response.body))
    assert len(firsts["patch"]) == len(firsts["control"]) == 1
    (patched,), (kept,) = firsts["patch"], firsts["control"]
    assert patched[0] == kept[0]
    assert kept[1] == recording().exchanges[0].response.body != patched[1]
    seeds = [result.seed for result in e.results]
    assert len(set(seeds)) == len(seeds)
