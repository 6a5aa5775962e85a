"""``ToolTurn``: what a wrapped tool is to do with one call, in this process or told to another."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from afnb.core.cassette import Request
from afnb.core.jsonvalue import Json
from afnb.errors import InputError

Effect = Literal["read", "idempotent", "write"]
EFFECTS: tuple[str, ...] = get_args(Effect)
Do = Literal["serve", "run", "stub", "refuse"]
DOS: tuple[str, ...] = get_args(Do)


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """What a wrapped tool is to do with one call.

    Parameters
    ----------
    do
        ``serve`` (give ``output``, or raise ``error``), ``run``, ``stub``, or ``refuse`` with ``sentence``.
    token
        For ``run`` and ``stub``: hand it to ``ToolDesk.end``.
    error, error_type
        The recorded failure: its text, and the class that was raised (``module:name``).
    """

    do: Do
    output: Json = None
    error: str | None = None
    error_type: str | None = None
    token: int = 0
    sentence: str = ""

    def to_json(self) -> dict[str, Any]:
        """The turn as plain JSON, for a tool in another process."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Json) -> ToolTurn:
        """The turn as it was told.

        Raises
        ------
        InputError
            It is none.

        Examples
        --------
        >>> ToolTurn.from_json(ToolTurn("run", token=3).to_json())
        ToolTurn(do='run', output=None, error=None, error_type=None, token=3, sentence='')
        """
        fields = value if isinstance(value, dict) else {}
        if fields.get("do") not in DOS or set(fields) != {
            "do",
            "output",
            "error",
            "error_type",
            "token",
            "sentence",
        }:
            raise InputError("found no answer to the call of a wrapped tool")
        return cls(**fields)


READING = frozenset({"GET", "HEAD", "OPTIONS"})


def http_effect(request: Request, effect: str | None) -> str:
    """What sending a request to a tool again would mean: as declared, else by its method.

    Examples
    --------
    >>> http_effect(Request("GET", "/orders/7"), None), http_effect(Request("POST", "/orders"), None)
    ('read', 'write')
    """
    if effect is not None:
        return effect
    return "read" if request.method.upper() in READING else "write"
