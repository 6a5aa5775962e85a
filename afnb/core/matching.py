"""``Matching``: which differences between a recorded and a re-issued request are forgiven.

Every rule has a name, a default and one sentence; ``canon`` carries them out. The defaults are narrow,
since a wrong merge answers a question that was never asked. Credentials in a query are masked always:
they are no part of what was asked and never reach a file.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import unquote_plus

from afnb.core.cassette import Request
from afnb.core.jsonvalue import Json
from afnb.errors import InputError, ParameterError


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of difference that matching can forgive; ``default`` says whether it does unasked."""

    name: str
    default: bool
    forgives: str


RULES: tuple[Rule, ...] = (
    Rule("key_order", True, "the byte form of equal JSON: key order, spaces, escapes"),
    Rule("numbers", True, "how a number is written: numbers equal as exact decimals match"),
    Rule("tool_call_ids", True, "fresh tool-call ids; which result answers which call still counts"),
    Rule("item_ids", True, "fresh ids of Responses items, by item type; references still count"),
    Rule(
        "opaque_echoes", True, "provider tokens echoed back: thoughtSignature, encrypted_content, signature"
    ),
    Rule("arguments_json", True, "how a tool call's arguments text is written, where it is JSON"),
    Rule("null_absent", True, "null against absent in the fields of a message"),
    Rule("cache_control", True, "cache hints, and cache keys that openai-agents draws anew for each run"),
    Rule("multipart", True, "the boundary of a multipart body; its parts still count"),
    Rule("url_ids", False, "provider ids in the path and the query"),
    Rule("stream_mode", False, "stream and stream_options"),
    Rule("metadata", False, "user, metadata, prompt_cache_key and safety_identifier"),
)
"""The table of rules, in the order in which a match names those it needed."""

