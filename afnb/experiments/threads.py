"""Call a function that may hang, raise, or be a coroutine, and always come back with plain data."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from afnb.experiments.context import AgentContext

_POLL_S = 0.05
_CANCEL_S = 1.0


@dataclass(frozen=True, slots=True)
class Called:
    """How a call ended."""

    status: Literal["finished", "crashed", "timeout", "stopped"]
    value: Any = None
    error: str | None = None
    traceback: str | None = None
    wall_s: float = 0.0


class _Task:
    """The call in its thread: what it returned or raised, and a way to cancel it if it is a coroutine."""

    def __init__(self, f: Callable[[AgentContext], Any], ctx: AgentContext) -> None:
        self._f = f
        self._ctx = ctx
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._lock = threading.Lock()
        self.done = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None

    def __call__(self) -> None:
        try:
            value = self._f(self._ctx)
            if inspect.isawaitable(value):
                value = asyncio.run(self._wait(value))
            self.value = value
        except BaseException as error:  # noqa: BLE001 - whatever the user's function raises is data here
            self.error = error
        finally:
            self.done.set()

    async def _wait(self, value: Any) -> Any:
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.current_task()
        try:
            return await value
        finally:
            await self._ctx.aclose()
            with self._lock:
                self._loop = self._task = None

    def cancel(self) -> bool:
        """Cancel the coroutine; False if there is none to cancel."""
        with self._lock:
            if self._loop is None or self._task is None:
                return False
            self._loop.call_soon_threadsafe(self._task.cancel)
        return True


def call_with_limit(
    f: Callable[[AgentContext], Any],
    ctx: AgentContext,
    *,
    timeout_s: float | None,
    stop: threading.Event | None,
    give_up: Callable[[], None],
) -> Called:
    """Call ``f(ctx)`` in a thread of its own and wait for its end, its time-out or ``stop``.

    ``give_up`` is called before a call that goes on is left behind: from then on it must get nothing.
    """
    start = time.monotonic()
    task = _Task(f, ctx)
    context = contextvars.copy_context()
    thread = threading.Thread(target=lambda: context.run(task), name="afnb-agent", daemon=True)
    thread.start()
    try:
        status = _wait_for(task.done, None if timeout_s is None else start + timeout_s, stop)
    except BaseException:
        give_up()
        task.cancel()
        raise
    wall = time.monotonic() - start
    if status is None:
        thread.join()
        if task.error is None:
            return Called("finished", task.value, wall_s=wall)
        return Called("crashed", None, _sentence(task.error), _trace(task.error), wall)
    give_up()
    ended = task.cancel() and task.done.wait(_CANCEL_S)
    what = f"did not return within {timeout_s} s" if status == "timeout" else "was stopped"
    left = "it was cancelled" if ended else "its requests are refused from now on, its thread cannot be ended"
    return Called(status, None, f"the agent function {what}; {left}", None, wall)


def _wait_for(
    done: threading.Event, deadline: float | None, stop: threading.Event | None
) -> Literal["timeout", "stopped"] | None:
    while True:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return None if done.is_set() else "timeout"
        pause = left if stop is None else min(_POLL_S, _POLL_S if left is None else left)
        if done.wait(pause):
            return None
        if stop is not None and stop.is_set():
            return None if done.is_set() else "stopped"


def _sentence(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide which error it was
        text = "(its text cannot be shown)"
    return f"the agent function raised {type(error).__name__}: {text}"[:2000]


def _trace(error: BaseException) -> str:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return "".join(lines)[-20_000:]
