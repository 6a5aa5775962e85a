"""The plain alignment that the fast one must equal bit for bit: the whole cost matrix, three states."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from afnb.align.moves import Move
from afnb.align.params import AlignParams

Words = tuple[str, ...]
INF = float("inf")


def slow_matching(a: Sequence[object], b: Sequence[object]) -> int:
    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()  # type: ignore[arg-type]
    return sum(block.size for block in blocks)


def slow_cost(a: Words, b: Words) -> float:
    return 1.0 - difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()


def slow_align(a: Sequence[Words], b: Sequence[Words], params: AlignParams) -> tuple[Move, ...]:
    n, m = len(a), len(b)
    cost = [[slow_cost(x, y) for y in b] for x in a]
    sync, gap_a, gap_b = ([[INF] * (m + 1) for _ in range(n + 1)] for _ in range(3))
    sync[0][0] = 0.0
    for i in range(1, n + 1):
        gap_a[i][0] = params.gap_open + (i - 1) * params.gap_ext
    for j in range(1, m + 1):
        gap_b[0][j] = params.gap_open + (j - 1) * params.gap_ext
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            before = min(sync[i - 1][j - 1], gap_a[i - 1][j - 1], gap_b[i - 1][j - 1])
            sync[i][j] = cost[i - 1][j - 1] + before
            gap_a[i][j] = min(sync[i - 1][j] + params.gap_open, gap_a[i - 1][j] + params.gap_ext)
            gap_b[i][j] = min(sync[i][j - 1] + params.gap_open, gap_b[i][j - 1] + params.gap_ext)

    def best(i: int, j: int) -> str:
        least, state = sync[i][j], "sync"
        if gap_a[i][j] < least:
            least, state = gap_a[i][j], "model"
        if gap_b[i][j] < least:
            state = "log"
        return state

    moves: list[Move] = []
    i, j = n, m
    state = best(i, j)
    while i or j:
        if state == "sync":
            i, j = i - 1, j - 1
            moves.append(Move.sync(i, j, cost[i][j]))
            state = best(i, j)
        elif state == "model":
            i -= 1
            opened = sync[i][j] + params.gap_open <= gap_a[i][j] + params.gap_ext
            least = min([1.0, *cost[i]])
            moves.append(Move.model(i, params.gap_open if opened else params.gap_ext, least))
            state = "sync" if opened else "model"
        else:
            j -= 1
            opened = sync[i][j] + params.gap_open <= gap_b[i][j] + params.gap_ext
            least = min([1.0, *(row[j] for row in cost)])
            moves.append(Move.log(j, params.gap_open if opened else params.gap_ext, least))
            state = "sync" if opened else "log"
    return tuple(reversed(moves))
