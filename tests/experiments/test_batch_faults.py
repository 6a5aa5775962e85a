"""A batch whose surroundings fail: each fault is a row with its reason, or one sentence; nothing stays."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import afnb
from afnb.core.cassette import Request, Response
from afnb.errors import InputError
from afnb.experiments.agents import Function
from afnb.io.answers import error
from afnb.io.reply import Upstream
from afnb.testing.provider import FakeProvider

sys.path.insert(0, str(Path(__file__).parent))
from many import AGENT, Case, batch, folder, live, upstream
from test_batch import same_tables, states
from test_batch_resume import PROGRAM, ended, start

CASES = [Case(0), Case(1, "skip"), Case(2, "style", right=0.0)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("cases"), CASES)


class Busy(Upstream):
    """A provider that refuses everybody for a while, saying when to ask again."""

    def __init__(self, for_s: float) -> None:
        self.for_s = for_s
        self.until: float | None = None
        self.refused = 0
        self.lock = threading.Lock()

    origin = "simulated"

    def answer(self, request: Request) -> Response:
        return self.of(upstream(), request)

    def of(self, inner: Upstream, request: Request) -> Response:
        with self.lock:
            now = time.monotonic()
            self.until = self.until or now + self.for_s
            if now < self.until:
                self.refused += 1
                refusal = error(request, 429, "slow down")
                headers = (*refusal.headers, ("retry-after", "1"))
                return Response(429, headers, refusal.body)
        return inner.answer(request)

    def for_replay(self, seed: int, arm: str, index: int) -> Upstream:
        return One(self, upstream().for_replay(seed, arm, index))


class One(Upstream):
    """What one replay sees of it."""

    origin = "simulated"

    def __init__(self, busy: Busy, inner: Upstream) -> None:
        self.busy, self.inner = busy, inner

    def answer(self, request: Request) -> Response:
        return self.busy.of(self.inner, request)


def test_a_provider_that_is_busy_for_a_while_is_no_failure_of_any_agent(place: Path) -> None:
    busy = Busy(2.0)
    rule = afnb.SequentialConsensus(max_replays=20)
    found = batch(place, upstream=busy, consensus=rule, n_jobs=3)
    assert busy.refused > 0
    lost = [row for row in found.replays.to_pylist() if row["reason"]]
    assert {row["reason"] for row in lost} <= {"provider_error"}
    verdicts = states(batch(place, consensus=rule))
    for pair, state in states(found).items():
        assert state in (verdicts[pair], "unverified"), "a busy provider turns no verdict round"
    for pair, reason in found.reasons.items():
        assert "provider_error" in reason, (pair, reason)


class Dies:
    """The usual agent; in replays of one case it takes its process with it once it was answered live."""

    def __init__(self, case: int) -> None:
        self.case = case

    def __call__(self, ctx: Any) -> str:
        text = AGENT(ctx)
        if f"case {self.case}" in text and text.startswith("Paid"):
            os._exit(3)
        return text


def test_a_worker_that_dies_is_the_row_of_its_own_pair(place: Path, tmp_path: Path) -> None:
    found = batch(place, agent=Function(Dies(1)), backend="loky", ledger=tmp_path / "out")
    verdicts = states(found)
    assert verdicts["case-0"] == "repair"
    assert verdicts["case-2"] == "no_cause"
    assert verdicts["case-1"] not in ("repair", "no_cause")
    assert "died" in found.reasons["case-1"]


def limited_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, 6_000))


def test_a_disk_that_takes_no_more_ends_it_with_one_sentence(place: Path, tmp_path: Path) -> None:
    """The write itself fails, wherever it is; with room again the same call goes on."""
    out, calls = tmp_path / "out", tmp_path / "calls"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(place), str(out), str(calls)],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limited_files,
        start_new_session=True,
    )
    assert done.returncode != 0
    said = done.stderr.strip().splitlines()[-1]
    assert "InputError" in said
    assert "File too large" in said
    assert not list(out.glob("**/*.part"))
    ended(start(place, out, tmp_path / "more"))
    same_tables(batch(place), afnb.read_batch(out))


def test_a_folder_that_cannot_be_written_to_is_one_sentence(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be used as a batch's folder"):
        batch(place, ledger="/proc/afnb")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be used as a batch's folder"):
        batch(place, ledger=tmp_path / "file")


def test_a_live_provider_that_says_when_to_come_back_is_waited_for(place: Path) -> None:
    """Refused with ``Retry-After``, all workers hold back, and what was refused is counted apart."""
    until: list[float] = []
    refused: list[float] = []

    def say(talk: Any, rng: Any) -> Any:
        now = time.monotonic()
        until[:] = until or [now + 1.2]
        if now < until[0]:
            refused.append(now)
            body = b'{"error": {"message": "slow down"}}'
            head = (("content-type", "application/json"), ("retry-after", "0.4"))
            return Response(429, head, body)
        return live(talk, rng)

    with FakeProvider(say) as provider:
        found = batch(place, upstream=provider.url, n_jobs=3)
    assert states(found) == {"case-0": "repair", "case-1": "repair", "case-2": "no_cause"}
    # the agent asks once: what each of three workers lost between two times to come back
    assert 0 < len(refused) <= 3 * 4
    lost = [row for row in found.replays.to_pylist() if row["reason"]]
    assert {row["reason"] for row in lost} == {"provider_error"}
    assert len(lost) <= len(refused)
