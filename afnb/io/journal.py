"""``Journal``: a recording while it is made, append-only, closed into a cassette at the end.

The journal stands beside the cassette to be (``x.json`` has ``x.json.journal.jsonl``): one line says what
is recorded, then each completed exchange is one line, written at once. After a crash ``recover`` gives
back every exchange that was completed; at most a torn last line is lost.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import IO, Any

from afnb.core.cassette import Cassette, Exchange, ToolExchange
from afnb.core.jsonvalue import Json, dumps, loads
from afnb.core.run import OutcomeLabel, Warn
from afnb.errors import InputError, ParameterError
from afnb.io.files import PathLike, read_bytes, refuse_existing
from afnb.io.formats.cassette import (
    VERSION,
    exchange_from_json,
    exchange_to_json,
    read_cassette,
    tool_from_json,
    tool_to_json,
    write_cassette,
)
from afnb.io.redact import Redaction, safe_exchange

SUFFIX = ".journal.jsonl"
_MARK = "afnb_journal"


def journal_path(cassette: PathLike) -> str:
    """Where the journal of a cassette stands.

    Examples
    --------
    >>> journal_path("runs/x.json")
    'runs/x.json.journal.jsonl'
    """
    return os.fspath(cassette) + SUFFIX


class Journal:
    """An open recording. Thread-safe; a context manager that closes it into the cassette.

    Parameters
    ----------
    path
        The cassette to be written at the end; it must not exist yet.
    id
        The recording's identifier (by default the file's name without its ending).
    task, attrs
        Kept in the cassette.
    redaction
        Applied to every exchange before it is written; a continued recording keeps its own as well.
    overwrite
        Whether an existing cassette may be replaced at the end.
    append
        Go on where an existing cassette, or a journal that a crash left, ends.
    sync
        Flush each exchange to the disk itself, so that it survives a loss of power as well. Without it an
        exchange survives the end of this process however that comes.

    Raises
    ------
    ParameterError
        The cassette exists, or a journal that a crash left does: use ``append=True`` or ``recover``.

    Examples
    --------
    >>> import tempfile
    >>> from afnb.core.cassette import Request, Response
    >>> path = os.path.join(tempfile.mkdtemp(), "x.json")
    >>> with Journal(path) as journal:
    ...     _ = journal.append(Exchange(0, Request("GET", "/v1/models"), Response(200, body=b"{}")))
    >>> len(read_cassette(path)), os.path.exists(journal.path)
    (1, False)
    """

    def __init__(
        self,
        path: PathLike,
        id: str | None = None,
        *,
        task: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        redaction: Redaction | None = None,
        overwrite: bool = False,
        append: bool = False,
        sync: bool = False,
    ) -> None:
        self.cassette_path = os.fspath(path)
        self.path = journal_path(path)
        self._overwrite = overwrite or append
        self._redaction = redaction
        self._sync = sync
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        before = self._before(append)
        if before is None:
            name = os.path.splitext(os.path.basename(self.cassette_path))[0]
            before = Cassette(id or name, task=task, attrs=dict(attrs or {}))
        earlier = before.attrs.get("redaction")
        if earlier is not None:
            kept = Redaction.from_json(earlier)
            redaction = kept if redaction is None else kept.merged(redaction)
            self._redaction = redaction
        if redaction is not None:
            before = redaction.cassette(before)
        self._head = replace(before, exchanges=(), tool_exchanges=(), source=self.cassette_path)
        self._exchanges: list[Exchange] = list(before.exchanges)
        self._tools: list[ToolExchange] = list(before.tool_exchanges)
        self._open()

    def _before(self, append: bool) -> Cassette | None:
        if not append:
            if not self._overwrite:
                refuse_existing(self.cassette_path, "go on with it: append=True")
            if os.path.lexists(self.path):
                raise ParameterError(
                    f"{self.path} is left from a recording that was not closed; "
                    "recover it (afnb.io.journal.recover), or go on with append=True"
                )
            return None
        if os.path.lexists(self.path):
            return recover(self.path)
        return read_cassette(self.cassette_path) if os.path.lexists(self.cassette_path) else None

    def _open(self) -> None:
        """Start the journal, with what went before if it is being continued."""
        beside = self.path + ".part"
        try:
            file = open(beside, "wb")  # noqa: SIM115 - it stays open until close()
        except OSError as error:
            raise ParameterError(
                f"{self.path} cannot be written: {error.strerror}; make its folder first"
            ) from None
        head: dict[str, Any] = {_MARK: 1, "cassette_version": VERSION, "id": self._head.id}
        head.update(task=self._head.task, outcome=self._head.outcome, attrs=dict(self._head.attrs))
        self._file = file
        self._line(head)
        for exchange in self._exchanges:
            self._line({"exchange": exchange_to_json(exchange)})
        for tool in self._tools:
            self._line({"tool_exchange": tool_to_json(tool)})
        os.fsync(file.fileno())
        os.replace(beside, self.path)

    def _line(self, value: Json) -> None:
        if self._file is None:
            raise ParameterError(f"the recording {self.cassette_path} is closed already")
        self._file.write(dumps(value).encode("utf-8") + b"\n")
        self._file.flush()
        if self._sync:
            os.fsync(self._file.fileno())

    def __len__(self) -> int:
        return len(self._exchanges)

    def append(self, exchange: Exchange) -> Exchange:
        """Write one completed exchange; returns it as written: numbered, redacted, headers by allowlist."""
        if self._redaction is not None:
            exchange = self._redaction.exchange(exchange)
        exchange = safe_exchange(exchange)
        with self._lock:
            exchange = replace(exchange, idx=len(self._exchanges))
            self._line({"exchange": exchange_to_json(exchange)})
            self._exchanges.append(exchange)
        return exchange

    def append_tool(self, tool: ToolExchange) -> ToolExchange:
        """Write one tool call that was seen to run."""
        if self._redaction is not None:
            tool = self._redaction.tool_exchange(tool)
        with self._lock:
            self._line({"tool_exchange": tool_to_json(tool)})
            self._tools.append(tool)
        return tool

    def note(self, name: str, value: Json) -> None:
        """Write a further field of the recording (``Cassette.attrs``); the last value of a name counts."""
        with self._lock:
            self._line({"attrs": {name: value}})
            self._head = replace(self._head, attrs={**self._head.attrs, name: value})

    def cassette(self) -> Cassette:
        """The recording so far."""
        with self._lock:
            return replace(self._head, exchanges=tuple(self._exchanges), tool_exchanges=tuple(self._tools))

    def close(self) -> Cassette:
        """Write the cassette, take the journal away, and return the recording."""
        cassette = self.cassette()
        with self._lock:
            if self._file is None:
                return cassette
            write_cassette(cassette, self.cassette_path, overwrite=self._overwrite)
            self._file.close()
            self._file = None
            os.unlink(self.path)
        return cassette

    def abandon(self) -> None:
        """Stop without a cassette; the journal stays and can be recovered."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def recover(path: PathLike) -> Cassette:
    """The recording that a crash left in a journal; nothing on disk is changed.

    Parameters
    ----------
    path
        The journal, or the cassette that it was to become.

    Returns
    -------
    Cassette
        With a warning ``torn_line`` if the last line was cut off (its exchange is lost).

    Raises
    ------
    InputError
        There is no journal, or a line before the last is damaged: its number is in the message.
    """
    name = os.fspath(path)
    if not name.endswith(SUFFIX):
        name = journal_path(name)
    return read_journal(read_bytes(name), name)


