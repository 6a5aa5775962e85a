"""The explorer in a page of voila: seen, driven by mouse and by keyboard, light and dark, wide and narrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hosts
import pytest
from hosts import VOILA_FONT

CELLS = (
    """
import afnb
from afnb.experiments.demo import bundled

pair = bundled("refund")

def explorer(latency_s):
    return afnb.explore(
        pair.bad, pair.good, agent=pair.agent, upstream=pair.upstream(latency_s=latency_s),
        oracle=pair.oracle, allow_tools=pair.tools, n_jobs=1, seed=1,
    )

x = explorer(0.05)
x
""",
    "explorer(0.5)",
    "x",
)
INK = """canvas => {
  const d = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
  for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) seen.add([d[i], d[i + 1], d[i + 2]].join());
  return seen.size;
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, chrome: Any) -> Iterator[str]:
    del chrome  # skips before anything is started
    with hosts.voila(hosts.write_notebook(tmp_path_factory.mktemp("voila") / "explore.ipynb", *CELLS)) as url:
        yield url


def first(page: Any) -> Any:
    """The first explorer on the page."""
    return page.locator(".afnb-explorer").first


def press(where: Any, name: str) -> None:
    where.get_by_role("button", name=name, exact=True).click()


def test_clicks_and_keys_from_selection_to_verdict_and_code(
    address: str, open_page: Callable[..., Any]
) -> None:
    page, seen = open_page()
    page.goto(address)
    x = first(page)
    line, detail = x.get_by_test_id("timeline"), x.get_by_test_id("detail")
    line.wait_for()
    page.wait_for_function("() => document.querySelector('[data-testid=timeline]').dataset.drawn")
    assert line.evaluate(INK) > 5
    assert line.get_attribute("aria-valuenow") == "4"
    assert "fork: bad 4" in line.get_attribute("aria-valuetext")
    assert "electronics" in detail.inner_text()

    line.focus()
    page.keyboard.press("Home")
    detail.get_by_text("lookup_order").first.wait_for()
    page.keyboard.press("n")  # the next difference
    detail.get_by_text("electronics").first.wait_for()
    assert line.get_attribute("aria-valuenow") == "4"
    box = line.bounding_box()
    line.click(position={"x": 52 + (box["width"] - 64) * 8.5 / 9, "y": 108})  # the last of nine rows
    detail.get_by_text("bad step", exact=False).first.or_(detail).wait_for()
    page.wait_for_function("() => document.querySelector('[data-testid=timeline]').ariaValueNow === '8'")
    page.keyboard.press("f")
    detail.get_by_text("electronics").first.wait_for()

    x.get_by_placeholder("search the steps").fill("headset")
    page.keyboard.press("Enter")
    x.get_by_text("4 of 9 rows").wait_for()

    press(x, "edit")
    area = x.locator(".afnb-edit textarea")
    area.fill("{")
    area.blur()
    x.get_by_test_id("message").get_by_text("no JSON yet").wait_for()
    area.fill(
        '{"text":"Again.","tool_calls":[{"name":"refund_policy","arguments":{"category":"electronics"}}]}'
    )
    area.blur()
    x.get_by_test_id("message").wait_for(state="detached")
    press(x, "Plan")
    x.get_by_test_id("plan").get_by_text("nothing has been started").wait_for()
    press(x, "Run")
    x.get_by_test_id("verdict").get_by_text("verified: recovered").wait_for()
    x.get_by_label("compare").select_option(index=1)
    x.get_by_test_id("compared").get_by_text("against refund-bad").wait_for()
    press(x, "As code")
    page.wait_for_function(
        "() => document.querySelector('.afnb-code-out textarea').value.includes('afnb.Edit(step=4')"
    )
    assert page.evaluate("() => document.activeElement !== null")
    # shown a second time further down it is the same explorer, in the same state
    again = page.locator(".afnb-explorer").nth(2)
    again.get_by_test_id("verdict").get_by_text("verified: recovered").wait_for()
    # and another one is another one
    assert page.locator(".afnb-explorer").nth(1).get_by_test_id("verdict").count() == 0
    seen.check((VOILA_FONT,))


def test_evidence_is_seen_to_grow_and_stop_stops(address: str, open_page: Callable[..., Any]) -> None:
    page, seen = open_page()
    page.goto(address)
    x = page.locator(".afnb-explorer").nth(1)
    x.get_by_test_id("timeline").wait_for()
    press(x, "Plan")
    x.get_by_test_id("plan").wait_for()
    press(x, "Run")
    running = x.get_by_test_id("running")
    running.get_by_text(re.compile(r"[12] replays arrived")).wait_for()
    running.get_by_text("evidence that it matters").wait_for()
    # the kernel is free meanwhile: another explorer on the page answers
    first(page).get_by_test_id("timeline").focus()
    page.keyboard.press("Home")
    first(page).get_by_test_id("detail").get_by_text("lookup_order").first.wait_for()
    press(x, "Stop")
    x.get_by_test_id("verdict").get_by_text("stopped by hand").first.wait_for()
    seen.check((VOILA_FONT,))


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (800, True)])
def test_it_fits_and_follows_the_host_in_light_and_dark(
    address: str, open_page: Callable[..., Any], width: int, dark: bool, tmp_path: Path
) -> None:
    page, seen = open_page(width=width, dark=dark)
    page.goto(address + ("?theme=dark" if dark else ""))
    x = first(page)
    x.get_by_test_id("timeline").wait_for()
    press(x, "Plan")
    x.get_by_test_id("plan").wait_for()
    wide = x.evaluate(
        "box => [...box.querySelectorAll('.afnb-card, .widget-hbox, canvas')]"
        ".filter(one => one.getBoundingClientRect().right > innerWidth).length"
    )
    assert wide == 0
    card = x.get_by_test_id("detail")
    light = card.evaluate(
        "one => { const [r, g, b] = getComputedStyle(one).backgroundColor.match(/\\d+/g).map(Number);"
        " return (r + g + b) / 3; }"
    )
    assert (light < 80) if dark else (light > 200)
    page.screenshot(path=tmp_path / "explorer.png")
    seen.check((VOILA_FONT,))
