"""What an explorer found as one self-contained HTML file: the comparison, every trial, the code of each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from afnb.align.diff import Diff
from afnb.core.page import Badge, Code, Page, Text
from afnb.core.page_css import STYLE
from afnb.core.page_html import render_card
from afnb.core.page_svg import escape
from afnb.errors import ParameterError
from afnb.report.mask import masked
from afnb.widgets.subject import Subject
from afnb.widgets.trials import Trial

_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}
:root{{color-scheme:light dark}}
body{{margin:1.2rem auto;max-width:62rem;padding:0 1rem;background:Canvas;color:CanvasText;
font:14px/1.5 system-ui,"DejaVu Sans",sans-serif}}
</style>
</head>
<body>
<main>{cards}</main>
</body>
</html>
"""


def pages_of(subject: Subject, trials: Sequence[Trial], codes: Sequence[str]) -> list[Page]:
    """The comparison (or the single run), then each trial with its code."""
    shown: Diff | None = subject.found
    pages = [subject.bad_run.page() if shown is None else shown.page()]
    for trial, code in zip(trials, codes, strict=True):
        snippet = Code(code, "the same as code")
        if trial.experiment is not None:
            page = trial.experiment.page()
            pages.append(Page(f"{trial.number}. {page.title}", page.badge, (*page.parts, snippet), page.next))
            continue
        title = f"{trial.number}. What if: {trial.setup.intervention.describe()}"
        words = trial.error or f"{len(trial.results)} replays so far; it had not ended when this was written"
        badge = Badge("failed" if trial.error else trial.state, "warn")
        pages.append(Page(title, badge, (Text(words, "warn"), snippet)))
    return pages


def render_report(subject: Subject, trials: Sequence[Trial], codes: Sequence[str]) -> str:
    """The whole file; what has the shape of a credential is masked."""
    cards = "".join(render_card(page) for page in pages_of(subject, trials, codes))
    return masked(_FRAME.format(title=escape(subject.title), style=STYLE, cards=cards))


def write_report(path: Path, subject: Subject, trials: Sequence[Trial], codes: Sequence[str]) -> Path:
    """Write the file, which must not be there yet.

    Raises
    ------
    ParameterError
        It is there, or cannot be written.
    """
    text = render_report(subject, trials, codes)
    try:
        with open(path, "x", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except FileExistsError:
        raise ParameterError(f"{path} is there already; choose another name") from None
    except OSError as error:
        raise ParameterError(f"{path} cannot be written: {os.strerror(error.errno or 0)}") from None
    return path
