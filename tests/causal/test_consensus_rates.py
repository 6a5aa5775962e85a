"""Error rates and costs of the rules, against the published table and by simulation with fixed seeds."""

from __future__ import annotations

import math
import random

import pytest

from afnb.causal.consensus import MajorityConsensus, SequentialConsensus
from afnb.causal.planning import forecast, rates, simulate, tally
from afnb.errors import ParameterError

RULE = SequentialConsensus()

# rates -> recovered, not_recovered, unverified, mean, median of 20,000 simulations
TABLE = {
    (1.0, 0.0): (1.000, 0, 0, 6.0, 6),
    (0.9, 0.1): (0.999, 0.000, 0.000, 9.7, 6),
    (0.8, 0.1): (0.993, 0.002, 0.006, 12.8, 10),
    (0.8, 0.3): (0.794, 0.023, 0.183, 22.2, 20),
    (0.6, 0.1): (0.829, 0.024, 0.147, 21.6, 20),
    (0.4, 0.1): (0.335, 0.172, 0.493, 29.4, 39),
    (0.0, 0.0): (0, 1.000, 0, 5.0, 5),
    (0.1, 0.1): (0.002, 0.934, 0.064, 13.2, 5),
    (0.3, 0.3): (0.021, 0.796, 0.183, 21.4, 20),
    (0.5, 0.5): (0.033, 0.764, 0.203, 23.2, 22),
    (0.9, 0.9): (0.001, 0.921, 0.079, 16.7, 10),
    (1.0, 1.0): (0, 1.000, 0, 10.0, 10),
}


def noise(share: float, n: int, sigmas: float = 4.0) -> float:
    """Monte Carlo error of a share, with a floor for shares near 0 and 1."""
    return sigmas * math.sqrt(max(share * (1 - share), 1 / n) / n)


@pytest.mark.parametrize("pair", TABLE)
def test_the_exact_forecast_reproduces_the_published_table(pair):
    recovered, not_recovered, unverified, mean, median = TABLE[pair]
    f = forecast(RULE, *pair)
    assert f.recovered + f.not_recovered + f.unverified == pytest.approx(1.0)
    assert sum(f.replays) == pytest.approx(1.0)
    for exact, printed in (
        (f.recovered, recovered),
        (f.not_recovered, not_recovered),
        (f.unverified, unverified),
    ):
        assert printed == pytest.approx(exact, abs=noise(exact, 20_000) + 0.0005)
    assert f.mean == pytest.approx(mean, abs=0.4)
    # the printed median is that of a sample: half of the experiments end by it, within the noise
    assert sum(f.replays[: median + 1]) >= 0.5 - noise(0.5, 20_000)
    assert sum(f.replays[:median]) <= 0.5 + noise(0.5, 20_000)


@pytest.mark.parametrize("pair", TABLE)
def test_the_machine_agrees_with_the_forecast(pair):
    n, f = 300, forecast(RULE, *pair)
    found = tally([simulate(RULE, rates(*pair), seed) for seed in range(n)])
    assert found.recovered == pytest.approx(f.recovered, abs=noise(f.recovered, n))
    assert found.not_recovered == pytest.approx(f.not_recovered, abs=noise(f.not_recovered, n))
    deviation = math.sqrt(sum(share * (k - f.mean) ** 2 for k, share in enumerate(f.replays)) / n)
    assert found.mean == pytest.approx(f.mean, abs=4 * deviation + 1e-9)


@pytest.mark.soak
@pytest.mark.parametrize("pair", TABLE)
def test_the_published_table_in_full(pair):
    recovered, not_recovered, unverified, mean, median = TABLE[pair]
    found = tally([simulate(RULE, rates(*pair), seed) for seed in range(20_000)])
    assert found.recovered == pytest.approx(recovered, abs=noise(recovered, 10_000) + 0.0005)
    assert found.not_recovered == pytest.approx(not_recovered, abs=noise(not_recovered, 10_000) + 0.0005)
    assert found.unverified == pytest.approx(unverified, abs=noise(unverified, 10_000) + 0.0005)
    assert found.mean == pytest.approx(mean, abs=0.5)
    assert abs(found.median - median) <= 2


@pytest.mark.parametrize("alpha", [0.05, 0.1])
def test_false_verdicts_stay_below_alpha(alpha):
    rule = SequentialConsensus(alpha=alpha)
    grid = [k / 5 for k in range(6)]
    assert max(forecast(rule, p, p).recovered for p in grid) <= alpha
    assert (
        max(forecast(rule, min(1.0, p + 0.5), p).not_recovered for p in (0.0, 0.1, 0.25, 0.4, 0.5)) <= alpha
    )


