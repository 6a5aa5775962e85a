"""Where event logs come from: files, folders, patterns and open files, decompressed on the way."""

from __future__ import annotations

import glob
import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from afnb.errors import InputError, ParameterError
from afnb.io.eventscan import Fill
from afnb.io.files import PathLike

ENDINGS = (".jsonl", ".json", ".ndjson")
COMPRESSED = (".gz", ".zst")
TABLES = {b"PAR1": "parquet", b"ARROW1": "arrow"}
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_READ = 1 << 20

EventsFrom = PathLike | Any


@dataclass(frozen=True, slots=True)
class EventSource:
    """One place to read from: a file by its ``path``, or an open ``stream``."""

    path: str | None
    stream: Any = None

    @property
    def size(self) -> int:
        """Bytes of the file; 0 for a stream."""
        return 0 if self.path is None else os.path.getsize(self.path)


def find_sources(sources: EventsFrom | Iterable[EventsFrom]) -> list[EventSource]:
    """The files that are meant, in path order, and after them the open files in the order given.

    A folder stands for the logs in it and below it: names that end in .jsonl, .ndjson or .json, with
    or without .gz or .zst; a pattern for the files it matches (``**`` for any folders between).

    Raises
    ------
    InputError
        There is no such file, or nothing that matches.
    ParameterError
        Something else than paths and open files.
    """
    if isinstance(sources, str | os.PathLike) or hasattr(sources, "read"):
        sources = [sources]
    if not isinstance(sources, Iterable):
        raise ParameterError(f"found {type(sources).__name__}, expected paths or open files")
    paths: set[str] = set()
    streams: list[EventSource] = []
    for one in sources:
        if hasattr(one, "read"):
            name = getattr(one, "name", None)
            streams.append(EventSource(name if isinstance(name, str) else None, one))
        elif isinstance(one, str | os.PathLike):
            paths.update(_files(os.fspath(one)))
        else:
            raise ParameterError(f"found {type(one).__name__}, expected a path or an open file")
    return [EventSource(path) for path in sorted(paths)] + streams


def _files(name: str) -> list[str]:
    if not isinstance(name, str):
        raise ParameterError(f"the path {name!r} is bytes; expected text")
    if os.path.isdir(name):
        found = [
            os.path.join(folder, file)
            for folder, _, files in os.walk(name)
            for file in files
            if _is_log(file)
        ]
        if not found:
            raise InputError(
                f"there are no event logs in this folder; expected names in {_endings()}", path=name
            )
        return found
    if os.path.lexists(name):
        return [name]
    if glob.has_magic(name):
        found = [path for path in glob.glob(name, recursive=True) if not os.path.isdir(path)]
        if not found:
            raise InputError("no file matches this pattern; check it", path=name)
        return found
    raise InputError("no such file; check the path", path=name)


def _is_log(file: str) -> bool:
    for ending in COMPRESSED:
        file = file.removesuffix(ending)
    return file.endswith(ENDINGS) and not file.startswith(".")


def _endings() -> str:
    return ", ".join(ENDINGS)


class Damaged(Exception):
    """Compressed data end too early or are wrong; the text says which."""


@contextmanager
def opened(source: EventSource) -> Iterator[tuple[bytes, Fill]]:
    """The first bytes of a source and how to read it from the start, decompressed.

    Raises
    ------
    InputError
        The file cannot be opened. While it is read, `Damaged` says that its compression is.
    """
    if source.stream is not None:
        yield _plain(_binary(source.stream))
        return
    assert source.path is not None
    try:
        file = open(source.path, "rb", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=source.path) from None
    with file:
        try:
            start = _plain(file)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path=source.path) from None
        yield start


def is_compressed(head: bytes) -> bool:
    """Whether a file that begins so is compressed."""
    return head.startswith((_GZIP, _ZSTD))


def table_format(head: bytes) -> str | None:
    """``parquet`` or ``arrow`` for a file that begins so, else None."""
    return next((name for magic, name in TABLES.items() if head.startswith(magic)), None)


def _binary(stream: Any) -> Any:
    """The bytes under a text stream; text that has none is encoded."""
    if isinstance(stream.read(0), str):
        inner = getattr(stream, "buffer", None)
        return inner if inner is not None else io.BytesIO(stream.read().encode("utf-8", "surrogatepass"))
    return stream


def _plain(file: Any) -> tuple[bytes, Fill]:
    head = b""
    while len(head) < 8 and (more := file.read(8 - len(head))):
        head += more
    raw = _Rest(head, file)
    if head.startswith(_GZIP):
        return _first(_guarded(gzip.GzipFile(fileobj=raw).readinto))  # type: ignore[call-overload]
    if head.startswith(_ZSTD):
        return _first(_zstd(raw))
    return head, raw.fill


def _first(fill: Fill) -> tuple[bytes, Fill]:
    """The first bytes of a decompressed stream, put back before the rest."""
    view = bytearray(8)
    size = 0
    try:
        while size < 8 and (read := fill(memoryview(view)[size:])):
            size += read
    except Damaged as damage:
        fill = _raising(damage)
    head = bytes(view[:size])
    return head, _Rest(head, None, fill).fill


def _raising(damage: Damaged) -> Fill:
    def fill(view: memoryview) -> int:
        raise damage

    return fill


class _Rest:
    """A file with some bytes put back before it."""

    def __init__(self, head: bytes, file: Any, fill: Fill | None = None) -> None:
        self._head = head
        self._file = file
        self._fill = fill if fill is not None else filler(file)

    def fill(self, view: memoryview) -> int:
        if self._head:
            size = min(len(view), len(self._head))
            view[:size] = self._head[:size]
            self._head = self._head[size:]
            return size
        return self._fill(view)

    def read(self, size: int = -1) -> bytes:
        """Up to so many bytes; fewer than asked for before the end too."""
        data = bytearray(size if size >= 0 else _READ)
        return bytes(data[: self.fill(memoryview(data))])


def filler(stream: Any) -> Fill:
    """How a binary stream is read into a buffer."""
    if hasattr(stream, "readinto"):
        return lambda view: stream.readinto(view) or 0

    def fill(view: memoryview) -> int:
        data = stream.read(len(view))
        view[: len(data)] = data
        return len(data)

    return fill


def _guarded(readinto: Any) -> Fill:
    def fill(view: memoryview) -> int:
        try:
            return readinto(view) or 0
        except (OSError, EOFError, zlib.error) as error:
            raise Damaged(f"gzip data are damaged or cut off ({error})") from None

    return fill


def _zstd(raw: _Rest) -> Fill:
    """Decompresses frame after frame; a cut frame is noticed, which the library's own reader does not."""
    import zstandard

    waiting = bytearray()
    state: dict[str, Any] = {"frame": zstandard.ZstdDecompressor().decompressobj(), "fed": False}

    def fill(view: memoryview) -> int:
        while not waiting:
            frame = state["frame"]
            data = frame.unused_data if frame.eof else b""
            if frame.eof:
                frame = state["frame"] = zstandard.ZstdDecompressor().decompressobj()
                state["fed"] = False
            data = data or raw.read(_READ)
            if not data:
                if state["fed"]:
                    raise Damaged("zstd data are cut off")
                return 0
            try:
                waiting.extend(frame.decompress(data))
            except zstandard.ZstdError as error:
                raise Damaged(f"zstd data are damaged ({error})") from None
            state["fed"] = True
        size = min(len(view), len(waiting))
        view[:size] = waiting[:size]
        del waiting[:size]
        return size

    return fill
