"""An agent for the crash tests, and a program that runs it and kills itself at every event.

Run as ``python crash_agent.py FOLDER ROUNDS``: for each way of dying, each event and each round it forks a
child that runs the agent on a log of its own and dies there by SIGKILL. Each call the agent makes leaves a
line in the log's ``.world`` file, so that the reader of the ruins knows what really happened.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from afnb.core import events as ev
from afnb.core.instants import Instant
from afnb.core.wire import write_envelope
from afnb.io.context import AgentContext
from afnb.io.eventfile import EventFile
from afnb.io.executors import Tool
from afnb.io.logged import LoggedAgent

RUN_ID = "00000000-0000-4000-8000-00000000000a"
WAYS = ("after", "torn", "called")
CALLS = {5: "plan", 7: "search", 9: "reserve", 11: "pay", 15: "plan"}
EVENTS = 19


class World:
    """Who really does things; ``dies_in`` is the call that kills the process once it is done."""

    def __init__(self, log: str, dies_in: str | None = None) -> None:
        self.path = f"{log}.world"
        self.dies_in = dies_in
        self.calls = 0

    def act(self, name: str) -> None:
        self.calls += 1
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, f"{name}\n".encode())
        os.close(fd)
        if self.dies_in == f"{name}:{self.calls}":
            os.kill(os.getpid(), signal.SIGKILL)

    def done(self) -> list[str]:
        if not os.path.exists(self.path):
            return []
        with open(self.path) as file:
            return file.read().split()

    def model(self, request: Any) -> Any:
        self.act("plan")
        return {"choices": [{"message": {"content": "go on"}}], "usage": {"prompt_tokens": 5}}

    def search(self, query: Any) -> Any:
        self.act("search")
        return {"found": ["€ 7", 2**70]}

    def reserve(self, item: Any, idempotency_key: str | None) -> Any:
        self.act("reserve")
        return {"key": idempotency_key}

    def pay(self, amount: Any) -> Any:
        self.act("pay")
        return "paid"

    def agent(self) -> LoggedAgent:
        tools = (Tool(self.search, "read"), Tool(self.reserve, "idempotent"), Tool(self.pay, "write"))
        return LoggedAgent(body, model=self.model, tools=tools, definition="crash agent 1", is_graph=True)


def body(ctx: AgentContext) -> Any:
    """19 events: head, node, clock, random, five calls, approval, node, end."""
    with ctx.node("work"):  # 1 and 17
        start, bits = ctx.now(), ctx.random()  # 2, 3
        ctx.branch_taken("work", "yes")  # 4
        plan = ctx.model_call({"messages": [{"role": "user", "content": ctx.input}]})  # 5, 6
        found = ctx.tool_call("search", plan.response)  # 7, 8
        held = ctx.tool_call("reserve", found)  # 9, 10
        paid = ctx.tool_call("pay", {"amount": 7})  # 11, 12
        approved = ctx.suspend("is it right?", {"type": "boolean"})  # 13, 14
        last = ctx.model_call({"messages": [{"role": "user", "content": [paid, approved, bits]}]})  # 15, 16
    return {"held": held, "start": str(start), "last": last.response}


def run(log: str, world: World, **options: Any) -> Any:
    return world.agent().run(log, clock=lambda: Instant(7), bits=lambda: 2**64 - 1, **options)


def finish(log: str, world: World, **options: Any) -> Any:
    """Run, and answer the run where it parks."""
    outcome = run(log, world, **options)
    return run(log, world, answer=True) if outcome.status == "parked" else outcome


def die(log: str, way: str, seq: int) -> None:
    """Run until this event, and die: after it, half-way through its line, or in the call it asks for."""
    name = CALLS.get(seq)
    order = [CALLS[s] for s in sorted(CALLS)].index
    dies_in = None
    if way == "called":
        if name is None:
            return
        dies_in = f"{name}:{5 if seq == 15 else order(name) + 1}"
    world = World(log, dies_in)
    append = EventFile.append

    def dying(self: EventFile, envelope: ev.Envelope) -> None:
        if way == "torn" and envelope.seq == seq:
            line = write_envelope(envelope).encode()
            os.write(self._fd, line[: len(line) * 2 // 3])
            os.kill(os.getpid(), signal.SIGKILL)
        append(self, envelope)
        if way == "after" and envelope.seq == seq:
            os.kill(os.getpid(), signal.SIGKILL)

    EventFile.append = dying  # type: ignore[method-assign]
    outcome = run(log, world, run_id=RUN_ID, input="order 7", fsync="never")
    if outcome.status == "parked":
        run(log, world, answer=True, fsync="never")


def main(folder: str, rounds: int) -> None:
    for way in WAYS:
        for seq in range(EVENTS):
            if way == "called" and seq not in CALLS:
                continue
            for number in range(rounds):
                child = os.fork()
                if child == 0:
                    die(f"{folder}/{way}-{seq}-{number}.jsonl", way, seq)
                    os._exit(3)  # it should be dead by now
                _, status = os.waitpid(child, 0)
                if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
                    raise SystemExit(f"{way} {seq}: ended with {status}")
    print("done")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
