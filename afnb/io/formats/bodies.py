"""A body as fields of a JSON document: read, where that loses no byte of it, or as the text that it was."""

from __future__ import annotations

import base64
from typing import Any

from afnb.core.jsonvalue import Json, dumps, loads
from afnb.errors import InputError

_DEEPEST = 200


def in_base64(data: bytes) -> str:
    """Base64 text."""
    return base64.b64encode(data).decode("ascii")


def plain_body(body: bytes) -> dict[str, Any]:
    """A body's fields without reading it: its text, or its bytes where it is none.

    Examples
    --------
    >>> plain_body(b'{"a":1}'), plain_body(b"\\xff"), plain_body(b"")
    ({'body': '{"a":1}'}, {'body': None, 'body_base64': '/w=='}, {'body': None})
    """
    if not body:
        return {"body": None}
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body": None, "body_base64": in_base64(body)}


def body_to_json(body: bytes) -> dict[str, Any]:
    """A body's fields: ``body``, and ``body_base64`` where ``body`` alone would not give back the bytes.

    Examples
    --------
    >>> body_to_json(b'{"a":1}'), body_to_json(b"plain"), body_to_json(b"\\xff")
    ({'body': {'a': 1}}, {'body': 'plain'}, {'body': None, 'body_base64': '/w=='})
    """
    if not body:
        return {"body": None}
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return {"body": None, "body_base64": in_base64(body)}
    try:
        value = loads(text)
    except InputError:
        return {"body": text}
    if text.count("[") + text.count("{") > _DEEPEST and _depth(value) > _DEEPEST:
        return {"body": text}  # as JSON it could make the document too deep to be read again
    if value is None or isinstance(value, str) or dumps(value) != text:
        return {"body": value, "body_base64": in_base64(body)}
    return {"body": value}


def _depth(value: Json) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    return depth