@pytest.mark.soak
def test_worst_false_verdicts_are_the_published_ones():
    grid = [k / 20 for k in range(21)]
    assert max(forecast(RULE, p, p).recovered for p in grid) == pytest.approx(0.033, abs=0.001)
    refuted = [forecast(RULE, p + 0.5, p).not_recovered for p in grid if p <= 0.5]
    assert max(refuted) == pytest.approx(0.035, abs=0.002)


def test_an_agent_that_recovers_by_itself():
    """500 experiments on a step that changes nothing, with an agent that recovers 60 % of the time."""
    alike = rates(0.6, 0.6)
    false = sum(simulate(RULE, alike, seed).verdict == "recovered" for seed in range(500))
    assert false <= 25
    fooled = sum(simulate(MajorityConsensus(), alike, seed).verdict == "recovered" for seed in range(500))
    assert fooled > 250


def test_a_clean_cause_takes_a_median_of_six():
    used = sorted(simulate(RULE, rates(0.9, 0.1), seed).replays for seed in range(300))
    assert used[150] <= 6
    assert (
        sum(simulate(RULE, rates(0.9, 0.1), seed).verdict == "recovered" for seed in range(300)) >= 0.98 * 300
    )


# -- lost replays ------------------------------------------------------------------------------------


def share_recovered(draw, n, rule=RULE):
    return sum(simulate(rule, draw, seed).verdict == "recovered" for seed in range(n)) / n


def test_losses_before_the_branch_cost_little_power():
    found = share_recovered(rates(0.9, 0.1, lost_before=0.3), 400)
    assert found == pytest.approx(0.98, abs=noise(0.98, 400))
    assert share_recovered(rates(0.5, 0.5, lost_before=0.3), 300) <= 0.05 + noise(0.03, 300, 2)


def test_losses_after_the_branch_cost_much_power_and_no_truth():
    found = share_recovered(rates(0.9, 0.1, lost_after=0.3), 400)
    assert found == pytest.approx(0.27, abs=noise(0.27, 400))
    assert share_recovered(rates(0.5, 0.5, lost_after=0.3), 300) <= 0.02


def mechanism(p, arm_lost, kind_lost, share):
    """Outcomes at equal rates, some of which are lost after the branch because of what they are."""

    def draw(generator: random.Random, arm, _index):
        recovered, luck = generator.random() < p, generator.random()
        if arm in arm_lost and recovered == kind_lost and luck < share:
            return "lost_after", "timeout"
        return ("recovered" if recovered else "not_recovered"), ""

    return draw


@pytest.mark.parametrize(
    ("arms", "lost", "share"),
    [
        (("patch",), False, 0.8),  # failing patch runs hang
        (("control",), True, 0.8),  # recovered control runs are lost
        (("patch", "control"), False, 0.5),  # failing runs hang in both arms
    ],
)
@pytest.mark.parametrize("p", [0.3, 0.5, 0.8])
def test_no_mechanism_of_loss_makes_a_false_cause(arms, lost, share, p):
    assert share_recovered(mechanism(p, arms, lost, share), 200) <= 0.05 + noise(0.035, 200, 2)


def test_losses_never_make_a_false_refutation():
    """Effect 0.5, and every recovered patch run is lost with probability 0.6."""

    def draw(generator: random.Random, arm, _index):
        recovered, luck = generator.random() < (0.75 if arm == "patch" else 0.25), generator.random()
        if arm == "patch" and recovered and luck < 0.6:
            return "lost_after", "timeout"
        return ("recovered" if recovered else "not_recovered"), ""

    found = sum(simulate(RULE, draw, seed).verdict == "not_recovered" for seed in range(300)) / 300
    assert found <= 0.05


def test_a_drifting_rate_is_no_evidence():
    """Both arms drift together from 0.9 to 0.1 over the experiment."""

    def draw(generator: random.Random, arm, index):
        return ("recovered" if generator.random() < max(0.1, 0.9 - 0.05 * index) else "not_recovered"), ""

    assert share_recovered(draw, 300) <= 0.05 + noise(0.03, 300, 2)


# -- the forecast's own face -------------------------------------------------------------------------


def test_forecast_quantiles():
    f = forecast(RULE, 0.9, 0.1)
    assert f.median == f.quantile(0.5) == 6
    assert f.quantile(0.9) <= f.most <= 40
    assert forecast(RULE, 1.0, 0.0).most == 6
    assert forecast(RULE, 0.0, 0.0).most == 5
    with pytest.raises(ParameterError, match="control_rate=2"):
        forecast(RULE, 0.5, 2)
