"""The environment of an agent that runs as a command: where its provider is, its seed, its folders."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from afnb.core.cassette import Cassette
from afnb.core.providers import is_model_request
from afnb.errors import ParameterError
from afnb.io.known import KNOWN_UPSTREAMS
from afnb.io.tools import SESSION_VARIABLE
from afnb.io.upstream import owner_of_path

KNOWN_BASE_URLS: Mapping[str, str] = {
    "ANTHROPIC_API_BASE": "",
    "ANTHROPIC_BASE_URL": "",
    "AZURE_OPENAI_ENDPOINT": "",
    "GOOGLE_GEMINI_BASE_URL": "",
    "MISTRAL_API_BASE": "/v1",
    "MISTRAL_BASE_URL": "",
    "OLLAMA_API_BASE": "",
    "OLLAMA_BASE_URL": "",
    "OLLAMA_HOST": "",
    "OPENAI_API_BASE": "/v1",
    "OPENAI_BASE_URL": "/v1",
}
"""Variables that SDKs read a base URL from, and what each of them expects after the origin."""

KEPT_BASE_URLS = "base_url_env"
"""The field of a recording that keeps the variables its agent was led by."""

_NAME_OF_URL = re.compile(r"[A-Z][A-Z0-9_]*(?:URL|URI|BASE|HOST|ENDPOINT|ORIGIN|SERVER)")
PROXIES = tuple(name for word in ("http_proxy", "https_proxy", "all_proxy") for name in (word, word.upper()))
LOOPBACK = ("127.0.0.1", "localhost", "::1")

BaseUrls = str | Sequence[str] | Mapping[str, str]
"""One name, several, or names with a path (``/v1``) or an upstream's name (``anthropic``)."""


def base_url_paths(names: BaseUrls, *, several: bool = True) -> dict[str, str]:
    """What follows the loopback origin in each variable.

    Parameters
    ----------
    names
        ``"OPENAI_BASE_URL"``; several names; or a mapping from a name to a path (``"/v1"``), to the
        name of an upstream (``"anthropic"``), or to both (``"local/v1"``). A name that is known gets
        the path its SDK expects, any other gets the origin alone.

    Raises
    ------
    ParameterError
        No name, or one that cannot be a variable's.

    Examples
    --------
    >>> base_url_paths("OPENAI_BASE_URL")
    {'OPENAI_BASE_URL': '/v1'}
    >>> base_url_paths({"ANTHROPIC_BASE_URL": "anthropic", "MY_LLM": "/api"})
    {'ANTHROPIC_BASE_URL': '/@anthropic', 'MY_LLM': '/api'}
    """
    if isinstance(names, str):
        names = [names]
    given = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, "")
    if not given:
        raise ParameterError(
            "base_url_env has no name; give the variable that the agent reads its base URL from"
        )
    paths: dict[str, str] = {}
    for name, where in given.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise ParameterError(
                f"base_url_env has {name!r}; expected a variable's name such as OPENAI_BASE_URL"
            )
        if not isinstance(where, str):
            raise ParameterError(
                f"base_url_env[{name!r}] is {where!r}; expected a path (/v1) or an upstream's name"
            )
        upstream, slash, rest = where.strip().partition("/")
        suffix = slash + rest.rstrip("/") if slash else KNOWN_BASE_URLS.get(name, "")
        place = f"/@{upstream}" if upstream and several else ""
        paths[name] = place + ("" if suffix == "/" else suffix)
    return paths


def recorded_base_urls(cassette: Cassette) -> dict[str, str]:
    """The variables, each with a path, by which an agent is led to a replay of this recording.

    Those it was recorded with, where they are kept and are names of addresses (a file must not set any
    other variable); else those of the provider that its first model request was made to.

    Examples
    --------
    >>> from afnb.core.cassette import Exchange, Request, Response
    >>> asked = Request("POST", "/v1/messages", body=b'{"model": "m", "messages": []}')
    >>> recorded_base_urls(Cassette("x", (Exchange(0, asked, Response(200)),)))
    {'ANTHROPIC_BASE_URL': ''}
    """
    kept = cassette.attrs.get(KEPT_BASE_URLS)
    if isinstance(kept, dict):
        named = {
            name: path
            for name, path in kept.items()
            if _NAME_OF_URL.fullmatch(name) and isinstance(path, str) and path[:1] in ("", "/")
        }
        if named:
            return named
    first = next((e.request for e in cassette.exchanges if is_model_request(e.request)), None)
    if first is None:
        return {}
    return {name: KNOWN_BASE_URLS[name] for name in KNOWN_UPSTREAMS[owner_of_path(first.path)].variables}


def agent_environment(
    base: Mapping[str, str],
    *,
    base_url: str | None = None,
    names: BaseUrls = (),
    several: bool = True,
    seed: int | None = None,
    workdir: str | os.PathLike[str] | None = None,
    tmpdir: str | os.PathLike[str] | None = None,
    extra: Mapping[str, str] | None = None,
    proxy: str | None = None,
) -> dict[str, str]:
    """The environment an agent is started with.

    Parameters
    ----------
    base
        Where it starts from (usually ``os.environ``). A known base URL that is set to nothing is taken
        for not set, since SDKs make an unusable address of it.
    base_url
        The loopback server's address; each of ``names`` gets it, with the path its SDK expects, and wrapped
        tools find it in ``AFNB_SESSION``.
    names, several
        See ``base_url_paths``.
    seed, workdir, tmpdir
        ``AFNB_SEED``, ``AFNB_WORKDIR``, ``TMPDIR``.
    extra
        The user's own variables; they win, except over the base URLs.
    proxy
        Where clients that follow the environment's proxies are to send everything that is not for this
        machine; None leaves the proxies as they are.

    Examples
    --------
    >>> env = agent_environment({}, base_url="http://127.0.0.1:9", names="OPENAI_BASE_URL", seed=3)
    >>> env["OPENAI_BASE_URL"], env["NO_PROXY"], env["AFNB_SEED"]
    ('http://127.0.0.1:9/v1', '127.0.0.1,localhost,::1', '3')
    """
    env = {k: v for k, v in base.items() if v or k not in KNOWN_BASE_URLS}
    if tmpdir is not None:
        env |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), os.fspath(tmpdir))
    if workdir is not None:
        env["AFNB_WORKDIR"] = os.fspath(workdir)
    if seed is not None:
        env["AFNB_SEED"] = str(seed)
    env |= {str(k): str(v) for k, v in (extra or {}).items()}
    if base_url is not None:
        for name, path in base_url_paths(names, several=several).items():
            env[name] = base_url.rstrip("/") + path
        env[SESSION_VARIABLE] = base_url.rstrip("/")
        value = _with_loopback(env.get("NO_PROXY"), env.get("no_proxy"))
        env["NO_PROXY"] = env["no_proxy"] = value
    if proxy is not None:
        env |= dict.fromkeys(PROXIES, proxy)
        env["NO_PROXY"] = env["no_proxy"] = ",".join(LOOPBACK)
    return env


def _with_loopback(*lists: str | None) -> str:
    hosts = [host.strip() for value in lists for host in (value or "").split(",")]
    if "*" in hosts:
        return "*"
    return ",".join(dict.fromkeys([host for host in hosts if host] + list(LOOPBACK)))
