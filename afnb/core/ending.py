"""``Ending``: how an agent itself ended, as a recording keeps it and as a replay is compared with it.

What the provider and the agent said to each other is not all that an agent does. It ends with an exit
status and something printed (a command), or with a return value (a function). A recording keeps that in its
field ``agent_end`` (``FIELD``), an object of this form, version 1::

    version          1
    kind             command or function
    status           finished, crashed, timeout, stopped
    exit_status      of a command: 0 to 255, or minus the signal's number
    stdout           of a command: the text, if it was captured and has at most WHOLE characters
    value            of a function: what it returned, if that is JSON of at most WHOLE characters
    blake2b, size    in place of either where it is longer, and of a value that is no JSON (of its repr)

Recordings without the field, or with a version that this one does not know, say nothing of the agent's end.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from afnb.core.cassette import Cassette
from afnb.core.jsonvalue import MISSING, Json, JsonOrMissing, dumps, equal, first_difference
from afnb.core.matching import Pattern
from afnb.core.redaction import SECRET_FORMS, Redaction

FIELD = "agent_end"
VERSION = 1

WHOLE = 16_384
"""Characters up to which an output or a return value is kept as it is."""

SHOWN = 120

State = Literal["same", "differs", "varies", "unknown"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How an agent ended: ``said`` is its output or return value, or ``digest`` and ``size`` of a long one.

    Examples
    --------
    >>> Ending.from_json(Ending("command", "finished", 0, "done").to_json()).said
    'done'
    """

    kind: Literal["command", "function"]
    status: str
    exit_status: int | None = None
    said: JsonOrMissing = MISSING
    digest: str | None = None
    size: int | None = None

    @property
    def what(self) -> str:
        """What ``said`` is called."""
        return "output" if self.kind == "command" else "return value"

    @property
    def known(self) -> bool:
        """Whether it is known what the agent said in the end."""
        return self.said is not MISSING or self.digest is not None

    def to_json(self) -> dict[str, Json]:
        """The form that a recording keeps."""
        kept: dict[str, Json] = {"version": VERSION, "kind": self.kind, "status": self.status}
        if self.kind == "command":
            kept["exit_status"] = self.exit_status
        if self.said is not MISSING:
            kept["stdout" if self.kind == "command" else "value"] = self.said
        elif self.digest is not None:
            kept.update(blake2b=self.digest, size=self.size)
        return kept

    @classmethod
    def from_json(cls, value: Any) -> Ending | None:
        """The ending read back; None for what this version does not know."""
        known = isinstance(value, dict) and value.get("version") == VERSION
        if not known or value.get("kind") not in ("command", "function"):
            return None
        status, digest, size = value.get("exit_status"), value.get("blake2b"), value.get("size")
        return cls(
            value["kind"],
            str(value.get("status")),
            status if isinstance(status, int) and not isinstance(status, bool) else None,
            value.get("stdout" if value["kind"] == "command" else "value", MISSING),
            digest if isinstance(digest, str) else None,
            size if isinstance(size, int) else None,
        )


def recorded_ending(cassette: Cassette) -> Ending | None:
    """How the recorded agent ended, or None where the recording does not say so."""
    return Ending.from_json(cassette.attrs.get(FIELD))


def with_ending(cassette: Cassette, how: Ending | None) -> Cassette:
    """The recording with how its agent ended, or with nothing said of it.

    Examples
    --------
    >>> recorded_ending(with_ending(Cassette("c"), Ending("command", "crashed", 3))).exit_status
    3
    """
    attrs = {name: value for name, value in cassette.attrs.items() if name != FIELD}
    return replace(cassette, attrs=attrs if how is None else {**attrs, FIELD: how.to_json()})


def ending(
    kind: Literal["command", "function"],
    status: str,
    exit_status: int | None = None,
    said: JsonOrMissing = MISSING,
    *,
    opaque: str | None = None,
    redaction: Redaction | None = None,
) -> Ending:
    """Make an ending: keys of the usual forms masked, ``redaction`` carried out, a long value as its digest.

    Parameters
    ----------
    said
        Output or return value; ``MISSING`` where it is not known.
    opaque
        Stands for a return value that is no JSON (its ``repr``).

    Examples
    --------
    >>> ending("command", "finished", 0, "my key is sk-abcdefghijklmnop1234").said
    'my key is REDACTED'
    """
    if opaque is not None:
        text = re.sub(r"\b0x[0-9a-fA-F]+\b", "0x", opaque)
        return Ending(kind, status, exit_status, MISSING, _digest(text), len(text))
    if said is MISSING:
        return Ending(kind, status, exit_status)
    said = Redaction((), SECRET_FORMS).value(said)
    if redaction is not None:
        said = redaction.value(said)
    text = said if isinstance(said, str) else dumps(said)
    if len(text) > WHOLE:
        return Ending(kind, status, exit_status, MISSING, _digest(text), len(text))
    return Ending(kind, status, exit_status, said)


