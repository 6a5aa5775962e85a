"""A relay between an MCP client and its server over stdio, so that calls of tools are seen and held back.

::

    client -> tools/call -> the run's desk -> serve    answered here, the server is not asked
                                           -> run      passed on; the answer is recorded on its way back
                                           -> refuse   answered here with an error
           -> anything else ----------------> passed on, both ways

Without a run to belong to it passes everything on.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, Any

from afnb.core.jsonvalue import Json, dumps, loads
from afnb.core.mcp import McpCall, call_in, declared_effects, result_of_value
from afnb.errors import AfnbError, InputError, ToolRefused
from afnb.io.tools import Desk

REFUSED = -32000


class McpRelay:
    """One connection of a client to its server.

    Parameters
    ----------
    desk
        The run that the calls belong to; None passes everything on.
    to_client, to_server
        Write one line each.
    effects
        Of tools by name, before what the server itself says (``readOnlyHint``, ``idempotentHint``); a tool of
        which nobody says anything is taken to write.
    log
        Called with each message: from whom (``client->server`` or back) and its line, for a transcript.
    """

    def __init__(
        self,
        desk: Desk | None,
        to_client: Callable[[bytes], None],
        to_server: Callable[[bytes], None],
        *,
        effects: Mapping[str, str] | None = None,
        log: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self._desk = desk
        self._to_client = to_client
        self._to_server = to_server
        self._given = dict(effects or {})
        self._hints: dict[str, str] = {}
        self._log = log
        self._open: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()
        if desk is not None and self._given:
            desk.announce(self._given)

    def from_client(self, line: bytes) -> None:
        """Take one line of the client's."""
        self._note("client->server", line)
        message = _value(line)
        for one in message if isinstance(message, list) else [message]:
            call = None if self._desk is None else call_in(one)
            if call is None or call.id is None:
                self._to_server(line if one is message else dumps(one).encode())
            else:
                self._called(self._desk, call, one)  # type: ignore[arg-type]

    def from_server(self, line: bytes) -> None:
        """Take one line of the server's."""
        message = _value(line)
        for one in message if isinstance(message, list) else [message]:
            if isinstance(one, dict) and "method" not in one and self._desk is not None:
                self._hints.update(declared_effects([one]))
                self._answered(self._desk, one)
        self._give(line)

    def _called(self, desk: Desk, call: McpCall, message: Json) -> None:
        effect = self._given.get(call.name) or self._hints.get(call.name) or "write"
        try:
            turn = desk.begin(call.name, call.arguments, effect, over="mcp")
        except AfnbError as error:
            return self._fail(call, str(error), REFUSED)
        if turn.do == "run":
            with self._lock:
                self._open[_key(call.id)] = turn.token
            return self._to_server(dumps(message).encode())
        if turn.do == "refuse":
            return self._fail(call, turn.sentence, REFUSED)
        if turn.error is not None:
            kind, _, code = (turn.error_type or "").partition(":")
            return self._fail(call, turn.error, int(code) if kind == "mcp" and _is_number(code) else REFUSED)
        return self._reply({"id": call.id, "result": result_of_value(turn.output)})

    def _answered(self, desk: Desk, message: dict[str, Any]) -> None:
        with self._lock:
            token = self._open.pop(_key(message.get("id")), None)
        if token is None:
            return
        error = message.get("error")
        try:
            if isinstance(error, dict):
                text = str(error.get("message", ""))
                desk.end(token, error=text, error_type=f"mcp:{error.get('code', REFUSED)}")
            else:
                desk.end(token, message.get("result"))
        except ToolRefused:
            return  # the run is over: what still comes belongs to nobody

    def _fail(self, call: McpCall, sentence: str, code: int) -> None:
        self._reply({"id": call.id, "error": {"code": code, "message": sentence}})

    def _reply(self, fields: dict[str, Any]) -> None:
        self._give(dumps({"jsonrpc": "2.0", **fields}).encode())

    def _give(self, line: bytes) -> None:
        self._note("server->client", line)
        with self._lock:
            self._to_client(line)

    def _note(self, direction: str, line: bytes) -> None:
        if self._log is not None:
            self._log(direction, line)


def run_relay(
    argv: Sequence[str],
    client_in: IO[bytes],
    client_out: IO[bytes],
    desk: Desk | None,
    *,
    effects: Mapping[str, str] | None = None,
    log: IO[bytes] | None = None,
) -> int:
    """Start a server, relay until it ends or the client leaves, and give its exit status.

    Raises
    ------
    OSError
        The server cannot be started.
    """
    with subprocess.Popen(list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        _relay(client_in, client_out, server.stdin, server.stdout, desk, effects, log)
    return server.returncode


def _relay(
    client_in: IO[bytes],
    client_out: IO[bytes],
    to_server: IO[bytes],
    from_server: IO[bytes],
    desk: Desk | None,
    effects: Mapping[str, str] | None,
    log: IO[bytes] | None,
) -> None:
    """Relay until the server ends its output."""

    def writer(file: IO[bytes]) -> Callable[[bytes], None]:
        def write(line: bytes) -> None:
            try:
                file.write(line.rstrip(b"\r\n") + b"\n")
                file.flush()
            except (OSError, ValueError):
                return  # the other side has gone; its end of the connection says so

        return write

    noting = None if log is None else _logger(log)
    relay = McpRelay(desk, writer(client_out), writer(to_server), effects=effects, log=noting)

    def read_client() -> None:
        for line in iter(client_in.readline, b""):
            if line.strip():
                relay.from_client(line)
        try:
            to_server.close()
        except OSError:
            return

    threading.Thread(target=read_client, name="afnb-mcp-client", daemon=True).start()
    for line in iter(from_server.readline, b""):
        if line.strip():
            relay.from_server(line)


def _logger(file: IO[bytes]) -> Callable[[str, bytes], None]:
    lock = threading.Lock()

    def note(direction: str, line: bytes) -> None:
        stamp = datetime.now(UTC).isoformat(timespec="microseconds")
        message = _value(line)
        text = line.decode("utf-8", "replace").strip() if message is None else message
        with lock:
            file.write(dumps({"ts": stamp, "direction": direction, "message": text}).encode() + b"\n")
            file.flush()

    return note


def _value(line: bytes) -> Json:
    try:
        return loads(line)
    except InputError:
        return None


def _key(ident: Json) -> tuple[str, str]:
    return type(ident).__name__, str(ident)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
