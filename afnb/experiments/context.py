"""``AgentContext``: what a function agent is given. Everything in it leads to one session."""

from __future__ import annotations

import threading
import urllib.request
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from afnb.errors import AgentError
from afnb.io.serve import Session
from afnb.io.server import LoopbackServer
from afnb.io.tools import SESSION_VARIABLE
from afnb.io.transport import async_client, async_transport, client, transport
from afnb.io.upstream import Upstream


class AgentContext:
    """Ways for one run of a function agent to reach its provider, its seed and its working folder.

    Parameters
    ----------
    session
        The recording or replay that answers.
    upstream
        Who is asked live.
    seed
        This run's own; the global generators are left alone, since other runs share them.
    workdir
        A folder of its own.

    Examples
    --------
    An agent on an official SDK::

        def agent(ctx):
            client = openai.OpenAI(http_client=ctx.http_client())
            ...
            return answer
    """

    def __init__(self, session: Session, upstream: Upstream | None, *, seed: int, workdir: Path) -> None:
        self.seed = seed
        self.workdir = workdir
        self._session = session
        self._upstream = upstream
        self._server: LoopbackServer | None = None
        self._clients: list[Any] = []
        self._async_clients: list[Any] = []
        self._lock = threading.Lock()
        self._closed = False

    def http_client(self, module: str | ModuleType | None = None, **options: Any) -> Any:
        """A client for SDKs that take an ``http_client``; closed when the run ends.

        ``module`` is ``"httpx2"`` (OpenAI from 3, Anthropic from 2) or ``"httpx"``, None the first that is
        installed; ``options`` go to the client.
        """
        made = client(self._session, self._upstream, module=module, **options)
        return self._keep(self._clients, made)

    def async_http_client(self, module: str | ModuleType | None = None, **options: Any) -> Any:
        """The asynchronous ``http_client``."""
        made = async_client(self._session, self._upstream, module=module, **options)
        return self._keep(self._async_clients, made)

    def transport(self, module: str | ModuleType | None = None) -> Any:
        """A transport, for a client that the agent builds itself."""
        return transport(self._session, self._upstream, module=module)

    def async_transport(self, module: str | ModuleType | None = None) -> Any:
        """The asynchronous ``transport``."""
        return async_transport(self._session, self._upstream, module=module)

    @property
    def base_url(self) -> str:
        """Origin of a loopback server, started at the first use, for clients that take only a URL.

        Add what the SDK expects after the origin: ``ctx.base_url + "/v1"`` for OpenAI.

        Warns
        -----
        RuntimeWarning
            The environment names a proxy and does not except 127.0.0.1 from it (``NO_PROXY``), so that a
            client that trusts the environment would not arrive here.
        """
        _warn_of_proxies()
        with self._lock:
            if self._closed:
                raise AgentError("the run of this context has ended; no new server is started for it")
            if self._server is None:
                server = LoopbackServer(self._session, self._upstream)
                server.__enter__()
                self._server = server
            return self._server.base_url

    def environment(self) -> dict[str, str]:
        """Variables for a process that the agent starts, so that its wrapped tools belong to this run."""
        return {SESSION_VARIABLE: self.base_url}

    def close(self) -> None:
        """Close what was made for this run."""
        with self._lock:
            self._closed = True
            server, self._server = self._server, None
            clients, self._clients = self._clients, []
        for made in clients:
            made.close()
        if server is not None:
            server.__exit__(None, None, None)

    async def aclose(self) -> None:
        """Close the asynchronous clients, in the loop that they were used in."""
        with self._lock:
            clients, self._async_clients = self._async_clients, []
        for made in clients:
            await made.aclose()

    def _keep(self, kept: list[Any], made: Any) -> Any:
        with self._lock:
            kept.append(made)
        return made


def _warn_of_proxies() -> None:
    proxies = urllib.request.getproxies_environment()
    if ("http" in proxies or "all" in proxies) and not urllib.request.proxy_bypass("127.0.0.1"):
        warnings.warn(
            "HTTP_PROXY is set and NO_PROXY does not name 127.0.0.1, so requests to base_url may go to the "
            "proxy; use the context's http_client(), or add 127.0.0.1 to NO_PROXY",
            RuntimeWarning,
            stacklevel=3,
        )
