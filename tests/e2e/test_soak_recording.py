"""Many requests at once through the proxy, some of whose connections break: nothing is lost or mixed."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from afnb.core.cassette import Request
from afnb.io.conversation import Conversation
from afnb.io.formats.cassette import read_cassette
from afnb.io.record import Recorder
from afnb.testing.provider import FakeProvider, Fault

WORKERS = 16


def number_of(body: bytes) -> int:
    return int(json.loads(body)["messages"][0]["content"])


def policy(talk: Conversation, rng: Any) -> str:
    return f"<{talk.user}> " + "word " * (int(talk.user) % 50)


def fate(number: int, request: Request) -> Fault | None:
    asked = number_of(request.body)
    if asked % 40 == 7:
        return Fault(drop=True)
    return Fault(cut_after=40) if asked % 40 == 27 else None


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.soak)])
def test_nothing_is_lost_or_mixed(tmp_path: Path, count: int) -> None:
    answers: dict[int, str] = {}
    out = tmp_path / "x.json"

    def work(first: int) -> None:
        with httpx.Client(trust_env=False, timeout=60) as client:
            for i in range(first, count, WORKERS):
                body = {"model": "m", "stream": i % 2 == 0, "messages": [{"role": "user", "content": str(i)}]}
                try:
                    with client.stream("POST", f"{recorder.base_url}/v1/messages", json=body) as answer:
                        parts = []
                        for part in answer.iter_bytes():
                            parts.append(part)
                            if i % 100 == 0:
                                time.sleep(0.001)  # a slow reader
                        answers[i] = f"{answer.status_code} {b''.join(parts).decode()}"
                except httpx.HTTPError as error:
                    answers[i] = type(error).__name__

    with FakeProvider(policy, faults=fate) as provider, Recorder(out, provider.url) as recorder:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(answers) == count
    dropped = {i for i in range(count) if i % 40 == 7}
    cut = {i for i in range(count) if i % 40 == 27}
    for i, answer in answers.items():
        if i in dropped:
            assert answer.startswith("502 "), (i, answer)
        elif i in cut:
            assert answer == "RemoteProtocolError", (i, answer)
        else:
            assert answer.startswith("200 "), (i, answer)
            assert f"<{i}>" in answer
    exchanges = read_cassette(out).exchanges
    assert sorted(number_of(e.request.body) for e in exchanges) == sorted(set(range(count)) - dropped)
    for exchange in exchanges:
        i = number_of(exchange.request.body)
        assert exchange.response.incomplete is (i in cut)
        assert i in cut or f"<{i}>".encode() in exchange.response.body
    assert len(recorder.report().upstream_errors) == len(dropped)
