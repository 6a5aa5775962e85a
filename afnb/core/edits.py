"""Edits of a body's bytes, and the pieces in which it came cut again after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from afnb.core.cassette import Chunk

Edit = tuple[int, int, bytes]
"""Bytes from start to end become these bytes. Edits of one body are in order and do not overlap."""


def apply_edits(body: bytes, edits: Sequence[Edit]) -> bytes:
    """The body after its edits.

    Examples
    --------
    >>> apply_edits(b"abcdef", [(1, 2, b"XX"), (4, 6, b"")])
    b'aXXcd'
    """
    out: list[bytes] = []
    at = 0
    for start, end, new in edits:
        out.extend((body[at:start], new))
        at = end
    out.append(body[at:])
    return b"".join(out)


def cut_again(chunks: tuple[Chunk, ...], edits: Sequence[Edit]) -> tuple[Chunk, ...]:
    """Chunks of the edited body; a boundary inside an edited span moves to the span's end.

    Examples
    --------
    >>> [c.data for c in cut_again((Chunk(0, b"ab"), Chunk(1, b"cd")), [(1, 3, b"X")])]
    [b'aX', b'd']
    """
    body = b"".join(chunk.data for chunk in chunks)
    out: list[Chunk] = []
    start = 0
    stop = 0
    for chunk in chunks:
        stop += len(chunk.data)
        end = max([stop, *(last for first, last, _ in edits if first < stop < last)])
        if end > start:
            inside = [(a - start, b - start, new) for a, b, new in edits if start <= a and b <= end]
            out.append(Chunk(chunk.ms, apply_edits(body[start:end], inside)))
            start = end
        elif out and chunk.data:
            out[-1] = replace(out[-1], ms=chunk.ms)
    return tuple(out)
