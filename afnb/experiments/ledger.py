"""``Ledger``: finished replays on disk, so that nothing that was paid for is ever run again.

::

    FOLDER/<recording>.jsonl        one line a finished replay, appended and flushed before it counts
    FOLDER/recordings/<digest>.*    the replays' own recordings, zstd, named by what they hold

A replay is known by the hashes of the recording, the arm, the agent and the settings, and by its stage,
role, index and seed. Anything that could change what a replay does is in one of them, so a changed agent,
recording, oracle or seed never meets an old line. A line that was being written when the machine stopped
is dropped; any other line that cannot be read is an error, since it may stand for money.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afnb.core.cassette import Cassette
from afnb.core.eventlog import EventLog
from afnb.core.jsonvalue import dumps, loads
from afnb.core.logsteps import run_from_log
from afnb.core.run import Run
from afnb.core.steps import run_from_cassette
from afnb.errors import AfnbError, InputError, ParameterError
from afnb.experiments.budget import Use
from afnb.experiments.replay import STOPPED, Lost, Recovery, ReplayResult, Role
from afnb.io.files import PathLike, write_new
from afnb.io.formats.cassette import read_cassette, text_of
from afnb.io.formats.eventlog import read_log
from afnb.io.formats.source import compressed, decompressed
from afnb.io.serve_report import SessionReport
from afnb.tables.build import build

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 1
RECORDINGS = "recordings"


@dataclass(frozen=True, slots=True)
class ReplayKey:
    """What makes two replays the same: everything their course depends on, as hashes and numbers."""

    recording: str
    arm: str
    agent: str
    settings: str
    stage: str
    role: Role
    index: int
    seed: int


@dataclass(frozen=True, slots=True)
class Said:
    """What a replay's run holds beyond its recording; the answer is JSON text."""

    answer: str
    exit_status: int | None
    stdout: str | None
    stderr: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a ledger."""

    v: int
    finished_at: str
    key: ReplayKey
    recovery: Recovery
    reason: str | None
    lost: Lost | None
    detail: str | None
    report: SessionReport
    uses: tuple[Use, ...]
    tail_digest: str | None
    wall_s: float
    worker: str
    said: Said | None
    kept: str | None

    def row(self) -> dict[str, Any]:
        """A row of the ``ledger`` table."""
        key = self.key
        return {
            "recording_hash": key.recording,
            "arm_hash": key.arm,
            "agent_hash": key.agent,
            "settings_hash": key.settings,
            "stage": key.stage,
            "arm": key.role,
            "index": key.index,
            "seed": key.seed,
            "recovery": self.recovery,
            "reason": self.reason,
            "lost": self.lost,
            "detail": self.detail,
            "served": self.report.served,
            "live": self.report.live,
            "input_tokens": sum(use.input_tokens for use in self.uses),
            "output_tokens": sum(use.output_tokens for use in self.uses),
            "answer": None if self.said is None else loads(self.said.answer),
            "kept": self.kept,
            "finished_at": self.finished_at,
            "wall_s": self.wall_s,
        }


class Ledger:
    """A folder of finished replays; several experiments, threads and processes may share one.

    Parameters
    ----------
    folder
        Where it is; made when the first replay is kept.

    Examples
    --------
    >>> Ledger("no-such-folder-yet").table.num_rows
    0
    """

    def __init__(self, folder: PathLike) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ParameterError(f"ledger={os.fspath(folder)!r} is a file; a ledger is a folder")
        self._lock = threading.Lock()
        self._known: dict[str, dict[ReplayKey, Entry]] = {}

    @property
    def table(self) -> pa.Table:
        """Every finished replay, one row each (table ``ledger``), as it is on disk now."""
        rows = []
        for path in sorted(self.folder.glob("*.jsonl")):
            rows += [entry.row() for entry in read_entries(path)]
        return build("ledger", rows)

    def find(self, key: ReplayKey) -> ReplayResult | None:
        """The finished replay with this key, or None.

        Raises
        ------
        InputError
            A line, or the replay's own recording, cannot be read.
        """
        with self._lock:
            entry = self._of(key.recording).get(key)
        return None if entry is None else self._restored(entry)

    def keep(self, key: ReplayKey, result: ReplayResult) -> None:
        """Write a finished replay down; one that was stopped by a budget or an interrupt is none.

        Raises
        ------
        InputError
            The folder cannot be written to.
        """
        if result.reason in STOPPED or result.cannot_start:
            return
        try:
            kept = self._keep_recording(result.recording)
            entry = _entry(key, result, kept)
            line = json.dumps(asdict(entry), ensure_ascii=True, separators=(",", ":")).encode()
            with self._lock:
                if key in self._of(key.recording):
                    return
                with _appending(self._path(key.recording)) as file:
                    _append(file, line + b"\n")
                self._of(key.recording)[key] = entry
        except OSError as error:
            raise InputError(
                f"a finished replay cannot be written down: {error.strerror or error}; make room and run it "
                "again, nothing written so far is lost",
                path=str(self.folder),
            ) from None

    def _of(self, recording: str) -> dict[ReplayKey, Entry]:
        if recording not in self._known:
            entries: dict[ReplayKey, Entry] = {}
            for entry in read_entries(self._path(recording)):
                entries.setdefault(entry.key, entry)
            self._known[recording] = entries
        return self._known[recording]

    def _path(self, recording: str) -> Path:
        return self.folder / f"{recording}.jsonl"

    def _keep_recording(self, recording: Cassette | EventLog | None) -> str | None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if recording is None:
            return None
        if isinstance(recording, Cassette):
            data, ending = text_of(recording, plain=True).encode("utf-8"), "json"
        else:
            data, ending = recording.to_bytes(), "jsonl"
        name = f"{hashlib.blake2b(data, digest_size=16).hexdigest()}.{ending}.zst"
        path = self.folder / RECORDINGS / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            write_new(path, compressed(data), overwrite=True)
        return name

    def _restored(self, entry: Entry) -> ReplayResult:
        key = entry.key
        recording = None if entry.kept is None else self._recording(entry)
        return ReplayResult(
            role=key.role,
            index=key.index,
            seed=key.seed,
            recovery=entry.recovery,
            reason=entry.reason,
            lost=entry.lost,
            detail=entry.detail,
            report=entry.report,
            run=_run(recording, entry.said),
            recording=recording,
            tail_digest=entry.tail_digest,
            wall_s=entry.wall_s,
            worker=entry.worker,
            uses=entry.uses,
        )

    def _recording(self, entry: Entry) -> Cassette | EventLog:
        assert entry.kept is not None
        path = self.folder / RECORDINGS / entry.kept
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(
                f"the recording of a finished replay is not there ({error.strerror}); put it back, or name "
                "another folder as the ledger",
                path=str(path),
            ) from None
        try:
            data = decompressed(data)
        except InputError:
            data = b""
        if hashlib.blake2b(data, digest_size=16).hexdigest() != entry.kept.partition(".")[0]:
            raise InputError(
                "the recording of a finished replay was changed since; put it back, or name another folder "
                "as the ledger",
                path=str(path),
            )
        return read_log(data) if ".jsonl" in entry.kept else read_cassette(data)


def as_ledger(value: Any) -> Ledger | None:
    """The ledger a caller means: a folder's name, a ``Ledger``, or None for none.

    Raises
    ------
    ParameterError
        It is something else, or a file.
    """
    if value is None or isinstance(value, Ledger):
        return value
    if isinstance(value, (str, os.PathLike)):
        return Ledger(value)
    raise ParameterError(f"ledger={value!r}: expected the name of a folder")


def read_entries(path: Path) -> Iterator[Entry]:
    """The lines of one ledger file; a last line that broke off is left out.

    Raises
    ------
    InputError
        Another line cannot be read, or was written by a newer afnb.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"the ledger cannot be read: {error.strerror}", path=str(path)) from None
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        yield _read_line(line, number, path)