@dataclass(frozen=True, slots=True)
class Compared:
    """One thing about an agent's end, as recorded and as replayed.

    ``state`` is ``same``; ``differs``; ``varies`` (it differs, and between two replays of the same recording
    too, so that the difference says nothing); ``unknown`` (not recorded, or not captured).
    """

    what: str
    state: State
    recorded: str = ""
    again: str = ""

    def sentence(self) -> str:
        """The difference in words, with both sides."""
        return f"the agent's {self.what} differs: recorded {self.recorded}, now {self.again}"


def compare_endings(
    recorded: Ending | None,
    again: Ending | None,
    other: Ending | None = None,
    patterns: Sequence[Pattern] = (),
) -> tuple[Compared, ...]:
    """Compare how a replay ended with how its recording did.

    Parameters
    ----------
    recorded, again
        The two; None where that is not known.
    other
        How a further replay of the same recording ended, if there was one.
    patterns
        Differences in texts that are forgiven.

    Examples
    --------
    >>> one, two = Ending("command", "finished", 0, "at 9:01"), Ending("command", "finished", 0, "at 9:02")
    >>> [(part.what, part.state) for part in compare_endings(one, two)]
    [('exit status', 'same'), ('output', 'differs')]
    >>> compare_endings(one, two, Ending("command", "finished", 0, "at 9:03"))[1].state
    'varies'
    """
    if recorded is None or again is None or recorded.kind != again.kind:
        return (Compared("end", "unknown"),)
    if recorded.status not in ("finished", "crashed"):
        return (Compared("end", "unknown", recorded.status, again.status),)
    how = _status(recorded, again)
    if how.state == "differs":
        return (how,)
    if not (recorded.known and again.known):
        return (how, Compared(recorded.what, "unknown"))
    forgive = _forgiving(patterns)
    if _alike(recorded, again, forgive):
        return (how, Compared(recorded.what, "same"))
    state: State = "differs"
    if other is not None and other.known and not _alike(again, other, forgive):
        state = "varies"
    return (how, Compared(recorded.what, state, *_sides(recorded, again)))


def _status(recorded: Ending, again: Ending) -> Compared:
    if recorded.kind == "command":
        one, two = recorded.exit_status, again.exit_status
        name, sides = (
            "exit status",
            (str(one), str(two) if again.status in ("finished", "crashed") else "none"),
        )
        return Compared(name, "same" if one == two else "differs", *sides)
    state: State = "same" if recorded.status == again.status else "differs"
    return Compared("end", state, recorded.status, again.status)


def _forgiving(patterns: Sequence[Pattern]) -> Callable[[Json], Json]:
    rules = [(re.compile(pattern.regex), pattern.placeholder) for pattern in patterns]

    def text(value: str) -> str:
        for regex, placeholder in rules:
            value = regex.sub(placeholder, value)
        return value

    def forgive(value: Json) -> Json:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, dict):
            return {key: forgive(one) for key, one in value.items()}
        return [forgive(one) for one in value] if isinstance(value, list) else value

    return forgive if rules else lambda value: value


def _alike(one: Ending, other: Ending, forgive: Callable[[Json], Json]) -> bool:
    if one.said is not MISSING and other.said is not MISSING:
        return equal(forgive(one.said), forgive(other.said))
    return one.digest is not None and one.digest == other.digest


def _sides(one: Ending, other: Ending) -> tuple[str, str]:
    """Both sides where they first differ, short enough to be shown."""
    if isinstance(one.said, str) and isinstance(other.said, str):
        at = next((i for i, (a, b) in enumerate(zip(one.said, other.said, strict=False)) if a != b), None)
        start = max(0, (min(len(one.said), len(other.said)) if at is None else at) - SHOWN // 3)
        return _short(one.said, start), _short(other.said, start)
    if one.said is not MISSING and other.said is not MISSING:
        found = first_difference(one.said, other.said)
        if found is not None and found.path:
            return f"{found.path} = {_json(found.a)}", f"{found.path} = {_json(found.b)}"
    return _whole(one), _whole(other)


def _short(text: str, start: int) -> str:
    piece = dumps(text[start : start + SHOWN])
    return ("…" if start else "") + piece + ("…" if start + SHOWN < len(text) else "")


def _json(value: JsonOrMissing) -> str:
    text = "nothing" if value is MISSING else dumps(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _whole(side: Ending) -> str:
    if side.said is MISSING:
        return f"{side.size} characters of digest {str(side.digest)[:8]}"
    return _json(side.said)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
