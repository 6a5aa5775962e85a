"""One pass over a JSON body that applies the matching rules by key path.

Where a value stands decides what it is. A *place* is one of: the top object, an item of the top-level
``input`` list, a message (or anything inside one), plain (everything else of the wire format), and data
(a tool's arguments and results, schemas, metadata), in which no rule but key order, numbers and text
patterns applies.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from afnb.core.exactjson import parse
from afnb.core.matching import parse_path

_TOP, _ITEM, _MESSAGE, _PLAIN = range(4)
_WITH_NULLS = (_MESSAGE, _ITEM)
_DROP: Final = object()
_AS_USUAL: Final = object()
_DEEPEST = 200

JSON_TEXT: Final = "json"
"""First element of the pair that stands for text that was read as JSON."""

IGNORED: Final = ("ignored",)
"""Stands for an ignored element of an array, whose place must be kept."""


class TooDeep(ValueError):
    """Nested deeper than is compared by value."""


class Marks:
    """How often each rule acted on one request, and on what: equal marks mean that it made no difference."""

    __slots__ = ("counts", "touched")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.touched: dict[str, list[Any]] = {}

    def add(self, rule: str, what: Any, times: int = 1) -> None:
        """Note that a rule acted on ``what`` (a hashable value, as it was)."""
        self.counts[rule] = self.counts.get(rule, 0) + times
        self.touched.setdefault(rule, []).append(what)

    def prints(self) -> tuple[tuple[str, int], ...]:
        """A fingerprint of what each rule acted on, in order (numbers, which are met in another: sorted)."""
        return tuple(
            (rule, hash(tuple(sorted(what) if rule == "numbers" else what)))
            for rule, what in sorted(self.touched.items())
        )

    def take(self, other: Marks) -> None:
        """Add another request's part."""
        for rule, times in other.counts.items():
            self.counts[rule] = self.counts.get(rule, 0) + times
            self.touched.setdefault(rule, []).extend(other.touched[rule])


@dataclass(frozen=True, slots=True)
class Settings:
    """Rules that are on, and the text patterns compiled: (name in reports, regex, replacement)."""

    rules: frozenset[str]
    patterns: tuple[tuple[str, re.Pattern[str], str], ...] = ()

    def replace_text(self, text: str, marks: Marks) -> str:
        """The text with every pattern applied, in order; hits are counted under the pattern's name."""
        for name, regex, replacement in self.patterns:
            changed, hits = regex.subn(replacement, text)
            if hits:
                marks.add(name, text, hits)
                text = changed
        return text


def drop_paths(value: Any, paths: tuple[str, ...], marks: Marks) -> None:
    """Take ignored places out of a parsed body, in place; an array's elements are marked, not moved."""
    for path in paths:
        parts = parse_path(path)
        found: list[Any] = [value]
        for in_array, part in parts[:-1]:
            found = [child for item in found for child in _children(item, in_array, part)]
        in_array, part = parts[-1]
        for item in found:
            if in_array and isinstance(item, list):
                wanted = range(len(item)) if part == "*" else [part] if int(part) < len(item) else []
                for i in wanted:
                    marks.add(f"ignore:{path}", _print(item[int(i)]))
                    item[int(i)] = IGNORED
            elif isinstance(item, dict) and (not in_array or part == "*"):
                for key in list(item) if part == "*" else [part] if part in item else []:
                    marks.add(f"ignore:{path}", _print(item.pop(key)))


def _print(value: Any) -> Any:
    """A hashable value that is equal for equal JSON values, key order apart."""
    return marshal.dumps(_in_order(value), 2) if isinstance(value, dict | list) else (type(value), value)


