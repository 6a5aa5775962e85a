"""Where two runs part: a pure comparison, no files, no clock, no randomness.

::

    steps ─ cost ─ costs ─ gotoh ─ align ── moves ─┬─ fork ────── where the bad run leaves the good one
    (two runs)      (lazy exact matrix)            ├─ fields ──── what changed inside aligned steps
                                                   ├─ deltas ──── time and tokens, bad minus good
                                                   └─ comparable ─ whether the two have anything in common
    diff puts these together; references asks several good runs.

Inside this room side ``a`` is the reference (good) run and side ``b`` the observed (bad) one, and the
cost of two steps is not symmetric; public functions take ``bad, good``.
"""
