"""Small runs and pairs of runs for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from afnb.align.params import AlignParams
from afnb.core.jsonvalue import MISSING
from afnb.core.run import Run, Step

Words = tuple[str, ...]

params = st.tuples(
    st.sampled_from([0.6, 0.5, 0.25, 1.0, 2.5]),
    st.sampled_from([1.0, 0.5, 0.3, 0.05]),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    st.integers(1, 3),
).map(lambda p: AlignParams(p[0], p[0] * p[1], p[2], p[3]))


@st.composite
def word_runs(draw: st.DrawFn) -> tuple[list[Words], list[Words]]:
    """Two runs as words; few symbols and repeated steps, so that ties and equal steps are common."""
    symbols = draw(st.sampled_from(["a", "ab", "abc", "abcdefgh"]))
    step = st.lists(st.sampled_from(symbols), max_size=draw(st.sampled_from([1, 3, 9]))).map(tuple)
    pool = draw(st.lists(step, min_size=1, max_size=6))
    steps = st.lists(st.sampled_from(pool) | step, max_size=draw(st.sampled_from([3, 10])))
    a = draw(steps)
    if draw(st.booleans()):
        return a, draw(steps)
    b = list(a)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(b)))
        if draw(st.booleans()) and place < len(b):
            del b[place]
        else:
            b.insert(place, draw(step))
    return a, b


TEXTS = st.lists(
    st.sampled_from(
        ["plan", "search", "the", "census", "page", "fetch", "refund", "order", "window", "issue", "decline"]
    ),
    max_size=12,
).map(" ".join)
VALUES = (
    TEXTS
    | st.none()
    | st.integers(-3, 3)
    | st.sampled_from([1.0, 1e-05, 2.5, 1e21])
    | st.dictionaries(
        st.sampled_from(["status", "page", "a.b"]), TEXTS | st.integers(0, 2) | st.none(), max_size=3
    )
    | st.lists(TEXTS, max_size=2)
)
NAMES = st.sampled_from(["planner", "web.search", "llm", "answer (retry)"])


@st.composite
def runs(draw: st.DrawFn, max_steps: int = 6) -> Run:
    count = draw(st.integers(0, max_steps))
    steps = tuple(
        Step(i, "llm", draw(NAMES), draw(st.just(MISSING) | VALUES), draw(st.just(MISSING) | VALUES))
        for i in range(count)
    )
    return Run(draw(st.sampled_from(["r1", "r2"])), steps)