RULE_NAMES: tuple[str, ...] = tuple(rule.name for rule in RULES)
DEFAULT_RULES: frozenset[str] = frozenset(rule.name for rule in RULES if rule.default)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A user's rule on text: every match of ``regex`` becomes ``replacement`` on both sides.

    It is applied to string values of a JSON body (never to keys) and to text bodies.

    Raises
    ------
    ParameterError
        ``regex`` is no regular expression, or ``replacement`` names a group it does not have.

    Examples
    --------
    >>> Pattern("dates", r"\\d{4}-\\d{2}-\\d{2}").placeholder
    '<dates>'
    """

    name: str
    regex: str
    replacement: str | None = None

    def __post_init__(self) -> None:
        try:
            compiled = re.compile(self.regex)
        except re.error as error:
            raise ParameterError(
                f"pattern {self.name!r}: {self.regex!r} is no regular expression: {error}"
            ) from None
        if self.replacement is not None:
            try:
                compiled.sub(self.replacement, "")
            except (re.error, IndexError) as error:
                raise ParameterError(f"pattern {self.name!r}: bad replacement: {error}") from None

    @property
    def placeholder(self) -> str:
        """What a match is replaced with: ``replacement``, or the name in angle brackets."""
        return f"<{self.name}>".replace("\\", "\\\\") if self.replacement is None else self.replacement


READY_PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "dates",
        r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
        r"|\b(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day,? )?"
        r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
        r" \d{1,2},? \d{4}\b",
    ),
    Pattern("times", r"\b\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[AaPp][Mm])?\b"),
    Pattern("durations", r"\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|sec|secs|seconds?|minutes?|min)\b"),
    Pattern("uuids", r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"),
    Pattern("hex_addresses", r"\b0x[0-9a-fA-F]{4,16}\b"),
    Pattern("paths", r"(?<![\w/.:])/(?:[\w.@+~-]+/)*[\w.@+~-]+/?"),
    Pattern("line_numbers", r"\bline \d+\b"),
)
"""Ready-made patterns for what tracebacks and system prompts carry; none is on unless it is asked for."""

Normaliser = Callable[[Request], Request]


@dataclass(frozen=True, slots=True)
class Matching:
    """How requests are compared. Immutable, hashable; the same value is applied to both sides.

    Parameters
    ----------
    rules
        Names of the rules that are on (see ``RULES``).
    ignore
        JSON paths whose value, present or not, never counts: ``metadata.run_id``,
        ``messages[0].content``, ``tools[*].description``.
    patterns
        Replacements in text, in order.
    normalise
        The user's own function from request to request. It must be pure, and must leave a JSON body JSON.

    Raises
    ------
    ParameterError
        A rule that does not exist, a path that cannot be read, two patterns of one name.

    Examples
    --------
    >>> sorted(Matching().off("numbers").rules ^ Matching().rules)
    ['numbers']
    >>> Matching(ignore=("metadata.run_id",)).names()[-1]
    'ignore:metadata.run_id'
    """

    rules: frozenset[str] = DEFAULT_RULES
    ignore: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    normalise: Normaliser | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", frozenset(self.rules))
        object.__setattr__(self, "ignore", tuple(self.ignore))
        object.__setattr__(self, "patterns", tuple(self.patterns))
        unknown = sorted(self.rules - set(RULE_NAMES))
        if unknown:
            raise ParameterError(f"no matching rule {unknown[0]!r}; the rules are {', '.join(RULE_NAMES)}")
        for path in self.ignore:
            parse_path(path)
        names = [pattern.name for pattern in self.patterns]
        if len(set(names)) != len(names):
            raise ParameterError(f"two patterns have one name: {', '.join(names)}; give each its own")

    def on(self, *names: str) -> Matching:
        """A copy with these rules on."""
        return replace(self, rules=self.rules | set(names))

    def off(self, *names: str) -> Matching:
        """A copy with these rules off."""
        Matching(rules=frozenset(names))  # refuses unknown names
        return replace(self, rules=self.rules - set(names))

    def ignoring(self, *paths: str) -> Matching:
        """A copy that ignores these JSON paths as well."""
        return replace(self, ignore=(*self.ignore, *paths))

    def replacing(self, *patterns: Pattern | str) -> Matching:
        """A copy with these patterns as well; a ready-made one is named by its name alone."""
        ready = {pattern.name: pattern for pattern in READY_PATTERNS}
        chosen: list[Pattern] = []
        for pattern in patterns:
            if isinstance(pattern, str):
                if pattern not in ready:
                    raise ParameterError(f"no ready-made pattern {pattern!r}; there are {', '.join(ready)}")
                pattern = ready[pattern]
            chosen.append(pattern)
        return replace(self, patterns=(*self.patterns, *chosen))

    def names(self) -> tuple[str, ...]:
        """Everything that is on, as reports count it."""
        return (
            *(name for name in RULE_NAMES if name in self.rules),
            *(f"pattern:{pattern.name}" for pattern in self.patterns),
            *(f"ignore:{path}" for path in self.ignore),
            *((self.normaliser_name,) if self.normalise is not None else ()),
        )

    @property
    def normaliser_name(self) -> str:
        """What reports call ``normalise``: its own ``rule`` if it has one, else ``normaliser``."""
        name = getattr(self.normalise, "rule", None)
        return name if isinstance(name, str) else "normaliser"

    def without(self, name: str) -> Matching:
        """A copy without one of ``names()``."""
        kind, _, rest = name.partition(":")
        if self.normalise is not None and name == self.normaliser_name:
            return replace(self, normalise=None)
        if kind == "pattern":
            return replace(self, patterns=tuple(p for p in self.patterns if p.name != rest))
        if kind == "ignore":
            return replace(self, ignore=tuple(p for p in self.ignore if p != rest))
        return self.off(name)

    def to_json(self) -> dict[str, Any]:
        """Settings as plain JSON, for a result's record of how it was made."""
        function = self.normalise
        return {
            "rules": [name for name in RULE_NAMES if name in self.rules],
            "ignore": list(self.ignore),
            "patterns": [
                {"name": p.name, "regex": p.regex, "replacement": p.placeholder} for p in self.patterns
            ],
            "normalise": None if function is None else getattr(function, "__qualname__", repr(function)),
        }

    @classmethod
    def from_json(cls, value: Json) -> Matching:
        """Settings read back from what ``to_json`` gives; a function cannot be read back.

        Raises
        ------
        InputError
            The value has not the form that ``to_json`` writes, or names what does not exist.

        Examples
        --------
        >>> Matching.from_json(Matching().off("numbers").to_json()) == Matching().off("numbers")
        True
        """
        fields = value if isinstance(value, dict) else {}
        rules, ignore = fields.get("rules", list(DEFAULT_RULES)), fields.get("ignore", [])
        patterns = fields.get("patterns", [])
        known = isinstance(value, dict) and all(isinstance(one, list) for one in (rules, ignore, patterns))
        if not known or not all(isinstance(one, str) for one in (*rules, *ignore)):
            raise InputError("matching: expected an object with rules, ignore (lists of text) and patterns")
        if fields.get("normalise") is not None:
            raise InputError(
                f"matching: the function {fields['normalise']!r} cannot be kept in a file; give it again as "
                "matching=Matching(normalise=...)"
            )
        try:
            return cls(frozenset(rules), tuple(ignore), tuple(_pattern(one) for one in patterns))
        except ParameterError as error:
            raise InputError(f"matching: {error}") from None