def _read_line(line: bytes, number: int, path: Path) -> Entry:
    import msgspec

    way = "put the file back as it was, or name another folder as the ledger"
    try:
        value = json.loads(line)
        version = value["v"] if isinstance(value, dict) else None
        if version != VERSION:
            raise InputError(
                f"this afnb reads ledgers of version {VERSION}, found {version!r}; name another folder as "
                "the ledger",
                path=str(path),
                line=number,
            )
        return msgspec.convert(value, Entry)
    except AfnbError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"no line of a ledger: {error}; {way}", path=str(path), line=number) from None


@contextmanager
def _appending(path: Path) -> Iterator[int]:
    """The file open for appending, locked; what a broken write left behind its last line is cut off."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            os.ftruncate(file, _whole(file, size))
        yield file
    finally:
        os.close(file)


def _append(file: int, line: bytes) -> None:
    """Write a whole line and see it on the disk, or leave none of it."""
    size = os.fstat(file).st_size
    if os.write(file, line) < len(line):
        os.ftruncate(file, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(file)


def _whole(file: int, size: int) -> int:
    """Length of the file up to the end of its last whole line."""
    end = size
    while end > 0:
        start = max(0, end - 65536)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _entry(key: ReplayKey, result: ReplayResult, kept: str | None) -> Entry:
    run = result.run
    said = None if run is None else Said(dumps(run.answer), run.exit_status, run.stdout, run.stderr)
    return Entry(
        v=VERSION,
        finished_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        key=key,
        recovery=result.recovery,
        reason=result.reason,
        lost=result.lost,
        detail=result.detail,
        report=result.report,
        uses=result.uses,
        tail_digest=result.tail_digest,
        wall_s=result.wall_s,
        worker=result.worker,
        said=said,
        kept=kept,
    )


def _run(recording: Cassette | EventLog | None, said: Said | None) -> Run | None:
    if recording is None or said is None:
        return None
    run = run_from_cassette(recording) if isinstance(recording, Cassette) else run_from_log(recording)
    return replace(
        run,
        answer=loads(said.answer),
        exit_status=said.exit_status,
        stdout=said.stdout,
        stderr=said.stderr,
    )
