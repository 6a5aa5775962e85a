"""Transcripts of MCP over stdio (JSON lines of JSON-RPC messages): calls of tools as tool exchanges.

Read as they are logged: each line a message, or an object with the ``message``, and if it is known its
``direction`` (``client->server``) and its time (``ts``, ``timestamp`` or ``time``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from afnb.core.cassette import Cassette, ToolExchange
from afnb.core.jsonvalue import Json, loads
from afnb.core.mcp import McpCall, call_in, declared_effects, result_in
from afnb.core.run import Warn
from afnb.errors import InputError
from afnb.io.formats.source import Found, Source

_TIMES = ("ts", "timestamp", "time")


def detect(source: Source) -> Found:
    """Whether a file is a transcript of JSON-RPC messages."""
    first = source.first_line
    message = _message(first)
    if isinstance(message, list) and message:
        message = message[0]
    if isinstance(message, dict) and message.get("jsonrpc") == "2.0":
        return Found(1.0)
    if isinstance(first, dict) and "jsonrpc" in first:
        return Found(0.5, 'its messages are not of "jsonrpc": "2.0"')
    return Found(0.0)


def load(source: Source) -> Cassette:
    """The calls of a transcript, in the order in which they were made.

    A call that was never answered is left out, with a warning; so is a last line that was cut off.

    Raises
    ------
    InputError
        A line before the last is no JSON; its number is in the message.
    """
    transcript = _Transcript()
    lines = source.data.split(b"\n")
    warnings: list[Warn] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = loads(line)
        except InputError as error:
            if number == len(lines):
                warnings.append(Warn("torn_line", "the last line was cut off; its message is lost"))
                break
            raise InputError(error.message, path=source.path, line=number) from None
        transcript.take(value)
    unanswered = sum(exchange is None for exchange in transcript.made)
    if unanswered:
        warnings.append(Warn("unanswered", f"{unanswered} calls were never answered and are left out"))
    hints = declared_effects(transcript.listed)
    tools = tuple(
        ToolExchange(one.name, one.arguments, one.output, hints.get(one.name, "write"), one.error, -1,
                     one.t_start, one.t_end, one.attrs)
        for one in transcript.made
        if one is not None
    )  # fmt: skip
    attrs = {"tools": hints} if hints else {}
    return Cassette(
        source.stem or "mcp", (), tools, attrs=attrs, warnings=tuple(warnings), source=source.path
    )


@dataclass
class _Transcript:
    """The messages seen so far: open calls by id, and what the server listed."""

    open: dict[Any, tuple[int, McpCall, str | None]] = field(default_factory=dict)
    made: list[ToolExchange | None] = field(default_factory=list)
    listed: list[Json] = field(default_factory=list)

    def take(self, line: Json) -> None:
        message = _message(line)
        for one in message if isinstance(message, list) else [message]:
            if not isinstance(one, dict):
                continue
            when, asked = _time(line), _asks(line)
            call = call_in(one) if asked is not False else None
            if call is not None:
                self.open[_key(call.id)] = (len(self.made), call, when)
                self.made.append(None)
            elif asked is not True and "method" not in one:
                self._answer(one, when)

    def _answer(self, message: dict[str, Any], when: str | None) -> None:
        self.listed.append(message)
        place, call, started = self.open.pop(_key(message.get("id")), (None, None, None))
        result = result_in(message)
        if place is None or call is None or result is None:
            return
        attrs = {"over": "mcp"}
        self.made[place] = ToolExchange(
            call.name, call.arguments, result.value, "write", result.error, -1, started, when, attrs
        )


def _key(ident: Json) -> tuple[str, str]:
    return type(ident).__name__, str(ident)


def _message(line: Json) -> Any:
    if isinstance(line, dict) and "jsonrpc" not in line and "message" in line:
        return line["message"]
    return line


def _time(line: Json) -> str | None:
    fields = line if isinstance(line, dict) else {}
    return next((fields[name] for name in _TIMES if isinstance(fields.get(name), str)), None)


def _asks(line: Json) -> bool | None:
    """Whether a line is from the client; None where it does not say."""
    said = line.get("direction") if isinstance(line, dict) else None
    if not isinstance(said, str):
        return None
    return said.lower().startswith(("client", "out", "send", "request"))
