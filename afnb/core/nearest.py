"""Why a request is not on the tape: the nearest recorded request and the first place that differs.

Nearness is counted on canonical bodies, in pieces: each element of a top-level array, each top-level
value. Pieces that are equal at the same place count by their size; among requests that have as much in
common it is the one whose differing texts share more words, then the earlier one.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

from afnb.core.canon import Canonical, Matching, canonical, plain
from afnb.core.cassette import Cassette, Request
from afnb.core.jsonvalue import MISSING, Difference, dumps, equal, first_difference
from afnb.core.matching import READY_PATTERNS, mask_query
from afnb.errors import AfnbError

_CANDIDATES = 32
_CLOSE = 8
_AROUND = 40
_LONGEST = 2 * _AROUND
_WORD = re.compile(r"\w+")
_NEAREST = "nothing recorded matches; nearest is exchange"
_Pieces = frozenset[tuple[str, int, int, int]]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a request was not answered.

    ``path`` is a JSON path, or ``(method)``, ``(path)``, ``(body)``; ``recorded`` and ``asked`` are the two
    texts there, cut to 40 characters either side of the first difference, at character ``offset``.
    """

    nearest: int | None = None
    path: str | None = None
    recorded: str | None = None
    asked: str | None = None
    reason: str = ""
    offset: int | None = None
    suggestions: tuple[str, ...] = ()


class Explainer:
    """Explains misses on one recording; what it works out about recorded requests is kept."""

    def __init__(self, cassette: Cassette, matching: Matching) -> None:
        self._requests = tuple(exchange.request for exchange in cassette.exchanges)
        self._matching = matching
        self._pieces: dict[int, _Pieces] = {}
        self._lock = threading.Lock()

    def explain(self, request: Request) -> Explanation:
        """The nearest recorded request and the first difference."""
        if not self._requests:
            return Explanation(reason="the recording holds no exchange")
        ours = canonical(request, self._matching)
        nearest = self._nearest(request, ours)
        recorded = self._requests[nearest]
        theirs = canonical(recorded, self._matching)
        if theirs.method != ours.method:
            return _said(nearest, "(method)", theirs.method, ours.method)
        if theirs.path != ours.path:
            return _said(nearest, "(path)", theirs.path, ours.path)
        if theirs.form != ours.form:
            return _other_form(nearest, theirs, ours)
        a, b = plain(theirs.view), plain(ours.view)
        difference = first_difference(a, b)
        if difference is None:
            return Explanation(nearest, "(body)", reason=f"the body differs from that of exchange {nearest}")
        return _explained(nearest, a, b, difference)

    def _nearest(self, request: Request, ours: Canonical) -> int:
        everything = range(len(self._requests))
        same = [i for i in everything if self._requests[i].method.upper() == ours.method]
        path = mask_query(request.path)
        here = [i for i in same if mask_query(self._requests[i].path) == path]
        if not here:
            bare = path.partition("?")[0]
            here = [i for i in same if self._requests[i].path.partition("?")[0] == bare]
        if not here:
            return min(same or everything, key=lambda i: (-_shared(self._requests[i].path, path), i))
        here = sorted(here, key=lambda i: (abs(len(self._requests[i].body) - len(request.body)), i))
        pieces = _pieces(ours)
        scored = [(*self._score(i, pieces), i) for i in here[:_CANDIDATES]]
        common = max(scored, key=lambda one: one[0])[1]
        tied = sorted((one for one in scored if one[1] == common), key=lambda one: (-one[0], one[2]))[:_CLOSE]
        if len(tied) == 1:
            return tied[0][2]
        return min((i for *_, i in tied), key=lambda i: (-self._wording(i, ours), i))

    def _score(self, i: int, pieces: _Pieces) -> tuple[float, int]:
        """The share of two requests that is equal (a Dice ratio), and how much that is."""
        with self._lock:
            known = self._pieces.get(i)
        if known is None:
            known = _pieces(canonical(self._requests[i], self._matching))
            with self._lock:
                self._pieces[i] = known
        common = sum(size for *_, size in pieces & known)
        total = sum(size for *_, size in pieces) + sum(size for *_, size in known)
        return (2 * common / total if total else 1.0), common

    def _wording(self, i: int, ours: Canonical) -> float:
        """Share of words in common at the first difference (a Dice ratio)."""
        theirs = canonical(self._requests[i], self._matching)
        difference = first_difference(plain(theirs.view), plain(ours.view))
        if difference is None:
            return 1.0
        a = Counter(_WORD.findall(_text(difference.a)[:20000]))
        b = Counter(_WORD.findall(_text(difference.b)[:20000]))
        total = a.total() + b.total()
        return 2 * (a & b).total() / total if total else 0.0


