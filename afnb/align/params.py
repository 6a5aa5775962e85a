"""``AlignParams``: the four numbers an alignment depends on, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from afnb.errors import ParameterError


@dataclass(frozen=True, slots=True)
class AlignParams:
    """Parameters of the alignment and of the fork rule.

    Parameters
    ----------
    gap_open
        Cost of the first step of a gap, on the scale of step costs (0 to 1 a step). Positive.
    gap_ext
        Cost of each further step of a gap. Positive, at most ``gap_open``.
    tau
        A pair of steps that costs at most ``tau`` is in sync. In [0, 1].
    resync_k
        So many in-sync moves after a block of others mean that the runs found together again. At least 1.

    Raises
    ------
    ParameterError
        The first of these that does not hold, in the order ``gap_open``, ``gap_ext``, their order,
        ``tau``, ``resync_k``.

    Examples
    --------
    >>> AlignParams(tau=0.2)
    AlignParams(gap_open=0.6, gap_ext=0.3, tau=0.2, resync_k=2)
    >>> AlignParams(tau=1.5)
    Traceback (most recent call last):
    ...
    afnb.errors.ParameterError: tau is 1.5; expected a number from 0 to 1
    """

    gap_open: float = 0.6
    gap_ext: float = 0.3
    tau: float = 0.3
    resync_k: int = 2

    def __post_init__(self) -> None:
        for name in ("gap_open", "gap_ext"):
            value = getattr(self, name)
            if not _is_number(value) or not math.isfinite(value) or value <= 0:
                raise ParameterError(f"{name} is {value!r}; expected a positive, finite number")
        if self.gap_ext > self.gap_open:
            raise ParameterError(
                f"gap_ext is {self.gap_ext!r}, more than gap_open ({self.gap_open!r}); "
                "going on with a gap may not cost more than opening one"
            )
        if not _is_number(self.tau) or not 0 <= self.tau <= 1:
            raise ParameterError(f"tau is {self.tau!r}; expected a number from 0 to 1")
        if not isinstance(self.resync_k, int) or isinstance(self.resync_k, bool) or self.resync_k < 1:
            raise ParameterError(
                f"resync_k is {self.resync_k!r}; expected a whole number of at least 1, "
                "since 0 would forgive every difference"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
