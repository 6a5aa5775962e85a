"""e-BH: which runs of a batch to report, from one e-value per run."""

from __future__ import annotations

from collections.abc import Sequence

from afnb.errors import ParameterError


def e_bh(e_values: Sequence[float], alpha: float = 0.05) -> tuple[int, ...]:
    """The runs whose verdicts may be reported together, at a false discovery rate of at most ``alpha``.

    With ``R`` e-values, the ``k`` largest are reported for the greatest ``k`` with ``E_(k) >= R/(alpha
    k)``; that holds under any dependence between the runs.

    Parameters
    ----------
    e_values
        One e-value per run, that of its fresh confirmation when it stopped (for several confirmed steps
        the smallest); 0 or 1 for a run without one.
    alpha
        The false discovery rate.

    Returns
    -------
    tuple of int
        Positions of the reported runs, ascending.

    Notes
    -----
    Stopping each run at ``E >= 1/alpha`` leaves this powerless unless nearly all runs have a cause: aim at
    ``1/(alpha q)`` if a share ``q`` of them has one.

    Source: Wang, Ramdas, False discovery rate control with e-values (JRSS-B 2022).

    Examples
    --------
    >>> e_bh([100.0, 1.0, 45.0])
    (0, 2)
    >>> e_bh([24.0, 24.0, 1.0])
    ()
    """
    if not 0.0 < alpha < 1.0:
        raise ParameterError(f"e_bh needs 0 < alpha < 1, got {alpha!r}")
    for position, value in enumerate(e_values):
        if not value >= 0.0:
            raise ParameterError(f"e-value {position} is {value!r}; an e-value is a number of at least 0")
    order = sorted(range(len(e_values)), key=lambda i: (-e_values[i], i))
    reported = 0
    for k, position in enumerate(order, start=1):
        if e_values[position] * alpha * k >= len(e_values):
            reported = k
    return tuple(sorted(order[:reported]))
