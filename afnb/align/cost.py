"""The cost of two steps: how unlike their words are, from 0 (alike) to 1 (nothing in common).

The words of a step are those of its name and of the head of its outputs; the cost is one minus the
Ratcliff/Obershelp similarity of the two word sequences [1]_. It is not symmetric: ties between
equally long common blocks go to the earliest in the first sequence, so the reference comes first.

References
----------
.. [1] J. W. Ratcliff and D. E. Metzener, "Pattern Matching: The Gestalt Approach", Dr. Dobb's
   Journal 13(7), 1988.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from afnb.align.blocks import matching
from afnb.core.jsonvalue import MISSING, dumps
from afnb.core.run import Step

TEXT_CHARS = 600
"""So many characters of a step's text are read."""

_WORD = re.compile(r"[A-Za-z0-9]+")


def step_text(step: Step) -> str:
    """The text of a step: ``name: outputs``, cut to 600 characters.

    Outputs that are not text are written as compact JSON with sorted keys; absent or null outputs
    leave the name alone.
    """
    head = f"{step.name}: "[:TEXT_CHARS]
    if step.outputs is MISSING or step.outputs is None:
        return head
    return head + outputs_head(step.outputs, TEXT_CHARS - len(head))


def outputs_head(value: Any, limit: int) -> str:
    """The first ``limit`` characters of a value's text, at a cost that depends on ``limit`` alone."""
    if isinstance(value, str):
        return value[:limit]
    pieces: list[str] = []
    left = limit
    for piece in _pieces(value, limit):
        if left <= 0:
            break
        pieces.append(piece)
        left -= len(piece)
    return "".join(pieces)[:limit]


def _pieces(value: Any, limit: int) -> Iterator[str]:
    """Compact JSON with sorted keys, piece by piece, without recursion."""
    stack: list[tuple[str, Any]] = [("", value)]  # text before a value, and the value (or an iterator)
    while stack:
        before, item = stack.pop()
        yield before
        if item is MISSING:
            continue
        if isinstance(item, Mapping):
            rest: list[tuple[str, Any]] = [("}", MISSING)]
            keys = sorted(item)[: limit + 1]
            rest.extend(
                (f"{',' if i else '{'}{dumps(keys[i][:limit])}:", item[keys[i]])
                for i in range(len(keys) - 1, -1, -1)
            )
            stack.extend(rest if keys else [("{}", MISSING)])
        elif isinstance(item, list | tuple):
            items = item[: limit + 1]
            rest = [("]", MISSING)]
            rest.extend(("," if i else "[", items[i]) for i in range(len(items) - 1, -1, -1))
            stack.extend(rest if items else [("[]", MISSING)])
        else:
            yield _scalar(item, limit)


def _scalar(value: Any, limit: int) -> str:
    if isinstance(value, str):
        return dumps(value[:limit])
    if isinstance(value, float):
        return _float_text(value)
    return dumps(value)


def _float_text(value: float) -> str:
    """Shortest digits, as a fixed number from 1e-5 up to 1e16, else with a bare exponent (1e-7, 1e+16)."""
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    text = float.__repr__(value)
    mantissa, mark, exponent = text.partition("e-")
    if not mark:
        return text
    if exponent != "05":
        return f"{mantissa}e-{exponent.lstrip('0')}"
    sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    return f"{sign}0.0000{digits.replace('.', '')}"


def words(step: Step) -> tuple[str, ...]:
    """The words of a step, in order: lower-case runs of ASCII letters and digits.

    Examples
    --------
    >>> words(Step(0, "tool", "web.search", outputs={"b": 1, "a": "two\\nlines"}))
    ('web', 'search', 'a', 'two', 'nlines', 'b', '1')
    """
    return tuple(word.lower() for word in _WORD.findall(step_text(step)))


def word_cost(a: tuple[str, ...], b: tuple[str, ...]) -> float:
    """One minus 2M/(|a| + |b|), M the matching words; 0 for two empty sequences."""
    total = len(a) + len(b)
    if not total:
        return 0.0
    symbols: dict[str, int] = {}
    texts = ["".join(chr(symbols.setdefault(word, len(symbols))) for word in side) for side in (a, b)]
    return 1.0 - 2.0 * matching(*texts) / total


def cost(a: Step, b: Step) -> float:
    """The cost of reference step ``a`` and observed step ``b``, in [0, 1]; not symmetric.

    Examples
    --------
    >>> a = Step(0, "llm", "plan", outputs="search the census")
    >>> cost(a, Step(0, "llm", "plan", outputs="search a blog"))
    0.5
    """
    return word_cost(words(a), words(b))
