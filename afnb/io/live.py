"""``LiveUpstream``: the provider itself, over httpx.

The agent's own credential headers are passed on and never kept. One pooled client a process serves
all live upstreams; proxies from the environment are used for real hosts, never for this machine.
"""

from __future__ import annotations

import atexit
import ipaddress
import os
import re
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from afnb.core.cassette import Headers, Request
from afnb.errors import ParameterError, UpstreamError
from afnb.io.ratelimit import RateLimit
from afnb.io.reply import Reply, Upstream

if TYPE_CHECKING:
    import httpx

HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
    }
)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir")
MAX_REDIRECTS = 5

_clients: dict[tuple[object, ...], httpx.Client] = {}
_clients_lock = threading.Lock()


def without_secrets(url: str) -> str:
    """A URL as messages may show it: user name, password, query and fragment masked.

    Examples
    --------
    >>> without_secrets("https://me:secret@host/v1?api_key=SECRET#x")
    'https://...@host/v1?...'
    """
    shown = re.sub(r"(?s)[?#].*", "?...", url)
    return re.sub(r"(?s)(^|//)[^/]*@", r"\1...@", shown)


def check_origin(value: str) -> str:
    """A provider's origin without a trailing slash, or a ``ParameterError`` that says what is expected.

    Examples
    --------
    >>> check_origin("https://api.openai.com/")
    'https://api.openai.com'
    """
    shown = without_secrets(value)
    wanted = "expected the provider's origin, such as https://api.openai.com or http://127.0.0.1:8000"
    try:
        parts = urlsplit(value.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ParameterError(f"upstream {shown!r} is not a URL; {wanted}") from None
    if parts.scheme.lower() not in ("http", "https") or not host:
        raise ParameterError(f"upstream {shown!r} is not an http or https URL with a host; {wanted}")
    if parts.username is not None or parts.password is not None:
        raise ParameterError(
            f"upstream {parts.scheme}://...@{host} holds a user name or password; leave them out, the agent "
            "sends its own credentials in its headers"
        )
    if parts.query or parts.fragment:
        raise ParameterError(f"upstream {shown!r} has a query or a fragment; {wanted}")
    return f"{parts.scheme.lower()}://{parts.netloc}{parts.path.rstrip('/')}"


def is_loopback(host: str) -> bool:
    """True for ``localhost`` and for addresses of this machine's loopback interface.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("api.openai.com")
    (True, False)
    """
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def end_to_end(headers: Headers) -> Headers:
    """The headers without those that belong to one connection, and without those they name."""
    named = {
        token.strip().lower()
        for name, value in headers
        if name.lower() == "connection"
        for token in value.split(",")
    }
    return tuple((k, v) for k, v in headers if k.lower() not in HOP_BY_HOP and k.lower() not in named)


class LiveUpstream(Upstream):
    """The provider at ``origin``, asked for real.

    Parameters
    ----------
    origin
        Such as ``https://api.openai.com``; a path is put before the request's own path unless that
        already starts with it, so that ``https://api.openai.com/v1`` works as well.
    timeout_s
        Longest silence of the provider, in seconds, before a call fails.
    retries
        How often a call that surely was not processed (no connection) or that only reads is tried
        again after a transport fault. HTTP errors are answers and never tried again here.
    trust_env
        Use the proxies of ``HTTP_PROXY``, ``HTTPS_PROXY`` and ``NO_PROXY``. They never apply to
        ``localhost`` and 127.0.0.0/8.
    limit
        A ``RateLimit`` shared by every worker that uses this upstream.

    Raises
    ------
    ParameterError
        ``origin`` is not an http or https URL, or holds credentials.

    Examples
    --------
    >>> LiveUpstream("https://api.openai.com/").origin
    'https://api.openai.com'
    """

    __slots__ = ("_origin", "limit", "retries", "timeout_s", "trust_env")

    def __init__(
        self,
        origin: str,
        *,
        timeout_s: float = 600.0,
        retries: int = 2,
        trust_env: bool = True,
        limit: RateLimit | None = None,
    ) -> None:
        if timeout_s <= 0:
            raise ParameterError(f"timeout_s is {timeout_s!r}; it must be a positive number of seconds")
        if retries < 0:
            raise ParameterError(f"retries is {retries!r}; it must be 0 or more")
        self._origin = check_origin(origin)
        self.timeout_s = timeout_s
        self.retries = retries
        self.trust_env = trust_env
        self.limit = limit

    @property
    def origin(self) -> str:
        """The provider's origin."""
        return self._origin

    def open(self, request: Request) -> Reply:
        """Send the request; the reply's chunks come as the provider sends them, decoded."""
        if self.limit is not None:
            self.limit.wait()
        raw = self._send(request)
        if self.limit is not None:
            self.limit.note(raw.status_code, _headers(raw))
        headers = _headers(raw)
        coding = raw.headers.get("content-encoding", "identity").lower()
        if not set(_tokens(coding)) <= {
            "identity",
            *_tokens(_accepted(_client(self._origin, self.trust_env))),
        }:
            raw.close()
            raise UpstreamError(
                f"{self._origin} answered with content-encoding {coding!r}, which was not asked for and "
                "cannot be decoded here; for br run: pip install brotli"
            )
        kept = tuple((k, v) for k, v in end_to_end(headers) if k.lower() != "content-encoding")
        return Reply(raw.status_code, kept, self._body(raw), raw.close)

    def _send(self, request: Request) -> httpx.Response:
        import httpx

        client = _client(self._origin, self.trust_env)
        outgoing = self._outgoing(client, request)
        for attempt in range(self.retries + 1):
            try:
                raw = client.send(outgoing, stream=True, follow_redirects=False)
                return self._follow(client, raw)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
                fault: Exception = error
            except (httpx.TransportError, httpx.InvalidURL) as error:
                fault = error
                passing = isinstance(error, (httpx.NetworkError, httpx.RemoteProtocolError))
                if not passing or request.method.upper() not in SAFE_METHODS:
                    break
            if attempt < self.retries:
                time.sleep(0.1 * 4**attempt)
        raise UpstreamError(
            f"{request.method} {self._origin}{_plain(request.path)} got no answer "
            f"({_words(fault)}); check that the provider is up and that the upstream is right"
        ) from None

    def _outgoing(self, client: httpx.Client, request: Request) -> httpx.Request:
        import httpx

        prefix = urlsplit(self._origin).path
        base = self._origin.removesuffix(prefix) if prefix else self._origin
        path = request.path if request.path.startswith("/") else "/" + request.path
        if prefix and not (path == prefix or path.startswith((prefix + "/", prefix + "?"))):
            path = prefix + path
        headers = [(k, v) for k, v in end_to_end(request.headers) if k.lower() != "accept-encoding"]
        headers.append(("accept-encoding", _accepted(client)))
        timeout = httpx.Timeout(self.timeout_s, connect=min(10.0, self.timeout_s))
        try:
            return httpx.Request(
                request.method,
                base + path,
                headers=[(_octets(k), _octets(v)) for k, v in headers],
                content=request.body,
                extensions={"timeout": timeout.as_dict()},
            )
        except httpx.InvalidURL as error:
            raise UpstreamError(f"{base + _plain(path)!r} cannot be asked: {error}") from None

    def _follow(self, client: httpx.Client, raw: httpx.Response) -> httpx.Response:
        for _ in range(MAX_REDIRECTS):
            following = raw.next_request
            if following is None or following.url.netloc != raw.request.url.netloc:
                break
            if following.url.scheme != raw.request.url.scheme:
                break
            raw.close()
            following.extensions = dict(raw.request.extensions)
            raw = client.send(following, stream=True, follow_redirects=False)
        return raw

    def _body(self, raw: httpx.Response) -> Iterator[bytes]:
        import httpx

        try:
            yield from raw.iter_bytes()
        except (httpx.TransportError, httpx.DecodingError, httpx.StreamError) as error:
            raise UpstreamError(
                f"the answer of {self._origin} stopped before its end ({_words(error)})"
            ) from None

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self._origin, self.timeout_s, self.retries, self.trust_env, self.limit)


