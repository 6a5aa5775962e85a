"""Reading and checking logs takes the memory it says: measured in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")

HERE = Path(__file__).resolve().parent
MOST_OF_A_STREAM = 500_000_000


def made(root: Path, folder: Path, megabytes: int) -> Path:
    path = folder / "log.jsonl"
    script = root / "benchmarks" / "speed" / "made_logs.py"
    subprocess.run(
        [sys.executable, str(script), str(path), "--mb", str(megabytes)], check=True, capture_output=True
    )
    return path


def measured(way: str, path: Path) -> dict[str, int]:
    command = [sys.executable, str(HERE / "log_memory.py"), way, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def check(root: Path, folder: Path, megabytes: int) -> None:
    path = made(root, folder, megabytes)
    read, stream = measured("read", path), measured("stream", path)
    print(read, stream)
    assert read["table"] > 0.9 * path.stat().st_size
    assert read["peak"] <= 1.3 * read["table"]
    assert stream["processes"] > 2
    assert stream["peak"] < MOST_OF_A_STREAM
    assert (stream["events"], stream["broken"]) == (read["events"], read["broken"])


def test_memory_of_a_table_and_of_a_stream(root: Path, tmp_path: Path) -> None:
    check(root, tmp_path, 80)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_memory_of_a_gigabyte(root: Path, tmp_path: Path) -> None:
    check(root, tmp_path, 1000)
