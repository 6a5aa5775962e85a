"""P4: replay a growing recording, in process and over loopback, beside vcrpy matched on the body.

    python benchmarks/speed/p4_replay.py [--exchanges 20 200] [--asks 10] [--out FILE]

The recording is one of conversations of 40 turns whose request bodies grow to about 200 KB (mean about
100 KB). Prints one JSON document: wall and CPU milliseconds per request, for bytes equal to the
recording's and for a re-run with fresh tool-call ids; the cost of a replay besides its requests; many
replays at once. vcrpy is asked the same requests through the same client; since each request costs it a
scan of the recording, it is asked only ``--asks`` of them, evenly spread. It is left out where it is not
installed (pip install vcrpy).
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import importlib.metadata
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx

from afnb.core.cassette import Cassette, Exchange, Request, Response
from afnb.core.tape import Tape
from afnb.io.serve import Session
from afnb.io.server import LoopbackServer
from afnb.io.transport import client

ROOT = Path(__file__).resolve().parents[2]
TURNS = 40
PATH = "/v1/chat/completions"
JSON = (("content-type", "application/json"),)
P50_MS = {"in_process_first_replay": 1.0, "in_process": 1.0, "loopback_httpx": 2.0}
RATIO = 100.0


def words(rng: random.Random, count: int) -> str:
    return " ".join(f"w{rng.randrange(3000)}" for _ in range(count))


def messages_of(conversation: int, turns: int, ids: str) -> list[dict[str, Any]]:
    """A conversation as it has grown after so many turns; ``ids`` makes its tool-call ids."""
    rng = random.Random(conversation)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": words(rng, 600)},
        {"role": "user", "content": f"task {conversation}: {words(rng, 60)}"},
    ]
    for turn in range(turns):
        arguments = json.dumps({"query": words(rng, 20), "page": turn})
        call = {
            "id": f"call_{ids}_{turn}",
            "type": "function",
            "function": {"name": "search", "arguments": arguments},
        }
        messages.append({"role": "assistant", "content": words(rng, 30), "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": words(rng, 850)})
    return messages


def bodies(exchanges: int, ids: str) -> list[bytes]:
    """The request bodies of a run, in order."""
    found = []
    for n in range(exchanges):
        full = messages_of(n // TURNS, TURNS - 1, ids)
        body = {"model": "m", "temperature": 0, "messages": full[: 2 + 2 * (n % TURNS)]}
        found.append(json.dumps(body).encode())
    return found


def answer(n: int) -> bytes:
    message = {"role": "assistant", "content": f"answer {n} " + words(random.Random(n), 30)}
    usage = {"prompt_tokens": 1000, "completion_tokens": 40, "total_tokens": 1040}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(
        {"id": f"x{n}", "object": "chat.completion", "choices": [choice], "usage": usage}
    ).encode()


def cassette_of(sent: Sequence[bytes]) -> Cassette:
    return Cassette(
        "p4",
        tuple(
            Exchange(n, Request("POST", PATH, JSON, body), Response(200, JSON, answer(n)))
            for n, body in enumerate(sent)
        ),
    )


def timed(ask: Callable[[bytes], bytes], sent: Iterable[tuple[int, bytes]]) -> dict[str, Any]:
    """Ask each body; wall and CPU milliseconds, and that every answer was the right one."""
    walls = []
    cpu = time.process_time()
    for n, body in sent:
        start = time.perf_counter()
        got = ask(body)
        walls.append((time.perf_counter() - start) * 1000)
        if got != answer(n):
            raise AssertionError(f"request {n} got another answer")
    spent = (time.process_time() - cpu) * 1000
    walls_sorted = sorted(walls)
    return {
        "requests": len(walls),
        "p50_ms": round(statistics.median(walls), 3),
        "p99_ms": round(walls_sorted[min(len(walls) - 1, int(len(walls) * 0.99))], 3),
        "cpu_ms_per_request": round(spent / len(walls), 3),
        "requests_per_s": round(len(walls) / (sum(walls) / 1000), 1),
    }


def in_process(tape: Tape, sent: Sequence[bytes], module: str) -> dict[str, Any]:
    with client(Session(tape, live=False), module=module) as asking:
        return timed(
            lambda body: asking.post(PATH, content=body, headers=dict(JSON)).content, enumerate(sent)
        )


def loopback_httpx(tape: Tape, sent: Sequence[bytes]) -> dict[str, Any]:
    with LoopbackServer(Session(tape, live=False)) as server, httpx.Client(trust_env=False) as asking:
        url = server.base_url + PATH
        return timed(lambda body: asking.post(url, content=body, headers=dict(JSON)).content, enumerate(sent))


def loopback_http_client(tape: Tape, sent: Sequence[bytes]) -> dict[str, Any]:
    with LoopbackServer(Session(tape, live=False)) as server:
        line = http.client.HTTPConnection("127.0.0.1", server.port)

        def ask(body: bytes) -> bytes:
            line.request("POST", f"/{server.token}{PATH}", body, dict(JSON))
            return line.getresponse().read()

        with contextlib.closing(line):
            return timed(ask, enumerate(sent))


def vcrpy(cassette: Cassette, sent: Sequence[bytes], asks: int) -> dict[str, Any] | None:
    """The same through vcrpy, matched on method, path and body, from its JSON serializer's file."""
    try:
        import vcr  # type: ignore[import-untyped]
    except ImportError:
        return None
    interactions = [
        {
            "request": {
                "method": "POST",
                "uri": f"http://provider.invalid{PATH}",
                "body": exchange.request.body.decode(),
                "headers": {"content-type": ["application/json"]},
            },
            "response": {
                "status": {"code": 200, "message": "OK"},
                "headers": {"content-type": ["application/json"]},
                "body": {"string": exchange.response.body.decode()},
            },
        }
        for exchange in cassette.exchanges
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cassette.json"
        path.write_text(json.dumps({"version": 1, "interactions": interactions}), encoding="utf-8")
        chosen = [n * len(sent) // asks for n in range(asks)] if asks < len(sent) else range(len(sent))
        recorder = vcr.VCR(serializer="json", record_mode="none", match_on=["method", "path", "body"])
        start = time.perf_counter()
        with recorder.use_cassette(str(path)), httpx.Client(trust_env=False) as asking:
            loaded = time.perf_counter() - start
            url = f"http://provider.invalid{PATH}"
            done = timed(
                lambda body: asking.post(url, content=body, headers=dict(JSON)).content,
                [(n, sent[n]) for n in chosen],
            )
    return {**done, "load_s": round(loaded, 3)}


def per_replay(tape: Tape, times: int = 200) -> dict[str, float]:
    """What a replay costs besides its requests: a session with its transport, and a server."""

    def median(once: Callable[[], None]) -> float:
        walls = []
        for _ in range(times):
            start = time.perf_counter()
            once()
            walls.append((time.perf_counter() - start) * 1000)
        return round(statistics.median(walls), 3)

    def session() -> None:
        with client(Session(tape, live=False), module="httpx"):
            pass

    def server() -> None:
        with LoopbackServer(Session(tape, live=False)):
            pass

    return {"session_and_client_ms": median(session), "server_start_and_close_ms": median(server)}


def at_once(tape: Tape, sent: Sequence[bytes], replays: int, threads: int) -> float:
    """Requests per second of many replays of one tape, in so many threads."""
    todo = list(range(replays))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if not todo:
                    return
                todo.pop()
            in_process(tape, sent, "httpx")

    workers = [threading.Thread(target=work) for _ in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return round(replays * len(sent) / (time.perf_counter() - start), 1)


def measure(exchanges: int, asks: int) -> dict[str, Any]:
    sent, fresh = bodies(exchanges, "recorded"), bodies(exchanges, "fresh")
    cassette = cassette_of(sent)
    start = time.perf_counter()
    tape = Tape(cassette)
    index_s = time.perf_counter() - start
    start = time.perf_counter()
    Session(tape, live=False)
    facts_s = time.perf_counter() - start
    result: dict[str, Any] = {
        "exchanges": exchanges,
        "mean_body_kb": round(sum(map(len, sent)) / len(sent) / 1024, 1),
        "largest_body_kb": round(max(map(len, sent)) / 1024, 1),
        "index_s": round(index_s, 3),
        "first_session_s": round(facts_s, 3),
        "in_process_first_replay": in_process(tape, sent, "httpx"),
        "in_process": in_process(tape, sent, "httpx"),
        "loopback_httpx": loopback_httpx(tape, sent),
        "loopback_http_client": loopback_http_client(tape, sent),
        "in_process_fresh_ids_first_replay": in_process(tape, fresh, "httpx"),
        "in_process_fresh_ids_later_replay": in_process(tape, fresh, "httpx"),
        "per_replay": per_replay(tape),
    }
    with contextlib.suppress(ImportError):
        import httpx2  # noqa: F401

        result["in_process_httpx2"] = in_process(tape, sent, "httpx2")
    other = vcrpy(cassette, sent, asks)
    if other is not None:
        result["vcrpy_on_body"] = other
        result["ratio_to_vcrpy"] = {
            "in_process": round(other["p50_ms"] / result["in_process"]["p50_ms"], 1),
            "in_process_first_replay": round(
                other["p50_ms"] / result["in_process_first_replay"]["p50_ms"], 1
            ),
            "in_process_fresh_ids_first_replay": round(
                other["p50_ms"] / result["in_process_fresh_ids_first_replay"]["p50_ms"], 1
            ),
            "in_process_cpu": round(
                other["cpu_ms_per_request"] / max(result["in_process"]["cpu_ms_per_request"], 1e-3), 1
            ),
        }
    result["met"] = {f"{way}_p50": result[way]["p50_ms"] < limit for way, limit in P50_MS.items()}
    if other is not None and exchanges >= 200:
        result["met"]["ratio_to_vcrpy"] = result["ratio_to_vcrpy"]["in_process_first_replay"] >= RATIO
    return result


def revision() -> str:
    found = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--exchanges", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--asks", type=int, default=10, help="how many requests vcrpy is asked")
    parser.add_argument("--out", help="write the document to this file too")
    args = parser.parse_args(argv)
    cases = [measure(n, args.asks) for n in args.exchanges]
    sent = bodies(TURNS, "recorded")
    tape = Tape(cassette_of(sent))
    document = {
        "benchmark": "p4_replay",
        "command": "python benchmarks/speed/p4_replay.py",
        "revision": revision(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": {name: version(name) for name in ("httpx", "httpx2", "vcrpy")},
        "target_p50_ms": P50_MS,
        "target_ratio": RATIO,
        "cases": cases,
        "requests_per_s_of_32_replays": {str(n): at_once(tape, sent, 32, n) for n in (1, 4, 16)},
    }
    text = json.dumps(document, indent=1) + "\n"
    print(text, end="")
    if args.out:
        Path(args.out).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
