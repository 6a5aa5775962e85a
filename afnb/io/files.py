"""Files: written beside and renamed, never over one that is there unless that was asked for."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from afnb.errors import InputError, ParameterError

PathLike = str | os.PathLike[str]
OVERWRITE = "say overwrite=True"


def read_bytes(path: PathLike) -> bytes:
    """The bytes of a file.

    Raises
    ------
    InputError
        There is no such file, it is a folder, or it cannot be read.
    """
    name = os.fspath(path)
    try:
        return Path(name).read_bytes()
    except FileNotFoundError:
        raise InputError("no such file; check the path", path=name) from None
    except IsADirectoryError:
        raise InputError("it is a folder; expected a file", path=name) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=name) from None


def refuse_existing(path: PathLike, or_else: str = "") -> None:
    """Raise ``ParameterError`` if there is a file already.

    Parameters
    ----------
    path
        The file that is to be written.
    or_else
        What the caller's user can do beside choosing another name, e.g. ``overwrite=True``.
    """
    if os.path.lexists(path):
        other = f", or {or_else}" if or_else else ""
        raise ParameterError(f"{os.fspath(path)} exists already; choose another name{other}")


def write_new(path: PathLike, data: bytes, *, overwrite: bool = False) -> None:
    """Write a file whole; see `new_file`.

    Raises
    ------
    ParameterError
        The file exists and ``overwrite`` is False, or its folder does not exist.
    """
    with new_file(path, overwrite=overwrite) as file:
        file.write(data)


@contextlib.contextmanager
def new_file(path: PathLike, *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """A file to write, beside its place; at the end it is flushed to the disk and named in one step.

    A crash leaves the old state or the new one, never half a file, and nobody else's file is replaced.

    Raises
    ------
    ParameterError
        The file exists and ``overwrite`` is False, or its folder does not exist.
    """
    name = os.fspath(path)
    if not overwrite:
        refuse_existing(name, OVERWRITE)
    folder = os.path.dirname(os.path.abspath(name))
    if not os.path.isdir(folder):
        raise ParameterError(
            f"{name} cannot be written: there is no folder {os.path.dirname(name)}; make it first"
        )
    beside = os.path.join(folder, f".{os.path.basename(name)}.{secrets.token_hex(6)}.part")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(beside, name)
        else:
            _name_it(beside, name)
        _flush_folder(folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)


def _name_it(beside: str, name: str) -> None:
    """Rename, refusing an existing name even if it appeared just now."""
    try:
        os.link(beside, name)
    except FileExistsError:
        refuse_existing(name, OVERWRITE)
    except OSError:  # a file system without hard links
        refuse_existing(name, OVERWRITE)
        os.replace(beside, name)


def _flush_folder(folder: str) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
