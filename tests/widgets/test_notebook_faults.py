"""What goes wrong with widgets and rich output elsewhere, each as a test: kind W of the collected faults."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

import afnb
from afnb.core.run import Run, Step
from afnb.experiments.demo import Bundled
from afnb.widgets.explorer import Explorer

WAIT_S = 60
CELLS = (
    """
import afnb
from afnb.experiments.demo import bundled
pair = bundled("refund")
x = afnb.explore(pair.bad, pair.good, agent=pair.agent, upstream=pair.upstream(latency_s=0.05),
                 oracle=pair.oracle, allow_tools=pair.tools, seed=1)
x.bench.plan()
trial = x.bench.run()
x
""",
    "print('another cell', trial.join(60))",
    "x.view.forms.status.value",
)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A notebook in which an experiment goes on in the background while the next cell runs."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    folder = str(tmp_path_factory.mktemp("faults"))
    resources = {"metadata": {"path": folder}}
    nbclient.NotebookClient(made, timeout=120, kernel_name="python3", resources=resources).execute()
    return made


def test_w1_a_handler_that_raises_is_shown_and_cleared(explorer: Callable[..., Explorer]) -> None:
    x = explorer()
    f = x.view.forms
    x.bench.plan = lambda: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    f.plan.click()
    assert "ZeroDivisionError" in f.message.value
    del x.bench.plan
    f.plan.click()
    assert f.message.value == ""


def test_w2_what_arrives_in_the_background_is_in_no_cells_output(notebook: Any) -> None:
    second = notebook.cells[1].outputs
    assert [(one.output_type, one.get("text")) for one in second] == [("stream", "another cell True\n")]
    assert "verified: recovered" in str(notebook.cells[2].outputs[0].data)
    assert not [one for cell in notebook.cells for one in cell.outputs if one.get("name") == "stderr"]


def test_w3_the_finding_survives_without_a_kernel(notebook: Any) -> None:
    static = [one.data for one in notebook.cells[0].outputs if "text/html" in one.get("data", {})]
    assert len(static) == 1
    assert "verified: recovered" in static[0]["text/html"]  # brought up to date when the experiment ended
    assert "afnb.what_if(" in static[0]["text/html"]
    assert "refund-bad against refund-good" in static[0]["text/plain"]
    assert "<script" not in static[0]["text/html"]


def test_w4_runs_of_one_name_and_no_steps_are_told_apart_by_number(pair: Bundled) -> None:
    twin = Run("the same name", (Step(0, "llm", "llm", outputs="a"),))
    x = afnb.explore(twin, Run("the same name", (Step(0, "llm", "llm", outputs="b"),)))
    assert [value for _, value in x.view.forms.against.options] == ["bad", "good"]
    assert "no steps" in afnb.explore(Run("empty")).view.forms.detail.value
    assert x.view.forms.replay.options == (("a replay …", ""),)


def test_w5_ten_thousand_steps_and_a_field_of_five_megabytes_stay_small() -> None:
    steps = [Step(i, "tool", f"tool_{i % 30}", outputs={"row": i}) for i in range(10_000)]
    steps[5000] = Step(5000, "tool", "read", outputs="<b>" + "x" * 5_000_000)
    x = afnb.explore(Run("long", tuple(steps)))
    x.view.canvas.selected = 5000
    assert "5,000,003 characters" in x.view.forms.detail.value
    state = json.dumps(x.view.canvas.get_state(), default=str)
    assert len(state) + len(x.view.forms.detail.value) < 2_000_000
    assert len(x._repr_html_()) < 2_000_000


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)>",
        "</script><script>alert(1)</script>",
        "&amp;",
        "[a](javascript:alert(1))",
    ],
)
def test_w6_text_that_looks_like_markup_is_literal(text: str) -> None:
    runs = [Run(text, (Step(0, "tool", text, {text: text}, text + end, {"model": text}),)) for end in "ab"]
    x = afnb.explore(*runs)
    f = x.view.forms
    for html in (f.detail.value, f.progress.value, x._repr_html_()):
        bare = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
        assert "<img" not in bare
        assert "<script" not in bare
        assert 'href="javascript' not in bare


def test_w7_without_its_styles_the_card_is_plain_text(explorer: Callable[..., Explorer]) -> None:
    html = explorer()._repr_html_()
    bare = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
    plain = re.search(r'<pre class="afnb-plain[^"]*">(.*?)</pre>', bare, re.DOTALL)
    assert plain is not None
    assert "From step 4" in plain[1]
    assert len(repr(explorer()).split("\n")) <= 6


def test_an_agent_that_dies_under_the_explorer_leaves_the_kernel_alone(
    explorer: Callable[..., Explorer], tmp_path: Path
) -> None:
    script = tmp_path / "dies.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", encoding="utf-8")
    x = explorer(agent=afnb.Command(["python", str(script)]))
    f = x.view.forms
    f.plan.click()
    f.run.click()
    trial = x.bench.trials[0]
    assert trial.join(WAIT_S)
    assert trial.over
    assert trial.error or trial.experiment.label == "Unverified"
    f.plan.click()
    assert f.message.value == ""
