"""What may reach disk: headers by allowlist, masked credentials in queries, and a user's own redactions."""

from __future__ import annotations

from dataclasses import replace

from afnb.core.cassette import Exchange, Headers, Request
from afnb.core.matching import CREDENTIAL_NAMES, MASK, mask_query
from afnb.core.redaction import Redaction, matching_for

__all__ = [
    "CREDENTIAL_NAMES",
    "MASK",
    "REQUEST_HEADERS",
    "RESPONSE_HEADERS",
    "Redaction",
    "allowed_headers",
    "mask_query",
    "matching_for",
    "safe_exchange",
]

REQUEST_HEADERS = frozenset({"content-type", "accept"})
RESPONSE_HEADERS = frozenset({"content-type", "retry-after", "retry-after-ms"})


def allowed_headers(headers: Headers, *, response: bool = False) -> Headers:
    """The headers that may be kept, names in lower case; whatever else there is never reaches disk.

    Examples
    --------
    >>> allowed_headers((("Content-Type", "application/json"), ("X-Api-Key", "k")))
    (('content-type', 'application/json'),)
    """
    allowed = RESPONSE_HEADERS if response else REQUEST_HEADERS
    return tuple((name.lower(), value) for name, value in headers if name.lower() in allowed)


def safe_exchange(exchange: Exchange) -> Exchange:
    """The exchange with nothing in its headers and paths that must not reach disk."""

    def safe(request: Request) -> Request:
        return replace(request, path=mask_query(request.path), headers=allowed_headers(request.headers))

    response = exchange.response
    return replace(
        exchange,
        request=safe(exchange.request),
        response=replace(response, headers=allowed_headers(response.headers, response=True)),
        forwarded=None if exchange.forwarded is None else safe(exchange.forwarded),
    )
