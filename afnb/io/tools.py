"""``tool``: wrap a function that an agent calls, so that its calls are recorded, replayed and held back.

The wrapped function finds the run it belongs to by itself: in this process through a context variable
(a ``Function`` agent, an open ``Recorder``), in an agent that runs as a command through the environment
and the loopback server. Where no run is going on it is the function, nothing else.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import inspect
import json
import os
import threading
import urllib.error
import urllib.request
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from afnb.core.jsonvalue import Json, dumps, loads
from afnb.errors import AfnbError, ParameterError, ToolRefused
from afnb.io.toolturn import EFFECTS, ToolTurn
from afnb.io.toolvalues import arguments_of, as_recorded, failure, type_name

P = ParamSpec("P")
R = TypeVar("R")

SESSION_VARIABLE = "AFNB_SESSION"
"""Where a command finds the loopback server of its run."""

CONTROL = "/@afnb/tools/"
TIMEOUT_S = 60.0


class Desk(Protocol):
    """Who says what becomes of a call: a session's ``ToolDesk``, or one in another process."""

    def begin(
        self, name: str, arguments: Json, effect: str, *, stubbed: bool = False, over: str | None = None
    ) -> ToolTurn:
        """What to do with a call."""
        ...

    def end(
        self,
        token: int,
        output: Json = None,
        *,
        error: str | None = None,
        error_type: str | None = None,
        unrecordable: str | None = None,
    ) -> None:
        """What came of it."""
        ...

    def announce(self, tools: dict[str, str]) -> None:
        """Which tools are wrapped where the agent runs, with their effects, called or not."""
        ...


_wrapped: weakref.WeakSet[_Wrapped] = weakref.WeakSet()


def wrapped_here() -> dict[str, str]:
    """The wrapped tools of this process, with their effects; of several of one name the most careful."""
    found: dict[str, str] = {}
    for one in sorted(_wrapped, key=lambda w: EFFECTS.index(w.effect)):
        found[one.name] = one.effect
    return dict(sorted(found.items()))


_current: ContextVar[Desk | None] = ContextVar("afnb_tools", default=None)
_open: list[Desk] = []
_lock = threading.Lock()


@contextmanager
def attached(desk: Desk) -> Iterator[None]:
    """Within it, wrapped tools called here belong to this desk's run."""
    token = _current.set(desk)
    with _lock:
        _open.append(desk)
    try:
        yield
    finally:
        desk.announce(wrapped_here())
        with _lock:
            _open.remove(desk)
        try:
            _current.reset(token)
        except ValueError:  # closed in another context than it was opened in
            _current.set(None)


def desk_of(name: str) -> Desk | None:
    """The run that a call belongs to, or None where none is going on.

    Raises
    ------
    ToolRefused
        Several runs are going on in this process, and the calling thread belongs to none of them.
    """
    mine = _current.get()
    if mine is not None:
        return mine
    with _lock:
        going_on = list({id(desk): desk for desk in _open}.values())
    if len(going_on) == 1:
        return going_on[0]
    if going_on:
        raise ToolRefused(
            f"the tool {name} was called in a thread that belongs to none of the {len(going_on)} runs going "
            "on here; start such threads with contextvars.copy_context().run, so that they know their run"
        )
    address = os.environ.get(SESSION_VARIABLE)
    return _remote(address) if address else None


@functools.cache
def _remote(address: str) -> _Remote:
    """The desk at an address; it is told of the tools here at once, and again when the process ends."""
    desk = _Remote(address)
    desk.announce(wrapped_here())
    atexit.register(lambda: desk.announce(wrapped_here()))
    return desk


def _say_hello() -> None:
    """Tell the run, if this process belongs to one, of tools that were never called."""
    address = os.environ.get(SESSION_VARIABLE)
    if address and _wrapped and not _open:
        _remote(address)


atexit.register(_say_hello)


