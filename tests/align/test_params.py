from __future__ import annotations

import math

import pytest

from afnb.align.params import AlignParams
from afnb.errors import ParameterError


@pytest.mark.parametrize(
    ("given", "starts"),
    [
        ({"gap_open": 0}, "gap_open is 0;"),
        ({"gap_open": -1.0}, "gap_open is -1.0;"),
        ({"gap_open": math.inf}, "gap_open is inf;"),
        ({"gap_open": math.nan}, "gap_open is nan;"),
        ({"gap_open": True}, "gap_open is True;"),
        ({"gap_open": "0.6"}, "gap_open is '0.6';"),
        ({"gap_ext": 0.0}, "gap_ext is 0.0;"),
        ({"gap_open": 0.2}, "gap_ext is 0.3, more than gap_open (0.2)"),
        ({"tau": 1.5}, "tau is 1.5;"),
        ({"tau": -0.1}, "tau is -0.1;"),
        ({"tau": math.nan}, "tau is nan;"),
        ({"resync_k": 0}, "resync_k is 0;"),
        ({"resync_k": 1.0}, "resync_k is 1.0;"),
        ({"resync_k": True}, "resync_k is True;"),
    ],
)
def test_what_is_refused(given: dict[str, object], starts: str) -> None:
    with pytest.raises(ParameterError) as caught:
        AlignParams(**given)  # type: ignore[arg-type]
    assert str(caught.value).startswith(starts)


def test_the_first_fault_is_named() -> None:
    order = [("gap_open", 0.0), ("gap_ext", 0.0), ("gap_open", 0.1), ("tau", 2.0), ("resync_k", 0)]
    wrong: dict[str, float] = {"gap_open": 0.0, "gap_ext": 0.0, "tau": 2.0, "resync_k": 0}
    for name, _ in order:
        if name == "gap_open" and wrong["gap_open"] == 0.1:
            name = "gap_ext"
        with pytest.raises(ParameterError) as caught:
            AlignParams(**wrong)  # type: ignore[arg-type]
        assert str(caught.value).startswith(name)
        if wrong["gap_open"] == 0.0:
            wrong["gap_open"] = 0.1
        elif wrong["gap_ext"] == 0.0:
            wrong["gap_ext"] = 0.3
        elif wrong["gap_open"] == 0.1:
            wrong["gap_open"] = 0.6
        elif wrong["tau"] == 2.0:
            wrong["tau"] = 0.3


def test_whole_numbers_and_edges_are_fine() -> None:
    assert AlignParams(1, 1, 0, 1) == AlignParams(1.0, 1.0, 0.0, 1)
    assert AlignParams(tau=1).tau == 1
