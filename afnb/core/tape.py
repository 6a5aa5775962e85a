"""``Tape``: a cassette indexed by canonical key, and ``Play``: one replay's place on it.

The index is built once and never changes, so any number of replays and threads may share a tape; what
one replay has used up lives in its own ``Play``. A request that is not on the tape is a ``Miss``: a
value that says, when asked, which recorded request is nearest and where it first differs.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field, replace
from typing import Literal

from afnb.core.canon import Key, Matching, canonical_key, needed_rules
from afnb.core.cassette import Cassette, Exchange, Request, header
from afnb.core.jsonrpc import answer_under_id
from afnb.core.nearest import Explainer, Explanation
from afnb.core.redaction import matching_for
from afnb.errors import ParameterError

Repeat = Literal["in_order", "first", "error"]
MissKind = Literal["different", "used_up", "not_served"]

_REMEMBERED = 2048
_Exact = tuple[str, str, object, bytes]


@dataclass(frozen=True, slots=True)
class Hit:
    """A recorded answer for a request.

    Parameters
    ----------
    exchange
        The recorded exchange; a JSON-RPC answer bears the id of the request that was asked now.
    rules
        Matching rules without which the request would not have matched; empty for equal bytes.
    beyond_recording
        Whether the request was asked more often than it was recorded, so that the last answer is
        served again.
    occurrence
        Which ask of this request it was, from 0.
    """

    exchange: Exchange
    rules: tuple[str, ...] = ()
    beyond_recording: bool = False
    occurrence: int = 0

    @property
    def normalised(self) -> bool:
        """Whether it needed more than reading the body as JSON."""
        return any(rule != "key_order" for rule in self.rules)


@dataclass(frozen=True, slots=True)
class Miss:
    """A request that the tape does not answer. The explanation is worked out when first asked for.

    Parameters
    ----------
    request
        What was asked.
    kind
        ``different`` (nothing recorded matches), ``used_up`` (asked more often than recorded, under
        ``repeat="error"``) or ``not_served`` (recorded beyond the last exchange to be served).
    key
        The request's key.
    """

    request: Request
    kind: MissKind
    key: Key
    _why: _Why = field(repr=False, compare=False)

    @property
    def explanation(self) -> Explanation:
        """Everything known about it."""
        return self._why.get()

    @property
    def nearest(self) -> int | None:
        """Exchange whose recorded request is nearest; None if no recorded request is comparable."""
        return self.explanation.nearest

    @property
    def path(self) -> str | None:
        """First differing place: a JSON path of the body, ``(method)``, ``(path)`` or ``(body)``."""
        return self.explanation.path

    @property
    def recorded(self) -> str | None:
        """The recorded text there, 40 characters either side of the difference."""
        return self.explanation.recorded

    @property
    def asked(self) -> str | None:
        """The asked text there, 40 characters either side of the difference."""
        return self.explanation.asked

    @property
    def reason(self) -> str:
        """One sentence."""
        return self.explanation.reason

    @property
    def suggestions(self) -> tuple[str, ...]:
        """Ready-made patterns (off by default) that would forgive the difference at this place."""
        return self.explanation.suggestions

    def __reduce__(self) -> tuple[object, ...]:
        return Miss, (self.request, self.kind, self.key, _Why.known(self.explanation))


class _Why:
    """An explanation, worked out once, on demand, from whichever thread asks first."""

    __slots__ = ("_explainer", "_known", "_lock", "_request", "_said")

    def __init__(
        self, explainer: Explainer | None, request: Request | None, said: Explanation | None
    ) -> None:
        self._explainer = explainer
        self._request = request
        self._said = said
        self._known: Explanation | None = said if explainer is None else None
        self._lock = threading.Lock()

    @classmethod
    def known(cls, explanation: Explanation) -> _Why:
        return cls(None, None, explanation)

    def get(self) -> Explanation:
        with self._lock:
            if self._known is None:
                assert self._explainer is not None
                assert self._request is not None
                self._known = self._explainer.explain(self._request)
            return self._known

    def __reduce__(self) -> tuple[object, ...]:
        return _Why.known, (self.get(),)


class Tape:
    """A recording, indexed once; immutable and safe to share between threads.

    Parameters
    ----------
    cassette
        The recording. Exchanges are numbered by their position in it.
    matching
        How requests are compared; None for the recording's own rules, or the default ones. What was taken
        out of the recording itself (its ``redaction``) is taken out of each request first.
    repeat
        What a request gets that was recorded more than once. ``in_order``: the k-th ask the k-th
        answer, beyond the last the last again; ``first``: always the first; ``error``: in order, and a
        miss beyond the last.

    Raises
    ------
    ParameterError
        ``repeat`` is none of the three, or the user's normaliser fails on a recorded request.

    Examples
    --------
    >>> from afnb.core.cassette import Cassette, Exchange, Request, Response
    >>> ask = Request("POST", "/v1/x", body=b'{"n": 1}')
    >>> tape = Tape(Cassette("c", (Exchange(0, ask, Response(200, body=b"one")),)))
    >>> play = tape.play()
    >>> play.take(Request("POST", "/v1/x", body=b'{"n":1.0}')).rules
    ('numbers',)
    >>> play.take(Request("POST", "/v1/x", body=b'{"n":2}')).path
    'n'
    """

    def __init__(
        self, cassette: Cassette, matching: Matching | None = None, repeat: Repeat = "in_order"
    ) -> None:
        if repeat not in ("in_order", "first", "error"):
            raise ParameterError(f"repeat={repeat!r}; expected 'in_order', 'first' or 'error'")
        self.cassette = cassette
        matching = matching_for(cassette, matching)
        self.matching = matching
        self.repeat: Repeat = repeat
        keys: list[Key] = []
        places: dict[str, list[int]] = {}
        by_bytes: dict[_Exact, Key] = {}
        for i, exchange in enumerate(cassette.exchanges):
            exact = self._exact(exchange.request)
            key = by_bytes.get(exact)
            if key is None:
                key = by_bytes[exact] = canonical_key(exchange.request, matching)
            keys.append(key)
            places.setdefault(key.digest, []).append(i)
        self.keys: tuple[Key, ...] = tuple(keys)
        self._places = {digest: tuple(at) for digest, at in places.items()}
        self._by_bytes = by_bytes
        self._asked: dict[_Exact, Key] = {}
        self._needed: dict[tuple[int, _Exact], tuple[str, ...]] = {}
        self._other: dict[tuple[_Exact, Matching], Key] = {}
        self._explainer = Explainer(cassette, matching)

    def __len__(self) -> int:
        return len(self.cassette)

    def __reduce__(self) -> tuple[object, ...]:
        return Tape, (self.cassette, self.matching, self.repeat)

    def _exact(self, request: Request) -> _Exact:
        return _exact(request, self.matching.normalise is not None)

    def key(self, request: Request) -> Key:
        """The request's key; remembered, so that a request seen before costs a hash of its bytes."""
        exact = self._exact(request)
        known = self._by_bytes.get(exact)
        if known is not None:
            return known
        short = _short(exact)
        known = self._asked.get(short)
        if known is None:
            known = canonical_key(request, self.matching)
            if len(self._asked) >= _REMEMBERED:
                self._asked = {}
            self._asked[short] = known
        return known

    def places(self, request: Request) -> tuple[int, ...]:
        """Exchanges whose recorded request matches, in recorded order."""
        return self._places.get(self.key(request).digest, ())

    def rules(self, exchange: int, request: Request) -> tuple[str, ...]:
        """The rules that a request needs to match this exchange's recorded request."""
        recorded = self.cassette.exchanges[exchange].request
        if (recorded.body, recorded.path, recorded.method) == (request.body, request.path, request.method):
            return ()
        memo = (exchange, _short(self._exact(request)))
        known = self._needed.get(memo)
        if known is None:
            known = needed_rules(recorded, request, self.matching, self._key_of)
            if len(self._needed) >= _REMEMBERED:
                self._needed = {}
            self._needed[memo] = known
        return known

    def _key_of(self, request: Request, matching: Matching) -> Key:
        """A key under other rules than the tape's; those of recorded requests are remembered."""
        if matching == self.matching:
            return self.key(request)
        exact = self._exact(request)
        if exact not in self._by_bytes:
            return canonical_key(request, matching)
        known = self._other.get((exact, matching))
        if known is None:
            known = canonical_key(request, matching)
            if len(self._other) >= _REMEMBERED:
                self._other = {}
            self._other[exact, matching] = known
        return known

    def explain(self, request: Request) -> Explanation:
        """Which recorded request is nearest to this one, and where it first differs."""
        return self._explainer.explain(request)

    def play(self) -> Play:
        """A fresh place on this tape, for one replay."""
        return Play(self)


