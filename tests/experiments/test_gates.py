"""Gates on what a batch came to."""

from __future__ import annotations

import pytest

from afnb.errors import ParameterError
from afnb.experiments.batch_summary import Tally
from afnb.experiments.gates import METRICS, Gate, as_gate, failed_gates

FOUND = Tally(pairs=10, repair=6, no_cause=2, unverified=1, error=1, checked=9, faithful=9, live_calls=120)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("verified>=80%", True),
        ("verified>80%", False),
        ("verified >= 8", True),
        ("error<=0", False),
        ("error=1", True),
        ("repair==6", True),
        ("live_calls<120", False),
        ("live_calls<=120", True),
        ("faithful>=90%", True),
    ],
)
def test_gates(text: str, passes: bool) -> None:
    gate = as_gate(text)
    assert gate.passes(FOUND) is passes
    assert ("passed" if passes else "failed") in gate.sentence(FOUND)
    assert (failed_gates([gate], FOUND) == []) is passes


def test_no_pairs_pass_no_gate_on_a_share() -> None:
    assert not as_gate("verified>=1%").passes(Tally())


@pytest.mark.parametrize(
    "text", ["", "verified", "verified>=", "verified>=-1", "verified>=8x", "__import__('os')"]
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="expected a name"):
        as_gate(text)


def test_what_is_not_counted_is_named() -> None:
    with pytest.raises(ParameterError, match="'luck' is not counted; there are pairs, verified"):
        as_gate("luck>=1")
    assert all(isinstance(Gate(name, ">=", 0).passes(FOUND), bool) for name in METRICS)
