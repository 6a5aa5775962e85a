"""The batch benchmark at CI size: twenty pairs of forty exchanges get the verdicts that were planted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "speed"))
import p_batch

PAIRS = 20


@pytest.mark.timeout(400)
def test_twenty_pairs_of_forty_exchanges(tmp_path: Path) -> None:
    place = p_batch.folder(tmp_path / "pairs", p_batch.cases(PAIRS))
    found = p_batch.measured(place, tmp_path / "out", n_jobs=4, backend="threading", latency_s=0.0)
    assert found["pairs"] == PAIRS
    assert found["states"] == {"repair": 15, "no_cause": 5}
    assert found["live_calls"] > 20 * found["pairs"]
    # recordings of re-runs share what they repeat: far below the megabytes of what was sent
    assert found["folder_mb"] < 0.5 * PAIRS
    assert found["report_mb"] < 1.0
