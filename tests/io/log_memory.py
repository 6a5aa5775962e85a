"""Run by the tests of memory, in a process of its own: ``python log_memory.py read|stream LOG``.

Prints how much memory was used at most above that after the imports, in bytes, and the table's size.
``stream`` adds up the peaks of this process and of every process it started.
"""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import afnb


def peak(pid: int | str = "self") -> int:
    """The most memory a process has had."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return 1024 * int(status.split("VmHWM:")[1].split()[0]) if "VmHWM:" in status else 0


def started() -> list[int]:
    """The processes below this one."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
            except OSError:
                continue
            parents.setdefault(int(fields.split()[1]), []).append(int(entry.name))
    found, todo = [], [os.getpid()]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def main() -> None:
    way, path = sys.argv[1], sys.argv[2]
    with Path(path).open("rb") as log:
        first = b"".join(log.readlines(100_000))
    afnb.validate(afnb.read_events(io.BytesIO(first)))  # what is imported on first use
    before = peak()
    if way == "read":
        events = afnb.read_events(path)
        report = afnb.validate(events)
        found = {"peak": peak() - before, "table": events.nbytes, "processes": 1}
    else:
        report = afnb.validate_files(path, n_jobs=2)
        below = started()
        found = {"peak": peak() + sum(map(peak, below)), "table": 0, "processes": 1 + len(below)}
    print(json.dumps({**found, "events": report.events, "broken": report.violations.num_rows}))


if __name__ == "__main__":
    main()
