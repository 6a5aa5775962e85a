"""Pictures of results: functions that take a result or its table and an optional ``ax``.

Each returns the ``Axes`` it drew on. What is drawn is computed by a pure function beside it (``..._data``),
so that tests and other drawing libraries can have the numbers without a picture. Labels are taken
literally: no mathtext, and signs that no font has are spelled.
"""

from __future__ import annotations

from afnb.plot.change import deltas, deltas_data
from afnb.plot.curves import recoverability, recoverability_data
from afnb.plot.forks import divergence, divergence_data
from afnb.plot.moves import alignment, alignment_data
from afnb.plot.outcomes import replays, replays_data
from afnb.plot.paths import evidence, evidence_data
from afnb.plot.style import figure
from afnb.plot.trust import calibration, calibration_data

__all__ = [
    "alignment",
    "alignment_data",
    "calibration",
    "calibration_data",
    "deltas",
    "deltas_data",
    "divergence",
    "divergence_data",
    "evidence",
    "evidence_data",
    "figure",
    "recoverability",
    "recoverability_data",
    "replays",
    "replays_data",
]
