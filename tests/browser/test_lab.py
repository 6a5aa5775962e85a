"""The explorer's main path in JupyterLab: run all, select, edit, run, stop, export; a tab that is closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hosts

CELLS = (
    """
import afnb
from afnb.experiments.demo import bundled

pair = bundled("refund")
x = afnb.explore(
    pair.bad, pair.good, agent=pair.agent, upstream=pair.upstream(latency_s=0.4),
    oracle=pair.oracle, allow_tools=pair.tools, n_jobs=1, seed=1,
)
x
""",
    "print('cell two says', x.bench.selected)",
    """
ended = [trial.join(60) for trial in x.bench.trials]
print("ended", ended, [trial.state for trial in x.bench.trials])
""",
)


def press(page: Any, name: str) -> None:
    page.locator(".afnb-explorer").get_by_role("button", name=name, exact=True).click()


def test_run_all_select_edit_run_stop_export_and_close_the_tab(
    chrome: Any, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    del chrome
    with hosts.lab(hosts.write_notebook(tmp_path / "explore.ipynb", *CELLS)) as address:
        page, seen = open_page()
        hosts.open_lab(page, address)
        hosts.run_all(page)
        x = page.locator(".afnb-explorer")
        line, detail = x.get_by_test_id("timeline"), x.get_by_test_id("detail")
        line.wait_for()
        page.get_by_text("cell two says 4").wait_for()

        line.focus()
        page.keyboard.press("Home")
        page.wait_for_function("() => document.querySelector('[data-testid=timeline]').ariaValueNow === '0'")
        page.keyboard.press("f")  # in the notebook's own keys this would open its search
        detail.get_by_text("electronics").first.wait_for()

        press(page, "edit")
        area = x.locator(".afnb-edit textarea")
        area.fill('{"text": "no end')
        area.blur()
        x.get_by_test_id("message").get_by_text("no JSON yet").wait_for()
        area.fill('{"text": "I look no further."}')
        area.blur()
        x.get_by_test_id("message").wait_for(state="detached")
        press(page, "Plan")
        x.get_by_test_id("plan").wait_for()
        press(page, "Run")
        x.get_by_test_id("running").get_by_text("replays arrived").wait_for()
        press(page, "Stop")
        x.get_by_test_id("verdict").get_by_text("stopped by hand").first.wait_for()
        press(page, "As code")
        page.wait_for_function(
            "() => document.querySelector('.afnb-code-out textarea').value.includes('afnb.what_if(')"
        )
        # what arrived in the background is in no other cell's output
        others = page.locator(".jp-Cell").nth(1).locator(".jp-OutputArea-output")
        assert [text.strip() for text in others.all_inner_texts()] == ["cell two says 4"]

        # a tab that is closed harms nothing: the experiment ends, and the kernel has it
        press(page, "Plan")
        x.get_by_test_id("plan").wait_for()
        press(page, "Run")
        x.get_by_test_id("running").get_by_text("replays arrived").wait_for()
        seen.check()
        page.close()
        later, seen = open_page()
        hosts.open_lab(later, address.replace("?reset&", "?"))
        later.locator(".jp-Cell").nth(2).locator(".cm-content").click()
        later.keyboard.press("Control+Enter")
        later.get_by_text("ended [True, True] ['done', 'done']").wait_for()
        # and the same explorer is shown again, with both experiments
        later.locator(".jp-Cell").nth(1).locator(".cm-content").click()
        later.keyboard.press("Control+A")
        later.keyboard.type("x")
        later.keyboard.press("Control+Enter")
        again = later.locator(".jp-Cell").nth(1).locator(".afnb-explorer")
        again.get_by_test_id("verdict").wait_for()
        assert again.get_by_test_id("history").locator("tbody tr").count() == 2
        seen.check()
