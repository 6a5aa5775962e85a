from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from afnb.align.references import ModalFork, modal_fork
from afnb.errors import ParameterError

from .parity import error_parameter, params_of, run_of


def test_consensus_vectors(vectors: Callable[[str], list[dict[str, Any]]]) -> None:
    wrong = []
    for vector in vectors("consensus"):
        params, max_steps = params_of(vector["params"])
        goods = [run_of(run) for run in vector["references"]]
        try:
            found = modal_fork(run_of(vector["suspect"]), goods, params, max_steps)
        except ParameterError as error:
            got: dict[str, Any] = {"error": error_parameter(str(error))}
            expected = {key: error_parameter(value) for key, value in vector["expect"].items()}
        else:
            got = {
                "votes": list(found.votes),
                "modal_step": found.step,
                "support": found.support,
                "references": found.references,
                "forked": found.forked,
                "agreement": found.agreement,
            }
            expected = vector["expect"]
        if got != expected:
            wrong.append((vector, got))
    assert wrong == []


@pytest.mark.parametrize(
    ("votes", "step", "support", "agreement"),
    [
        ((), None, 0, None),
        ((None, None), None, 0, None),
        ((3, 1, 3, None), 3, 2, 2 / 3),
        ((2, 1), 1, 1, 0.5),
        ((1, 2), 1, 1, 0.5),
        ((0, None), 0, 1, 1.0),
    ],
)
def test_the_count(
    votes: tuple[int | None, ...], step: int | None, support: int, agreement: float | None
) -> None:
    found = ModalFork(votes)
    assert (found.step, found.support, found.agreement) == (step, support, agreement)
    assert ModalFork(tuple(reversed(votes))).step == step
