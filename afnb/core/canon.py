"""The canonical form of a request: what is left of it once every difference that is forgiven is gone.

::

    request -> normaliser -> parse (JSON, multipart, text) -> ignored paths -> walk (rules) -> view -> key

Two requests match exactly if their keys are equal. Ids are renamed and never deleted: each becomes a
token numbered by its first appearance (in sorted key order), so that which result answers which call
still decides. Rules apply to what a provider's wire format defines; inside a tool's own arguments,
results and schemas everything is data and stays. A body that is not JSON compares byte for byte.
"""

from __future__ import annotations

import functools
import hashlib
import json
import marshal
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from afnb.core.canonwalk import IGNORED, JSON_TEXT, CanonicalWalk, Marks, Settings, drop_paths
from afnb.core.cassette import Request, header
from afnb.core.exactjson import NotJson, parse
from afnb.core.matching import (
    DEFAULT,
    DEFAULT_RULES,
    RULE_NAMES,
    RULES,
    Matching,
    Pattern,
    Rule,
    mask_query,
)
from afnb.errors import ParameterError

__all__ = [
    "DEFAULT",
    "DEFAULT_RULES",
    "RULES",
    "RULE_NAMES",
    "Canonical",
    "Key",
    "Matching",
    "Pattern",
    "Rule",
    "canonical",
    "canonical_key",
    "needed_rules",
    "plain",
]

Form = Literal["empty", "json", "multipart", "text", "bytes"]


