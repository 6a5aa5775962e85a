"""What an agent on the event log calls: tools as functions with their effect class, models upstream."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from afnb.core import events as ev
from afnb.core.cassette import Request
from afnb.core.jsonvalue import Json, dumps, loads
from afnb.core.providers import outputs_of, provider_error, read_answer
from afnb.core.run import Warn
from afnb.core.wire import DEEPEST, depth
from afnb.core.wiretext import canonical_text
from afnb.errors import InputError, ParameterError, UpstreamError
from afnb.io.upstream import Upstream

_SURROGATE = re.compile("[\ud800-\udfff]")
_AROUND = 4  # levels of nesting that the envelope puts around a value, at most


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: a function of one JSON input, and what calling it twice would mean.

    Parameters
    ----------
    function
        ``f(input)``, or ``f(input, idempotency_key=...)`` for one that sends the key along. It gives a
        JSON value; a failure the agent should see is such a value too. An exception means that nobody
        knows: the call stays open in the log.
    effect
        ``read``: may be called again; ``idempotent``: may be called again with the same key;
        ``write``: a person decides. The careful default is ``write``.
    name
        By default the function's.

    Examples
    --------
    >>> def search(query): return [f"about {query}"]
    >>> tool = Tool(search, "read")
    >>> tool.name, tool("otters", None)
    ('search', ['about otters'])
    """

    function: Callable[..., Json]
    effect: ev.Effect = "write"
    name: str = ""

    def __post_init__(self) -> None:
        if self.effect not in ev.EFFECTS:
            raise ParameterError(f"effect is {self.effect!r}; expected one of {', '.join(ev.EFFECTS)}")
        if not callable(self.function):
            raise ParameterError(f"a tool is a function, not {self.function!r}")
        if not self.name:
            name = getattr(self.function, "__name__", "")
            if not name or name == "<lambda>":
                raise ParameterError("a tool needs a name; give Tool(function, effect, name=...)")
            object.__setattr__(self, "name", name)

    def __call__(self, input: Json, idempotency_key: str | None) -> Json:
        """What the function gives for this input."""
        if _takes_key(self.function):
            return self.function(input, idempotency_key=idempotency_key)
        return self.function(input)


