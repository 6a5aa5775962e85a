"""Style and script of the HTML report, from the files beside this one.

The page is whole without the script: it only sorts and filters.
"""

from __future__ import annotations

import re
from pathlib import Path

_HERE = Path(__file__).parent


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


STYLE = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", _read("report.css"), flags=re.DOTALL)).strip()
"""The frame's rules on one line."""

SCRIPT = _read("report.js")
"""The script as it stands in the page; the page's security policy names its hash."""
