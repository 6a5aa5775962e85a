"""Who answers what the tape does not: live, scripted, a function, or several providers at once.

::

    "https://api.openai.com"        LiveUpstream       the provider, over httpx
    "openai"                        LiveUpstream       the same, by name (io.known)
    [answer, answer, ...]           ScriptedUpstream   a queue, in order
    f(request) / f(request, seed)   FunctionUpstream   any callable
    {"openai": ..., "local": ...}   RoutedUpstream     several, told apart by name or by the path asked
    {..., "crm": HttpTool(...)}     HttpTool           one of several that is a tool and no model
    SimulatedUpstream(policy)       (io.simulated)     a seeded provider

``as_upstream`` takes any of them.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from afnb.core.cassette import Request, Response
from afnb.errors import ParameterError, UpstreamError
from afnb.io.answers import answer_of
from afnb.io.known import KNOWN_UPSTREAMS
from afnb.io.live import LiveUpstream
from afnb.io.ratelimit import RateLimit
from afnb.io.reply import AsyncReply, Reply, Upstream, derive_seed, in_thread, is_stream
from afnb.io.toolturn import EFFECTS, http_effect

__all__ = [
    "AsyncReply",
    "FunctionUpstream",
    "HttpTool",
    "LiveUpstream",
    "RateLimit",
    "Reply",
    "RoutedUpstream",
    "ScriptedUpstream",
    "Upstream",
    "as_upstream",
    "derive_seed",
    "in_thread",
    "is_stream",
]

EXPECTED = (
    "expected the provider's origin (https://api.openai.com), a function of the request, a list of answers, "
    "or names with one of these each"
)


class ScriptedUpstream(Upstream):
    """Answers from a queue, in order; each replay starts at its beginning.

    Parameters
    ----------
    answers
        Each a ``Response``, a text (the model's answer, in the shape the request asks for), a JSON value
        (a body with status 200), a pair of status and JSON value, or an exception to raise.

    Examples
    --------
    >>> scripted = ScriptedUpstream([{"ok": True}])
    >>> scripted.answer(Request("GET", "/v1/models")).body
    b'{"ok":true}'
    """

    def __init__(self, answers: Iterable[Any]) -> None:
        self.answers = tuple(answers)
        self.requests: list[Request] = []
        self._lock = threading.Lock()

    @property
    def origin(self) -> str:
        """``scripted``."""
        return "scripted"

    def answer(self, request: Request) -> Response:
        """The next answer of the queue; ``UpstreamError`` once there is none left."""
        with self._lock:
            position = len(self.requests)
            self.requests.append(request)
        if position >= len(self.answers):
            raise UpstreamError(
                f"the scripted upstream has {len(self.answers)} answers and was asked for one more: "
                f"{request.method} {request.path.partition('?')[0]}; add an answer, or let the tape answer "
                "further"
            )
        return answer_of(request, self.answers[position], derive_seed("scripted", position))

    def for_replay(self, seed: int, arm: str, index: int) -> ScriptedUpstream:
        """A queue of its own, from the beginning."""
        return ScriptedUpstream(self.answers)

    def __reduce__(self) -> tuple[object, ...]:
        return ScriptedUpstream, (self.answers,)


class FunctionUpstream(Upstream):
    """Asks ``f(request)``, or ``f(request, seed)`` with a seed of its own for each replay.

    ``f`` may give whatever a ``ScriptedUpstream`` holds. It may be called by several threads at once.

    Examples
    --------
    >>> upstream = FunctionUpstream(lambda request: {"path": request.path})
    >>> upstream.answer(Request("GET", "/v1/models")).body
    b'{"path":"/v1/models"}'
    """

    def __init__(self, f: Callable[..., Any], seed: int = 0) -> None:
        if inspect.iscoroutinefunction(f):
            raise ParameterError(
                f"upstream {_name(f)} is an async function; give a plain one, it is called in its own thread"
            )
        self.f = f
        self.seed = seed
        self._with_seed = _takes_seed(f)

    @property
    def origin(self) -> str:
        """``function:`` and its name."""
        return f"function:{_name(self.f)}"

    def answer(self, request: Request) -> Response:
        """What the function gives; an exception of its own is an ``UpstreamError`` that names it."""
        try:
            value = self.f(request, self.seed) if self._with_seed else self.f(request)
        except UpstreamError:
            raise
        except Exception as error:
            raise UpstreamError(f"upstream {self.origin} raised {type(error).__name__}: {error}") from error
        return answer_of(request, value, self.seed)

    def for_replay(self, seed: int, arm: str, index: int) -> FunctionUpstream:
        """The same function with this replay's seed."""
        return FunctionUpstream(self.f, derive_seed(self.seed, seed, arm, index))


class HttpTool(Upstream):
    """An HTTP service that an agent uses as a tool, one of several upstreams: its exchanges are a tool's.

    They are recorded and served like any other exchange. Past the branch point of a replay a request that
    writes is refused, unless the tool is allowed by name.

    Parameters
    ----------
    upstream
        Who answers: the service's origin, or whatever ``as_upstream`` takes.
    effect
        ``"read"``, ``"idempotent"`` or ``"write"`` for all its requests; None tells by the method (GET, HEAD
        and OPTIONS read).

    Raises
    ------
    ParameterError
        An unknown effect.

    Examples
    --------
    >>> crm = HttpTool("https://crm.example.com")
    >>> crm.effect_of(Request("GET", "/orders/7")), crm.effect_of(Request("POST", "/orders"))
    ('read', 'write')
    """

    __slots__ = ("effect", "upstream")

    def __init__(self, upstream: Any, effect: str | None = None) -> None:
        if effect is not None and effect not in EFFECTS:
            raise ParameterError(f"effect is {effect!r}; expected one of {', '.join(EFFECTS)}, or None")
        self.upstream: Upstream = as_upstream(upstream)
        self.effect = effect

    @property
    def origin(self) -> str:
        """Its upstream's."""
        return self.upstream.origin

    def effect_of(self, request: Request) -> str:
        """What sending a request again would mean."""
        return http_effect(request, self.effect)

    def answer(self, request: Request) -> Response:
        """The service's answer."""
        return self.upstream.answer(request)

    def open(self, request: Request) -> Reply:
        """The service's answer as it arrives."""
        return self.upstream.open(request)

    def for_replay(self, seed: int, arm: str, index: int) -> HttpTool:
        """The same tool, with its upstream's view for this replay."""
        return HttpTool(self.upstream.for_replay(seed, arm, index), self.effect)

    def __reduce__(self) -> tuple[object, ...]:
        return HttpTool, (self.upstream, self.effect)


class RoutedUpstream(Upstream):
    """Several providers at once, told apart by name, or by the path where no name is known.

    A base URL that ends in ``/@name`` (before the provider's own suffix) names the upstream. Without
    a name, a path that only one provider's SDK uses (``/v1/messages`` is Anthropic's) goes to the
    upstream of that name (``anthropic``, ``openai``, ``gemini``, ``mistral``, ``ollama``); what remains
    goes to the first one.

    Examples
    --------
    >>> both = RoutedUpstream({"openai": ["a"], "anthropic": ["b"]})
    >>> both.route(None, Request("POST", "/v1/messages")).answers
    ('b',)
    """

    def __init__(self, routes: Mapping[str, Any]) -> None:
        if not routes:
            raise ParameterError(f"the upstream has no names; {EXPECTED}")
        self.routes = {str(name): as_upstream(value) for name, value in routes.items()}

    @property
    def origin(self) -> str:
        """Names and origins."""
        return ", ".join(f"{name}={upstream.origin}" for name, upstream in self.routes.items())

    def route(self, name: str | None, request: Request) -> Upstream:
        """The upstream called ``name``, or the one that the request's path belongs to."""
        if name is not None:
            if name not in self.routes:
                raise UpstreamError(f"no upstream is called {name!r}; there are {', '.join(self.routes)}")
            return self.routes[name]
        guess = owner_of_path(request.path)
        return self.routes.get(guess, next(iter(self.routes.values())))

    def answer(self, request: Request) -> Response:
        """The answer of the upstream that the request belongs to."""
        return self.route(None, request).answer(request)

    def open(self, request: Request) -> Reply:
        """The reply of the upstream that the request belongs to."""
        return self.route(None, request).open(request)

    def for_replay(self, seed: int, arm: str, index: int) -> RoutedUpstream:
        """The same names, each with its own view for this replay."""
        return RoutedUpstream({n: u.for_replay(seed, arm, index) for n, u in self.routes.items()})

    @property
    def tools(self) -> dict[str, str | None]:
        """The upstreams that are tools (``HttpTool``), each with its declared effect."""
        return {name: u.effect for name, u in self.routes.items() if isinstance(u, HttpTool)}


class _Duck(Upstream):
    """Any object with ``answer(request)``."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def origin(self) -> str:
        return str(getattr(self.value, "origin", type(self.value).__name__))

    def answer(self, request: Request) -> Response:
        return answer_of(request, self.value.answer(request), 0)

    def for_replay(self, seed: int, arm: str, index: int) -> Upstream:
        make = getattr(self.value, "for_replay", None)
        return self if make is None else as_upstream(make(seed, arm, index))


def as_upstream(value: Any) -> Upstream:
    """Make an upstream of a URL, an upstream, a function, a list of answers, or names with one each.

    Parameters
    ----------
    value
        See the module; an object with a method ``answer(request)`` will do as well.

    Raises
    ------
    ParameterError
        Anything else, and a URL that is no provider's origin: what was seen and what is expected.

    Examples
    --------
    >>> as_upstream("https://api.openai.com")
    LiveUpstream('https://api.openai.com')
    """
    if isinstance(value, Upstream):
        return value
    if isinstance(value, str):
        known = KNOWN_UPSTREAMS.get(value)
        return LiveUpstream(value if known is None else known.origin)
    if isinstance(value, Mapping):
        return RoutedUpstream(value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return ScriptedUpstream(value)
    if callable(getattr(value, "answer", None)):
        return _Duck(value)
    if callable(value):
        return FunctionUpstream(value)
    raise ParameterError(f"upstream is {value!r} ({type(value).__name__}); {EXPECTED}")


def owner_of_path(path: str) -> str:
    """The provider whose SDKs use such a path; ``openai`` where it is not only one's.

    Examples
    --------
    >>> owner_of_path("/v1/messages?beta=true"), owner_of_path("/api/chat")
    ('anthropic', 'ollama')
    """
    plain = path.partition("?")[0]
    if plain.endswith(("/messages", "/messages/count_tokens", "/complete")):
        return "anthropic"
    if "generateContent" in plain.rpartition(":")[2] or "/v1beta/" in plain:
        return "gemini"
    if plain.startswith("/api/"):
        return "ollama"
    if "/fim/" in plain or "/agents/completions" in plain:
        return "mistral"
    return "openai"


def _takes_seed(f: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return False
    free = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(free) >= 2 and (free[1].name == "seed" or free[1].default is inspect.Parameter.empty)


def _name(f: Callable[..., Any]) -> str:
    return str(getattr(f, "__qualname__", None) or type(f).__name__)
