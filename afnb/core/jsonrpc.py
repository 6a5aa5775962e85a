"""JSON-RPC (MCP over HTTP): a recorded answer under the id of the request that asks for it now.

Clients number their requests, so the same request comes with another id in another run, and a client
drops an answer whose id it did not ask with.
"""

from __future__ import annotations

import re
from dataclasses import replace

from afnb.core.cassette import Request, Response
from afnb.core.edits import Edit, apply_edits, cut_again
from afnb.core.jsonvalue import Json, dumps, equal, loads
from afnb.errors import InputError

_DATA_LINE = re.compile(rb"^data: ?([{\[][^\r\n]*)", re.MULTILINE)


def answer_under_id(recorded: Request, asked: Request, response: Response) -> Response:
    """The recorded response with the asked request's JSON-RPC ids; the same object where they agree.

    Examples
    --------
    >>> old = Request("POST", "/mcp", body=b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    >>> new = Request("POST", "/mcp", body=b'{"jsonrpc":"2.0","id":7,"method":"ping"}')
    >>> answer_under_id(old, new, Response(200, body=b'{"jsonrpc":"2.0","id":1,"result":{}}')).body
    b'{"jsonrpc":"2.0","id":7,"result":{}}'
    """
    if b'"jsonrpc"' not in asked.body or asked.body == recorded.body:
        return response
    ids = [(old, new) for old, new in zip(_ids(recorded.body), _ids(asked.body), strict=False) if old != new]
    if not ids:
        return response
    edits: list[Edit] = []
    whole = _renamed(response.body, ids)
    if whole is not None:
        edits.append((0, len(response.body), whole))
    else:
        for match in _DATA_LINE.finditer(response.body):
            line = _renamed(match[1], ids)
            if line is not None:
                edits.append((match.start(1), match.end(1), line))
    if not edits:
        return response
    chunks = None if response.chunks is None else cut_again(response.chunks, edits)
    return replace(response, body=apply_edits(response.body, edits), chunks=chunks)


def _ids(body: bytes) -> list[str | int]:
    """Ids of the requests in a body, in order."""
    try:
        value = loads(body)
    except InputError:
        return []
    several = value if isinstance(value, list) else [value]
    found = [one.get("id") for one in several if isinstance(one, dict) and "jsonrpc" in one]
    return [one for one in found if isinstance(one, str | int) and not isinstance(one, bool)]


def _renamed(text: bytes, ids: list[tuple[str | int, str | int]]) -> bytes | None:
    """A JSON text with the ids of its responses renamed; None if it is no JSON or has none of them."""
    try:
        value = loads(text)
    except InputError:
        return None

    def one(item: Json) -> Json:
        if not isinstance(item, dict) or "jsonrpc" not in item or "method" in item:
            return item
        for old, new in ids:
            if "id" in item and equal(item["id"], old):
                return {**item, "id": new}
        return item

    changed = [one(item) for item in value] if isinstance(value, list) else one(value)
    return None if equal(changed, value) else dumps(changed).encode("utf-8")
