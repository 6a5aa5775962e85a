from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afnb.align.fork import find_fork, observed_step
from afnb.align.moves import Move
from afnb.align.params import AlignParams

from .parity import fork_json, move_of, params_of


def test_fork_vectors(vectors: Callable[[str], list[dict[str, Any]]]) -> None:
    wrong = []
    for vector in vectors("fork"):
        found = find_fork([move_of(move) for move in vector["moves"]], params_of(vector["params"])[0])
        if fork_json(found) != vector["expect"]["fork"]:
            wrong.append((vector, found))
    assert wrong == []


def test_cost_equal_to_tau_is_in_sync() -> None:
    assert find_fork([Move.sync(0, 0, 0.3)], AlignParams()) is None
    assert find_fork([Move.sync(0, 0, 0.30000000000000004)], AlignParams()) is not None


def test_confidence_is_cut_to_the_unit_interval() -> None:
    assert find_fork([Move.log(0, 0.6, 0.1)], AlignParams()).confidence == 0.0  # type: ignore[union-attr]
    assert find_fork([Move.log(0, 0.6, 1.0)], AlignParams(tau=1.0)).confidence == 0.0  # type: ignore[union-attr]
    assert find_fork([Move.sync(0, 0, 1.0)], AlignParams(tau=0.0)).confidence == 1.0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("moves", "bad_steps", "expected"),
    [
        ([Move.model(0, 0.6, 1.0)], 0, 0),
        ([Move.sync(0, 0, 0.0), Move.model(1, 0.6, 1.0)], 1, 0),
        ([Move.sync(0, 0, 0.0), Move.model(1, 0.6, 1.0), Move.sync(2, 1, 0.9)], 2, 1),
        ([Move.sync(0, 0, 0.0), Move.log(1, 0.6, 1.0)], 2, 1),
        ([Move.sync(0, 0, 0.0)], 1, None),
        ([], 0, None),
    ],
)
def test_observed_step(moves: list[Move], bad_steps: int, expected: int | None) -> None:
    assert observed_step(moves, find_fork(moves, AlignParams()), bad_steps) == expected


move_lists = st.lists(
    st.floats(0, 1).map(lambda cost: Move.sync(0, 0, cost))
    | st.floats(0, 1).map(lambda c: Move.log(0, 0.6, c))
)


@given(move_lists, st.floats(0, 1), st.integers(1, 4))
def test_what_a_fork_is(moves: list[Move], tau: float, resync_k: int) -> None:
    params = AlignParams(tau=tau, resync_k=resync_k)
    fork = find_fork(moves, params)
    good = [move.in_sync(tau) for move in moves]
    if fork is None:
        assert all(good[-resync_k:])
        return
    assert not good[fork.move]
    assert fork.move == 0 or good[fork.move - 1]
    assert 0.0 <= fork.confidence <= 1.0
    end = next((i for i in range(fork.move, len(good)) if good[i]), len(good))
    assert not all(good[end : end + resync_k]) or len(good) - end < resync_k
    assert find_fork(moves[: fork.move], params) is None or not all(
        good[max(0, fork.move - resync_k) : fork.move]
    )


def test_a_move_cannot_be_made_wrong() -> None:
    with pytest.raises(ValueError, match="sync move"):
        Move("sync", 1, None, 0.1, 0.9)
    with pytest.raises(ValueError, match="log move"):
        Move("log", 1, 2, 0.1, 0.9)
    with pytest.raises(ValueError, match="model move"):
        Move("model", None, 2, 0.1, 0.9)
