"""A stream as stretches of whole lines, and what the fast reader of event logs cannot see in them.

The fast reader skips over free JSON values without looking into them. Three things there make the
exact reader refuse a line: bytes that are no UTF-8, a number beyond a 64-bit float, nesting beyond 127
levels. ``Stretch.doubtful`` says which lines may hold one of them; it errs on the side of doubt only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from afnb.core.wire import DEEPEST
from afnb.tables.columns import Bools, Ints, arrow

_PIECE = 1 << 18  # bytes looked at at a time, so that all comparisons stay in the cache
_STRIDE = 50
_BLOCK = 64
_NEWLINE = 10
_ENDS_NUMBER = np.zeros(256, np.bool_)
_ENDS_NUMBER[list(b",]} \t\r\n")] = True

Bytes = npt.NDArray[np.uint8]
Fill = Callable[[memoryview], int]


class Stretch:
    """Some lines of a file.

    Parameters
    ----------
    data
        The lines, each with its LF; it holds until the next stretch is asked for.
    first_line, first_byte
        Number of the first line, and where it starts in the file.
    is_tail
        Whether this is the one line after the last LF, which has none.
    numbers, places
        The lines' numbers and first bytes, where they are not just one after the other.
    """

    def __init__(
        self,
        data: memoryview,
        first_line: int,
        first_byte: int,
        is_tail: bool = False,
        numbers: Ints | None = None,
        places: Ints | None = None,
    ) -> None:
        self.data, self.is_tail = data, is_tail
        self.array: Bytes = np.frombuffer(data, np.uint8)
        ends = np.array([len(data)]) if is_tail else np.flatnonzero(self.array == _NEWLINE)
        self.starts: Ints = np.concatenate(([0], ends + 1)).astype(np.int64)
        counted: Ints = np.arange(first_line, first_line + len(self), dtype=np.int64)
        self.numbers = counted if numbers is None else numbers
        self.places: Ints = self.starts[:-1] + first_byte if places is None else places

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> Ints:
        """Bytes of each line, its LF not counted."""
        found: Ints = np.diff(self.starts) - 1
        return found

    def line(self, row: int) -> bytes:
        """One line without its LF."""
        return bytes(self.data[self.starts[row] : self.starts[row + 1] - 1])

    @functools.cached_property
    def has_an_object_a_line(self) -> bool:
        """Whether every line begins with a brace and ends with one.

        Then no JSON value goes on from one line to the next, for it would have to do so between a
        closing and an opening brace, and no JSON value has those two in a row.
        """
        first, last = self.array[self.starts[:-1]], self.array[self.starts[1:] - 2]
        return bool((self.sizes > 1).all() and (first == 0x7B).all() and (last == 0x7D).all())

    def doubtful(self) -> Bools:
        """Which lines need the exact reader."""
        found = np.zeros(len(self), np.bool_)
        if not found.size:
            return found
        self._not_utf8(found)
        exponents, opens = _marks(self.array)
        for places in (_overflows(self.array, exponents), self._long_numbers()):
            found[np.searchsorted(self.starts, places, side="right") - 1] = True
        self._deep(opens, found)
        return found

    def _not_utf8(self, found: Bools) -> None:
        pa, _ = arrow()
        ends = np.minimum(self.starts, len(self.data))
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self.data)]
        lines = pa.Array.from_buffers(pa.large_string(), len(found), buffers)
        try:
            lines.validate(full=True)
        except pa.ArrowInvalid:
            for row in range(len(found)):
                try:
                    self.line(row).decode("utf-8")
                except UnicodeDecodeError:
                    found[row] = True

    def _long_numbers(self) -> Ints:
        """Places in runs of 200 digits or more: such a run has four neighbours of every 50th byte."""
        digit = (self.array[::_STRIDE] - np.uint8(48)) < 10
        four = np.flatnonzero(digit[3:] & digit[2:-1] & digit[1:-2] & digit[:-3]) * _STRIDE
        runs = [p for p in four.tolist() if bytes(self.data[p : p + 3 * _STRIDE]).isdigit()]
        return np.array(runs, np.int64)

    def _deep(self, opens: Ints, found: Bools) -> None:
        """Lines nested deeper than the wire allows, looked at closely where many brackets open."""
        before = np.zeros(len(opens) + 1, np.int64)
        np.cumsum(opens, out=before[1:])
        first, last = self.starts[:-1] // _BLOCK, np.minimum(-(-self.starts[1:] // _BLOCK), len(opens))
        for row in np.flatnonzero(before[last] - before[first] > DEEPEST).tolist():
            line = self.line(row)
            # What closes one bracket and opens the next adds nothing to the depth, nor does it in a text.
            levels = line.count(b"[") + line.count(b"{") - line.count(b"},{") - line.count(b"}, {")
            if levels > DEEPEST and nesting(line, DEEPEST + 1) > DEEPEST:
                found[row] = True


def stretches(fill: Fill, size: int, first_byte: int = 0) -> Iterator[Stretch]:
    """The lines of a stream, some ``size`` bytes of them at a time; they end at LF only.

    Parameters
    ----------
    fill
        Reads into a buffer and gives how many bytes; 0 at the end.
    size
        How much is read at a time; for a longer line the buffer grows.
    first_byte
        Where in the file the stream begins.
    """
    buffer = bytearray(size)
    filled, line = 0, 1
    while read := fill(memoryview(buffer)[filled:]):
        end = buffer.rfind(b"\n", filled, filled + read) + 1
        filled += read
        if not end:
            if filled == len(buffer):
                buffer = buffer + bytearray(len(buffer))
            continue
        found = Stretch(memoryview(buffer)[:end], line, first_byte)
        yield found
        line, first_byte = line + len(found), first_byte + end
        buffer[: filled - end] = buffer[end:filled]
        filled -= end
    if filled:
        yield Stretch(memoryview(buffer)[:filled], line, first_byte, is_tail=True)


def _marks(data: Bytes) -> tuple[Ints, Ints]:
    """Places of an ``e`` after a digit; how many brackets open in each block."""
    places, opens = [], []
    numbers, masks = np.empty(_PIECE, np.uint8), np.empty((2, _PIECE), np.bool_)
    for at in range(0, len(data), _PIECE):
        piece = data[at : at + _PIECE]
        size = len(piece)
        work, found, other = numbers[:size], masks[0, :size], masks[1, :size]
        np.bitwise_or(piece, 0x20, out=work)
        np.equal(work, 0x65, out=found)
        opens.append(_per_block(np.equal(work, 0x7B, out=other)))
        np.subtract(piece, 48, out=work)
        np.less(work, 10, out=other)
        found[1:] &= other[:-1]
        found[0] &= at > 0 and 48 <= data[at - 1] < 58
        places.append(np.flatnonzero(found) + at)
    return np.concatenate(places), np.concatenate(opens).astype(np.int64)


def _per_block(marks: Bools) -> npt.NDArray[np.uint64]:
    """How many are set in each block of 64."""
    short = -len(marks) % _BLOCK
    if short:
        marks = np.concatenate((marks, np.zeros(short, np.bool_)))
    words = marks.view(np.uint64)
    lanes = words[0::8] + words[1::8]
    for n in range(2, 8):
        lanes += words[n::8]
    lanes *= np.uint64(0x0101010101010101)
    return lanes >> np.uint64(56)


def _overflows(data: Bytes, exponents: Ints) -> Ints:
    """Those exponents that have three digits or more and end as a number does."""
    last = len(data) - 1

    def byte(places: Ints) -> Bytes:
        return np.where(places > last, np.uint8(_NEWLINE), data[np.minimum(places, last)])

    def is_digit(places: Ints) -> Bools:
        found: Bools = (byte(places) - np.uint8(48)) < 10
        return found

    at = exponents + 1
    at = at + (byte(at) == 43)
    for _ in range(3):
        there = is_digit(at)
        exponents, at = exponents[there], at[there] + 1
    more = is_digit(at)
    while more.any():
        at = at + more
        more = is_digit(at)
    ended: Ints = exponents[_ENDS_NUMBER[byte(at)]]
    return ended


_BRACKETS = bytes.maketrans(b"{}", b"[]")
_OTHER = bytes(set(range(256)) - set(b"[]{}"))


def nesting(line: bytes, most: int) -> int:
    """Levels of arrays and objects of a JSON text, counted no further than ``most``.

    Examples
    --------
    >>> nesting(b'{"a":["[[[",{"b\\\\\\\\":1}]}', 9)
    3
    """
    outside = line.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    left = b"".join(outside).translate(_BRACKETS, _OTHER)
    levels = 0
    while left and levels < most:
        fewer = left.replace(b"[]", b"")
        if len(fewer) == len(left):
            return most  # brackets that do not match: the exact reader says what is wrong
        left, levels = fewer, levels + 1
    return levels