def is_journal(data: bytes) -> bool:
    """Whether these bytes begin like a journal."""
    return data.startswith(b'{"' + _MARK.encode() + b'":')


def read_journal(data: bytes, path: str | None = None) -> Cassette:
    """The recording in a journal's bytes (see `recover`)."""
    lines = data.split(b"\n")
    torn = lines.pop()
    warnings: list[Warn] = []
    if torn and lines and _is_whole(torn):
        lines.append(torn)
    elif torn:
        message = f"the last line was cut off after {len(torn)} bytes; the exchange on it is lost"
        warnings.append(Warn("torn_line", message))
    if not lines or not is_journal(data):
        raise InputError(
            "found no journal of a recording, expected its first line to say so", path=path, line=1
        )
    exchanges: list[Exchange] = []
    tools: list[ToolExchange] = []
    head: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        try:
            value = loads(line)
            if not isinstance(value, dict):
                raise InputError("found no JSON object, expected an exchange")
            if number == 1:
                head = value
            elif "exchange" in value:
                exchanges.append(exchange_from_json(value["exchange"], len(exchanges)))
            elif isinstance(value.get("attrs"), dict):
                head = {**head, "attrs": {**_attrs(head), **value["attrs"]}}
            elif "tool_exchange" in value:
                tools.append(tool_from_json(value["tool_exchange"], len(tools)))
            else:
                raise InputError("found neither exchange nor tool_exchange")
        except InputError as error:
            raise InputError(error.message, path=path, line=number) from None
    return _assembled(head, exchanges, tools, warnings, path)


def _attrs(head: dict[str, Any]) -> dict[str, Any]:
    found = head.get("attrs")
    return found if isinstance(found, dict) else {}


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(loads(line), dict)
    except InputError:
        return False


def _assembled(
    head: dict[str, Any],
    exchanges: list[Exchange],
    tools: list[ToolExchange],
    warnings: list[Warn],
    path: str | None,
) -> Cassette:
    task, outcome = head.get("task"), head.get("outcome")
    if head.get("cassette_version") != VERSION or not isinstance(head.get("id"), str):
        raise InputError(f"found another version, this afnb reads {VERSION!r} only", path=path, line=1)
    known: dict[str, OutcomeLabel] = {"pass": "pass", "fail": "fail", "unknown": "unknown"}
    return Cassette(
        head["id"],
        tuple(replace(exchange, idx=i) for i, exchange in enumerate(exchanges)),
        tuple(tools),
        task if isinstance(task, str) else None,
        known.get(outcome) if isinstance(outcome, str) else None,
        VERSION,
        _attrs(head),
        tuple(warnings),
        path,
    )
