from __future__ import annotations

from typing import Any

import pytest

import afnb
from afnb.errors import ParameterError
from afnb.experiments.arguments import check_settings
from afnb.experiments.demo import bundled
from afnb.experiments.locate import locate

PAIR = bundled("refund")

WRONG = [
    ({"budget": 5}, r"budget=5: expected afnb\.Budget\(\.\.\.\)"),
    ({"budget": 0}, "budget=0: expected"),
    ({"consensus": 3}, r"consensus=3: expected a rule such as afnb\.SequentialConsensus"),
    ({"consensus": afnb.SequentialConsensus}, "consensus=<class .*>: expected a rule"),
    ({"backend": "nosuch"}, "backend='nosuch': expected one of threading"),
    ({"backend": 7}, "backend=7: expected the name of a joblib backend"),
    ({"n_jobs": 0}, "n_jobs=0"),
    ({"n_jobs": "2"}, "n_jobs='2'"),
    ({"seed": "x"}, "seed='x': expected a whole number"),
    ({"matching": 3}, r"matching=3: expected afnb\.Matching"),
    ({"progress": "no"}, "progress='no': expected True, False or None"),
    ({"on_replay": 3}, "on_replay=3: expected a function"),
    ({"allow_tools": 3}, "allow_tools=3: expected a list of tool names"),
    ({"allow_tools": [3]}, r"allow_tools=\[3\]: expected a list of tool names"),
    ({"allow_tools": "lookup"}, r"e\.g\. \['lookup'\]"),
]


def ask(name: str, **change: Any) -> Any:
    setting: dict[str, Any] = {
        "agent": PAIR.agent,
        "upstream": PAIR.upstream(),
        "oracle": PAIR.oracle,
        "allow_tools": PAIR.tools,
        **change,
    }
    if name == "what_if":
        return afnb.what_if(PAIR.bad, afnb.Edit(4, "Stop here."), **setting)
    if name == "attribute":
        return afnb.attribute(PAIR.bad, PAIR.good, **setting)
    return locate(PAIR.bad, **setting)


@pytest.mark.parametrize("name", ["what_if", "attribute", "locate"])
@pytest.mark.parametrize(("change", "words"), WRONG, ids=[str(change) for change, _ in WRONG])
def test_a_setting_of_the_wrong_kind_is_one_sentence_before_anything_is_said(
    name: str, change: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ParameterError, match=words):
        ask(name, **change)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["what_if", "attribute"])
def test_params_are_checked_where_they_are_taken(name: str) -> None:
    with pytest.raises(ParameterError, match=r"params=7: expected afnb\.AlignParams"):
        ask(name, params=7)


def test_minus_one_is_one_replay_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblib.cpu_count", lambda: 3)
    assert ask("what_if", n_jobs=-1, progress=False).n_jobs == 3


def test_right_settings_pass() -> None:
    check_settings()
    check_settings(
        consensus=afnb.MajorityConsensus(),
        n_jobs=lambda: 2,
        budget=afnb.Budget(),
        allow_tools={"a"},
        params=afnb.AlignParams(),
        on_replay=print,
        progress=False,
    )
