"""Record and replay one agent in this process, with the client that a section of the documents makes.

Usage: in_notebook.py MODULE CODE_FILE CASSETTE ORIGIN; prints what came of it as JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import afnb


def main(module: str, code_file: str, cassette: str, origin: str) -> None:
    agent, code = importlib.import_module(module), Path(code_file).read_text(encoding="utf-8")
    names: dict[str, Any] = {"TASK": "Oslo: 4 C. What do I pack?"}
    for dotted in re.findall(r"\b[a-z_]+(?:\.[a-z_]+)*(?=\.[A-Za-z_]+\()", code):
        top = dotted.split(".")[0]
        if top not in ("recorder", "http", "client"):
            importlib.import_module(dotted)
            names[top] = sys.modules[top]

    def use(recorder: Any) -> list[str]:
        made: dict[str, Any] = {**names, "recorder": recorder}
        exec(code, made)  # the documents' own lines
        said = [agent.run(made["client"])]
        if "async_client" in made:
            said.append(asyncio.run(agent.arun(made["async_client"])))
        return said

    with afnb.Recorder(cassette, origin) as recorder:
        said = use(recorder)
    again = afnb.replay(cassette, agent=lambda ctx: json.dumps(use(ctx)))
    report = again.report
    print(
        json.dumps(
            {
                "said": said,
                "again": json.loads(again.agent.value) if again.agent.value else str(again.agent),
                "exchanges": len(recorder.cassette),
                "counts": [report.served, report.live, report.missed],
                "first_miss": report.first_miss.reason if report.first_miss else None,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
