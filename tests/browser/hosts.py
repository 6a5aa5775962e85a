"""Hosts for notebooks that a test looks at with Chromium: voila and JupyterLab, on loopback, on their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

START_S, STOP_S = 90, 10
VOILA_FONT = "https://cdn.jsdelivr.net/npm/@fortawesome/"
"""Icons that voila's own frame asks for; the page is the same without them."""

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def chromium() -> str | None:
    """The browser: the one that AFNB_CHROMIUM names, else the system's."""
    named = os.environ.get("AFNB_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        shown = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield shown
        finally:
            shown.close()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def write_notebook(path: Path, *cells: str) -> Path:
    import nbformat

    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(notebook, path)
    return path


def environment(folder: Path) -> dict[str, str]:
    """Fresh settings, so that nothing of the user's matters and nothing is left in the user's folders."""
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    env = dict(os.environ)
    for name in (*names, "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR"):
        env[name] = str(folder / name.lower())
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        env.pop(name, None)
    quiet = Path(env["JUPYTERLAB_SETTINGS_DIR"]) / "@jupyterlab/apputils-extension"
    quiet.mkdir(parents=True, exist_ok=True)
    settings = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
    (quiet / "notification.jupyterlab-settings").write_text(json.dumps(settings), encoding="utf-8")
    return env


@contextmanager
def served(command: list[str], url: str, folder: Path) -> Iterator[str]:
    """A server in a process group of its own, which is ended as a whole."""
    log = folder / "server.log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=out, stderr=out, start_new_session=True
        )
    try:
        end = time.monotonic() + START_S
        while not answers(url):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(
                    f"{command[2]} did not come up:\n{log.read_text('utf-8', 'replace')[-3000:]}"
                )
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_S)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url.split("?")[0], timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


@contextmanager
def voila(notebook: Path) -> Iterator[str]:
    """The notebook as a page; its address."""
    port = free_port()
    command = [sys.executable, "-m", "voila", str(notebook), "--no-browser", f"--port={port}"]
    # one extension of the editor fails in a page without one, and says so on the console
    command += ["--Voila.ip=127.0.0.1", "--VoilaConfiguration.extension_denylist=jupyterlab-jupytext"]
    with served(command, f"http://127.0.0.1:{port}/voila/static/", notebook.parent):
        yield f"http://127.0.0.1:{port}/"


@contextmanager
def lab(notebook: Path) -> Iterator[str]:
    """JupyterLab with the notebook open; its address."""
    port, token = free_port(), "afnb"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}", "--ip=127.0.0.1"]
    command += [
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={notebook.parent}",
        "--allow-root",
    ]
    command += ["--LabApp.extension_manager=readonly", "--ServerApp.port_retries=0"]
    with served(command, f"http://127.0.0.1:{port}/lab", notebook.parent):
        yield f"http://127.0.0.1:{port}/lab/tree/{notebook.name}?reset&token={token}"


def open_lab(page: Any, address: str) -> None:
    """Open it, and wait until the kernel is there: before that, running asks for one."""
    page.goto(address, timeout=60_000)
    page.wait_for_selector(".jp-NotebookPanel", timeout=60_000)
    page.wait_for_function("() => document.querySelectorAll('.jp-NotebookPanel .jp-Spinner').length === 0")
    page.wait_for_function(
        "() => document.querySelector('#jp-main-statusbar')?.innerText.includes('(ipykernel) | Idle')",
        timeout=60_000,
    )


def run_all(page: Any) -> None:
    """Run all cells, by the menu."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
