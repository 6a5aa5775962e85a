"""``Redaction``: what a user wants taken out of recordings, and why replays must do the same.

Bodies are kept whole unless the user names JSON paths or patterns. A redaction works on the exchange
itself, before anything is written, so that every form of a body on disk (parsed, text, base64, chunks)
is made from what is left of it. The recording says what was taken out, and the same is taken out of each
re-issued request before it is compared: otherwise a redacted recording would match nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from afnb.core.cassette import Cassette, Exchange, Request, Response, ToolExchange
from afnb.core.edits import Edit, apply_edits, cut_again
from afnb.core.jsonvalue import Json, dumps, equal, loads
from afnb.core.matching import DEFAULT, Matching, mask_query, parse_path
from afnb.errors import InputError, ParameterError

REDACTED = "REDACTED"
ANY_DEPTH = "**"

SECRET_FIELDS = (
    *("api_key", "apikey", "api-key", "x-api-key", "apiKey", "secret", "secret_key", "secretKey"),
    *("password", "passwd", "client_secret", "clientSecret", "private_key", "privateKey"),
    *("access_token", "accessToken", "refresh_token", "refreshToken", "id_token", "auth_token", "authToken"),
    *("session_token", "sessionToken", "authorization", "aws_secret_access_key", "connection_string"),
)
"""Names of body fields that hold a credential (``token`` and ``key`` mean too much else)."""

SECRET_FORMS = (
    r"\bsk-[A-Za-z0-9_-]{16,}",
    r"\bAIza[0-9A-Za-z_-]{35,}",
    r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,}",
    r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bhf_[A-Za-z0-9]{30,}|\bglpat-[A-Za-z0-9_-]{20,}",
    r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    r"(?i:\bbearer )[A-Za-z0-9._~+/-]{16,}=*",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]+?-----END [A-Z ]*PRIVATE KEY-----",
)
"""The usual forms of keys and tokens, as regular expressions."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """What a user wants taken out of recordings; a value that can be called on a request.

    Parameters
    ----------
    paths
        JSON paths (``messages[*].content``, ``choices[*].message.content``) whose value is replaced, in
        requests, responses and every event of a stream. ``**.api_key`` replaces texts and numbers of that
        name at any depth, in texts that are JSON themselves (a tool call's arguments) as well.
    patterns
        Regular expressions; each match is replaced, in JSON texts and keys, in other text and in bytes.
    replacement
        What stands in their place.

    Raises
    ------
    ParameterError
        A path or a pattern that cannot be read, or a replacement that a pattern would match again.

    Notes
    -----
    A secret that a provider splits over several events of a stream is not found by a pattern; name the
    path of the pieces instead.

    Examples
    --------
    >>> from afnb.core.cassette import Request
    >>> hide = Redaction(paths=("user",), patterns=(r"sk-\\w+",))
    >>> hide(Request("POST", "/v1", body=b'{"user":"ann","text":"key sk-1a"}')).body
    b'{"user":"REDACTED","text":"key REDACTED"}'
    """

    paths: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    replacement: str = REDACTED
    rule: ClassVar[str] = "redaction"

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", tuple(self.paths))
        object.__setattr__(self, "patterns", tuple(self.patterns))
        for path in self.paths:
            parse_path(path)
        for pattern in self.patterns:
            try:
                found = re.search(pattern, self.replacement)
                re.compile(pattern, re.ASCII)  # as it is applied to bytes that are no text
            except (re.error, ValueError) as error:
                raise ParameterError(
                    f"redaction pattern {pattern!r} is no regular expression: {error}"
                ) from None
            if found:
                raise ParameterError(
                    f"redaction pattern {pattern!r} matches its own replacement {self.replacement!r}, "
                    "so redacting twice would differ; choose another replacement"
                )

    @classmethod
    def secrets(cls) -> Redaction:
        """What looks like a credential: fields called so at any depth, and the usual forms of keys in texts.

        Examples
        --------
        >>> from afnb.core.cassette import Request
        >>> body = b'{"password":"x1","n":{"text":"use sk-abcdefghijklmnop1234"}}'
        >>> Redaction.secrets()(Request("POST", "/login", body=body)).body
        b'{"password":"REDACTED","n":{"text":"use REDACTED"}}'
        """
        return cls(tuple(f'{ANY_DEPTH}["{name}"]' for name in SECRET_FIELDS), SECRET_FORMS)

    def __call__(self, request: Request) -> Request:
        """The request without what is to be taken out; doing it twice changes nothing more."""
        path = self._text(mask_query(request.path))
        return replace(request, path=path, body=self._body(request.body)[0])

    def response(self, response: Response) -> Response:
        """The response likewise, its chunks cut where they were."""
        body, edits = self._body(response.body)
        if not edits:
            return response
        chunks = None if response.chunks is None else cut_again(response.chunks, edits)
        return replace(response, body=body, chunks=chunks)

    def exchange(self, exchange: Exchange) -> Exchange:
        """Both sides of an exchange."""
        return replace(
            exchange,
            request=self(exchange.request),
            response=self.response(exchange.response),
            forwarded=None if exchange.forwarded is None else self(exchange.forwarded),
        )

    def tool_exchange(self, tool: ToolExchange) -> ToolExchange:
        """A tool call: patterns in its arguments, output and error; paths are tried on both values."""
        return replace(
            tool,
            arguments=self._value(tool.arguments),
            output=self._value(tool.output),
            error=None if tool.error is None else self._text(tool.error),
        )

    def cassette(self, cassette: Cassette) -> Cassette:
        """A whole recording; it says in ``attrs`` what was taken out, so that replays can do the same."""
        return replace(
            cassette,
            exchanges=tuple(self.exchange(exchange) for exchange in cassette.exchanges),
            tool_exchanges=tuple(self.tool_exchange(tool) for tool in cassette.tool_exchanges),
            task=None if cassette.task is None else self._text(cassette.task),
            attrs={**cassette.attrs, "redaction": self._after(cassette).to_json()},
        )

    def _after(self, cassette: Cassette) -> Redaction:
        earlier = cassette.attrs.get("redaction")
        return self if earlier is None else Redaction.from_json(earlier).merged(self)

    def merged(self, other: Redaction) -> Redaction:
        """This redaction and another one; the other's replacement is used from now on."""
        return Redaction(
            tuple(dict.fromkeys((*self.paths, *other.paths))),
            tuple(dict.fromkeys((*self.patterns, *other.patterns))),
            other.replacement,
        )

    def to_json(self) -> dict[str, Any]:
        """The settings as plain JSON."""
        return {"paths": list(self.paths), "patterns": list(self.patterns), "replacement": self.replacement}

    @classmethod
    def from_json(cls, value: Json) -> Redaction:
        """The settings read back.

        Raises
        ------
        InputError
            The value has not the form that ``to_json`` writes.
        """
        known = isinstance(value, dict) and all(
            isinstance(value.get(name, []), list) and all(isinstance(one, str) for one in value.get(name, []))
            for name in ("paths", "patterns")
        )
        if not known or not isinstance(value.get("replacement", ""), str):
            raise InputError(
                f"redaction: found {dumps(value)[:80]}, expected paths, patterns (lists of text), replacement"
            )
        try:
            return cls(
                tuple(value.get("paths", ())),
                tuple(value.get("patterns", ())),
                value.get("replacement", REDACTED),
            )
        except ParameterError as error:
            raise InputError(f"redaction: {error}") from None

    def value(self, value: Json) -> Json:
        """A JSON value without what is to be taken out.

        Examples
        --------
        >>> Redaction(("user",), ("sk-[0-9]+",)).value({"user": "ann", "said": "sk-12"})
        {'user': 'REDACTED', 'said': 'REDACTED'}
        """
        return self._value(value)

    def _text(self, text: str, *, flags: int = 0) -> str:
        for pattern in self.patterns:
            text = re.sub(pattern, lambda _: self.replacement, text, flags=flags)
        return text

    def _value(self, value: Json) -> Json:
        """The value without what is to be taken out; the same object where nothing was."""
        for path in self.paths:
            value = _replaced(value, parse_path(path), self.replacement)
        return self._texts(value) if self.patterns else value

    def _texts(self, value: Json) -> Json:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {self._text(key): self._texts(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._texts(one) for one in value]
        if value is None or isinstance(value, bool):
            return value
        written = dumps(value)
        changed = self._text(written)
        return value if changed == written else changed

    def _json(self, text: str) -> str | None:
        """A JSON text redacted; the same text where nothing was found, None where it is no JSON."""
        try:
            value = loads(text)
        except InputError:
            return None
        changed = self._value(value)
        return text if equal(value, changed) else dumps(changed)

    def _body(self, body: bytes) -> tuple[bytes, list[Edit]]:
        """The body redacted, and which spans of the old bytes became what."""
        if not body or not (self.paths or self.patterns):
            return body, []
        try:
            text, code, flags = body.decode("utf-8"), "utf-8", 0
        except UnicodeDecodeError:
            text, code, flags = body.decode("latin-1"), "latin-1", int(re.ASCII)
        whole = self._json(text) if text.lstrip()[:1] in ("{", "[", '"') else None
        if whole is not None:
            return (body, []) if whole == text else (whole.encode(), [(0, len(body), whole.encode())])
        lines = text.split("\n")
        if not any(_JSON_LINE.match(line) for line in lines):
            new = self._text(text, flags=flags).encode(code, "replace")
            return (body, []) if new == body else (new, [(0, len(body), new)])
        edits: list[Edit] = []
        at = 0
        for line in lines:
            size = len(line.encode(code)) + 1
            changed = self._line(line, flags)
            if changed != line:
                edits.append((at, at + size - 1, changed.encode(code, "replace")))
            at += size
        if not edits:
            return body, []
        return apply_edits(body, edits), edits

    def _line(self, line: str, flags: int) -> str:
        """One line of an event stream, of JSON Lines or of plain text."""
        ending = "\r" if line.endswith("\r") else ""
        bare = line[: len(line) - len(ending)]
        head = re.match(r"data: ?", bare)
        start = head.end() if head else 0
        if bare[start : start + 1] in ("{", "["):
            changed = self._json(bare[start:])
            if changed is not None:
                return bare[:start] + changed + ending
        return self._text(bare, flags=flags) + ending


_JSON_LINE = re.compile(r"(?:data: ?)?[{\[]")


def _replaced(value: Json, parts: tuple[tuple[bool, str | int], ...], new: str) -> Json:
    """A copy of the value with what stands at a path replaced; the same object where there is nothing."""
    if not parts:
        return new
    (in_array, part), rest = parts[0], parts[1:]
    if part == ANY_DEPTH:
        return _everywhere(value, rest, new)
    if isinstance(value, list) and (in_array or part == "*"):
        wanted = range(len(value)) if part == "*" else range(int(part), min(int(part) + 1, len(value)))
        changed = {i: _replaced(value[i], rest, new) for i in wanted}
        if all(changed[i] is value[i] for i in changed):
            return value
        return [changed.get(i, one) for i, one in enumerate(value)]
    if isinstance(value, dict) and (not in_array or part == "*"):
        names = list(value) if part == "*" else [part] if part in value else []
        fresh = {name: _replaced(value[name], rest, new) for name in names}
        if all(fresh[name] is value[name] for name in fresh):
            return value
        return {name: fresh.get(name, one) for name, one in value.items()}
    return value


def _everywhere(value: Json, parts: tuple[tuple[bool, str | int], ...], new: str) -> Json:
    """A copy with the texts and numbers replaced that stand at a path anywhere in it."""
    here = _replaced(value, parts, new)
    if isinstance(value, dict) and isinstance(here, dict):
        fresh = {
            name: here[name] if here[name] is not one and not isinstance(one, dict | list | None | bool) else
            _everywhere(one, parts, new)
            for name, one in value.items()
        }  # fmt: skip
        return value if all(fresh[name] is value[name] for name in fresh) else fresh
    if isinstance(value, list):
        several = [_everywhere(one, parts, new) for one in value]
        return value if all(a is b for a, b in zip(several, value, strict=True)) else several
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            inside = loads(value)
        except InputError:
            return value
        changed = _everywhere(inside, parts, new)
        return value if changed is inside else dumps(changed)
    return value


@dataclass(frozen=True, slots=True)
class _Both:
    """One request function after another (a value, so that it can be sent to a worker)."""

    first: Callable[[Request], Request]
    second: Callable[[Request], Request]

    def __call__(self, request: Request) -> Request:
        return self.second(self.first(request))


def kept_redaction(cassette: Cassette) -> Redaction | None:
    """What was taken out of a recording, as it says itself; None for nothing.

    Raises
    ------
    InputError
        The recording's own settings cannot be read.
    """
    settings = cassette.attrs.get("redaction")
    return None if settings is None else Redaction.from_json(settings)


def matching_for(cassette: Cassette, matching: Matching | None = None) -> Matching:
    """The matching to use with a recording: the one given, or the recording's own, its redaction before it.

    What was taken out of a recording is taken out of each re-issued request as well before the two are
    compared; without this a redacted recording would match nothing.

    Raises
    ------
    InputError
        The recording's own settings cannot be read.
    """
    if matching is None:
        own_rules = cassette.attrs.get("matching")
        matching = DEFAULT if own_rules is None else Matching.from_json(own_rules)
    settings = cassette.attrs.get("redaction")
    if settings is None:
        return matching
    redaction = Redaction.from_json(settings)
    own = matching.normalise
    if own == redaction or (isinstance(own, _Both) and own.first == redaction):
        return matching
    return replace(matching, normalise=redaction if own is None else _Both(redaction, own))


def with_matching(cassette: Cassette, matching: Matching) -> Cassette:
    """The recording with rules of its own: they hold in every replay that names no others.

    Raises
    ------
    ParameterError
        The rules hold a function, which no file can keep.

    Examples
    --------
    >>> kept = with_matching(Cassette("c"), Matching(ignore=("metadata.run_id",)))
    >>> matching_for(kept).ignore
    ('metadata.run_id',)
    """
    return replace(cassette, attrs={**cassette.attrs, **kept_rules(matching)})


def kept_rules(matching: Matching | None) -> dict[str, Any]:
    """The fields of a recording that keep its rules; none for None.

    Raises
    ------
    ParameterError
        The rules hold a function, which no file can keep.
    """
    if matching is None:
        return {}
    if matching.normalise is not None:
        raise ParameterError(
            f"the {matching.normaliser_name} cannot be kept in a recording, it is a function; "
            "give it to each replay as matching="
        )
    return {"matching": matching.to_json()}