class Play:
    """What one replay has asked so far. Thread-safe; made by ``Tape.play`` and never shared by replays.

    ``out_of_order`` counts hits on an exchange recorded before one that was already served: the order
    of independent requests changed, which is harmless.
    """

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.out_of_order = 0
        self._asked: dict[str, int] = {}
        self._furthest = -1
        self._lock = threading.Lock()

    def asked(self, request: Request) -> int:
        """How often this request has been answered from the tape in this replay."""
        return self._asked.get(self.tape.key(request).digest, 0)

    def take(self, request: Request, through: int | None = None) -> Hit | Miss:
        """The recorded answer for a request, or why there is none. A hit uses one recorded answer up.

        Parameters
        ----------
        request
            As the agent sent it.
        through
            Last exchange to be served, inclusive; -1 serves nothing, None everything.
        """
        tape = self.tape
        key = tape.key(request)
        places = tape._places.get(key.digest)
        if not places:
            return Miss(request, "different", key, _Why(tape._explainer, request, None))
        with self._lock:
            occurrence = self._asked.get(key.digest, 0)
            beyond = occurrence >= len(places)
            if beyond and tape.repeat == "error":
                return self._used_up(request, key, places, occurrence + 1)
            at = places[0] if tape.repeat == "first" else places[min(occurrence, len(places) - 1)]
            if through is not None and at > through:
                return _not_served(request, key, at, through)
            self._asked[key.digest] = occurrence + 1
            if at < self._furthest:
                self.out_of_order += 1
            self._furthest = max(self._furthest, at)
        exchange = tape.cassette.exchanges[at]
        response = answer_under_id(exchange.request, request, exchange.response)
        if response is not exchange.response:
            exchange = replace(exchange, response=response)
        return Hit(exchange, tape.rules(at, request), beyond, occurrence)

    def _used_up(self, request: Request, key: Key, places: tuple[int, ...], asks: int) -> Miss:
        recorded = _times(len(places))
        said = Explanation(
            places[-1],
            reason=f"recorded {recorded}, asked {_times(asks)}: {request.method} {_cut(request.path)} "
            f"(exchange {places[-1]} was the last); repeat='in_order' serves the last answer again",
        )
        return Miss(request, "used_up", key, _Why.known(said))


def _not_served(request: Request, key: Key, at: int, through: int) -> Miss:
    reason = f"recorded as exchange {at}, and the tape answers through exchange {through} only"
    if through < 0:
        reason = f"recorded as exchange {at}, and nothing is answered from the tape"
    return Miss(request, "not_served", key, _Why.known(Explanation(at, reason=reason)))


def _times(n: int) -> str:
    return {1: "once", 2: "twice"}.get(n, f"{n} times")


def _cut(path: str) -> str:
    return path if len(path) <= 80 else path[:77] + "..."


def _exact(request: Request, normalised: bool) -> _Exact:
    """What a key depends on, byte for byte: headers only where the user's own function sees them too."""
    body = request.body
    headers: object = ""
    if normalised:
        headers = request.headers
    elif body[:1] not in (b"{", b"[", b""):
        headers = header(request.headers, "content-type")
    return request.method, request.path, headers, body


def _short(exact: _Exact) -> _Exact:
    method, path, headers, body = exact
    return method, path, headers, hashlib.sha256(body).digest()
