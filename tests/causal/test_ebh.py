from __future__ import annotations

import random

import pytest

from afnb.causal.ebh import e_bh
from afnb.errors import ParameterError


def test_the_largest_k_decides():
    assert e_bh([70.0, 30.0, 1.0, 0.0], 0.05) == ()
    assert e_bh([80.0, 30.0, 1.0, 0.0], 0.05) == (0,)
    assert e_bh([41.0, 1.0, 40.0, 0.0], 0.05) == (0, 2)  # neither passes alone
    assert e_bh([20.0] * 3, 0.05) == (0, 1, 2)
    assert e_bh([], 0.05) == ()


def test_false_discoveries_stay_below_alpha():
    """Independent null e-values worth 0 or 1/p: the share of batches with any report is at most alpha."""
    rng, wrong = random.Random(5), 0
    for _ in range(400):
        batch = [50.0 if rng.random() < 0.02 else 0.0 for _ in range(10)]
        wrong += bool(e_bh(batch, 0.2))
    assert wrong / 400 <= 0.2 + 0.03


def test_arguments_are_checked():
    with pytest.raises(ParameterError, match="alpha"):
        e_bh([1.0], 0.0)
    with pytest.raises(ParameterError, match="e-value 1"):
        e_bh([1.0, float("nan")])