class _Remote:
    """The desk of a run in the process that started this one."""

    def __init__(self, address: str) -> None:
        self._address = address

    def announce(self, tools: dict[str, str]) -> None:
        with contextlib.suppress(ToolRefused):  # the first call says that nobody is there
            self._send("announce", {"tools": tools}, "that was called")

    def begin(
        self, name: str, arguments: Json, effect: str, *, stubbed: bool = False, over: str | None = None
    ) -> ToolTurn:
        asked = {"name": name, "arguments": arguments, "effect": effect, "stubbed": stubbed, "over": over}
        return ToolTurn.from_json(self._send("begin", asked, name))

    def end(self, token: int, output: Json = None, **how: str | None) -> None:
        self._send("end", {"token": token, "output": output, **how}, "that was called")

    def _send(self, what: str, value: dict[str, Any], name: str) -> dict[str, Any]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self._address + CONTROL + what, dumps(value).encode(), headers)
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                found: dict[str, Any] = json.load(answer)
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise ToolRefused(
                f"the tool {name} cannot reach the run it belongs to ({error}); the run is over, or "
                f"{SESSION_VARIABLE} is left from another one: unset it to use the tool by itself"
            ) from None
        return found


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    effect: str = ...,
    name: str | None = ...,
    stub: Any = ...,
    ignore: tuple[str, ...] = ...,
    encode: Callable[[Any], Json] | None = ...,
    decode: Callable[[Any], Any] | None = ...,
) -> Callable[P, R]: ...
@overload
def tool(
    function: None = None,
    /,
    *,
    effect: str = ...,
    name: str | None = ...,
    stub: Any = ...,
    ignore: tuple[str, ...] = ...,
    encode: Callable[[Any], Json] | None = ...,
    decode: Callable[[Any], Any] | None = ...,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: str = "write",
    name: str | None = None,
    stub: Any = None,
    ignore: tuple[str, ...] = (),
    encode: Callable[[Any], Json] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Any:
    """Wrap a function that an agent calls as a tool, plain or async, as a decorator or by a call.

    While a run is recorded, each call is written down beside the model's exchanges. In a replay the recorded
    outcome is given, exceptions included, and the function is not called, up to the branch point. After it
    ``read`` and ``idempotent`` tools are called, ``write`` ones only if they are allowed by name or have a
    stand-in. Outside of recordings and replays the function is called, and nothing else happens.

    Parameters
    ----------
    function
        The tool.
    effect
        ``"read"`` (may be called again), ``"idempotent"`` (calling it twice is as good as once) or
        ``"write"`` (anything else; the careful default).
    name
        By default the function's; give the name under which the model calls it.
    stub
        A stand-in for a ``write`` tool after the branch point: a function of the same arguments, or a value.
    ignore
        Names of parameters that are no part of what is asked (a context, a client); ``self`` and ``cls`` are
        left out by themselves.
    encode, decode
        From what the function gives to JSON, and back, for tools whose results are no JSON values.

    Returns
    -------
    Callable
        The wrapped function (without ``function``: a decorator).

    Raises
    ------
    ParameterError
        An unknown effect, something that is no function, or a generator.

    Examples
    --------
    >>> @tool(effect="read")
    ... def look_up(order: str) -> dict[str, str]:
    ...     return {"order": order, "state": "sent"}
    >>> look_up("8841")
    {'order': '8841', 'state': 'sent'}
    """
    if effect not in EFFECTS:
        raise ParameterError(f"effect is {effect!r}; expected one of {', '.join(EFFECTS)}")
    if isinstance(cast(object, ignore), str):
        raise ParameterError(f"ignore={ignore!r}: give a list of parameter names, e.g. ({ignore!r},)")
    if function is None:
        return functools.partial(
            tool, effect=effect, name=name, stub=stub, ignore=ignore, encode=encode, decode=decode
        )
    if not callable(function):
        raise ParameterError(f"a tool is a function, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ParameterError(
            f"the tool {_name(function)} is a generator; wrap the function that gives its whole result"
        )
    wrapped = _Wrapped(function, name or _name(function), effect, stub, tuple(ignore), encode, decode)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await wrapped.call_async(args, kwargs)

        return call_async

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapped.call(args, kwargs)

    return call


class _Wrapped:
    """A tool and its settings."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        effect: str,
        stub: Any,
        ignore: tuple[str, ...],
        encode: Callable[[Any], Json] | None,
        decode: Callable[[Any], Any] | None,
    ) -> None:
        self.function = function
        self.name = name
        self.effect = effect
        self.stub = stub
        self.ignore = ignore
        self.encode = encode
        self.decode = decode
        _wrapped.add(self)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call of a plain function."""
        desk = desk_of(self.name)
        if desk is None:
            return self.function(*args, **kwargs)
        turn = desk.begin(
            self.name, self._arguments(args, kwargs), self.effect, stubbed=self.stub is not None
        )
        function = self._function(turn)
        if function is None:
            return self._given(turn)
        try:
            value = function(*args, **kwargs)
        except Exception as error:
            desk.end(turn.token, **failure(error))
            raise
        desk.end(turn.token, **self._outcome(value))
        return value

    async def call_async(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call of an async function; the desk of another process is asked in a thread."""
        desk = desk_of(self.name)
        if desk is None:
            return await self.function(*args, **kwargs)
        begin = functools.partial(
            desk.begin, self.name, self._arguments(args, kwargs), self.effect, stubbed=self.stub is not None
        )
        turn = await _off_the_loop(desk, begin)
        function = self._function(turn)
        if function is None:
            return self._given(turn)
        try:
            value = function(*args, **kwargs)
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:
            await _off_the_loop(desk, functools.partial(desk.end, turn.token, **failure(error)))
            raise
        await _off_the_loop(desk, functools.partial(desk.end, turn.token, **self._outcome(value)))
        return value

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Json:
        return arguments_of(self.function, self.name, args, kwargs, self.ignore)

    def _function(self, turn: ToolTurn) -> Callable[..., Any] | None:
        """What is to be called now; None where the outcome is known."""
        if turn.do == "run":
            return self.function
        if turn.do == "stub":
            stub = self.stub
            return stub if callable(stub) else lambda *args, **kwargs: stub
        if turn.do == "refuse":
            raise ToolRefused(turn.sentence)
        return None

    def _given(self, turn: ToolTurn) -> Any:
        """The recorded outcome."""
        if turn.error is not None:
            raise as_recorded(turn.error, turn.error_type)
        return turn.output if self.decode is None else self.decode(turn.output)

    def _outcome(self, value: Any) -> dict[str, Any]:
        """A result as ``Desk.end`` takes it."""
        try:
            plain = value if self.encode is None else self.encode(value)
            copy = loads(dumps(plain))
        except (AfnbError, TypeError, ValueError, RecursionError):
            hint = "which is no JSON value; give encode= and decode="
            return {"unrecordable": f"a {type_name(value)}, {hint}"}
        return {"output": copy}


async def _off_the_loop(desk: Desk, ask: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(ask) if isinstance(desk, _Remote) else ask()


def _name(function: Any) -> str:
    found = getattr(function, "__name__", None) or type(function).__name__
    return str(found)