def _pattern(value: Json) -> Pattern:
    fields = value if isinstance(value, dict) else {}
    name, regex, replacement = (fields.get(key) for key in ("name", "regex", "replacement"))
    if not isinstance(name, str) or not isinstance(regex, str) or not isinstance(replacement, str | None):
        raise ParameterError("a pattern is an object with name, regex and replacement, all texts")
    return Pattern(name, regex, replacement)


DEFAULT = Matching()
"""The rules that are on unless a user says otherwise."""

PathPart = str | int | Literal["*"]
_PATH = re.compile(
    r"""\s*(?: \[ \s* (?P<index>\d+|\*) \s* \] | \[ (?P<quoted>"(?:[^"\\]|\\.)*") \]
        | \.? (?P<key>[^.\[\]"\s]+) )""",
    re.VERBOSE,
)


@functools.lru_cache(maxsize=256)
def parse_path(path: str) -> tuple[tuple[bool, str | int], ...]:
    """The parts of a JSON path, each as (is it a wildcard or index of an array?, the part).

    ``*`` as a key or an index stands for all of them; a leading ``$`` is allowed.

    Raises
    ------
    ParameterError
        The text is no path.

    Examples
    --------
    >>> parse_path("messages[*].content")
    ((False, 'messages'), (True, '*'), (False, 'content'))
    """
    text = path.strip().removeprefix("$")
    parts: list[tuple[bool, str | int]] = []
    at = 0
    while at < len(text):
        match = _PATH.match(text, at)
        if match is None or (text[at] == "." and match["key"] is None):
            break
        if match["index"] is not None:
            parts.append((True, "*" if match["index"] == "*" else int(match["index"])))
        elif match["quoted"] is not None:
            parts.append((False, re.sub(r"\\(.)", r"\1", match["quoted"][1:-1])))
        else:
            parts.append((False, match["key"]))
        at = match.end()
    if not parts or at < len(text):
        raise ParameterError(
            f"{path!r} is no JSON path (stuck at character {at}); "
            "write for example messages[0].content or tools[*].name"
        )
    return tuple(parts)


CREDENTIAL_NAMES: frozenset[str] = frozenset(
    """key api_key api-key apikey x-api-key access_token access-token accesstoken auth auth_token authtoken
    authorization token id_token refresh_token bearer secret client_secret client-secret password passwd pwd
    sig signature x-amz-signature x-amz-credential x-amz-security-token x-goog-signature x-goog-credential
    awsaccesskeyid subscription-key ocp-apim-subscription-key session_token sessiontoken jwt
    """.split()  # noqa: SIM905
)
"""Query parameters whose value is a secret, in lower case."""

MASK = "MASKED"


def mask_query(path: str) -> str:
    """The path with the values of credential parameters masked; everything else stays byte for byte.

    Examples
    --------
    >>> mask_query("/v1beta/models/m:generateContent?alt=sse&key=AIza123")
    '/v1beta/models/m:generateContent?alt=sse&key=MASKED'
    """
    head, mark, query = path.partition("?")
    if not mark or "=" not in query:
        return path
    pieces = re.split(r"([&;])", query)
    for i, piece in enumerate(pieces):
        name, equals, value = piece.partition("=")
        if equals and value and unquote_plus(name).strip().lower() in CREDENTIAL_NAMES:
            pieces[i] = f"{name}={MASK}"
    return f"{head}?{''.join(pieces)}"
