"""Reports of batches: one HTML file that needs nothing else, Markdown and JSON, from the same parts.

::

    Batch ─ model ─┬─ html       summary, table, one card a pair; no asset, no request
                   ├─ markdown   the same words
                   └─ jsonform   the same parts
"""

from __future__ import annotations

from afnb.experiments.batch import attribute_many
from afnb.experiments.batch_result import REPORTS, Batch, read_batch
from afnb.report.html import render_html
from afnb.report.jsonform import render_json
from afnb.report.markdown import render_markdown
from afnb.report.model import report_of

__all__ = [
    "Batch",
    "attribute_many",
    "read_batch",
    "render_html",
    "render_json",
    "render_markdown",
    "report_of",
]

REPORTS.update(
    {
        ".html": lambda batch: render_html(report_of(batch)),
        ".md": lambda batch: render_markdown(report_of(batch)),
        ".json": lambda batch: render_json(report_of(batch)),
    }
)
