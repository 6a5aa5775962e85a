from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from afnb.core.cassette import Request
from afnb.errors import ParameterError
from afnb.io.live import LiveUpstream
from afnb.io.ratelimit import RateLimit, retry_after_s
from afnb.testing.provider import FakeProvider, Fault


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ((("retry-after", "3"),), 3.0),
        ((("retry-after", "0.5"),), 0.5),
        ((("retry-after-ms", "250"), ("retry-after", "9")), 0.25),
        ((("retry-after", "Thu, 01 Jan 1970 00:01:40 GMT"),), 90.0),
        ((("retry-after", "Thu, 01 Jan 1970 00:00:01 GMT"),), 0.0),
        ((("retry-after", "-4"),), 0.0),
        ((("retry-after", "soon"),), None),
        ((("retry-after", "nan"),), None),
        ((("retry-after", "inf"),), None),
        ((), None),
    ],
)
def test_retry_after(headers: tuple[tuple[str, str], ...], seconds: float | None) -> None:
    assert retry_after_s(headers, 10.0) == seconds


@pytest.mark.parametrize("options", [{"per_minute": 0}, {"per_minute": -1}, {"max_wait_s": -1}])
def test_settings_are_checked(options: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        RateLimit(**options)  # type: ignore[arg-type]


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("afnb.io.ratelimit.time.time", lambda: self.now)
        monkeypatch.setattr("afnb.io.ratelimit.time.sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_calls_are_evenly_spaced(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    limit = RateLimit(per_minute=60)
    starts = []
    for _ in range(4):
        limit.wait()
        starts.append(clock.now)
    assert starts == [1000.0, 1001.0, 1002.0, 1003.0]


def test_a_busy_answer_holds_everyone_back_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    limit = RateLimit(max_wait_s=30)
    limit.note(429, (("retry-after", "5"),))
    limit.wait()
    assert clock.now == pytest.approx(1005.0)
    limit.note(503, (("retry-after", "5000"),))
    limit.wait()
    assert clock.now == pytest.approx(1035.0)


@pytest.mark.parametrize("status", [200, 400, 500])
def test_other_answers_hold_nobody_back(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    clock = Clock(monkeypatch)
    limit = RateLimit()
    limit.note(status, (("retry-after", "5"),))
    limit.wait()
    assert clock.now == 1000.0


def test_whoever_was_held_up_still_keeps_the_pace() -> None:
    limit = RateLimit(per_minute=60 * 200)
    limit.note(429, (("retry-after", "0.05"),))
    starts: list[float] = []

    def go() -> None:
        limit.wait()
        starts.append(time.time())

    threads = [threading.Thread(target=go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(starts) - min(starts) >= 7 * 0.005 - 0.004


def test_a_limit_sent_elsewhere_shares_its_state_through_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    limit = RateLimit(per_minute=60)
    limit.wait()
    other = pickle.loads(pickle.dumps(limit))
    assert other.path == limit.path
    other.wait()
    limit.wait()
    assert clock.now == 1002.0
    other.note(429, (("retry-after", "10"),))
    limit.wait()
    assert clock.now == pytest.approx(1012.0)
    path = Path(str(limit.path))
    assert path.exists()
    del limit
    assert not path.exists()


def test_a_damaged_state_file_starts_afresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = Clock(monkeypatch)
    path = tmp_path / "rate.json"
    path.write_text("{nonsense")
    limit = RateLimit(per_minute=60, path=path)
    limit.wait()
    limit.wait()
    assert clock.now == 1001.0


def test_processes_keep_one_pace(tmp_path: Path) -> None:
    code = (
        "import sys, time; from afnb.io.ratelimit import RateLimit\n"
        "limit = RateLimit(per_minute=6000, path=sys.argv[1])\n"
        "for _ in range(5): limit.wait()\n"
    )
    path = str(tmp_path / "rate.json")
    start = time.time()
    children = [subprocess.Popen([sys.executable, "-c", code, path]) for _ in range(2)]
    assert [child.wait() for child in children] == [0, 0]
    assert time.time() - start >= 9 * 0.01


def test_the_live_upstream_tells_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = RateLimit()
    held: list[float] = []
    monkeypatch.setattr(limit, "note", lambda status, headers: held.append(retry_after_s(headers, 0) or -1))
    with FakeProvider(
        lambda t, r: "x", faults={0: Fault(status=429, headers=(("retry-after", "4"),))}
    ) as provider:
        LiveUpstream(provider.url, limit=limit).answer(
            Request("POST", "/v1/messages", (), b'{"messages":[]}')
        )
    assert held == [4.0]
