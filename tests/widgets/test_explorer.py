"""The explorer at comm level: messages as the browser sends them, without a browser or a kernel."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipywidgets
import pytest

import afnb
from afnb.core.run import Run, Step
from afnb.experiments.demo import Bundled
from afnb.tables.schemas import volatile
from afnb.widgets.explorer import Explorer
from afnb.widgets.forms import Forms

WAIT_S = 60


def send(widget: Any, **state: Any) -> None:
    """What a browser sends when a trait changes."""
    data = {"method": "update", "state": state, "buffer_paths": []}
    widget._handle_msg({"content": {"data": data}, "buffers": []})


def click(button: ipywidgets.Button) -> None:
    """What a browser sends when a button is pressed; a disabled one sends nothing."""
    if not button.disabled:
        data = {"method": "custom", "content": {"event": "click"}}
        button._handle_msg({"content": {"data": data}, "buffers": []})


def forms(x: Explorer) -> Forms:
    found = x.view.forms
    assert isinstance(found, Forms)
    return found


def run(x: Explorer) -> Any:
    """Plan and run, and wait for the end."""
    f = forms(x)
    click(f.plan)
    assert f.message.value == ""
    click(f.run)
    trial = x.bench.trials[-1]
    assert trial.join(WAIT_S)
    assert settled(lambda: f.stop.disabled)
    return trial


def settled(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + WAIT_S
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def state_of(x: Explorer) -> dict[str, Any]:
    """All widget state that goes to the browser."""
    out, todo = {}, [x.widget]
    while todo:
        widget = todo.pop()
        out[widget.model_id] = widget.get_state()
        todo += getattr(widget, "children", ())
        todo += [widget.layout] if hasattr(widget, "layout") else []
    return out


def size_of(state: dict[str, Any]) -> int:
    return len(json.dumps(state, default=str))


# -- looking -----------------------------------------------------------------------------------------


def test_it_begins_at_the_fork_with_its_field_diff(explorer: Callable[..., Explorer]) -> None:
    x = explorer()
    f = forms(x)
    assert x.view.canvas.selected == x.bench.subject.fork == 4
    assert "outputs.tool_calls" in f.detail.value
    assert "electronics" in f.detail.value
    assert "at step 4" in f.step.value


def test_selecting_a_step_shows_its_fields_and_brings_the_form_there(
    explorer: Callable[..., Explorer],
) -> None:
    x = explorer()
    send(x.view.canvas, selected=1)
    assert "lookup_order" in forms(x).detail.value
    assert x.bench.draft.step == 1
    assert "headset" in forms(x).text.value
    send(x.view.canvas, selected=6)  # only the good run has a step here
    assert "The bad run has no step here." in forms(x).detail.value
    assert "no step of the bad run" in forms(x).step.value
    click(forms(x).plan)
    assert "choose a step of the bad run" in forms(x).message.value


def test_searching_leaves_matches_and_next_goes_through_them(explorer: Callable[..., Explorer]) -> None:
    x = explorer()
    f = forms(x)
    send(f.query, value="HEADSET")
    assert x.view.canvas.matches == [[1, 2], [4, 4], [8, 8]]
    assert f.found.value == "4 of 9 rows"
    click(f.forth)
    assert x.view.canvas.selected == 8
    click(f.back)
    assert x.view.canvas.selected == 4
    send(f.query, value="")
    send(f.tool, index=[value for _, value in f.tool.options].index("issue_refund"))
    assert x.view.canvas.matches == [[6, 7]]
    send(f.query, value="nothing says this")
    assert x.view.canvas.matches == []
    send(f.query, value="")
    send(f.tool, index=0)
    assert x.view.canvas.matches is None
    click(f.back)
    assert x.view.canvas.selected == 4


# -- trying ------------------------------------------------------------------------------------------


def compared(experiment: afnb.Experiment) -> Any:
    frame = experiment.replays.to_pandas()
    return frame.drop(columns=list(volatile("replays")))


@pytest.mark.parametrize("kind", ["graft", "edit", "resample"])
def test_a_change_tried_by_clicking_is_what_the_exported_code_runs(
    kind: str, explorer: Callable[..., Explorer], pair: Bundled
) -> None:
    x = explorer()
    f = forms(x)
    send(f.kind, index=[value for _, value in f.kind.options].index(kind))
    if kind == "edit":
        call = {"name": "refund_policy", "arguments": {"category": "electronics"}}
        send(f.text, value=json.dumps({"text": "Look again.", "tool_calls": [call]}))
    trial = run(x)
    assert trial.experiment is not None, trial.error
    click(f.export)
    names: dict[str, Any] = {"agent": pair.agent, "upstream": pair.upstream(), "oracle": pair.oracle}
    exec(f.code.value, names)
    again = names["e"]
    assert (again.verdict, again.label, again.reason) == (
        trial.experiment.verdict,
        trial.experiment.label,
        trial.experiment.reason,
    )
    assert compared(again).equals(compared(trial.experiment))
    if kind != "resample":
        assert again.verdict == "recovered"


def test_nothing_starts_before_its_plan_was_shown(explorer: Callable[..., Explorer]) -> None:
    x = explorer()
    f = forms(x)
    assert f.run.disabled
    f.run.click()  # even if a browser sent it
    assert x.bench.trials == []
    assert "press Plan" in f.message.value
    click(f.plan)
    assert "live" in f.planned.value
    assert not f.run.disabled
    send(f.live_calls, value="7")  # another experiment: plan again
    assert f.run.disabled
    assert f.planned.value == ""


def test_text_that_is_no_json_is_told_at_once_and_never_run(explorer: Callable[..., Explorer]) -> None:
    x = explorer()
    f = forms(x)
    send(f.kind, index=1)
    send(f.text, value='{"text": "no end')
    assert "no JSON yet, at line 1" in f.message.value
    click(f.plan)
    assert f.run.disabled
    send(f.form, index=1)  # the same as plain text is an answer
    assert f.message.value == ""
    click(f.plan)
    assert not f.run.disabled


def test_oracles_and_budgets_are_chosen_and_mistakes_are_sentences(
    explorer: Callable[..., Explorer],
) -> None:
    x = explorer()
    f = forms(x)
    send(f.oracle, index=[value for _, value in f.oracle.options].index("regex"))
    click(f.plan)
    assert "say what counts as recovered" in f.message.value
    send(f.oracle_text, value="(")
    click(f.plan)
    assert "no regular expression" in f.message.value
    send(f.oracle_text, value="refunded")
    send(f.live_calls, value="many")
    click(f.plan)
    assert "a number of live calls" in f.message.value
    send(f.live_calls, value="9")
    trial = run(x)
    assert trial.experiment.oracle == "answer matches /refunded/"
    assert trial.experiment.budget == "at most 9 live calls"
    assert "afnb.Matches(pattern='refunded'" in x.code()


def test_replays_arrive_one_by_one_and_the_evidence_grows(explorer: Callable[..., Explorer]) -> None:
    x = explorer(n_jobs=1)
    f = forms(x)
    seen: list[tuple[int, int]] = []
    x.bench.listen(lambda trial: seen.append((len(trial.results), len(trial.so_far().blocks))))
    trial = run(x)
    assert seen == sorted(seen)
    assert [count for count, _ in seen][:3] == [1, 2, 3]
    assert seen[-1][1] == len(trial.experiment.decision.blocks) > 1
    assert "verified: recovered" in f.status.value
    assert "replays 1 to" in f.replays.value


def test_stop_keeps_what_is_finished_and_twice_ends_what_runs(
    explorer: Callable[..., Explorer], pair: Bundled
) -> None:
    gate = threading.Event()

    def slow(ctx: Any) -> Any:
        gate.wait(WAIT_S)
        return pair.pair.agent(ctx)

    x = explorer(agent=afnb.Function(slow), n_jobs=1)
    f = forms(x)
    click(f.plan)
    click(f.run)
    assert not f.stop.disabled
    assert f.run.disabled
    assert x.bench.trials[0].state == "running"
    click(f.stop)
    assert x.bench.trials[0].state == "stopping"
    assert "Stop again" in f.status.value
    gate.set()
    assert x.bench.trials[0].join(WAIT_S)
    experiment = x.bench.trials[0].experiment
    assert experiment is not None
    assert experiment.label == "Unverified"
    assert experiment.reason == "stopped by hand"


def test_a_crashing_agent_is_a_result_and_the_explorer_goes_on(
    explorer: Callable[..., Explorer], pair: Bundled
) -> None:
    def crashing(ctx: Any) -> Any:
        answer = pair.pair.agent(ctx)
        raise RuntimeError(f"<script>alert(1)</script> after {len(answer)} characters")

    x = explorer(agent=afnb.Function(crashing))
    trial = run(x)
    assert trial.state == "done"
    assert "&lt;script&gt;alert(1)&lt;/script&gt; after" in forms(x).replays.value
    assert "<script" not in forms(x).status.value + forms(x).replays.value
    assert not forms(x).plan.disabled


def test_an_oracle_that_raises_is_shown_and_the_next_success_clears_the_message(
    explorer: Callable[..., Explorer], pair: Bundled
) -> None:
    def broken(run: Run) -> bool:
        raise KeyError("no such key")

    x = explorer(oracle=broken)
    trial = run(x)
    assert trial.experiment.label == "Unverified"
    assert "KeyError" in forms(x).status.value
    send(forms(x).live_calls, value="x")
    click(forms(x).plan)
    assert forms(x).message.value
    send(forms(x).live_calls, value="20")
    click(forms(x).plan)
    assert forms(x).message.value == ""


def test_an_agent_that_cannot_start_is_one_sentence(explorer: Callable[..., Explorer]) -> None:
    x = explorer(agent=afnb.Command(["no-such-program-here"]))
    f = forms(x)
    click(f.plan)
    click(f.run)
    trial = x.bench.trials[0]
    assert trial.join(WAIT_S)
    assert trial.state == "failed"
    assert settled(lambda: "no-such-program-here" in f.status.value)
    assert "Traceback" not in f.status.value


def test_tools_that_are_not_allowed_are_refused_before_anything_runs(
    explorer: Callable[..., Explorer],
) -> None:
    x = explorer(allow_tools=())
    click(forms(x).plan)
    click(forms(x).run)
    trial = x.bench.trials[0]
    assert trial.join(WAIT_S)
    assert trial.state == "failed"
    assert trial.live_calls == 0
    assert "issue_refund" in trial.error


# -- several, again, comparing, taking away ------------------------------------------------------------


def test_any_replay_is_compared_with_either_run(explorer: Callable[..., Explorer]) -> None:
    x = explorer()
    f = forms(x)
    run(x)
    send(f.replay, index=1)
    assert "against refund-bad" in f.compared.value
    send(f.against, index=1)
    assert "against refund-good" in f.compared.value
    assert "converged" in f.compared.value or "forked" in f.compared.value


def test_the_history_shows_earlier_experiments_again(explorer: Callable[..., Explorer]) -> None:
    x = explorer()
    f = forms(x)
    run(x)
    send(x.view.canvas, selected=2)
    send(f.kind, index=2)
    run(x)
    assert [trial.number for trial in x.bench.trials] == [1, 2]
    assert x.view.canvas.patched == [2]
    assert f.progress.value.count("<tr") == 3
    send(f.history, index=1)
    assert x.view.canvas.patched == [4]
    assert "verified: recovered" in f.status.value
    assert "Graft(step=4)" in x.code()


def test_shown_again_it_is_the_same_explorer_and_two_are_independent(
    explorer: Callable[..., Explorer],
) -> None:
    x, y = explorer(), explorer()
    run(x)
    assert x.widget is x.widget
    assert len(x.bench.trials) == 1
    assert y.bench.trials == []
    send(y.view.canvas, selected=0)
    assert x.view.canvas.selected == 4
    click(forms(x).plan)
    click(forms(x).run)
    click(forms(y).plan)
    click(forms(y).run)
    assert x.bench.trials[-1].join(WAIT_S)
    assert y.bench.trials[-1].join(WAIT_S)
    assert {t.experiment.steps for t in (*x.bench.trials, *y.bench.trials)} == {(4,), (0,)}


def test_running_leaves_the_main_thread_free_and_no_thread_behind(
    explorer: Callable[..., Explorer], pair: Bundled
) -> None:
    before = set(threading.enumerate())
    x = explorer(upstream=pair.upstream(latency_s=0.05), n_jobs=2)
    click(forms(x).plan)
    click(forms(x).run)
    assert x.bench.running is not None  # this line ran while the experiment did
    send(x.view.canvas, selected=1)
    assert "lookup_order" in forms(x).detail.value
    assert x.bench.trials[0].join(WAIT_S)
    assert settled(lambda: not [t for t in set(threading.enumerate()) - before if t.name.startswith("afnb")])


def test_the_report_is_one_file_with_everything_and_is_never_overwritten(
    explorer: Callable[..., Explorer], tmp_path: Path
) -> None:
    x = explorer()
    run(x)
    send(forms(x).path, value=str(tmp_path / "found.html"))
    click(forms(x).write)
    text = (tmp_path / "found.html").read_text(encoding="utf-8")
    assert "verified: recovered" in text
    assert "afnb.what_if(" in text
    assert not [word for word in ("<script", "http://", "https://", "<link") if word in text]
    click(forms(x).write)
    assert "is there already" in forms(x).message.value
    send(forms(x).path, value=str(tmp_path / "no-such-folder" / "found.html"))
    click(forms(x).write)
    assert "cannot be written" in forms(x).message.value


# -- what it is given ------------------------------------------------------------------------------------


def test_a_diff_and_a_single_recording_are_looked_at_and_say_what_trying_takes(pair: Bundled) -> None:
    for x in (afnb.explore(afnb.diff(pair.bad, pair.good)), afnb.explore(pair.bad)):
        assert "afnb.explore(bad, good, agent=..." in str(state_of(x))
        assert forms(x).plan.disabled
        assert forms(x).detail.value


def test_a_single_recording_can_be_edited_and_asked_again_not_grafted(pair: Bundled) -> None:
    x = afnb.explore(
        pair.bad,
        agent=pair.agent,
        upstream=pair.upstream(),
        oracle=pair.oracle,
        allow_tools=pair.tools,
    )
    f = forms(x)
    assert [value for _, value in f.kind.options] == ["edit", "resample"]
    assert [value for _, value in f.against.options] == ["bad"]
    send(x.view.canvas, selected=4)
    call = {"name": "refund_policy", "arguments": {"category": "electronics"}}
    send(f.text, value=json.dumps({"text": "", "tool_calls": [call]}))
    assert run(x).experiment.verdict == "recovered"


def test_an_attribution_is_explored_and_other_things_are_refused_in_one_sentence(pair: Bundled) -> None:
    a = afnb.attribute(
        pair.bad,
        pair.good,
        agent=pair.agent,
        upstream=pair.upstream(),
        oracle=pair.oracle,
        allow_tools=pair.tools,
        progress=False,
    )
    x = afnb.explore(a)
    assert x.bench.subject.fork == 4
    assert "verified: recovered" in str(state_of(x))
    assert a.sentence() in x.to_text(400)
    for wrong in (3, [pair.bad], (pair.bad, pair.good, pair.good)):
        with pytest.raises(afnb.ParameterError, match="explore"):
            afnb.explore(wrong)


def test_a_run_without_steps_is_a_message(pair: Bundled) -> None:
    x = afnb.explore(Run("nothing"))
    assert "no steps" in forms(x).detail.value
    send(x.view.canvas, selected=5)
    assert x.bench.selected == 0
    assert afnb.explore(Run("nothing"), Run("nothing either")).widget is not None


# -- sizes and hostile text ------------------------------------------------------------------------------


def long_run(name: str, count: int, seed: int) -> Run:
    steps = []
    for i in range(count):
        said = f"step {i} says {'something else' if (i * seed) % 13 == 0 else 'the same'}"
        kind = "tool" if i % 2 else "llm"
        outputs: Any = {"rows": [i] * 5, "note": said} if i % 2 else {"text": said, "tool_calls": []}
        steps.append(Step(i, kind, f"tool_{i % 9}" if i % 2 else "llm", {"q": f"item {i}"}, outputs))
    return Run(name, tuple(steps))


def test_two_thousand_steps_are_less_than_two_megabytes_of_widget_state() -> None:
    x = afnb.explore(long_run("bad", 2000, 3), long_run("good", 2000, 5))
    assert size_of(state_of(x)) < 2_000_000
    assert len(x._repr_html_()) < 2_000_000


def test_a_field_of_ten_megabytes_is_cut_in_state_and_card() -> None:
    big = "x" * 10_000_000
    bad = Run("bad", (Step(0, "tool", "read", outputs=big), Step(1, "llm", "llm", outputs={"text": big})))
    good = Run("good", (Step(0, "tool", "read", outputs=big + "y"), Step(1, "llm", "llm", outputs="z")))
    x = afnb.explore(bad, good)
    for row in range(len(x.bench.subject)):
        send(x.view.canvas, selected=row)
        assert size_of(state_of(x)) < 2_000_000
    assert len(x._repr_html_()) < 2_000_000


HOSTILE = '<img src=x onerror=alert(1)></script><script>alert(1)</script>&amp; \x1b[31m \u202e $x$ " onload="'


def test_text_of_agents_is_literal_everywhere() -> None:
    step = Step(0, "tool", HOSTILE, {HOSTILE: HOSTILE}, HOSTILE, {"model": HOSTILE})
    other = Step(0, "tool", HOSTILE, {HOSTILE: HOSTILE}, HOSTILE + "!" * 200)
    x = afnb.explore(Run(HOSTILE, (step,), task=HOSTILE), Run(HOSTILE, (other,)))
    send(forms(x).query, value=HOSTILE[:8])
    shown = [
        state["value"]
        for state in state_of(x).values()
        if state.get("_view_name") in ("HTMLView", "LabelView") and state.get("value")
    ]
    for html in (*shown, x._repr_html_()):
        assert "<script" not in html
        assert "<img" not in html
        assert "\x1b" not in html
        assert "\u202e" not in html
    assert any("&lt;img" in html for html in shown)


def test_five_hundred_tools_with_long_alike_names_stay_apart() -> None:
    names = [f"{'shared_prefix_' * 5}{i:03}" for i in range(500)]
    x = afnb.explore(Run("many", tuple(Step(i, "tool", name, outputs=i) for i, name in enumerate(names))))
    options = forms(x).tool.options
    assert len(options) <= 201
    assert len({text for text, _ in options}) == len(options)
    assert max(len(text) for text, _ in options) <= 60
    send(forms(x).query, value=names[499])
    assert x.view.canvas.selected == 499
