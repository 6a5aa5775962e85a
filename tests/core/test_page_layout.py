from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from afnb.core import page_layout as layout
from afnb.core.page import Lane, Path

KINDS = list(layout.SEVERITY)
lanes = st.lists(st.sampled_from(KINDS).map(lambda k: Lane(k, "1 a", "1 a")), max_size=200)


@given(lanes, st.integers(1, 50))
def test_folding_keeps_every_tick_once_and_in_order(ticks: list[Lane], room: int) -> None:
    spans = layout.fold(ticks, room)
    assert [i for span in spans for i in range(span.first, span.last + 1)] == list(range(len(ticks)))


@given(lanes, st.integers(1, 50))
def test_folding_stays_near_its_room(ticks: list[Lane], room: int) -> None:
    standing = sum(tick.kind in ("fork", "patched") for tick in ticks)
    spans = layout.fold(ticks, room)
    assert len(spans) <= room + 2 * min(standing, 2 * room) + 2


@given(lanes, st.integers(1, 50))
def test_an_unmixed_span_stands_for_one_kind(ticks: list[Lane], room: int) -> None:
    for span in layout.fold(ticks, room):
        kinds = {tick.kind for tick in ticks[span.first : span.last + 1]}
        assert kinds == {span.kind} if not span.mixed else span.kind in kinds


def test_a_single_fork_in_a_huge_run_is_drawn_by_itself() -> None:
    ticks = [Lane("log", "1 a", None), Lane("model", None, "1 b")] * 5000
    ticks[7000] = Lane("fork", "7 a", "7 b")
    forks = [span for span in layout.fold(ticks, 100) if span.kind == "fork"]
    assert [(span.first, span.mixed) for span in forks] == [(7000, False)]


def test_shares_of_a_slice_count_what_each_run_has_alone() -> None:
    ticks = [Lane("log", "1 a", None)] * 3 + [Lane("model", None, "1 a")] + [Lane("sync", "1 a", "1 a")] * 4
    (span,) = layout.fold(ticks, 1)
    assert span.mixed
    assert span.shares == (3 / 8, 1 / 8)


def test_notes_name_the_fork_even_after_many_gaps() -> None:
    ticks = [Lane("log", f"{i} a", None) for i in range(50)] + [Lane("fork", "50 a", "0 b")]
    chosen, total = layout.notable(ticks)
    assert total == 51
    assert len(chosen) == layout.MAX_NOTES
    assert chosen[-1].kind == "fork"


def test_sentences_of_ticks() -> None:
    names = ("bad", "good")
    assert (
        layout.tick_sentence(Lane("fork", "7 a", "7 b", "x differs"), names)
        == "fork: bad 7 a, good 7 b; x differs"
    )
    assert layout.tick_sentence(Lane("fork", "7 a", None), names) == "fork: bad 7 a"
    assert layout.tick_sentence(Lane("log", "7 a", None), names) == "only in bad: 7 a"
    assert layout.tick_sentence(Lane("model", None, "7 a"), names) == "only in good: 7 a"
    assert layout.tick_sentence(Lane("sync", "7 a", "7 a"), names) == "alike: 7 a"
    assert layout.tick_sentence(Lane("unheard of", None, None), names) == "nearly alike: no step"


def test_sentences_of_paths() -> None:
    assert layout.path_sentence(Path("", (), 20)) == "no block yet; threshold 20"
    assert layout.path_sentence(Path("", (25.0,), 20)) == "25 after 1 block; threshold 20 reached at block 1"
    assert layout.path_sentence(Path("", (1.0, 0.5), 20)) == "0.5 after 2 blocks; threshold 20 not reached"


@given(st.lists(st.floats()), st.floats(allow_nan=False, allow_infinity=False))
def test_heights_stay_inside_the_picture(values: list[float], threshold: float) -> None:
    heights, bar, _ = layout.path_heights(Path("", tuple(values), threshold))
    assert all(0 <= height <= 1 for height in [*heights, bar])
    for value, height in zip(values, heights, strict=True):
        assert (value < threshold) <= (height <= bar + 1e-9)


@given(st.integers(0, 5000), st.integers(2, 400))
def test_thinning_keeps_both_ends(count: int, room: int) -> None:
    kept = layout.thin(count, room)
    assert len(kept) <= max(room, 0) or count <= room
    assert kept == sorted(set(kept))
    if count:
        assert kept[0] == 0
        assert kept[-1] == count - 1
