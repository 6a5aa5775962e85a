from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from afnb.align.fork import Fork, find_fork
from afnb.align.moves import Move
from afnb.align.params import AlignParams
from afnb.causal.candidates import candidates


@dataclass
class Found:
    moves: list[Move]
    fork: Fork | None


def move_of(value: dict[str, Any]) -> Move:
    if value["kind"] == "sync":
        return Move.sync(value["a_idx"], value["b_idx"], value["cost"], value["confidence"])
    if value["kind"] == "log":
        return Move.log(value["b_idx"], value["cost"], value["confidence"])
    return Move.model(value["a_idx"], value["cost"], value["confidence"])


def found_of(value: dict[str, Any]) -> Found:
    fork = value.get("fork")
    made = (
        None
        if fork is None
        else Fork(fork["index"], fork.get("a_step"), fork.get("b_step"), fork["confidence"])
    )
    return Found([move_of(move) for move in value["alignment"]], made)


def test_candidates_vectors(vectors: Callable[[str], list[dict[str, Any]]]) -> None:
    wrong, seen = [], 0
    for vector in vectors("attrib"):
        if vector["op"] != "candidates":
            continue
        seen += 1
        got = [{"bad_step": bad, "good_step": good} for bad, good in candidates(found_of(vector["diff"]))]
        if got != vector["expect"]["candidates"]:
            wrong.append((vector, got))
    assert wrong == []
    assert seen > 0


def test_no_fork_no_candidates() -> None:
    assert candidates(Found([Move.sync(0, 0, 0.0)], None)) == []


def test_a_one_sided_fork_has_none() -> None:
    assert candidates(Found([Move.log(0, 0.6, 1.0), Move.sync(0, 1, 0.9)], Fork(0, None, 0, 1.0))) == []


@given(st.lists(st.sampled_from("sgm"), max_size=8), st.floats(0.4, 1))
def test_a_block_of_pairs_from_the_fork_on(kinds: list[str], cost: float) -> None:
    moves, i, j = [], 0, 0
    for kind in kinds:
        if kind == "s":
            moves.append(Move.sync(i, j, cost))
            i, j = i + 1, j + 1
        elif kind == "g":
            moves.append(Move.log(j, 0.6, cost))
            j += 1
        else:
            moves.append(Move.model(i, 0.6, cost))
            i += 1
    fork = find_fork(moves, AlignParams())
    pairs = candidates(Found(moves, fork))
    if fork is None:
        assert pairs == []
        return
    expected = []
    for move in moves[fork.move :]:
        if move.kind != "sync":
            break
        expected.append((move.bad_step, move.good_step))
    assert pairs == expected