def _in_order(value: Any, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise TooDeep
    if isinstance(value, dict):
        return {key: _in_order(value[key], depth + 1) for key in sorted(value)}
    return [_in_order(one, depth + 1) for one in value] if isinstance(value, list) else value


def _children(item: Any, in_array: bool, part: str | int) -> list[Any]:
    if isinstance(item, list) and (in_array or part == "*"):
        if part == "*":
            return list(item)
        return [item[int(part)]] if int(part) < len(item) else []
    if isinstance(item, dict) and (not in_array or part == "*"):
        if part == "*":
            return list(item.values())
        return [item[part]] if part in item else []
    return []


class _Spot(NamedTuple):
    """One key of one object, where it stands, and the key under which the object itself stands."""

    item: dict[str, Any]
    key: str
    value: Any
    place: int
    parent: str
    depth: int

    @property
    def kind(self) -> str:
        """The object's ``type``, where it is text."""
        kind = self.item.get("type")
        return kind if isinstance(kind, str) else ""


class CanonicalWalk:
    """Builds the canonical view of one parsed body; ``marks`` is told what each rule acted on."""

    __slots__ = ("_calls", "_items", "_jsonrpc", "_marks", "_rules", "_settings", "_sorted", "_text")

    def __init__(self, settings: Settings, marks: Marks) -> None:
        self._settings = settings
        self._rules = settings.rules
        self._sorted = "key_order" in settings.rules
        self._marks = marks
        self._calls: dict[tuple[type, Any], str] = {}
        self._items: dict[str, str] = {}
        self._jsonrpc = False
        self._text: Callable[[str], str] | None = None
        if settings.patterns:
            self._text = lambda text: settings.replace_text(text, marks)

    def top(self, value: Any) -> Any:
        """The canonical view of a whole body.

        Raises
        ------
        TooDeep
            Nested deeper than 200 levels.
        """
        several = value if isinstance(value, list) else [value]
        self._jsonrpc = any(isinstance(one, dict) and "jsonrpc" in one for one in several)
        if isinstance(value, dict):
            return self._object(value, _TOP, "", 0)
        if isinstance(value, list) and self._jsonrpc:
            return [
                self._object(one, _TOP, "", 1) if isinstance(one, dict) else self._any(one, _PLAIN, "", 1)
                for one in value
            ]
        return self._any(value, _PLAIN, "", 0)

    def _any(self, value: Any, place: int, parent: str, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return value if self._text is None else self._text(value)
        if kind is dict:
            return self._object(value, place, parent, depth)
        if kind is list:
            if depth > _DEEPEST:
                raise TooDeep
            return [self._any(one, place, parent, depth + 1) for one in value]
        return value

    def _object(self, item: dict[str, Any], place: int, parent: str, depth: int) -> dict[str, Any]:
        if depth > _DEEPEST:
            raise TooDeep
        depth += 1
        out: dict[str, Any] = {}
        nulls = place in _WITH_NULLS and "null_absent" in self._rules
        inner = _MESSAGE if place == _ITEM else _PLAIN if place == _TOP else place
        text = self._text
        for key in sorted(item) if self._sorted else item:
            value = item[key]
            special = _SPECIAL.get(key)
            if special is not None:
                changed = special(self, _Spot(item, key, value, place, parent, depth))
                if changed is _DROP:
                    continue
                if changed is not _AS_USUAL:
                    out[key] = changed
                    continue
            kind = type(value)
            if kind is str:
                out[key] = value if text is None else text(value)
            elif kind is dict:
                out[key] = self._object(value, inner, key, depth)
            elif kind is list:
                out[key] = [self._any(one, inner, key, depth + 1) for one in value]
            elif value is None and nulls:
                self._marks.add("null_absent", (depth, parent, key))
            else:
                out[key] = value
        return out

    def _data(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return value if self._text is None else self._text(value)
        if kind is not dict and kind is not list:
            return value
        if depth > _DEEPEST:
            raise TooDeep
        depth += 1
        if kind is list:
            return [self._data(one, depth) for one in value]
        return {key: self._data(value[key], depth) for key in (sorted(value) if self._sorted else value)}

    def call(self, value: Any) -> Any:
        """The token of a tool-call id, the same wherever the id returns."""
        if "tool_call_ids" not in self._rules:
            return _AS_USUAL
        self._marks.add("tool_call_ids", value)
        return self._calls.setdefault((type(value), value), f"tool call {len(self._calls)}")

    def item(self, value: str) -> Any:
        """The token of a Responses item's id."""
        if "item_ids" not in self._rules:
            return _AS_USUAL
        self._marks.add("item_ids", value)
        return self._items.setdefault(value, f"item {len(self._items)}")

    # Each of the following looks at one key of one object and says what becomes of its value.

    def _call_id(self, at: _Spot) -> Any:
        return self.call(at.value) if type(at.value) is str else _AS_USUAL

    def _caller(self, at: _Spot) -> Any:
        return self.call(at.value) if type(at.value) is str and at.parent == "caller" else _AS_USUAL

    def _id(self, at: _Spot) -> Any:
        if at.place == _TOP and self._jsonrpc:
            return self.call(at.value) if type(at.value) in (str, int) else _AS_USUAL
        if type(at.value) is not str:
            return _AS_USUAL
        if at.place == _ITEM and (at.kind in _ITEM_TYPES or ("type" not in at.item and "role" in at.item)):
            return self.item(at.value)
        if at.kind in _CALL_TYPES or at.parent in _CALL_PARENTS:
            return self.call(at.value)
        return _AS_USUAL

    def _approval(self, at: _Spot) -> Any:
        return self.item(at.value) if at.place == _ITEM and type(at.value) is str else _AS_USUAL

    def _rpc(self, at: _Spot) -> Any:
        linked = self._jsonrpc and at.parent in ("params", "_meta") and type(at.value) in (str, int)
        return self.call(at.value) if linked else _AS_USUAL

    def _opaque(self, at: _Spot) -> Any:
        if "opaque_echoes" not in self._rules or type(at.value) is not str:
            return _AS_USUAL
        if at.key == "signature" and not (
            at.kind == "thinking" or at.parent in ("reasoningText", "reasoning_details")
        ):
            return _AS_USUAL
        self._marks.add("opaque_echoes", at.value)
        return "opaque"

    def _arguments(self, at: _Spot) -> Any:
        if type(at.value) is not str:
            return self._as_data(at)
        if "arguments_json" not in self._rules or "name" not in at.item:
            return _AS_USUAL
        odd: list[str] = []
        try:
            read = parse(at.value, "numbers" in self._rules, odd.append)
        except (ValueError, RecursionError):
            return _AS_USUAL
        for literal in odd:
            self._marks.add("numbers", literal)
        self._marks.add("arguments_json", at.value)
        return (JSON_TEXT, self._data(read, at.depth))

    def _input(self, at: _Spot) -> Any:
        if at.place == _TOP and type(at.value) is list:
            return [self._any(one, _ITEM, at.key, at.depth + 1) for one in at.value]
        return self._as_data(at) if at.kind in _CALL_TYPES or at.parent == "toolUse" else _AS_USUAL

    def _messages(self, at: _Spot) -> Any:
        if at.place == _TOP and type(at.value) is list:
            return [self._any(one, _MESSAGE, at.key, at.depth + 1) for one in at.value]
        return _AS_USUAL

    def _as_data(self, at: _Spot) -> Any:
        return _AS_USUAL if at.value is None else self._data(at.value, at.depth)

    def _gemini(self, at: _Spot) -> Any:
        return self._as_data(at) if at.parent in _CALL_PARENTS else _AS_USUAL

    def _top_data(self, at: _Spot) -> Any:
        return self._as_data(at) if at.place == _TOP else _AS_USUAL

    def _metadata(self, at: _Spot) -> Any:
        if at.place == _TOP and "metadata" in self._rules:
            self._marks.add("metadata", (at.key, _print(at.value)))
            return _DROP
        if at.place == _TOP and at.key == "prompt_cache_key" and _made_up_key(at.value):
            return self._cache_hint(at)
        return self._as_data(at) if at.key == "metadata" else _AS_USUAL

    def _stream(self, at: _Spot) -> Any:
        if at.place == _TOP and "stream_mode" in self._rules:
            self._marks.add("stream_mode", (at.key, _print(at.value)))
            return _DROP
        return _AS_USUAL

    def _cache_hint(self, at: _Spot) -> Any:
        if "cache_control" in self._rules:
            self._marks.add("cache_control", _print(at.value))
            return _DROP
        return _AS_USUAL


def _made_up_key(value: Any) -> bool:
    """Whether openai-agents drew this cache key for one run; keys that a user chose still count."""
    return type(value) is str and re.fullmatch(r"agents-sdk:run:[0-9a-f]{32}", value) is not None


_CALL_TYPES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "function"})
_CALL_PARENTS = frozenset(
    {"tool_calls", "functionCall", "functionResponse", "function_call", "function_response"}
)
_ITEM_TYPES = frozenset(
    """message reasoning item_reference function_call function_call_output custom_tool_call
    custom_tool_call_output web_search_call file_search_call computer_call computer_call_output
    code_interpreter_call image_generation_call local_shell_call local_shell_call_output shell_call
    shell_call_output apply_patch_call apply_patch_call_output mcp_call mcp_list_tools mcp_approval_request
    mcp_approval_response compaction""".split()  # noqa: SIM905
)
_SCHEMA_KEYS = """parameters input_schema inputSchema json_schema schema response_schema responseSchema
    parametersJsonSchema parameters_json_schema responseJsonSchema response_json_schema output_schema
    outputSchema properties json structuredContent structured_content""".split()  # noqa: SIM905

_Look = Callable[[CanonicalWalk, _Spot], Any]
_SPECIAL: dict[str, _Look] = {
    **dict.fromkeys(("tool_call_id", "tool_use_id", "call_id", "toolUseId"), CanonicalWalk._call_id),
    "id": CanonicalWalk._id,
    "tool_id": CanonicalWalk._caller,
    "approval_request_id": CanonicalWalk._approval,
    **dict.fromkeys(("requestId", "progressToken"), CanonicalWalk._rpc),
    **dict.fromkeys(
        ("thoughtSignature", "thought_signature", "encrypted_content", "signature"), CanonicalWalk._opaque
    ),
    "arguments": CanonicalWalk._arguments,
    "input": CanonicalWalk._input,
    **dict.fromkeys(("messages", "contents"), CanonicalWalk._messages),
    **dict.fromkeys(_SCHEMA_KEYS, CanonicalWalk._as_data),
    **dict.fromkeys(("args", "response"), CanonicalWalk._gemini),
    "format": CanonicalWalk._top_data,
    **dict.fromkeys(("metadata", "user", "prompt_cache_key", "safety_identifier"), CanonicalWalk._metadata),
    **dict.fromkeys(("stream", "stream_options"), CanonicalWalk._stream),
    "cache_control": CanonicalWalk._cache_hint,
}
