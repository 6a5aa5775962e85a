"""Cards without a kernel or a network: a notebook that was run once and turned into one HTML file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hosts
import pytest

SETUP = """
import afnb
from afnb.experiments.demo import bundled, data_dir

pair = bundled("refund")
settings = dict(
    agent=pair.agent, upstream=pair.upstream(), oracle=pair.oracle, allow_tools=pair.tools, seed=1,
    progress=False,
)
"""
CARDS = {
    "cassette": "pair.bad",
    "event log": "afnb.event_log(afnb.read_events(data_dir() / 'logs' / 'support.jsonl'), LOG)",
    "run": "afnb.diff(pair.bad, pair.good).bad",
    "diff": "afnb.diff(pair.bad, pair.good)",
    "not comparable": "afnb.diff(bundled('trip').bad, pair.good)",
    "validation": "afnb.validate(afnb.read_events(data_dir() / 'logs' / 'damaged.jsonl'))",
    "plan": "afnb.plan(pair.bad, pair.good)",
    "experiment": "afnb.what_if(pair.bad, afnb.Edit(4, 'Stop here.'), **settings)",
    "attribution": "afnb.attribute(pair.bad, pair.good, **settings)",
    "location": "afnb.locate(pair.bad, **settings)",
    "batch": "afnb.attribute_many([(pair.bad, pair.good)], **settings)",
    "explorer": "afnb.explore(pair.bad, pair.good)",
}


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory, chrome: Any) -> Path:
    del chrome
    folder = tmp_path_factory.mktemp("static")
    setup = SETUP + (
        "import warnings; warnings.simplefilter('ignore')\n"
        "LOG = str(afnb.read_events(data_dir() / 'logs' / 'support.jsonl')['run_id'][0])\n"
    )
    notebook = hosts.write_notebook(folder / "cards.ipynb", setup, *CARDS.values())
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "html", str(notebook)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=200,
        env=hosts.environment(folder),
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "cards.html"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (800, True)])
def test_every_card_is_there_offline(
    page_file: Path, open_page: Callable[..., Any], width: int, dark: bool
) -> None:
    page, _seen = open_page(width=width, dark=dark)
    page.goto(page_file.as_uri(), wait_until="domcontentloaded")
    outputs = page.locator(".jp-Cell-outputWrapper")
    missing = []
    for number, name in enumerate(CARDS):
        cell = outputs.nth(number)
        folded = cell.locator("details > summary", has_text="static card")
        if folded.count():
            folded.first.click()
        card = cell.locator("section.afnb-card").first
        if not card.is_visible() or not card.locator(".afnb-title").inner_text().strip():
            missing.append(name)
    assert missing == []
    # what the cards themselves ask for: nothing
    asked = page.evaluate(
        "() => ['img', 'script', 'link', 'iframe']"
        ".flatMap(tag => [...document.querySelectorAll('.afnb-card ' + tag)]).length"
    )
    assert asked == 0
    said = page.locator(".afnb-card .afnb-next").count()
    assert said >= len(CARDS) - 1
