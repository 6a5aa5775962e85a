"""``Source``: one input file as the formats look at it, and what a format says of it."""

from __future__ import annotations

import functools
import gzip
import os
import zlib
from dataclasses import dataclass

from afnb.core.jsonvalue import MISSING, JsonOrMissing, loads
from afnb.errors import InputError
from afnb.io.files import PathLike, read_bytes

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Source:
    """The bytes of a file, decompressed; what they parse to is worked out once.

    ``path`` is None for bytes that came from elsewhere.
    """

    data: bytes
    path: str | None = None

    @functools.cached_property
    def json(self) -> JsonOrMissing:
        """The file as one JSON value, or ``MISSING`` if it is none."""
        if self.data.lstrip()[:1] not in (b"{", b"["):
            return MISSING
        try:
            return loads(self.data)
        except InputError:
            return MISSING

    @functools.cached_property
    def first_line(self) -> JsonOrMissing:
        """The first non-blank line as a JSON value, or ``MISSING``."""
        line = next((line for line in self.data.split(b"\n", 64)[:64] if line.strip()), b"")
        if line.lstrip()[:1] not in (b"{", b"["):
            return MISSING
        try:
            return loads(line)
        except InputError:
            return MISSING

    @property
    def name(self) -> str:
        """The file's name without its folder and without ``.gz`` or ``.zst``."""
        name = os.path.basename(self.path or "")
        return name.removesuffix(".gz").removesuffix(".zst")

    @property
    def stem(self) -> str:
        """The file's name without any ending; the identifier of a run whose file has none."""
        return self.name.partition(".")[0] or self.name


@dataclass(frozen=True, slots=True)
class Found:
    """What a format says of a file. ``score`` 1 means: it is mine; below that, how near it comes.

    ``missing`` names what is missing, for the error message of a file that nobody claims.
    """

    score: float
    missing: str = ""


def open_source(path: PathLike) -> Source:
    """Read a file; gzip and zstd are recognised by their first bytes, whatever the file's name.

    Raises
    ------
    InputError
        No such file, or its compressed data are damaged.
    """
    name = os.fspath(path)
    return Source(decompressed(read_bytes(name), name), name)


def compressed(data: bytes) -> bytes:
    """The data with zstd around them; equal data give equal bytes.

    Examples
    --------
    >>> len(compressed(b"again and " * 1000)) < 100, decompressed(compressed(b"x"))
    (True, b'x')
    """
    import zstandard

    return zstandard.ZstdCompressor(level=3).compress(data)


def decompressed(data: bytes, path: str | None = None) -> bytes:
    """The data without gzip or zstd around them."""
    if data.startswith(_GZIP):
        try:
            return gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"gzip data are damaged or cut off ({error})", path=path) from None
    if data.startswith(_ZSTD):
        import zstandard

        out: list[bytes] = []
        try:
            reader = zstandard.ZstdDecompressor().decompressobj()
            out.append(reader.decompress(data))
            out.append(reader.flush())
            whole = reader.eof
            while whole and reader.unused_data:
                rest = reader.unused_data
                reader = zstandard.ZstdDecompressor().decompressobj()
                out.append(reader.decompress(rest))
                whole = reader.eof
        except zstandard.ZstdError as error:
            raise InputError(f"zstd data are damaged ({error})", path=path) from None
        if not whole:
            raise InputError("zstd data are cut off", path=path)
        return b"".join(out)
    return data
