"""How many symbols of two sequences match in Ratcliff and Obershelp's sense: exact, and never slow.

The count M is that of ``difflib.SequenceMatcher(None, a, b, autojunk=False)``: take the longest common
block, the earliest in ``a`` and then in ``b`` among equals, and go on left and right of it. Sequences
are texts whose characters stand for words.

Here all blocks of one length are found at once, from the longest down. The match matrix is one big
integer, a bit a cell, rows (symbols of ``a``) from the top bit down; cell (i, j) starts a run of L if
its bit is left after and-ing the matrix with itself shifted L - 1 times along the diagonal. A block
leaves the cells above-left and below-right of it alive. Two hundred symbols a side take a fraction of
a millisecond whatever they are, where difflib can take a hundred times that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import cast

_MANY = 2000
_THREADS = 4  # a pool of its own for each call: a shared one would not survive a fork


def matching(a: str, b: str) -> int:
    """Matching symbols of ``a`` (the reference) and ``b``.

    Examples
    --------
    >>> matching("abxcd", "abcd"), matching("ab", "ba"), matching("", "a")
    (4, 1, 0)
    """
    if a == b:
        return len(a)
    if not set(a) & set(b):
        return 0
    n, m = len(a), len(b)
    stride = (m + 8) // 8  # bytes a row; at least one spare bit ends every diagonal at the matrix's edge
    width = 8 * stride
    alive = _matrix(a, b, stride)
    total = 0
    length = _longest(alive, width + 1)
    while length and alive:
        starts = _runs(alive, length, width + 1)
        chain: list[tuple[int, int]] = []
        while starts:
            row, column = divmod(starts.bit_length() - 1, width)  # counted from the end: n-1-i and m-1-j
            chain.append((n - 1 - row, m - 1 - column))
            if row < length or column < length:
                break
            starts &= (1 << ((row - length + 1) * width)) - 1
            starts &= _columns(width, column - length + 1, n)
        if chain:
            total += length * len(chain)
            alive &= _left_alive(chain, length, n, m, stride)
        length -= 1
    return total


def _matrix(a: str, b: str, stride: int) -> int:
    masks: dict[str, int] = {}
    bit = 1 << (len(b) - 1)
    for symbol in b:
        masks[symbol] = masks.get(symbol, 0) | bit
        bit >>= 1
    rows = {symbol: mask.to_bytes(stride, "big") for symbol, mask in masks.items()}
    empty = bytes(stride)
    return int.from_bytes(b"".join([rows.get(symbol, empty) for symbol in a]), "big")


def _longest(cells: int, diagonal: int) -> int:
    """Length of the longest diagonal run: double it while it fits, then halve the steps."""
    if not cells:
        return 0
    powers = [cells]
    while longer := powers[-1] & (powers[-1] << (diagonal << (len(powers) - 1))):
        powers.append(longer)
    length, runs = 1 << (len(powers) - 1), powers.pop()
    while powers:
        more = powers.pop()
        longer = runs & (more << (diagonal * length))
        if longer:
            length, runs = length + (1 << len(powers)), longer
    return length


def _runs(cells: int, length: int, diagonal: int) -> int:
    """Cells that start a diagonal run of at least ``length``."""
    runs, have = cells, 1
    while have < length and runs:
        step = min(have, length - have)
        runs &= runs << (diagonal * step)
        have += step
    return runs


@functools.lru_cache(maxsize=1024)
def _columns(width: int, last: int, rows: int) -> int:
    """Every row's last ``last`` columns."""
    ones = _every_row(width, rows)
    return (ones << last) - ones


@functools.lru_cache(maxsize=256)
def _every_row(width: int, rows: int) -> int:
    return ((1 << (width * rows)) - 1) // ((1 << width) - 1)


def _left_alive(chain: Sequence[tuple[int, int]], length: int, n: int, m: int, stride: int) -> int:
    """Cells between the blocks of a chain: before the first, after the last, and in between."""
    pieces: list[bytes] = []
    row = column = 0
    dead = bytes(stride * length)
    for i, j in (*chain, (n, m)):
        if i > row:
            allowed = (1 << (m - column)) - (1 << (m - j)) if j > column else 0
            pieces.append(allowed.to_bytes(stride, "big") * (i - row))
        pieces.append(dead)
        row, column = i + length, j + length
    pieces.pop()
    return int.from_bytes(b"".join(pieces), "big")


@functools.cache
def _library() -> Callable[..., list[float]] | None:
    """The compiled ratio of the ``fast`` extra, if it is installed: the same numbers, sooner."""
    try:
        import difflib_fast
    except ImportError:
        return None
    return cast("Callable[..., list[float]]", difflib_fast.ratio)


def ratios(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """2M/(|a| + |b|) of every pair, 1.0 for two empty texts; bit for bit difflib's ratio."""
    compiled = _library()
    if compiled is not None and pairs:
        return compiled(list(pairs), threads=_THREADS if len(pairs) >= _MANY else 1)
    return [2.0 * matching(a, b) / (len(a) + len(b)) if a or b else 1.0 for a, b in pairs]
