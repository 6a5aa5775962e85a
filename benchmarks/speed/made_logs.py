"""Made-up event logs of any size, the same for the same seed: ``python benchmarks/speed/made_logs.py OUT``.

Runs of a support agent as several workers write them into one file: interleaved in bursts, well formed
but for one run in a hundred, from which an event is lost or in which one stands twice. An event
has 150 bytes to 20 KB, about 1,160 on average: model requests and answers are long, markers short.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SEED = 20260709
WORDS = (
    "order", "parcel", "refund", "customer", "invoice", "address", "warranty", "headset", "courier",
    "payment", "status", "policy", "reply", "Tuesday", "delayed", "approved", "declined", "shipped",
    "returned", "naïve", "“quoted”", "12.50", "#4711", "über", "退款",
)  # fmt: skip
TOOLS = (("lookup_order", "read"), ("send_mail", "idempotent"), ("issue_refund", "write"))


class _Run:
    """One run: the lines that are still to be written."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self.rng, self.id, self.seq = rng, str(uuid.UUID(int=rng.getrandbits(128))), 0
        self.at = number * 10**12
        self.lines = self._made()
        if number % 100 == 17:
            at = rng.randrange(1, len(self.lines) - 1)
            self.lines[at : at + 1] = [] if rng.random() < 0.5 else [self.lines[at]] * 2

    def _made(self) -> list[str]:
        rng, lines = self.rng, []
        lines.append(self._line("RunStarted", {"agent_def_hash": "support-v3", "input": self._text(40)}))
        for turn in range(rng.randrange(4, 14)):
            if rng.random() < 0.5:
                lines.append(self._line("NowObserved", {"now": self._time()}))
            if rng.random() < 0.3:
                lines.append(self._line("RandomObserved", {"value": rng.getrandbits(64)}))
            lines += self._model_call(turn)
            if rng.random() < 0.6:
                lines += self._tool_call()
        lines.append(self._line("RunCompleted", {"output": self._text(60)}))
        return lines

    def _model_call(self, turn: int) -> list[str]:
        rng = self.rng
        asked: dict[str, Any] = {"seq": self.seq, "request_hash": f"{rng.getrandbits(256):064x}"}
        if rng.random() < 0.5:
            messages = [{"role": "user", "content": self._text(_size(rng))} for _ in range(1 + turn % 3)]
            asked["request_body"] = {"model": "m", "temperature": 0.7, "messages": messages}
        answer = {"text": self._text(_size(rng)), "confidence": rng.random(), "finish": "stop"}
        usage = {"input_tokens": rng.randrange(200, 30_000), "output_tokens": rng.randrange(10, 900)}
        done = {"seq": self.seq, "response": answer, "usage": usage}
        return [self._line("ModelCallRequested", asked), self._line("ModelCallCompleted", done)]

    def _tool_call(self) -> list[str]:
        rng = self.rng
        tool, effect = rng.choice(TOOLS)
        asked = {
            "seq": self.seq,
            "tool": tool,
            "input": {"order": rng.randrange(10**6), "note": self._text(12)},
            "effect": effect,
            "idempotency_key": None if effect == "read" else f"{rng.getrandbits(64):016x}",
        }
        rows = [{"id": rng.randrange(10**12), "price": rng.random() * 100, "open": True}] * rng.randrange(
            1, 9
        )
        done = {"seq": self.seq, "output": {"rows": rows, "text": self._text(_size(rng))}}
        return [self._line("ToolCallRequested", asked), self._line("ToolCallCompleted", done)]

    def _line(self, kind: str, payload: dict[str, Any]) -> str:
        self.seq += 1
        envelope = {
            "run_id": self.id,
            "seq": self.seq - 1,
            "schema_version": 1,
            "recorded_at": self._time(),
            "event": {"kind": kind, "payload": payload},
        }
        return json.dumps(envelope, ensure_ascii=False, separators=(",", ":"))

    def _time(self) -> str:
        self.at += self.rng.randrange(10**9)
        seconds, ns = divmod(self.at, 10**9)
        return (
            f"2026-07-{1 + seconds // 86400 % 28:02d}T{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}"
            f":{seconds % 60:02d}.{ns:09d}Z"
        )

    def _text(self, words: int) -> str:
        """So many words, taken from a long text that was made once."""
        at = self.rng.randrange(len(_TEXT) - 4 * words - 1)
        return _TEXT[at : at + 6 * words]


def _size(rng: random.Random) -> int:
    return min(3300, int(40 + rng.expovariate(1 / 190)))


def _long_text() -> str:
    rng = random.Random(SEED)
    return " ".join(rng.choice(WORDS) for _ in range(40_000))


_TEXT = _long_text()


def lines(size: int, seed: int = SEED, at_once: int = 8) -> Iterator[bytes]:
    """Lines of about ``size`` bytes in all, of ``at_once`` runs at a time, each with its LF."""
    rng = random.Random(seed)
    made, begun = 0, at_once
    open_runs = [_Run(rng, n) for n in range(at_once)]
    while made < size:
        n = rng.randrange(len(open_runs))
        run = open_runs[n]
        burst = min(len(run.lines), 1 + rng.randrange(6))
        for line in run.lines[:burst]:
            data = line.encode() + b"\n"
            made += len(data)
            yield data
        del run.lines[:burst]
        if not run.lines:
            open_runs[n] = _Run(rng, begun)
            begun += 1
    for run in open_runs:
        for line in run.lines:
            yield line.encode() + b"\n"


def make(path: Path, size: int, seed: int = SEED) -> int:
    """Write a log of about ``size`` bytes; the number of its events."""
    events = 0
    with path.open("wb") as file:
        for line in lines(size, seed):
            file.write(line)
            events += 1
    return events


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--mb", type=float, default=100, help="size in MB (10^6 bytes)")
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    events = make(args.out, int(args.mb * 1e6), args.seed)
    print(f"{args.out}: {args.out.stat().st_size:,} bytes, {events:,} events")
    return 0


if __name__ == "__main__":
    sys.exit(main())
