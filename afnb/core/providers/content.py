"""Message contents and tool results: read as text or JSON, replaced in the form and style they had."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from afnb.core.jsonvalue import Json, dumps, loads, type_name
from afnb.core.providers.base import obj, parsed_or_text, text_or_none
from afnb.errors import InputError


def part_mark(part: Json) -> str:
    """A short stand-in for a part that is no text: its type and a digest, cache hints left out."""
    if isinstance(part, dict):
        kind = text_or_none(part.get("type")) or next((k for k in part if k != "cache_control"), "part")
        part = {k: v for k, v in part.items() if k != "cache_control"}
    else:
        kind = type_name(part)
    digest = hashlib.sha256(dumps(part).encode()).hexdigest()[:8]
    return f"[{kind} {digest}]"


def content_text(content: Json) -> str:
    """The text of a message's content: text as it is, text parts joined, other parts as marks."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return part_mark(content)
    return "\n".join(_part_text(part) for part in content)


def _part_text(part: Json) -> str:
    if isinstance(part, str):
        return part
    text = obj(part).get("text")
    return text if isinstance(text, str) else part_mark(part)


def result_value(content: Json) -> Json:
    """A tool result's value: JSON where its text parses, else the text; a list if not all is text."""
    if isinstance(content, list):
        if not all(isinstance(obj(part).get("text"), str) for part in content):
            return content
        content = content_text(content)
    return "" if content is None else parsed_or_text(content)


def replace_content(content: Json, value: Json) -> Json:
    """A tool result's content with another value, in the form (text or parts) and style it had."""
    if not isinstance(content, list):
        return value_text(value, content)
    if isinstance(value, list) and value and all("type" in obj(part) for part in value):
        return value
    all_text = all(isinstance(obj(part).get("text"), str) for part in content)
    part = next((part for part in content if isinstance(obj(part).get("text"), str)), {"type": "text"})
    return [{**part, "text": value_text(value, content_text(content) if all_text else None)}]


_STYLES: tuple[dict[str, Any], ...] = tuple(
    {"separators": separators, "indent": indent, "ensure_ascii": ensure_ascii, "sort_keys": sort_keys}
    for indent, separators, ensure_ascii in (
        (None, (", ", ": "), True),  # Python's default
        (None, (", ", ": "), False),
        (None, (",", ":"), False),  # JavaScript's default
        (None, (",", ":"), True),
        *((indent, (",", ": "), escape) for indent in (2, 4, 1, "\t") for escape in (True, False)),
    )
    for sort_keys in (False, True)
)
"""Ways to write JSON text; the first that gives a recorded text back is taken for its style."""


def value_text(value: Json, recorded: Json) -> str:
    """``value`` as a tool result's text, written the way the recorded text was.

    Text stays as it is, unless the recorded result was itself a JSON string. Any other value is
    written as JSON in the recorded style (spaces, indentation, escapes), or as a Python literal
    where that is what was recorded.
    """
    dumps(value)  # refuses what is not JSON, naming the place
    if not isinstance(recorded, str):
        return value if isinstance(value, str) else dumps(value)
    try:
        old = loads(recorded)
    except InputError:
        if isinstance(value, str):
            return value
        return repr(value) if _is_python_literal(recorded) else dumps(value)
    if isinstance(value, str) and not isinstance(old, str):
        return value
    style = next((style for style in _STYLES if _styled(old, style) == recorded), None)
    return dumps(value) if style is None else _styled(value, style)


def _styled(value: Json, style: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(value, **style)
        text.encode("utf-8")
    except (UnicodeEncodeError, RecursionError, ValueError):
        return dumps(value)
    return text


def _is_python_literal(text: str) -> bool:
    if len(text) > 100_000 or not text.startswith(("{", "[", "(")):
        return False
    try:
        return repr(ast.literal_eval(text)) == text
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
