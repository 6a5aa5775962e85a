from __future__ import annotations

from typing import Any

import pytest

import afnb
from afnb.core.arm import Arm
from afnb.core.steps import run_from_cassette
from afnb.errors import ParameterError
from afnb.experiments.demo import bundled
from afnb.experiments.preflight import preflight, require_allowed, unknown_names

PAIR = bundled("refund")
MISSPELT = (
    "allow_tools names 'refund_polcy', which is no tool of the recordings; the nearest one is 'refund_policy'"
)


def flight(*allowed: str) -> Any:
    return preflight([(PAIR.bad, run_from_cassette(PAIR.bad))], Arm("patch", (), 0), allowed)


def test_a_known_name_is_no_warning() -> None:
    assert flight(*PAIR.tools).warnings == ()
    assert flight().warnings == ()


def test_a_misspelt_name_is_named_with_the_nearest_tool() -> None:
    check = flight("refund_polcy", *PAIR.tools)
    assert check.unknown == (("refund_polcy", "refund_policy"),)
    assert check.warnings == (MISSPELT,)
    assert MISSPELT in " ".join(check.to_text().split())


def test_it_is_said_with_the_tool_that_is_missing() -> None:
    with pytest.raises(ParameterError, match=r"would run these tools of the agent again.*refund_polcy"):
        require_allowed(flight("refund_polcy", *(name for name in PAIR.tools if name != "refund_policy")))


def test_without_any_tool_there_is_no_nearest_one() -> None:
    assert unknown_names(["x"], []) == (("x", None),)
    assert unknown_names(["b", "a", "Lookup"], ["lookup", "b"]) == (("Lookup", "lookup"), ("a", "lookup"))


@pytest.mark.parametrize("name", ["what_if", "attribute"])
def test_every_result_carries_the_warning_once(name: str) -> None:
    setting: dict[str, Any] = {
        "agent": PAIR.agent,
        "upstream": PAIR.upstream(),
        "oracle": PAIR.oracle,
        "allow_tools": [*PAIR.tools, "refund_polcy"],
        "progress": False,
    }
    found: Any
    if name == "what_if":
        found = afnb.what_if(PAIR.bad, afnb.Edit(4, "Stop here."), **setting)
    else:
        found = afnb.attribute(PAIR.bad, PAIR.good, **setting)
    assert found.warnings.count(MISSPELT) == 1
    assert MISSPELT in found.to_json()["warnings"]


def test_it_is_said_before_anything_starts_and_shown_with_the_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    e = afnb.what_if(
        PAIR.bad,
        afnb.Edit(4, "Stop here."),
        agent=PAIR.agent,
        upstream=PAIR.upstream(),
        oracle=lambda run: False,
        allow_tools=PAIR.tools,
        n_jobs=1,
        consensus=afnb.MajorityConsensus(n=1),
    )
    said = capsys.readouterr().err
    assert said.index("pre-flight: up to") < said.index("budget: ")
    assert "step 4 changed, live after; tools: " in said
    assert e.preflight.blocked == ()
    assert "runs again, allowed" in e.to_text()
    assert e.to_json()["preflight"]["changed"] == [4]
