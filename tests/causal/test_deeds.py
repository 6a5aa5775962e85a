"""What a step did, in words that do not depend on one run's values."""

from __future__ import annotations

from typing import Any

import pytest

import afnb
from afnb.causal.deeds import deed, deed_at, deed_at_fork
from afnb.core.run import Run, Step


def llm(text: str = "", *calls: tuple[str, Any], name: str = "llm") -> Step:
    made = [{"name": tool, "arguments": arguments} for tool, arguments in calls]
    return Step(0, "llm", name, outputs={"text": text, "tool_calls": made})


def tool(name: str, inputs: Any, outputs: Any) -> Step:
    return Step(0, "tool", name, inputs=inputs, outputs=outputs)


@pytest.mark.parametrize(
    ("bad", "good", "words"),
    [
        (llm("a"), llm("b"), "said something else"),
        (llm("a"), None, "said something the good run did not"),
        (llm("", ("f", {})), None, "called f"),
        (None, llm("a"), "left out a model call"),
        (None, tool("f", {}, 1), "left out f"),
        (llm("a"), llm("", ("f", {}), ("g", {})), "answered instead of calling f and g"),
        (llm("", ("f", {})), llm("a"), "called f instead of answering"),
        (llm("", ("f", {})), llm("", ("g", {})), "called f instead of g"),
        (llm("", ("f", {}), ("g", {})), llm("", ("g", {})), "also called f"),
        (llm("", ("g", {})), llm("", ("f", {}), ("g", {})), "did not call f"),
        (
            llm("", ("f", {}), ("g", {})),
            llm("", ("g", {}), ("f", {})),
            "called f and g in another order or number",
        ),
        (llm("", ("f", {"a": 1})), llm("", ("f", {"a": 2})), "called f with another a"),
        (llm("", ("f", '{"a": 1}')), llm("", ("f", {"a": 2})), "called f with another a"),
        (llm("", ("f", {"a": 1})), llm("", ("f", {"a": 1.0})), "called f with another a"),
        (llm("", ("f", {"a": 1})), llm("", ("f", {"b": 1})), "called f with another b and a"),
        (
            llm(
                "",
                ("f", "no json"),
            ),
            llm("", ("f", {})),
            "called f with other arguments",
        ),
        (llm("x", ("f", {})), llm("y", ("f", {})), "called f with other words"),
        (llm("a", name="planner"), llm("b", name="planner"), "planner said something else"),
        (tool("f", {"q": 1}, 1), tool("f", {"q": 2}, 1), "ran f with another q"),
        (tool("f", {}, {"x": 1}), tool("f", {}, {"x": 2}), "f gave another x"),
        (tool("f", {}, 1), tool("f", {}, 2), "f gave another result"),
        (tool("f", {}, 1), tool("g", {}, 2), "ran f instead of g"),
        (tool("f", {}, 1), None, "ran f, which the good run did not"),
        (None, None, "did nothing"),
    ],
)
def test_deeds(bad: Step | None, good: Step | None, words: str) -> None:
    assert deed(bad, good) == words


def test_many_names_are_counted() -> None:
    step = llm("", *[(f"t{i}", {}) for i in range(7)])
    assert deed(step, llm("a")) == "called t0, t1, t2 and 4 more instead of answering"
    other = llm("", ("f", {str(i): i for i in range(9)}))
    assert deed(other, llm("", ("f", {}))) == "called f with other arguments"


def test_outputs_of_an_unknown_shape() -> None:
    odd = Step(0, "llm", "llm", outputs={"tool_calls": "none"})
    assert deed(odd, Step(0, "llm", "llm", outputs=3)) == "said something else"


def test_at_a_step_and_at_the_fork() -> None:
    def run(*steps: Step) -> Run:
        return Run("r", steps)

    same = llm("the order is a headset")
    bad = run(same, llm("", ("escalate", {"to": "the manager on duty"})), llm("nothing is due, sorry"))
    good = run(same, llm("", ("policy", {"category": "electronics"})), llm("the refund is paid today"))
    found = afnb.diff(bad, good)
    assert deed_at_fork(found) == deed_at(found, 1) == "called escalate instead of policy"
    assert deed_at(found, 99) == "did nothing"
    assert deed_at_fork(afnb.diff(good, good)) is None
