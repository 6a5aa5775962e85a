"""Pictures of results: functions that take a result or its table and an optional ``ax``.

Each returns the ``Axes`` it drew on. What is drawn is computed by a pure function beside it (``..._data``),
so that tests and other drawing libraries can have the numbers without a picture.
"""

from __future__ import annotations

from afnb.plot.forks import divergence, divergence_data
from afnb.plot.outcomes import replays, replays_data
from afnb.plot.style import figure

__all__ = [
    "divergence",
    "divergence_data",
    "figure",
    "replays",
    "replays_data",
]
