"""JSON read for comparison: numbers by their exact decimal value, or as they are written.

``jsonvalue`` reads values for use; here two literals give the same value exactly if they are equal as
decimals. What a double cannot tell apart stays apart, as bytes that no JSON value can be taken for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal, DecimalException
from typing import Any, NoReturn

_LONG = 600  # int() refuses texts longer than a limit that may be set as low as 640 digits


class NotJson(ValueError):
    """Text that holds something JSON has not, or a number that cannot be held."""


def _refuse(text: str) -> NoReturn:
    raise NotJson(f"not JSON: {text} is not a JSON number")


def exact_number(text: str) -> int | float | bytes:
    """A number literal as the value that all literals of the same exact decimal share.

    An int where it is integral, a float where the float's shortest text is that very decimal, else
    the decimal as bytes.

    Raises
    ------
    NotJson
        Beyond the range of a double.

    Examples
    --------
    >>> [exact_number(t) for t in ("1.0", "1e2", "-0.0", "0.50", "0.1000000000000000055")]
    [1, 100, 0, 0.5, b'1000000000000000055e-19']
    """
    nearest = float(text)
    if math.isinf(nearest):
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise NotJson(f"not JSON that can be held: the number {shown} is too large for a 64-bit float")
    if nearest.is_integer():
        if len(text) < 17 and 0 < abs(nearest) < 1e15:
            return int(nearest)
    elif float.__repr__(nearest) == text:
        return nearest
    try:
        exact = Decimal(text)
    except DecimalException:
        raise NotJson(f"not JSON that can be held: the exponent of {text[:40]} is too large") from None
    if not exact:
        return 0
    if exact == Decimal(float.__repr__(nearest)):
        return int(exact) if nearest.is_integer() else nearest
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    number = "".join(map(str, digits)).lstrip("0")
    stripped = number.rstrip("0")
    exponent += len(number) - len(stripped)
    if exponent >= 0:
        return int(exact)
    return f"{'-' if sign else ''}{stripped}e{exponent}".encode("ascii")


def _written(text: str) -> int | bytes:
    if text == "-0" or len(text) >= _LONG or not text.lstrip("-").isdigit():
        return text.encode("ascii")
    return int(text)


_WRITTEN = json.JSONDecoder(parse_float=_written, parse_int=_written, parse_constant=_refuse)


def _ignore(literal: str) -> None:
    pass


def parse(data: bytes | str, by_value: bool, odd: Callable[[str], object] = _ignore) -> Any:
    """Read one JSON text for comparison.

    Parameters
    ----------
    data
        The text, or its UTF-8 bytes.
    by_value
        Whether numbers equal as decimals shall be equal; else they are kept as they are written.
    odd
        Told, by value, of each number that is not written in its usual form.

    Raises
    ------
    ValueError
        Not UTF-8, not JSON, or (``NotJson``) a number that cannot be held.
    RecursionError
        Nested too deeply.
    """
    text = data if isinstance(data, str) else data.decode("utf-8")
    if not by_value:
        return _WRITTEN.decode(text)

    def number(literal: str) -> int | float | bytes:
        value = exact_number(literal)
        if type(value) is not float or float.__repr__(value) != literal:
            odd(literal)
        return value

    def whole(literal: str) -> int | bytes:
        if len(literal) >= _LONG:
            return literal.encode("ascii")
        if literal == "-0":
            odd(literal)
        return int(literal)

    return json.JSONDecoder(parse_float=number, parse_int=whole, parse_constant=_refuse).decode(text)
