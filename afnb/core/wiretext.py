"""The text of JSON values as the event logs' own writer prints them: keys sorted, its float digits."""

from __future__ import annotations

from afnb.core.jsonvalue import Json, dumps


def canonical_text(value: Json) -> str:
    """Compact JSON with sorted keys; integers of any size are written exactly.

    Raises
    ------
    ParameterError
        The value is not JSON.

    Examples
    --------
    >>> canonical_text({"b": 1e-5, "a": [1e-7, 1e16, 129.0, -0.0, None]})
    '{"a":[1e-7,1e+16,129.0,-0.0,null],"b":0.00001}'
    """
    if type(value) is float:
        return _float_text(value)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                return dumps(value)  # which refuses it and says where
        return "{" + ",".join(f"{dumps(k)}:{canonical_text(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(canonical_text, value)) + "]"
    return dumps(value)


def _float_text(value: float) -> str:
    """Shortest digits; no exponent from 1e-5 up to below 1e16, and none is padded with a zero.

    Python's own shortest digits are the same but it goes over to exponents below 1e-4.
    """
    text = dumps(value)
    digits, _, exponent = text.partition("e-0")
    if exponent == "5":
        sign = "-" if digits[0] == "-" else ""
        return f"{sign}0.0000{digits.lstrip('-').replace('.', '')}"
    return f"{digits}e-{exponent}" if exponent else text
