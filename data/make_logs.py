"""Make the bundled event logs again: ``python data/make_logs.py``. Same files every time.

``logs/support.jsonl`` holds forty interleaved runs of a made-up support agent, as several workers would
write them into one file: all well formed, some parked, failed, or stopped in the middle of a call.
``logs/damaged.jsonl`` holds twelve others as logs look after a bad day: lines lost, doubled and torn.
"""

from __future__ import annotations

import hashlib
import random
import uuid
from pathlib import Path

from afnb.core import events as ev
from afnb.core.cursor import ReplayCursor
from afnb.core.instants import Instant
from afnb.core.wire import write_envelope
from afnb.testing.logs import Script, Step, drive

HERE = Path(__file__).resolve().parent
SEED = 20260709
START_NS = Instant.parse("2026-07-09T08:00:00Z").ns
QUESTIONS = (
    "Where is my parcel?",
    "I want my money back.",
    "The headset is broken.",
    "Please change my address.",
)
TOOLS = (
    ("lookup_order", "read"),
    ("refund_policy", "read"),
    ("issue_refund", "write"),
    ("send_mail", "idempotent"),
)


def script(rng: random.Random) -> Script:
    """What one run does."""
    question = rng.choice(QUESTIONS)
    steps = [
        Step("begin", {"agent_def_hash": "support-v3", "labels": {"team": "support"}}, {"question": question})
    ]
    steps.append(Step("now", {}, Instant(START_NS + rng.randrange(10**12))))
    for turn in range(rng.randrange(1, 5)):
        usage = ev.TokenUsage(rng.randrange(200, 3000), rng.randrange(10, 300))
        answer = {"text": f"Thinking about it, turn {turn + 1}.", "confidence": round(rng.random(), 3)}
        asked = {
            "request_hash": f"{rng.getrandbits(64):016x}",
            "request_body": {"turn": turn, "question": question},
        }
        steps.append(Step("model_call", asked, (answer, usage)))
        if rng.random() < 0.7:
            tool, effect = rng.choice(TOOLS)
            key = None if effect == "read" else f"{rng.getrandbits(48):012x}"
            call = {
                "tool": tool,
                "input": {"order": rng.randrange(1000)},
                "effect": effect,
                "idempotency_key": key,
            }
            steps.append(Step("tool_call", call, {"ok": rng.random() < 0.9}))
        if rng.random() < 0.2:
            steps.append(Step("random", {}, rng.getrandbits(64)))
    steps.append(Step("now", {}, Instant(START_NS + 10**12 + rng.randrange(10**12))))
    end = rng.random()
    if end < 0.6:
        steps.append(Step("complete_run", {"output": "Done."}))
    elif end < 0.75:
        steps.append(Step("fail_run", {"error": "the order system did not answer"}))
    elif end < 0.85:
        steps.append(
            Step(
                "suspend",
                {"reason": "a person must approve this refund", "input_schema": {"type": "boolean"}},
            )
        )
    return tuple(steps)


def run(rng: random.Random) -> list[str]:
    """The lines of one run, perhaps stopped before its end."""
    run_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    at = START_NS + rng.randrange(3600) * 10**9

    def clock(seq: int) -> Instant:
        return Instant(at + seq * 1_250_000_000)

    events = drive(ReplayCursor(), script(rng), run_id=run_id, clock=clock)
    kept = len(events) if rng.random() < 0.8 else rng.randrange(1, len(events))
    return [write_envelope(e) for e in events[:kept]]


def interleaved(rng: random.Random, runs: list[list[str]]) -> list[str]:
    """All lines, each run's in its own order."""
    order = [n for n, lines in enumerate(runs) for _ in lines]
    rng.shuffle(order)
    left = [iter(lines) for lines in runs]
    return [next(left[n]) for n in order]


def damaged(rng: random.Random, runs: list[list[str]]) -> str:
    """Runs with one damage each, one after the other, the last line torn."""
    out: list[str] = []
    for n, run_lines in enumerate(runs):
        lines = list(run_lines)
        way = ("whole", "lost", "doubled", "swapped", "headless", "unreadable")[n % 6]
        at = rng.randrange(1, len(lines) - 1) if len(lines) > 2 else 0
        if way == "lost" and at:
            del lines[at]
        elif way == "doubled":
            lines.insert(at, lines[at])
        elif way == "swapped" and at:
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
        elif way == "headless":
            del lines[0]
        elif way == "unreadable" and at:
            lines[at] = lines[at][: len(lines[at]) // 2]
        out += lines
    return "\n".join([*out, out[0][:80]])


def contents() -> dict[str, str]:
    """Each file's name and text."""
    rng = random.Random(SEED)
    runs = [run(rng) for _ in range(40)]
    support = "".join(f"{line}\n" for line in interleaved(rng, runs))
    others = [lines for lines in (run(rng) for _ in range(30)) if len(lines) > 3][:12]
    return {"support.jsonl": support, "damaged.jsonl": damaged(rng, others)}


def main() -> None:
    """Write the files and print their checksums."""
    folder = HERE / "logs"
    folder.mkdir(exist_ok=True)
    for name, text in contents().items():
        (folder / name).write_bytes(text.encode("utf-8"))
        print(f"{hashlib.sha256(text.encode('utf-8')).hexdigest()}  logs/{name}")


if __name__ == "__main__":
    main()