def _rebuild(
    origin: str, timeout_s: float, retries: int, trust_env: bool, limit: RateLimit | None
) -> LiveUpstream:
    return LiveUpstream(origin, timeout_s=timeout_s, retries=retries, trust_env=trust_env, limit=limit)


def _client(origin: str, trust_env: bool) -> httpx.Client:
    trusted = trust_env and not is_loopback(urlsplit(origin).hostname or "")
    environment: tuple[object, ...] = ()
    if trusted:
        environment = tuple(os.environ.get(n) or os.environ.get(n.upper()) for n in PROXY_VARIABLES)
    key = (os.getpid(), trusted, environment)
    with _clients_lock:
        if key not in _clients:
            _clients[key] = _new_client(trusted)
        return _clients[key]


def _new_client(trust_env: bool) -> httpx.Client:
    import httpx

    limits = httpx.Limits(max_connections=512, max_keepalive_connections=64, keepalive_expiry=5.0)
    return httpx.Client(trust_env=trust_env, limits=limits)


@atexit.register
def close_clients() -> None:
    """Close the pooled connections of this process; the next call opens new ones."""
    with _clients_lock:
        mine = [key for key in _clients if key[0] == os.getpid()]
        for key in mine:
            _clients.pop(key).close()


def _headers(raw: httpx.Response) -> Headers:
    return tuple((k.decode("latin-1").lower(), v.decode("latin-1")) for k, v in raw.headers.raw)


def _accepted(client: httpx.Client) -> str:
    return str(client.headers.get("accept-encoding", "gzip, deflate"))


def _tokens(value: str) -> list[str]:
    return [token.partition(";")[0].strip() for token in value.split(",") if token.strip()]


def _octets(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8")


def _plain(path: str) -> str:
    """The path without its query, which may hold a key."""
    return path.partition("?")[0]


def _words(error: Exception) -> str:
    import httpx

    if isinstance(error, httpx.LocalProtocolError):  # its text quotes the header, which may be a credential
        return "LocalProtocolError: a header of the request cannot be sent"
    return f"{type(error).__name__}: {error}".rstrip(": ")
