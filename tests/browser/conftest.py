"""Chromium for the tests here. Without it, or a host, they skip; AFNB_BROWSER=required makes that fail."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import hosts

NEEDED = ("playwright", "voila", "jupyterlab", "nbconvert", "ipykernel")


def missing() -> str | None:
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if lacking:
        return f"not installed: {', '.join(lacking)} (pip install 'afnb[browser]')"
    return (
        None if hosts.chromium() else "there is no Chromium (apt-get install chromium, or set AFNB_CHROMIUM)"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session")
def chrome() -> Iterator[Any]:
    why = missing()
    if why is not None:
        if os.environ.get("AFNB_BROWSER") == "required":
            pytest.fail(f"browser tests are required here, and {why}")
        pytest.skip(why)
    with hosts.browser() as shown:
        yield shown


@dataclass
class Seen:
    """What went wrong on a page, and what it asked of other machines."""

    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def check(self, allowed: tuple[str, ...] = ()) -> None:
        assert self.errors == []
        assert [url for url in self.foreign if not url.startswith(allowed)] == []


@pytest.fixture
def open_page(chrome: Any) -> Iterator[Callable[..., tuple[Any, Seen]]]:
    contexts = []

    def make(width: int = 1280, height: int = 1400, dark: bool = False) -> tuple[Any, Seen]:
        context = chrome.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page, seen = context.new_page(), Seen()
        page.set_default_timeout(60_000)

        def foreign(route: Any) -> None:
            seen.foreign.append(route.request.url)
            route.abort()

        page.route(lambda url: not url.startswith(("http://127.0.0.1", "file:", "data:", "blob:")), foreign)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))

        def said(message: Any) -> None:
            here = str(message.location.get("url", "")).startswith(("http://127.0.0.1", "file:"))
            if message.type == "error" and (here or not message.location.get("url")):
                seen.errors.append(message.text)

        page.on("console", said)
        return page, seen

    yield make
    for context in contexts:
        context.close()
