"""One budget for threads, processes and restarts."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from afnb.errors import InputError
from afnb.experiments.budget import Budget, Use
from afnb.experiments.purse import ENDING, STOPPING, PairMeter, Purse

TAKER = """
import sys
from afnb.experiments.purse import Purse
from afnb.experiments.budget import Budget
purse = Purse(sys.argv[1], Budget(live_calls=100))
print(sum(purse.take() is None for _ in range(70)))
"""


def test_threads_never_take_more_than_there_is(tmp_path: Path) -> None:
    purse = Purse(tmp_path / "purse", Budget(live_calls=50))
    taken: list[int] = []

    def take() -> None:
        taken.append(sum(purse.take() is None for _ in range(20)))

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 50
    assert purse.spent().live_calls == 50
    assert purse.crossed() == "budget of 50 live calls spent"


def test_processes_share_it(tmp_path: Path) -> None:
    path = str(tmp_path / "purse")
    running = [
        subprocess.Popen([sys.executable, "-c", TAKER, path], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    taken = [int(process.communicate(timeout=60)[0]) for process in running]
    assert sum(taken) == 100
    assert Purse(path, Budget()).spent().live_calls == 100


def test_it_survives_a_restart_and_a_pickle(tmp_path: Path) -> None:
    purse = Purse(tmp_path / "purse", Budget(live_calls=5, tokens=100))
    purse.take()
    purse.charge(Use("m", 1, 60, 30))
    again = pickle.loads(pickle.dumps(purse))
    assert again.spent() == purse.spent()
    assert again.left() == Budget(live_calls=4, tokens=10)
    again.charge(Use("m", 1, 10, 5))
    assert purse.crossed() == "budget of 100 tokens spent"


def test_dollars_and_seconds(tmp_path: Path) -> None:
    prices = {"m": (1.0, 2.0)}
    purse = Purse(tmp_path / "purse", Budget(live_calls=None, dollars=3.0, prices=prices))
    purse.charge(Use("m", 1, 1_000_000, 1_000_000))
    assert purse.crossed() == "budget of $3 spent"
    timed = Purse(tmp_path / "timed", Budget(live_calls=None, seconds=1e-9))
    assert timed.crossed() is None
    timed.begin()
    assert timed.crossed() == "budget of 1e-09 s spent"


def test_an_interrupt_of_one_pair_is_one_of_all(tmp_path: Path) -> None:
    purse = Purse(tmp_path / "purse", Budget())
    one, other = PairMeter(purse), PairMeter(purse)
    one.stop("put aside")
    assert (one.crossed(), other.crossed()) == ("put aside", None)
    other.stop("interrupted")
    assert purse.crossed() == other.crossed() == "interrupted"
    assert purse.spent().state == STOPPING
    purse.stop(ENDING)
    purse.stop(STOPPING)
    assert purse.spent().state == ENDING
    purse.begin()
    assert purse.crossed() is None


def test_a_pair_counts_for_itself_and_for_the_batch(tmp_path: Path) -> None:
    purse = Purse(tmp_path / "purse", Budget(live_calls=10))
    limited, free = PairMeter(purse, Budget(live_calls=2)), PairMeter(purse)
    assert [limited.take() for _ in range(3)] == [None, None, "budget of 2 live calls spent"]
    free.take()
    free.charge(Use("m", 1, 3, 4))
    free.recall(5, [Use("m", 5, 10, 10)])
    assert (free.live_calls, free.tokens) == (6, 27)
    assert (purse.spent().live_calls, purse.spent().tokens) == (3, 7)
    assert free.left() == Budget(live_calls=7)


def test_something_else_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "purse").write_text("hello")
    with pytest.raises(InputError, match="no file of a batch's budget"):
        Purse(tmp_path / "purse", Budget())
    with pytest.raises(InputError, match="file system that all of them share"):
        Purse(tmp_path / "none" / "purse", Budget())
