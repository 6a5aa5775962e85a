"""``SimulatedUpstream``: a made-up provider. Nothing it says comes from a model.

For demonstrations, benchmarks and tests: a policy, a few lines of Python, plays the model. Its answer
is a pure function of (seed, arm, index, request, occurrence), so that a verdict reached with it is the
same for any number of workers, while every replay of an arm draws its own randomness.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from afnb.core.cassette import Request, Response
from afnb.core.jsonvalue import loads
from afnb.errors import ParameterError, UpstreamError
from afnb.io.answers import as_say, emit, error, shape_of
from afnb.io.conversation import Conversation, read_conversation
from afnb.io.reply import Reply, Upstream, derive_seed

Policy = Callable[[Conversation, random.Random], Any]
"""Plays the model: gives a text, a ``Call``, a list of calls, a ``Say``, a ``Mix``, or a ``Response``."""

TALK = {
    "openai.chat": "messages",
    "openai.responses": "input",
    "anthropic.messages": "messages",
    "gemini": "contents",
}
SHAPES = ("openai.chat", "openai.responses", "anthropic.messages", "gemini")


@dataclass(frozen=True, slots=True)
class Mix:
    """One of several answers, each with its probability; they sum to 1.

    Examples
    --------
    >>> Mix([(0.25, "yes"), (0.75, "no")]).pick(random.Random(0))
    'no'
    """

    options: Sequence[tuple[float, Any]]

    def __post_init__(self) -> None:
        total = sum(weight for weight, _ in self.options)
        if not self.options or not all(w >= 0 for w, _ in self.options) or not abs(total - 1) <= 1e-9:
            weights = [weight for weight, _ in self.options]
            raise ParameterError(f"the probabilities {weights} are not all 0 or more with sum 1")

    def pick(self, rng: random.Random) -> Any:
        """One answer, drawn with ``rng``."""
        point, seen = rng.random(), 0.0
        for weight, option in self.options:
            seen += weight
            if point < seen:
                return option
        return next(option for weight, option in reversed(self.options) if weight > 0)


class SimulatedUpstream(Upstream):
    """A seeded, made-up provider that speaks OpenAI chat completions and responses, Anthropic and Gemini.

    Parameters
    ----------
    policy
        ``policy(conversation, rng)`` plays the model; see ``Policy``. Called by many threads at once.
    latency_s
        Seconds before an answer's head, or a pair: between the two, drawn from the seed.
    seed
        Where all randomness comes from, together with arm and index of the replay.
    provider
        Refuse requests of any other shape; None takes all of them.
    pace_s
        Seconds between two events of a stream.

    Notes
    -----
    Tool-call ids are fresh and look random, as a provider's do, but come from the seed. Usage counts are
    made up (four characters a token). The request counts as JSON, so key order and spaces in it do not.

    Examples
    --------
    >>> simulated = SimulatedUpstream(lambda talk, rng: f"You said: {talk.user}")
    >>> body = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
    >>> answer = simulated.answer(Request("POST", "/v1/chat/completions", body=body))
    >>> loads(answer.body)["choices"][0]["message"]["content"]
    'You said: hi'
    """

    def __init__(
        self,
        policy: Policy,
        latency_s: float | tuple[float, float] = 0.0,
        seed: int = 0,
        provider: str | None = None,
        *,
        pace_s: float = 0.0,
    ) -> None:
        if not callable(policy):
            raise ParameterError(
                f"policy is {policy!r}; give a function of a conversation and a random generator"
            )
        if provider is not None and provider not in SHAPES:
            raise ParameterError(
                f"provider is {provider!r}; expected one of {', '.join(SHAPES)}, or None for all"
            )
        low, high = latency_s if isinstance(latency_s, tuple) else (latency_s, latency_s)
        if not 0 <= low <= high or not pace_s >= 0:
            raise ParameterError(f"latency_s is {latency_s!r}, pace_s {pace_s!r}; give seconds of 0 or more")
        self.policy = policy
        self.latency_s = latency_s
        self.seed = seed
        self.provider = provider
        self.pace_s = pace_s
        self.view: tuple[object, ...] = ("base",)
        self._asked: Counter[int] = Counter()
        self._lock = threading.Lock()

    @property
    def origin(self) -> str:
        """``simulated``."""
        return "simulated"

    @property
    def calls(self) -> int:
        """How many requests this view has answered."""
        with self._lock:
            return self._asked.total()

    def answer(self, request: Request) -> Response:
        """The whole answer, after its latency; a stream after the time all of it takes."""
        response, wait = self._decide(request)
        time.sleep(wait + self.pace_s * max(0, len(response.chunks or ()) - 1))
        return response

    def open(self, request: Request) -> Reply:
        """The answer as it arrives: the head after the latency, a stream at its pace."""
        response, wait = self._decide(request)
        time.sleep(wait)
        if response.chunks is None or self.pace_s == 0:
            return Reply.of(response)
        return Reply(response.status, response.headers, self._paced(response))

    def for_replay(self, seed: int, arm: str, index: int) -> SimulatedUpstream:
        """A view with its own counters and randomness, the same whenever these three are."""
        view = SimulatedUpstream(self.policy, self.latency_s, self.seed, self.provider, pace_s=self.pace_s)
        view.view = (seed, arm, index)
        return view

    def _decide(self, request: Request) -> tuple[Response, float]:
        key = _key(request)
        with self._lock:
            occurrence = self._asked[key]
            self._asked[key] += 1
        rng = random.Random(derive_seed(self.seed, *self.view, key, occurrence))
        low, high = self.latency_s if isinstance(self.latency_s, tuple) else (self.latency_s, self.latency_s)
        return self._speak(request, occurrence, rng), rng.uniform(low, high)

    def _speak(self, request: Request, occurrence: int, rng: random.Random) -> Response:
        shape = shape_of(request)
        if shape is None or (self.provider is not None and shape != self.provider):
            wanted = self.provider or " or ".join(SHAPES)
            return error(
                request, 404, f"simulated provider: {request.method} {request.path} is no {wanted} request"
            )
        talk = read_conversation(request, occurrence)
        if talk is None or not talk.body or TALK[shape] not in talk.body:
            wanted = TALK[shape]
            return error(request, 400, f"simulated provider: the body is no JSON object with {wanted}")
        try:
            value = self.policy(talk, rng)
            while isinstance(value, Mix):
                value = value.pick(rng)
        except UpstreamError:
            raise
        except Exception as fault:
            raise UpstreamError(f"the policy raised {type(fault).__name__}: {fault}") from fault
        if isinstance(value, Response):
            return value
        if isinstance(value, UpstreamError):
            raise value
        said = as_say(value)
        if said is None:
            raise UpstreamError(
                f"the policy gave {type(value).__name__}; expected a text, a Call, a list of calls, a Say, "
                "a Mix or a Response"
            )
        return emit(request, said, rng, pace_ms=self.pace_s * 1000)

    def _paced(self, response: Response) -> Iterator[bytes]:
        for i, chunk in enumerate(response.chunks or ()):
            if i:
                time.sleep(self.pace_s)
            yield chunk.data

    def __reduce__(self) -> tuple[object, ...]:
        state = (self.policy, self.latency_s, self.seed, self.provider, self.pace_s, self.view)
        return _rebuild, state


def _rebuild(
    policy: Policy,
    latency_s: float | tuple[float, float],
    seed: int,
    provider: str | None,
    pace_s: float,
    view: tuple[object, ...],
) -> SimulatedUpstream:
    made = SimulatedUpstream(policy, latency_s, seed, provider, pace_s=pace_s)
    made.view = view
    return made


def _key(request: Request) -> int:
    try:
        body: object = _sorted(loads(request.body))
    except ValueError:
        body = request.body
    return derive_seed(request.method.upper(), request.path, body)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return ("object", *((k, _sorted(value[k])) for k in sorted(value)))
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