def _takes_key(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return "idempotency_key" in parameters


def tools_by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """The tools by their names; `ParameterError` where two share one."""
    named: dict[str, Tool] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            raise ParameterError(
                f"tools hold {tool!r}; wrap each function, e.g. Tool(function, effect='read')"
            )
        if tool.name in named:
            raise ParameterError(f"two tools are called {tool.name!r}; name one of them otherwise")
        named[tool.name] = tool
    return named


def recordable(value: Json, what: str) -> tuple[Json, int]:
    """A copy of a value that a log can hold, and how many halves of surrogate pairs it lost.

    Raises
    ------
    ParameterError
        It is no JSON, or nested too deeply; ``what`` says whose value it is.
    """
    try:
        text = dumps(value)
        if text.count("[") + text.count("{") > DEEPEST - _AROUND and depth(value) > DEEPEST - _AROUND:
            raise ParameterError(f"nested deeper than {DEEPEST - _AROUND} levels")
        copy = loads(text)
    except (ParameterError, InputError) as error:
        raise ParameterError(f"{what} cannot be recorded: {error}") from None
    return _whole_text(copy) if "\\ud" in text else (copy, 0)


def _whole_text(value: Json) -> tuple[Json, int]:
    if isinstance(value, str):
        return _SURROGATE.subn("\ufffd", value)
    if isinstance(value, list):
        items = [_whole_text(v) for v in value]
        return [v for v, _ in items], sum(n for _, n in items)
    if isinstance(value, dict):
        pairs = [(_whole_text(k), _whole_text(v)) for k, v in value.items()]
        return {k[0]: v[0] for k, v in pairs}, sum(k[1] + v[1] for k, v in pairs)
    return value, 0


def model_request(request: Request | Json, path: str) -> tuple[Request, Json]:
    """The HTTP request a model call stands for, and its body as JSON (text where it is none)."""
    if isinstance(request, Request):
        try:
            return request, loads(request.body)
        except InputError:
            return request, request.body.decode("utf-8", "replace")
    try:
        body = dumps(request).encode("utf-8")
    except ParameterError as error:
        raise ParameterError(f"the request to the model cannot be sent: {error}") from None
    return Request("POST", path, (("content-type", "application/json"),), body), request


def request_hash(request: Request, body: Json) -> str:
    """What a model call is recognised by: SHA-256 over method, path and body with sorted keys.

    Examples
    --------
    >>> a, _ = model_request({"a": 1, "b": 2}, "/v1/messages")
    >>> request_hash(a, {"a": 1, "b": 2}) == request_hash(a, {"b": 2, "a": 1})
    True
    """
    return digest([request.method, request.path, body])


def digest(value: Json) -> str:
    """``sha256:`` and the hash of a JSON value's text with sorted keys.

    Raises
    ------
    ParameterError
        The value is no JSON, or nested too deeply to be hashed.
    """
    try:
        text = json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        text = canonical_text(value)  # an integer of thousands of digits, or what it refuses with the place
    except RecursionError:
        raise ParameterError("nested too deeply to be hashed; expected a few hundred levels") from None
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def ask_model(upstream: Upstream, request: Request) -> tuple[Json, ev.TokenUsage, list[Warn]]:
    """The model's response as a JSON value, its token counts, and remarks.

    The response is the body's JSON; of a streamed answer, its text and tool calls. Token counts that
    the provider did not give are 0.

    Raises
    ------
    UpstreamError
        It could not be reached, answered with an error, or broke off.
    """
    response = upstream.answer(request)
    said = provider_error(request, response)
    if said is not None or response.status >= 400:
        raise UpstreamError(f"the model answered with status {response.status}: {said or 'no reason given'}")
    if response.incomplete:
        raise UpstreamError("the model's answer broke off before its end")
    answer = read_answer(request, response)
    try:
        value = loads(response.body)
    except InputError:
        value = response.body.decode("utf-8", "replace") if answer is None else outputs_of(answer)
    read = None if answer is None or answer.usage is None else answer.usage
    counts = (read.input_tokens, read.output_tokens) if read is not None else _said_usage(value)
    return value, *_usage(counts)


def _said_usage(value: Json) -> tuple[int | None, int | None]:
    """The counts of a body of no known provider that has a ``usage`` of one of the usual forms."""
    usage = value.get("usage") if isinstance(value, dict) else None
    if not isinstance(usage, dict):
        return None, None
    found = [
        next((usage[k] for k in keys if type(usage.get(k)) is int), None)
        for keys in (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
    ]
    return found[0], found[1]


def _usage(given: tuple[int | None, int | None]) -> tuple[ev.TokenUsage, list[Warn]]:
    counts, notes = [], []
    for name, said in zip(("input_tokens", "output_tokens"), given, strict=True):
        count = said or 0
        if not 0 <= count <= ev.U32_MAX:
            notes.append(Warn("token_count", f"{name} is {count}; a log holds 0 to {ev.U32_MAX}"))
            count = min(max(count, 0), ev.U32_MAX)
        counts.append(count)
    return ev.TokenUsage(counts[0], counts[1]), notes


def definition_hash(function: Callable[..., Any], tools: Mapping[str, Tool], rest: Json) -> str:
    """A hash of what an agent is: its source where there is one, its tools with their effects, limits."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        source = "" if code is None else code.co_code.hex()
    name = getattr(function, "__qualname__", type(function).__qualname__)
    named: Json = [[tool.name, tool.effect] for tool in sorted(tools.values(), key=lambda t: t.name)]
    return digest([name, source, named, rest])
