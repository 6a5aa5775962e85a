"""JSON values: exact, typed equality and the first place where two values differ."""

from __future__ import annotations

import enum
from typing import Any, Final, Literal


class Missing(enum.Enum):
    """The type of ``MISSING``: a value that is not there, as opposed to JSON null (``None``)."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> Literal[False]:
        return False


MISSING: Final = Missing.MISSING

Json = Any
JsonOrMissing = Any
