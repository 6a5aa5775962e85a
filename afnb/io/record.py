"""``Recorder``: one run of an agent written down as it happens, through a loopback proxy or a transport.

Every exchange is on disk as soon as it is complete, in an append-only journal beside the cassette that
it becomes at the end; after a crash ``io.journal.recover`` gives it back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from types import ModuleType, TracebackType
from typing import Any, Self

from afnb.core.cassette import Cassette, Exchange, ToolExchange
from afnb.core.ending import FIELD, Ending, ending
from afnb.core.matching import Matching
from afnb.core.redaction import kept_rules
from afnb.errors import ParameterError
from afnb.io.handler import ENDPOINTS
from afnb.io.journal import Journal
from afnb.io.redact import Redaction
from afnb.io.serve import Session
from afnb.io.serve_report import SessionReport
from afnb.io.server import LoopbackServer
from afnb.io.tools import attached
from afnb.io.transport import async_client, async_transport, client, transport
from afnb.io.upstream import Upstream, as_upstream

USES = "does the agent use this recorder's client, transport or base URL?"


def recording_notice(redaction: Redaction | None = None) -> str:
    """What a recording keeps, to be said each time one is started.

    Examples
    --------
    >>> recording_notice().startswith("Bodies are recorded as they are")
    True
    """
    headers = (
        "Of the headers only content-type, accept and retry-after are kept; credentials are never written. "
        "How the agent ends (exit status, output or return value) is kept too, usual forms of keys masked."
    )
    if redaction is None or not (redaction.paths or redaction.patterns):
        return (
            "Bodies are recorded as they are: prompts, answers and tool results are not redacted "
            f"(redaction takes JSON paths and patterns out before anything is written). {headers}"
        )
    count = f"{len(redaction.paths)} JSON paths and {len(redaction.patterns)} patterns"
    return f"Bodies are redacted by {count} before anything is written; all else in them is kept. {headers}"


def _lacks_version(exchange: Exchange) -> bool:
    return exchange.response.status == 404 and exchange.request.path.partition("?")[0] in ENDPOINTS


class Recorder:
    """Record what an agent and its provider say to each other.

    Parameters
    ----------
    out
        The cassette to be written; it must not exist, unless ``append`` goes on with it.
    upstream
        Who answers: whatever ``as_upstream`` takes. None: for a client from ``http_client()``, the host
        that it asks by itself.
    id, task, attrs
        Kept in the cassette; the id is the file's name by default.
    redaction
        What is taken out of bodies before anything reaches the disk.
    matching
        Rules kept in the recording, for every replay that names no others.
    append
        Go on where an existing recording, or the journal that a crash left, ends.
    sync
        Flush each exchange to the disk itself, so that it survives a loss of power as well.

    Raises
    ------
    ParameterError
        ``out`` exists, its folder does not, or ``upstream`` is none.

    Examples
    --------
    >>> import tempfile
    >>> out = os.path.join(tempfile.mkdtemp(), "run.json")
    >>> with Recorder(out, [{"ok": True}]) as recorder:
    ...     recorder.http_client("httpx").get("/v1/models").json()
    {'ok': True}
    >>> len(recorder.cassette), os.path.exists(out)
    (1, True)
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        upstream: Any = None,
        *,
        id: str | None = None,
        task: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        redaction: Redaction | None = None,
        matching: Matching | None = None,
        append: bool = False,
        sync: bool = False,
    ) -> None:
        self.path = os.fspath(out)
        self.upstream: Upstream | None = None if upstream is None else as_upstream(upstream)
        self.notice = recording_notice(redaction)
        tools = {} if self.upstream is None else self.upstream.tools
        self._options: dict[str, Any] = {
            "id": id,
            "task": task,
            "attrs": {**(attrs or {}), **({"http_tools": tools} if tools else {}), **kept_rules(matching)},
            "redaction": redaction,
            "append": append,
            "sync": sync,
        }
        self._journal: Journal | None = None
        self._server: LoopbackServer | None = None
        self._session: Session | None = None
        self._cassette: Cassette | None = None
        self._clients: list[Any] = []
        self._attached = ExitStack()
        self._lock = threading.Lock()

    @property
    def session(self) -> Session:
        """The session that everything goes through, for an agent that is started by other means."""
        if self._session is None:
            raise ParameterError("the recorder has not been started; use it in a with statement")
        return self._session

    @property
    def base_url(self) -> str:
        """Origin of a loopback proxy, started at the first use, for agents in any language.

        Add what the SDK expects after the origin: ``/v1`` for OpenAI, nothing for Anthropic.
        """
        session = self.session
        with self._lock:
            if self._server is None:
                self._server = LoopbackServer(session, self.upstream).start()
            return self._server.base_url

    def http_client(self, module: str | ModuleType | None = None, **options: Any) -> Any:
        """A client to hand to an SDK as ``http_client``: ``"httpx2"`` (OpenAI from 3), or ``"httpx"``."""
        made = client(self.session, self.upstream, module=module, **options)
        self._clients.append(made)
        return made

    def async_http_client(self, module: str | ModuleType | None = None, **options: Any) -> Any:
        """The asynchronous ``http_client``; its user closes it."""
        return async_client(self.session, self.upstream, module=module, **options)

    def transport(self, module: str | ModuleType | None = None) -> Any:
        """A transport, for a client that its user builds."""
        return transport(self.session, self.upstream, module=module)

    def async_transport(self, module: str | ModuleType | None = None) -> Any:
        """The asynchronous ``transport``."""
        return async_transport(self.session, self.upstream, module=module)

    @property
    def cassette(self) -> Cassette:
        """The recording: so far while it runs, as written once it is closed."""
        if self._cassette is not None:
            return self._cassette
        if self._journal is None:
            raise ParameterError("the recorder has not been started; use it in a with statement")
        return self._journal.cassette()

    @property
    def written(self) -> bool:
        """Whether the cassette is on disk: not before the end, and not if nothing was recorded."""
        kept = self._cassette
        return kept is not None and bool(kept.exchanges or kept.tool_exchanges)

    def ended(self, how: Ending | None) -> None:
        """Keep how the agent itself ended (field ``agent_end``); replays are compared with it."""
        if how is not None:
            with self._lock:
                if self._cassette is None and self._journal is not None:
                    self._journal.note(FIELD, how.to_json())

    def returned(self, value: Any) -> None:
        """Keep what an agent came to that was run by other means, as a function's return value.

        Parameters
        ----------
        value
            A JSON value; ``redaction`` is carried out on it.

        Examples
        --------
        >>> import tempfile
        >>> out = os.path.join(tempfile.mkdtemp(), "run.json")
        >>> with Recorder(out, [{"ok": True}]) as recorder:
        ...     recorder.returned(recorder.http_client("httpx").get("/v1/models").json()["ok"])
        >>> recorder.cassette.attrs["agent_end"]["value"]
        True
        """
        self.ended(ending("function", "finished", said=value, redaction=self.redaction))

    @property
    def redaction(self) -> Redaction | None:
        """What is taken out of this recording, an earlier part's own redaction included."""
        given = self._options["redaction"]
        if self._journal is None:
            return given if isinstance(given, Redaction) else None
        kept = self._journal.cassette().attrs.get("redaction")
        return None if kept is None else Redaction.from_json(kept)

    def report(self) -> SessionReport:
        """Counts so far."""
        return self.session.report()

    def warnings(self, hint: str = USES) -> tuple[str, ...]:
        """What is wrong with the recording, one sentence each.

        Parameters
        ----------
        hint
            What to look at if no request came at all; empty where that is known.
        """
        report, said = self.report(), []
        lost = report.upstream_errors
        if report.requests == 0:
            said.append("no request came here, so nothing was recorded" + (f": {hint}" if hint else ""))
        elif not len(self.cassette):
            why = f": {lost[0]}" if lost else ""
            said.append(f"no request got an answer, so nothing was recorded{why}")
        elif lost:
            said.append(f"{len(lost)} requests got no answer and are not recorded: {lost[0]}")
        if report.incomplete:
            said.append(
                f"{report.incomplete} answers stopped before their end and are recorded as incomplete"
            )
        if report.in_flight:
            said.append(f"{report.in_flight} requests were still waiting at the end and are not recorded")
        bare = next((e for e in self.cassette.exchanges if _lacks_version(e)), None)
        if bare is not None:
            said.append(
                f"the agent asked {bare.request.path}, and the provider answered 404; "
                "set the base URL with /v1 at its end"
            )
        said += [f"a result is not recorded: {sentence}" for sentence in report.tools_unrecorded]
        said += [f"{count} requests were refused: {reason}" for reason, count in report.refused]
        return tuple(said)

    def start(self) -> Self:
        """Open the journal; ``with`` does this."""
        if self._session is None:
            self._journal = Journal(self.path, **self._options)
            made = Session(
                id=self._journal.cassette().id,
                sink=self._keep,
                tool_sink=self._keep_tool,
                wrapped_sink=self._keep_wrapped,
            )
            self._session = made
            if FIELD in self._journal.cassette().attrs:
                self._journal.note(FIELD, None)  # of the part before; this one ends otherwise
            self._attached.enter_context(attached(made.tools))
        return self

    def close(self) -> Cassette:
        """End the recording and write the cassette. Nothing is written if nothing was recorded."""
        if self._cassette is not None:
            return self._cassette
        self._attached.close()
        self.session.close()
        if self._server is not None:
            self._server.close()
        for made in self._clients:
            made.close()
        journal = self._journal
        assert journal is not None
        with self._lock:
            so_far = journal.cassette()
            if len(so_far) or so_far.tool_exchanges:
                self._cassette = journal.close()
            else:
                self._cassette = journal.cassette()
                journal.abandon()
                os.unlink(journal.path)
        return self._cassette

    def _keep(self, exchange: Exchange) -> None:
        with self._lock:
            if self._cassette is None and self._journal is not None:
                self._journal.append(exchange)

    def _keep_tool(self, tool: ToolExchange) -> None:
        with self._lock:
            if self._cassette is None and self._journal is not None:
                self._journal.append_tool(tool)

    def _keep_wrapped(self, tools: dict[str, str]) -> None:
        with self._lock:
            if self._cassette is None and self._journal is not None:
                self._journal.note("tools", tools)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
