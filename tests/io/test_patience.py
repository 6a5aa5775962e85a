"""The agent's own time-out holds on live calls through the transports, sync and async."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from afnb.core.cassette import Request, Response
from afnb.io.reply import Upstream
from afnb.io.serve import Session
from afnb.io.transport import async_client, client


class Slow(Upstream):
    """Answers the first request only when told to, every other at once."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked = 0

    def answer(self, request: Request) -> Response:
        self.asked += 1
        if self.asked == 1:
            self.go.wait(30)
        return Response(200, (("content-type", "application/json"),), b'{"ok":true}')


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.go.set()


def test_a_client_gives_up_and_asks_again(slow: Slow) -> None:
    session = Session()
    with client(session, slow, module="httpx", timeout=0.05) as http:
        with pytest.raises(httpx.ReadTimeout, match=r"0\.05 s, the agent's own time-out"):
            http.get("/v1/models")
        assert http.get("/v1/models").json() == {"ok": True}
    report = session.report()
    assert (report.abandoned, report.upstream_errors) == (1, ())
    assert len(session.cassette()) == 1


def test_an_asynchronous_client_gives_up_as_well(slow: Slow) -> None:
    session = Session()

    async def ask() -> Any:
        async with async_client(session, slow, module="httpx", timeout=0.05) as http:
            with pytest.raises(httpx.ReadTimeout, match="own time-out"):
                await http.get("/v1/models")
            return (await http.get("/v1/models")).json()

    assert asyncio.run(ask()) == {"ok": True}
    assert session.report().abandoned == 1


def test_without_a_time_out_it_waits_in_the_callers_own_thread() -> None:
    threads: list[threading.Thread] = []

    def answer(request: Request) -> Any:
        threads.append(threading.current_thread())
        return {"ok": True}

    with client(Session(), answer, module="httpx") as http:
        assert http.get("/").json() == {"ok": True}
    with client(Session(), answer, module="httpx", timeout=30) as http:
        assert http.get("/").json() == {"ok": True}
    assert threads[0] is threading.current_thread()
    assert threads[1] is not threads[0]
