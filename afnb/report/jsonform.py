"""A report as JSON: the same parts, for programs."""

from __future__ import annotations

import json
from typing import Any

import afnb
from afnb.core.page_json import page_to_json, part_to_json
from afnb.report.model import Report
from afnb.tables.schemas import SCHEMA_VERSION


def report_to_json(report: Report) -> dict[str, Any]:
    """The report as plain JSON values, versioned.

    Parameters
    ----------
    report
        As ``report_of`` gives it.
    """
    names = [column.name for column in report.columns]
    return {
        "afnb": "report",
        "schema_version": SCHEMA_VERSION,
        "afnb_version": afnb.__version__,
        "title": report.title,
        "badge": report.badge.text,
        "tiles": [{"number": tile.number, "words": tile.words} for tile in report.tiles],
        "lead": [part_to_json(part) for part in report.lead],
        "sections": [
            {"title": section.title, "parts": [part_to_json(part) for part in section.parts]}
            for section in report.sections
        ],
        "columns": names,
        "pairs": [
            {
                "name": entry.name,
                "state": entry.state,
                "cells": list(entry.cells),
                "card": page_to_json(entry.page),
            }
            for entry in report.entries
        ],
    }


def render_json(report: Report) -> str:
    """The report as one JSON document."""
    return json.dumps(report_to_json(report), ensure_ascii=False, allow_nan=False, indent=1) + "\n"