def _pieces(form: Canonical) -> _Pieces:
    """Pieces of a body: key, index, a hash of the piece, its size."""
    view = plain(form.view)
    out: set[tuple[str, int, int, int]] = set()
    if not isinstance(view, dict):
        view = {"": view}
    for key, value in view.items():
        several = value if isinstance(value, list) else [value]
        for n, one in enumerate(several):
            text = _text(one)
            out.add((key, n, hash(text), len(text) + 1))
    return frozenset(out)


def _shared(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _text(value: Any) -> str:
    if value is MISSING:
        return ""
    if isinstance(value, str):
        return value
    try:
        return dumps(value)
    except AfnbError:
        return repr(value)


def _said(nearest: int, place: str, recorded: str, asked: str) -> Explanation:
    at = _shared(recorded, asked)
    one, other = _around(recorded, at), _around(asked, at)
    reason = f"{_NEAREST} {nearest}, whose {place[1:-1]} is {one!r}, asked {other!r}"
    return Explanation(nearest, place, one, other, reason, at)


def _other_form(nearest: int, theirs: Canonical, ours: Canonical) -> Explanation:
    notes = [note for note in (theirs.note, ours.note) if note]
    reason = (
        f"nothing recorded matches; the body of the nearest, exchange {nearest}, is {_FORMS[theirs.form]}, "
        f"the one asked is {_FORMS[ours.form]}"
    )
    if notes:
        reason += f" ({notes[0]})"
    one, other = _text(plain(theirs.view)), _text(plain(ours.view))
    return Explanation(nearest, "(body)", _around(one, 0), _around(other, 0), reason)


_FORMS = {"empty": "empty", "json": "JSON", "multipart": "multipart", "text": "text", "bytes": "not text"}


def _around(text: str, at: int) -> str:
    """40 characters either side of a place, with dots where something was cut."""
    start, end = max(0, at - _AROUND), min(len(text), at + _AROUND)
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _explained(nearest: int, a: Any, b: Any, difference: Difference) -> Explanation:
    path = difference.path or "(body)"
    offset = difference.offset
    head = f"{_NEAREST} {nearest}, which first differs at {path}"
    reordered = _reordered(a, b, difference)
    if reordered is not None:
        head = f"{_NEAREST} {nearest}, which has at {reordered} the same elements, other order"
    if offset is not None:
        one, other = _around(difference.a, offset), _around(difference.b, offset)
        where = f" (character {offset})"
    else:
        one, other = _value(difference.a), _value(difference.b)
        where = ""
    suggestions = _suggestions(difference)
    reason = f"{head}{where}: recorded {_quoted(difference.a, one)}, asked {_quoted(difference.b, other)}"
    if suggestions:
        reason += f"; the ready-made patterns {', '.join(suggestions)} would forgive it"
    return Explanation(nearest, path, one, other, reason, offset, suggestions)


def _value(value: Any) -> str:
    if value is MISSING:
        return "(absent)"
    text = _text(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _quoted(value: Any, shown: str) -> str:
    return repr(shown) if isinstance(value, str) else "nothing" if value is MISSING else shown


def _reordered(a: Any, b: Any, difference: Difference) -> str | None:
    """Path of the array on the way to the difference that has the same elements in another order."""
    ways: list[tuple[tuple[str | int, ...], Any, Any]] = []
    x, y = a, b
    for n, part in enumerate(difference.parts):
        if isinstance(part, int):
            ways.append((difference.parts[:n], x, y))
        try:
            x, y = x[part], y[part]
        except (KeyError, IndexError, TypeError):
            break
    for parts, one, other in reversed(ways):
        if (
            len(one) == len(other)
            and Counter(map(_sorted_text, one)) == Counter(map(_sorted_text, other))
            and not equal(one, other)
        ):
            return Difference(parts, one, other).path or "the top"
    return None


def _sorted_text(value: Any) -> str:
    return f"{type(value).__name__} {_text(value)}"


def _suggestions(difference: Difference) -> tuple[str, ...]:
    """Ready-made patterns that make the two texts equal; as few as will do."""
    a, b = difference.a, difference.b
    if not isinstance(a, str) or not isinstance(b, str):
        return ()
    chosen = [(p.name, re.compile(p.regex), p.placeholder) for p in READY_PATTERNS]

    def same(patterns: list[tuple[str, re.Pattern[str], str]]) -> bool:
        x, y = a, b
        for _, regex, placeholder in patterns:
            x, y = regex.sub(placeholder, x), regex.sub(placeholder, y)
        return bool(x == y)

    if not same(chosen):
        return ()
    for one in list(chosen):
        fewer = [other for other in chosen if other is not one]
        if same(fewer):
            chosen = fewer
    return tuple(name for name, _, _ in chosen)