@dataclass(frozen=True, slots=True)
class Key:
    """What a request is looked up by. Equal digests mean that the requests match.

    ``form`` is how the body was read, ``note`` why a body that looks like JSON was not read as JSON,
    ``applied`` how often each rule acted. ``touched`` holds a fingerprint of what each rule acted on: equal
    ones mean that the rule makes no difference between two requests whose digests are equal.
    """

    digest: str
    form: Form = field(compare=False)
    note: str | None = field(default=None, compare=False)
    applied: tuple[tuple[str, int], ...] = field(default=(), compare=False)
    touched: tuple[tuple[str, int], ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return self.digest[:12]


@dataclass(frozen=True, slots=True)
class Canonical:
    """A request with everything forgiven taken out. ``view`` is the body; ``plain`` makes it readable."""

    method: str
    path: str
    form: Form
    view: Any
    note: str | None
    applied: tuple[tuple[str, int], ...]
    touched: tuple[tuple[str, int], ...] = field(default=(), repr=False)

    def key(self) -> Key:
        """The key of this canonical form."""
        data = marshal.dumps((self.method, self.path, self.form, self.view), 2)
        return Key(hashlib.sha256(data).hexdigest()[:32], self.form, self.note, self.applied, self.touched)


@functools.lru_cache(maxsize=64)
def _settings(matching: Matching) -> Settings:
    return Settings(
        rules=matching.rules,
        patterns=tuple((f"pattern:{p.name}", re.compile(p.regex), p.placeholder) for p in matching.patterns),
    )


def canonical(request: Request, matching: Matching = DEFAULT) -> Canonical:
    """The canonical form of a request.

    Parameters
    ----------
    request
        As the agent sent it. Of its headers only the multipart boundary is ever looked at.
    matching
        The rules.

    Raises
    ------
    ParameterError
        The user's own normaliser raised, returned no request, or broke a JSON body.

    Examples
    --------
    >>> a = Request("POST", "/v1/x", body=b'{"n": 1.0, "call_id": "c7"}')
    >>> plain(canonical(a).view)
    {'call_id': 'tool call 0', 'n': 1}
    """
    marks = Marks()
    if matching.normalise is not None:
        request = _normalised(request, matching, marks)
    settings = _settings(matching)
    method = request.method.upper()
    path = mask_query(request.path)
    if "url_ids" in matching.rules:
        path = _without_url_ids(path, marks)
    form, view, note = _body(request, matching, settings, marks)
    return Canonical(method, path, form, view, note, tuple(sorted(marks.counts.items())), marks.prints())


def canonical_key(request: Request, matching: Matching = DEFAULT) -> Key:
    """What a request is looked up by: equal for two requests exactly if they match.

    The digest is made for comparing requests in one process, not for keeping.

    Examples
    --------
    >>> a = Request("POST", "/v1/x", body=b'{"temperature": 1, "model": "m"}')
    >>> b = Request("POST", "/v1/x", body=b'{"model":"m","temperature":1.0}')
    >>> canonical_key(a) == canonical_key(b)
    True
    >>> canonical_key(a, DEFAULT.off("numbers")) == canonical_key(b, DEFAULT.off("numbers"))
    False
    """
    return canonical(request, matching).key()


def needed_rules(
    recorded: Request,
    asked: Request,
    matching: Matching = DEFAULT,
    key_of: Callable[[Request, Matching], Key] = canonical_key,
) -> tuple[str, ...]:
    """The rules without which two matching requests would not match; empty for equal bytes.

    Where several sets would do, rules that come late in ``Matching.names`` are given up first.

    Parameters
    ----------
    recorded, asked
        Two requests with equal keys.
    matching
        The rules under which they match.
    key_of
        ``canonical_key``, or a function that remembers what it gave.
    """
    if (recorded.method, recorded.path, recorded.body) == (asked.method, asked.path, asked.body):
        return ()
    a, b = dict(key_of(recorded, matching).touched), dict(key_of(asked, matching).touched)
    differing = {name for name in a.keys() | b.keys() if a.get(name) != b.get(name)}
    few = matching
    for name in matching.names():
        if name not in differing:
            few = few.without(name)
    tries = [few, few.on("key_order")] if "key_order" in matching.rules else [few]
    for tried in tries:
        if _same(recorded, asked, tried, key_of):
            if tried.normalise is not None and _same(recorded, asked, replace(tried, normalise=None), key_of):
                tried = replace(tried, normalise=None)
            return tried.names()
    return _fewest(recorded, asked, matching, key_of)


def _same(
    recorded: Request, asked: Request, matching: Matching, key_of: Callable[[Request, Matching], Key]
) -> bool:
    try:
        return key_of(recorded, matching) == key_of(asked, matching)
    except ParameterError:  # the user's normaliser without the patterns that went before it
        return False


def _fewest(
    recorded: Request, asked: Request, matching: Matching, key_of: Callable[[Request, Matching], Key]
) -> tuple[str, ...]:
    """Give up one rule after the other as long as the two still match."""
    kept = matching
    for name in reversed(matching.names()):
        fewer = kept.without(name)
        if _same(recorded, asked, fewer, key_of):
            kept = fewer
    return kept.names()


def _normalised(request: Request, matching: Matching, marks: Marks) -> Request:
    function = matching.normalise
    assert function is not None
    name = getattr(function, "__qualname__", repr(function))
    try:
        changed = function(request)
    except Exception as error:
        raise ParameterError(f"the normaliser {name} raised {type(error).__name__}: {error}") from error
    if not isinstance(changed, Request):
        raise ParameterError(f"the normaliser {name} returned a {type(changed).__name__}; expected a Request")
    if changed.body != request.body and _is_json(request.body) and not _is_json(changed.body):
        raise ParameterError(
            f"the normaliser {name} turned a JSON body into one that is not JSON; keep it JSON"
        )
    if changed != request:
        marks.add(matching.normaliser_name, (request.method, request.path, request.headers, request.body))
    return changed


def _is_json(body: bytes) -> bool:
    try:
        parse(body, True)
    except (ValueError, RecursionError):
        return False
    return True


def _body(
    request: Request, matching: Matching, settings: Settings, marks: Marks
) -> tuple[Form, Any, str | None]:
    body = request.body
    if not body:
        return "empty", None, None
    content_type = header(request.headers, "content-type") or ""
    note: str | None = None
    if body.lstrip(b" \t\r\n")[:1] in (b"{", b"[") or "json" in content_type.lower():
        found = Marks()
        try:
            value = parse(body, "numbers" in matching.rules, lambda literal: found.add("numbers", literal))
            drop_paths(value, matching.ignore, found)
            view = CanonicalWalk(settings, found).top(value)
        except NotJson as error:
            note = str(error)
        except UnicodeDecodeError as error:
            note = f"not UTF-8: byte 0x{body[error.start]:02x} at offset {error.start}"
        except json.JSONDecodeError as error:
            note = f"not JSON: {error.msg.removesuffix(' at')} at line {error.lineno} column {error.colno}"
        except (ValueError, RecursionError):
            note = "JSON nested too deeply to be compared by value"
        else:
            marks.take(found)
            return "json", view, None
    if "multipart" in matching.rules:
        parts = _multipart(body, content_type, settings, marks)
        if parts is not None:
            marks.add("multipart", (content_type, body))
            return "multipart", parts, note
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes", body, note
    return "text", settings.replace_text(text, marks), note


_BOUNDARY = re.compile(r'boundary=(?:"([^"]+)"|([^\s;,]+))', re.IGNORECASE)
_FIRST_LINE = re.compile(rb"--([0-9A-Za-z'()+_,./:=? -]{1,70})\r\n[Cc]ontent-")


def _multipart(
    body: bytes, content_type: str, settings: Settings, marks: Marks
) -> list[tuple[list[tuple[str, str]], Any]] | None:
    """The parts of a multipart body: headers and bytes of each; None if it is none."""
    named = _BOUNDARY.search(content_type) if "multipart/" in content_type.lower() else None
    if named is not None:
        boundary = (named[1] or named[2]).encode("latin-1", "replace")
    else:
        sniffed = _FIRST_LINE.match(body)
        if sniffed is None:
            return None
        boundary = sniffed[1]
    mark = b"--" + boundary
    pieces = (b"\r\n" + body).split(b"\r\n" + mark)
    if len(pieces) < 3 or pieces[0].strip() or not pieces[-1].startswith(b"--"):
        return None
    parts: list[tuple[list[tuple[str, str]], Any]] = []
    for piece in pieces[1:-1]:
        head, gap, content = piece.partition(b"\r\n\r\n")
        if not gap or not head.startswith(b"\r\n"):
            return None
        headers: list[tuple[str, str]] = []
        for line in head[2:].decode("utf-8", "surrogateescape").split("\r\n"):
            name, _, value = line.partition(":")
            headers.append((name.strip().lower(), settings.replace_text(value.strip(), marks)))
        parts.append((sorted(headers), _text_or_bytes(content, settings, marks)))
    parts.append(([], pieces[-1][2:].strip(b"\r\n")))
    return parts


def _text_or_bytes(content: bytes, settings: Settings, marks: Marks) -> str | bytes:
    if not settings.patterns:
        return content
    try:
        return settings.replace_text(content.decode("utf-8"), marks).encode("utf-8")
    except UnicodeDecodeError:
        return content


_URL_ID = re.compile(
    r"(?<=[/=,])(?:[a-z]{1,16}[-_][A-Za-z0-9_-]*\d[A-Za-z0-9_-]{7,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?=[/?&,]|$)"
)
_ID_HEADS = re.compile(
    r"(?:resp|file|thread|run|step|msg|asst|vs|conv|batch|msgbatch|cntr|container|ftjob|upload|call|chatcmpl|job|skill|sess)[-_]"
)


def _without_url_ids(path: str, marks: Marks) -> str:
    seen: dict[str, int] = {}

    def token(match: re.Match[str]) -> str:
        text = match[0]
        if not _ID_HEADS.match(text) and text.count("-") != 4:
            return text
        marks.add("url_ids", text)
        return f"<id {seen.setdefault(text, len(seen))}>"

    return _URL_ID.sub(token, path)


def plain(view: Any) -> Any:
    """A canonical body as ordinary JSON values, for showing and for comparing place by place."""
    if isinstance(view, dict):
        return {key: plain(value) for key, value in view.items()}
    if isinstance(view, list):
        return [plain(value) for value in view]
    if isinstance(view, tuple):
        if view == IGNORED:
            return "(ignored)"
        head, rest = view
        return plain(rest) if head == JSON_TEXT else {"headers": dict(head), "body": plain(rest)}
    if isinstance(view, bytes):
        try:
            return view.decode("utf-8")
        except UnicodeDecodeError:
            return f"<{len(view)} bytes, sha256 {hashlib.sha256(view).hexdigest()[:16]}>"
    return view
