"""AWS event stream frames."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from afnb.core.awsstream import make, parse

FRAME = make("chunk", b'{"a":1}')


@settings(max_examples=60, deadline=None)
@given(
    events=st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=20)), max_size=4),
    extra=st.binary(max_size=11),
)
def test_what_is_made_is_read_back(events: list[tuple[str, bytes]], extra: bytes) -> None:
    data = b"".join(make(kind, payload) for kind, payload in events)
    frames, rest = parse(data + extra)
    assert [(f.header(":event-type"), f.payload) for f in frames] == events
    assert b"".join(f.raw for f in frames) + rest == data + extra


@settings(max_examples=100, deadline=None)
@given(at=st.integers(0, len(FRAME) - 1), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(at: int, bit: int) -> None:
    broken = bytearray(FRAME)
    broken[at] ^= 1 << bit
    assert parse(bytes(broken) + FRAME) == ([], bytes(broken) + FRAME)


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=80))
def test_no_bytes_raise(data: bytes) -> None:
    frames, rest = parse(data)
    assert b"".join(f.raw for f in frames) + rest == data


def test_a_cut_frame_is_the_rest() -> None:
    for cut in range(len(FRAME)):
        assert parse(FRAME + FRAME[:cut]) == (parse(FRAME)[0], FRAME[:cut])
